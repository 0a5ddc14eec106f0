"""Predicted times against those measured on an H200."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from embercoach.simulator.profile.counts import MemoryCounts, merged_vectors
from tests.benchmarks.profile import compare, page

CASES = compare.load()[1]
ROWS = compare.rows(CASES)


@pytest.mark.parametrize("part", ["all", "measured later", "held out"])
def test_predictions_order_measured_times_and_are_near_them(part: str) -> None:
    found = compare.summary(compare.parts(ROWS)[part])
    assert found.rank_correlation >= compare.RANK_CORRELATION
    assert found.median_error < compare.MEDIAN_ERROR


def test_the_page_has_the_saved_figures() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.filled(text) == text, "python -m tests.regenerate profile"


def memory(width: int, sectors: int, **more: object) -> MemoryCounts:
    return MemoryCounts("device", "write", "y", width, 10, 320, sectors, 40, 20, **more)


def test_components_of_a_vector_are_one_access() -> None:
    halves = [memory(2, 160, first=2 * component) for component in (*range(4, 8), *range(4))]
    assert list(merged_vectors(halves)) == [memory(16, 160)]


def test_accesses_far_apart_stay_apart() -> None:
    rows = [memory(4, 160), memory(4, 160, first=512)]
    assert list(merged_vectors(rows)) == rows


def test_wide_gapless_and_narrow_read_accesses_stay_apart() -> None:
    for one in (memory(4, 40), memory(16, 160), replace(memory(4, 160), access="read")):
        assert list(merged_vectors([one, one])) == [one, one]
