"""The gradient in m, against its definition step by step."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from xlstm_kernels.mlstm.chunked.running_maximum import maximum_gradient


def by_definition(cotangent, admitted):
    gradient = cotangent.astype(np.float64)
    for step in reversed(range(cotangent.shape[-1] - 1)):
        made_of = admitted[..., step + 1] != 0
        gradient[..., step] += np.where(made_of, gradient[..., step + 1], 0)
    return gradient


@pytest.mark.parametrize("chosen", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize(
    ("steps", "length"), [(1, 4), (31, 16), (32, 32), (33, 16), (256, 64), (257, 64), (700, 128)]
)
def test_gradient(steps, length, chosen, device):
    generator = np.random.default_rng(steps)
    chunks = -(-steps // length)
    cotangent = generator.standard_normal((2, 3, steps)).astype(np.float32)
    admitted = -generator.random((2, 3, chunks * length)).astype(np.float32) - 0.1
    admitted[generator.random(admitted.shape) < chosen] = 0
    gates = mx.array(admitted.reshape(2, 3, chunks, length))
    found = maximum_gradient(mx.array(cotangent), gates, backend=device)
    expected = by_definition(cotangent, admitted[..., :steps])
    np.testing.assert_allclose(np.array(found), expected, rtol=1e-5, atol=2e-5)


def test_what_is_not_finite_stays_among_the_steps_that_follow_each_other(device):
    admitted = mx.array([-1.0, -1, 0, -1, -1, -1]).reshape(1, 1, 1, 6)
    cotangent = mx.array([1.0, 2, 3, mx.inf, 5, 6]).reshape(1, 1, 6)
    found = maximum_gradient(cotangent, admitted, backend=device)
    assert found.tolist() == [[[3, 2, mx.inf, mx.inf, 11, 6]]]
