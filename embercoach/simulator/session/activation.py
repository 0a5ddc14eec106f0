"""Makes `mx.fast.metal_kernel` work without Metal, and MLX report a Mac's devices, in a context."""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import mlx.core as mx

from embercoach.simulator.model import Limits, SimulatorError, require_unix
from embercoach.simulator.profile.gpus import DEFAULT, GPUS
from embercoach.simulator.session.launching import (
    KernelRunner,
    LaunchSettings,
    is_missing_metal,
    launch,
)
from embercoach.simulator.session.record import CapturedDefinition, Recorder, calling_place

if TYPE_CHECKING:
    from embercoach.simulator.build.toolchain import Toolchain

#: What `mx.device_info()` says besides the memory: a common Mac, named so that nobody takes its
#: figures for a real one's.
_MODEL = {"architecture": "applegpu_g15s", "device_name": "EmberCoach simulator"}


_REAL_GPU = mx.DeviceType.gpu


class SimulatedGpu(mx.Device):  # type: ignore[misc, unused-ignore]  # a final class in some stubs
    """A device that is the GPU to Python and the CPU to MLX."""

    name = "gpu"

    def __init__(self) -> None:
        super().__init__(mx.cpu, 0)

    @property
    def type(self) -> mx.DeviceType:
        """As of the GPU."""
        return _REAL_GPU

    def __eq__(self, other: object) -> bool:
        return other is self or (
            not isinstance(other, SimulatedGpu)
            and isinstance(other, (mx.Device, mx.DeviceType))
            and bool(other == _REAL_GPU)
        )

    def __hash__(self) -> int:
        return hash(_REAL_GPU)

    def __repr__(self) -> str:
        return "Device(gpu, 0)"


class SimulatedDevices:
    """The state that MLX would keep of devices and streams, and the functions that answer from it.

    Made where MLX has no GPU. The default device is the GPU at first, as on a Mac.
    """

    def __init__(self) -> None:
        self.gpu = SimulatedGpu()
        self._default: mx.Device = self.gpu
        self._real = {name: getattr(mx, name) for name in ("stream", "default_stream")}
        self._gpu_streams: list[Any] = []
        self._entered = threading.local()

    def replacements(self) -> Iterator[tuple[Any, str, Any]]:
        """Yield each (owner, name, value) to set while kernels are simulated."""
        yield mx, "gpu", self.gpu
        yield mx.DeviceType, "__eq__", self._equality(mx.DeviceType.__eq__)
        yield mx, "default_device", self.default_device
        yield mx, "set_default_device", self.set_default_device
        yield mx, "stream", functools.partial(_StreamContext, self)
        yield mx, "is_available", self._is_available(mx.is_available)
        yield mx, "device_count", self._device_count(mx.device_count)
        yield mx, "device_info", self._device_info(mx.device_info)
        if hasattr(mx.metal, "device_info"):  # deprecated
            yield mx.metal, "device_info", lambda: _MODEL | _memory()
        for name in ("new_stream", "new_thread_local_stream", "default_stream"):
            yield mx, name, self._stream_of(getattr(mx, name), remember=name != "default_stream")

    # --- devices -------------------------------------------------------------------------------

    def default_device(self) -> mx.Device:
        """Get the device of the innermost stream context of this thread, else the default one."""
        entered = self._devices_entered()
        return entered[-1] if entered else self._default

    def set_default_device(self, device: Any) -> None:
        """Set what `default_device` answers; MLX itself goes on with the CPU."""
        self._default = self.device_of(device)

    def device_of(self, target: Any) -> mx.Device:
        """Return the GPU or the CPU: that of a device or a stream. A TypeError is MLX's own."""
        if isinstance(target, (mx.Device, mx.DeviceType)):
            return self.gpu if target == _REAL_GPU else mx.Device(mx.cpu)
        if any(target is known or target == known for known in self._gpu_streams):
            return self.gpu
        if isinstance(target, mx.Stream) and target == self._real["default_stream"](mx.cpu):
            # One stream is the default of both devices; take it for that of the device in use.
            return self.default_device()
        return mx.Device(mx.cpu)

    def _devices_entered(self) -> list[mx.Device]:
        if not hasattr(self._entered, "devices"):
            self._entered.devices = []
        entered: list[mx.Device] = self._entered.devices
        return entered

    def _equality(self, real: Any) -> Any:
        # The GPU's name may have been imported before: `gpu == mx.default_device()` asks the name.
        def equal(this: mx.DeviceType, other: object) -> Any:
            if isinstance(other, SimulatedGpu):
                return this is _REAL_GPU
            return real(this, other)

        return equal

    def _is_available(self, real: Any) -> Any:
        @functools.wraps(real, assigned=("__doc__",))
        def is_available(device: Any) -> bool:
            return bool(device == self.gpu) or bool(real(device))

        return is_available

    def _device_count(self, real: Any) -> Any:
        @functools.wraps(real, assigned=("__doc__",))
        def device_count(device_type: Any) -> int:
            return 1 if device_type == self.gpu else int(real(device_type))

        return device_count

    def _device_info(self, real: Any) -> Any:
        @functools.wraps(real, assigned=("__doc__",))
        def device_info(device: Any = None) -> dict[str, str | int]:
            if (self.default_device() if device is None else device) == self.gpu:
                return _MODEL | _memory()
            return dict(real(mx.cpu))

        return device_info

    # --- streams -------------------------------------------------------------------------------

    def real_target(self, target: Any) -> Any:
        """Return a device that MLX can run on: the CPU instead of the GPU."""
        if isinstance(target, (mx.Device, mx.DeviceType)):
            return mx.cpu if target == self.gpu else target
        return target

    def _stream_of(self, real: Any, *, remember: bool) -> Any:
        @functools.wraps(real, assigned=("__doc__",))
        def stream_of(device: Any) -> Any:
            stream = real(self.real_target(device))
            if remember and self.device_of(device) is self.gpu:
                self._gpu_streams.append(stream)
            return stream

        return stream_of

    def enter(self, target: Any) -> Any:
        """Enter MLX's own context of a stream or device, and note the device."""
        device = self.device_of(target)
        context = self._real["stream"](self.real_target(target))
        context.__enter__()
        self._devices_entered().append(device)
        return context

    def leave(self, context: Any, *exception: object) -> None:
        """Leave a context that `enter` gave."""
        self._devices_entered().pop()
        context.__exit__(*exception)


class _StreamContext:
    """The context manager that `mx.stream(...)` returns."""

    def __init__(self, devices: SimulatedDevices, s: Any) -> None:
        # MLX checks the argument before the context is entered.
        devices._real["stream"](devices.real_target(s))  # noqa: SLF001
        self._devices, self._target = devices, s
        self._entered: list[Any] = []

    def __enter__(self) -> None:
        self._entered.append(self._devices.enter(self._target))

    def __exit__(self, *exception: object) -> None:
        self._devices.leave(self._entered.pop(), *exception)


@functools.cache
def _memory() -> dict[str, str | int]:
    """Memory figures in bytes in the proportions that Macs report, from this machine's."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "memory_size": size,
        "max_recommended_working_set_size": size * 3 // 4,
        "max_buffer_length": size * 9 // 16,
        "resource_limit": 499_000,
    }


_Function = TypeVar("_Function", bound="Callable[..., Any]")

OnFinding = Literal["record", "raise"]


class SimulatedKernel:
    """The kernel that `mx.fast.metal_kernel` returns while a simulation is active.

    Called inside of one, it is simulated; called outside, it is the kernel that MLX made.
    """

    def __init__(self, real: Callable[..., Any], definition: CapturedDefinition) -> None:
        self._real = real
        self.definition = definition
        self.__doc__ = real.__doc__

    def __call__(self, *positional: Any, **arguments: Any) -> Any:
        """Run the kernel: arguments and result as of MLX's.

        Tracebacks of the simulator's errors end here, those of pytest with the user's call.
        """
        __tracebackhide__ = True
        settings = _active.settings()
        if settings is None:
            return self._real(*positional, **arguments)
        on_gpu = _active.with_real_stream(arguments)
        try:
            return launch(self._real, self.definition, settings, positional, on_gpu)
        except SimulatorError as error:
            raise error.with_traceback(None) from error.__cause__

    def __repr__(self) -> str:
        return f"<metal_kernel {self.definition.name!r} of the EmberCoach simulator>"


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
        """Return those of this thread's innermost simulation, else of the process's newest."""
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
        """Return the arguments with a stream that the MLX of this machine knows.

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


#: Of `mx.fast.metal_kernel`.
_SIGNATURE = inspect.Signature(
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


def defined(
    positional: Sequence[Any], arguments: Mapping[str, Any]
) -> tuple[CapturedDefinition, bool]:
    """Return the definition of a kernel, from arguments that MLX has checked.

    Returns:
        It, and whether MLX copies inputs that are not row-contiguous.
    """
    given = _SIGNATURE.bind(*positional, **arguments)
    given.apply_defaults()
    values = given.arguments
    definition = CapturedDefinition(
        name=values["name"],
        input_names=tuple(values["input_names"]),
        output_names=tuple(values["output_names"]),
        body=values["source"],
        header=values["header"],
        defined_at=calling_place(),
    )
    return definition, bool(values["ensure_row_contiguous"])


@functools.cache
def _metal_kernel(real: Callable[..., Any]) -> Callable[..., Any]:
    """Return the replacement of `mx.fast.metal_kernel`: one permanent function, usable as a key."""

    @functools.wraps(real, assigned=("__doc__",))
    def metal_kernel(*positional: Any, **arguments: Any) -> SimulatedKernel:
        made = real(*positional, **arguments)  # MLX checks the arguments
        definition, _ = defined(positional, arguments)
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
    """A simulation in effect, which can be entered, any number of times, or decorate functions.

    Attributes:
        recorder: that of the simulation that began last.
    """

    def __init__(self, make: Callable[[], LaunchSettings]) -> None:
        self._make = make
        self._entered: list[object] = []
        self._begun = False
        self.recorder = self.__enter__()
        self._begun = True  # the next context takes this simulation

    def __enter__(self) -> Recorder:
        if self._begun:
            self._begun = False
            return self.recorder
        settings = self._make()
        key = object()
        _active.enter(key, settings)
        self._entered.append(key)
        self.recorder = settings.recorder
        return self.recorder

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        _active.leave(self._entered.pop())
        if is_missing_metal(error):
            raise SimulatorError(
                "the kernel was built before the simulator was activated, so MLX tried to run it "
                "on Metal. Build it, or import its module, inside activate(); clear caches that "
                "hold it; and call it as mx.fast.metal_kernel, which activate() replaces"
            ) from error

    def __call__(self, function: _Function) -> _Function:
        """Decorate: each call of the function is a separate simulation."""
        if self._begun:
            self._begun = False
            _active.leave(self._entered.pop())

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
    """Simulate every `mx.fast.metal_kernel` kernel that is built and called from now on.

    Used as a context, the simulation ends with that.

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
        The simulation: a context manager, and a decorator of functions, whose calls are simulated
            alone. Entering it gives its `recorder`.

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
            keeps_refusals=machine is None,  # others report them
        )

    return Activation(settings)


def _host(toolchain: Toolchain | None) -> KernelRunner:
    from embercoach.simulator.child_process import host

    return host(toolchain)
