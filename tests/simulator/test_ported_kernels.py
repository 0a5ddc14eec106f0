"""Kernels with a full signature, ported by `embercoach port`, compute in MLX what they did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from embercoach.metal.porting.ported_modules import ported_file
from embercoach.simulator import activate

KERNELS = """\
#include <metal_stdlib>
using namespace metal;

constant bool negated [[function_constant(0)]];
static inline float square(float v) { return v * v; }

// The guides' soft cap: a device pointer without const, and scalars.
kernel void soft_cap(device float* input, device float* output, constant float& cap,
                     constant uint& count, uint id [[thread_position_in_grid]]) {
    if (id >= count) return;
    float bounded = cap * tanh(input[id] / cap);
    output[id] = negated ? -bounded : bounded;
}

// Their column norms: a shape in a buffer, and an attribute with the name of MLX's parameter.
kernel void column_norms(device float* A [[buffer(0)]], device float* out [[buffer(1)]],
                         constant uint* shape [[buffer(2)]],
                         uint3 thread_position_in_grid [[thread_position_in_grid]]) {
    uint column = thread_position_in_grid.x;
    uint rows = shape[0], columns = shape[1];
    if (column >= columns) return;
    float sum = 0.0f, rest = 0.0f;
    for (uint row = 0; row < rows; ++row) {
        float value = square(A[row * columns + column]) - rest;
        float next = sum + value;
        rest = (next - sum) - value;
        sum = next;
    }
    out[column] = sqrt(sum);
}

// Their threadgroup memory, in a template.
template <typename T>
kernel void row_sums(device const T* x, device T* sums, constant uint& width,
                     threadgroup float* shared [[threadgroup(0)]],
                     ushort lane [[thread_index_in_threadgroup]],
                     uint row [[threadgroup_position_in_grid]],
                     uint threads [[threads_per_threadgroup]]) {
    float sum = 0;
    for (uint i = lane; i < width; i += threads) sum += float(x[row * width + i]);
    shared[lane] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (lane == 0) {
        for (uint i = 1; i < threads; ++i) sum += shared[i];
        sums[row] = T(sum);
    }
}
template [[host_name("row_sums_half")]] kernel decltype(row_sums<half>) row_sums<half>;

kernel void add_scaled(device const float* x, device float* y, constant float& factor,
                       uint i [[thread_position_in_grid]]) {
    y[i] += factor * x[i];
}

kernel void reverse(device float* y, constant uint& count,
                    uint i [[thread_index_in_threadgroup]]) {
    float value = y[count - 1 - i];
    threadgroup_barrier(mem_flags::mem_device);
    y[i] = value;
}

kernel void histogram(device const uint* values, device atomic_uint* bins,
                      device float* halves, uint i [[thread_position_in_grid]]) {
    atomic_fetch_add_explicit(&bins[values[i]], 1u, memory_order_relaxed);
    halves[i] = 0.5f * float(values[i]);
}

kernel void doubled(device const float4* x, device float4* y,
                    uint i [[thread_position_in_grid]]) {
    i += 0;
    y[i] = 2.0f * x[i];
}

kernel void clip_below(device float* values, constant float& least, constant uint& count,
                       uint i [[thread_position_in_grid]]) {
    if (i < count && values[i] < least) values[i] = least;
}

kernel void scale_rows(device float* y, constant uint& n, uint row [[threadgroup_position_in_grid]],
                       uint lane [[thread_position_in_threadgroup]],
                       uint threads [[threads_per_threadgroup]]) {
    device float* row_of_y = y + row * n;
    float sum = 0;
    for (uint i = lane; i < n; i += threads) sum += row_of_y[i];
    sum = simd_sum(sum);
    for (uint i = lane; i < n; i += threads) row_of_y[i] /= sum;
}

kernel void swap_odd(device float2* pairs, uint i [[thread_position_in_grid]]) {
    float2 first = pairs[4 * i + 1];
    pairs[4 * i + 1] = pairs[4 * i + 3];
    pairs[4 * i + 3] = first;
}

struct Particle { float position[3]; float mass; };
struct Step { float time; float3 force; };

kernel void move(device const Particle* before, device Particle* after, constant Step& step,
                 uint i [[thread_position_in_grid]]) {
    Particle one = before[i];
    for (int axis = 0; axis < 3; ++axis) {
        one.position[axis] += step.time * step.force[axis] / one.mass;
    }
    after[i] = one;
}

kernel void total(device const float* x, device float& sum, constant int& lambda,
                  uint2 at [[thread_position_in_grid]]) {
    if (at.x == 0 && at.y == 0) {
        sum = x[0] + x[1] * float(lambda);
    }
}
"""


@pytest.fixture(scope="module")
def module() -> str:
    return ported_file(KERNELS, (), {}).module


@pytest.fixture
def kernels(module: str) -> Iterator[Any]:
    with activate(on_finding="raise"):
        names: dict[str, Any] = {}
        exec(compile(module, "ported.py", "exec"), names)
        yield SimpleNamespace(**names)


def threads(count: int, group: int | None = None) -> dict[str, tuple[int, int, int]]:
    return {"grid": (count, 1, 1), "threadgroup": (group or count, 1, 1)}


def close(result: mx.array, expected: np.ndarray, error: float = 1e-5) -> None:
    np.testing.assert_allclose(np.array(result), expected, atol=error)


RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=20).astype(np.float32)


@pytest.mark.parametrize("negated", [False, True])
def test_a_scalar_is_a_0d_input_and_a_function_constant_a_template_argument(
    kernels: Any, negated: bool
) -> None:
    capped = kernels.soft_cap(
        mx.array(X), 2.0, 20, output_shape=(20,), negated=negated, **threads(32, 16)
    )
    close(capped, (-2 if negated else 2) * np.tanh(X / 2))


def test_a_shape_stays_an_input(kernels: Any) -> None:
    matrix = RANDOM.normal(size=(7, 3)).astype(np.float32)
    shape = mx.array([7, 3], dtype=mx.uint32)
    norms = kernels.column_norms(mx.array(matrix), shape, out_shape=(3,), **threads(4))
    close(norms, np.linalg.norm(matrix, axis=0))


@pytest.mark.parametrize("dtype", [mx.float16, mx.float32])
def test_threadgroup_memory_has_the_size_of_the_launch(kernels: Any, dtype: mx.Dtype) -> None:
    rows = mx.array(RANDOM.normal(size=(5, 13)).astype(np.float32)).astype(dtype)
    sums = kernels.row_sums(rows, 13, sums_shape=(5,), T=dtype, shared_size=4, **threads(5 * 4, 4))
    assert sums.dtype == dtype
    close(sums, np.array(rows).astype(np.float32).sum(1), 1e-2 if dtype == mx.float16 else 1e-5)


def test_an_updated_element_begins_as_its_copy(kernels: Any) -> None:
    start = mx.arange(20, dtype=mx.float32)
    result = kernels.add_scaled(mx.array(X), start, 3.0, **threads(20, 5))
    close(result, np.arange(20) + 3 * X)
    close(start, np.arange(20))


def test_an_updated_array_is_copied_by_one_threadgroup(kernels: Any) -> None:
    start = mx.arange(20, dtype=mx.float32)
    close(kernels.reverse(start, 20, **threads(20)), np.arange(20)[::-1])
    with pytest.raises(ValueError, match="grid must be one threadgroup"):
        kernels.reverse(start, 20, **threads(20, 10))


def test_atomic_outputs_begin_as_init_value(kernels: Any) -> None:
    values = RANDOM.integers(0, 7, 64).astype(np.uint32)
    given = {"bins_shape": (7,), "halves_shape": (64,), **threads(64, 16)}
    bins, halves = kernels.histogram(mx.array(values), **given)
    close(bins, np.bincount(values, minlength=7))
    close(halves, values / 2)


def test_vectors_are_views_of_arrays_in_device_memory(kernels: Any) -> None:
    close(kernels.doubled(mx.array(X), y_shape=(20,), **threads(5)), 2 * X)
    with pytest.raises(ValueError, match="x must have 8 or more elements, got 4"):
        kernels.doubled(mx.array(X[:4]), y_shape=(4,), **threads(1))


def test_a_conditional_update_copies_its_element(kernels: Any) -> None:
    close(kernels.clip_below(mx.array(X), -0.5, 20, **threads(32, 8)), np.maximum(X, -0.5))


def test_rows_are_updated_by_several_threadgroups(kernels: Any) -> None:
    rows = np.abs(RANDOM.normal(size=(3, 40)).astype(np.float32))
    close(kernels.scale_rows(mx.array(rows), 40, **threads(96, 32)), rows / rows.sum(1)[:, None])


def test_elements_that_no_thread_copies_keep_their_values(kernels: Any) -> None:
    pairs = RANDOM.normal(size=(8, 2)).astype(np.float32)
    expected = pairs[[0, 3, 2, 1, 4, 7, 6, 5]]
    close(kernels.swap_odd(mx.array(pairs), **threads(2)), expected)


def test_structs_are_passed_as_their_fields_and_memory(kernels: Any) -> None:
    before = np.abs(RANDOM.normal(size=(5, 4)).astype(np.float32))
    force = np.array([1, -2, 3], np.float32)
    after = kernels.move(mx.array(before), 0.5, mx.array(force), after_shape=(5, 4), **threads(5))
    expected = before.copy()
    expected[:, :3] += 0.5 * force / before[:, 3:]
    close(after, expected)
    with pytest.raises(ValueError, match="force must have 3 elements, got 4"):
        kernels.move(mx.array(before), 0.5, mx.zeros(4), after_shape=(5, 4), **threads(5))


def test_a_reference_to_device_memory_is_an_output(kernels: Any) -> None:
    total = kernels.total(mx.array(X), -2, sum_shape=(1,), **threads(1))
    close(total, X[:1] - 2 * X[1])


@pytest.mark.parametrize(
    ("array", "error"),
    [
        (lambda: mx.zeros(20, mx.float16), "x must be mlx.core.float32, got mlx.core.float16"),
        (lambda: mx.array(1.0), "x must have a dimension"),
    ],
)
def test_arrays_that_the_kernel_would_misread_are_refused(
    kernels: Any, array: Callable[[], mx.array], error: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        kernels.total(array(), 1, sum_shape=(1,), **threads(1))


def test_the_module_has_no_findings(module: str, tmp_path: Path) -> None:
    from embercoach.cli.entry import start

    (tmp_path / "ported.py").write_text(module)
    assert start(["check", "--profile", "ember", str(tmp_path / "ported.py")]) == 0
