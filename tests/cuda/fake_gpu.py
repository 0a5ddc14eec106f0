"""`mx.fast.precompiled_cuda_kernel` without a GPU: notes what is launched, and gives zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mlx.core as mx
import pytest
from msgspec import Struct

from embercoach.cuda import cuda_activation, cuda_kernel
from embercoach.cuda.cuda_activation import metal_kernel

if TYPE_CHECKING:
    from collections.abc import Sequence


class Launch(Struct, frozen=True):
    """A launch, as MLX was asked for it."""

    name: str
    code: bytes
    inputs: list[mx.array]
    scalars: list[int]
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]
    init_value: float | None
    contiguous: bool


class FakeGpu:
    """The GPU's part of MLX.

    Attributes:
        launches: in order.
    """

    def __init__(self) -> None:
        self.launches: list[Launch] = []

    def precompiled_cuda_kernel(
        self,
        *,
        name: str,
        compiled_source: bytes,
        inputs: list[mx.array],
        output_shapes: Sequence[Sequence[int]],
        output_dtypes: Sequence[mx.Dtype],
        scalars: list[int],
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        init_value: float | None,
        ensure_row_contiguous: bool,
        stream: Any,
    ) -> list[mx.array]:
        """Note a launch."""
        assert stream is not None
        self.launches.append(
            Launch(
                name,
                compiled_source,
                inputs,
                scalars,
                grid,
                threadgroup,
                init_value,
                ensure_row_contiguous,
            )
        )
        outputs = zip(output_shapes, output_dtypes, strict=True)
        return [mx.zeros(shape, dtype=dtype, stream=mx.cpu) for shape, dtype in outputs]

    @staticmethod
    def cuda_kernel(*, source: str, **_: Any) -> Any:
        """Return a kernel that writes the strides of an array, of any strides."""

        def strides(*, output_shapes: Any, output_dtypes: Any, **_: Any) -> list[mx.array]:
            return [mx.zeros(output_shapes[0], dtype=output_dtypes[0], stream=mx.cpu)]

        return strides


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """Let kernels be launched on a fake of an H200."""
    fake = FakeGpu()
    monkeypatch.setattr(mx.fast, "precompiled_cuda_kernel", fake.precompiled_cuda_kernel)
    monkeypatch.setattr(mx.fast, "cuda_kernel", fake.cuda_kernel)
    monkeypatch.setattr(mx.fast, "metal_kernel", metal_kernel(mx.fast.metal_kernel))
    for module in (cuda_kernel, cuda_activation):
        monkeypatch.setattr(module, "target", lambda: ("sm_90", ("+ptx80",)))
    return fake
