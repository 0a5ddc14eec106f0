"""Matrices of given singular values, and the errors of decompositions in float64."""

from __future__ import annotations

import numpy as np


def of_condition(
    shape: tuple[int, ...], condition: float, seed: int = 0, *, symmetric: bool = False
) -> np.ndarray:
    """Float32 matrices (..., M, N) with singular values from 1 to 1 / condition.

    Symmetric ones have eigenvalues of these sizes and of both signs.
    """
    generator = np.random.default_rng(seed)
    count = min(shape[-2:])
    values = np.logspace(0, -np.log10(condition), count)

    def basis(rows: int) -> np.ndarray:
        return np.linalg.qr(generator.standard_normal((*shape[:-2], rows, count)))[0]

    left = basis(shape[-2])
    if symmetric:
        right = left * generator.choice([-1.0, 1.0], (*shape[:-2], 1, count))
        matrix = (left * values) @ right.swapaxes(-1, -2)
        return ((matrix + matrix.swapaxes(-1, -2)) / 2).astype(np.float32)
    return ((left * values) @ basis(shape[-1]).swapaxes(-1, -2)).astype(np.float32)


def wide(array: object) -> np.ndarray:
    return np.array(array).astype(np.float64)


def spectral_norm(a: np.ndarray) -> float:
    return float(np.linalg.norm(a, 2, axis=(-2, -1)).max())


def backward_error(a: np.ndarray, *factors: object) -> float:
    """||A - product of the factors|| / ||A||, the largest of a batch."""
    product = wide(factors[0])
    for factor in factors[1:]:
        product = product @ wide(factor)
    a = a.astype(np.float64)
    norms = np.linalg.norm(a, 2, axis=(-2, -1))
    return float((np.linalg.norm(a - product, 2, axis=(-2, -1)) / norms).max())


def orthogonality_error(columns: object) -> float:
    """||Q'Q - I||, the largest of a batch."""
    q = wide(columns)
    return spectral_norm(np.swapaxes(q, -1, -2) @ q - np.eye(q.shape[-1]))


def diagonal(values: object, rows: int, columns: int) -> np.ndarray:
    """Values (..., K) on the diagonals of matrices (..., rows, columns)."""
    values = wide(values)
    count = values.shape[-1]
    matrix = np.zeros((*values.shape[:-1], rows, columns))
    matrix[..., range(count), range(count)] = values
    return matrix
