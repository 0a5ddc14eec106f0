"""Fixes are applied whole, without conflict, and settle."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embercoach.finding import Edit, Fix
from embercoach.fixes.application import BrokenSourceError, apply, deletion_of_line, settle, unified

SOURCE = "alpha beta gamma\ndelta\n"


def fix(*edits: tuple[int, int, str], title: str = "t") -> Fix:
    return Fix(title, safe=True, edits=tuple(Edit(*edit) for edit in edits))


@pytest.mark.parametrize(
    ("fixes", "expected", "applied"),
    [
        ([], SOURCE, 0),
        ([fix()], SOURCE, 0),
        ([fix((0, 5, "A"))], "A beta gamma\ndelta\n", 1),
        # Neighbours that only meet go together, in any order.
        ([fix((5, 10, "-B")), fix((0, 5, "A"))], "A-B gamma\ndelta\n", 2),
        # Overlapping ones don't: the first by place wins.
        ([fix((3, 8, "?")), fix((0, 5, "A"))], "A beta gamma\ndelta\n", 1),
        # A fix is applied whole or not at all.
        ([fix((0, 5, "A")), fix((2, 3, "x"), (17, 22, "D"))], "A beta gamma\ndelta\n", 1),
        # An insertion beside another's edit is ambiguous.
        ([fix((0, 5, "A")), fix((5, 5, "!"))], "A beta gamma\ndelta\n", 1),
        ([fix((5, 5, "!")), fix((5, 5, "?"), title="u")], "alpha! beta gamma\ndelta\n", 1),
        # Insertions of one fix may wrap its own edit.
        ([fix((0, 0, "("), (0, 5, "A"), (5, 5, ")"))], "(A) beta gamma\ndelta\n", 1),
        # Equal fixes once; both are done.
        ([fix((0, 5, "A")), fix((0, 5, "A"))], "A beta gamma\ndelta\n", 2),
        # Two fixes that need the same import insert it once.
        (
            [fix((0, 0, "import x\n"), (0, 5, "A")), fix((0, 0, "import x\n"), (6, 10, "B"))],
            "import x\nA B gamma\ndelta\n",
            2,
        ),
        # The same prefix of two nested wraps is no such thing.
        (
            [fix((0, 0, "f("), (5, 5, ")")), fix((0, 0, "f("), (10, 10, ")"))],
            "f(alpha) beta gamma\ndelta\n",
            1,
        ),
        ([fix((22, 23, ""))], "alpha beta gamma\ndelta", 1),
    ],
)
def test_apply(fixes: list[Fix], expected: str, applied: int) -> None:
    text, done = apply(SOURCE, fixes)
    assert (text, len(done)) == (expected, applied)


def test_inserted_lines_take_the_files_line_end() -> None:
    text, _ = apply("a\r\nb\r\n", [fix((3, 3, "x\ny\n"))], "\r\n")
    assert text == "a\r\nx\r\ny\r\nb\r\n"


@pytest.mark.parametrize(
    "edits", [[(5, 3, "")], [(0, 99, "")], [(0, 5, ""), (3, 7, "")], [(-1, 2, "")]]
)
def test_impossible_edits_are_refused(edits: list[tuple[int, int, str]]) -> None:
    with pytest.raises(ValueError, match="edits that overlap or lie outside"):
        apply(SOURCE, [fix(*edits)])


@st.composite
def fixes_for(draw: st.DrawFn, length: int) -> Fix:
    cuts = draw(st.lists(st.integers(0, length), min_size=2, max_size=6).map(sorted))
    pairs = list(zip(cuts[::2], cuts[1::2], strict=False))
    words = draw(st.lists(st.sampled_from(["", "x", "yy", "z\n"]), min_size=3, max_size=3))
    return fix(*[(a, b, words[i]) for i, (a, b) in enumerate(pairs)])


@given(
    st.text("abc\n", min_size=5, max_size=30).flatmap(
        lambda text: st.tuples(st.just(text), st.lists(fixes_for(len(text)), max_size=6))
    )
)
def test_applied_fixes_never_overlap(case: tuple[str, list[Fix]]) -> None:
    """The result is what a character-wise reference makes of the applied fixes alone."""
    text, fixes = case
    new, applied = apply(text, fixes)
    assert apply(text, applied)[0] == new
    edits = {(e.start, e.end, e.text) for f in applied for e in f.edits if e.start < e.end}
    taken = [0] * len(text)
    for start, end, _ in edits:
        for position in range(start, end):
            taken[position] += 1
    assert max(taken, default=0) <= 1
    kept = [c for c, used in zip(text, taken, strict=True) if not used]
    inserted = sum(len(word) for _, _, word in edits)
    pure = {(e.start, e.text) for f in applied for e in f.edits if e.start == e.end}
    if not pure:
        assert len(new) == len(kept) + inserted


@given(st.permutations(range(4)))
def test_the_order_of_fixes_does_not_matter(order: list[int]) -> None:
    fixes = [fix((0, 5, "A")), fix((3, 8, "?")), fix((6, 10, "B")), fix((17, 22, "D"))]
    assert apply(SOURCE, [fixes[i] for i in order])[0] == apply(SOURCE, fixes)[0]


def unwrap(text: str) -> list[Fix]:
    """Proposes to replace each ``f(x)`` by ``x``, the outer ones with the inner text as it is."""
    found = []
    for start in range(len(text)):
        if text.startswith("f(", start):
            depth, end = 1, start + 2
            while depth and end < len(text):
                depth += {"(": 1, ")": -1}.get(text[end], 0)
                end += 1
            found.append(fix((start, end, text[start + 2 : end - 1])))
    return found


def test_nested_fixes_settle_in_rounds() -> None:
    settled = settle("f(f(f(1) + f(2)))", unwrap)
    assert (settled.text, settled.trouble) == ("1 + 2", None)
    assert len(settled.applied) == 4
    assert settle(settled.text, unwrap).applied == ()


def test_a_fix_that_breaks_the_source_is_left_out() -> None:
    def proposals(text: str) -> list[Fix]:
        if text.count("(") != text.count(")"):
            raise BrokenSourceError("'(' was never closed")
        return [fix((0, 1, "g"))] if text[0] == "f" else [fix((3, 4, ""), title="Drop it")]

    settled = settle("f(a)", proposals)
    assert settled.text == "g(a)"
    assert len(settled.applied) == 1
    assert settled.trouble == "a fix would break the file ('(' was never closed); left out: Drop it"


def test_fixes_that_undo_each_other_stop() -> None:
    def flip(text: str) -> list[Fix]:
        return [fix((0, 1, "b" if text == "a" else "a"), title="Flip")]

    settled = settle("a", flip)
    assert settled.trouble == "fixes undo each other: Flip"


def test_fixes_without_end_stop() -> None:
    settled = settle("", lambda text: [fix((len(text), len(text), "x"))], rounds=3)
    assert settled.text == "xxx"
    assert settled.trouble == "fixes don't settle in 3 rounds"


@pytest.mark.parametrize(
    ("source", "start", "end", "expected"),
    [
        ("a\n  # x\nb\n", 4, 7, "a\nb\n"),
        ("a\r\n# x\r\nb\r\n", 3, 6, "a\r\nb\r\n"),
        ("a  # x\nb\n", 3, 6, "a  \nb\n"),
        ("# x", 0, 3, ""),
        ("\x0c# x\n", 1, 4, ""),
    ],
)
def test_deleting_a_whole_line(source: str, start: int, end: int, expected: str) -> None:
    left, right = deletion_of_line(source, start, end)
    assert source[:left] + source[right:] == expected


LINES = st.lists(st.text("ab \f\r", max_size=4), min_size=1, max_size=8)


@settings(max_examples=25)
@given(LINES, LINES, st.booleans(), st.booleans())
def test_git_applies_a_diff(before: list[str], after: list[str], ended: bool, also: bool) -> None:
    old = "\n".join(before) + "\n" * ended
    new = "\n".join(after) + "\n" * also
    diff = unified(old, new, "f.py")
    if not (old and new):
        return  # to git that is a file made or removed
    with TemporaryDirectory() as folder:
        path = Path(folder, "f.py")
        path.write_bytes(old.encode())
        if diff:
            subprocess.run(
                ["git", "apply", "-p0", "--whitespace=nowarn", "-"],
                cwd=folder,
                input=diff.encode(),
                check=True,
                capture_output=True,
            )
        assert path.read_bytes() == new.encode()
