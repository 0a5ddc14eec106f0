"""Small models with drawn weights, and comparisons of both language models with definitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx.utils import tree_flatten, tree_unflatten

from tests.xlstm_kernels.conftest import relative_error
from tests.xlstm_kernels.nn import oracle
from xlstm_kernels.nn import xLSTM, xLSTMConfig, xLSTMLMModel

VOCABULARY = 23
BAR = 5e-6  # relative L2 error: that of one operator is 2e-6, and three blocks follow each other
MASKS = ("left", "right", "anywhere", "everywhere")


def numbers_of(model: nn.Module) -> dict[str, np.ndarray]:
    """The parameters by name, in float64."""
    return {
        name: np.array(array.astype(mx.float32)).astype(np.float64)
        for name, array in tree_flatten(model.parameters())
    }


def expected_logits(
    model: xLSTM | xLSTMLMModel, tokens: mx.array, numbers: Mapping[str, np.ndarray] | None = None
) -> np.ndarray:
    """Return the definition's logits, of the model's parameters, or of `numbers` by their names."""
    config, numbers = model.config, numbers_of(model) if numbers is None else numbers
    if isinstance(model, xLSTMLMModel):
        sizes = oracle.Sizes(config.num_blocks, config.mlstm_num_heads)
        return oracle.block_stack_logits(numbers, np.array(tokens), sizes)
    sizes = oracle.Sizes(
        config.num_hidden_layers,
        config.num_heads,
        config.gate_soft_cap,
        config.output_logit_soft_cap,
    )
    return oracle.logits(numbers, np.array(tokens), sizes)


def check_logits(model: xLSTM | xLSTMLMModel, tokens: mx.array) -> None:
    """Compare the logits of a sequence, without a cache, with the definition's."""
    predicted = model(tokens)
    assert predicted.dtype == mx.float32
    assert relative_error(predicted, expected_logits(model, tokens)) < BAR


def check_pieces(
    model: xLSTM | xLSTMLMModel,
    tokens: mx.array,
    ends: list[int],
    transform: Callable[[Callable], Callable] = lambda call: call,
) -> None:
    """Compare the logits of a sequence in pieces, each from the cache of the one before.

    Args:
        model: the model.
        tokens: (B, S).
        ends: of all pieces but the last.
        transform: of a function of tokens and cache, such as `mx.compile`.
    """

    def logits_and_cache(piece, cache):
        return model(piece, cache), cache

    call, cache, outputs = transform(logits_and_cache), model.init_cache(tokens.shape[0]), []
    for piece in mx.split(tokens, ends, axis=1):
        one, cache = call(piece, cache)
        assert one.shape[1] == piece.shape[1]
        outputs.append(one)
    assert relative_error(mx.concatenate(outputs, axis=1), expected_logits(model, tokens)) < BAR


def check_mask(
    model: xLSTM | xLSTMLMModel, tokens: mx.array, following: mx.array, mask: np.ndarray
) -> None:
    """Compare masked sequences, in two pieces, with each of them alone without masked tokens."""
    cache, middle = model.init_cache(len(mask)), tokens.shape[1] * 3 // 7
    outputs = [
        model(tokens[:, part], cache, mx.array(mask[:, part]))
        for part in (slice(0, middle), slice(middle, None))
    ]
    predicted = np.array(mx.concatenate(outputs, axis=1))
    assert np.isfinite(predicted).all()
    after = model(following, cache)
    for row, live in enumerate(mask):
        alone = mx.array(np.append(np.array(tokens[row])[live], np.array(following[row])))[None]
        expected = expected_logits(model, alone)
        if live.any():
            actual = mx.array(predicted[row][live][None])
            assert relative_error(actual, expected[:, :-1]) < BAR
        assert relative_error(after[row : row + 1], expected[:, -1:]) < BAR


def draw_mask(where: str, lengths: list[int], steps: int) -> np.ndarray:
    """Return booleans (B, S), False for masked tokens.

    Args:
        where: one of `MASKS`, the place of masked tokens.
        lengths: tokens that "left" and "right" leave of each sequence.
        steps: S.
    """
    kept, shape = np.array(lengths)[:, None], (len(lengths), steps)
    return {
        "left": np.arange(steps) >= steps - kept,
        "right": np.arange(steps) < kept,
        "anywhere": np.random.default_rng(1).random(shape) < 0.6,
        "everywhere": np.zeros(shape, bool),
    }[where]


def loss_of(model: xLSTM | xLSTMLMModel, tokens: mx.array) -> mx.array:
    """Return the mean cross-entropy of each token but the first."""
    predicted = model(tokens[:, :-1])
    return nn.losses.cross_entropy(predicted, tokens[:, 1:], reduction="mean")


def check_gradients(
    model: xLSTM | xLSTMLMModel, tokens: mx.array, draw: Callable[..., mx.array]
) -> None:
    """Compare slopes along a drawn direction of each parameter with differences of definitions."""
    loss, gradients = nn.value_and_grad(model, loss_of)(model, tokens)
    numbers, following = numbers_of(model), np.array(tokens[:, 1:])

    def definition(changed: Mapping[str, np.ndarray]) -> float:
        predicted = expected_logits(model, tokens[:, :-1], {**numbers, **changed})
        return oracle.cross_entropy(predicted, following)

    assert loss.item() == pytest.approx(definition({}), rel=BAR)
    for name, gradient in tree_flatten(gradients):
        direction = np.array(draw(gradient.shape, mx.float32)).astype(np.float64)
        step = 1e-5 * direction
        ahead, back = (definition({name: numbers[name] + by}) for by in (step, -step))
        expected = (ahead - back) / 2e-5
        actual = float(np.sum(np.array(gradient).astype(np.float64) * direction))
        scale = float(np.linalg.norm(np.array(gradient)))
        assert scale > 0, name
        assert actual == pytest.approx(expected, rel=1e-4, abs=2e-5 * scale), name


@pytest.fixture
def draw_weights(draw) -> Callable[[nn.Module], nn.Module]:
    """Give a module weights at random, around those that it began with."""

    def drawn(module: nn.Module) -> nn.Module:
        changed = [
            (name, array + draw(array.shape, mx.float32, 0.3 if array.ndim == 1 else 0.1))
            for name, array in tree_flatten(module.parameters())
        ]
        module.update(tree_unflatten(changed))
        return module

    return drawn


@pytest.fixture
def small_model(draw_weights) -> Callable[..., xLSTM]:
    """Make an `xLSTM`; by default, blocks of mLSTM, sLSTM and mLSTM, of width 32."""

    def small(**settings) -> xLSTM:
        mx.random.seed(20251121)
        settings = {
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "num_hidden_layers": 3,
            "num_heads": 2,
            "slstm_at": (1,),
            "slstm_num_heads": 4,
            "ffn_round_up_to_multiple_of": 8,
            **settings,
        }
        return draw_weights(xLSTM(xLSTMConfig(**settings)))

    return small


@pytest.fixture
def draw_tokens() -> Callable[[int, int], mx.array]:
    generator = np.random.default_rng(3)
    return lambda batch, steps: mx.array(generator.integers(VOCABULARY, size=(batch, steps)))
