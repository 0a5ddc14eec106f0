"""Links to the pages of rules: in SARIF, terminals and HTML, all by one setting."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from embercoach import rulebook
from embercoach.report import sarif
from embercoach.report.html.rendering import pages
from embercoach.report.outcome import SourceTexts
from embercoach.report.styled import print_lines
from embercoach.rulebook import RULES_URL, SITE, page_url, rule_url
from tests.examples.programs import imported
from tests.report.conftest import FINDINGS, Outcome

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from embercoach.report.styled import Line

ROOT = Path(__file__).parents[2]
CODE = "HOST-PULL-001"
OTHER = "https://example.org/rules?code={code}"
HEAD: Line = [("a.py:1:1: ", "path"), (CODE, "code"), (" ", ""), ("x\x1b]8;;http://b\x1b\\", "")]
VARIABLES = (
    "CI", "DOMTERM", "FORCE_COLOR", "FORCE_HYPERLINK", "KONSOLE_VERSION", "NO_COLOR", "STY", "TERM",
    "TERM_PROGRAM", "TMUX", "VTE_VERSION", "WT_SESSION",
)  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(stream: io.StringIO, rules_url: str = RULES_URL) -> str:
    print_lines([HEAD], stream, rules_url=rules_url)
    return stream.getvalue()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_the_site_is_that_of_the_metadata_and_of_the_owner() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["urls"]["Documentation"] == SITE
    owner = imported(".ci/owner.py")
    moved = owner.replaced(RULES_URL, owner.owner(ROOT), "somebody")
    assert moved == "https://somebody.github.io/embercoach/rules/{code}/"


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rulebook, "PUBLISHED", True)


@pytest.mark.parametrize("code", ["NONE-001", "../x", "HOST-PULL-001\x1b]8;;"])
@pytest.mark.usefixtures("published")
def test_a_code_without_a_page_has_no_link(code: str) -> None:
    assert rule_url(CODE) == page_url(CODE) == f"{SITE}rules/{CODE}/"
    assert rule_url(code) is page_url(code) is None


def test_before_there_is_a_site_the_page_is_the_file_of_this_machine() -> None:
    assert page_url(CODE) == (ROOT / "rules" / f"{CODE}.md").as_uri()
    assert rule_url(CODE) is page_url(CODE, "") is None
    assert rule_url(CODE, OTHER) == page_url(CODE, OTHER) == OTHER.replace("{code}", CODE)


@pytest.mark.parametrize(
    ("variables", "linked"),
    [
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM_PROGRAM": "vscode"}, True),
        ({"TERM_PROGRAM": "Apple_Terminal"}, False),
        ({"VTE_VERSION": "7603"}, True),
        ({"VTE_VERSION": "4801"}, False),
        ({"VTE_VERSION": "9" * 5000}, True),
        ({"WT_SESSION": "1"}, True),
        ({"WT_SESSION": "1", "TMUX": "/tmp/x"}, False),
        ({"WT_SESSION": "1", "CI": "true"}, False),
        ({"WT_SESSION": "1", "TERM": "dumb"}, False),
        ({"WT_SESSION": "1", "NO_COLOR": "1"}, False),
        ({"WT_SESSION": "1", "FORCE_HYPERLINK": "0"}, False),
        ({"FORCE_HYPERLINK": "1"}, True),
    ],
)
def test_codes_are_links_on_terminals_that_show_them(
    variables: dict[str, str], linked: bool, environment: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        environment.setenv(name, value)
    text = printed(Terminal())
    assert (f";{page_url(CODE)}\x1b\\" in text) == linked
    # What is linted writes none.
    assert text.count("\x1b]8;") == (2 if linked else 0)
    assert "http://b" in text


def test_a_file_has_links_only_where_it_is_asked_for(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("WT_SESSION", "1")
    assert "\x1b" not in printed(io.StringIO())
    environment.setenv("FORCE_COLOR", "1")
    assert "\x1b]8;" not in printed(io.StringIO())
    environment.setenv("FORCE_HYPERLINK", "1")
    assert f";{OTHER.replace('{code}', CODE)}\x1b\\" in printed(io.StringIO(), OTHER)
    assert "\x1b]8;" not in printed(io.StringIO(), "")


@pytest.mark.parametrize("there", [False, True])
def test_each_rule_of_sarif_has_its_page(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rulebook, "PUBLISHED", there)
    codes = sorted(rulebook.static_codes())
    outcome = Outcome(tuple(replace(FINDINGS[0], code=code) for code in codes))

    def driver(**options: str) -> dict[str, object]:
        log = sarif.document(outcome, SourceTexts(), profile="ember", exit_code=0, **options)  # type: ignore[arg-type]
        found: dict[str, object] = log["runs"][0]["tool"]["driver"]
        return found

    def links(driver: dict[str, object]) -> list[object]:
        rules = driver["rules"]
        assert isinstance(rules, list)
        return [rule.get("helpUri") for rule in rules]

    assert driver().get("informationUri") == (SITE if there else None)
    assert links(driver()) == [f"{SITE}rules/{code}/" if there else None for code in codes]
    assert links(driver(rules_url=OTHER)) == [OTHER.replace("{code}", code) for code in codes]
    assert set(links(driver(rules_url=""))) == {None}


@pytest.mark.usefixtures("published")
def test_pages_of_the_html_report_link_to_the_site() -> None:
    assert [page.url for page in pages([CODE, "LATER-001"])] == [rule_url(CODE), None]
    assert [page.url for page in pages([CODE], "")] == [None]
