"""`conjugate_gradient` against direct solutions in float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.linalg.matrices import check_slopes, positive_definite
from xlstm_kernels.linalg import conjugate_gradient


def drawn(batch: tuple[int, ...], size: int, condition: float = 20.0):
    a = positive_definite((*batch, size, size), condition)
    return a, np.random.default_rng(1).standard_normal((*batch, size)).astype(np.float32)


def residual(a: np.ndarray, x: mx.array, b: np.ndarray) -> np.ndarray:
    image = np.einsum("...ij,...j->...i", a.astype(np.float64), np.array(x))
    return np.linalg.norm(image - b, axis=-1) / np.linalg.norm(b, axis=-1)


@pytest.mark.parametrize(("batch", "size"), [((), 1), ((3,), 8), ((2, 3), 30)])
@pytest.mark.parametrize("function", [False, True])
def test_converges_to_rtol(batch, size, function):
    a, b = drawn(batch, size)
    matrix = mx.array(a)
    given = (lambda v: (matrix @ v[..., None])[..., 0]) if function else matrix
    x, info = conjugate_gradient(given, mx.array(b), maxiter=size + 10)
    assert not np.array(info).any()
    assert info.shape == batch
    assert residual(a, x, b).max() < 2e-5


def test_info_is_maxiter_where_it_did_not_converge():
    a = np.stack([np.eye(6), np.diag(np.logspace(0, 3, 6))]).astype(np.float32)
    _, info = conjugate_gradient(mx.array(a), mx.ones((2, 6)), maxiter=3)
    assert info.tolist() == [0, 3]
    assert info.dtype == mx.int32


def test_start_and_preconditioner():
    a, b = drawn((), 40, 1e4)
    exact = np.linalg.solve(a.astype(np.float64), b).astype(np.float32)
    x, info = conjugate_gradient(mx.array(a), mx.array(b), mx.array(exact), rtol=1e-2, maxiter=0)
    assert info.item() == 0
    assert x.tolist() == exact.tolist()
    inverse = mx.array(np.linalg.inv(a.astype(np.float64)).astype(np.float32))
    for preconditioner in (inverse, lambda v: inverse @ v):
        _, info = conjugate_gradient(
            mx.array(a), mx.array(b), rtol=1e-3, maxiter=3, M=preconditioner
        )
        assert info.item() == 0
    assert conjugate_gradient(mx.array(a), mx.array(b), rtol=1e-3, maxiter=3)[1].item() == 3


def test_absolute_tolerance():
    a, b = drawn((), 10)
    _, info = conjugate_gradient(mx.array(a), mx.array(b), rtol=0.0, atol=100.0, maxiter=0)
    assert info.item() == 0


def test_zero_and_empty():
    x, info = conjugate_gradient(mx.eye(4), mx.zeros((4,)))
    assert x.tolist() == [0] * 4
    assert info.item() == 0
    x, info = conjugate_gradient(mx.zeros((0, 4, 4)), mx.zeros((0, 4)))
    assert x.shape == (0, 4)
    assert info.shape == (0,)


@pytest.mark.parametrize("shapes", [((2, 4, 4), (2, 4)), ((4, 4), (3, 4)), ((3, 1, 4, 4), (2, 4))])
def test_derivatives_of_a_matrix(shapes):
    a, _ = drawn(shapes[0][:-2], 4, 3.0)
    b = np.random.default_rng(2).standard_normal(shapes[1])
    check_slopes(
        lambda a, b: conjugate_gradient(a, b, rtol=0.0, maxiter=8)[0],
        lambda a, b: np.linalg.solve(a, b[..., None])[..., 0],
        [a, b],
        lambda d: d + d.swapaxes(-1, -2) if d.shape[-1] == d.shape[-2] else d,
    )


def test_first_derivatives_of_a_function():
    a, b = (mx.array(array) for array in drawn((), 5, 3.0))

    def by_function(a, b):
        return conjugate_gradient(lambda v: a @ v, b, rtol=1e-7, maxiter=8)[0].sum()

    def by_matrix(a, b):
        return conjugate_gradient(a, b, rtol=1e-7, maxiter=8)[0].sum()

    found = mx.grad(by_function, argnums=(0, 1))(a, b)
    expected = mx.grad(by_matrix, argnums=(0, 1))(a, b)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="second derivatives need a matrix"):
        mx.grad(lambda b: mx.grad(by_function)(a, b).sum())(b)
    with pytest.raises(ValueError, match=r"mx\.jvp needs a matrix"):
        mx.jvp(lambda b: by_function(a, b), [b], [b])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: conjugate_gradient(mx.ones((3, 2)), mx.ones((3,))), ValueError, "square"),
        (lambda: conjugate_gradient(mx.eye(3), mx.ones((4,))), ValueError, "must multiply b"),
        (lambda: conjugate_gradient(mx.eye(3), mx.array(1.0)), ValueError, "at least one axis"),
        (lambda: conjugate_gradient(mx.eye(3), [1.0]), TypeError, "float32 array, got list"),
        (lambda: conjugate_gradient(mx.eye(3), mx.ones((3,)), rtol=-1), ValueError, "negative"),
        (lambda: conjugate_gradient(mx.eye(3), mx.ones((3,)), maxiter=-1), ValueError, "least 0"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
