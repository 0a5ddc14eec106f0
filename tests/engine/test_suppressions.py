"""Suppression comments: what they cover, and which are idle."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embercoach import rulebook
from embercoach.config import Settings
from embercoach.engine.inspection import Inspection
from embercoach.engine.languages import may_hold_directives
from embercoach.engine.suppressions import read_directives
from embercoach.engine.verdict import Judge
from embercoach.finding import Finding, Fix
from embercoach.fixes.application import apply, settle

G1, G2, H1, D1 = "GRAPH-BREAK-001", "GRAPH-BREAK-002", "HOST-PULL-001", "DTYPE-001"


def read(source: str) -> list[tuple[str, list[str], bool]]:
    return [(d.kind, [i.word for i in d.items], d.blanket) for d in read_directives(source)]


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("# noqa", [("noqa", [], True)]),
        ("#NoQA", [("noqa", [], True)]),
        ("# noqa because", [("noqa", [], True)]),
        (f"# noqa: {G1}", [("noqa", [G1], False)]),
        (f"#noqa:{G1},{H1}", [("noqa", [G1, H1], False)]),
        (f"# noqa : {G1} , {H1}", [("noqa", [G1, H1], False)]),
        (f"# noqa: E501 {G1}, PLR0913", [("noqa", ["E501", G1, "PLR0913"], False)]),
        (f"# noqa: {G1} the value is needed here", [("noqa", [G1], False)]),
        (f"# noqa: {G1} IS fine", [("noqa", [G1], False)]),
        ("# noqa: GRAPH-BREAK", [("noqa", ["GRAPH-BREAK"], False)]),
        ("# noqa: DTYPE", [("noqa", ["DTYPE"], False)]),
        ("# noqa: graph-break-001", [("noqa", ["graph-break-001"], False)]),
        ("# noqa: host-pull", [("noqa", ["host-pull"], False)]),
        ("# noqa: left-over", []),
        ("# noqa: because I say so", []),
        ("# noqa:", []),
        ("# type: ignore  # noqa: E501", [("noqa", ["E501"], False)]),
        (
            f"# noqa: E501  # embercoach: ignore[{G1}] why",
            [("noqa", ["E501"], False), ("ignore", [G1], False)],
        ),
        ("# embercoach: ignore", [("ignore", [], True)]),
        ("# embercoach: ignore the loss", [("ignore", [], True)]),
        (f"# embercoach: ignore {G1} why", [("ignore", [G1], False)]),
        (f"# embercoach: ignore-file: {G1}", [("ignore-file", [G1], False)]),
        ("# embercoach:ignore because", [("ignore", [], True)]),
        (f"# embercoach: ignore[{G1}]", [("ignore", [G1], False)]),
        (f"# EmberCoach: Ignore [{G1}, dtype] since", [("ignore", [G1, "dtype"], False)]),
        ("# embercoach: ignore[]", []),
        (f"# embercoach: ignore[{G1}", []),
        (f"# embercoach: ignore-file[{G1}]", [("ignore-file", [G1], False)]),
        ("# embercoach: ignore-file", [("ignore-file", [], True)]),
        (f"# embercoach: disable={G1}", [("ignore", [G1], False)]),
        (f"# embercoach: noqa[{G1}]", [("ignore", [G1], False)]),
        ("# embercoach: skip-file generated", [("skip-file", [], True)]),
        ("# embercoach: ignore-next-line", []),
        ("# embercoach: ignored", []),
        ("# noqas", []),
        ("# not noqa", []),
        ("# ruff: noqa", []),
        ("# flake8: noqa: E501", []),
        ("# see embercoach.toml", []),
    ],
)
def test_reading(comment: str, expected: list[tuple[str, list[str], bool]]) -> None:
    assert read(f"x = 1  {comment}\n") == expected
    assert not expected or may_hold_directives(comment.encode())


@pytest.mark.parametrize(
    "source",
    [
        'x = "# noqa"\n',
        'x = """\n# noqa\n# embercoach: ignore\n"""\n',
        'x = f"""{y}\n# embercoach: skip-file\n"""\n',
        "x = r'# embercoach: ignore'\n",
    ],
)
def test_a_string_is_no_comment(source: str) -> None:
    assert read(source) == []


@pytest.mark.parametrize("broken", ["x = (  # noqa\n", "# noqa\n'''\n", "# noqa\n  x\n y\n"])
def test_comments_before_a_mistake_count(broken: str) -> None:
    assert read(broken) == [("noqa", [], True)]


def raw(code: str, line: int, end_line: int | None = None) -> Finding:
    return Finding(code, line, 1, end_line or line, 2, "m", "h", "default")


def judged(
    source: str, *findings: Finding, enabled: frozenset[str] | None = None
) -> tuple[list[Finding], int]:
    settings = Settings(root=Path("/p"), enabled=enabled or rulebook.codes())
    judge = Judge(settings)
    inspection = Inspection("checked", "", (), findings, read_directives(source))
    verdict = judge.judge(Path("/p/a.py"), "a.py", inspection)
    return verdict.findings, verdict.suppressed


COVER = [
    # One line.
    (f"x()  # noqa: {G1}\n", 1, 1, True),
    (f"x()  # noqa: {G2}\n", 1, 1, False),
    ("x()  # noqa: E501\n", 1, 1, False),
    ("x()  # noqa\n", 1, 1, True),
    (f"x()\ny()  # noqa: {G1}\n", 1, 1, False),
    ("x()  # noqa: GRAPH-BREAK\n", 1, 1, True),
    ("x()  # noqa: GRAPH\n", 1, 1, True),
    ("x()  # noqa: GRAP\n", 1, 1, False),
    ("x()  # noqa: GRAPHBREAK001\n", 1, 1, True),
    ("x()  # noqa: E501, graphbreak001\n", 1, 1, True),
    ("x()  # embercoach: ignore[GraphBreak]\n", 1, 1, True),
    # A statement over several lines: its first and its last line speak for all of it.
    (f"x(\n    y,\n    z,\n)  # noqa: {G1}\n", 2, 2, True),
    (f"x(  # noqa: {G1}\n    y,\n    z,\n)\n", 3, 3, True),
    (f"x(\n    y,  # noqa: {G1}\n    z,\n)\n", 3, 3, False),
    (f"x(\n    y,  # noqa: {G1}\n    z,\n)\n", 2, 2, True),
    # A finding over several lines: its own first and last line.
    (f"x(\n  f(\n    y\n  ),  # noqa: {G1}\n)\n", 2, 4, True),
    (f"x(\n  f(  # noqa: {G1}\n    y\n  ),\n)\n", 2, 4, True),
    # The header is a statement of its own.
    (f"for x in y:  # noqa: {G1}\n    z()\n", 2, 2, False),
    (f"def f(\n    a,\n):  # noqa: {G1}\n    z()\n", 2, 2, True),
    # Inside a string no comment can stand; the line where it ends will do.
    (f'k(\n    s="""\n    body\n    """,  # noqa: {G1}\n    t=1,\n)\n', 3, 3, True),
    (f'k(\n    s=f"""\n    {{body}}\n    """,  # noqa: {G1}\n    t=1,\n)\n', 3, 3, True),
    (f'k(\n    s="""\n    body\n    """,\n    t=1,  # noqa: {G1}\n)\n', 3, 3, False),
    # Backslashes.
    (f"x = 1 + \\\n    y()  # noqa: {G1}\n", 1, 1, True),
    # A comment alone speaks for the statement below, in our own form only.
    (f"# embercoach: ignore[{G1}] why\nx()\n", 2, 2, True),
    (f"# noqa: {G1}\nx()\n", 2, 2, False),
    (f"# embercoach: ignore[{G1}] why\n\n# more\nx(\n  y\n)\nz()\n", 5, 5, True),
    (f"# embercoach: ignore[{G1}] why\nx()\nz()\n", 3, 3, False),
    (f"x(\n    # embercoach: ignore[{G1}]\n    y,\n    z,\n)\n", 3, 3, True),
    (f"x(\n    # embercoach: ignore[{G1}]\n    y,\n    z,\n)\n", 4, 4, False),
    (f"if a:\n    # embercoach: ignore[{G1}]\n    x()\n", 3, 3, True),
    # The whole file.
    (f"x()\n\n# embercoach: ignore-file[{G1}]\n", 1, 1, True),
    # In a string, which may be a kernel's source.
    (f'x = """\na; // embercoach: ignore[{G1}] why\nb;\n"""\n', 2, 2, True),
    (f'x = """\na; // embercoach: ignore[{G1}] why\nb;\n"""\n', 3, 3, False),
    (f'x = """\n// embercoach: ignore[{G1}] why\nb;\n"""\n', 3, 3, True),
    (f'x = """\na; // embercoach: ignore-file[{G1}]\nb;\n"""\n', 2, 2, False),
    (f'x = """\na; // embercoach: ignore {G1}\nb;\n"""\n', 2, 2, False),
    (f"x()\n\n# embercoach: ignore-file[{G2}]\n", 1, 1, False),
    ("# embercoach: ignore-file\nx()\n", 2, 2, True),
    # Line ends and odd characters.
    (f"x()\r\ny()  # noqa: {G1}\r\n", 2, 2, True),
    (f"x()\ry()  # noqa: {G1}\r", 2, 2, True),
    (f"\x0cx()\ny()  # noqa: {G1}", 2, 2, True),
    (f'"\u2028"\ny()  # noqa: {G1}\n', 2, 2, True),
]


@pytest.mark.parametrize(("source", "line", "end_line", "covered"), COVER)
def test_what_is_covered(source: str, line: int, end_line: int, covered: bool) -> None:
    findings, suppressed = judged(source, raw(G1, line, end_line))
    assert (suppressed == 1) == covered
    assert any(finding.code == G1 for finding in findings) != covered


#: source, findings, what is idle (code, column), and the source after its fix.
IDLE = [
    (f"x()  # noqa: {G1}\n", [], [("NOQA-001", 6)], "x()\n"),
    (f"x()  # noqa: {G1}\n", [raw(G1, 1)], [], None),
    (f"x()  # noqa: {G1}, {G2}\n", [raw(G1, 1)], [("NOQA-001", 6)], f"x()  # noqa: {G1}\n"),
    (f"x()  # noqa: E501,{G1},W1\n", [], [("NOQA-001", 6)], "x()  # noqa: E501, W1\n"),
    (f"x()  # noqa: E501, {G1}\n", [], [("NOQA-001", 6)], "x()  # noqa: E501\n"),
    ("x()  # noqa: E501\n", [], [], None),
    ("x()  # noqa\n", [], [], None),
    ("x()  # noqa: DTYPE\n", [], [("NOQA-001", 6)], "x()\n"),
    (f"x()  # noqa: {G1} is needed\n", [], [("NOQA-001", 6)], "x()  # is needed\n"),
    (f"x()  # noqa: {G1} # more\n", [], [("NOQA-001", 6)], "x()  # more\n"),
    (f"x()  # why # noqa: {G1}\n", [], [("NOQA-001", 12)], "x()  # why\n"),
    (f"x()  # embercoach: ignore[{G1}] because\n", [], [("NOQA-001", 6)], "x()\n"),
    (
        f"x()  # embercoach: ignore[{G1}, {G2}] because\n",
        [raw(G2, 1)],
        [("NOQA-001", 6)],
        f"x()  # embercoach: ignore[{G2}] because\n",
    ),
    (
        f"x()  # embercoach: ignore[{G1}] why  # noqa: E501\n",
        [],
        [("NOQA-001", 6)],
        "x()  # noqa: E501\n",
    ),
    ("x()  # embercoach: ignore\n", [], [("NOQA-001", 6)], "x()\n"),
    ("x()  # embercoach: ignore\n", [raw(D1, 1)], [], None),
    (f"a()\n# embercoach: ignore[{G1}] why\nb()\n", [], [("NOQA-001", 1)], "a()\nb()\n"),
    (f"a()\r\n  # embercoach: ignore[{G1}]\r\nb()\r\n", [], [("NOQA-001", 3)], "a()\r\nb()\r\n"),
    (f"# embercoach: ignore-file[{H1}]\nb()\n", [], [("NOQA-001", 1)], "b()\n"),
    (f"# embercoach: ignore-file[{H1}]\nb()\n", [raw(H1, 2)], [], None),
    # A suppression of a suppression's finding.
    (f"x()  # noqa: {G1}, NOQA-001\n", [], [], None),
    ("x()  # noqa: NOQA-001\n", [], [], None),
    # Unknown codes.
    ("x()  # noqa: GRAPH-BRAKE-001\n", [], [("NOQA-002", 6)], f"x()  # noqa: {G1}\n"),
    ("x()  # noqa: PROJ-1234\n", [], [], None),
    ("x()  # noqa: GRAPHBREAK01\n", [], [("NOQA-002", 6)], f"x()  # noqa: {G1}\n"),
    ("x()  # noqa: DTYPE001\n", [], [("NOQA-001", 6)], "x()\n"),
    ("x()  # embercoach: ignore[PROJ-1234]\n", [], [("NOQA-002", 6)], None),
    ("x()  # embercoach: ignore[E501]\n", [], [("NOQA-002", 6)], None),
]


@pytest.mark.parametrize(("source", "findings", "idle", "fixed"), IDLE)
def test_idle_suppressions(
    source: str, findings: list[Finding], idle: list[tuple[str, int]], fixed: str | None
) -> None:
    found, _ = judged(source, *findings)
    assert [(f.code, f.column) for f in found] == idle
    fixes = [finding.fix for finding in found if finding.fix]
    assert (fixed is None) == (not fixes)
    if fixed is not None:
        text, applied = apply(source, fixes)
        assert (text, len(applied)) == (fixed, 1)
        assert [fix.safe for fix in fixes] == [idle[0][0] == "NOQA-001"]
        # Fixed once, it stays so.
        again, _ = judged(fixed, *(f for f in findings if source.count("\n") == fixed.count("\n")))
        assert [f.code for f in again if f.fix and f.fix.safe] == (
            ["NOQA-001"] if idle[0][0] == "NOQA-002" else []
        )


def test_only_selected_rules_can_be_idle() -> None:
    source = f"x()  # noqa: {G1}, {H1}\n"
    found, _ = judged(source, enabled=frozenset({H1, "NOQA-001"}))
    assert [f.message for f in found] == [f"unused suppression of `{H1}`"]
    assert judged(source, enabled=frozenset({G1, H1}))[0] == []
    family = "x()  # noqa: GRAPH-BREAK\n"
    assert judged(family, enabled=frozenset({G1, "NOQA-001"}))[0] == []
    bare = "x()  # embercoach: ignore\n"
    assert judged(bare, enabled=frozenset({G1, "NOQA-001"}))[0] == []


@given(st.text(alphabet="x()#:[],-  \n\t\"'\\noqaembercoachignoreGRAPH-BREAK001E5", max_size=80))
def test_any_text_can_be_read(source: str) -> None:
    for directive in read_directives(source):
        assert 0 <= directive.removal <= directive.removal_end <= len(source)
        line = source.split("\n")[directive.line - 1]
        assert line[directive.column - 1] == "#"
        for item in directive.items:
            assert source[item.start : item.end] == item.word


COMMENTS = st.lists(
    st.sampled_from(
        [f"# noqa: {G1}", f"# noqa: E501, {H1}", f"# embercoach: ignore[{G1}, {D1}] why", "# text",
         "# noqa", f"# embercoach: ignore-file[{D1}]", f"# noqa: {G1} reason"]
    ),
    max_size=3,
)  # fmt: skip


@given(st.lists(COMMENTS, min_size=1, max_size=5), st.lists(st.integers(1, 5), max_size=4))
def test_removing_idle_suppressions_reveals_nothing(
    comments: list[list[str]], hits: list[int]
) -> None:
    """Fixing NOQA-001 keeps every suppressed finding suppressed, the code, and other comments."""
    lines = [f"f{n}()  {'  '.join(c)}".rstrip() for n, c in enumerate(comments)]
    source = "\n".join(lines) + "\n"
    findings = [raw(G1, hit) for hit in hits if hit <= len(lines)]
    found, suppressed = judged(source, *findings)

    def idle(text: str) -> list[Fix]:
        return [f.fix for f in judged(text, *findings)[0] if f.fix and f.code == "NOQA-001"]

    fixed = settle(source, idle).text
    after, still = judged(fixed, *findings)
    assert still == suppressed
    assert [f.code for f in after] == [f.code for f in found if f.code != "NOQA-001"]
    assert [line.split("#")[0].rstrip() for line in fixed.splitlines()] == [
        f"f{n}()" for n in range(len(lines))
    ]
    assert fixed.count("# text") == source.count("# text")
    assert fixed.count("E501") == source.count("E501")
