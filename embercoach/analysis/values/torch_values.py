"""Values of PyTorch programs: tensors, devices and libraries of kernels."""

from __future__ import annotations

from dataclasses import dataclass

from embercoach.analysis.values.lattice import NoneValue, Str, Union, Value


@dataclass(frozen=True, slots=True)
class Torch(Value):
    """A torch tensor, or what else may be on a device: a module, a batch, a module's result."""

    devices: frozenset[str] = frozenset()  # kinds, of which the program chooses; empty if unknown
    dtype: str | None = None  # by torch's name
    is_tensor: bool = True


@dataclass(frozen=True, slots=True)
class TorchDevice(Value):
    """A ``torch.device`` of one of these kinds, as the program chooses."""

    kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class ShaderLibrary(Value):
    """The kernels of ``torch.mps.compile_shader(source)``, as its attributes."""

    source: Str


#: A torch value of which nothing is known.
TORCH = Torch()
#: The device of tensors that no one has moved.
HOST = frozenset(("cpu",))


def merge_tensors(a: Torch, b: Torch) -> Torch:
    """A tensor that one path leaves on the host, and another one moves, is of unknown device."""
    devices = a.devices | b.devices
    if (
        not a.devices
        or not b.devices
        or (a.devices != b.devices and HOST in (a.devices, b.devices))
    ):
        devices = frozenset()
    dtype = a.dtype if a.dtype == b.dtype else None
    return Torch(devices, dtype, a.is_tensor and b.is_tensor)


def as_tensor(value: Value) -> Torch | None:
    """The torch tensor that a value is, or None for what may be anything else but ``None``."""
    if type(value) is Torch:
        return value
    if type(value) is Union and len(value.options) == 2:
        found = [option for option in value.options if type(option) is Torch]
        if found and any(type(option) is NoneValue for option in value.options):
            return found[0]
    return None
