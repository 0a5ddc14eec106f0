"""The norms of heads, and their gradients, against a float64 oracle."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.conftest import GRADIENTS, VALUES
from tests.xlstm_kernels.norm.inputs import COMBINATIONS, EXTRAS, NORMS, SHAPES, WIDE, widened
from tests.xlstm_kernels.norm.oracle import EPS, gradients, oracle
from xlstm_kernels.norm.multi_head_norm import multi_head_layer_norm
from xlstm_kernels.norm.rows import row_launch


@pytest.fixture
def judge(norm, wide, relative_error):
    """Hold values and gradients to the definition's; with `by_terms`, gradients to their terms."""

    def compare(x, extras, cotangent, device, *, by_terms=False):
        def operator(x, *arrays):
            given = dict(zip(extras, arrays, strict=True))
            return NORMS[norm](x, eps=EPS, backend=device, **given)

        (result,), found = mx.vjp(operator, [x, *extras.values()], [cotangent])
        assert result.dtype == x.dtype
        given = widened(extras, wide)
        assert relative_error(result, oracle(wide(x), norm, **given)) < VALUES[x.dtype]
        exact = gradients(wide(x), norm, wide(cotangent), **given)
        scales = {"x": exact["parts"]} if x.shape[-1] == 1 or by_terms else {}
        if by_terms:
            opened = 1 / (1 + np.exp(-wide(extras["gate"]))) if "gate" in extras else 1.0
            through = np.abs(wide(cotangent) * opened)
            scales["weight"] = (through * np.abs(oracle(wide(x), norm))).sum(axis=(0, 1))
            scales["bias"] = through.sum(axis=(0, 1))
        for (name, primal), gradient in zip({"x": x, **extras}.items(), found, strict=True):
            assert gradient.dtype == primal.dtype
            error = relative_error(gradient, exact[name], scales.get(name))
            assert error < GRADIENTS[gradient.dtype], name

    return compare


# --- values and gradients ----------------------------------------------------------------------


@pytest.mark.parametrize("names", [EXTRAS, ()], ids=str)
@pytest.mark.parametrize("shape", [*SHAPES, WIDE, (3, 2, 1, 4100)], ids=str)
def test_shapes(shape, names, norm, device, precision, arrays, draw, judge):
    x, extras = arrays(shape, precision.dtype, names)
    cotangent = draw((*shape[:2], shape[2] * shape[3]), precision.dtype)
    judge(x, extras, cotangent, device, by_terms=shape[0] * shape[1] == 1)


@pytest.mark.parametrize("names", COMBINATIONS, ids=str)
@pytest.mark.parametrize("shape", [(2, 5, 3, 40), WIDE], ids=str)
def test_extras(shape, names, norm, device, arrays, draw, judge):
    x, extras = arrays(shape, mx.float32, names)
    cotangent = draw((*shape[:2], shape[2] * shape[3]), mx.float32)
    judge(x, extras, cotangent, device, by_terms=shape == WIDE)


def test_extras_of_float32(norm, device, precision, arrays, draw, judge):
    x, extras = arrays((2, 30, 3, 40), precision.dtype, extras_dtype=mx.float32)
    judge(x, extras, draw((2, 30, 120), precision.dtype), device)


def test_strided_inputs(norm, device, draw, judge):
    """As the cells and the projections of a model leave them: nothing is contiguous."""
    x = draw((2, 3, 5, 40), mx.float32).transpose(0, 2, 1, 3)
    extras = {
        "weight": draw((240,), mx.float32)[::2],
        "bias": draw((120, 3), mx.float32)[:, 1],
        "gate": draw((120, 5, 4, 2), mx.float32)[:, ::-1, 2].transpose(2, 1, 0),
    }
    judge(x, extras, draw((120, 5, 2), mx.float32).transpose(2, 1, 0), device)


def test_nan_stays_in_its_head(norm, device):
    x = mx.array([[[[1.0, math.nan], [1.0, -1.0]], [[math.inf, 1.0], [-1.0, 1.0]]]])
    weight = mx.ones((4,))
    (result,), (in_x, in_weight) = mx.vjp(
        lambda x, w: NORMS[norm](x, w, eps=0, backend=device), [x, weight], [mx.ones((1, 2, 4))]
    )
    result = np.array(result)
    assert np.isnan(result[0, 0, :2]).all()
    assert np.isnan(result[0, 1, 0])
    np.testing.assert_allclose(result[0, :, 2:], [[1, -1], [-1, 1]], rtol=1e-6)
    hit = np.isnan(np.array(in_x)).reshape(4, 2)
    assert hit.tolist() == [[True, True], [False, False], [True, True], [False, False]]
    assert np.isnan(np.array(in_weight)).tolist() == [True, True, False, False]


@pytest.mark.parametrize("columns", [2, 33, 512])
@pytest.mark.parametrize(("mean", "deviation"), [(1e4, 1), (-1e4, 1), (1e6, 10), (1, 1e-3)])
def test_far_from_zero(columns, mean, deviation, device, draw, wide, relative_error):
    """The values' own rounding is in the oracle's input, too: nothing else may be lost."""
    x = draw((1, 3, 2, columns), mx.float32, deviation) + mean
    result = multi_head_layer_norm(x, eps=EPS, backend=device)
    assert relative_error(result, oracle(wide(x), "layer")) < 2e-6


def test_extreme_gates(norm, device):
    gate = mx.array([[[math.inf, 200.0, 100.0, 0.0, -20.0, -100.0, -200.0, -math.inf]]])
    x = mx.array([[[[1.0, -1.0] * 4]]])
    result = np.array(NORMS[norm](x, eps=0, gate=gate, backend=device))[0, 0]
    passed = [1, 1, 1, 0.5, math.exp(-20) / (1 + math.exp(-20)), 0, 0, 0]
    np.testing.assert_allclose(result, np.array(passed) * ([1, -1] * 4), rtol=1e-6, atol=1e-40)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
@pytest.mark.parametrize("start", [1, 2, 8])
def test_views_that_begin_anywhere(start, dtype, norm, simulator, draw, wide, relative_error):
    """Packs of 16 bytes are loaded where a row is aligned, elements where it is not."""
    x = draw((1, 3, 2, 600), dtype)[..., start : start + 512]
    extras = {"weight": draw((1032,), dtype)[start : start + 1024]}
    extras["gate"] = draw((1, 3, 1033), dtype)[..., start : start + 1024]
    result = NORMS[norm](x, eps=EPS, backend="metal", **extras)
    expected = oracle(wide(x), norm, **widened(extras, wide))
    assert relative_error(result, expected) < (2e-6 if dtype == mx.float32 else 5e-3)


def test_nothing_is_copied_on_the_way(simulator, draw):
    """The kernel gets h as it lies, which MLX would otherwise bring into order first."""
    h = draw((2, 3, 50, 40), mx.float32)
    x, gate = h.transpose(0, 2, 1, 3), draw((2, 50, 240), mx.float32)[..., 120:]
    multi_head_layer_norm(x, gate=gate, backend="metal")
    (launch,) = simulator.launches
    strided = {name for name in launch.traffic if name.endswith("_strides")}
    assert strided == {"values_strides", "gate_strides"}
    assert launch.traffic["values"].read == launch.traffic["gate"].read == h.nbytes


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (1, 2, 3, 4, 5)], ids=str)
def test_rejects_other_ranks(shape, norm):
    with pytest.raises(ValueError, match=rf"{norm}_norm: x must be \(B, S, NH, DH\), got shape"):
        NORMS[norm](mx.ones(shape))


@pytest.mark.parametrize(
    ("name", "shape", "fitting"),
    [
        ("weight", (5,), r"\(20,\)"),
        ("weight", (4, 5), r"\(20,\)"),
        ("weight", (1,), r"\(20,\)"),
        ("bias", (), r"\(20,\)"),
        ("gate", (20,), r"\(2, 3, 20\)"),
        ("gate", (2, 3, 4, 5), r"\(2, 3, 20\)"),
    ],
)
def test_rejects_what_does_not_fit(name, shape, fitting, norm):
    with pytest.raises(
        ValueError, match=rf"{norm}_norm: {name} must have shape {fitting}, for x of"
    ):
        NORMS[norm](mx.ones((2, 3, 4, 5)), **{name: mx.ones(shape)})


@pytest.mark.parametrize("eps", [-1e-6, math.nan, math.inf])
def test_rejects_eps(eps, norm):
    with pytest.raises(ValueError, match=f"multi_head_{norm}_norm: eps must"):
        NORMS[norm](mx.ones((1, 1, 1, 3)), eps=eps)


@pytest.mark.parametrize("dtype", [mx.int32, mx.complex64], ids=str)
@pytest.mark.parametrize("name", ["x", *EXTRAS])
def test_rejects_other_dtypes(dtype, name, norm):
    arrays = {"x": mx.ones((1, 1, 2, 4)), "weight": mx.ones((8,)), "gate": mx.ones((1, 1, 8))}
    arrays["bias"] = arrays["weight"]
    arrays[name] = arrays[name].astype(dtype)
    with pytest.raises(TypeError, match=f"multi_head_{norm}_norm: {name} must be float32"):
        NORMS[norm](**arrays)


# --- rows --------------------------------------------------------------------------------------


def launched(rows, columns, heads=1, dtype=mx.float32):
    """The launch for an array of any size, which takes no memory, and its template arguments."""
    values = mx.broadcast_to(mx.array(0, dtype=dtype), (rows, 1, heads, columns))
    launch = row_launch(values)
    return launch, dict(launch.template)


@pytest.mark.parametrize("columns", [1, 31, 32, 33, 128, 129, 512, 2048, 2049, 4096, 4097, 8192])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
def test_rows_up_to_8192_fit_the_registers(columns, dtype):
    launch, numbers = launched(3, columns, dtype=dtype)
    threads, places, _ = launch.threadgroup
    assert threads == 32 * numbers["SIMDGROUPS"]
    assert threads * places <= 512
    held = numbers["VALUES"] * numbers["PACK"]
    assert held <= 16
    assert columns % numbers["PACK"] == 0
    assert numbers["HELD"] == (columns <= 512 * 16)
    if numbers["HELD"]:
        # No more registers than it takes.
        assert held * threads >= columns > (held - numbers["PACK"]) * threads - 32
    assert launch.grid == (-(-3 // places) * threads, places, 1)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
@pytest.mark.parametrize("columns", [512, 4096])
def test_packs_have_16_bytes(columns, dtype):
    assert launched(3, columns, dtype=dtype)[1]["PACK"] * dtype.size == 16


@pytest.mark.parametrize("columns", [8193, 2**20, 2**30])
def test_wider_rows_take_no_more_registers(columns):
    launch, numbers = launched(1, columns)
    assert (launch.threadgroup[0], numbers["VALUES"] * numbers["PACK"]) == (512, 16)
    assert not numbers["HELD"]


@pytest.mark.parametrize(
    ("rows", "columns", "heads", "groups"),
    [
        (1, 4096, 1, 1),  # decoding
        (64, 4096, 1, 64),  # a row each, since otherwise most of the GPU would wait
        (512, 4096, 1, 512),
        (1024, 4096, 1, 512),
        (32768, 4096, 1, 2048),
        (2048, 512, 8, 128),  # for each of the heads, four rows at a time
        (1, 512, 8, 1),
        (2**24, 64, 1, 65535),
    ],
)
def test_threadgroups_take_several_rows_where_there_are_many(rows, columns, heads, groups):
    launch, _ = launched(rows, columns, heads)
    threads, places, _ = launch.threadgroup
    assert launch.grid == (groups * threads, heads * places, 1)


@pytest.mark.parametrize(("rows", "columns", "heads"), [(0, 5, 2), (5, 0, 2), (5, 2, 0)])
def test_empty_rows_launch_nothing(rows, columns, heads):
    launch, _ = launched(rows, columns, heads)
    assert launch.empty


def test_grids_stay_launchable_for_any_number_of_rows():
    for rows_, columns in ((2**24, 64), (2**20, 2**14), (1, 2**30)):
        values = mx.broadcast_to(mx.array(0.0), (1, rows_, 1, columns))
        for rows_per_simdgroup in (16, 32):
            launch = row_launch(values, rows_per_simdgroup=rows_per_simdgroup)
            groups = [-(-g // t) for g, t in zip(launch.grid, launch.threadgroup, strict=True)]
            assert all(extent < 2**31 for extent in launch.grid)
            assert groups[1] <= 65535
            assert launch.grid[0] % launch.threadgroup[0] == 0
            assert math.prod(launch.threadgroup) <= 512
