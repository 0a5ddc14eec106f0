"""The mLSTM as a layer without parameters, which picks the form that suits what comes in."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx import nn

from xlstm_kernels import executors
from xlstm_kernels.arguments import require_floating
from xlstm_kernels.mlstm.arguments import States, require_eps, zero_states
from xlstm_kernels.mlstm.chunked import require_chunk_size
from xlstm_kernels.mlstm.registry import (
    get_mlstm_kernel,
    get_mlstm_sequence_kernel,
    get_mlstm_step_kernel,
    own_name,
    stored,
)

if TYPE_CHECKING:
    from xlstm_kernels.mlstm.chunked import Result

MODES = ("train", "train_with_padding", "inference")
DTYPES = {"float32": mx.float32, "bfloat16": mx.bfloat16, "float16": mx.float16}
# Up to here the kernel that goes step by step, state in registers, is taken for a sequence.
_SHORT = 16


@dataclass(frozen=True, slots=True)
class mLSTMBackendConfig:  # noqa: N801  (the name that NX-AI's users know)
    """The configuration of an `mLSTMBackend`, with fields and defaults of `mlstm_kernels`.

    Attributes:
        chunkwise_kernel: the form for whole sequences; see `get_available_mlstm_kernels()`. The
            defaults are MLX operations everywhere: for Metal name `"chunkwise--metal_xl_chunk"`,
            `"native_sequence__metal"` and `"metal"`.
        sequence_kernel: the form for a few steps, see `get_available_mlstm_sequence_kernels()`.
        step_kernel: the form for one step, see `get_available_mlstm_step_kernels()`.
        mode: `"train"`: the chunkwise form whatever comes. `"train_with_padding"`: the same, since
            no form needs padding here, but without last states. `"inference"`: the form that suits
            the number of steps, and always the last states.
        chunk_size: steps of a chunk, at least 1.
        return_last_states: whether calls in training return the last states, unless they say.
        autocast_kernel_dtype: taken for NX-AI's sake: MLX has no autocast, and kernels take any
            dtype and compute in float32.
        eps: added to the normaliser.
        inference_state_dtype: the dtype of the last c and n in inference; m is float32.
        normalize_siging: whether a form with a sigmoid input gate normalises; others always do.

    Raises:
        TypeError: for a chunk size or an eps that is not a number.
        ValueError: for an unknown name, mode or dtype, for a number out of range, and for
            `return_last_states` with a parallel form or with padding, as in NX-AI's package.
    """

    chunkwise_kernel: str = "chunkwise--native_autograd"
    sequence_kernel: str = "native_sequence__native"
    step_kernel: str = "native"
    mode: str = "train"
    chunk_size: int = 64
    return_last_states: bool = True
    autocast_kernel_dtype: str = "bfloat16"
    eps: float = 1e-6
    inference_state_dtype: str = "float32"
    normalize_siging: bool = True

    def __post_init__(self) -> None:
        owner = type(self).__name__
        get_mlstm_kernel(self.chunkwise_kernel)
        get_mlstm_sequence_kernel(self.sequence_kernel)
        get_mlstm_step_kernel(self.step_kernel)
        _require_mode(owner, self.mode)
        require_chunk_size(owner, self.chunk_size)
        require_eps(owner, self.eps)
        for name in ("autocast_kernel_dtype", "inference_state_dtype"):
            if getattr(self, name) not in DTYPES:
                raise ValueError(
                    f"{owner}: {name} must be one of {', '.join(map(repr, DTYPES))}, "
                    f"got {getattr(self, name)!r}"
                )
        if self.return_last_states:
            _refuse_padded_states(owner, self.mode)
            if own_name(self.chunkwise_kernel).startswith("parallel"):
                raise ValueError(
                    f"{owner}: {self.chunkwise_kernel!r} is not configured to return last states; "
                    "set return_last_states=False (a call may still ask for them)"
                )


class mLSTMBackend(nn.Module):  # noqa: N801
    """The mLSTM in the form that its configuration, and what comes in, ask for.

    In inference a single step goes to the step kernel; up to 16 steps, where kernels run, to the
    sequence kernel; and everything longer, of any length, to the chunkwise kernel. MLX operations
    are fewer, and faster, in the chunkwise form from two steps on, so that without kernels the
    sequence form is taken for masked single steps only. A form with a sigmoid input gate has
    neither a step nor a sequence kernel: it takes every length itself.

    Args:
        config: see `mLSTMBackendConfig`.
    """

    def __init__(self, config: mLSTMBackendConfig) -> None:
        super().__init__()
        self.config = config
        own = own_name(config.chunkwise_kernel)
        self.is_siging = own.endswith("siging")
        settings: dict[str, Any] = {"eps": config.eps, "chunk_size": config.chunk_size}
        if self.is_siging:
            settings["normalize"] = config.normalize_siging
        self._chunkwise = functools.partial(get_mlstm_kernel(config.chunkwise_kernel), **settings)
        self._sequence = get_mlstm_sequence_kernel(config.sequence_kernel)
        self._has_sequence_kernel = own_name(config.sequence_kernel).endswith("metal")
        self._step = get_mlstm_step_kernel(config.step_kernel)

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
    ) -> Result:
        """Run the mLSTM over a sequence of any length.

        Args:
            q: (B, NH, S, DK), the queries; float32, float16 or bfloat16, as all that follow.
            k: (B, NH, S, DK), the keys, in the dtype of q.
            v: (B, NH, S, DV), the values, in the dtype of q.
            i: (B, NH, S), the input gates, before their exp or sigmoid.
            f: (B, NH, S), the forget gates, before their sigmoid.
            c_initial: (B, NH, DK, DV), the state to begin with; the initial states come together.
            n_initial: (B, NH, DK).
            m_initial: (B, NH, 1); None with a sigmoid input gate, which has no such state.
            return_last_states: whether to return the last states, None for what the configuration
                says. In inference they always are.
            mode: instead of the configuration's.
            mask: (B, S) booleans; where False the step is skipped: the states stay, h is zero.

        Returns:
            h (B, NH, S, DV) in the dtype of v, or (h, (c, n, m)); (h, (c, n)) with a sigmoid input
            gate.

        Raises:
            TypeError: for dtypes that do not fit.
            ValueError: for shapes that do not fit, an unknown mode, and for last states of
                `"train_with_padding"`.
        """
        owner = type(self).__name__
        mode = self.config.mode if mode is None else _require_mode(owner, mode)
        given = (c_initial, n_initial, m_initial)
        if mode == "inference":
            inferred: Result = self._infer(q, k, v, i, f, given, mask)
            return inferred
        if return_last_states is None:
            return_last_states = self.config.return_last_states
        if return_last_states:
            _refuse_padded_states(owner, mode)
        result: Result = self._chunkwise(
            q, k, v, i, f, *given, return_last_states=return_last_states, mask=mask
        )
        return result

    def _infer(
        self,
        q: mx.array,
        k: mx.array,
        v: mx.array,
        i: mx.array,
        f: mx.array,
        given: tuple[mx.array | None, mx.array | None, mx.array | None],
        mask: mx.array | None,
    ) -> Any:
        require_floating(type(self).__name__, "q", q)
        steps = q.shape[2] if q.ndim == 4 else 0
        if self.is_siging:
            h, (c, n) = self._chunkwise(q, k, v, i, f, *given, return_last_states=True, mask=mask)
            return h, (c.astype(self._state_dtype), n.astype(self._state_dtype))
        if steps == 1 and mask is None:
            return self._one_step(q, k, v, i, f, given)
        settings = {"return_last_states": True, "mask": mask}
        if steps == 1 or (steps <= _SHORT and self._runs_sequence_kernel()):
            h, last = self._sequence(q, k, v, i, f, *given, eps=self.config.eps, **settings)
        else:
            h, last = self._chunkwise(q, k, v, i, f, *given, **settings)
        return h, stored(last, self._state_dtype)

    def _one_step(
        self,
        q: mx.array,
        k: mx.array,
        v: mx.array,
        i: mx.array,
        f: mx.array,
        given: tuple[mx.array | None, mx.array | None, mx.array | None],
    ) -> tuple[mx.array, States]:
        query, key, value = (mx.squeeze(array, axis=2) for array in (q, k, v))
        is_first = all(state is None for state in given)
        states = zero_states(query, value) if is_first else given
        h, last = self._step(
            query, key, value, i, f, *states, eps=self.config.eps, dtype_state=self._state_dtype
        )
        return mx.expand_dims(h, axis=2), last

    @property
    def _state_dtype(self) -> mx.Dtype:
        # Not kept: a dtype can be neither copied nor pickled, and a layer must be.
        return DTYPES[self.config.inference_state_dtype]

    def _runs_sequence_kernel(self) -> bool:
        return self._has_sequence_kernel and executors.resolve(None) != executors.NATIVE

    def _extra_repr(self) -> str:
        return str(self.config)


def _require_mode(owner: str, mode: str) -> str:
    if mode not in MODES:
        raise ValueError(
            f"{owner}: mode must be one of {', '.join(map(repr, MODES))}, got {mode!r}"
        )
    return mode


def _refuse_padded_states(owner: str, mode: str) -> None:
    if mode == "train_with_padding":
        raise ValueError(
            f"{owner}: mode 'train_with_padding' returns no last states; set "
            "return_last_states=False, or use mode 'train', which takes any length"
        )
