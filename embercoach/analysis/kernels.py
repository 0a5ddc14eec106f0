"""Kernels as values: what ``mx.fast.metal_kernel`` builds, and which values hold one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.facts import Argument, CallFact
from embercoach.analysis.lattice import options
from embercoach.analysis.values import UNKNOWN, Dict, Kernel, Sequence, Symbol, Union, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from embercoach.analysis.frame import Frame

METAL_KERNEL = "mlx.core.fast.metal_kernel"


def define(frame: Frame, node: cst.Call, arguments: tuple[Argument, ...]) -> Value:
    """The kernel of a ``metal_kernel(...)``, the same value each time that it is built alike."""
    known = frame.module.kernels.setdefault(node, [])
    for definition in known:
        if definition.arguments == arguments:
            return Kernel(definition)
    definition = CallFact(node, frame.place(), Symbol(METAL_KERNEL), arguments, UNKNOWN)
    known.append(definition)
    return Kernel(definition)


def kernels_in(value: Value) -> Iterator[Kernel]:
    """The kernels that a value may be."""
    for option in options(value):
        if isinstance(option, Kernel):
            yield option


def kernels_held(value: Value, depth: int = 2) -> Iterator[Kernel]:
    """The kernels that a value may be, or holds in lists and dictionaries."""
    kind = type(value)
    if kind is Kernel:
        yield value  # type: ignore[misc]
    elif kind is Union:
        for option in value.options:  # type: ignore[attr-defined]
            yield from kernels_held(option, depth)
    elif depth and isinstance(value, Sequence):
        for item in value.items if value.items is not None else (value.item,):
            yield from kernels_held(item, depth - 1)
    elif depth and isinstance(value, Dict):
        for item in (value.item, *(v for _, v in value.known)):
            yield from kernels_held(item, depth - 1)


def holds_kernel(value: Value) -> bool:
    """Whether a value may be a kernel, or holds some."""
    return any(True for _ in kernels_held(value))
