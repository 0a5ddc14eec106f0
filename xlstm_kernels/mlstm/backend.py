"""The mLSTM as a layer without parameters, which picks the form that suits what comes in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import mlx.core as mx
from mlx import nn

from xlstm_kernels.arguments import non_negative, require_choice
from xlstm_kernels.executors import StreamLike, on_stream, resolve
from xlstm_kernels.mlstm import choice
from xlstm_kernels.mlstm.arguments import States, require_sequence, zero_states
from xlstm_kernels.mlstm.chunked.operation import require_chunk_size
from xlstm_kernels.mlstm.chunkwise import mlstm_chunkwise
from xlstm_kernels.mlstm.registry import (
    MLSTMKernel,
    get_mlstm_kernel,
    get_mlstm_sequence_kernel,
    get_mlstm_step_kernel,
)
from xlstm_kernels.mlstm.sequence import mlstm_sequence
from xlstm_kernels.mlstm.siging import mlstm_siging_chunkwise
from xlstm_kernels.mlstm.step import mlstm_step

Output: TypeAlias = mx.array | tuple[mx.array, tuple[mx.array, ...]]
MODES = ("train", "train_with_padding", "inference")
DTYPES = {"float32": mx.float32, "bfloat16": mx.bfloat16, "float16": mx.float16}


@dataclass(frozen=True, slots=True)
class mLSTMBackendConfig:  # noqa: N801  (the name that NX-AI's users know)
    """The configuration of an `mLSTMBackend`, with fields and defaults of `mlstm_kernels`.

    Attributes:
        chunkwise_kernel: a name of `get_available_mlstm_kernels()`. `siging` in it means a sigmoid
            input gate. What computes is chosen for each call, whatever the names say.
        sequence_kernel: a name of `get_available_mlstm_sequence_kernels()`.
        step_kernel: a name of `get_available_mlstm_step_kernels()`.
        mode: `"train"`: the chunkwise form whatever comes. `"train_with_padding"`: the same, since
            no form needs padding here, but without last states. `"inference"`: the form that suits
            the number of steps, and always the last states.
        chunk_size: steps of a chunk, at least 1; None chooses.
        return_last_states: whether calls in training return the last states, unless they say.
        autocast_kernel_dtype: taken for NX-AI's sake: MLX has no autocast, and kernels take any
            dtype and compute in float32.
        eps: added to the normaliser.
        inference_state_dtype: the dtype of the last states in inference.
        normalize_siging: whether a form with a sigmoid input gate normalises; others always do.
        normalizer_grad: whether gradients flow through the normaliser: see `mlstm_chunkwise`. False
            gives those of NX-AI's kernels.

    Raises:
        TypeError: for a chunk size or an eps that is not a number.
        ValueError: for an unknown name, mode or dtype, for a number out of range, and for
            `return_last_states` with padding, or with a parallel form in training, as in NX-AI's
            package. In inference any name gives last states, as in transformers.
    """

    chunkwise_kernel: str = "chunkwise--native_autograd"
    sequence_kernel: str = "native_sequence__native"
    step_kernel: str = "native"
    mode: str = "train"
    chunk_size: int | None = 64
    return_last_states: bool = True
    autocast_kernel_dtype: str = "bfloat16"
    eps: float = 1e-6
    inference_state_dtype: str = "float32"
    normalize_siging: bool = True
    normalizer_grad: bool = True

    def __post_init__(self) -> None:
        owner = type(self).__name__
        get_mlstm_kernel(self.chunkwise_kernel)
        get_mlstm_sequence_kernel(self.sequence_kernel)
        get_mlstm_step_kernel(self.step_kernel)
        require_choice(owner, "mode", self.mode, MODES)
        object.__setattr__(self, "chunk_size", require_chunk_size(owner, self.chunk_size))
        non_negative(owner, "eps", self.eps)
        for name in ("autocast_kernel_dtype", "inference_state_dtype"):
            require_choice(owner, name, getattr(self, name), DTYPES)
        if self.return_last_states:
            _refuse_padded_states(owner, self.mode)
            if self.chunkwise_kernel.startswith("parallel") and self.mode != "inference":
                raise ValueError(
                    f"{owner}: {self.chunkwise_kernel!r} is not configured to return last states; "
                    "set return_last_states=False (a call may still ask for them), or mode "
                    "'inference'"
                )

    @property
    def is_siging(self) -> bool:
        """True with a sigmoid input gate."""
        return "siging" in self.chunkwise_kernel


class mLSTMBackend(nn.Module):  # noqa: N801
    """The mLSTM in the form that its configuration, and what comes in, ask for.

    In inference `xlstm_kernels.mlstm.choice` has the form: a step, a few steps one after the other,
    or chunks. A sigmoid input gate has chunks only.

    Args:
        config: see `mLSTMBackendConfig`.
    """

    def __init__(self, config: mLSTMBackendConfig) -> None:
        super().__init__()
        self.config = config

    @on_stream
    def __call__(
        self,
        q: mx.array,
        k: mx.array,
        v: mx.array,
        i: mx.array,
        f: mx.array,
        c_initial: mx.array | None = None,
        n_initial: mx.array | None = None,
        m_initial: mx.array | None = None,
        return_last_states: bool | None = None,
        mode: str | None = None,
        *,
        mask: mx.array | None = None,
        seq_idx: mx.array | None = None,
        backend: str | None = None,
        stream: StreamLike = None,
    ) -> Output:
        """Run the mLSTM over a sequence of any length.

        Arguments and errors are those of `mlstm_chunkwise`, which always runs with a `seq_idx`: q
        and k (B, NH, S, DK), v (B, NH, S, DV), gates i and f (B, NH, S), initial states, mask and
        seq_idx (B, S). With a sigmoid input gate `m_initial` is None. None for `return_last_states`
        or `mode` is what the configuration says; in inference the last states are always returned.
        An unknown mode is a ValueError, as are last states of `"train_with_padding"`.

        Returns:
            h (B, NH, S, DV) in the dtype of v, or (h, (c, n, m)); (h, (c, n)) with a sigmoid input
            gate.
        """
        config, mode = self.config, self.config.mode if mode is None else mode
        require_choice(type(self).__name__, "mode", mode, MODES)
        in_inference = mode == "inference"
        if return_last_states is None or in_inference:
            return_last_states = config.return_last_states or in_inference
        if return_last_states:
            _refuse_padded_states(type(self).__name__, mode)
        require_sequence(type(self).__name__, q, k, v, i, f)
        arrays = (q, k, v, i, f, c_initial, n_initial, m_initial)
        backend, form = resolve(backend), choice.CHUNKWISE
        if in_inference and not config.is_siging and q.shape[2] and seq_idx is None:
            form = choice.chosen(q, v, backend, masked=mask is not None).form
        stored_as = DTYPES[config.inference_state_dtype]
        settings: dict[str, Any] = {"normalizer_grad": config.normalizer_grad, "backend": backend}
        if form == choice.STEP:
            return _one_step(arrays, eps=config.eps, dtype_state=stored_as, **settings)
        if form == choice.SEQUENCE:
            return mlstm_sequence(*arrays, True, config.eps, stored_as, mask=mask, **settings)
        operator: MLSTMKernel = mlstm_chunkwise
        if config.is_siging:
            operator = partial(mlstm_siging_chunkwise, normalize=config.normalize_siging)
        result: Output = operator(
            *arrays,
            return_last_states,
            config.eps,
            chunk_size=config.chunk_size,
            mask=mask,
            seq_idx=seq_idx,
            **settings,
        )
        if not in_inference or isinstance(result, mx.array):
            return result
        h, last = result
        if isinstance(last, States):
            return h, last.stored(stored_as)
        return h, tuple(state.astype(stored_as) for state in last)

    def _extra_repr(self) -> str:
        return str(self.config)


def _refuse_padded_states(owner: str, mode: str) -> None:
    if mode == "train_with_padding":
        raise ValueError(
            f"{owner}: mode 'train_with_padding' returns no last states; set "
            "return_last_states=False, or use mode 'train', which takes any length"
        )


def _one_step(arrays: tuple[Any, ...], **settings: Any) -> tuple[mx.array, States]:
    """A step by q, k, v, i, f (B, NH, 1, ...) from the states c, n and m, or three times None."""
    q, k, v = (mx.squeeze(array, axis=2) for array in arrays[:3])
    given = any(state is not None for state in arrays[5:])
    states = arrays[5:] if given else zero_states(q, v)
    h, last = mlstm_step(q, k, v, *arrays[3:5], *states, **settings)
    return mx.expand_dims(h, axis=2), last
