"""Metal kernels for xLSTM on MLX: exact gradients, and a pure-MLX path for other machines.

Operators are functions. Layers and models are in `nn`, their weights in `checkpoints`, matrices in
`linalg`, vector search in `search`, and mlx-lm's models in `mlx_lm`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

try:
    import mlx.core  # noqa: F401  (imported for the message below)
except ImportError as error:
    raise ImportError(
        f"xlstm_kernels needs MLX, which cannot be imported here ({error}). "
        "Install it with: pip install 'embercoach[kernels]'"
    ) from error

if TYPE_CHECKING:
    from xlstm_kernels import checkpoints, linalg, nn, search
    from xlstm_kernels.activation.soft_cap import soft_cap
    from xlstm_kernels.complex.multiply import complex_multiply
    from xlstm_kernels.conv.causal_conv1d import causal_conv1d
    from xlstm_kernels.conv.causal_conv1d_update import causal_conv1d_update
    from xlstm_kernels.conv.channels_first import causal_conv1d_fn, causal_conv1d_varlen_states
    from xlstm_kernels.conv.fft_conv import fft_conv, fftconv
    from xlstm_kernels.differentiation import inference
    from xlstm_kernels.double_float.array import DoubleFloat
    from xlstm_kernels.executors import default_backend
    from xlstm_kernels.kernel import Kernel
    from xlstm_kernels.mlstm.backend import mLSTMBackend, mLSTMBackendConfig
    from xlstm_kernels.mlstm.chunkwise import mlstm_chunkwise
    from xlstm_kernels.mlstm.registry import (
        get_available_mlstm_kernels,
        get_available_mlstm_sequence_kernels,
        get_available_mlstm_step_kernels,
        get_mlstm_kernel,
        get_mlstm_sequence_kernel,
        get_mlstm_step_kernel,
    )
    from xlstm_kernels.mlstm.sequence import mlstm_sequence
    from xlstm_kernels.mlstm.siging import mlstm_siging_chunkwise
    from xlstm_kernels.mlstm.step import mlstm_step
    from xlstm_kernels.norm.multi_head_norm import multi_head_layer_norm, multi_head_rms_norm
    from xlstm_kernels.norm.rms_norm import rms_norm
    from xlstm_kernels.packing import seq_idx_from_cu_seqlens
    from xlstm_kernels.quantized.matvec import quantized_matvec
    from xlstm_kernels.recurrent.flashrnn import flashrnn
    from xlstm_kernels.recurrent.lstm import lstm
    from xlstm_kernels.recurrent.slstm.sequence import slstm, slstm_step

    __version__: str

__all__ = [
    "DoubleFloat",
    "Kernel",
    "causal_conv1d",
    "causal_conv1d_fn",
    "causal_conv1d_update",
    "causal_conv1d_varlen_states",
    "checkpoints",
    "complex_multiply",
    "default_backend",
    "fft_conv",
    "fftconv",
    "flashrnn",
    "get_available_mlstm_kernels",
    "get_available_mlstm_sequence_kernels",
    "get_available_mlstm_step_kernels",
    "get_mlstm_kernel",
    "get_mlstm_sequence_kernel",
    "get_mlstm_step_kernel",
    "inference",
    "linalg",
    "lstm",
    "mLSTMBackend",
    "mLSTMBackendConfig",
    "mlstm_chunkwise",
    "mlstm_sequence",
    "mlstm_siging_chunkwise",
    "mlstm_step",
    "multi_head_layer_norm",
    "multi_head_rms_norm",
    "nn",
    "quantized_matvec",
    "rms_norm",
    "search",
    "seq_idx_from_cu_seqlens",
    "slstm",
    "slstm_step",
    "soft_cap",
]

#: The module of each name: it is loaded when the name is first read.
_HOMES = {
    "soft_cap": "activation.soft_cap",
    "complex_multiply": "complex.multiply",
    "causal_conv1d": "conv.causal_conv1d",
    "causal_conv1d_update": "conv.causal_conv1d_update",
    "causal_conv1d_fn": "conv.channels_first",
    "causal_conv1d_varlen_states": "conv.channels_first",
    "fft_conv": "conv.fft_conv",
    "fftconv": "conv.fft_conv",
    "inference": "differentiation",
    "DoubleFloat": "double_float.array",
    "default_backend": "executors",
    "Kernel": "kernel",
    "mLSTMBackend": "mlstm.backend",
    "mLSTMBackendConfig": "mlstm.backend",
    "mlstm_chunkwise": "mlstm.chunkwise",
    "get_available_mlstm_kernels": "mlstm.registry",
    "get_available_mlstm_sequence_kernels": "mlstm.registry",
    "get_available_mlstm_step_kernels": "mlstm.registry",
    "get_mlstm_kernel": "mlstm.registry",
    "get_mlstm_sequence_kernel": "mlstm.registry",
    "get_mlstm_step_kernel": "mlstm.registry",
    "mlstm_sequence": "mlstm.sequence",
    "mlstm_siging_chunkwise": "mlstm.siging",
    "mlstm_step": "mlstm.step",
    "multi_head_layer_norm": "norm.multi_head_norm",
    "multi_head_rms_norm": "norm.multi_head_norm",
    "rms_norm": "norm.rms_norm",
    "seq_idx_from_cu_seqlens": "packing",
    "quantized_matvec": "quantized.matvec",
    "flashrnn": "recurrent.flashrnn",
    "lstm": "recurrent.lstm",
    "slstm": "recurrent.slstm.sequence",
    "slstm_step": "recurrent.slstm.sequence",
}


def __getattr__(name: str) -> object:
    """Load a name when it is first read: importing all takes longer than MLX itself."""
    if name in _HOMES:
        value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    elif name in ("checkpoints", "linalg", "nn", "search"):
        value = import_module(f"{__name__}.{name}")
    elif name == "__version__":
        value = _version()
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _version() -> str:
    """The version in a checkout's pyproject.toml, else that of the installed distribution."""
    import re
    from importlib.metadata import version
    from pathlib import Path

    project = Path(__file__).parents[1] / "pyproject.toml"
    text = project.read_text("utf-8") if project.is_file() else ""
    declared = re.search(r'^name = "embercoach"\nversion = "(.+)"$', text, re.MULTILINE)
    return declared[1] if declared else version("embercoach")


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
