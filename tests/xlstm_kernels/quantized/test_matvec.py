"""`quantized_matvec` against float64, on weights of `mx.quantize`."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.quantized import oracle
from xlstm_kernels import quantized_matvec
from xlstm_kernels.quantized import matvec


@pytest.fixture
def drawn(draw):
    """Draw x (M, K) and the quantized parts of a matrix (N, K)."""

    def quantized(rows, outputs, inner, group_size=64, bits=4, dtype=mx.float32):
        x, matrix = draw((rows, inner), dtype), draw((outputs, inner), dtype)
        return x, *mx.quantize(matrix, group_size=group_size, bits=bits)

    return quantized


def exact(wide, x, w, scales, biases, bits=4):
    return wide(x) @ oracle.matrix(np.array(w), wide(scales), wide(biases), bits).T


# Rows, outputs, inner, group size, bits: each number of weights that a lane takes, parts of a
# simdgroup, outputs that do not fill one, and several rounds of a lane.
SHAPES = [
    (1, 1, 32, 32, 4),
    (1, 6, 2080, 32, 4),
    (2, 5, 1152, 128, 4),
    (3, 7, 576, 64, 4),
    (4, 4, 544, 32, 8),
    (5, 3, 320, 64, 8),
    (7, 2, 1120, 32, 4),
    (8, 6, 352, 32, 4),
    (8, 9, 384, 128, 8),
    (1, 3, 640, 64, 8),
]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values(shape, precision, drawn, device, wide, relative_error):
    *_, group_size, bits = shape
    arrays = drawn(*shape, dtype=precision.dtype)
    y = quantized_matvec(*arrays, group_size=group_size, bits=bits, backend=device)
    assert y.dtype == precision.dtype
    assert relative_error(y, exact(wide, *arrays, bits)) < precision.value


# One and two tiles of rows; outputs that do not fill tiles; groups that do not fill a round.
TILES = [
    (2, 1, 32, 32, 4),
    (2, 5, 1152, 128, 4),
    (3, 40, 192, 64, 8),
    (8, 16, 320, 64, 4),
    (9, 7, 384, 128, 8),
    (13, 17, 96, 32, 8),
    (16, 33, 544, 32, 4),
    (3, 4099, 64, 32, 4),
    (9, 8193, 32, 32, 8),
]


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=str)
@pytest.mark.parametrize("shape", TILES, ids=str)
def test_several_rows_of_halves(shape, dtype, drawn, simulator, wide, relative_error):
    *_, group_size, bits = shape
    x, *matrix = drawn(*shape, dtype=dtype)
    options = {"group_size": group_size, "bits": bits, "backend": "metal"}
    y = quantized_matvec(x, *matrix, **options)
    rounded = mx.array(exact(wide, x, *matrix, bits), dtype=mx.float32).astype(dtype)
    assert relative_error(y, wide(rounded)) < (2e-4 if dtype == mx.float16 else 1e-3)
    misaligned = mx.concatenate([x[0, :1], x.flatten()])[1:].reshape(x.shape)
    assert mx.array_equal(quantized_matvec(misaligned, *matrix, **options), y)


def test_many_rows_of_floats_take_two_launches(drawn, simulator, wide, relative_error):
    arrays = drawn(11, 6, 128)
    assert relative_error(quantized_matvec(*arrays, backend="metal"), exact(wide, *arrays)) < 2e-6


@pytest.mark.parametrize("bits", [4, 8])
def test_gradients(bits, drawn, draw, device, wide, relative_error):
    x, w, scales, biases = drawn(3, 6, 128, 32, bits)
    cotangent = draw((3, 6), mx.float32)

    def product(x, scales, biases):
        options = {"group_size": 32, "bits": bits, "backend": device}
        return quantized_matvec(x[None], w, scales, biases, **options)[0]

    _, found = mx.vjp(product, [x, scales, biases], [cotangent])
    parts = wide(x), np.array(w), wide(scales), wide(biases)
    expected = oracle.gradients(*parts, bits, wide(cotangent))
    for gradient, array in zip(found, expected, strict=True):
        assert relative_error(gradient, array) < 5e-6


def test_mlx_products_have_the_same_gradients(drawn, draw):
    """Of float32 on a CPU, where no backend is named."""
    x, w, scales, biases = drawn(3, 6, 128)
    primals, cotangent = [x, scales, biases], draw((3, 6), mx.float32)

    def results(backend):
        def product(x, scales, biases):
            return quantized_matvec(x, w, scales, biases, backend=backend)

        def gradients(*arrays):
            return mx.vjp(product, [*arrays], [cotangent])[1]

        _, twice = mx.vjp(gradients, primals, primals)
        _, tangent = mx.jvp(product, primals, primals)
        return [product(*primals), *gradients(*primals), *twice, *tangent]

    with mx.stream(mx.cpu):
        for found, expected in zip(results(None), results("native"), strict=True):
            np.testing.assert_allclose(np.array(found), np.array(expected), rtol=2e-5, atol=2e-5)


def test_weights_have_no_gradient(drawn, device):
    x, w, scales, biases = drawn(1, 4, 64)
    with pytest.raises(ValueError, match="quantized weights have no gradient"):
        mx.grad(lambda w: quantized_matvec(x, w, scales, biases, backend=device).sum())(w)


def test_any_leading_axes_views_and_mapped_rows(drawn, device, wide, relative_error):
    x, w, scales, biases = drawn(8, 5, 128)
    expected = exact(wide, x, w, scales, biases)
    arrays = x.reshape(2, 4, 128), w, scales, biases
    assert (
        relative_error(quantized_matvec(*arrays, backend=device), expected.reshape(2, 4, 5)) < 2e-6
    )
    views = [mx.contiguous(array.T).T for array in (x, w, scales, biases)]
    assert relative_error(quantized_matvec(*views, backend=device), expected) < 2e-6
    row = quantized_matvec(x[3], w, scales, biases, backend=device)
    assert relative_error(row, expected[3]) < 2e-6
    mapped = mx.vmap(lambda x: quantized_matvec(x, w, scales, biases, backend="native"))(x)
    assert relative_error(mapped, expected) < 2e-6


def test_empty_arrays(drawn, device):
    x, w, scales, biases = drawn(3, 4, 64)
    assert quantized_matvec(x[:0], w, scales, biases, backend=device).shape == (0, 4)
    assert quantized_matvec(x, w[:0], scales[:0], biases[:0], backend=device).shape == (3, 0)


@pytest.mark.parametrize(("rows", "values"), [(1, 32), (2, 32), (3, 16), (4, 16), (5, 8), (8, 8)])
def test_few_rows_leave_registers_for_many_weights(rows, values):
    groups = mx.zeros((4100, 64))
    given = mx.zeros((rows, 4096)), mx.zeros((4100, 512), dtype=mx.uint32), groups, groups
    launch = matvec._launch(*given, group_size=64, bits=4)
    assert dict(launch.template)["VALUES"] == values
    assert launch.threadgroup == (128, 1, 1)
    assert launch.grid == (1025 * 128, 1, 1)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"x": mx.ones((1, 64), dtype=mx.int32)}, TypeError, "x must be float32"),
        ({"w": mx.ones((4, 8))}, TypeError, "w must be uint32"),
        ({"scales": mx.ones((4, 1), dtype=mx.int32)}, TypeError, "scales must be float32"),
        ({"x": mx.ones((1, 32))}, ValueError, r"K \* bits / 32"),
        ({"x": mx.array(1.0)}, ValueError, r"K \* bits / 32"),
        ({"x": mx.ones((3, 6, 64))}, ValueError, "at most 16 rows, got 18"),
        ({"biases": mx.ones((4, 2))}, ValueError, "biases must have shape"),
        ({"bits": 3}, ValueError, "bits must be one of"),
        ({"group_size": 16}, ValueError, "group_size must be one of"),
        ({"group_size": 128}, ValueError, "multiple of group_size"),
        ({"backend": "none"}, ValueError, "unknown backend"),
    ],
)
def test_errors(change, error, message, drawn):
    x, w, scales, biases = drawn(1, 4, 64)
    arguments = {"x": x, "w": w, "scales": scales, "biases": biases, **change}
    with pytest.raises(error, match=message):
        quantized_matvec(**arguments)
