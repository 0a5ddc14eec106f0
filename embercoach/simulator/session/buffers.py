"""Memory of each parameter of a launch, as Metal would bind it, and back to arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import mlx.core as mx
import numpy as np

from embercoach.simulator.model import Buffer, SimulatorError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embercoach.simulator.model import Limits
    from embercoach.simulator.session.capture import Capture

#: MLX's types as NumPy's; bfloat16, which NumPy lacks, as integers of its size.
_NUMPY = {
    mx.bool_: np.bool_,
    mx.uint8: np.uint8,
    mx.uint16: np.uint16,
    mx.uint32: np.uint32,
    mx.uint64: np.uint64,
    mx.int8: np.int8,
    mx.int16: np.int16,
    mx.int32: np.int32,
    mx.int64: np.int64,
    mx.float16: np.float16,
    mx.bfloat16: np.uint16,
    mx.float32: np.float32,
    mx.complex64: np.complex64,
}


def buffers(captured: Capture, init_value: float | None, limits: Limits) -> tuple[Buffer, ...]:
    """Everything that Metal would bind, in the order of the indices. Evaluates the inputs.

    Raises:
        SimulatorError: a dtype that Metal lacks, or more memory than `limits.bytes`.
        ValueError: MLX's own, for inputs that are tracers and have no values.
    """
    _check_size(captured, limits)
    inputs = [mx.contiguous(a) if captured.contiguous else a for a in captured.inputs]
    mx.eval(inputs)
    made = list(_input_buffers(captured, inputs))
    outputs = zip(
        captured.definition.output_names,
        captured.output_shapes,
        captured.output_dtypes,
        strict=True,
    )
    for name, shape, dtype in outputs:
        made.append(_output_buffer(name, len(made), shape, dtype, init_value))
    return tuple(made)


def _check_size(captured: Capture, limits: Limits) -> None:
    name = captured.definition.name
    for output, shape in zip(captured.definition.output_names, captured.output_shapes, strict=True):
        if any(extent < 0 for extent in shape):
            raise SimulatorError(
                f"kernel {name!r}: output {output!r} has a negative extent: {shape}"
            )
    sizes = [math.prod(s) * d.size for s, d in _outputs(captured)]
    if captured.contiguous:
        sizes += [array.nbytes for array in captured.inputs]
    if sum(sizes) > limits.bytes:
        raise SimulatorError(
            f"kernel {name!r}: its buffers take {sum(sizes):,} bytes (outputs: "
            f"{sum(sizes[: len(captured.output_shapes)]):,}); the limit is {limits.bytes:,}. "
            "Use smaller arrays, or raise the limit: activate(limits=Limits(bytes=...))"
        )


def _outputs(captured: Capture) -> Iterator[tuple[tuple[int, ...], mx.Dtype]]:
    return zip(captured.output_shapes, captured.output_dtypes, strict=True)


def _input_buffers(captured: Capture, inputs: Sequence[mx.array]) -> Iterator[Buffer]:
    """Each input and what the body asks to know of it, which a 0-d input never gets."""
    index = 0
    names = captured.definition.input_names
    for name, array, infos in zip(names, inputs, captured.infos, strict=True):
        if array.dtype not in _NUMPY:
            raise SimulatorError(
                f"kernel {captured.definition.name!r}: input {name!r} must have a dtype of "
                f"Metal, got {array.dtype}; cast it with .astype(...) before the call"
            )
        memory, strides, offset = _memory(array)
        yield Buffer(name, index, "input", memory, array.dtype.size, offset=offset)
        index += 1
        if array.ndim == 0:
            continue
        values: tuple[np.ndarray, ...] = (
            np.array(array.shape, np.int32),
            np.array(strides, np.int64),
            np.array(array.ndim, np.int32),
        )
        for asked, suffix, value in zip(infos, ("shape", "strides", "ndim"), values, strict=True):
            if asked:
                data = np.frombuffer(value.tobytes(), np.uint8)
                yield Buffer(f"{name}_{suffix}", index, "info", data, value.itemsize)
                index += 1


def _memory(array: mx.array) -> tuple[np.ndarray, tuple[int, ...], int]:
    """An evaluated array's memory from its lowest to its highest element, without a copy.

    Returns:
        The bytes, the strides in elements, and the byte at which element 0 lies.
    """
    viewable = array.view(mx.uint16) if array.dtype == mx.bfloat16 else array
    # NumPy keeps the memory alive; a memoryview has the strides of MLX, also those of
    # extents of 1, which NumPy may set as it likes.
    strided = np.array(
        viewable, copy=False
    )  # embercoach: ignore[HOST-PULL-002] it is simulated here
    strides = memoryview(cast("Any", viewable)).strides or ()
    itemsize = array.dtype.size
    in_elements = tuple(stride // itemsize for stride in strides)
    if array.size == 0:
        return np.empty(0, np.uint8), in_elements, 0
    reach = [(extent - 1) * stride for extent, stride in zip(array.shape, strides, strict=True)]
    below = -sum(distance for distance in reach if distance < 0)
    above = sum(distance for distance in reach if distance > 0)
    forward = strided[tuple(slice(None, None, -1 if d < 0 else 1) for d in reach)]
    elements = (below + above) // itemsize + 1
    flat = np.lib.stride_tricks.as_strided(
        forward, shape=(elements,), strides=(itemsize,), writeable=False
    )
    return flat.view(np.uint8), in_elements, below


def _output_buffer(
    name: str, index: int, shape: tuple[int, ...], dtype: mx.Dtype, init_value: float | None
) -> Buffer:
    size = math.prod(shape) * dtype.size
    if init_value is None:
        return Buffer(name, index, "output", np.empty(size, np.uint8), dtype.size, False)
    # As MLX does it: one scalar of the output's dtype, copied.
    scalar = mx.array(init_value, dtype=dtype).reshape((1,))
    mx.eval(scalar)
    data = np.tile(_memory(scalar)[0], math.prod(shape))
    return Buffer(name, index, "output", data, dtype.size)


def to_array(data: np.ndarray, shape: tuple[int, ...], dtype: mx.Dtype) -> mx.array:
    """The array of a kernel's output, from its bytes."""
    if math.prod(shape) == 0:
        return mx.zeros(shape, dtype=dtype)
    values = mx.array(data.view(_NUMPY[dtype]).reshape(shape))
    return values.view(mx.bfloat16) if dtype == mx.bfloat16 else values
