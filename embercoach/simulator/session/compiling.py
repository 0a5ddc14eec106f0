"""Compiles every kernel that a program launches, and its variants, and runs none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
from msgspec import Struct

from embercoach.simulator.child_process import host
from embercoach.simulator.model import (
    Buffer,
    BuiltKernel,
    KernelFinding,
    LaunchResult,
    Limits,
    SimulatorError,
)
from embercoach.simulator.reporting.compiler_errors import LAUNCHED, CompileError, findings_of
from embercoach.simulator.session.activation import SimulatedKernel, activate
from embercoach.simulator.session.record import Recorder, SimulatedLaunch, calling_place

if TYPE_CHECKING:
    from embercoach.simulator.build.toolchain import Toolchain
    from embercoach.simulator.session.launching import Capture, Extent

#: Inputs with fewer elements than this lie in `constant` memory, others in `device` memory.
SMALL = 8
FLOATS = (mx.float32, mx.float16, mx.bfloat16)

Arguments = dict[str, Any]


class Variant(Struct, frozen=True):
    """A launch that the program does not make.

    Attributes:
        words: the difference, to follow "does not compile".
        arguments: of the kernel's call.
    """

    words: str
    arguments: Arguments


class VariantFamily(Struct, frozen=True):
    """Variants that may be tried together: where all at once compile, each of them does.

    Attributes:
        together: all of them at once.
        each: one by one.
    """

    together: Variant
    each: tuple[Variant, ...]


def families(names: Sequence[str], arguments: Mapping[str, Any]) -> Iterator[VariantFamily]:
    """Yield the variants of a launch.

    Small inputs and scalars are other parameters of the function; another floating dtype is one
    only where the template names the dtype, as the kernel is meant to be generic there.

    Args:
        names: of the inputs.
        arguments: keywords of the kernel's call.
    """
    inputs = arguments.get("inputs")
    if not isinstance(inputs, (list, tuple)):
        return
    yield from _of_shape(names, arguments, "fewer than 8 elements", _made_small)
    yield from _of_shape(names, arguments, "no dimensions", _made_scalar)
    yield from _of_shape(names, arguments, "one dimension", _made_vector)
    for old in _dtypes(arguments.get("template")):
        for new in FLOATS:
            if new != old:
                words = f"with {_word(new)} for {_word(old)}"
                variant = Variant(words, _recast(arguments, old, new))
                yield VariantFamily(variant, (variant,))


def key(arguments: Mapping[str, Any]) -> str:
    """Return a key of a launch: equal for launches with the same variants."""
    inputs = [
        (str(value.dtype), value.ndim, value.size < SMALL)
        if isinstance(value, mx.array)
        else type(value).__name__
        for value in arguments.get("inputs") or ()
    ]
    others = [repr(arguments.get(name)) for name in ("template", "output_dtypes")]
    return repr((inputs, others))


def _of_shape(
    names: Sequence[str],
    arguments: Mapping[str, Any],
    words: str,
    change: Callable[[mx.array], mx.array | None],
) -> Iterator[VariantFamily]:
    """Yield each input changed, where it can be."""
    inputs = list(arguments["inputs"])
    changed = {
        number: made
        for number, value in enumerate(inputs)
        if isinstance(value, mx.array) and (made := change(value)) is not None
    }
    if not changed:
        return

    def variant(numbers: Sequence[int]) -> Variant:
        replaced = [changed[n] if n in numbers else value for n, value in enumerate(inputs)]
        given = " and ".join(f"`{names[n]}`" for n in numbers if n < len(names))
        verb = "has" if len(numbers) == 1 else "have"
        return Variant(f"if {given} {verb} {words}", {**arguments, "inputs": replaced})

    yield VariantFamily(variant(list(changed)), tuple(variant([number]) for number in changed))


def _made_small(value: mx.array) -> mx.array | None:
    if value.size < SMALL or value.ndim == 0:
        return None
    return mx.zeros((1,) * value.ndim, dtype=value.dtype, stream=mx.cpu)


def _made_scalar(value: mx.array) -> mx.array | None:
    """Only of what is one number already: a body that indexes an array can't take a scalar."""
    if value.shape != (1,):
        return None
    return mx.zeros((), dtype=value.dtype, stream=mx.cpu)


def _made_vector(value: mx.array) -> mx.array | None:
    return mx.zeros((1,), dtype=value.dtype, stream=mx.cpu) if value.ndim == 0 else None


def _dtypes(template: Any) -> list[mx.Dtype]:
    """Return the floating dtypes that a template names."""
    pairs = template if isinstance(template, (list, tuple)) else ()
    values = [pair[1] for pair in pairs if isinstance(pair, (list, tuple)) and len(pair) == 2]
    found = (dtype for dtype in FLOATS if any(value == dtype for value in values))
    return list(found)


def _recast(arguments: Mapping[str, Any], old: mx.Dtype, new: mx.Dtype) -> Arguments:
    """Return the launch with one dtype for another, wherever it stands."""

    def renamed(value: Any) -> Any:
        return new if isinstance(value, mx.Dtype) and value == old else value

    inputs = [
        mx.zeros(value.shape, dtype=new, stream=mx.cpu)
        if isinstance(value, mx.array) and value.dtype == old
        else value
        for value in arguments["inputs"]
    ]
    template = [(name, renamed(value)) for name, value in arguments["template"]]
    dtypes = [renamed(dtype) for dtype in arguments.get("output_dtypes") or ()]
    return {**arguments, "inputs": inputs, "template": template, "output_dtypes": dtypes}


def _word(dtype: mx.Dtype) -> str:
    return str(dtype).rpartition(".")[2]


VARIANT = "variant-does-not-compile"
_HELP = "Take pointers with `auto`, and write constants in the template's type"


class CompilingMachine:
    """Builds kernels without checks, and gives zeros for running them."""

    def __init__(self, toolchain: Toolchain | None) -> None:
        self._host = host(toolchain)

    def build(
        self, captured: Capture, *, checks: bool, limits: Limits, profile: bool = False
    ) -> BuiltKernel:
        """Compile the text of a launch."""
        return self._host.build(captured, checks=False, limits=limits)

    def run(
        self,
        kernel: BuiltKernel,
        bound: Sequence[Buffer],
        grid: Extent,
        threadgroup: Extent,
        *,
        limits: Limits,
    ) -> LaunchResult:
        """Return zeros for all outputs."""
        outputs = [np.zeros_like(buffer.data) for buffer in bound if buffer.role == "output"]
        return LaunchResult(tuple(outputs))


class CompiledKernel:
    """A kernel that is compiled where it is called."""

    def __init__(self, kernel: SimulatedKernel, recorder: Recorder) -> None:
        self._kernel = kernel
        self._recorder = recorder
        self._tried: set[str] = set()

    def __call__(self, *positional: Any, **arguments: Any) -> Any:
        """Compile what the launch needs; zeros where MLX would give results."""
        place = calling_place()
        try:
            outputs = self._kernel(*positional, **arguments)
        except CompileError as error:
            self._add(findings_of(error, LAUNCHED, place), arguments, place)
            return _zeros(arguments)
        if not positional and (tried := key(arguments)) not in self._tried:
            self._tried.add(tried)
            for family in families(self._kernel.definition.input_names, arguments):
                self._try_family(family, place)
        return outputs

    def _try_family(self, family: VariantFamily, place: tuple[str, int] | None) -> None:
        together = self._faults(family.together, place)
        if not together:
            return
        # Which of the inputs is it? It may also take several of them.
        alone = [found for variant in family.each for found in self._faults(variant, place)]
        self._add(alone or together, family.together.arguments, place)

    def _faults(self, variant: Variant, place: tuple[str, int] | None) -> list[KernelFinding]:
        try:
            self._kernel(**variant.arguments)
        except CompileError as error:
            return findings_of(error, VARIANT, place, words=variant.words, advice=_HELP)
        except SimulatorError as error:
            finding = KernelFinding(
                kind=VARIANT,
                kernel=self._kernel.definition.name,
                part="generated",
                line=None,
                thread=None,
                message=f"kernel does not compile {variant.words}",
                launched_at=place,
                details=(str(error),),
                help=_HELP,
            )
            return [finding]
        except ValueError:
            return []  # MLX itself refuses such a launch
        return []

    def _add(
        self, found: list[KernelFinding], arguments: dict[str, Any], place: tuple[str, int] | None
    ) -> None:
        launch = SimulatedLaunch(
            kernel=self._kernel.definition.name,
            grid=tuple(arguments.get("grid", ())),
            threadgroup=tuple(arguments.get("threadgroup", ())),
            shapes={},
            findings=tuple(found),
            launched_at=place,
            definition=self._kernel.definition,
        )
        self._recorder.add(launch)


def _zeros(arguments: dict[str, Any]) -> list[mx.array]:
    shapes, dtypes = arguments["output_shapes"], arguments["output_dtypes"]
    return [mx.zeros(s, dtype=d, stream=mx.cpu) for s, d in zip(shapes, dtypes, strict=True)]


@contextlib.contextmanager
def compiling(
    toolchain: Toolchain | None = None, limits: Limits | None = None
) -> Iterator[Recorder]:
    """Compile every kernel that is launched inside, also for other inputs, and run none.

    Launches give zeros. What does not compile is a finding, of the kind ``does-not-compile`` for
    the launch itself and ``variant-does-not-compile`` for one with fewer than eight elements, of a
    scalar, or of another floating dtype.
    """
    with activate(machine=CompilingMachine(toolchain), limits=limits) as recorder:
        simulated = mx.fast.metal_kernel

        def metal_kernel(*positional: Any, **arguments: Any) -> CompiledKernel:
            kernel: Any = simulated(*positional, **arguments)
            return CompiledKernel(kernel, recorder)

        # What it replaces is put back by the simulation, when that ends.
        mx.fast.metal_kernel = metal_kernel
        yield recorder
