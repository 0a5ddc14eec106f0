"""Gradients of the norms of heads against those of the definition."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.norm import oracle
from tests.xlstm_kernels.norm.inputs import (
    COMBINATIONS,
    NORMS,
    SHAPES,
    WIDE,
    extra_shapes,
    widened,
)
from tests.xlstm_kernels.norm.oracle import EPS
from xlstm_kernels.norm import rows

BARS = {mx.float32: 5e-6, mx.float16: 2e-3, mx.bfloat16: 1e-2}


def flat(shape):
    return (*shape[:2], shape[2] * shape[3])


def gradients_of(norm, x, extras, cotangent, device, eps=EPS):
    """By name, of x and of the extras."""

    def operator(x, *arrays):
        given = dict(zip(extras, arrays, strict=True))
        return NORMS[norm](x, eps=eps, backend=device, **given)

    _, found = mx.vjp(operator, [x, *extras.values()], [cotangent])
    return dict(zip(("x", *extras), found, strict=True))


@pytest.fixture
def judge(norm, wide, relative_error):
    """Hold gradients to the definition's; with `by_terms`, errors to the terms of their sums."""

    def compare(found, x, extras, cotangent, *, eps=EPS, by_terms=False):
        exact = oracle.gradients(wide(x), norm, wide(cotangent), eps=eps, **widened(extras, wide))
        scales = {"x": exact["parts"]} if x.shape[-1] == 1 or by_terms else {}
        if by_terms:
            opened = 1 / (1 + np.exp(-wide(extras["gate"]))) if "gate" in extras else 1.0
            through = np.abs(wide(cotangent) * opened)
            normalised = oracle.oracle(wide(x), norm, eps=eps)
            scales["weight"] = (through * np.abs(normalised)).sum(axis=(0, 1))
            scales["bias"] = through.sum(axis=(0, 1))
        for name, gradient in found.items():
            assert gradient.dtype == (x if name == "x" else extras[name]).dtype
            error = relative_error(gradient, exact[name], scales.get(name))
            assert error < BARS[gradient.dtype], name

    return compare


# --- the oracle itself -------------------------------------------------------------------------


# --- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [(), ("weight", "bias", "gate")], ids=str)
@pytest.mark.parametrize("shape", [*SHAPES, WIDE, (3, 2, 1, 4100)], ids=str)
def test_shapes(shape, names, norm, device, arrays, draw, judge):
    x, extras = arrays(shape, mx.float32, names)
    cotangent = draw(flat(shape), mx.float32)
    found = gradients_of(norm, x, extras, cotangent, device)
    judge(found, x, extras, cotangent, by_terms=shape[0] * shape[1] == 1)


@pytest.mark.parametrize("names", COMBINATIONS, ids=str)
def test_extras(names, norm, device, arrays, draw, judge):
    x, extras = arrays((2, 5, 3, 40), mx.float32, names)
    cotangent = draw((2, 5, 120), mx.float32)
    judge(gradients_of(norm, x, extras, cotangent, device), x, extras, cotangent)


@pytest.mark.parametrize("others", ["own dtype", "float32"])
def test_dtypes(others, norm, device, precision, arrays, draw, judge):
    other = mx.float32 if others == "float32" else precision.dtype
    x, extras = arrays((2, 30, 3, 40), precision.dtype, extras_dtype=other)
    cotangent = draw((2, 30, 120), precision.dtype)
    judge(gradients_of(norm, x, extras, cotangent, device), x, extras, cotangent)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("columns", [40, 4100])
def test_many_rows(columns, monkeypatch, norm, simulator, arrays, draw, judge):
    """Several rows for each threadgroup, wide ones among them, whose sums lie in memory."""
    monkeypatch.setattr(rows, "_MAX_ROW_GROUPS", 3)
    x, extras = arrays((2, 7, 1, columns), mx.float32)
    cotangent = draw((2, 7, columns), mx.float32)
    judge(gradients_of(norm, x, extras, cotangent, "metal"), x, extras, cotangent)


def test_gates_that_are_all_but_open(norm, simulator, arrays, draw, judge):
    """1 - sigmoid(12) is 6e-6: taken from 1 in float32 it would have but two digits."""
    x, extras = arrays((2, 3, 2, 40), mx.float32)
    extras["gate"] = extras["gate"] + 12
    cotangent = draw((2, 3, 80), mx.float32)
    judge(gradients_of(norm, x, extras, cotangent, "metal"), x, extras, cotangent)


def test_nan_stays_in_its_head(norm, device):
    x = mx.array([[[[1.0, np.nan], [1.0, -2.0]]], [[[3.0, 1.0], [2.0, 1.0]]]])
    found = gradients_of(norm, x, {"weight": mx.ones((4,))}, mx.ones((2, 1, 4)), device)
    hit = np.isnan(np.array(found["x"])).reshape(4, 2)
    assert hit.tolist() == [[True, True], [False, False], [False, False], [False, False]]
    assert np.isnan(np.array(found["weight"])).tolist() == [True, True, False, False]


# --- layouts and cost --------------------------------------------------------------------------


def test_strided_inputs(norm, device, draw, judge):
    """As the cells and the projections of a model leave them: nothing is contiguous."""
    x = draw((2, 3, 5, 40), mx.float32).transpose(0, 2, 1, 3)
    extras = {
        "weight": draw((240,), mx.float32)[::2],
        "bias": draw((120, 3), mx.float32)[:, 1],
        "gate": draw((2, 5, 4, 120), mx.float32)[:, ::-1, 2],
    }
    cotangent = draw((120, 5, 2), mx.float32).transpose(2, 1, 0)
    judge(gradients_of(norm, x, extras, cotangent, device), x, extras, cotangent)


@pytest.mark.parametrize("names", COMBINATIONS, ids=str)
@pytest.mark.sampled(6)
def test_memory_is_accessed_once(names, monkeypatch, norm, simulator, draw):
    """Of one launch, and of x as it lies: x, dy and the gate are read once."""
    monkeypatch.setattr(rows, "_BUSY_ELEMENTS", 1)  # as if these were many rows
    heads, length, columns = 3, 128, 40
    x = draw((1, heads, length, columns), mx.bfloat16).transpose(0, 2, 1, 3)
    shapes = extra_shapes(x.shape)
    extras = {name: draw(shapes[name], mx.bfloat16) for name in names}
    cotangent = draw(shapes["gate"], mx.bfloat16)
    mx.eval(gradients_of(norm, x, extras, cotangent, "metal"))
    (launch,) = [made for made in simulator.launches if "gradient" in made.kernel]
    assert launch.traffic["values"].read == x.nbytes
    needed = 3 * x.nbytes + sum(2 * array.nbytes for array in extras.values())
    assert needed <= launch.device_bytes <= 1.1 * needed


# --- transformations ---------------------------------------------------------------------------
