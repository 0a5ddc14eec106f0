"""Factorizations and solutions of linear systems against NumPy in float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.linalg.matrices import (
    check_slopes,
    largest_residual,
    norms,
    positive_definite,
)
from tests.xlstm_kernels.linalg.spectra import of_condition
from xlstm_kernels.executors import NATIVE
from xlstm_kernels.linalg import (
    cholesky,
    conjugate_gradient,
    inv,
    lu,
    lu_factor,
    solve,
    solve_triangular,
)

# --- cholesky ----------------------------------------------------------------------------------


INF, NAN = np.inf, np.nan


def cholesky_backward_error(matrices: np.ndarray, factors: np.ndarray) -> float:
    wide, factors = matrices.astype(np.float64), factors.astype(np.float64)
    return largest_residual(factors @ factors.swapaxes(-1, -2), wide, norms(wide))


def lapack(matrices: np.ndarray, device: str) -> np.ndarray:
    """NumPy's, which computes in float64; of operations MLX's, which computes in float32."""
    if device == NATIVE:
        return np.array(mx.linalg.cholesky(mx.array(matrices), stream=mx.cpu))
    return np.linalg.cholesky(matrices)


@pytest.mark.parametrize("condition", [10.0, 1e6])
@pytest.mark.parametrize(
    ("size", "batch"),
    [
        *((16, 5), (1, 70), (2, 5), (7, 9), (65, 2)),
        *(
            pytest.param(*sizes, marks=pytest.mark.exhaustive)
            for sizes in ((31, 7), (32, 4), (33, 3), (160, 2), (512, 1), (16, 4096))
        ),
    ],
)
def test_cholesky_backward_error(size, batch, condition, device):
    matrices = positive_definite((batch, size, size), condition)
    factors = np.array(cholesky(mx.array(matrices), backend=device))
    assert not np.triu(factors, 1).any()
    bar = 3 * max(cholesky_backward_error(matrices, lapack(matrices, device)), 2**-25)
    assert cholesky_backward_error(matrices, factors) <= bar


@pytest.mark.parametrize("size", [6, 70])
@pytest.mark.parametrize("upper", [False, True])
def test_reads_one_triangle(upper, size, device):
    matrices = positive_definite((2, 3, size, size), 10.0)
    other = np.full((size, size), NAN, dtype=np.float32)
    given = np.where(np.tri(size, k=-1) if upper else np.tri(size, k=-1).T, other, matrices)
    found = cholesky(mx.array(given), upper=upper, backend=device)
    expected = np.linalg.cholesky(matrices.astype(np.float64), upper=upper)
    np.testing.assert_allclose(np.array(found), expected, atol=1e-6)


def test_matrices_that_are_not_positive_definite_are_nan(device):
    bad = [[[1, 2], [2, 1]], [[0, 0], [0, 1]], [[NAN, 0], [0, 1]], [[4, 2], [2, NAN]]]
    good = [[4, 2], [2, 5]]
    found = np.array(cholesky(mx.array([*bad[:2], good, *bad[2:]]), backend=device))
    expected = np.full((5, 2, 2), NAN)
    expected[2] = [[2, 0], [1, 2]]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("size", [12, 70])
def test_a_failed_pivot_makes_its_whole_matrix_nan(size, device):
    places = [0, 1, 8, size - 1, *range(15, size - 1, 16)]
    matrices = np.stack([np.eye(size, dtype=np.float32)] * (len(places) + 1))
    matrices[range(len(places)), places, places] = -1.0
    found = np.array(cholesky(mx.array(matrices), backend=device))
    assert np.isnan(found[:-1]).all()
    np.testing.assert_allclose(found[-1], np.eye(size), atol=1e-7)


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (0, 0)])
def test_cholesky_empty(shape, device):
    found = cholesky(mx.zeros(shape), backend=device)
    assert found.shape == np.linalg.cholesky(np.zeros(shape)).shape
    assert mx.grad(lambda a: cholesky(a, backend=device).sum())(mx.zeros(shape)).shape == shape


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_derivatives(upper, device):
    check_slopes(
        lambda a: cholesky(a, upper=upper, backend=device),
        lambda a: np.linalg.cholesky(a, upper=upper),
        [positive_definite((2, 5, 5), 10.0)],
        lambda direction: direction + direction.swapaxes(-1, -2),
    )


# --- lu ----------------------------------------------------------------------------------------


def eliminated(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compact factors, the order of the rows and the pivots of one matrix, as LAPACK's sgetf2."""
    a, order, pivots = a.copy(), np.arange(len(a)), []
    for k in range(min(a.shape)):
        pivot = k + int(np.argmax(np.abs(a[k:, k])))
        pivots.append(pivot)
        a[[k, pivot]], order[[k, pivot]] = a[[pivot, k]], order[[pivot, k]]
        if a[k, k] != 0:
            a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a, order, np.array(pivots, dtype=np.int32)


def split(compact: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    k = min(compact.shape[-2:])
    wide = compact.astype(np.float64)
    return np.tril(wide[..., :k], -1) + np.eye(wide.shape[-2], k), np.triu(wide[..., :k, :])


def lu_backward_error(a: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
    lower, upper = lower.astype(np.float64), upper.astype(np.float64)
    return largest_residual(lower @ upper, a.astype(np.float64), norms(a))


@pytest.mark.parametrize("condition", [10.0, 1e6])
@pytest.mark.parametrize(
    "shape",
    [
        *((2, 16, 16), (3, 1, 1), (4, 5, 5), (2, 12, 5), (2, 5, 12), (2, 40, 7)),
        *(
            pytest.param(shape, marks=pytest.mark.exhaustive)
            for shape in (
                *((2, 32, 32), (2, 33, 33), (2, 65, 65), (1, 160, 160), (1, 130, 70)),
                *((1, 70, 130), (1, 512, 512), (1, 1100, 40), (4096, 8, 8)),
            )
        ),
    ],
    ids=str,
)
def test_lu_backward_error(shape, condition, device):
    a = of_condition(shape, condition)
    places, lower, upper = (np.array(p) for p in lu(mx.array(a), p_indices=True, backend=device))
    assert places.dtype == np.int32
    assert np.abs(lower).max() == 1
    assert not np.tril(upper, -1).any()
    assert not np.triu(lower, 1).any()
    compact, orders, _ = zip(*(eliminated(matrix) for matrix in a), strict=True)
    ordered = np.take_along_axis(a, np.array(orders)[..., None], axis=-2)
    bar = 3 * max(lu_backward_error(ordered, *split(np.array(compact))), 2**-25)
    permuted = np.take_along_axis(lower, places[..., None], axis=-2)
    assert lu_backward_error(a, permuted, upper) <= bar


def check_choice(a: np.ndarray, device: str) -> None:
    """In small integers no rounding can change the choice."""
    compact, pivots = lu_factor(mx.array(a), backend=device)
    places, _, _ = lu(mx.array(a), p_indices=True, backend=device)
    for i, matrix in enumerate(a):
        expected, order, swaps = eliminated(matrix)
        np.testing.assert_allclose(np.array(compact[i]), expected, atol=1e-5)
        np.testing.assert_array_equal(np.array(pivots[i]), swaps)
        np.testing.assert_array_equal(np.argsort(np.array(places[i])), order)
    assert pivots.dtype == mx.int32


def test_pivots_are_those_of_lapack(device):
    """Also of ties, where the first row is taken, and of columns of zeros."""
    ties = [[[1, 2, 3], [-1, 4, 4], [1, 1, 1]], [[0, 1, 2], [0, 3, 1], [0, 3, 2]], np.zeros((3, 3))]
    check_choice(np.array(ties, dtype=np.float32), device)
    check_choice(np.random.default_rng(0).standard_normal((3, 16, 16)).astype(np.float32), device)


@pytest.mark.parametrize("shape", [(2, 3, 4, 4), (5, 3), (3, 5)], ids=str)
def test_forms_of_the_permutation(shape, device):
    a = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    p, lower, upper = (np.array(part) for part in lu(mx.array(a), backend=device))
    np.testing.assert_allclose(p @ lower @ upper, a, atol=1e-5)
    permuted, same = lu(mx.array(a), permute_l=True, backend=device)
    np.testing.assert_array_equal(np.array(permuted), p @ lower)
    np.testing.assert_array_equal(np.array(same), upper)


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (3, 0), (0, 3)], ids=str)
def test_lu_empty(shape, device):
    *batch, rows, columns = shape
    least = min(rows, columns)
    p, lower, upper = lu(mx.zeros(shape), backend=device)
    assert p.shape == (*batch, rows, rows)
    assert lower.shape == (*batch, rows, least)
    assert upper.shape == (*batch, least, columns)
    compact, pivots = lu_factor(mx.zeros(shape), backend=device)
    assert compact.shape == shape
    assert pivots.shape == (*batch, least)


@pytest.mark.parametrize("shape", [(2, 4, 4), (2, 5, 3), (2, 3, 5)], ids=str)
def test_lu_derivatives(shape, device):
    def product_of_factors(lower, upper, library):
        """Distinguishes the factors, in one array."""
        return library.concatenate([lower.reshape(-1), upper.reshape(-1)])

    def definition(a):
        pairs = [split(eliminated(matrix)[0]) for matrix in a]
        lower, upper = (np.stack(parts) for parts in zip(*pairs, strict=True))
        return product_of_factors(lower, upper, np)

    check_slopes(
        lambda a: product_of_factors(*lu(a, backend=device)[1:], mx),
        definition,
        [of_condition(shape, 3.0)],
    )


# --- solve -------------------------------------------------------------------------------------


def solve_backward_error(a: np.ndarray, x: np.ndarray, b: np.ndarray) -> float:
    a, x, b = (array.astype(np.float64) for array in (a, x, b))
    return largest_residual(a @ x, b, norms(a) * norms(x) + norms(b))


@pytest.mark.parametrize("condition", [10.0, 1e6])
@pytest.mark.parametrize(
    ("shape", "columns"),
    [
        *(((4, 5, 5), 2), ((3, 1, 1), 1), ((2, 16, 16), 40)),
        *(
            pytest.param(*sizes, marks=pytest.mark.exhaustive)
            for sizes in (((2, 33, 33), 1), ((1, 160, 160), 2), ((4096, 8, 8), 1))
        ),
    ],
)
def test_solve_backward_error(shape, columns, condition, device):
    a = of_condition(shape, condition)
    b = np.random.default_rng(1).standard_normal((*shape[:-1], columns)).astype(np.float32)
    x = np.array(solve(mx.array(a), mx.array(b), backend=device))
    bar = 3 * max(solve_backward_error(a, np.linalg.solve(a, b), b), 2**-25)
    assert solve_backward_error(a, x, b) <= bar
    one = np.broadcast_to(np.eye(shape[-1]), shape)
    library = mx.linalg.inv(mx.array(a), stream=mx.cpu) if device == NATIVE else np.linalg.inv(a)
    bar = 3 * max(solve_backward_error(a, np.array(library), one), 2**-25)
    assert solve_backward_error(a, np.array(inv(mx.array(a), backend=device)), one) <= bar


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 3), (3,)),
        ((2, 3, 3), (3,)),
        ((3, 3), (2, 3, 4)),
        ((3, 3, 3), (3, 3)),
        ((2, 1, 3, 3), (5, 3, 2)),
        ((0, 3, 3), (3, 2)),
        ((0, 0), (0, 2)),
        ((2, 3, 3), (2, 3, 0)),
    ],
)
def test_shapes_are_those_of_numpy(a, b, device):
    generator = np.random.default_rng(3)
    matrices = (generator.standard_normal(a) + 4 * np.eye(a[-1])).astype(np.float32)
    right = generator.standard_normal(b).astype(np.float32)
    x = solve(mx.array(matrices), mx.array(right), backend=device)
    expected = np.linalg.solve(matrices, right)
    assert x.shape == expected.shape
    np.testing.assert_allclose(np.array(x), expected, atol=1e-5)
    inverse = inv(mx.array(matrices), backend=device)
    np.testing.assert_allclose(np.array(inverse), np.linalg.inv(matrices), atol=1e-5)


def test_solve_singular_matrices_are_nan(device):
    a = np.array([[[1, 2], [2, 4]], [[2, 0], [0, 4]], [[0, 0], [0, 0]]], dtype=np.float32)
    x = np.array(solve(mx.array(a), mx.ones((2,)), backend=device))
    inverse = np.array(inv(mx.array(a), backend=device))
    assert np.isnan(x[[0, 2]]).all()
    assert np.isnan(inverse[[0, 2]]).all()
    assert x[1].tolist() == [0.5, 0.25]
    assert inverse[1].tolist() == [[0.5, 0], [0, 0.25]]


@pytest.mark.parametrize("size", [1, 3, 70])
def test_systems_that_are_not_finite_are_nan(size, device):
    """Also with an infinite pivot, by which LAPACK divides."""
    a = np.tile(4 * np.eye(size, dtype=np.float32), (4, 1, 1))
    b = np.ones((4, size, 2), dtype=np.float32)
    a[0, size - 1, 0], a[1, 0, size - 1], b[2, 0, 0] = INF, NAN, -INF
    bad = np.array([[True, True], [True, True], [True, False], [False, False]])
    given = mx.array(a), mx.array(b)
    for x in (
        solve(*given, backend=device),
        solve_triangular(given[0] + mx.swapaxes(given[0], -1, -2), given[1], backend=device),
    ):
        np.testing.assert_array_equal(np.isnan(np.array(x)), np.repeat(bad[:, None], size, axis=1))
    inverse = np.array(inv(given[0], backend=device))
    np.testing.assert_array_equal(np.isnan(inverse).all(axis=(1, 2)), [True, True, False, False])
    np.testing.assert_array_equal(np.isnan(inverse).any(axis=(1, 2)), [True, True, False, False])


def test_solve_derivatives(device):
    a = of_condition((2, 4, 4), 5.0)
    b = np.random.default_rng(4).standard_normal((2, 4, 2)).astype(np.float32)
    check_slopes(lambda a, b: solve(a, b, backend=device), np.linalg.solve, [a, b])
    check_slopes(lambda a: inv(a, backend=device), np.linalg.inv, [a])


# --- solve triangular --------------------------------------------------------------------------


def triangle(a: np.ndarray, trans: int, lower: bool, unit: bool) -> np.ndarray:
    """The matrix of the system, written out."""
    part = np.tril(a) if lower else np.triu(a)
    if unit:
        size = a.shape[-1]
        part = part * (1 - np.eye(size, dtype=a.dtype)) + np.eye(size, dtype=a.dtype)
    return part.swapaxes(-1, -2) if trans else part


def substituted(t: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Row by row, in the dtype of the arguments."""
    size, x = t.shape[-1], np.zeros_like(b)
    lower = not np.triu(t, 1).any()
    for i in range(size) if lower else reversed(range(size)):
        known = np.einsum("...k,...km->...m", t[..., i, :], x)
        x[..., i, :] = (b[..., i, :] - known) / t[..., i, i, None]
    return x


def solve_triangular_backward_error(t: np.ndarray, x: np.ndarray, b: np.ndarray) -> float:
    t, x, b = (array.astype(np.float64) for array in (t, x, b))
    return largest_residual(t @ x, b, norms(t) * norms(x) + norms(b))


def solve_triangular_drawn(
    size: int, columns: int, batch: int, condition: float
) -> tuple[np.ndarray, np.ndarray]:
    """A triangular factor of a matrix with this condition number, in both triangles, and b."""
    factor = np.linalg.qr(of_condition((batch, size, size), condition).astype(np.float64))[1]
    both = factor + np.triu(factor, 1).swapaxes(-1, -2)
    b = np.random.default_rng(2).standard_normal((batch, size, columns))
    return both.astype(np.float32), b.astype(np.float32)


@pytest.mark.parametrize("condition", [10.0, 1e6])
@pytest.mark.parametrize(
    ("size", "columns", "batch"),
    [
        *((7, 3, 2), (1, 1, 3), (16, 40, 2)),
        *(
            pytest.param(*sizes, marks=pytest.mark.exhaustive)
            for sizes in (
                (32, 1, 2),
                (33, 65, 2),
                (65, 2, 2),
                (160, 3, 2),
                (512, 2, 1),
                (8, 1, 4096),
            )
        ),
    ],
)
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("trans", [0, 1])
def test_solve_triangular_backward_error(size, columns, batch, condition, trans, lower, device):
    a, b = solve_triangular_drawn(size, columns, batch, condition)
    x = solve_triangular(mx.array(a), mx.array(b), trans, lower, backend=device)
    t = triangle(a, trans, lower, unit=False)
    bar = 3 * max(solve_triangular_backward_error(t, substituted(t, b), b), 2**-25)
    if device == NATIVE:
        upper = lower is bool(trans)
        library = mx.linalg.solve_triangular(mx.array(t), mx.array(b), upper=upper, stream=mx.cpu)
        bar = max(bar, 3 * solve_triangular_backward_error(t, np.array(library), b))
    assert solve_triangular_backward_error(t, np.array(x), b) <= bar


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("trans", ["N", "T", "C"])
def test_unit_diagonal_is_not_read(trans, lower, device):
    a, b = solve_triangular_drawn(5, 2, 2, 3.0)
    a[:, range(5), range(5)] = np.nan
    x = solve_triangular(mx.array(a), mx.array(b), trans, lower, True, backend=device)
    part = np.tril(a, -1) if lower else np.triu(a, 1)
    t = part.astype(np.float64) + np.eye(5)
    expected = np.linalg.solve(t if trans == "N" else t.swapaxes(-1, -2), b)
    np.testing.assert_allclose(np.array(x), expected, rtol=1e-4, atol=1e-5)


def test_solve_triangular_singular_matrices_are_nan(device):
    a = np.tile(np.eye(4, dtype=np.float32), (3, 1, 1))
    a[1, 2, 2] = 0
    x = np.array(solve_triangular(mx.array(a), mx.ones((3, 4, 1)), backend=device))
    assert np.isnan(x[1]).all()
    assert (x[[0, 2]] == 1).all()


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_solve_triangular_maps(lower, unit):
    a, b = map(mx.array, solve_triangular_drawn(5, 2, 6, 3.0))

    def solved(a, b):
        return solve_triangular(a, b, 0, lower, unit, backend=NATIVE)

    found = mx.vmap(solved)(a.reshape(2, 3, 5, 5), b.reshape(2, 3, 5, 2))
    np.testing.assert_allclose(np.array(found).reshape(6, 5, 2), solved(a, b), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize(("trans", "lower"), [(0, True), (1, False), (1, True)])
def test_solve_triangular_derivatives(trans, lower, unit, device):
    a, b = solve_triangular_drawn(5, 2, 2, 10.0)
    check_slopes(
        lambda a, b: solve_triangular(a, b, trans, lower, unit, backend=device),
        lambda a, b: np.linalg.solve(triangle(a, trans, lower, unit), b),
        [a, b],
    )


# --- conjugate gradient ------------------------------------------------------------------------


def conjugate_gradient_drawn(batch: tuple[int, ...], size: int, condition: float = 20.0):
    a = positive_definite((*batch, size, size), condition)
    return a, np.random.default_rng(1).standard_normal((*batch, size)).astype(np.float32)


def residual(a: np.ndarray, x: mx.array, b: np.ndarray) -> np.ndarray:
    image = np.einsum("...ij,...j->...i", a.astype(np.float64), np.array(x))
    return np.linalg.norm(image - b, axis=-1) / np.linalg.norm(b, axis=-1)


@pytest.mark.parametrize(("batch", "size"), [((), 1), ((3,), 8), ((2, 3), 30)])
@pytest.mark.parametrize("function", [False, True])
def test_converges_to_rtol(batch, size, function):
    a, b = conjugate_gradient_drawn(batch, size)
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
    a, b = conjugate_gradient_drawn((), 40, 1e4)
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
    a, b = conjugate_gradient_drawn((), 10)
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
    a, _ = conjugate_gradient_drawn(shapes[0][:-2], 4, 3.0)
    b = np.random.default_rng(2).standard_normal(shapes[1])
    check_slopes(
        lambda a, b: conjugate_gradient(a, b, rtol=0.0, maxiter=8)[0],
        lambda a, b: np.linalg.solve(a, b[..., None])[..., 0],
        [a, b],
        lambda d: d + d.swapaxes(-1, -2) if d.shape[-1] == d.shape[-2] else d,
    )


def test_first_derivatives_of_a_function():
    a, b = (mx.array(array) for array in conjugate_gradient_drawn((), 5, 3.0))

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
    with pytest.raises(ValueError, match=r"mx\.jvp.* need a matrix"):
        mx.jvp(lambda b: by_function(a, b), [b], [b])
