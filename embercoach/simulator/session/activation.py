"""Makes `mx.fast.metal_kernel` work without Metal, for as long as a context lasts."""

from __future__ import annotations

import functools
import inspect
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import mlx.core as mx

from embercoach.simulator.model import Limits, SimulatorError, require_unix
from embercoach.simulator.profile.gpus import DEFAULT, GPUS
from embercoach.simulator.session.capture import CapturedDefinition
from embercoach.simulator.session.devices import SimulatedDevices
from embercoach.simulator.session.launching import LaunchSettings, is_missing_metal, launch
from embercoach.simulator.session.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from embercoach.simulator.build.toolchain import Toolchain
    from embercoach.simulator.session.launching import KernelRunner

_Function = TypeVar("_Function", bound="Callable[..., Any]")

OnFinding = Literal["record", "raise"]


class SimulatedKernel:
    """The kernel that `mx.fast.metal_kernel` returns while a simulation is active.

    Called inside of one, it is simulated; called outside, it is the kernel that MLX made.
    """

    def __init__(self, real: Callable[..., Any], definition: CapturedDefinition) -> None:
        self._real = real
        self._definition = definition
        self.__doc__ = real.__doc__

    def __call__(self, *positional: Any, **arguments: Any) -> Any:
        """Run the kernel: arguments and result as of MLX's."""
        settings = _active.settings()
        if settings is None:
            return self._real(*positional, **arguments)
        on_gpu = _active.with_real_stream(arguments)
        return launch(self._real, self._definition, settings, positional, on_gpu)

    def __repr__(self) -> str:
        return f"<metal_kernel {self._definition.name!r} of the EmberCoach simulator>"


class _Active:
    """The simulations of this process that are active, and what they replaced in MLX."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._entered: list[tuple[object, LaunchSettings]] = []
        self._replaced: list[tuple[Any, str, Any]] = []
        self._devices: SimulatedDevices | None = None
        self._compiles = True
        #: The simulations that this thread, or the task that it runs, has entered.
        self._own: ContextVar[tuple[object, ...]] = ContextVar("simulations", default=())

    def settings(self) -> LaunchSettings | None:
        """Those of this thread's innermost simulation, else of the process's newest."""
        with self._lock:
            own = self._own.get()
            for key, settings in reversed(self._entered):
                if key in own:
                    return settings
            return self._entered[-1][1] if self._entered else None

    def enter(self, key: object, settings: LaunchSettings) -> None:
        with self._lock:
            if not self._entered:
                self._replace()
            self._entered.append((key, settings))
            self._own.set((*self._own.get(), key))

    def leave(self, key: object) -> None:
        with self._lock:
            self._entered = [pair for pair in self._entered if pair[0] is not key]
            self._own.set(tuple(own for own in self._own.get() if own is not key))
            if not self._entered:
                self._restore()

    def with_real_stream(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with a stream that the MLX of this machine knows.

        It must not use a GPU that it lacks, and must reject the CPU, as on a Mac.
        """
        devices, stream = self._devices, arguments.get("stream")
        if devices is None:
            return arguments
        device = devices.default_device() if stream is None else devices.device_of(stream)
        arguments = {name: value for name, value in arguments.items() if name != "stream"}
        if stream is not None and not isinstance(
            stream, (mx.Device, mx.DeviceType, mx.Stream, mx.ThreadLocalStream)
        ):
            return arguments | {"stream": stream}
        return arguments if device is devices.gpu else arguments | {"stream": mx.cpu}

    def _replace(self) -> None:
        replacements = [
            (mx.fast, "metal_kernel", _metal_kernel(mx.fast.metal_kernel)),
            (mx.metal, "is_available", lambda: True),
        ]
        if not mx.is_available(mx.gpu):
            self._devices = SimulatedDevices()
            replacements += self._devices.replacements()
        for owner, name, value in replacements:
            self._replaced.append((owner, name, getattr(owner, name)))
            setattr(owner, name, value)
        # A compiled function can't call back into Python, whoever compiled it and when. MLX asks
        # at each call of one whether compilation is on.
        self._compiles = _compiles()
        mx.disable_compile()

    def _restore(self) -> None:
        for owner, name, value in reversed(self._replaced):
            setattr(owner, name, value)
        self._replaced.clear()
        self._devices = None
        if self._compiles:
            mx.enable_compile()


_active = _Active()


def is_active() -> bool:
    """Return whether kernels that are launched now are simulated."""
    return _active.settings() is not None


@functools.cache
def _metal_kernel(real: Callable[..., Any]) -> Callable[..., Any]:
    """The replacement of `mx.fast.metal_kernel`: one permanent function, usable as a key."""
    signature = inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
            for name, default in (
                ("name", inspect.Parameter.empty),
                ("input_names", inspect.Parameter.empty),
                ("output_names", inspect.Parameter.empty),
                ("source", inspect.Parameter.empty),
                ("header", ""),
                ("ensure_row_contiguous", True),
                ("atomic_outputs", False),
                ("compile_options", None),
            )
        ]
    )

    @functools.wraps(real, assigned=("__doc__",))
    def metal_kernel(*positional: Any, **arguments: Any) -> SimulatedKernel:
        made = real(*positional, **arguments)  # MLX checks the arguments
        given = signature.bind(*positional, **arguments)
        given.apply_defaults()
        values = given.arguments
        definition = CapturedDefinition(
            name=values["name"],
            input_names=tuple(values["input_names"]),
            output_names=tuple(values["output_names"]),
            body=values["source"],
            header=values["header"],
        )
        return SimulatedKernel(made, definition)

    return metal_kernel


def _compiles() -> bool:
    """Return whether `mx.compile` is enabled, for which MLX has no function."""
    traces: list[None] = []

    def count(x: mx.array) -> mx.array:
        traces.append(None)
        return x + 1

    compiled: Any = mx.compile(count)
    calls = 3  # the first compiled call of a process is traced twice
    for _ in range(calls):
        compiled(mx.array(0))
    return len(traces) < calls


class Activation:
    """A simulation that can be entered, any number of times, or decorate functions."""

    def __init__(self, make: Callable[[], LaunchSettings]) -> None:
        self._make = make
        self._entered: list[object] = []

    def __enter__(self) -> Recorder:
        settings = self._make()
        key = object()
        _active.enter(key, settings)
        self._entered.append(key)
        return settings.recorder

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _active.leave(self._entered.pop())
        if is_missing_metal(error):
            raise SimulatorError(
                "the kernel was built before the simulator was activated, so MLX tried to run it "
                "on Metal. Build it, or import its module, inside activate(); clear caches that "
                "hold it; and call it as mx.fast.metal_kernel, which activate() replaces"
            ) from error

    def __call__(self, function: _Function) -> _Function:
        """Decorate: each call of the function is a separate simulation."""

        @functools.wraps(function)
        def simulated(*positional: Any, **arguments: Any) -> Any:
            with Activation(self._make):
                return function(*positional, **arguments)

        @functools.wraps(function)
        async def simulated_later(*positional: Any, **arguments: Any) -> Any:
            with Activation(self._make):
                return await function(*positional, **arguments)

        return simulated_later if inspect.iscoroutinefunction(function) else simulated  # type: ignore[return-value]


def activate(
    checks: bool = True,
    on_finding: OnFinding = "record",
    *,
    timeout: float | None = None,
    limits: Limits | None = None,
    toolchain: Toolchain | None = None,
    machine: KernelRunner | None = None,
    profile: bool | str = False,
) -> Activation:
    """Simulate every `mx.fast.metal_kernel` kernel that is built and called inside a context.

    MLX answers as on a Mac: `mx.metal.is_available()` is true, the default device is `mx.gpu`, and
    operations take it as a stream. They run on the CPU, and kernels where they are called, not
    later. `mx.compile` compiles nothing meanwhile, as compiled code can't call a simulator. All is
    as it was before when the last context ends; kernels built inside are then MLX's own again.

    Kernels that were built before are MLX's and stay so: without Metal, they fail as always.

    Contexts nest, and a thread's launches are recorded by the innermost one that it entered itself,
    else by the newest of the process.

    Args:
        checks: whether to check memory accesses and barriers; without, kernels run several times
            faster.
        on_finding: `"raise"` makes the launch raise `KernelFault`; notes never do.
        timeout: seconds that a launch may compile and run; short for `limits`.
        limits: of time and memory of each launch.
        toolchain: what compiles; by default the one of the package `ziglang`.
        machine: what builds and runs, in place of compiler and child process.
        profile: count what each launch does, for `Recorder.profiles`, in place of the checks. Notes
            then say what costs time on a GPU: the one that is named, as a key of
            `profile.gpus.GPUS`, or on True the default.

    Returns:
        A context manager, and a decorator of functions. Entering it gives a `Recorder`.

    Raises:
        ValueError: for an unknown `on_finding` or GPU, or both `timeout` and `limits`.
        SimulatorError: this is Windows.
    """
    require_unix()
    if on_finding not in ("record", "raise"):
        raise ValueError(f"on_finding must be 'record' or 'raise', got {on_finding!r}")
    if timeout is not None and limits is not None:
        raise ValueError("give timeout or limits, not both: activate(limits=Limits(seconds=...))")
    gpu = None
    if profile:
        name = DEFAULT if profile is True else profile
        if name not in GPUS:
            raise ValueError(f"profile must be True or one of {', '.join(GPUS)}, got {name!r}")
        gpu = GPUS[name]
    if limits is None:
        limits = Limits() if timeout is None else Limits(seconds=timeout)

    def settings() -> LaunchSettings:
        return LaunchSettings(
            checks=checks and gpu is None,
            raises=on_finding == "raise",
            limits=limits,
            machine=machine or _host(toolchain),
            recorder=Recorder(),
            profile=gpu,
        )

    return Activation(settings)


def _host(toolchain: Toolchain | None) -> KernelRunner:
    from embercoach.simulator.process.local_machine import host

    return host(toolchain)
