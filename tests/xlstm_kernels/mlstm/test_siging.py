"""The mLSTM with sigmoid input gates, against its definition step by step in float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.mlstm.comparing import Draw, wide
from tests.xlstm_kernels.mlstm.oracle import log_sigmoid
from xlstm_kernels.mlstm.siging import mlstm_siging_chunkwise


def numbers(array):
    return array if isinstance(array, np.ndarray) else wide(array)


def definition(inputs, *, normalize, eps=1e-6):
    q, k, v, i, f = map(numbers, inputs.sequence)
    batch, heads, steps, key_width = q.shape
    c = np.zeros((batch, heads, key_width, v.shape[-1]))
    n = np.zeros((batch, heads, key_width))
    if inputs.states is not None:
        c, n = map(numbers, inputs.states[:2])
    mask = np.ones((batch, steps), bool) if inputs.mask is None else np.array(inputs.mask)
    h = np.zeros_like(v)
    for t in range(steps):
        kept = mask[:, t]
        forget, admit = (np.exp(log_sigmoid(gate[:, :, t])) for gate in (f, i))
        new_c = (
            forget[..., None, None] * c
            + (admit[..., None] * k[:, :, t])[..., None] * v[:, :, t, None, :]
        )
        new_n = forget[..., None] * n + admit[..., None] * k[:, :, t]
        query = q[:, :, t] / np.sqrt(key_width)
        read = np.einsum("bhd,bhdv->bhv", query, new_c)
        if normalize:
            inner = np.einsum("bhd,bhd->bh", query, new_n)
            read = read / (np.maximum(np.abs(inner), 1) + eps)[..., None]
        h[:, :, t] = np.where(kept[:, None, None], read, 0)
        c = np.where(kept[:, None, None, None], new_c, c)
        n = np.where(kept[:, None, None], new_n, n)
    return h, c, n


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("gates", ["normal", "wide", "infinite"])
@pytest.mark.parametrize(("steps", "chunk_size"), [(1, 64), (66, 64), (100, 24)])
def test_values(normalize, masked, gates, steps, chunk_size, device, relative_error):
    draw = Draw(2, 3, steps, 8, 12, gates=gates, initial=True, masked=masked, seed=steps)
    inputs = draw.inputs()
    c, n, _ = (mx.where(mx.isfinite(state), state, 0) for state in inputs.states)
    h, last = mlstm_siging_chunkwise(
        *inputs.sequence,
        c_initial=c,
        n_initial=n,
        return_last_states=True,
        chunk_size=chunk_size,
        normalize=normalize,
        mask=inputs.mask,
        backend=device,
    )
    expected = definition(inputs, normalize=normalize)
    # Nothing is stabilised, so the terms of a sum set the size of its error.
    assert relative_error(h, expected[0]) < 4e-6
    for state, wanted in zip(last, expected[1:], strict=True):
        assert state.dtype == mx.float32
        assert relative_error(state, wanted) < 1e-6


@pytest.mark.parametrize("missing", ["c_initial", "n_initial"])
def test_states_come_together(missing):
    inputs = Draw(1, 2, 3, 8, 4, initial=True).inputs()
    given = {"c_initial": inputs.states[0], "n_initial": inputs.states[1], missing: None}
    with pytest.raises(ValueError, match="mlstm_siging_chunkwise: the initial states c and n come"):
        mlstm_siging_chunkwise(*inputs.sequence, **given)
