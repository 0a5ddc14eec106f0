"""Devices and streams as MLX reports them on a Mac, while kernels are simulated.

An MLX without a GPU refuses `mx.gpu` wherever an operation takes a stream. So `mx.gpu` becomes a
device that calls itself the GPU and is the CPU underneath: every operation takes it, whatever
module it is in, and no operation has to be replaced.
"""

from __future__ import annotations

import functools
import os
import threading
from typing import TYPE_CHECKING, Any

import mlx.core as mx

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

#: What `mx.device_info()` says besides the memory: a common Mac, named so that nobody takes its
#: figures for a real one's.
_MODEL = {"architecture": "applegpu_g15s", "device_name": "EmberCoach simulator"}


class SimulatedGpu(mx.Device):  # type: ignore[misc, unused-ignore]  # a final class in some stubs
    """A device that is the GPU to Python and the CPU to MLX."""

    name = "gpu"

    def __init__(self) -> None:
        super().__init__(mx.cpu, 0)

    @property
    def type(self) -> mx.DeviceType:
        """As of the GPU."""
        return _real_gpu()

    def __eq__(self, other: object) -> bool:
        return other is self or (
            not isinstance(other, SimulatedGpu)
            and isinstance(other, (mx.Device, mx.DeviceType))
            and bool(other == _real_gpu())
        )

    def __hash__(self) -> int:
        return hash(_real_gpu())

    def __repr__(self) -> str:
        return "Device(gpu, 0)"


def _real_gpu() -> mx.DeviceType:
    return mx.DeviceType.gpu


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
        """Each (owner, name, value) to set while kernels are simulated."""
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
        """The device of the innermost stream context of this thread, else the default one."""
        entered = self._devices_entered()
        return entered[-1] if entered else self._default

    def set_default_device(self, device: Any) -> None:
        """Set what `default_device` answers; MLX itself goes on with the CPU."""
        self._default = self.device_of(device)

    def device_of(self, target: Any) -> mx.Device:
        """The GPU or the CPU: that of a device or a stream. A TypeError is MLX's own."""
        if isinstance(target, (mx.Device, mx.DeviceType)):
            return self.gpu if target == _real_gpu() else mx.Device(mx.cpu)
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
                return this is _real_gpu()
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

    def leave(self, context: Any, *exception: Any) -> None:
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._devices.leave(self._entered.pop(), kind, error, trace)


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
