"""The documentation's site in Chromium: its first screen, accessibility by axe, and search."""

from __future__ import annotations

import shutil
from runpy import run_path
from typing import TYPE_CHECKING, Any

import pytest

from tests.examples.programs import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

axe_api = pytest.importorskip("axe_playwright_python.sync_playwright", reason="extra `browser`")
from tests.docs.test_site import site  # noqa: E402

__all__ = ["site"]
SCREENS: dict[str, Any] = run_path(str(ROOT / ".ci" / "screenshots.py"))
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not any(map(shutil.which, SCREENS["BROWSERS"])), reason="no Chromium"),
]
#: Material's script puts a navigation without a name into each block of code.
AXE = {"rules": {"landmark-unique": {"enabled": False}}}
DESKTOP, PHONE = SCREENS["SIZES"]
every_screen = pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
every_scheme = pytest.mark.parametrize("scheme", SCREENS["SCHEMES"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with SCREENS["browser"]() as started:
        yield started


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with SCREENS["served"](site) as url:
        yield url


@every_scheme
@every_screen
@pytest.mark.parametrize("path", ["", "rules/"], ids=["landing", "rules"])
def test_axe_has_no_objection(
    path: str, size: tuple[int, int], scheme: str, browser: Any, address: str
) -> None:
    with SCREENS["opened"](browser, address + path, size, scheme) as page:
        violations = axe_api.Axe().run(page, options=AXE).response["violations"]
        is_wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    found = [(one["id"], node["html"]) for one in violations for node in one["nodes"]]
    assert (found, is_wide) == ([], False)


@every_screen
def test_the_first_screen(size: tuple[int, int], browser: Any, address: str) -> None:
    """What it is, how to install it, the sample report, and a finding in the terminal."""
    selectors = [".landing h1", ".landing header pre", ".landing a[href='sample-report/']"]
    with SCREENS["opened"](browser, address, size, "light") as page:
        boxes = {one: page.locator(one).bounding_box() for one in selectors}
        terminal = page.locator(".landing img[src*='terminal']").bounding_box()
    assert {one for one, box in boxes.items() if box["y"] + box["height"] > size[1]} == set()
    assert terminal["y"] + terminal["height"] / 2 < size[1]


def test_search_needs_no_network(browser: Any, address: str) -> None:
    """``opened`` refuses requests to other hosts."""
    with SCREENS["opened"](browser, address, DESKTOP, "light") as page:
        page.click("[data-md-component='search-query']")
        page.keyboard.type("detaches the gradient")
        page.wait_for_selector(".md-search-result__item a[href*='rules/']")
