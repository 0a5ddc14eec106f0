"""Small models with drawn weights, and what their definition makes of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx.utils import tree_flatten, tree_unflatten

from tests.xlstm_kernels.nn import oracle
from xlstm_kernels.nn import xLSTM, xLSTMConfig

if TYPE_CHECKING:
    from collections.abc import Callable

VOCABULARY = 23


def numbers_of(model: nn.Module) -> dict[str, np.ndarray]:
    """The parameters by name, in float64."""
    return {
        name: np.array(array.astype(mx.float32)).astype(np.float64)
        for name, array in tree_flatten(model.parameters())
    }


def expected_logits(model: xLSTM, tokens: mx.array) -> np.ndarray:
    """The definition's logits, for the model's parameters as they are."""
    config = model.config
    sizes = oracle.Sizes(
        config.num_hidden_layers,
        config.num_heads,
        config.gate_soft_cap,
        config.output_logit_soft_cap,
    )
    return oracle.logits(numbers_of(model), np.array(tokens), sizes)


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
