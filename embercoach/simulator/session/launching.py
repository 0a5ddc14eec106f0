"""One simulated launch, from the arguments of the call over bound memory to its arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import mlx.core as mx
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from embercoach.metal.contract import MAX_THREADS
from embercoach.simulator.model import (
    Buffer,
    BuiltKernel,
    KernelFinding,
    LaunchResult,
    Limits,
    MemoryAccess,
    RawFinding,
    SimulatorError,
    Traffic,
)
from embercoach.simulator.profile.prediction import advise
from embercoach.simulator.reporting.compiler_errors import LAUNCHED, CompileError, findings_of
from embercoach.simulator.reporting.messages import described_launch
from embercoach.simulator.session.record import (
    CapturedDefinition,
    KernelFault,
    Recorder,
    SimulatedLaunch,
    calling_place,
)

if TYPE_CHECKING:
    from embercoach.simulator.profile.counts import LaunchProfile
    from embercoach.simulator.profile.gpus import Gpu

Extent = tuple[int, int, int]

#: The names of the values of `math_mode` in what MLX records.
MATH_MODES = ("safe", "relaxed", "fast")


class Capture(Struct, frozen=True):
    """The arguments that MLX would pass to Metal for one launch.

    Attributes:
        definition: the kernel's.
        function: the name of the generated function.
        source: the generated text.
        grid: threads along x, y and z.
        threadgroup: threads of a threadgroup, as given; Metal gets the smaller of it and the grid.
        inputs: the arrays, made by MLX where Python scalars or NumPy arrays were given.
        infos: for each input, whether the body asks for its shape, strides and rank.
        contiguous: whether MLX copies inputs that are not row-contiguous.
        output_shapes: shape of each output.
        output_dtypes: dtype of each output.
        math_mode: one of `MATH_MODES`.
    """

    definition: CapturedDefinition
    function: str
    source: str
    grid: Extent
    threadgroup: Extent
    inputs: tuple[mx.array, ...]
    infos: tuple[tuple[bool, bool, bool], ...]
    contiguous: bool
    output_shapes: tuple[tuple[int, ...], ...]
    output_dtypes: tuple[mx.Dtype, ...]
    math_mode: str


def capture(
    kernel: Callable[..., Any],
    definition: CapturedDefinition,
    positional: Sequence[Any],
    arguments: Mapping[str, Any],
) -> Capture:
    """Let MLX check the arguments of a call and generate its source. Nothing is evaluated.

    Args:
        kernel: what the real `mx.fast.metal_kernel` returned.
        definition: what it was built from.
        positional: of the call; MLX takes none, and says so itself.
        arguments: keywords of the call.

    Raises:
        Whatever MLX raises for these arguments, unchanged.
    """
    given = arguments.get("inputs")
    inputs = list(given) if isinstance(given, (list, tuple)) else []
    arrays = [value for value in inputs if isinstance(value, mx.array)]

    def call(*examples: mx.array) -> Any:
        replaced, rest = dict(arguments), iter(examples)
        if inputs:
            replaced["inputs"] = [next(rest) if isinstance(v, mx.array) else v for v in inputs]
        return kernel(*positional, **replaced)

    records: list[dict[str, Any]] = []
    mx.export_function(records.append, call, *arrays)
    return _read(records, definition, arrays)


def _read(
    records: Sequence[Mapping[str, Any]], definition: CapturedDefinition, arrays: Sequence[mx.array]
) -> Capture:
    """Convert the records that MLX passes to an exporter."""
    try:
        (launch,) = (r for r in records if r.get("name") == "CustomKernel")
        known = dict(pair for r in records if r["type"] == "constants" for pair in r["constants"])
        names = (name for r in records if r["type"] == "inputs" for name, *_ in r["inputs"])
        known.update(zip(names, arrays, strict=True))
        function, source, gx, gy, gz, tx, ty, tz, infos, contiguous, *_, mode = launch["arguments"]
        return Capture(
            definition=definition,
            function=function,
            source=source,
            grid=(gx, gy, gz),
            threadgroup=(tx, ty, tz),
            inputs=tuple(known[name] for name, *_ in launch["inputs"]),
            infos=tuple(tuple(info) for info in infos),
            contiguous=contiguous,
            output_shapes=tuple(tuple(shape) for _, shape, _ in launch["outputs"]),
            output_dtypes=tuple(dtype for _, _, dtype in launch["outputs"]),
            math_mode=MATH_MODES[mode],
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        version = getattr(mx, "__version__", "of unknown version")
        raise SimulatorError(
            f"MLX {version} exports custom kernels in an unsupported format "
            f"({type(error).__name__}: {error}). Update embercoach, or install MLX 0.32.4."
        ) from error


_SAME_NAMES = (
    *("bool_", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "complex64"),
)
#: MLX's types as NumPy's; bfloat16, which NumPy lacks, as integers of its size.
_NUMPY = {getattr(mx, name): getattr(np, name) for name in _SAME_NAMES} | {mx.bfloat16: np.uint16}


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
    names = captured.definition.output_names
    for name, (shape, dtype) in zip(names, _outputs(captured), strict=True):
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
    """Yield each input and what the body asks to know of it, which a 0-d input never gets."""
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
    """Return an evaluated array's memory from its lowest to its highest element, without a copy.

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
    """Return the array of a kernel's output, from its bytes."""
    if math.prod(shape) == 0:
        return mx.zeros(shape, dtype=dtype)
    values = mx.array(data.view(_NUMPY[dtype]).reshape(shape))
    return values.view(mx.bfloat16) if dtype == mx.bfloat16 else values


_HELP = {
    "uncoalesced-access": "Let neighbouring threads access neighbouring elements, or go through a "
    "tile in threadgroup memory",
    "narrow-access": "Access several elements at once, as `half4` or `float4`, where the address "
    "is a multiple of their size",
    "bank-conflict": "Make the array's rows one element longer",
    "frequent-barriers": "Do more work between barriers, or exchange values inside of a simdgroup "
    "with `simd_shuffle` and `simd_sum`",
    "low-occupancy": "Use smaller tiles, or larger threadgroups that share one",
}


class KernelRunner(Protocol):
    """A backend that compiles kernels and runs them."""

    def build(
        self, captured: Capture, *, checks: bool, limits: Limits, profile: bool = False
    ) -> BuiltKernel:
        """Compile the text of a launch, in no more than ``limits.seconds``."""

    def run(
        self,
        kernel: BuiltKernel,
        bound: Sequence[Buffer],
        grid: Extent,
        threadgroup: Extent,
        *,
        limits: Limits,
    ) -> LaunchResult:
        """Run every thread; `threadgroup` fits the grid and neither is empty."""


class LaunchSettings(Struct, frozen=True):
    """Settings of simulated launches.

    Attributes:
        checks: whether memory accesses and barriers are checked.
        raises: whether a finding raises `KernelFault`.
        limits: of time and memory.
        machine: compiles and runs.
        recorder: gets each launch.
        profile: the GPU for whose costs each launch's work is counted; None to count nothing.
        keeps_refusals: whether kernels that don't compile are findings too.
    """

    checks: bool
    raises: bool
    limits: Limits
    machine: KernelRunner
    recorder: Recorder
    profile: Gpu | None = None
    keeps_refusals: bool = True


def launch(
    kernel: Callable[..., Any],
    definition: CapturedDefinition,
    settings: LaunchSettings,
    positional: Sequence[Any],
    arguments: Mapping[str, Any],
) -> Any:
    """Simulate the call `kernel(*positional, **arguments)` of a real kernel object.

    Returns:
        As MLX does: a list of arrays. They can't be differentiated, like those of a real kernel.

    Raises:
        Whatever MLX raises for the arguments, `SimulatorError` for what can't be simulated, and
        `KernelFault` for findings where the settings say so.
    """
    captured = capture(kernel, definition, positional, arguments)
    try:
        bound = buffers(captured, arguments.get("init_value"), settings.limits)
    except ValueError as error:
        if "Attempting to eval" not in str(error):
            raise
        return _record_in_trace(kernel, definition, positional, arguments)
    outputs = _run(captured, bound, settings)
    if captured.inputs:
        # Tracers of mx.grad have values, so the kernel ran on them; a gradient of zero must not
        # pass silently.
        outputs = _underivable(outputs)(*captured.inputs)
    mx.eval(outputs)  # which another thread could not do
    return outputs


def _run(captured: Capture, bound: Sequence[Buffer], settings: LaunchSettings) -> list[mx.array]:
    name = captured.definition.name
    profiles = {"profile": True} if settings.profile else {}
    try:
        built = settings.machine.build(
            captured, checks=settings.checks, limits=settings.limits, **profiles
        )
    except CompileError as error:
        if settings.keeps_refusals:  # the program may catch it, and go on without the kernel
            settings.recorder.add(_refused(error, captured))
        raise
    check_thread_count(captured.threadgroup)
    _check_geometry(name, captured.grid, captured.threadgroup)
    if 0 in captured.grid:
        result = _no_threads(built, bound, checks=settings.checks)
    else:
        (gx, gy, gz), (tx, ty, tz) = captured.grid, captured.threadgroup
        group = min(tx, gx), min(ty, gy), min(tz, gz)
        result = settings.machine.run(built, bound, captured.grid, group, limits=settings.limits)
    place = calling_place()
    found = described_launch(result.findings, built, bound, place, math.prod(captured.grid))
    profile = result.profile and replace(result.profile, launched_at=place)
    if profile is not None and settings.profile is not None:
        found += cost_findings(profile, settings.profile)
    done = SimulatedLaunch(
        kernel=name,
        grid=captured.grid,
        threadgroup=captured.threadgroup,
        shapes=_shapes(captured),
        seconds=result.seconds,
        accesses=result.accesses,
        findings=tuple(finding for finding in found if not finding.is_note),
        notes=tuple(finding for finding in found if finding.is_note),
        launched_at=place,
        traffic=result.traffic,
        profile=profile,
        definition=captured.definition,
    )
    settings.recorder.add(done)
    if settings.raises and done.findings:
        raise KernelFault(done)
    outputs = zip(result.outputs, captured.output_shapes, captured.output_dtypes, strict=True)
    return [to_array(data, shape, dtype) for data, shape, dtype in outputs]


def _refused(error: CompileError, captured: Capture) -> SimulatedLaunch:
    """Return the launch of a kernel that does not compile."""
    place = calling_place()
    return SimulatedLaunch(
        kernel=captured.definition.name,
        grid=captured.grid,
        threadgroup=captured.threadgroup,
        shapes=_shapes(captured),
        findings=tuple(findings_of(error, LAUNCHED, place)),
        launched_at=place,
        definition=captured.definition,
    )


def _shapes(captured: Capture) -> dict[str, tuple[int, ...]]:
    shapes = {
        name: tuple(array.shape)
        for name, array in zip(captured.definition.input_names, captured.inputs, strict=True)
    }
    return shapes | dict(zip(captured.definition.output_names, captured.output_shapes, strict=True))


def check_thread_count(threadgroup: Extent) -> None:
    """Refuse more threads than Metal takes, in MLX's words."""
    threads = math.prod(threadgroup)
    if threads > MAX_THREADS:
        raise ValueError(
            f"Thread group size ({threads}) is greater than  the maximum allowed threads per "
            f"threadgroup ({MAX_THREADS})."
        )


def _check_geometry(name: str, grid: Extent, threadgroup: Extent) -> None:
    """Refuse extents that Metal refuses."""
    if min(grid) < 0 or min(threadgroup) < 0 or (0 in threadgroup and 0 not in grid):
        raise SimulatorError(
            f"kernel {name!r}: grid {grid} with threadgroup {threadgroup} can't be launched: "
            "extents must be positive, or Metal aborts the process"
        )


def _no_threads(built: BuiltKernel, bound: Sequence[Buffer], *, checks: bool) -> LaunchResult:
    """Return a grid of zero threads writes nothing."""
    outputs = [buffer for buffer in bound if buffer.role == "output"]
    bound_parameters = [p for p in built.parameters if p.index is not None]
    nobody = MemoryAccess(None, None, None)
    unwritten = [
        RawFinding("unwritten-output", nobody, None, o.name, 0, "the grid has no threads", 1)
        for o in outputs
        if checks and o.data.size and not o.initialized
    ]
    return LaunchResult(
        outputs=tuple(o.data if o.initialized else np.zeros_like(o.data) for o in outputs),
        findings=tuple(unwritten),
        traffic={p.name: Traffic(p.space, 0, 0) for p in bound_parameters} if checks else {},
    )


def _underivable(outputs: list[mx.array]) -> Any:
    """Return a function that gives the outputs, and refuses derivatives as MLX's kernels do."""
    operation: Any = mx.custom_function(lambda *_: outputs)

    def refuse(what: str) -> Callable[..., Any]:
        def rule(*_: Any) -> Any:
            raise ValueError(f"[Primitive::{what}] Not implemented for CustomKernel.")

        return rule

    operation.vjp(refuse("vjp"))
    operation.jvp(refuse("jvp"))
    operation.vmap(refuse("vmap"))
    return operation


def _record_in_trace(
    kernel: Callable[..., Any],
    definition: CapturedDefinition,
    positional: Sequence[Any],
    arguments: Mapping[str, Any],
) -> Any:
    """A call while MLX traces: `mx.export_function` wants the kernel itself, others can't run."""
    try:
        return kernel(*positional, **arguments)
    except RuntimeError as error:
        if not is_missing_metal(error):
            raise
    raise SimulatorError(
        f"kernel {definition.name!r} was called while MLX traces a function, where inputs have no "
        "values. Under mx.vmap: MLX has no vmap for custom kernels ([Primitive::vmap] Not "
        "implemented for CustomKernel), not even inside of a function with a rule. Pass the batch "
        "to the kernel, or launch it in the rule alone: mx.custom_function(f).vmap, where f has "
        "other operations. Under mx.compile: activate() disables compilation; leave out "
        "mx.enable_compile()"
    )


def is_missing_metal(error: BaseException | None) -> bool:
    """Return whether MLX says that it can't run a kernel because it has no Metal."""
    return isinstance(error, RuntimeError) and "[metal_kernel] No Metal back-end" in str(error)


def cost_findings(profile: LaunchProfile, gpu: Gpu) -> Iterator[KernelFinding]:
    """Yield the advice of a profile, as notes."""
    for advice in advise(profile, gpu):
        gain = f"up to {advice.gain or 0:.0%} less time on a full {gpu.name}, as predicted"
        yield KernelFinding(
            kind=advice.kind,
            kernel=profile.kernel,
            part=advice.part,
            line=advice.line,
            thread=None,
            message=advice.message,
            excerpt=profile.text(advice.part, advice.line),
            launched_at=profile.launched_at,
            details=() if advice.gain is None else (gain,),
            help=_HELP[advice.kind],
        )
