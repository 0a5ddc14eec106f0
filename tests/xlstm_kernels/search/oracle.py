"""Exact nearest neighbors in NumPy."""

from __future__ import annotations

import numpy as np


def nearest(vectors, queries, k, metric, allowed=None):
    """The k nearest in float64, equal ones by their ids; `allowed` (Q, N) excludes others."""
    wide, q = vectors.astype(np.float64), queries.astype(np.float64)
    with np.errstate(invalid="ignore"):
        squares = ((wide[None] - q[:, None]) ** 2).sum(axis=2)
        keys = squares if metric == "l2" else -(q @ wide.T)
    if allowed is not None:
        keys = np.where(allowed, keys, np.inf)
    keys = np.where(np.isnan(keys), np.inf, keys)
    missing = max(k - keys.shape[1], 0)
    keys = np.pad(keys, [(0, 0), (0, missing)], constant_values=np.inf)
    order = np.argsort(keys, axis=1, kind="stable")[:, :k]
    distances = np.take_along_axis(keys, order, axis=1)
    ids = np.where(np.isinf(distances), -1, order)
    return (distances if metric == "l2" else -distances), ids
