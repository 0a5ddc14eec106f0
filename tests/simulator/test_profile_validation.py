"""Predicted times against those measured on an H200, and how both are made."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np
import pytest

from embercoach.simulator.profile.accesses import merged_vectors
from embercoach.simulator.profile.counts import (
    BufferCounts,
    LaunchProfile,
    LineCounts,
    MemoryCounts,
)
from tests.benchmarks.profile import calibrate, chain, compare, page, profiles
from tests.benchmarks.profile.case import Case, held_out, launch_of
from tests.benchmarks.profile.failures import REASONS
from tests.benchmarks.profile.micro import streamed
from tests.benchmarks.profile.micro_case import micro
from xlstm_kernels import soft_cap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlstm_kernels.kernel import Kernel, Launch

CASES = compare.load()[1]
ROWS = compare.rows(CASES)


@pytest.mark.parametrize("part", ["all", "measured later", "held out"])
def test_predictions_order_measured_times_and_are_near_them(part: str) -> None:
    found = compare.summary(compare.parts(ROWS)[part])
    assert found.rank_correlation >= compare.RANK_CORRELATION
    assert found.median_error < compare.MEDIAN_ERROR


def test_enough_kernels_of_each_origin_were_measured() -> None:
    groups = [case.group for case in CASES]
    assert len(groups) >= 100
    least = {"microbenchmark": 60, "pack": 30, "mlx-lm": 12, "mlx-vlm": 5}
    assert [name for name, number in least.items() if groups.count(name) < number] == []
    times = [case.microseconds for case in CASES]
    assert min(times) < 3
    assert max(times) > 500


def test_each_failing_prediction_has_a_reason() -> None:
    assert {row.case.name for row in page.failing(ROWS)} == set(REASONS)


def test_the_page_has_the_saved_figures() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.filled(text) == text, "python -m tests.regenerate profile"


def test_equal_values_share_a_rank() -> None:
    a, b = np.array([1.0, 2.0, 2.0, 5.0]), np.array([10.0, 30.0, 20.0, 40.0])
    # Ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4: covariance 4.5, variances 4.5 and 5.
    assert compare.spearman(a, b) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)


def test_halves_have_about_as_many_cases() -> None:
    held = sum(held_out(case.name) for case in CASES)
    assert 0.35 < held / len(CASES) < 0.65


# --- counts --------------------------------------------------------------------------------------


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


def test_a_part_of_a_launch_stands_for_the_whole() -> None:
    profile = LaunchProfile(
        "k",
        None,
        (64, 1, 1),
        (32, 1, 1),
        2,
        2,
        0,
        8,
        (LineCounts("body", 3, {"float32": 5}, {"float32": 160}, 160, 1, (memory(4, 40),)),),
        (BufferCounts("y", 256, "device", 0, 256, 0, 256),),
    )
    whole = profiles.scaled(profile, 3)
    assert (whole.grid, whole.threadgroups, whole.simdgroups) == ((192, 1, 1), 6, 6)
    assert whole.lines[0].issued == {"float32": 15}
    assert whole.lines[0].memory[0].sectors == 120
    assert whole.buffers[0].written_by_groups == 768
    assert profiles.read(profiles.record(whole)) == whole


@pytest.mark.parametrize("scale", [1, 4])
def test_counts_of_a_case_are_those_of_its_timed_launch(scale: int) -> None:
    case = streamed("copied", "y[i] = a[i];", 1024, scale=scale)
    counts = profiles.profiled(case)
    assert counts.grid == case.draw().launch.grid
    assert [(b.name, b.read, b.written) for b in counts.buffers if b.space == "device"] == [
        ("a", 4096, 0),
        ("y", 0, 4096),
    ]


def test_a_launch_that_does_not_end_has_no_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "while (a[0] > -1000.0f) { y[0] = y[0] + 1.0f; }"
    case = micro(
        "endless", body, [((8,), mx.float32)], ((8,), mx.float32), (1,), (1,), init_value=0
    )
    monkeypatch.setattr(profiles, "TIMEOUT", 3.0)
    with pytest.raises(RuntimeError, match="did not end"):
        profiles.profiled(case)


# --- times ---------------------------------------------------------------------------------------


class Executor:
    """Runs nothing; checks that launches are chained."""

    name = "fake"

    def __init__(self) -> None:
        self.launches: list[Sequence[mx.array]] = []

    def unavailable(self) -> None:
        return None

    def run(
        self, kernel: Kernel, inputs: Sequence[mx.array], launch: Launch, *, verbose: bool = False
    ) -> list[mx.array]:
        assert len(kernel.inputs) == len(inputs)
        self.launches.append(inputs)
        outputs = zip(launch.output_shapes, launch.output_dtypes, strict=True)
        return [mx.full(shape, len(self.launches), dtype=dtype) for shape, dtype in outputs]


class Clock:
    """Advances by 1 ms from stamp to stamp."""

    def __init__(self) -> None:
        self.now = 0

    def stamp(self, after: mx.array) -> tuple[mx.array, mx.array]:
        self.now += 1_000_000
        return mx.array([self.now], dtype=mx.uint64), mx.zeros((32,), dtype=after.dtype)


def test_each_launch_of_a_chain_depends_on_the_one_before() -> None:
    case = streamed("small", "y[i] = a[i];", 1024)
    executor = Executor()
    time = chain.Chain(case, executor, Clock()).time()
    assert time.microseconds == pytest.approx(1000 / time.launches)
    assert (time.kernel, time.grid, time.cold) == ("micro_small", (1024, 1, 1), False)
    last = executor.launches[-time.launches :]
    assert mx.all(last[0][-1] == 0).item()  # of the stamp
    for place, inputs in enumerate(last[1:], len(executor.launches) - time.launches + 1):
        assert mx.all(inputs[-1] == place).item()


def test_inputs_are_copied_until_caches_cannot_hold_them() -> None:
    case = streamed("large", "y[i] = a[i];", 2**22)
    time = chain.Chain(case, Executor(), Clock()).time()
    assert time.cold
    assert time.copies * 2**24 >= chain.COLD_BYTES or time.copies == time.launches


def test_an_operators_launch_is_recorded_without_running() -> None:
    launched = launch_of(lambda: soft_cap(mx.ones((4, 64)), 15.0), "xlstm_soft_cap")
    assert launched.launch.output_shapes == ((4, 64),)
    with pytest.raises(ValueError, match="xlstm_other must be launched, got"):
        launch_of(lambda: soft_cap(mx.ones((4, 64)), 15.0), "xlstm_other")


def test_a_fit_is_no_worse_on_its_cases() -> None:
    some = [case for case in CASES if not held_out(case.name)][:4]
    far = replace(compare.H200.family, launch_seconds=9e-6)
    start = calibrate.point(far)
    fitted = calibrate.point(calibrate.fit(far, some, rounds=2))
    assert calibrate.loss(fitted, start, some) < calibrate.loss(start, start, some)


def test_names_of_cases_are_unique() -> None:
    from tests.benchmarks.profile.micro import micro_cases
    from tests.benchmarks.profile.pack import pack_cases

    names = [case.name for case in (*micro_cases(), *pack_cases())]
    assert len(names) == len(set(names))
    assert all(isinstance(case, Case) for case in micro_cases())
