"""Which calls are recorded for the checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.calls import kernel_objects, library_calls
from embercoach.analysis.values.joins import as_array, holds_arrays, pulls_of
from embercoach.analysis.values.lattice import (
    BoundMember,
    Function,
    Kernel,
    LibraryObject,
    Sequence,
    Str,
    Symbol,
    Torch,
    Transformed,
    Union,
    Unknown,
    Value,
)
from embercoach.analysis.values.torch_values import ShaderLibrary

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import Argument


def builds(callee: Value, result: Value) -> bool:
    """Return whether a function of the project builds kernels, or compiles what it returns.

    ``return step`` and ``return step, state``, where ``mx.compile`` made ``step``.
    """
    if type(callee) is not Function:
        return False
    if kernel_objects.holds_kernel(result):
        return True
    items = result.items or () if type(result) is Sequence else (result,)
    return any(type(item) is Transformed and item.transform == "compile" for item in items)


def matters(callee: Value, arguments: tuple[Argument, ...]) -> bool:
    """Return whether checks may ask for the call."""
    kind = type(callee)
    if kind is Symbol:
        name = callee.name  # type: ignore[attr-defined]
        if name.startswith(("mlx.", "torch.")) or name in library_calls.HOST_STATE:
            return True
    elif kind is BoundMember:
        owner = callee.owner  # type: ignore[attr-defined]
        if as_array(owner) is not None or type(owner) in (Torch, ShaderLibrary):
            return True
        appends = callee.name == "append" and type(owner) is Sequence  # type: ignore[attr-defined]
        if type(owner) is not Str and type(owner) is not LibraryObject and not appends:
            return False
    elif kind is Kernel or kind is LibraryObject or kind is Transformed:
        return True
    elif kind is Union:
        return any(matters(o, arguments) for o in callee.options)  # type: ignore[attr-defined]
    elif kind is not Unknown:
        return False
    return any(
        holds_arrays(a.value) or pulls_of(a.value) or type(a.value) is Torch for a in arguments
    )
