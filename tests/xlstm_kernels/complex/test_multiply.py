"""`complex_multiply` against complex128."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from xlstm_kernels import DoubleFloat, complex_multiply


def multiplied(a, b, conjugate=False):
    """The product by complex128: (..., 2) in float64."""
    x, y = a[..., 0] + 1j * a[..., 1], b[..., 0] + 1j * b[..., 1]
    product = x * (y.conj() if conjugate else y)
    return np.stack([product.real, product.imag], axis=-1)


@pytest.mark.parametrize("conjugate", [False, True])
@pytest.mark.parametrize("shape", [(7, 33, 2), (2,), (3, 2)], ids=str)
def test_values(shape, conjugate, precision, draw, device, wide, relative_error):
    a, b = draw(shape, precision.dtype), draw(shape, precision.dtype)
    y = complex_multiply(a, b, conjugate=conjugate, backend=device)
    assert y.dtype == precision.dtype
    assert relative_error(y, multiplied(wide(a), wide(b), conjugate)) < precision.value


def test_halves_are_rounded_once(draw, device, wide):
    """Where the parts cancel, too: their products are exact in float32."""
    a = draw((500, 2), mx.bfloat16)
    b = mx.stack([a[:, 1], a[:, 0] * 1.0078125], axis=1)
    y = wide(complex_multiply(a, b, backend=device))
    exact = multiplied(wide(a), wide(b))
    np.testing.assert_allclose(y, exact, rtol=2**-8, atol=0)


@pytest.mark.parametrize("conjugate", [False, True])
def test_gradients(conjugate, draw, device, wide, relative_error):
    a, b, cotangent = (draw((4, 5, 2), mx.float32) for _ in range(3))
    one = complex_multiply(a[:, :1], b, conjugate=conjugate, backend=device)
    assert relative_error(one, multiplied(wide(a[:, :1]), wide(b), conjugate)) < 2e-6

    def product(a, b):
        return complex_multiply(a, b, conjugate=conjugate, backend=device)

    _, (in_a, in_b) = mx.vjp(product, [a[:, :1], b], [cotangent])
    pulled, other = wide(cotangent), np.broadcast_to(wide(a[:, :1]), b.shape)
    expected = multiplied(pulled, wide(b), not conjugate).sum(axis=1, keepdims=True)
    assert relative_error(in_a, expected) < 2e-6
    in_other = multiplied(other, pulled, True) if conjugate else multiplied(pulled, other, True)
    assert relative_error(in_b, in_other) < 2e-6


def test_second_gradients_tangents_and_mapped_factors(draw, device, wide, relative_error):
    a, b = draw((6, 2), mx.float32), draw((6, 2), mx.float32)

    def size(a):
        return mx.square(complex_multiply(a, b, backend=device)).sum()

    slope = mx.grad(lambda a: (mx.grad(size)(a) * a).sum())(a)
    expected = 4 * wide(a) * (wide(b) ** 2).sum(axis=1, keepdims=True)
    assert relative_error(slope, expected) < 5e-6
    _, (pushed,) = mx.jvp(lambda a: complex_multiply(a, b, backend=device), [a], [b])
    assert relative_error(pushed, multiplied(wide(b), wide(b))) < 2e-6
    mapped = mx.vmap(lambda a: complex_multiply(a, b[0], backend="native"))(a)
    assert relative_error(mapped, multiplied(wide(a), wide(b[0]))) < 2e-6


@pytest.mark.parametrize("conjugate", [False, True])
def test_double_floats(conjugate, device):
    generator = np.random.default_rng(5)
    a, b = generator.standard_normal((2, 1, 40, 2)), generator.standard_normal((3, 1, 2))
    x, y = DoubleFloat.from_numpy(a[0]), DoubleFloat.from_numpy(b)
    kept = [np.array(number.to_float64()) for number in (x, y)]
    product = complex_multiply(x, y, conjugate=conjugate, backend=device)
    assert product.shape == (3, 40, 2)
    difference = np.array(product.to_float64()) - multiplied(*kept, conjugate)
    sizes = np.linalg.norm(kept[0], axis=-1) * np.linalg.norm(kept[1], axis=-1)
    assert np.max(np.abs(difference) / sizes[..., None]) < 1e-13


@pytest.mark.parametrize("conjugate", [False, True])
def test_gradients_of_double_floats(conjugate, draw, device, wide, relative_error):
    a, b, low = draw((9, 2), mx.float32), draw((9, 2), mx.float32), mx.zeros((9, 2))

    def total(a, a_low, b):
        factors = DoubleFloat(a, a_low), DoubleFloat(b, low)
        return complex_multiply(*factors, conjugate=conjugate, backend=device).high.sum()

    in_a, in_low, in_b = mx.grad(total, argnums=(0, 1, 2))(a, low, b)
    ones = np.ones((9, 2))
    assert relative_error(in_a, multiplied(ones, wide(b), not conjugate)) < 2e-6
    assert in_low.tolist() == in_a.tolist()
    expected = multiplied(wide(a), ones, True) if conjugate else multiplied(ones, wide(a), True)
    assert relative_error(in_b, expected) < 2e-6


def test_empty_arrays(device):
    empty = mx.ones((0, 2), dtype=mx.bfloat16)
    assert complex_multiply(empty, empty, backend=device).shape == (0, 2)
    double = DoubleFloat(mx.ones((0, 2)), mx.ones((0, 2)))
    assert complex_multiply(double, double, backend=device).shape == (0, 2)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"b": mx.ones((3, 2), dtype=mx.float16)}, TypeError, "one dtype"),
        ({"b": mx.ones((3, 2), dtype=mx.complex64)}, TypeError, "b must be float32"),
        ({"b": mx.ones((3, 3))}, ValueError, r"b must be \(..., 2\)"),
        ({"a": mx.array(1.0)}, ValueError, r"a must be \(..., 2\)"),
        ({"b": mx.ones((4, 2))}, ValueError, "do not broadcast"),
        ({"b": DoubleFloat(mx.ones((3, 2)), mx.ones((3, 2)))}, TypeError, "both be DoubleFloat"),
        ({"backend": "none"}, ValueError, "unknown backend"),
    ],
)
def test_errors(change, error, message):
    with pytest.raises(error, match=message):
        complex_multiply(**{"a": mx.ones((3, 2)), "b": mx.ones((3, 2)), **change})
