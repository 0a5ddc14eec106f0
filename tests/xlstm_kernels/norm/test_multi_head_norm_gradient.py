"""Gradients of the norms of heads against those of the definition."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlx import nn

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


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_the_oracle_is_the_slope(columns, norm):
    generator = np.random.default_rng(7)
    shape = (2, 3, 2, columns)
    arrays = {"x": shape, **extra_shapes(shape)}
    arrays = {name: generator.standard_normal(size) for name, size in arrays.items()}
    cotangent = generator.standard_normal(flat(shape))

    def loss(moved):
        x, *others = (moved[name] for name in ("x", "weight", "bias", "gate"))
        return (oracle.oracle(x, norm, *others) * cotangent).sum()

    extras = {name: array for name, array in arrays.items() if name != "x"}
    exact = oracle.gradients(arrays["x"], norm, cotangent, **extras)
    for name, array in arrays.items():
        for _ in range(4):
            direction = generator.standard_normal(array.shape)
            ahead, behind = (
                loss({**arrays, name: array + sign * 1e-6 * direction}) for sign in (1, -1)
            )
            slope = (exact[name] * direction).sum()
            assert (ahead - behind) / 2e-6 == pytest.approx(slope, rel=1e-5, abs=1e-7)


@pytest.mark.sampled(0)
def test_golden_values(device):
    """Of two values whose deviation is 1, the layer norm leaves no gradient; the RMS norm does."""
    x, cotangent = mx.array([[[[1.0, 3.0]]]]), mx.array([[[2.0, 6.0]]])
    extras = {"weight": mx.ones((2,)), "bias": mx.zeros((2,)), "gate": mx.zeros((1, 1, 2))}
    layer = gradients_of("layer", x, extras, cotangent, device, eps=0)
    assert layer["x"].flatten().tolist() == [0, 0]
    assert layer["weight"].tolist() == [-1, 3]
    assert layer["bias"].tolist() == [1, 3]
    assert layer["gate"].flatten().tolist() == [-0.5, 1.5]
    # g = (1, 3) lies along x: what is left of it is nothing, too. g = (3, -1) lies across.
    across = gradients_of("rms", x, extras, mx.array([[[6.0, -2.0]]]), device, eps=0)
    root = 5**0.5
    expected = {
        "x": [3 / root, -1 / root],
        "weight": [3 / root, -3 / root],
        "bias": [3, -1],
        "gate": [1.5 / root, -1.5 / root],
    }
    for name, numbers in expected.items():
        assert across[name].flatten().tolist() == pytest.approx(numbers, rel=1e-6)


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


@given(
    extents=st.tuples(*[st.integers(0, 4)] * 3),
    columns=st.integers(1, 300),
    eps=st.floats(1e-3, 1),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_shape(extents, columns, eps, seed, *, norm, device, judge):
    normal = np.random.default_rng(seed).standard_normal
    shape = (*extents, columns)
    x = mx.array(normal(shape), dtype=mx.float32)
    shapes = extra_shapes(shape)
    extras = {n: mx.array(normal(shapes[n]), dtype=mx.float32) for n in ("weight", "bias", "gate")}
    cotangent = mx.array(normal(flat(shape)), dtype=mx.float32)
    found = gradients_of(norm, x, extras, cotangent, device, eps)
    found.pop("gate")  # its factor, n * weight + bias, may cancel
    judge(found, x, extras, cotangent, eps=eps, by_terms=True)


@pytest.mark.parametrize("mean", [1e4, -1e4])
def test_far_from_zero(mean, device, draw, wide, relative_error):
    x = draw((1, 3, 2, 33), mx.float32) + mean
    cotangent = draw((1, 3, 66), mx.float32)
    found = gradients_of("layer", x, {}, cotangent, device)
    exact = oracle.gradients(wide(x), "layer", wide(cotangent))
    assert relative_error(found["x"], exact["x"]) < 5e-6


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


def test_second_derivatives(norm, device, arrays, draw, wide, relative_error):
    """Of the gradients' product with fixed directions: symmetric, so differences of gradients."""
    shape = (2, 3, 2, 9)
    x, extras = arrays(shape, mx.float32)
    direction, directions = arrays(shape, mx.float32)
    cotangent = draw(flat(shape), mx.float32)

    def along(x, *others):
        found = gradients_of(norm, x, dict(zip(extras, others, strict=True)), cotangent, device)
        return mx.sum(found["x"] * direction) + sum(
            mx.sum(found[name] * directions[name]) for name in extras
        )

    actual = mx.grad(along, argnums=(0, 1, 2, 3))(x, *extras.values())
    step = 1e-6
    ahead, behind = (
        oracle.gradients(
            wide(x) + sign * step * wide(direction),
            norm,
            wide(cotangent),
            **{n: wide(extras[n]) + sign * step * wide(directions[n]) for n in extras},
        )
        for sign in (1, -1)
    )
    for name, result in zip(("x", *extras), actual, strict=True):
        assert relative_error(result, (ahead[name] - behind[name]) / (2 * step)) < 1e-5, name


def test_compile_and_checkpoint(norm, device, arrays):
    x, extras = arrays((2, 3, 2, 40), mx.float32)

    def loss(x, *others):
        given = dict(zip(extras, others, strict=True))
        return mx.sum(mx.square(NORMS[norm](x, backend=device, **given)))

    gradient = mx.grad(loss, argnums=(0, 1, 2, 3))
    plain = gradient(x, *extras.values())
    checkpointed = mx.grad(mx.checkpoint(loss), argnums=(0, 1, 2, 3))
    for other in (mx.compile(gradient), checkpointed):
        for one, two in zip(plain, other(x, *extras.values()), strict=True):
            np.testing.assert_allclose(np.array(one), np.array(two), rtol=1e-4, atol=1e-5)


def test_in_a_module(norm, device, arrays, draw):
    x, extras = arrays((2, 3, 2, 40), mx.float32, ("weight", "bias"))
    cotangent = draw((2, 3, 80), mx.float32)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.bias = extras["weight"], extras["bias"]

        def __call__(self, x):
            return NORMS[norm](x, self.weight, eps=EPS, bias=self.bias, backend=device)

    layer = Layer()
    _, found = nn.value_and_grad(layer, lambda x: mx.sum(layer(x) * cotangent))(x)
    expected = gradients_of(norm, x, extras, cotangent, device)
    for name in extras:
        assert mx.allclose(found[name], expected[name]).item()
