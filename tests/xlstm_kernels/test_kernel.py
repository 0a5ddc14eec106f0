"""Kernel, the registry of executors, and what the package says when it cannot work."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mlx.core as mx
import pytest

import xlstm_kernels
from xlstm_kernels import Kernel, executors, rms_norm, soft_cap
from xlstm_kernels.kernel import Launch


def launch_doubling(values: mx.array) -> Launch:
    return Launch(
        grid=(values.size, 1, 1),
        threadgroup=(32, 1, 1),
        output_shapes=(values.shape,),
        output_dtypes=(values.dtype,),
    )


DOUBLE = Kernel(
    name="doubling",
    inputs=("values",),
    outputs=("doubled",),
    launch=launch_doubling,
    body="""
    const uint i = thread_position_in_grid.x;
    if (i < values_shape[0]) {
        doubled[i] = values[i] + values[i];
    }
    """,
)


class Doubler:
    """An executor that knows one kernel."""

    name = "doubler"

    def __init__(self, reason: str | None = None) -> None:
        self.reason = reason
        self.launches: list[Launch] = []

    def unavailable(self) -> str | None:
        return self.reason

    def run(self, kernel, inputs, launch, *, verbose=False):
        assert kernel is DOUBLE
        self.launches.append(launch)
        return [array + array for array in inputs]


@pytest.fixture
def doubler():
    executor = Doubler()
    executors.register(executor)
    yield executor
    executors.unregister("doubler")


@pytest.fixture
def fake_metal(monkeypatch):
    """Make MLX say that it has Metal, and set its default device."""

    def pretend(available: bool, device: mx.DeviceType) -> None:
        monkeypatch.setattr(mx.metal, "is_available", lambda: available)
        monkeypatch.setattr(mx, "default_device", lambda: mx.Device(device, 0))

    return pretend


# --- Kernel ------------------------------------------------------------------------------------


def test_runs_on_the_executor_named(doubler):
    (doubled,) = DOUBLE(mx.array([1.0, 2.0]), backend="doubler")
    assert doubled.tolist() == [2, 4]
    assert doubler.launches == [launch_doubling(mx.array([1.0, 2.0]))]


def test_an_empty_grid_launches_nothing_and_gives_zeros(doubler):
    no_threads = dataclasses.replace(
        DOUBLE,
        launch=lambda values: Launch((0, 1, 1), (32, 1, 1), ((2, 3), (0,)), (mx.int32, mx.float16)),
    )
    zeros, empty = no_threads(mx.zeros((0,)), backend="doubler")
    assert zeros.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert (zeros.dtype, empty.dtype, empty.shape) == (mx.int32, mx.float16, (0,))
    assert not doubler.launches


def test_an_empty_grid_gives_the_initial_value(doubler):
    filled = dataclasses.replace(
        DOUBLE,
        launch=lambda values: Launch((0, 1, 1), (32, 1, 1), ((2,),), (mx.float32,)),
        init_value=-math.inf,
    )
    assert filled(mx.zeros((0,)), backend="doubler")[0].tolist() == [-math.inf, -math.inf]


def test_what_the_body_leaves_out_holds_the_initial_value(simulator):
    """Every other element is written; without `init_value` the simulator would tell."""
    sparse = dataclasses.replace(
        DOUBLE,
        name="sparse",
        body=DOUBLE.body.replace("if (i <", "if (i % 2 == 1 && i <"),
        init_value=7.0,
    )
    (doubled,) = sparse(mx.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert doubled.tolist() == [7, 4, 7, 8, 7]


def test_generated_source_needs_no_metal():
    source = DOUBLE.generated_source(mx.zeros((3,)))
    assert "[[kernel]] void custom_kernel_doubling_" in source
    assert "const constant float* values [[buffer(0)]]" in source
    assert DOUBLE.body in source
    assert "const device float* values" in DOUBLE.generated_source(mx.zeros((8,)))


def test_generated_source_of_no_launch():
    with pytest.raises(ValueError, match="takes 1 inputs"):
        DOUBLE.generated_source()
    with pytest.raises(ValueError, match="without threads has no source"):
        DOUBLE.generated_source(mx.zeros((0,)))


def test_verbose_prints_what_is_compiled(simulator, capfd):
    mx.eval(DOUBLE(mx.ones((3,))))
    assert DOUBLE.body not in capfd.readouterr().out
    mx.eval(DOUBLE(mx.ones((3,)), verbose=True))
    assert DOUBLE.body in capfd.readouterr().out


def test_threads_share_one_kernel_object(built_kernels, monkeypatch):
    """Sixteen threads ask at once for a kernel that takes its time to build."""
    build, kernel = mx.fast.metal_kernel, dataclasses.replace(DOUBLE, name="doubling_shared")

    def slow(**arguments):
        time.sleep(0.02)
        return build(**arguments)

    monkeypatch.setattr(mx.fast, "metal_kernel", slow)
    with ThreadPoolExecutor(16) as pool:
        objects = list(
            pool.map(lambda _: executors.MetalExecutor().kernel_object(kernel), range(16))
        )
    assert len(set(map(id, objects))) == 1
    assert built_kernels == ["doubling_shared"]


def test_wrong_number_of_inputs(doubler):
    with pytest.raises(ValueError, match=r"'doubling' takes 1 inputs \(values\), got 2"):
        DOUBLE(mx.zeros((2,)), mx.zeros((2,)), backend="doubler")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "my kernel-1"}, "'my kernel-1' is not a C identifier"),
        ({"name": ""}, "'' is not a C identifier"),
        ({"inputs": ("Größe",)}, "'Größe' is not a C identifier"),
        ({"outputs": ("2nd",)}, "'2nd' is not a C identifier"),
        ({"outputs": ("values",)}, "must differ, got values, values"),
        ({"outputs": ()}, "at least one output"),
    ],
)
def test_rejects_names_that_make_no_signature(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(DOUBLE, **changes)


# --- the choice of a backend -------------------------------------------------------------------


@pytest.mark.parametrize("operator", [lambda **k: soft_cap(mx.ones((2,)), 1, **k)])
@pytest.mark.parametrize("backend", ["cuda-13", "Metal", ""])
def test_unknown_backend(operator, backend):
    with pytest.raises(
        ValueError, match=f"unknown backend '{backend}'; expected 'metal', 'cuda', 'native'"
    ):
        operator(backend=backend)


@pytest.mark.parametrize(
    "operator",
    [
        lambda: soft_cap(mx.ones((2,)), 15.0, backend="metal"),
        lambda: rms_norm(mx.ones((2,)), backend="metal"),
        lambda: DOUBLE(mx.ones((2,)), backend="metal"),
    ],
)
def test_metal_where_there_is_none(operator, fake_metal):
    fake_metal(False, mx.cpu)
    with pytest.raises(RuntimeError, match=r"'metal' cannot run here: this MLX has no Metal"):
        operator()


def test_default_backend_counts_in_its_block(doubler, fake_metal):
    fake_metal(True, mx.gpu)
    with executors.default_backend("native"):
        assert executors.resolve(None) == "native"
        assert executors.resolve("doubler") == "doubler"
        with executors.default_backend("doubler"):
            assert executors.choose(None) is doubler
        with pytest.raises(ValueError, match="unknown backend 'cuda-13'"):
            executors.default_backend("cuda-13").__enter__()
        assert executors.resolve(None) == "native"
    assert executors.resolve(None) == "metal"


def test_metal_with_the_cpu_as_default_device(fake_metal):
    fake_metal(True, mx.cpu)
    with pytest.raises(RuntimeError, match=r"calls run on Device\(cpu, 0\); pass stream=mx\.gpu"):
        soft_cap(mx.ones((2,)), 15.0, backend="metal")


@pytest.mark.parametrize(
    ("available", "device", "expected"),
    [
        (False, mx.cpu, "native"),
        (False, mx.gpu, "native"),
        (True, mx.cpu, "native"),
        (True, mx.gpu, "metal"),
    ],
)
def test_default_follows_metal_and_the_default_device(available, device, expected, fake_metal):
    fake_metal(available, device)
    assert executors.resolve(None) == expected
    assert executors.resolve("native") == "native"


def test_default_takes_a_registered_executor_that_can_run(fake_metal, doubler):
    fake_metal(False, mx.cpu)
    assert executors.resolve(None) == "doubler"
    assert executors.names() == ("metal", "cuda", "doubler", "native", "gpu", "cpu")
    doubler.reason = "it is switched off."
    assert executors.resolve(None) == "native"
    with pytest.raises(RuntimeError, match="'doubler' cannot run here: it is switched off"):
        executors.resolve("doubler")
    with pytest.raises(
        RuntimeError, match=r"metal: .* cuda: this MLX .* doubler: it is switched off\."
    ):
        DOUBLE(mx.ones((2,)))


def test_gpu_is_the_executor_that_can_run(fake_metal, doubler):
    fake_metal(True, mx.gpu)
    assert executors.resolve("gpu") == "metal"
    fake_metal(False, mx.gpu)
    with executors.default_backend("native"):
        assert executors.resolve("gpu") == "doubler"
    doubler.reason = "it is switched off."
    with pytest.raises(RuntimeError, match=r"metal: this MLX .* cuda: this MLX .* switched off\."):
        xlstm_kernels.soft_cap(mx.ones((2,)), mx.array(1.0), backend="gpu")


def test_cpu_is_native_where_the_cpu_is_the_default_device(simulator):
    for backend in ("cpu", None):
        with mx.stream(mx.cpu):
            capped = xlstm_kernels.soft_cap(mx.zeros((2,)), mx.array(1.0), backend=backend)
        assert capped.tolist() == [0, 0]
    assert simulator.launches == []
    with pytest.raises(RuntimeError, match=r"calls run on .*gpu.*pass stream=mx\.cpu"):
        xlstm_kernels.soft_cap(mx.ones((2,)), mx.array(1.0), backend="cpu")


@pytest.mark.parametrize("name", ["native", "cpu"])
def test_kernels_do_not_run_natively(name):
    with pytest.raises(RuntimeError, match=f"'{name}' is made of MLX operations"):
        DOUBLE(mx.ones((2,)), backend=name)


@pytest.mark.parametrize("name", ["metal", "native", "gpu"])
def test_names_are_taken_once(name):
    executor = Doubler()
    executor.name = name
    with pytest.raises(ValueError, match="already registered"):
        executors.register(executor)


def test_unregister_what_is_not_there():
    with pytest.raises(ValueError, match="no executor is registered as 'native'"):
        executors.unregister("native")


@pytest.mark.metal
def test_kernel_on_metal(metal):
    (doubled,) = DOUBLE(mx.arange(100, dtype=mx.float32))
    assert mx.array_equal(doubled, 2 * mx.arange(100, dtype=mx.float32)).item()


# --- the package -------------------------------------------------------------------------------


def test_subpackages_and_version_are_loaded_when_read():
    """Also in a checkout that is not installed, or over another version that is."""
    root = Path(xlstm_kernels.__file__).parents[1]
    code = (
        "import sys, xlstm_kernels as pack\n"
        "print([name for name in sys.modules if name.startswith('xlstm_kernels.')])\n"
        "print(pack.linalg.solve.__name__, pack.search.FlatIndex(2).ntotal, pack.__version__)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    declared = re.search(r'^version = "(.+)"', (root / "pyproject.toml").read_text(), re.MULTILINE)
    assert result.stdout.splitlines() == ["[]", f"solve 0 {declared[1]}"]


def test_import_without_mlx_says_what_to_install():
    code = "import sys; sys.modules['mlx'] = None; import xlstm_kernels"
    root = str(Path(xlstm_kernels.__file__).parents[1])
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: xlstm_kernels needs MLX")
    assert last.endswith("pip install 'embercoach[kernels]'")
