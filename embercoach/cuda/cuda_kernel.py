"""Kernels of `mx.fast.metal_kernel` as functions that launch CUDA: built once, then cached."""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
from msgspec import Struct

from embercoach.cuda.compiled_code import compiled_kernel
from embercoach.cuda.launch_entry import (
    INSTALL,
    CudaError,
    EntryForm,
    Extent,
    Info,
    bounded,
    clamped,
    entry_name,
    form_of,
    write_entry,
)
from embercoach.cuda.sanitizer import LINES_VARIABLE, assembled, note_kernel
from embercoach.cuda.tile_products import joined
from embercoach.metal.contract import CONSTANT_BELOW
from embercoach.simulator.build.objects import build_ptx
from embercoach.simulator.build.toolchain import find_toolchain
from embercoach.simulator.model import SimulatorError
from embercoach.simulator.session.activation import defined
from embercoach.simulator.session.launching import Capture, capture, check_thread_count
from embercoach.simulator.session.record import CapturedDefinition, calling_place

#: The headers of the machine's part of the Metal library.
DEVICE = Path(__file__).with_name("device")

#: MLX's own: the function may be replaced later.
_METAL_KERNEL: Any = mx.fast.metal_kernel

#: Architectures that the compiler knows, from the oldest.
_ARCHITECTURES = (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)
#: The oldest version of PTX with which one can be compiled for, where it is not that of CUDA 12.0.
_PTX = {100: "+ptx86", 103: "+ptx88", 110: "+ptx90", 120: "+ptx87", 121: "+ptx88", 88: "+ptx90"}


class _Built(Struct, frozen=True):
    """A kernel compiled for one kind of inputs.

    Attributes:
        call: MLX's kernel, which finds the compiled code.
        form: of the launched function.
    """

    call: Callable[..., list[mx.array]]
    form: EntryForm


class CudaKernel:
    """A kernel of `mx.fast.metal_kernel` that runs on an NVIDIA GPU.

    Args:
        real: what MLX made of the same arguments, which knows the text that it generates.
        definition: the arguments.
        contiguous: whether MLX copies inputs that are not row-contiguous.
        resident: threadgroups of up to 256 threads that a multiprocessor should hold at once.
    """

    def __init__(
        self,
        real: Callable[..., Any],
        definition: CapturedDefinition,
        *,
        contiguous: bool = True,
        resident: int = 1,
    ) -> None:
        self._real = real
        self._definition = definition
        self._contiguous = contiguous
        self._resident = resident
        self._built: dict[Any, _Built] = {}
        self._building = threading.Lock()
        self.__doc__ = real.__doc__
        self._asked = [
            (f"{n}_shape" in body, f"{n}_strides" in body, f"{n}_ndim" in body)
            for body in (definition.body,)
            for n in definition.input_names
        ]

    def __repr__(self) -> str:
        return f"<metal_kernel {self._definition.name!r} on CUDA>"

    def __call__(self, *positional: Any, **arguments: Any) -> list[mx.array]:
        """Record the launch in MLX's graph: arguments and result as of MLX's.

        Raises:
            Whatever MLX raises for the arguments; `CompileError` for a kernel that is not valid;
            and `CudaError` for what CUDA can't launch.
        """
        launch = _launch(arguments)
        if positional or launch is None or len(launch.inputs) != len(self._asked):
            self._capture(positional, arguments)  # raises what MLX raises
            raise CudaError(f"kernel {self._definition.name!r}: unsupported arguments")
        group = clamped(launch.grid, launch.threadgroup)
        if 0 in launch.grid:
            self._capture(positional, arguments)
            return _no_threads(arguments)
        infos = tuple(
            Info(array.ndim if any(asked) else min(array.ndim, 1), asked)
            for array, asked in zip(launch.inputs, self._asked, strict=True)
        )
        form = form_of(infos, launch.grid, group, self._resident)
        key = (form, launch.types, launch.template, launch.output_dtypes)
        built = self._built.get(key)
        if built is None or arguments.get("verbose") or arguments.get("stream") is not None:
            captured = self._capture(positional, arguments)
            _check_geometry(launch)
            if arguments.get("verbose"):
                _show(captured)
            with self._building:
                built = self._built.get(key) or self._build(captured, form, launch)
                self._built[key] = built
        return _record(built, launch, group, arguments)

    def _capture(self, positional: Sequence[Any], arguments: Mapping[str, Any]) -> Capture:
        quiet = {name: value for name, value in arguments.items() if name != "verbose"}
        return capture(self._real, self._definition, positional, quiet)

    def _build(self, captured: Capture, form: EntryForm, launch: _Launch) -> _Built:
        architecture, features = target()
        toolchain = find_toolchain()
        lines = os.environ.get(LINES_VARIABLE)
        flags = toolchain.gpu_flags(architecture, features, lines=bool(lines))
        flags = (*flags, f"-DEMBER_ARCHITECTURE={architecture.removeprefix('sm_')}")
        if captured.math_mode == "fast":
            flags = (*flags, "-D__FAST_MATH__=1")
        if "thread_elements" in captured.source:
            flags = (*flags, "-DEMBER_THREAD_ELEMENTS")
            # A kernel that asks for the layout has text for either.
            if "EMBER_APPLE_TILES" not in captured.source:
                flags = (*flags, "-DEMBER_APPLE_TILES")
        name = entry_name(self._definition.name, captured.source, form, flags)
        ptx, source_map = build_ptx(
            captured.source,
            self._definition.name,
            self._definition.body,
            self._definition.header,
            entry=lambda layout: write_entry(layout, name, form),
            machine=DEVICE,
            flags=flags,
            toolchain=toolchain,
        )
        code = joined(bounded(ptx, name, form)).encode()
        if lines:
            code = assembled(code, architecture)
            note_kernel(Path(lines), name, self._definition, source_map, calling_place())
        call = compiled_kernel(
            name,
            code,
            self._definition,
            form,
            contiguous=self._contiguous,
            inputs=[*launch.inputs, *_geometry(form, launch.grid, launch.threadgroup)],
            output_dtypes=launch.output_dtypes,
        )
        return _Built(call, form)


def cuda_kernel(*, resident: int = 1, **arguments: Any) -> CudaKernel:
    """Make a kernel from the arguments of `mx.fast.metal_kernel`, whether or not it is replaced.

    Args:
        resident: threadgroups of up to 256 threads that a multiprocessor should hold at once, which
            bounds the registers of a thread.
        **arguments: of `mx.fast.metal_kernel`.
    """
    definition, contiguous = defined((), arguments)
    return CudaKernel(
        _METAL_KERNEL(**arguments), definition, contiguous=contiguous, resident=resident
    )


class _Launch(Struct, frozen=True):
    """The arguments of a call, as far as they decide what is compiled and launched."""

    inputs: tuple[mx.array, ...]
    types: tuple[Any, ...]
    template: tuple[Any, ...]
    output_dtypes: tuple[mx.Dtype, ...]
    grid: Extent
    threadgroup: Extent


def _launch(arguments: Mapping[str, Any]) -> _Launch | None:
    """Return the arguments of a call, None where they are not such as MLX takes."""
    try:
        inputs = tuple(
            value if isinstance(value, mx.array) else mx.array(value)
            for value in arguments["inputs"]
        )
        return _Launch(
            inputs=inputs,
            types=tuple(
                (array.dtype, array.size < CONSTANT_BELOW, array.ndim == 0) for array in inputs
            ),
            template=tuple(
                (name, type(value), value) for name, value in arguments.get("template") or ()
            ),
            output_dtypes=tuple(arguments["output_dtypes"]),
            grid=_extent(arguments["grid"]),
            threadgroup=_extent(arguments["threadgroup"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _extent(value: Any) -> Extent:
    x, y, z = map(int, value)
    return x, y, z


def _check_geometry(launch: _Launch) -> None:
    """Refuse what Metal refuses."""
    check_thread_count(launch.threadgroup)
    if min(launch.grid) < 0 or min(launch.threadgroup) <= 0:
        raise ValueError(
            f"grid {launch.grid} with threadgroup {launch.threadgroup} can't be launched: extents "
            "must be positive"
        )


def _record(
    built: _Built, launch: _Launch, group: Extent, arguments: Mapping[str, Any]
) -> list[mx.array]:
    grid, threadgroup = launch.grid, group
    if built.form.flat:
        threads = math.prod(group)
        blocks = math.prod(-(-e // size) for e, size in zip(grid, group, strict=True))
        grid, threadgroup = (blocks * threads, 1, 1), (threads, 1, 1)
    return built.call(
        inputs=[*launch.inputs, *_geometry(built.form, launch.grid, group)],
        output_shapes=arguments["output_shapes"],
        output_dtypes=launch.output_dtypes,
        grid=grid,
        threadgroup=threadgroup,
        init_value=arguments.get("init_value"),
        stream=mx.gpu if arguments.get("stream") is None else arguments["stream"],
    )


def _geometry(form: EntryForm, grid: Extent, group: Extent) -> list[mx.array]:
    """Return the buffer of grid and threadgroup, if there is one."""
    return [_geometry_buffer((*grid, *group))] if form.measured else []


@functools.lru_cache(maxsize=256)
def _geometry_buffer(extents: tuple[int, ...]) -> mx.array:
    return mx.array(extents, dtype=mx.uint32)


def _no_threads(arguments: Mapping[str, Any]) -> list[mx.array]:
    """Return the outputs of a launch that writes nothing."""
    value = arguments.get("init_value") or 0
    pairs = zip(arguments["output_shapes"], arguments["output_dtypes"], strict=True)
    return [mx.full(shape, value, dtype=dtype) for shape, dtype in pairs]


def _show(captured: Capture) -> None:
    """Print the source as MLX does."""
    text = f"Generated source code for `{captured.function}`:\n```\n{captured.source}\n```"
    print(text, flush=True)  # noqa: T201


def missing_compiler() -> str | None:
    """Say why kernels can't be compiled here, with the remedy; None if they can."""
    if importlib.util.find_spec("ziglang") is None:
        return f"no compiler: the package ziglang is not installed: {INSTALL}"
    try:
        find_toolchain()
    except SimulatorError as error:
        return str(error)
    return None


@functools.cache
def target() -> tuple[str, tuple[str, ...]]:
    """Return the architecture of the GPU for the compiler, and the version of PTX that it needs.

    Raises:
        CudaError: the GPU is older than Turing.
    """
    info = mx.device_info(mx.gpu)
    major, minor = (int(info[f"compute_capability_{part}"]) for part in ("major", "minor"))
    capability = major * 10 + minor
    known = [number for number in _ARCHITECTURES if number <= capability]
    if not known:
        raise CudaError(f"GPUs of compute capability {major}.{minor} are too old: 7.5 is needed")
    return f"sm_{known[-1]}", (_PTX.get(known[-1], "+ptx80"),)
