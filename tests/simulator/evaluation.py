"""Bodies of kernels, launched in one dimension; on NumPy arrays for tests of the Metal library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from embercoach.simulator import activate

_DTYPES = {np.dtype(np.float32): mx.float32, np.dtype(np.float16): mx.float16} | {
    np.dtype(f"{kind}{bits}"): getattr(mx, f"{kind}{bits}")
    for kind in ("int", "uint")
    for bits in (8, 16, 32, 64)
}
_DTYPES[np.dtype(bool)] = mx.bool_


def launch(
    body: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, tuple[Sequence[int], mx.Dtype]],
    *,
    threads: int = 1,
    threadgroup: int | None = None,
    build: Mapping[str, Any] | None = None,
    **call: Any,
) -> list[mx.array]:
    """Launch a body in one dimension; `build` and `call` are further arguments of MLX."""
    kernel = mx.fast.metal_kernel(
        name="tried",
        input_names=list(inputs),
        output_names=list(outputs),
        source=body,
        **(build or {}),
    )
    return kernel(
        inputs=list(inputs.values()),
        grid=(threads, 1, 1),
        threadgroup=(threadgroup or min(max(threads, 1), 1024), 1, 1),
        output_shapes=[tuple(shape) for shape, _ in outputs.values()],
        output_dtypes=[dtype for _, dtype in outputs.values()],
        **call,
    )


def evaluate(
    body: str,
    inputs: Mapping[str, np.ndarray | mx.array],
    outputs: Mapping[str, tuple[Sequence[int], type]],
    *,
    threads: int = 1,
    threadgroup: int | None = None,
    header: str = "",
    checks: bool = False,
    atomic: bool = False,
    init: float | None = None,
) -> dict[str, np.ndarray]:
    """The outputs of a one-dimensional launch of a kernel body; inputs are device arrays.

    With checks, a finding fails the test that launched.
    """
    # Fewer than eight elements would come as `constant`.
    given = {name: mx.array(value) for name, value in inputs.items()}
    assert all(value.size >= 8 for value in given.values())
    with activate(checks=checks, on_finding="raise"):
        results = launch(
            body,
            given,
            {name: (shape, _DTYPES[np.dtype(dtype)]) for name, (shape, dtype) in outputs.items()},
            threads=threads,
            threadgroup=threadgroup,
            build={"header": header, "atomic_outputs": atomic},
            init_value=init,
        )
        return {name: np.array(result) for name, result in zip(outputs, results, strict=True)}


def tabulate(
    expressions: Sequence[str], inputs: Mapping[str, np.ndarray], dtype: type
) -> dict[str, np.ndarray]:
    """Each expression at each index ``i`` of the inputs: ``x`` is element i of input ``xs``."""
    count = len(next(iter(inputs.values())))
    loads = "\n".join(f"auto {name[:-1]} = {name}[i];" for name in inputs)
    stores = "\n".join(
        f"out[{number * count} + i] = {expression};"
        for number, expression in enumerate(expressions)
    )
    body = f"uint i = thread_position_in_grid.x;\n{loads}\n{stores}"
    outputs = {"out": ((len(expressions), count), dtype)}
    table = evaluate(body, inputs, outputs, threads=count)["out"]
    return dict(zip(expressions, table, strict=True))


def bfloat_bits(values: np.ndarray) -> np.ndarray:
    """float32 rounded to bfloat16 (to nearest, ties to even), as its 16 bits."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def from_bfloat_bits(bits: np.ndarray) -> np.ndarray:
    """The float32 values of bfloat16 bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
