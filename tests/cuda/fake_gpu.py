"""`mx.fast.cuda_kernel` without a GPU: notes what is launched, and gives zeros."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import pytest
from msgspec import Struct

from embercoach.cuda import compiled_code, cuda_activation, cuda_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Launch(Struct, frozen=True):
    """A launch, as MLX was asked for it.

    Attributes:
        code: the PTX that MLX finds.
        names: of the inputs.
    """

    name: str
    code: bytes
    names: list[str]
    inputs: list[mx.array]
    text: str
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]
    init_value: float | None
    contiguous: bool


class FakeGpu:
    """The GPU's part of MLX.

    Attributes:
        launches: in order.
        folder: MLX's cache of compiled kernels.
    """

    def __init__(self, folder: Path) -> None:
        self.launches: list[Launch] = []
        self.folder = folder

    def cuda_kernel(
        self,
        *,
        name: str,
        input_names: list[str],
        output_names: list[str],
        source: str,
        ensure_row_contiguous: bool,
    ) -> Callable[..., list[mx.array]]:
        """Return a kernel whose launches are noted."""

        def launch(
            *,
            inputs: list[mx.array],
            output_shapes: Sequence[Sequence[int]],
            output_dtypes: Sequence[mx.Dtype],
            grid: tuple[int, int, int],
            threadgroup: tuple[int, int, int],
            init_value: float | None,
            stream: Any,
        ) -> list[mx.array]:
            assert len(inputs) == len(input_names)
            assert len(output_dtypes) == len(output_names)
            assert stream is not None
            self.launches.append(
                Launch(
                    name=name,
                    code=self.code(name),
                    names=input_names,
                    inputs=inputs,
                    text=source,
                    grid=grid,
                    threadgroup=threadgroup,
                    init_value=init_value,
                    contiguous=ensure_row_contiguous,
                )
            )
            outputs = zip(output_shapes, output_dtypes, strict=True)
            return [mx.zeros(shape, dtype=dtype, stream=mx.cpu) for shape, dtype in outputs]

        launch.text = source  # type: ignore[attr-defined]
        launch.name = name  # type: ignore[attr-defined]
        return launch

    def code(self, name: str) -> bytes:
        """Return the code of a function from the cache, which holds it once."""
        (names,) = (p for p in self.folder.glob("*.txt") if f"\t{name}\n" in p.read_text())
        assert names.read_text() == f"mlx::core::cu::custom_kernel_{name}\t{name}\n"
        return names.with_suffix(".ptx").read_bytes()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeGpu:
    """Let kernels be launched on a fake of an H200."""
    fake = FakeGpu(tmp_path / "ptx")
    monkeypatch.setenv("MLX_PTX_CACHE_DIR", str(fake.folder))
    monkeypatch.setattr(mx.fast, "cuda_kernel", fake.cuda_kernel)
    replaced = cuda_activation.metal_kernel(mx.fast.metal_kernel)
    monkeypatch.setattr(mx.fast, "metal_kernel", replaced)
    for module in (cuda_kernel, cuda_activation):
        monkeypatch.setattr(module, "target", lambda: ("sm_90", ("+ptx80",)))
    # MLX generates a text only where it has CUDA.
    generated = lambda kernel, *_: (f"custom_kernel_{kernel.name}", kernel.text)  # noqa: E731
    monkeypatch.setattr(compiled_code, "_generated", generated)
    return fake
