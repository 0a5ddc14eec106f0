"""Constants that calls of functions pass: for the texts of kernels, and dtypes by default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.binding import bind
from embercoach.analysis.calls.kernel_objects import holds_kernel
from embercoach.analysis.calls.parameters import (
    closure_of,
    default_value,
    parameter_value,
    plain,
    quiet_default,
)
from embercoach.analysis.dataflow.scopes import is_rebound
from embercoach.analysis.values.lattice import (
    NONE,
    UNKNOWN,
    Dict,
    DType,
    Number,
    Sequence,
    Str,
    Value,
    options,
)
from embercoach.analysis.values.strings import has_unknown

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo, FunctionParameter
    from embercoach.analysis.evaluate.frame import Frame
    from embercoach.analysis.values.facts import Argument


def may_make_text(frame: Frame, info: FunctionInfo, annotated: Value) -> bool:
    """Return whether a value annotated as a string may be the text of a kernel."""
    if not (info.module.mentions_kernels or frame.module.mentions_kernels):
        return False
    return has_unknown(annotated)


def matter(frame: Frame, info: FunctionInfo, result: Value) -> bool:
    """Return whether the constants of a call may show more of a kernel or of its text."""
    if not (info.module.mentions_kernels or frame.module.mentions_kernels):
        return False
    return holds_kernel(result) or any(map(has_unknown, options(result)))


def with_default_dtypes(
    info: FunctionInfo, given: dict[str, Value], arguments: tuple[Argument, ...]
) -> dict[str, Value]:
    """Return the values of parameters in a call, with the dtypes that others have by default."""
    defaults = {p.name: p.default for p in info.parameters if type(p.default) is cst.Attribute}
    if not defaults or any(argument.star for argument in arguments):
        return given
    values = {n: quiet_default(info, node) for n, node in defaults.items() if n not in given}
    return {**given, **{n: value for n, value in values.items() if type(value) is DType}}


def closure_at(frame: Frame, info: FunctionInfo) -> Frame | None:
    """Return the frame that a function's free names are looked up in, for a call made in ``frame``.

    None for an inner function that is called from elsewhere: what its closure holds is then known
    for no call in particular.
    """
    if info.outer is None:
        return closure_of(info)
    here: Frame | None = frame
    while here is not None:
        if here.info is info.outer:
            return here
        here = here.outer
    return None


def given(info: FunctionInfo, values: dict[str, Value]) -> tuple[Value, ...]:
    """Return the values of the parameters in a call, constants included."""
    return tuple(
        _given(info, parameter, values.get(parameter.name)) for parameter in info.parameters
    )


def _given(info: FunctionInfo, parameter: FunctionParameter, value: Value | None) -> Value:
    known = _or_default(info, parameter, value)
    if parameter.star == "**" and type(known) is Dict and known.exact:
        items = tuple((key, _constant(item) or plain(item)) for key, item in known.known)
        return Dict(plain(known.item), items, exact=True)
    exact = None if known is None else _constant(known)
    return plain(parameter_value(info, parameter, value)) if exact is None else exact


def _or_default(
    info: FunctionInfo, parameter: FunctionParameter, value: Value | None
) -> Value | None:
    if value is not None or parameter.default is None or parameter.star:
        return value
    return default_value(info, parameter.default)


def of_parameter(
    info: FunctionInfo, parameter: FunctionParameter, value: Value | None
) -> Value | None:
    """Return the constant that a call passes for a parameter, or that is its default."""
    known = _or_default(info, parameter, value)
    return None if known is None else _constant(known)


def flag_of_parameter(
    info: FunctionInfo, parameter: FunctionParameter, value: Value | None
) -> Value | None:
    """The text, truth value or None that a call passes for a parameter, or that is its default."""
    known = of_parameter(info, parameter, value)
    is_bool = type(known) is Number and known.kind == "bool"
    return known if is_bool or known is NONE or type(known) is Str else None


def _constant(value: Value) -> Value | None:
    """Return a value that is wholly known, None if it is not."""
    if value is NONE or type(value) is DType:
        return value
    if type(value) is Number:
        return None if value.const is None else Number(value.kind, value.const)
    if type(value) is Str:
        return None if value.text is None else value
    if type(value) is Sequence and value.items is not None:
        items = [_constant(item) for item in value.items]
        known = tuple(item for item in items if item is not None)
        return Sequence(value.kind, None, known) if len(known) == len(items) else None
    if type(value) is Dict and (value.known or value.exact):
        pairs = [(key, _constant(item)) for key, item in value.known]
        common = _constant(value.item) or plain(value.item)
        known_pairs = tuple((key, item) for key, item in pairs if item is not None)
        all_known = len(known_pairs) == len(pairs)
        return Dict(common, known_pairs, value.exact) if all_known else None
    return None


def constants_passed(
    info: FunctionInfo, arguments: tuple[Argument, ...]
) -> Iterator[tuple[str, Value]]:
    """Yield the parameters that hold a constant in a call and are not bound again."""
    if any(argument.star for argument in arguments):
        return
    values = bind(info, UNKNOWN if info.is_method else None, arguments)
    for parameter in info.parameters:
        known = of_parameter(info, parameter, values.get(parameter.name))
        if known is not None and not is_rebound(info.module, info, parameter.name):
            yield parameter.name, known
