"""Matrices of known condition numbers, and slopes of functions in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np

# Random directions; each has to fit to this part of the norm of the gradient.
DIRECTIONS = 3
BAR = 2e-5
STEP = 1e-5


def positive_definite(shape: Sequence[int], condition: float, seed: int = 0) -> np.ndarray:
    """Symmetric matrices (..., N, N) with eigenvalues from 1 to 1 / condition, float32."""
    *_, size = shape
    normal = np.random.default_rng(seed).standard_normal
    vectors, _ = np.linalg.qr(normal(shape))
    values = np.logspace(0, -np.log10(condition), size)
    whole = (vectors * values) @ vectors.swapaxes(-1, -2)
    return ((whole + whole.swapaxes(-1, -2)) / 2).astype(np.float32)


def norms(matrices: np.ndarray) -> np.ndarray:
    return np.linalg.norm(matrices, axis=(-2, -1))


def largest_residual(left: np.ndarray, right: np.ndarray, scale: np.ndarray) -> float:
    """The largest norm of left - right over `scale`, among the matrices of a batch."""
    return float(np.max(norms(left - right) / scale))


def pulled(function: Callable[..., mx.array], at: Sequence[mx.array]) -> list[mx.array]:
    """The gradient of a number, always as a list."""
    return mx.vjp(function, list(at), [mx.array(1.0)])[1]


def along(gradients: Sequence[mx.array], directions: Sequence[np.ndarray]) -> mx.array:
    pairs = zip(gradients, directions, strict=True)
    return sum(mx.sum(g * mx.array(d, dtype=mx.float32)) for g, d in pairs)


def size_of(gradients: Sequence[mx.array]) -> mx.array:
    return sum(mx.linalg.norm(g.reshape(-1)) for g in gradients)


def check_slopes(
    operator: Callable[..., mx.array],
    definition: Callable[..., np.ndarray],
    arrays: Sequence[np.ndarray],
    directions: Callable[[np.ndarray], np.ndarray] = lambda direction: direction,
) -> None:
    """Compare gradients, theirs, and `mx.jvp` with differences of `definition` in float64."""
    wide = [array.astype(np.float64) for array in arrays]
    normal = np.random.default_rng(1).standard_normal
    weight = normal(definition(*wide).shape)
    given = [mx.array(array, dtype=mx.float32) for array in arrays]

    def loss(*at: mx.array) -> mx.array:
        return mx.sum(mx.array(weight, dtype=mx.float32) * operator(*at))

    def value(*at: np.ndarray) -> float:
        return float((weight * definition(*at)).sum())

    far = 10 * STEP
    found: list[mx.array] = []  # of each direction a slope and its slope
    tangents: list[mx.array] = []
    sizes: list[mx.array] = []
    expected: list[tuple[float, float]] = []
    for _ in range(DIRECTIONS):
        first, second = ([directions(normal(a.shape)) for a in wide] for _ in range(2))

        def slope(*at: mx.array, directions=first) -> mx.array:
            return along(pulled(loss, at), directions)

        def moved(s: float, t: float, u=first, v=second) -> float:
            return value(*(a + s * x + t * y for a, x, y in zip(wide, u, v, strict=True)))

        gradients, curved = pulled(loss, given), pulled(slope, given)
        found.append(mx.stack([slope(*given), along(curved, second)]))
        _, tangent = mx.jvp(loss, given, [mx.array(d, dtype=mx.float32) for d in first])
        tangents += tangent
        sizes.append(mx.stack([size_of(gradients), size_of(curved)]))
        corners = moved(far, far) - moved(far, -far) - moved(-far, far) + moved(-far, -far)
        ends = moved(STEP, 0) - moved(-STEP, 0)
        expected.append((ends / (2 * STEP), corners / (4 * far**2)))
    slopes, curves = np.array(mx.stack(found)).T
    of_gradients, of_curves = np.array(mx.stack(sizes)).T
    expected_slopes, expected_curves = np.array(expected).T
    assert (np.abs(slopes - expected_slopes) < BAR * of_gradients).all()
    found_slopes = np.array(mx.stack(tangents))
    assert (np.abs(found_slopes - expected_slopes) < BAR * of_gradients).all()
    assert (np.abs(curves - expected_curves) < 3 * BAR * of_curves).all()
