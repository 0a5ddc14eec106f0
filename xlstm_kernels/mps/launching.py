"""Launches of kernels on tensors, through `torch.mps.compile_shader`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeAlias

import mlx.core as mx
import torch

from xlstm_kernels.arguments import require_shape
from xlstm_kernels.executors.mps_source import ArrayMetadata, mps_source, packed_integers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlstm_kernels.executors.mps_source import Argument
    from xlstm_kernels.kernel import Kernel, Launch, Setting

#: An input of a kernel: a tensor, or a number for one of no dimension, which is float32 then.
Input: TypeAlias = torch.Tensor | float

#: Where tensors have to be.
DEVICE = "mps"

# Both call them so.
_NAMES = ("uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32")
_DTYPES = {torch.bool: mx.bool_} | {getattr(torch, name): getattr(mx, name) for name in _NAMES}
_TORCH_DTYPES = {dtype: of_torch for of_torch, dtype in _DTYPES.items()}
#: Dtypes of the inputs and states of operators.
FLOATING = (torch.float32, torch.float16, torch.bfloat16)


def require_tensor(
    operator: str,
    name: str,
    tensor: object,
    dtypes: tuple[torch.dtype, ...] = FLOATING,
    meaning: str = "float32, float16 or bfloat16",
) -> None:
    """Accept a tensor on the device "mps" of one of these dtypes, which `meaning` names.

    Raise a TypeError for anything else or another dtype, a ValueError for another device.
    """
    kind = tensor.dtype if isinstance(tensor, torch.Tensor) else type(tensor).__name__
    if kind not in dtypes:
        raise TypeError(f"{operator}: {name} must be a tensor of {meaning}, got {kind}")
    require_device(operator, name, tensor)


def require_device(operator: str, name: str, tensor: Any) -> None:
    """Accept a tensor on the device "mps"; raise a ValueError for another device."""
    if tensor.device.type != DEVICE:
        raise ValueError(
            f"{operator}: {name} must be on the device 'mps', got '{tensor.device}'; "
            "there is no path for other devices"
        )


def require_mask(operator: str, mask: Any, shape: tuple[int, ...], meaning: str) -> None:
    """Accept None, or booleans of `shape` on the device "mps".

    Raise a TypeError for anything else, a ValueError for another shape or device.
    """
    if mask is not None:
        require_tensor(operator, "mask", mask, (torch.bool,), "booleans")
        require_shape(operator, "mask", mask, shape, meaning)


def launched(kernel: Kernel, *inputs: Input, **settings: Setting) -> tuple[torch.Tensor, ...]:
    """Launch a kernel on tensors, and return its outputs, without a gradient.

    A launch without threads runs nothing and gives `init_value`, or zeros.

    Args:
        kernel: the kernel.
        *inputs: one for each name in `kernel.inputs`.
        **settings: as of a call of the kernel.

    Raises:
        ValueError: for an incorrect number of inputs, or a tensor on another device.
        TypeError: for a dtype that PyTorch has not on MPS.
        RuntimeError: if PyTorch has no MPS here.
    """
    if len(inputs) != len(kernel.inputs):
        raise ValueError(
            f"kernel {kernel.name!r} takes {len(kernel.inputs)} inputs "
            f"({', '.join(kernel.inputs)}), got {len(inputs)}"
        )
    bound = [_bound(kernel, name, array) for name, array in zip(kernel.inputs, inputs, strict=True)]
    metadata = tuple(map(_metadata, bound))
    # Launch rules read shapes and dtypes, which these have as arrays of MLX do.
    launch: Launch = kernel.launch(*metadata, **settings)
    if launch.empty:
        return _outputs(launch, kernel.init_value or 0)
    outputs = _outputs(launch, kernel.init_value)
    source = mps_source(kernel, metadata, launch)
    arguments = [_argument(argument, bound, outputs) for argument in source.arguments]
    # MLX clamps the threadgroup to the grid.
    group = [min(pair) for pair in zip(launch.threadgroup, launch.grid, strict=True)]
    function = getattr(library(source.text), kernel.name)
    function(*arguments, threads=list(launch.grid), group_size=group)
    return outputs


@functools.cache
def library(text: str) -> Any:
    """Compile a text, once: the shader library of PyTorch."""
    return torch.mps.compile_shader(text)


def _bound(kernel: Kernel, name: str, array: Input) -> Input:
    if not isinstance(array, torch.Tensor):
        return float(array)
    if array.dtype not in _DTYPES:
        raise TypeError(f"kernel {kernel.name!r}: {name} must have a dtype of Metal: {array.dtype}")
    require_device(f"kernel {kernel.name!r}", name, array)
    return array.detach().contiguous() if kernel.contiguous_inputs else array.detach()


def _metadata(array: Input) -> ArrayMetadata:
    if isinstance(array, torch.Tensor):
        return ArrayMetadata(tuple(array.shape), _DTYPES[array.dtype])
    return ArrayMetadata((), mx.float32)


def _outputs(launch: Launch, value: float | None) -> tuple[torch.Tensor, ...]:
    def output(shape: tuple[int, ...], dtype: mx.Dtype) -> torch.Tensor:
        options = {"dtype": _TORCH_DTYPES[dtype], "device": DEVICE}
        if value is None:
            return torch.empty(shape, **options)
        return torch.full(shape, value, **options)

    return tuple(map(output, launch.output_shapes, launch.output_dtypes))


def _argument(
    argument: Argument, inputs: Sequence[Input], outputs: Sequence[torch.Tensor]
) -> torch.Tensor | float | list[int]:
    if argument.role == "output":
        return outputs[argument.place]
    array = inputs[argument.place]
    if argument.role == "input" or not isinstance(array, torch.Tensor):
        return array
    if argument.role == "shape":
        return packed_integers(array.shape)
    return list(array.stride()) if argument.role == "strides" else packed_integers([array.ndim])
