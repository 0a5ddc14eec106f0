"""A model of sequences packed into rows gives what it gives for each of them alone."""

from __future__ import annotations

import itertools

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx.utils import tree_flatten

from tests.xlstm_kernels.nn.conftest import VOCABULARY
from xlstm_kernels.nn import xLSTM, xLSTMConfig, xLSTMLMModel
from xlstm_kernels.nn import xLSTMLMModelConfig as PaperConfig

LENGTHS = ((5, 1, 7), (2, 9, 2))  # of the sequences of each row
STEPS = 13
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_heads": 2, "num_hidden_layers": 2}
SLSTM = {"slstm_at": (0,), "slstm_num_heads": 2}
PAPER = {"vocab_size": VOCABULARY, "embedding_dim": 16, "num_blocks": 2, "mlstm_inner_dim": 32}
KINDS = {
    "slstm": lambda: xLSTM(xLSTMConfig(**SIZES, **SLSTM)),
    "paper": lambda: xLSTMLMModel(PaperConfig(**PAPER, slstm_at=(1,), ffn_dim=24)),
}


@pytest.fixture(params=KINDS)
def model(request, draw_weights):
    mx.random.seed(7)
    return draw_weights(KINDS[request.param]())


def numbered(lengths=LENGTHS, numbers=(4, 1, 4)):
    """seq_idx, of numbers that only differ between neighbours."""
    return mx.array([np.repeat(numbers, row).tolist() for row in lengths])


def alone(array):
    """The part of each sequence, (1, S, ...)."""
    for row, lengths in enumerate(LENGTHS):
        for begin, end in itertools.pairwise(np.cumsum([0, *lengths]).tolist()):
            yield array[row : row + 1, begin:end]


def joined(pieces):
    """The inverse of `alone`."""
    pieces = list(pieces)
    return mx.concatenate([mx.concatenate(pieces[at : at + 3], axis=1) for at in (0, 3)])


def test_logits(model, draw_tokens, device, relative_error, wide):
    tokens = draw_tokens(2, STEPS)
    expected = joined(model(one) for one in alone(tokens))
    assert relative_error(model(tokens, seq_idx=numbered()), wide(expected)) < 2e-6
    # Without seq_idx they see each other.
    assert relative_error(model(tokens), wide(expected)) > 1e-3


def test_gradients(model, draw_tokens, device, relative_error, wide):
    tokens, following = draw_tokens(2, STEPS), draw_tokens(2, STEPS)
    if isinstance(model, xLSTM):
        model.backbone.recompute_blocks = True  # which packing has to get through, too

    def loss(logits):
        return nn.losses.cross_entropy(logits, following, reduction="mean")

    one, actual = nn.value_and_grad(model, lambda: loss(model(tokens, seq_idx=numbered())))()
    other, exact = nn.value_and_grad(model, lambda: loss(joined(map(model, alone(tokens)))))()
    assert one.item() == pytest.approx(other.item(), rel=2e-6)
    for (name, gradient), (_, expected) in zip(
        tree_flatten(actual), tree_flatten(exact), strict=True
    ):
        assert relative_error(gradient, wide(expected)) < 5e-6, name


@pytest.mark.parametrize("cut", [5])
def test_a_cache_goes_on_with_the_last_sequence(cut, model, draw_tokens, relative_error, wide):
    tokens, following = draw_tokens(2, STEPS), draw_tokens(2, 3)
    whole, cache = model(tokens, model.init_cache(2), seq_idx=numbered())
    assert relative_error(whole, wide(model(tokens, seq_idx=numbered()))) < 2e-6
    after, _ = model(following, cache)
    for row in range(2):
        last = tokens[row : row + 1, STEPS - LENGTHS[row][-1] :]
        sequence = mx.concatenate([last, following[row : row + 1]], axis=1)
        assert relative_error(after[row : row + 1], wide(model(sequence)[:, -3:])) < 2e-6
    # The first sequence of a row goes on from the cache.
    seq_idx = mx.array([[0] * cut + [1] * (STEPS - cut)] * 2)
    packed, _ = model(tokens, cache, seq_idx=seq_idx)
    expected = [model(tokens[:, :cut], cache)[0], model(tokens[:, cut:])]
    assert relative_error(packed, wide(mx.concatenate(expected, axis=1))) < 2e-6


def test_masked_steps_belong_to_no_sequence(model, draw_tokens, relative_error, wide):
    """Padding on the left, on the right, where a sequence begins, and in place of a whole one."""
    tokens = draw_tokens(2, STEPS)
    mask = np.ones((2, STEPS), bool)
    mask[0, [0, 5, 6, 9]] = False
    mask[1, [1, 2, 3, 12]] = False
    cache = model.init_cache(2)
    predicted, _ = model(tokens, cache, mx.array(mask), numbered(numbers=(4, 1, 0)))
    rows = [wide(predicted), mask, np.array(tokens)]
    for logits, live, ids in zip(*map(alone, rows), strict=True):
        if live.any():
            expected = model(mx.array(ids[live][None]))
            assert relative_error(mx.array(logits[live][None]), wide(expected)) < 2e-6


@pytest.mark.parametrize(
    ("seq_idx", "error", "message"),
    [
        (mx.zeros((2, STEPS)), TypeError, "seq_idx must be an array of integers, got .*float32"),
        ([[0] * STEPS] * 2, TypeError, "seq_idx must be an array of integers, got list"),
        (mx.zeros((1, STEPS), mx.int32), ValueError, r"seq_idx must have shape \(2, 13\)"),
    ],
)
def test_other_numbers_are_refused(seq_idx, error, message, model, draw_tokens):
    with pytest.raises(error, match=message):
        model(draw_tokens(2, STEPS), seq_idx=seq_idx)
