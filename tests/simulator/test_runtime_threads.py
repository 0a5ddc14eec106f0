"""How threads are numbered, in which order they run, and what they hand to each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.simulator.units import Bench, begun, wanted

_NUMBERS = """
uint n = self->thread_position_in_grid[0] + self->threads_per_grid[0] *
    (self->thread_position_in_grid[1] +
     self->threads_per_grid[1] * self->thread_position_in_grid[2]);
device int* row = y + 24 * n;
int k = 0;
for (int a = 0; a < 3; a++) {
  row[k++] = self->thread_position_in_threadgroup[a];
  row[k++] = self->threadgroup_position_in_grid[a];
  row[k++] = self->threads_per_threadgroup[a];
  row[k++] = self->dispatch_threads_per_threadgroup[a];
  row[k++] = self->threadgroups_per_grid[a];
}
row[k++] = self->thread_index_in_threadgroup;
row[k++] = self->thread_index_in_simdgroup;
row[k++] = self->simdgroup_index_in_threadgroup;
row[k++] = self->simdgroups_per_threadgroup;
row[k++] = self->dispatch_simdgroups_per_threadgroup;
row[k++] = self->thread_index_in_quadgroup;
row[k++] = self->quadgroup_index_in_threadgroup;
row[k++] = self->threads_per_simdgroup;
row[k++] = ember_self() == self;
"""


def _expected(grid: tuple[int, ...], threadgroup: tuple[int, ...]) -> np.ndarray:
    rows = []
    full = [min(g, t) for g, t in zip(grid, threadgroup, strict=True)]
    counts = [-(-g // f) for g, f in zip(grid, full, strict=True)]
    for z, y, x in np.ndindex(*grid[::-1]):
        place, row = (x, y, z), []
        group = [p // f for p, f in zip(place, full, strict=True)]
        inside = [p % f for p, f in zip(place, full, strict=True)]
        size = [min(f, g - f * n) for f, g, n in zip(full, grid, group, strict=True)]
        for axis in range(3):
            row += [inside[axis], group[axis], size[axis], full[axis], counts[axis]]
        index = inside[0] + size[0] * (inside[1] + size[1] * inside[2])
        row += [index, index % 32, index // 32, -(-int(np.prod(size)) // 32)]
        row += [-(-int(np.prod(full)) // 32), index % 4, index // 4, 32, 1]
        rows.append(row)
    return np.array(rows)


_EXTENT = st.integers(1, 9)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.tuples(_EXTENT, _EXTENT, _EXTENT), st.tuples(_EXTENT, _EXTENT, _EXTENT))
def test_threads_know_their_places(
    bench: Bench, grid: tuple[int, int, int], threadgroup: tuple[int, int, int]
) -> None:
    output = wanted("y", 24 * int(np.prod(grid)))
    result = bench.run(_NUMBERS, output, grid=grid, threadgroup=threadgroup)
    assert result.findings == ()
    rows = result.outputs[0].view(np.int32).reshape(-1, 24)
    np.testing.assert_array_equal(rows, _expected(grid, threadgroup))


def test_a_thousand_threads_wait_for_each_other(bench: Bench) -> None:
    body = """
    SHARED int s[1024];
    s[t] = t;
    for (int d = 1; d < 1024; d *= 2) {
      ember_threadgroup_barrier(2);
      int other = s[t ^ d];
      ember_threadgroup_barrier(2);
      s[t] += other;
    }
    y[i] = s[t];
    """
    result = bench.run(body, wanted("y", 3000), grid=3000, threadgroup=1024)
    # In the last threadgroup, threads that are not there have left nothing to read.
    assert {finding.kind for finding in result.findings} <= {"uninitialized-read"}
    values = result.outputs[0].view(np.int32)
    assert (values[:2048] == 1023 * 512).all()


def test_first_run_goes_up_and_second_down(bench: Bench) -> None:
    body = "order[atomic_add(n, 1)] = i;"
    buffers = (begun("n", np.zeros(1, np.int32)), wanted("order", 150))
    result = bench.run(body, *buffers, grid=150, threadgroup=50)
    np.testing.assert_array_equal(result.outputs[1].view(np.int32), np.arange(150))
    (finding,) = result.findings
    assert finding.kind == "order-dependent"
    assert finding.detail == "0 in ascending order of threads, 149 in descending order"


@pytest.mark.parametrize("size", [1, 12, 64])
def test_exchange_of_any_size(bench: Bench, size: int) -> None:
    body = f"""
    uchar mine[{size}];
    for (int k = 0; k < {size}; k++) mine[k] = (uchar)(i * 7 + k);
    uint active;
    const unsigned char* lanes = ember_simd_exchange("test", mine, {size}, &active);
    const unsigned char* next = lanes + (i + 1) % 32 * EMBER_SLOT;
    for (int k = 0; k < {size}; k++) y[{size} * i + k] = next[k];
    z[i] = active;
    """
    buffers = (wanted("y", 32 * size), wanted("z", 32))
    result = bench.run(body, *buffers, grid=32, threadgroup=32)
    values = result.outputs[0].view(np.int32).reshape(32, size)
    lanes = np.arange(1, 33)[:, None] % 32
    np.testing.assert_array_equal(values, (lanes * 7 + np.arange(size)) % 256)
    assert (result.outputs[1].view(np.int32) == -1).all()


def test_results_of_an_exchange_stand_until_the_next(bench: Bench) -> None:
    # Lanes that run ahead begin the next exchange while others still read the first.
    body = """
    uint active;
    int mine = i, more = 100 + i;
    const int* first = (const int*)ember_simd_exchange("first", &mine, 4, &active);
    int sum = 0;
    for (int k = 0; k < 32; k++) sum += first[k * (EMBER_SLOT / 4)];
    const int* second = (const int*)ember_simd_exchange("second", &more, 4, &active);
    for (int k = 0; k < 32; k++) sum += second[k * (EMBER_SLOT / 4)];
    y[i] = sum;
    """
    result = bench.run(body, wanted("y", 32), grid=32, threadgroup=32)
    assert (result.outputs[0].view(np.int32) == 2 * 496 + 3200).all()
    assert result.findings == ()


def test_granules_are_split_where_a_thread_touches_less(bench: Bench) -> None:
    # Two threads share each element, by halves of it.
    body = """
    ((device half*)y)[i] = 1.0f;
    ((device uchar*)(y + 32))[2 * i] = 1;
    ((device uchar*)(y + 32))[2 * i + 1] = 2;
    """
    result = bench.run(body, wanted("y", 64))
    assert result.findings == ()
    wide = bench.run(
        "((device ulong*)y)[i] = i; if (i == 5)\n((device half*)y)[20] = 0;", wanted("y", 128)
    )
    assert [(f.kind, f.at.line, f.element) for f in wide.findings] == []
    clash = bench.run(
        "((device ulong*)y)[i] = i + 1;\nif (i == 5)\n((device half*)y)[160] = 0;", wanted("y", 128)
    )
    assert [(f.kind, f.at.line, f.element) for f in clash.findings] == [("device-race", 1, 80)]
