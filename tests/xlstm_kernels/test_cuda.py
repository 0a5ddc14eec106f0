"""`backend="cuda"`: the pack's kernels through `embercoach.cuda`. Nothing here needs a GPU."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from tests.cuda.fake_gpu import FakeGpu, gpu
from tests.xlstm_kernels.test_linted import launches
from xlstm_kernels import by_size, executors, linalg, rms_norm, soft_cap
from xlstm_kernels.executors import cuda as cuda_executor

__all__ = ["gpu", "launches"]

PARTS = 8
WITHOUT_PTXAS = pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas")


@pytest.fixture
def cuda(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """Make MLX say that it has CUDA and a GPU."""
    monkeypatch.setattr(mx.metal, "is_available", lambda: False)
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(mx.gpu, 0))
    stream = mx.default_stream(mx.cpu)
    monkeypatch.setattr(mx, "default_stream", lambda device: stream)
    return gpu


def test_runs_where_mlx_has_cuda(cuda):
    assert executors.resolve(None) == "cuda"
    x = mx.zeros((2**13, 2**13), dtype=mx.bfloat16)
    weight = mx.ones((2**13,))  # of another dtype, which mx.fast.rms_norm would promote x to
    mx.eval(mx.grad(lambda x: soft_cap(rms_norm(x, weight), 15.0).sum())(x))
    names = ["rms_norm_weighted", "soft_cap", "soft_cap_gradient", "rms_norm_gradient_weighted"]
    launched = [launch.name for launch in cuda.launches]
    assert len(launched) == len(names)
    for name, full in zip(names, launched, strict=True):
        assert full.startswith(f"ember_xlstm_{name}_")


def test_needs_a_compiler(cuda, monkeypatch):
    monkeypatch.setattr(cuda_executor, "_missing", lambda: "no compiler")
    with pytest.raises(RuntimeError, match="'cuda' cannot run here: no compiler"):
        executors.choose("cuda")


@pytest.mark.parametrize(
    ("size", "names"), [(2**23 - 1, []), (2**23, ["soft_cap_gradient"])], ids=str
)
def test_small_arrays_are_capped_by_operations(size, names, cuda):
    mx.eval(mx.grad(lambda x: soft_cap(x, 15.0).sum())(mx.zeros((size,), dtype=mx.float16)))
    launched = [launch.name for launch in cuda.launches]
    assert [name.startswith(f"ember_xlstm_{names[0]}_") for name in launched] == [True] * len(names)


def test_a_named_backend_is_kept(cuda):
    x = mx.zeros((8,))
    assert by_size.chosen("soft_cap", None, x) == "native"
    assert by_size.chosen("soft_cap", "cuda", x) == "cuda"
    with executors.default_backend("cuda"):
        assert by_size.chosen("soft_cap", None, x) == "cuda"


def test_a_factorization_compiles_its_launches_once(cuda):
    for _ in range(2):
        linalg.cholesky(mx.eye(97))
        assert len(cuda.launches) == 2


@pytest.mark.parametrize(
    ("available", "device", "reason"),
    [
        (False, mx.gpu, "this MLX has no CUDA"),
        (True, mx.cpu, r"calls run on Device\(cpu, 0\)"),
    ],
)
def test_says_why_it_cannot_run(available, device, reason, cuda, monkeypatch):
    monkeypatch.setattr(mx.cuda, "is_available", lambda: available)
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(device, 0))
    with pytest.raises(RuntimeError, match=f"'cuda' cannot run here: {reason}"):
        soft_cap(mx.ones((2,)), 1.0, backend="cuda")
    assert executors.resolve(None) == "native"


@WITHOUT_PTXAS
@pytest.mark.sampled(0)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("part", range(PARTS))
def test_every_kernel_compiles(part, dtype, launches, cuda, tmp_path):
    assert len(launches) > 80
    for kernel, (inputs, launch) in list(launches.items())[part::PARTS]:
        template = [
            (name, dtype if value == mx.float32 else value) for name, value in launch.template
        ]
        arrays = [mx.zeros(shape, dtype=of) for shape, of in inputs]
        executors.CudaExecutor().run(kernel, arrays, replace(launch, template=tuple(template)))
    assemble([launch.code for launch in cuda.launches], tmp_path)


def assemble(texts: list[bytes], folder: Path) -> None:
    """Assemble PTX as the driver does, which no kernel may be refused by."""
    for number, text in enumerate(texts):
        source = folder / f"{number}.ptx"
        source.write_bytes(text)
        command = ["ptxas", "-arch=sm_90", "-O1", "-o", folder / "kernel.cubin", source]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:4000]
