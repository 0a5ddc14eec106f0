"""``embercoach report`` beside a baseline and earlier runs: what is new, known and fixed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest
from selectolax.lexbor import LexborHTMLParser

from embercoach.report import json_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from selectolax.lexbor import LexborNode

    from tests.cli.conftest import Ran

    Cli = Callable[..., Ran]

HEAD = "import mlx.core as mx\n\n\n"
PULL = (
    "def f{0}(x: mx.array):\n    return mx.full(2, x.item())\n\n\nfor x in xs:\n    f{0}(x)\n\n\n"
)
LIST = "def g{0}(x: mx.array):\n    return x.tolist() * x\n\n\nfor x in data:\n    g{0}(x)\n\n\n"
#: What is found later: of the four known ones two are fixed, and two are new.
BEFORE = {
    "a.py": HEAD + PULL.format(0) + LIST.format(0),
    "gone.py": HEAD + PULL.format(1) + "# x * 2 is style\n" + LIST.format(1),
}
AFTER = {
    "a.py": HEAD + "# moved\n" + LIST.format(0) + PULL.format(0) + LIST.format(2),
    "new.py": HEAD + PULL.format(3) + "def h(x: mx.array):\n    return x * 2\n",
}
CHANGES = {
    "totals": {"new": 2, "known": 2, "fixed": 2},
    "families": {"graph-break": (1, 1, 1), "host-pull": (1, 1, 1)},
    "rules": {"GRAPH-BREAK-001": (1, 1, 1), "HOST-PULL-001": (1, 1, 1)},
    "files": {"t/a.py": (1, 2, 0), "t/new.py": (1, 0, 0), "t/gone.py": (0, 0, 2)},
}


def write(files: dict[str, str]) -> None:
    Path("t").mkdir(exist_ok=True)
    for old in Path("t").iterdir():
        old.unlink()
    for name, text in files.items():
        (Path("t") / name).write_text(text)


def page(name: str) -> LexborHTMLParser:
    return LexborHTMLParser(Path(name).read_text(encoding="utf-8"))


def rows_of(section: LexborNode, table: str) -> dict[str, tuple[int, ...]]:
    """The numbers of a section's table, by the first words of its rows."""
    heading = section.css_first(f"h3[id$={table}]")
    assert heading.parent is not None
    return {
        row.css_first("th").text().split()[0]: tuple(
            int(cell.text()) for cell in row.css("td.number")
        )
        for row in heading.parent.css("tbody tr")
    }


def changes_in(section: LexborNode) -> dict[str, dict[str, object]]:
    totals = {
        str(node.attributes["data-change"]): int(node.text())
        for node in section.css("[data-change]")
    }
    tables = {name: rows_of(section, name) for name in ("families", "rules", "files")}
    return {"totals": totals, **tables}  # type: ignore[dict-item]


def check_to(embercoach: Cli, file: str, *options: str) -> None:
    ran = embercoach("check", "t", "--isolated", *options, "--output-format", "json", "-o", file)
    assert ran.code in (0, 1)


def test_beside_a_baseline(embercoach: Cli, project: Path) -> None:
    write(BEFORE)
    embercoach("baseline", "update", "--isolated", "--baseline", "base.json", "t")
    write(AFTER)
    baseline = ("--baseline", "base.json")
    embercoach("report", "--isolated", *baseline, "-q", "-o", "run.html", "t")
    assert changes_in(page("run.html").css_first("#since-baseline")) == CHANGES
    assert not page("run.html").css("#since-before, #runs")
    # What is saved says as much, and follows the published schema.
    check_to(embercoach, "saved.json", *baseline)
    document = json.loads(Path("saved.json").read_text())
    schema = Path(json_report.__file__).with_name("findings.schema.json")
    jsonschema.Draft202012Validator(json.loads(schema.read_text())).validate(document)
    embercoach("report", "--from", "saved.json", "-q", "-o", "saved.html")
    assert changes_in(page("saved.html").css_first("#since-baseline")) == CHANGES
    # Without the breakdown, as earlier versions have saved it, there are the totals alone.
    del document["summary"]["baseline"]["changes"]
    Path("old.json").write_text(json.dumps(document))
    assert embercoach("report", "--from", "old.json", "-q", "-o", "old.html").code == 0
    assert not page("old.html").css("#since-baseline")
    assert page("old.html").css_first("[data-total=fixed]").text() == "2"


def test_against_earlier_runs(embercoach: Cli, project: Path) -> None:
    write({})
    (project / "t" / "a.py").write_text(HEAD)
    check_to(embercoach, "1.json")
    write(BEFORE)
    check_to(embercoach, "2.json")
    write(AFTER)
    against = ("--against", "1.json", "--against", "2.json")
    embercoach("report", "--isolated", *against, "-q", "-o", "run.html", "t")
    found = page("run.html")
    assert changes_in(found.css_first("#since-before")) == CHANGES
    assert found.css_first("#since-before h2").text() == "Since 2.json"
    runs = {
        row.css_first("th").text(): [int(cell.text()) for cell in row.css("td.number")]
        for row in found.css("#runs tbody tr")
    }
    assert runs == {"1.json": [0, 0, 0], "2.json": [0, 4, 0], "this report": [0, 4, 1]}
    # The rule of what is left is a link, that of what is gone is not.
    assert found.css("#since-before-rules ~ table a")
    assert [node.text() for node in found.css("#since-before-files ~ table a")] == [
        "t/a.py",
        "t/new.py",
    ]
    check_to(embercoach, "3.json")
    embercoach("report", "--from", "3.json", *against, "-q", "-o", "saved.html")
    assert changes_in(page("saved.html").css_first("#since-before")) == CHANGES


def test_nothing_changed(embercoach: Cli, project: Path) -> None:
    write(BEFORE)
    check_to(embercoach, "1.json")
    embercoach("report", "--isolated", "--against", "1.json", "-q", "-o", "run.html", "t")
    totals = changes_in(page("run.html").css_first("#since-before"))["totals"]
    assert totals == {"new": 0, "known": 4, "fixed": 0}
    for part in (("t/a.py",), ("--select", "HOST-PULL", "t")):
        embercoach("report", "--isolated", "--against", "1.json", "-q", "-o", "run.html", *part)
        totals = changes_in(page("run.html").css_first("#since-before"))["totals"]
        assert totals == {"new": 0, "known": 2, "fixed": 0}, "what is not checked is not fixed"


def without_fingerprints(document: dict[str, object]) -> None:
    findings = document["findings"]
    assert isinstance(findings, list)
    for finding in findings:
        del finding["fingerprint"]


def with_baseline(document: dict[str, object]) -> None:
    summary = document["summary"]
    assert isinstance(summary, dict)
    summary["baseline"] = {"known": 1, "fixed": 0}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without_fingerprints, "findings have no fingerprints; run the check again"),
        (with_baseline, "1.json was made with a baseline, the other report without"),
    ],
)
def test_what_cannot_be_compared(
    embercoach: Cli, project: Path, change: Callable[[dict[str, object]], None], words: str
) -> None:
    write(BEFORE)
    check_to(embercoach, "1.json")
    document = json.loads(Path("1.json").read_text())
    change(document)
    Path("1.json").write_text(json.dumps(document))
    ran = embercoach("report", "--isolated", "--against", "1.json", "-o", "run.html", "t")
    assert ran.code == 2
    assert words in ran.err
    assert not Path("run.html").exists()


def test_an_earlier_run_that_is_not_there(embercoach: Cli, project: Path) -> None:
    write(BEFORE)
    ran = embercoach("report", "--isolated", "--against", "gone.json", "t")
    assert (ran.code, ran.out) == (2, "")
    assert "gone.json" in ran.err
