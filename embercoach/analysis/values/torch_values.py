"""Values of PyTorch programs besides tensors."""

from __future__ import annotations

from dataclasses import dataclass

from embercoach.analysis.values.lattice import Str, Value


@dataclass(frozen=True, slots=True)
class TorchDevice(Value):
    """A ``torch.device`` of one of these kinds, as the program chooses."""

    kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class ShaderLibrary(Value):
    """The kernels of ``torch.mps.compile_shader(source)``, as its attributes."""

    source: Str
