"""Compiles every kernel that a program launches, and its variants, and runs none."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from embercoach.simulator.model import KernelFinding, LaunchResult, SimulatorError
from embercoach.simulator.process.local_machine import host
from embercoach.simulator.reporting.compiler_errors import CompileError
from embercoach.simulator.session.activation import activate
from embercoach.simulator.session.recorder import SimulatedLaunch, calling_place
from embercoach.simulator.session.variants import families, key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from embercoach.simulator.build.toolchain import Toolchain
    from embercoach.simulator.model import Buffer, BuiltKernel, Limits
    from embercoach.simulator.reporting.compiler_errors import CompilerError
    from embercoach.simulator.session.capture import Capture, Extent
    from embercoach.simulator.session.recorder import Recorder
    from embercoach.simulator.session.variants import Variant, VariantFamily

LAUNCHED, VARIANT = "does-not-compile", "variant-does-not-compile"
_HELP = {
    LAUNCHED: "",
    VARIANT: "Take pointers with `auto`, and write constants in the template's type",
}


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
        return LaunchResult(tuple(outputs), (), seconds=0.0, accesses=0)


class CompiledKernel:
    """A kernel that is compiled where it is called."""

    def __init__(
        self, kernel: Callable[..., Any], name: str, names: Sequence[str], recorder: Recorder
    ) -> None:
        self._kernel = kernel
        self._name = name
        self._names = names
        self._recorder = recorder
        self._tried: set[str] = set()

    def __call__(self, *positional: Any, **arguments: Any) -> Any:
        """Compile what the launch needs; zeros where MLX would give results."""
        place = calling_place()
        try:
            outputs = self._kernel(*positional, **arguments)
        except CompileError as error:
            self._add(_findings(error, LAUNCHED, "", place), arguments, place)
            return _zeros(arguments)
        if not positional and (tried := key(arguments)) not in self._tried:
            self._tried.add(tried)
            for family in families(self._names, arguments):
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
            return _findings(error, VARIANT, variant.words, place)
        except SimulatorError as error:
            finding = KernelFinding(
                kind=VARIANT,
                kernel=self._name,
                part="generated",
                line=None,
                thread=None,
                message=f"kernel does not compile {variant.words}",
                launched_at=place,
                details=(str(error),),
                help=_HELP[VARIANT],
            )
            return [finding]
        except ValueError:
            return []  # MLX itself refuses such a launch
        return []

    def _add(
        self, found: list[KernelFinding], arguments: dict[str, Any], place: tuple[str, int] | None
    ) -> None:
        launch = SimulatedLaunch(
            kernel=self._name,
            grid=tuple(arguments.get("grid", ())),
            threadgroup=tuple(arguments.get("threadgroup", ())),
            shapes={},
            seconds=0.0,
            accesses=0,
            findings=tuple(found),
            notes=(),
            launched_at=place,
        )
        self._recorder.add(launch)


def _findings(
    error: CompileError, kind: str, words: str, place: tuple[str, int] | None
) -> list[KernelFinding]:
    return [
        KernelFinding(
            kind=kind,
            kernel=error.kernel,
            part=diagnostic.part,
            line=diagnostic.line,
            thread=None,
            message=f"kernel does not compile {words}" if words else diagnostic.message,
            excerpt=diagnostic.excerpt.strip(),
            launched_at=place,
            details=tuple(_details(diagnostic, with_message=bool(words))),
            help=_HELP[kind],
        )
        for diagnostic in error.diagnostics
        if diagnostic.severity == "error"
    ]


def _details(diagnostic: CompilerError, *, with_message: bool) -> Iterator[str]:
    if with_message:
        yield diagnostic.message
    for note in diagnostic.notes[:1]:
        yield f"{note.part} line {note.line}: {note.message}"


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
            kernel: Any = simulated(*positional, **arguments)  # MLX checks the arguments
            given = dict(zip(("name", "input_names"), positional, strict=False)) | arguments
            return CompiledKernel(kernel, given["name"], tuple(given["input_names"]), recorder)

        # What it replaces is put back by the simulation, when that ends.
        mx.fast.metal_kernel = metal_kernel
        yield recorder
