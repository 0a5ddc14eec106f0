"""Which calls are recorded for the checks, and what they call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.calls import kernel_objects, library_calls
from embercoach.analysis.facts.facts import LocalCall, ProjectCall
from embercoach.analysis.values.inheritance import find_method
from embercoach.analysis.values.joins import as_array, holds_arrays, options, pulls_of
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    ArrayAt,
    BoundMember,
    Class,
    Function,
    Instance,
    Kernel,
    LibraryObject,
    Number,
    Sequence,
    Str,
    Symbol,
    Transformed,
    Union,
    Unknown,
    Value,
)
from embercoach.analysis.values.torch_values import ShaderLibrary, Torch

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.evaluate.frame import Frame
    from embercoach.analysis.facts.facts import Argument


def builds(callee: Value, result: Value) -> bool:
    """Return whether it is the call of a function of the project that builds kernels."""
    return type(callee) is Function and kernel_objects.holds_kernel(result)


def constructs(frame: Frame, arguments: tuple[Argument, ...]) -> bool:
    """Test for ``norm_layer(dim)``: ``norm_layer: nn.Module`` often means the class itself."""
    if frame.info is not None and frame.info.name == "__init__":
        return True
    values = [o for a in arguments for o in options(a.value)]
    return bool(values) and all(isinstance(v, (Number, Str)) for v in values)


def makes_compiled(callee: Value, result: Value) -> bool:
    """Return whether a function is called that returns what ``mx.compile`` made, by itself or not.

    ``return step`` and ``return step, state``.
    """
    if type(callee) is not Function:
        return False
    items = result.items or () if type(result) is Sequence else (result,)
    return any(type(item) is Transformed and item.transform == "compile" for item in items)


def matters(callee: Value, arguments: tuple[Argument, ...]) -> bool:
    """Return whether checks may ask for the call."""
    kind = type(callee)
    if kind is Symbol:
        name = callee.name  # type: ignore[attr-defined]
        if name.startswith(("mlx.", "torch.")) or name in library_calls.HOST_STATE:
            return True
        if name == "functools.partial" and arguments:
            return type(arguments[0].value) is Symbol
    elif kind is BoundMember:
        owner = callee.owner  # type: ignore[attr-defined]
        if as_array(owner) is not None or type(owner) in (Torch, ShaderLibrary, ArrayAt):
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


#: Values whose calls run functions of the project.
_CALLABLE = frozenset((Function, Instance, Class, Union))


def record_calls(
    frame: Frame, node: cst.Call, callee: Value, arguments: tuple[Argument, ...]
) -> None:
    """Record a call of functions of the project."""
    if not frame.record or type(callee) not in _CALLABLE:
        return
    is_certain = type(callee) is not Union
    for option in () if UNKNOWN in options(callee) else options(callee):
        info, is_bound = None, True
        if type(option) is Function:
            info, is_bound = option.info, option.bound is not None
        elif type(option) is Instance or type(option) is Class:
            name = "__call__" if type(option) is Instance else "__init__"
            info = find_method(option.info, name)
        if info is None:
            continue
        if is_certain and info.module is frame.module:
            frame.add(LocalCall(node, frame.place(), info, is_bound))
        else:
            frame.add(ProjectCall(node, frame.place(), info, is_bound, arguments))
