"""The table that chooses forms and chunks."""

from __future__ import annotations

import mlx.core as mx
import pytest

from xlstm_kernels import mlstm_chunkwise, mlstm_sequence
from xlstm_kernels.mlstm import choice


def call(steps: int, keys: int = 8, values: int = 8) -> tuple[mx.array, mx.array]:
    """q and v, of which nothing but the shape is looked at."""
    return mx.zeros((1, 1, steps, keys)), mx.zeros((1, 1, steps, values))


@pytest.mark.parametrize(
    ("steps", "masked", "by_kernels", "native"),
    [
        (1, False, choice.STEP, choice.STEP),
        (1, True, choice.SEQUENCE, choice.SEQUENCE),
        (2, False, choice.SEQUENCE, choice.CHUNKWISE),
        (16, True, choice.SEQUENCE, choice.CHUNKWISE),
        (17, False, choice.CHUNKWISE, choice.CHUNKWISE),
    ],
)
def test_forms(steps, masked, by_kernels, native):
    assert choice.chosen(*call(steps), "metal", masked=masked).form == by_kernels
    assert choice.chosen(*call(steps), "cuda", masked=masked).form == by_kernels
    assert choice.chosen(*call(steps), "native", masked=masked).form == native


@pytest.mark.parametrize(
    ("steps", "state", "gpu", "cpu"),
    [
        (1, (64, 64), 64, 32),
        (2047, (64, 64), 64, 32),
        (2048, (64, 64), 128, 32),
        (8191, (128, 256), 128, 32),
        (8192, (256, 256), 256, 64),
    ],
)
def test_chunks(steps, state, gpu, cpu, monkeypatch):
    def size(backend):
        return choice.chosen(*call(steps, *state), backend, form=choice.CHUNKWISE).chunk_size

    assert size("metal") == gpu
    monkeypatch.setattr(mx, "default_device", lambda: mx.gpu)
    assert size("native") == gpu
    monkeypatch.setattr(mx, "default_device", lambda: mx.cpu)
    assert size("native") == cpu


@pytest.mark.parametrize("operator", [mlstm_chunkwise, mlstm_sequence])
def test_operators_ask_the_table(operator, monkeypatch):
    """Of a sequence in single steps, the gradient has chunks."""
    asked = []

    def chosen(q, v, backend, *, form):
        asked.append((q.shape, v.shape, backend, form))
        return choice.TABLE[-1]

    monkeypatch.setattr(choice, "chosen", chosen)
    q, gate = mx.ones((1, 1, 40, 8)), mx.zeros((1, 1, 40))

    def total(q):
        return operator(q, q, q, gate, gate, backend="native").sum()

    mx.eval(mx.grad(total)(q))
    assert set(asked) == {(q.shape, q.shape, "native", choice.CHUNKWISE)}
