"""The HTML report as a browser draws it: the script runs, and what is hostile does not."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from selectolax.lexbor import LexborHTMLParser

from embercoach.finding import Step
from embercoach.report.html.rendering import render
from tests.notebooks.written import notebook, prose, written
from tests.report.conftest import FINDINGS
from tests.report.test_html import document_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from selectolax.lexbor import LexborNode

    Open = Callable[..., LexborHTMLParser]

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason=f"there is none of {', '.join(NAMES)}"),
]
HOSTILE = "</script><script>document.title='hit'</script><img src=x onerror=document.title='hit'>"


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """Open a report at a fragment, and run a script of the test after the page's own.

    The result is the page after both.
    """

    def call(document: dict[str, Any], fragment: str, script: str = "") -> LexborHTMLParser:
        page = tmp_path / "report.html"
        text = with_script(render(document, readable=lambda _: True), script)
        page.write_text(text, encoding="utf-8")
        assert BROWSER is not None
        ran = subprocess.run(
            [
                BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu",
                f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr",
                "--virtual-time-budget=3000", "--dump-dom", f"{page.as_uri()}#{fragment}",
            ],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        # Errors of the script, and what the content security policy has refused.
        assert [line for line in ran.stderr.splitlines() if "CONSOLE" in line] == []
        return LexborHTMLParser(ran.stdout)

    return call


def with_script(page: str, script: str) -> str:
    """A page with a further script, which its content security policy permits."""
    if not script:
        return page
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    head, policy, rest = page.partition("script-src ")
    assert policy
    return f"{head}{policy}'sha256-{digest}' {rest}".replace(
        "</body>", f"<script>{script}</script></body>"
    )


def choosing(field: str, value: str) -> str:
    """A script that chooses a value, as a reader does."""
    return f"""
        const field = document.getElementById("{field}");
        field.value = "{value}";
        field.dispatchEvent(new Event("input", {{ bubbles: true }}));
    """


def pressing(*keys: str) -> str:
    """A script that presses keys where the focus is."""
    return f"""
        for (const key of {json.dumps(keys)}) {{
            const event = new KeyboardEvent("keydown", {{ key, bubbles: true, cancelable: true }});
            document.activeElement.dispatchEvent(event);
        }}
        document.activeElement.setAttribute("data-focused", "");
    """


def focused(tree: LexborHTMLParser) -> LexborNode:
    return tree.css_first("[data-focused]")


def codes_in(tree: LexborHTMLParser) -> list[str]:
    return [node.text() for node in tree.css("#list button.rule")]


def is_hidden(tree: LexborHTMLParser, selector: str) -> bool:
    return "hidden" in tree.css_first(selector).attributes


def test_the_list_is_drawn_in_pages(opened: Open) -> None:
    found = [replace(FINDINGS[1], line=n, end_line=n) for n in range(1, 20_001)]
    tree = opened(document_of(*found), "view=findings&page=3")
    assert len(tree.css("#list > li")) == 100
    shown = tree.css_first("#status").text()
    assert shown == "Showing 201 to 300 of 20,000 findings."
    assert tree.css_first("#list a.path").text() == "src/model.py:201:12"


@pytest.mark.parametrize(
    ("fragment", "codes"),
    [
        ("view=findings", ["KERNEL-SIG-005", "GRAPH-BREAK-001"]),
        ("view=findings&severity=note", ["PYTHON-SCALAR-002"]),
        ("view=findings&rule=PYTHON-SCALAR-002", ["PYTHON-SCALAR-002"]),
        ("view=findings&family=graph-break", ["GRAPH-BREAK-001"]),
        ("view=findings&search=INP0+declared", ["KERNEL-SIG-005"]),
        ("view=findings&search=nowhere", []),
        ("view=findings&sort=rule", ["GRAPH-BREAK-001", "KERNEL-SIG-005"]),
    ],
)
def test_filters(opened: Open, fragment: str, codes: list[str]) -> None:
    tree = opened(document_of(*(replace(f, fix=None) for f in FINDINGS[:3])), fragment)
    assert [node.text() for node in tree.css("#list button.rule")] == codes


def test_it_opens_on_errors_and_warnings_by_harm(opened: Open) -> None:
    slow = replace(FINDINGS[1], context="avoidable")
    traced = replace(FINDINGS[1], line=9, end_line=9, context="compiled")
    tree = opened(document_of(slow, traced, replace(FINDINGS[2], fix=None)), "")
    assert [is_hidden(tree, view) for view in ("#overview", "#findings", "#file")] == [
        True,
        False,
        True,
    ]
    contexts = [node.text() for node in tree.css("#list .name") if node.text().startswith("in: ")]
    assert contexts == ["in: compiled", "in: avoidable"]
    assert tree.css_first("#notes").text() == "Show 1 note"
    assert tree.css_first('[data-view="findings"]').attributes["aria-current"] == "page"


def test_it_opens_on_the_overview_without_errors_and_warnings(opened: Open) -> None:
    tree = opened(document_of(replace(FINDINGS[2], fix=None)), "")
    assert not is_hidden(tree, "#overview")
    assert is_hidden(tree, "#findings")


def test_equal_findings_are_a_row_that_opens_to_its_places(opened: Open, tmp_path: Path) -> None:
    places = {"column": 5, "end_column": 13, "fix": None, "help": HOSTILE, "message": HOSTILE}
    found = []
    for name in ("a.py", "b.py"):
        path = tmp_path / name
        path.write_text("x = y.item()\n" * 2500, encoding="utf-8")
        lines = [{"line": n, "end_line": n, "path": str(path)} for n in range(1, 2501)]
        found += [replace(FINDINGS[1], **places, **line) for line in lines]
    script = "document.querySelector('#list details.places:last-of-type').open = true;"
    tree = opened(document_of(*found), "view=findings", script)
    assert tree.css_first("#status").text() == "5,000 findings in 1 group."
    (row,) = tree.css("#list > li")
    assert row.css_first(".times").text() == "5,000 times"
    assert [node.text() for node in row.css(".help")] == [HOSTILE]
    files = [node.text() for node in row.css("h2")]
    assert files == [f"{tmp_path / name} 2,500" for name in ("a.py", "b.py")]
    links = row.css(".lines a")
    assert [links[at].text() for at in (0, 2499, 2500)] == ["1:5", "2500:5", "1:5"]
    assert len(links) == 5000
    assert links[-1].attributes["href"] == "#view=file&file=1&finding=4999"


def test_rows_are_ordered_by_severity_then_count(opened: Open, tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("x = 1\ny = 2\ny = 2\nz = 3\n", encoding="utf-8")
    place = {"path": str(path), "column": 1, "end_column": 2, "fix": None}
    found = [replace(FINDINGS[1], line=n, end_line=n, **place) for n in (1, 2, 3)]
    error = replace(FINDINGS[0], line=4, end_line=4, **place)
    tree = opened(document_of(*found, error), "view=findings")
    first = [node.text().partition("py:")[2] for node in tree.css("#list .meta a.path")]
    assert first == ["4:1", "2:1", "1:1"]
    tree = opened(document_of(*found, error), "view=file&file=0")
    folded = [node.text() for node in tree.css(".here summary") if "as in" in node.text()]
    assert folded == ["warning GRAPH-BREAK-001 as in line 2"]


@pytest.mark.parametrize(
    ("fragment", "buttons"),
    [
        ("search=nowhere", ["Clear search “nowhere”: 2 findings"]),
        ("rule=PYTHON-SCALAR-002&severity=error", [
            "Clear rule “PYTHON-SCALAR-002”: 1 finding", "Show all severities: 1 finding",
        ]),
        ("rule=DTYPE-001&search=nowhere", ["Clear search “nowhere”: 1 finding"]),
        ("rule=DTYPE-001&family=python-scalar&search=nowhere", [
            "Clear all filters: 3 findings",
        ]),
    ],
)  # fmt: skip
def test_an_empty_list_says_which_filter_to_clear(
    opened: Open, fragment: str, buttons: list[str]
) -> None:
    found = [replace(one, fix=None) for one in (FINDINGS[0], FINDINGS[2], FINDINGS[3])]
    tree = opened(document_of(*found), f"view=findings&{fragment}")
    assert codes_in(tree) == []
    assert [node.text() for node in tree.css("#empty button")] == buttons
    script = "document.querySelector('#empty button').click();"
    tree = opened(document_of(*found), f"view=findings&{fragment}", script)
    assert is_hidden(tree, "#empty")
    assert f"{len(codes_in(tree))} finding" in buttons[0]


def test_notes_are_folded(opened: Open) -> None:
    document = document_of(*(replace(f, fix=None) for f in FINDINGS[:3]))
    script = "document.getElementById('notes').click();"
    tree = opened(document, "view=findings", script)
    assert codes_in(tree) == ["KERNEL-SIG-005", "GRAPH-BREAK-001", "PYTHON-SCALAR-002"]
    assert is_hidden(tree, "#notes")


def test_a_chosen_rule_of_notes_shows_them(opened: Open) -> None:
    document = document_of(*(replace(f, fix=None) for f in FINDINGS[:3]))
    tree = opened(document, "view=findings", choosing("rule", "PYTHON-SCALAR-002"))
    assert codes_in(tree) == ["PYTHON-SCALAR-002"]
    tree = opened(document, "view=findings", choosing("rule", "GRAPH-BREAK-001"))
    assert codes_in(tree) == ["GRAPH-BREAK-001"]
    tree = opened(document, "view=findings&severity=warning", choosing("family", "python-scalar"))
    assert codes_in(tree) == []
    assert tree.css_first("#notes").text() == "Show 1 note"


def test_notes_in_a_file_are_folded(opened: Open, tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("x = y * 2.0\nz = y * 3.0\n", encoding="utf-8")
    places = [{"line": n, "end_line": n, "column": 5, "end_column": 12} for n in (1, 2)]
    found = [replace(FINDINGS[2], path=str(path), fix=None, **place) for place in places]
    tree = opened(document_of(*found), "view=file&file=0&finding=1")
    notes = tree.css(".here.note > details")
    assert ["open" in note.attributes for note in notes] == [False, True]
    assert notes[0].css_first("summary").text() == "note PYTHON-SCALAR-002"


def test_permalinks_have_fingerprint_and_rule(opened: Open) -> None:
    found = [replace(one, fix=None) for one in FINDINGS[:2]]
    before = document_of(*found, marks=("a" * 32, "b" * 32))
    (link,) = opened(before, "view=findings&rule=GRAPH-BREAK-001").css("#list a.path")
    href = link.attributes["href"] or ""
    assert href == f"#view=file&rule=GRAPH-BREAK-001&fingerprint={'b' * 16}"
    later = document_of(replace(found[1], line=9, end_line=9), marks=("b" * 32,))
    tree = opened(later, href.removeprefix("#"))
    assert tree.css_first("#file-status").text() == "Finding 1 of 1"
    assert tree.css_first(".here.warning").attributes["aria-label"] == "Line 9, column 12"


def test_a_permalink_to_a_fixed_finding_lists_its_rule(opened: Open) -> None:
    found = [replace(one, fix=None) for one in FINDINGS[:2]]
    document = document_of(*found, marks=("a" * 32, "b" * 32))
    tree = opened(document, f"view=file&rule=GRAPH-BREAK-001&fingerprint={'c' * 16}")
    assert codes_in(tree) == ["GRAPH-BREAK-001"]
    assert tree.css_first("#status").text().startswith("The linked finding is not in this report.")


@pytest.mark.parametrize(
    ("view", "keys", "line"),
    [
        ("view=findings", "j", "src/model.py:1:12"),
        ("view=findings", "jjj", "src/model.py:3:12"),
        ("view=findings", "jjk", "src/model.py:1:12"),
        ("view=file&file=0", "jj", "Line 2, column 12"),
        ("view=file&file=0", "jjk", "Line 1, column 12"),
    ],
)
def test_keys_step_through_findings(opened: Open, view: str, keys: str, line: str) -> None:
    found = [replace(FINDINGS[1], line=n, end_line=n) for n in (1, 2, 3)]
    node = focused(opened(document_of(*found), view, pressing(*keys)))
    assert (node.attributes.get("aria-label") or node.text()) == line


def test_the_key_of_the_search_and_of_the_help(opened: Open) -> None:
    document = document_of(replace(FINDINGS[1], fix=None))
    tree = opened(document, "view=overview", pressing("/"))
    assert focused(tree).attributes["id"] == "search"
    assert not is_hidden(tree, "#findings")
    tree = opened(document, "view=overview", pressing("/", "?"))
    assert "open" not in tree.css_first("#drawer").attributes
    tree = opened(document, "view=overview", pressing("?"))
    assert "open" in tree.css_first("#drawer").attributes
    assert [node.text() for node in tree.css("#drawer kbd")] == ["/", "j", "k", "Enter", "?"]


def test_steps_lead_to_their_lines(opened: Open, tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("import mlx\ny = f(x)\nfor i in z:\n    y.item()\n", encoding="utf-8")
    finding = replace(
        FINDINGS[1],
        path=str(path), line=4, column=5, end_line=4, end_column=13,
        flow=(Step(2, 1, 2, 9, f"`y` is {HOSTILE}"),),
        related=(Step(3, 10, 3, 11, "the loop over `z`"),),
    )  # fmt: skip
    tree = opened(document_of(finding), "view=findings")
    titles = [node.text() for node in tree.css("#list details summary")]
    assert titles == ["Where it came from 1", "See also 1"]
    links = [node.attributes["href"] for node in tree.css("#list details a")]
    assert links == [f"#view=file&file=0&finding=0&at={line}" for line in (2, 3)]
    assert tree.css_first("#list details li").text() == f"line 2 y is {HOSTILE}"
    assert not tree.css("img")
    tree = opened(document_of(finding), (links[1] or "").removeprefix("#"))
    assert tree.css_first("#source #line-3 .text").text() == "for i in z:"
    assert tree.css_first(".here details").attributes.get("open") is not None


def test_a_notebook_is_shown_cell_by_cell(opened: Open, tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    cells = (
        *("import mlx\n%pip install mlx", prose("# Loss")),
        *(f"y = 1\n\nx = y.item()  # {HOSTILE}", "z = 1"),
    )
    path.write_text(written(notebook(*cells)), encoding="utf-8")
    place = {"path": str(path), "cell": 3, "line": 3, "column": 5, "end_line": 3, "end_column": 13}
    document = document_of(replace(FINDINGS[1], **place))
    tree = opened(document, "view=findings")
    assert tree.css_first("#list a.path").text() == f"{path}:cell 3:3:5"
    # Neighbouring cells are no lines around it.
    assert [node.text() for node in tree.css("#list .excerpt .no")] == ["2", "3"]
    tree = opened(document, "view=file&file=0&finding=0")
    assert [node.text() for node in tree.css("#source .gap")] == [
        *("Cell 1", "Cell 3", "Cell 4"),
    ]
    numbers = [node.text() for node in tree.css("#source .no")]
    assert numbers == ["1", "2", "1", "2", "3", "1"]
    assert [node.text() for node in tree.css("#source mark")] == ["y.item()"]
    note = tree.css_first("#source .row.warning + .here")
    assert note.attributes["aria-label"] == "Cell 3, line 3, column 5"
    assert not tree.css("img")


def test_a_file_has_its_findings_in_place(opened: Open, tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(
        f"import mlx\n日本\N{GRINNING FACE} = y.item()\nx = '''{HOSTILE}'''\n", encoding="utf-8"
    )
    finding = replace(
        FINDINGS[1], path=str(path), line=2, column=7, end_line=2, end_column=15, message=HOSTILE
    )
    tree = opened(document_of(finding), "view=file&file=0&finding=0")
    rows = [row.css_first(".text").text() for row in tree.css("#source .row")]
    assert rows == path.read_text(encoding="utf-8").splitlines()
    assert [node.text() for node in tree.css("#source mark")] == ["y.item()"]
    assert tree.css_first("#source .row.warning + .here .message").text() == HOSTILE
    assert "hit" not in tree.css_first("title").text()
    assert not tree.css("img")
