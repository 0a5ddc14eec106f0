"""Line hashes: those of GitHub's upload action, which warns where it computes others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embercoach.report.sarif import line_hashes


def rolled(text: str) -> dict[int, str]:
    """All hashes by going through the file unit by unit, as the action does."""
    window = [0] * 100
    owners: list[int | None] = [None] * 100
    value = index = line = 0
    at_start, after_return = True, False
    counts: dict[int, int] = {}
    found: dict[int, str] = {}

    def put(unit: int) -> None:
        nonlocal value, index
        value = (37 * value + unit - 37**100 * window[index]) % 2**64
        window[index] = unit
        index = (index + 1) % 100

    def tell() -> None:
        owner = owners[index]
        if owner is not None:
            counts[value] = counts.get(value, 0) + 1
            found[owner] = f"{value:x}:{counts[value]}"
            owners[index] = None

    data = text.encode("utf-16-le", "surrogatepass")
    for at in range(0, len(data) + 2, 2):
        unit = int.from_bytes(data[at : at + 2], "little") if at < len(data) else 0xFFFF
        if unit in (32, 9) or (after_return and unit == 10):
            after_return = False
            continue
        after_return = unit == 13
        unit = 10 if after_return else unit
        tell()
        if at_start:
            at_start, line = False, line + 1
            owners[index] = line
        at_start = unit == 10
        put(unit)
    for _ in range(100):
        tell()
        put(0)
    return found


PIECES = st.sampled_from(
    ["a", "bb", " ", "\t", "\n", "\r", "\r\n", "é", "😀", "ऊ", "x" * 99, "\ud800"]
)


@given(text=st.lists(PIECES, max_size=60).map("".join))
def test_hashes_are_those_of_a_rolling_hash(text: str) -> None:
    every = rolled(text)
    assert line_hashes(text, set(every)) == every


def test_lines_that_are_not_wanted_count_all_the_same() -> None:
    text = "x = 1\n" * 300
    assert line_hashes(text, {150, 999}) == {150: rolled(text)[150]}
    assert line_hashes(text, set()) == {}


@pytest.mark.parametrize("text", ["", " ", "\t \t"])
def test_the_hash_that_github_gives_an_empty_file(text: str) -> None:
    assert line_hashes(text, {1}) == {1: "c129715d7a2bc9a3:1"}
