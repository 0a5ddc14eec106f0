"""xLSTM in the shape of mlx-lm's models: `mlx_lm.load`, `generate`, `batch_generate`, `lora`, ...

mlx-lm imports `mlx_lm.models.<model_type>`. After `register()` it finds this module for the model
type `xlstm`, that of Hugging Face's xLSTM. `python -m xlstm_kernels.mlx_lm COMMAND ...` runs
mlx-lm's commands that way. mlx-lm is an extra: `pip install "embercoach[lm]"`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from mlx.utils import tree_flatten, tree_map

from xlstm_kernels.checkpoints.quantization import is_quantized
from xlstm_kernels.nn import xLSTM, xLSTMConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import mlx.core as mx
    from mlx import nn
    from mlx_lm.models.cache import ArraysCache

__all__ = ["Model", "ModelArgs", "register"]

MODEL_TYPE = "xlstm"


def register() -> None:
    """Make mlx-lm load models of type `xlstm` with this module's classes, in this process."""
    sys.modules[f"mlx_lm.models.{MODEL_TYPE}"] = sys.modules[__name__]


@dataclass(frozen=True, slots=True)
class ModelArgs(xLSTMConfig):
    """`xLSTMConfig` with the attribute by which mlx-lm chooses a model.

    Attributes:
        model_type: always "xlstm".
    """

    model_type: str = MODEL_TYPE


class Model(xLSTM):
    """An xLSTM whose cache mlx-lm keeps: a list of `ArraysCache`, changed in place.

    Args:
        args: the configuration.
    """

    def __init__(self, args: xLSTMConfig) -> None:
        super().__init__(args)
        self.args = args
        self.model_type = MODEL_TYPE

    def __call__(  # type: ignore[override]  # mlx-lm's cache, and always one result
        self, inputs: mx.array, cache: Sequence[ArraysCache] | None = None
    ) -> mx.array:
        """Predict what follows each token.

        Args:
            inputs: (B, S), token ids.
            cache: what `make_cache` returned; it is brought up to date. Its padding, on the left
                or the right, masks tokens.

        Returns:
            The logits (B, S, V), float32. MLX computes those that are read: mlx-lm reads none
            while it processes a prompt, and those of the last position of each step.
        """
        if cache is None:
            return cast("mx.array", super().__call__(inputs))
        batch, steps = inputs.shape
        states = [
            _state(entry, block.init_state(batch))
            for entry, block in zip(cache, self.backbone.blocks, strict=True)
        ]
        mask = cache[0].make_mask(steps)
        logits, after = super().__call__(inputs, states, mask)
        for entry, state in zip(cache, after, strict=True):
            entry.cache = _arrays(state)
            entry.advance(steps)
        return logits

    @property
    def layers(self) -> Sequence[nn.Module]:
        """The blocks."""
        return self.backbone.blocks

    def make_cache(self) -> list[ArraysCache]:
        """An empty cache: for each block its states, all of them batch-first."""
        from mlx_lm.models.cache import ArraysCache

        return [
            ArraysCache(size=len(_arrays(block.init_state(1)))) for block in self.backbone.blocks
        ]

    @property
    def quant_predicate(self) -> Callable[[str, nn.Module], bool]:
        """Which layers `mlx_lm.convert` quantizes: all but the input and forget gates."""
        return lambda path, _: is_quantized(path)


def _state(entry: ArraysCache, initial: Any) -> Any:
    """A block's state: the arrays of its cache, in the structure of the initial state."""
    if entry.empty():
        return initial
    arrays = iter(entry.cache)
    return tree_map(lambda _: next(arrays), initial)


def _arrays(state: Any) -> list[mx.array]:
    return [array for _, array in cast("list[tuple[str, mx.array]]", tree_flatten(state))]
