"""Backends, dtypes and tolerances that the tests of every operator share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np
import pytest

from embercoach.simulator import activate, report
from xlstm_kernels import executors

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from embercoach.simulator import Recorder
    from xlstm_kernels.kernel import Kernel, Launch


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
    """Compile graphs only in exhaustive tests and in those named after it.

    MLX builds a CPU kernel of each graph, dtype and layout, in 0.2 s; results differ by roundings.
    """
    if "compile" in item.name or item.get_closest_marker("exhaustive"):
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


@dataclass(frozen=True, slots=True)
class GeneratedKernel:
    """What MLX made of a launch: its MSL, and where it would run."""

    source: str
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]

    @property
    def signature(self) -> list[str]:
        """The parameters of the generated function, in order."""
        _, _, rest = self.source.partition("[[kernel]] void ")
        parameters, _, _ = rest.partition(") {\n")
        return [line.strip().rstrip(",") for line in parameters.splitlines()[1:]]

    @property
    def template_values(self) -> str:
        """The template arguments of the instantiation, as MLX writes them."""
        _, _, instantiation = self.source.rpartition("[[kernel]] decltype(")
        return instantiation.partition("<")[2].partition(">")[0]


def generate(kernel: Kernel, inputs: Sequence[mx.array], launch: Launch) -> GeneratedKernel:
    """Let MLX check a launch and write its MSL. This needs no Metal; it raises as a call would."""

    def call(*arrays: mx.array) -> list[mx.array]:
        return list(executors.MetalExecutor().run(kernel, arrays, launch))

    records: list[dict] = []
    examples = [mx.zeros(array.shape, dtype=array.dtype) for array in inputs]
    mx.export_function(records.append, call, *examples)
    (arguments,) = (r["arguments"] for r in records if r.get("name") == "CustomKernel")
    _, source, *extents = arguments[:8]
    return GeneratedKernel(source, tuple(extents[:3]), tuple(extents[3:]))


class Understudy:
    """An executor without a GPU: MLX checks each launch, then a twin of the kernel computes it.

    What comes out is as opaque as a kernel: MLX can neither differentiate nor vectorise it. So it
    tests all that surrounds a body, and not the body.
    """

    name = "understudy"

    def __init__(self) -> None:
        self.launched: list[tuple[str, Launch, GeneratedKernel]] = []

    def unavailable(self) -> None:
        return None

    def run(
        self, kernel: Kernel, inputs: Sequence[mx.array], launch: Launch, *, verbose: bool = False
    ) -> Sequence[mx.array]:
        self.launched.append((kernel.name, launch, generate(kernel, inputs, launch)))
        outputs = [
            # The threadgroups' sums are one to a twin: it leaves the other ones zero.
            mx.pad(output, [(0, shape[0] - output.shape[0]), *[(0, 0)] * (len(shape) - 1)])
            for output, shape in zip(
                opaque(TWINS[kernel.name])(*inputs), launch.output_shapes, strict=True
            )
        ]
        assert tuple(o.shape for o in outputs) == launch.output_shapes
        assert tuple(o.dtype for o in outputs) == launch.output_dtypes
        return outputs


def opaque(function: Callable) -> Callable:
    operation = mx.custom_function(function)

    def refuse(*_: object) -> None:
        raise NotImplementedError("a kernel has no transformations")

    operation.vjp(refuse)
    operation.jvp(refuse)
    operation.vmap(refuse)
    return operation


def soft_cap_twin(values, cap):
    return ((mx.tanh(values.astype(mx.float32) / cap) * cap).astype(values.dtype),)


def soft_cap_gradient_twin(values, cotangent, cap):
    slope = mx.square(mx.reciprocal(mx.cosh(values.astype(mx.float32) / cap)))
    return ((cotangent.astype(mx.float32) * slope).astype(values.dtype),)


def rms_norm_twin(values, epsilon, *weight):
    """With one head, which is how `rms_norm` calls it."""
    batch, length, heads, columns = values.shape
    assert heads == 1
    rows = values.astype(mx.float32).reshape(batch, length, columns)
    rows = rows / mx.sqrt((rows * rows).mean(axis=2, keepdims=True) + epsilon)
    for factor in weight:
        rows = rows * factor.astype(mx.float32)
    return (rows.astype(values.dtype),)


def rms_norm_gradient_twin(values, epsilon, cotangent, *weight):
    (rows,), columns = values.shape[1:2], values.shape[3]
    wide = values.astype(mx.float32).reshape(rows, columns)
    given = cotangent.astype(mx.float32).reshape(rows, columns)
    pulled = given
    for factor in weight:
        pulled = pulled * factor.astype(mx.float32)
    scale = 1 / mx.sqrt((wide * wide).mean(axis=1, keepdims=True) + epsilon)
    along = (wide * pulled).mean(axis=1, keepdims=True)
    gradient = scale * pulled - wide * along * scale**3
    sums = [(given * wide * scale).sum(axis=0, keepdims=True)] * len(weight)
    return gradient.astype(values.dtype).reshape(values.shape), *sums


TWINS = {
    "xlstm_soft_cap": soft_cap_twin,
    "xlstm_soft_cap_gradient": soft_cap_gradient_twin,
    "xlstm_rms_norm": rms_norm_twin,
    "xlstm_rms_norm_weighted": rms_norm_twin,
    "xlstm_rms_norm_gradient": rms_norm_gradient_twin,
    "xlstm_rms_norm_gradient_weighted": rms_norm_gradient_twin,
}


@pytest.fixture
def understudy() -> Iterator[Understudy]:
    executor = Understudy()
    executors.register(executor)
    yield executor
    executors.unregister(executor.name)


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


@pytest.fixture(name="generate")
def generate_fixture() -> Callable[..., GeneratedKernel]:
    return generate


# --- what a test compares ----------------------------------------------------------------------


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


@pytest.fixture(name="wide")
def wide_fixture() -> Callable[..., np.ndarray]:
    return wide


@pytest.fixture(name="relative_error")
def relative_error_fixture() -> Callable[..., float]:
    return relative_error
