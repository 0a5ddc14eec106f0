"""Pages in Chromium: what the tests of each page share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.report.test_html_browser import BROWSER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

sync_api = pytest.importorskip("playwright.sync_api", reason="needs the extra `browser`")
axe_api = pytest.importorskip("axe_playwright_python.sync_playwright")
MARKS = [pytest.mark.browser, pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")]
WIDTHS, SCHEMES = (400, 1280), ("light", "dark")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


def opened(
    browser: Any, file: Path, fragment: str = "", scheme: str = "light", width: int = 1280
) -> Any:
    """Open a page at a fragment."""
    page = browser.new_page(
        color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True
    )
    page.goto(f"{file.as_uri()}{fragment}")
    return page


def close_accessible(page: Any) -> None:
    """Require that axe finds nothing and that the page is as wide as its window; close it."""
    violations = axe_api.Axe().run(page).response["violations"]
    found = [(one["id"], node["html"]) for one in violations for node in one["nodes"]]
    is_wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    page.close()
    assert (found, is_wide) == ([], False)
