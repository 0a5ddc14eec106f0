"""Bytes that the pack's kernels move, and have to: ``python -m tests.benchmarks.traffic``.

The simulator counts each access of each thread to device memory, so the numbers are the same on
every machine. What is bound by memory takes as long as its bytes take: at a ratio of 1.1 a tenth of
the speed is lost. A copy that MLX makes to bring an input into order is not counted, as it is no
launch of a kernel of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from unittest.mock import patch

import mlx.core as mx

from embercoach.simulator import activate, report
from xlstm_kernels import rms_norm, soft_cap
from xlstm_kernels.conv.causal_conv1d import causal_conv1d
from xlstm_kernels.conv.causal_conv1d_update import causal_conv1d_update
from xlstm_kernels.differentiation import Operation
from xlstm_kernels.mlstm.step import mlstm_step
from xlstm_kernels.norm import rows
from xlstm_kernels.norm.multi_head_norm import multi_head_layer_norm, multi_head_rms_norm

#: The most that a kernel which is bound by memory may move, as a multiple of what it has to.
BAR = 1.1


@dataclass(frozen=True, slots=True)
class Entry:
    """A piece of work, and the bytes that it can't do without.

    Attributes:
        name: operator, shape and dtype.
        call: makes the inputs and launches the kernels, with ``backend="metal"``; what it returns
            is evaluated.
        minimum: each element of device memory that matters, in or out, counted once, in bytes.
        kernel: the name of the kernel whose launches count; "" for all.
    """

    name: str
    call: Callable[[], object]
    minimum: int
    kernel: str = ""


def device_bytes(entry: Entry) -> int:
    """Bytes that the launches of an entry read and write in device memory.

    Raises:
        RuntimeError: if the simulator finds anything, or nothing was launched.
    """
    # As if these were many rows: a threadgroup takes several, and reads their weight once.
    with patch.object(rows, "_BUSY_ELEMENTS", 2**17), activate() as recorder:
        mx.eval(entry.call())
    if recorder.findings:
        raise RuntimeError(report(recorder.findings[0]))
    launches = [made for made in recorder.launches if entry.kernel in {"", made.kernel}]
    if not launches:
        raise RuntimeError(f"{entry.name}: no kernel {entry.kernel!r} was launched")
    return sum(made.device_bytes for made in launches)


def _size(dtype: mx.Dtype, *shapes: tuple[int, ...]) -> int:
    return sum(prod(shape) for shape in shapes) * dtype.size


def _label(operator: str, shape: tuple[int, ...], dtype: mx.Dtype) -> str:
    return f"{operator} {'x'.join(map(str, shape))} {str(dtype).rpartition('.')[2]}"


def _soft_cap(dtype: mx.Dtype) -> list[Entry]:
    shape = (256, 4096)

    def capped(values: mx.array) -> mx.array:
        return soft_cap(values, 15.0, backend="metal")

    return [
        Entry(
            _label("soft_cap", shape, dtype),
            lambda: capped(mx.zeros(shape, dtype)),
            _size(dtype, shape, shape),
        ),
        Entry(
            _label("soft_cap gradient", shape, dtype),
            lambda: mx.vjp(capped, [mx.zeros(shape, dtype)], [mx.zeros(shape, dtype)])[1],
            _size(dtype, shape, shape, shape),
            "xlstm_soft_cap_gradient",
        ),
    ]


def _rms_norm(dtype: mx.Dtype) -> list[Entry]:
    shape = (384, 4096)
    columns = shape[1]

    def normalised(x: mx.array, weight: mx.array) -> mx.array:
        return rms_norm(x, weight, backend="metal")

    def gradients() -> object:
        x, weight = mx.ones(shape, dtype), mx.ones((columns,))
        return mx.vjp(normalised, [x, weight], [x])[1]

    of_weight = _size(mx.float32, (columns,))
    return [
        Entry(
            _label("rms_norm", shape, dtype),
            # MLX's own kernels serve weights of the dtype of x.
            lambda: normalised(mx.ones(shape, dtype), mx.ones((columns,))),
            _size(dtype, shape, shape) + of_weight,
        ),
        Entry(
            _label("rms_norm gradient", shape, dtype),
            gradients,
            _size(dtype, shape, shape, shape) + 2 * of_weight,
            "xlstm_rms_norm_gradient_weighted",
        ),
    ]


def _multi_head_norm(operator: Operation, dtype: mx.Dtype) -> list[Entry]:
    """At the head of xLSTM-7B, of cells' outputs as they lie: (B, NH, S, DH)."""
    batch, heads, length, columns = (1, 8, 384, 512)
    flat = (batch, length, heads * columns)

    def call(*, gated: bool) -> mx.array:
        x = mx.ones((batch, heads, length, columns), dtype).transpose(0, 2, 1, 3)
        gate = mx.ones(flat, dtype) if gated else None
        return operator(x, mx.ones(flat[2:], dtype), gate=gate, backend="metal")

    shape = (batch, length, heads, columns)
    return [
        Entry(
            _label(operator.__name__, shape, dtype),
            lambda: call(gated=False),
            _size(dtype, flat, flat, flat[2:]),
        ),
        Entry(
            _label(f"{operator.__name__} * sigmoid(gate)", shape, dtype),
            lambda: call(gated=True),
            _size(dtype, flat, flat, flat, flat[2:]),
        ),
    ]


def _convolutions(dtype: mx.Dtype) -> list[Entry]:
    """At 1,024 steps of 512 channels, four taps; and one step of 64 sequences."""
    shape, taps = (1, 1024, 512), (512, 4)
    one, state = (64, 1, 512), (64, 3, 512)

    def whole() -> mx.array:
        x, weight = mx.ones(shape, dtype), mx.ones(taps, dtype)
        return causal_conv1d(x, weight, activation="silu", backend="metal")

    def step() -> object:
        x, weight = mx.ones(one, dtype), mx.ones(taps, dtype)
        return causal_conv1d_update(x, mx.ones(state, dtype), weight, backend="metal")

    return [
        Entry(_label("causal_conv1d", shape, dtype), whole, _size(dtype, shape, shape, taps)),
        Entry(
            _label("causal_conv1d_update", one, dtype),
            step,
            _size(dtype, one, one, state, state, taps),
        ),
    ]


def _mlstm_step(dtype: mx.Dtype) -> list[Entry]:
    """At the head of xLSTM-7B: C read once, written once."""
    leading, keys, values = (1, 8), 256, 512
    key, value, c = (*leading, keys), (*leading, values), (*leading, keys, values)

    def step() -> object:
        zeros = (mx.zeros(shape, dtype) for shape in (key, key, value, leading, leading))
        states = (mx.zeros(shape, mx.float32) for shape in (c, key, (*leading, 1)))
        return mlstm_step(*zeros, *states, backend="metal")

    inputs = _size(dtype, key, key, value, value, leading, leading)
    states = 2 * _size(mx.float32, c, key, leading)
    return [Entry(_label("mlstm_step", c, dtype), step, inputs + states)]


#: `tests/xlstm_kernels/test_traffic.py` holds each to the bar. All are so big, some megabytes, that
#: a launch is bound by memory rather than by its start.
ENTRIES: tuple[Entry, ...] = (
    *_soft_cap(mx.bfloat16),
    *_rms_norm(mx.bfloat16),
    *_multi_head_norm(multi_head_layer_norm, mx.bfloat16),
    *_multi_head_norm(multi_head_rms_norm, mx.bfloat16),
    *_convolutions(mx.bfloat16),
    *_mlstm_step(mx.bfloat16),
)


def main() -> int:
    """Print the table."""
    width = max(len(entry.name) for entry in ENTRIES)
    over = 0
    for entry in ENTRIES:
        counted = device_bytes(entry)
        ratio = counted / entry.minimum
        over += ratio > BAR
        sys.stdout.write(
            f"{entry.name:<{width}} {counted:>11,} bytes, {entry.minimum:>11,} needed:"
            f" {ratio:.3f} (bar {BAR})\n"
        )
        sys.stdout.flush()
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
