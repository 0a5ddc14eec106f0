"""Backends, dtypes and tolerances that the tests of every operator share."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import pytest

from embercoach.simulator import Recorder, activate, report
from xlstm_kernels import executors


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests really ran on Metal: a skip must never look like a pass."""
    outcomes = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "teardown"
        for key, value in report.user_properties
        if key == "metal"
    ]
    if outcomes:
        ran, skipped = outcomes.count("ran"), outcomes.count("skipped")
        terminalreporter.write_line(f"kernel pack on Metal: {ran} tests ran, {skipped} skipped")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Compile graphs only in tests named after it, and in those outside of the default suite.

    MLX builds a CPU kernel of each graph, dtype and layout, in 0.2 s; results differ by roundings.
    """
    marks = {mark.name for mark in item.iter_markers()}
    if "compile" in item.name or marks & {"exhaustive", "metal", "oracle"}:
        return (yield)
    mx.disable_compile()
    try:
        return (yield)
    finally:
        mx.enable_compile()


# --- where a test runs -------------------------------------------------------------------------


@pytest.fixture
def metal(request: pytest.FixtureRequest) -> str:
    """The name of the Metal backend, on a machine that has one."""
    reason = executors.MetalExecutor().unavailable()
    request.node.user_properties.append(("metal", "ran" if reason is None else "skipped"))
    if reason is not None:
        pytest.skip(f"no Metal: {reason}")
    return "metal"


@pytest.fixture
def simulator() -> Iterator[Recorder]:
    """EmberCoach's simulator in place of Metal, for kernels in which it finds nothing."""
    with activate() as recorder:
        yield recorder
    assert [report(finding) for finding in [*recorder.findings, *recorder.notes]] == []


@pytest.fixture(params=["native", "simulator", pytest.param("metal", marks=pytest.mark.metal)])
def device(request: pytest.FixtureRequest) -> str:
    """The backends whose numbers count: MLX operations, and kernels where they can run."""
    if request.param != executors.NATIVE:
        request.getfixturevalue(request.param)
    return "metal" if request.param == "simulator" else request.param


@pytest.fixture
def built_kernels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The name of each kernel object that MLX is asked for during the test."""
    built: list[str] = []
    build = mx.fast.metal_kernel

    def spy(**arguments: object) -> object:
        built.append(str(arguments["name"]))
        return build(**arguments)

    monkeypatch.setattr(mx.fast, "metal_kernel", spy)
    return built


# --- what a test compares ----------------------------------------------------------------------

#: Relative L2 errors that are allowed in values and in gradients.
VALUES = {mx.float32: 2e-6, mx.float16: 1e-3, mx.bfloat16: 5e-3}
GRADIENTS = {mx.float32: 5e-6, mx.float16: 2e-3, mx.bfloat16: 1e-2}


@dataclass(frozen=True, slots=True)
class Precision:
    """A dtype, and the relative L2 error that one rounding to it allows."""

    dtype: mx.Dtype
    value: float
    gradient: float


@pytest.fixture(
    params=[
        Precision(mx.float32, 2e-6, 5e-6),
        pytest.param(Precision(mx.float16, 1e-3, 1e-3), marks=pytest.mark.exhaustive),
        Precision(mx.bfloat16, 5e-3, 1e-2),
    ],
    ids=["float32", "float16", "bfloat16"],
)
def precision(request: pytest.FixtureRequest) -> Precision:
    return request.param


@pytest.fixture
def draw() -> Callable[..., mx.array]:
    """Makes arrays of normal numbers: shape, dtype, scale."""
    generator = np.random.default_rng(20251121)

    def normal(shape: tuple[int, ...], dtype: mx.Dtype, scale: float = 1.0) -> mx.array:
        numbers = generator.standard_normal(shape) * scale
        return mx.array(numbers, dtype=mx.float32).astype(dtype)

    def restart(seed: int) -> None:
        """Begin again, for hypothesis: an example has to be the same whenever it is tried."""
        nonlocal generator
        generator = np.random.default_rng(seed)

    normal.restart = restart
    return normal


def wide(array: mx.array) -> np.ndarray:
    """The same numbers in NumPy's float64."""
    return np.array(array.astype(mx.float32)).astype(np.float64)


def relative_error(
    actual: mx.array, expected: np.ndarray, scale: np.ndarray | None = None
) -> float:
    """L2 distance over the L2 norm of `scale`, or of `expected` without one."""
    assert actual.shape == np.shape(expected)
    difference = np.linalg.norm(wide(actual) - expected)
    norm = np.linalg.norm(expected if scale is None else scale)
    return float(difference / norm) if norm else float(difference)


@pytest.fixture(name="wide", scope="session")
def wide_fixture() -> Callable[..., np.ndarray]:
    return wide


@pytest.fixture(name="relative_error", scope="session")
def relative_error_fixture() -> Callable[..., float]:
    return relative_error
