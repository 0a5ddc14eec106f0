"""xLSTM in the shape of mlx-lm's models: `mlx_lm.load`, `generate`, `batch_generate`, `lora`, ...

mlx-lm imports `mlx_lm.models.<model_type>`. After `register()` it finds this module for the model
type `xlstm`, that of Hugging Face's xLSTM. `python -m xlstm_kernels.mlx_lm COMMAND ...` runs
mlx-lm's commands that way. mlx-lm is an extra: `pip install "embercoach[lm]"`.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten, tree_map

from xlstm_kernels import executors
from xlstm_kernels.checkpoints.quantization import is_quantized
from xlstm_kernels.nn import xLSTM, xLSTMConfig, xLSTMLMModel, xLSTMLMModelConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mlx_lm.models.cache import ArraysCache

    from xlstm_kernels.nn import xLSTMBlockStackConfig

__all__ = ["Model", "ModelArgs", "PaperModel", "create_language_model", "register"]

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


class _LanguageModel(nn.Module):
    """A language model whose cache mlx-lm keeps: a list of `ArraysCache`, changed in place."""

    if TYPE_CHECKING:
        init_cache: Callable[[int], list[Any]]

    def __call__(self, inputs: mx.array, cache: Sequence[ArraysCache] | None = None) -> mx.array:
        """Predict what follows each token.

        Args:
            inputs: (B, S), token ids.
            cache: what `make_cache` returned; it is updated. Its padding on the left and on the
                right masks tokens.

        Returns:
            The logits (B, S, V), float32. MLX computes those that are read: mlx-lm reads none
            while it processes a prompt, and those of the last position of each step. On CUDA, a
            single step is compiled.
        """
        predict: Any = super().__call__  # of the class after this one
        if cache is None:
            return cast("mx.array", predict(inputs))
        batch, steps = inputs.shape
        given = [
            _arrays(initial) if entry.empty() else entry.cache
            for entry, initial in zip(cache, self.init_cache(batch), strict=True)
        ]
        mask = cache[0].make_mask(steps)
        masks = [] if mask is None else [mask]
        following = self._compiled if steps == 1 and _launches_dominate() else self._following
        logits, after = following(inputs, given, masks)
        for entry, arrays in zip(cache, after, strict=True):
            entry.cache = arrays
            entry.advance(steps)
        return logits

    def _following(
        self, inputs: mx.array, given: list[list[mx.array]], masks: list[mx.array]
    ) -> tuple[mx.array, list[list[mx.array]]]:
        """The logits, and for each block the arrays of its state, before and after the tokens."""
        predict: Any = super().__call__
        states = list(map(_state, given, self.init_cache(inputs.shape[0])))
        logits = predict(inputs, states, *masks)
        return logits, list(map(_arrays, states))

    @functools.cached_property
    def _compiled(self) -> Callable[..., tuple[mx.array, list[list[mx.array]]]]:
        """`_following`, compiled for the weights that the model has at each call."""
        compiled: Any = mx.compile(self._following, inputs=[self])
        return cast("Callable[..., tuple[mx.array, list[list[mx.array]]]]", compiled)

    def make_cache(self) -> list[ArraysCache]:
        """Return an empty cache: for each block its states, all of them batch-first."""
        from mlx_lm.models.cache import ArraysCache

        return [ArraysCache(size=len(_arrays(state))) for state in self.init_cache(1)]

    @property
    def quant_predicate(self) -> Callable[[str, nn.Module], bool]:
        """Which layers `mlx_lm.convert` quantizes: all but the input and forget gates."""
        return lambda path, _: is_quantized(path)


class Model(_LanguageModel, xLSTM):  # type: ignore[misc]  # another cache
    """`xLSTM`, such as xLSTM-7B, for mlx-lm.

    Args:
        args: the configuration.
    """

    def __init__(self, args: xLSTMConfig) -> None:
        super().__init__(args)
        self.args = args
        self.model_type = MODEL_TYPE

    @property
    def layers(self) -> Sequence[nn.Module]:
        """The blocks."""
        return self.backbone.blocks


class PaperModel(_LanguageModel, xLSTMLMModel):  # type: ignore[misc]  # another cache
    """`xLSTMLMModel`, the language model of the xLSTM paper, for mlx-lm's functions.

    Args:
        args: the configuration.
    """

    def __init__(self, args: xLSTMLMModelConfig) -> None:
        super().__init__(args)
        self.args = args

    @property
    def layers(self) -> Sequence[nn.Module]:
        """The blocks."""
        return self.xlstm_block_stack.blocks


def create_language_model(config: xLSTMConfig | xLSTMBlockStackConfig) -> Model | PaperModel:
    """Create a model for mlx-lm's functions; `checkpoints.load` takes this as `create`.

    Raises:
        ValueError: for blocks without embeddings and logits.
    """
    if isinstance(config, xLSTMConfig):
        return Model(config)
    if isinstance(config, xLSTMLMModelConfig):
        return PaperModel(config)
    raise ValueError("xLSTMBlockStack has no tokens and logits: it can't generate text")


def _launches_dominate() -> bool:
    """Return whether a step takes the host longer than the GPU. Compiling halves that on CUDA."""
    return executors.resolve(None) == executors.CudaExecutor.name


def _state(arrays: Sequence[mx.array], initial: Any) -> Any:
    """A block's state: its arrays in the structure of the initial state."""
    ordered = iter(arrays)
    return tree_map(lambda _: next(ordered), initial)


def _arrays(state: Any) -> list[mx.array]:
    return [array for _, array in cast("list[tuple[str, mx.array]]", tree_flatten(state))]
