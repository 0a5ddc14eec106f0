"""Calls of wrappers of ``mx.fast.metal_kernel`` that the settings declare: the kernels they make.

The object that such a call gives is launched by code that inference does not follow, so that its
kernels have texts and names, and no launches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

import libcst as cst

from embercoach.analysis.calls import kernel_objects
from embercoach.analysis.calls.parameters import closure_of
from embercoach.analysis.calls.signatures import annotation_kind
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.evaluate.members import member
from embercoach.analysis.values.facts import Argument
from embercoach.analysis.values.inheritance import find_method, lineage
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    Class,
    Function,
    ModuleRef,
    Number,
    Piece,
    Sequence,
    Str,
    Symbol,
    Value,
    Wrapped,
    join_all,
)
from embercoach.kernel_builder import PARAMETERS, Fixed, KernelBuilder, Origin

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.project.module import Module


NAMES = ("input_names", "output_names")


class Built(NamedTuple):
    """A call of a wrapper: what ``metal_kernel`` gets of it, and what the call gives."""

    arguments: tuple[Argument, ...]
    result: Value


class _Parameter(NamedTuple):
    """A parameter of a wrapper; ``place`` is None if it has none, as it takes a keyword only."""

    name: str
    place: int | None
    default: cst.BaseExpression | None
    frame: Frame


def built(
    frame: Frame, node: cst.Call, callee: Value, arguments: tuple[Argument, ...], result: Value
) -> Built | None:
    """Return what a call builds, None if no wrapper is called. ``result`` is the call's value."""
    builder = _builder_of(frame.module, callee)
    if builder is None:
        return None
    call = _Call(node, arguments, _parameters(callee))
    given = tuple(call.argument(parameter, builder.origin(parameter)) for parameter in PARAMETERS)
    made = kernel_objects.define(frame, node, given)
    return Built(
        given, join_all(Wrapped(result, kernel) for kernel in kernel_objects.kernels_in(made))
    )


# Which wrapper is called


def _builder_of(module: Module, callee: Value) -> KernelBuilder | None:
    if type(callee) is Symbol:
        return next((b for b in module.builders if b.symbol == callee.name), None)
    if type(callee) is not Class and type(callee) is not Function:
        return None
    return next((b for b in module.builders if _is_named(module, b.symbol, callee)), None)


def _is_named(module: Module, symbol: str, callee: Class | Function) -> bool:
    named = module.wrappers.get(symbol)
    if named is None:
        named = _named(module, symbol)
        if named is UNKNOWN:
            return False  # its module may be importing this one, and know it later
        module.wrappers[symbol] = named
    # A file that is checked and imported is two modules, so that places are compared.
    return type(named) is type(callee) and _place(named.info) == _place(callee.info)


def _place(info: ClassInfo | FunctionInfo) -> tuple[object, str]:
    name = getattr(info, "qualified_name", info.name)
    return info.module.path, name


def _named(module: Module, symbol: str) -> Value:
    """Resolve a dotted name: the longest part that is a module holds the rest."""
    words = symbol.split(".")
    for length in range(len(words) - 1, 0, -1):
        name = ".".join(words[:length])
        owner = module.import_module(name, 0)
        if owner is None:
            path = module.project.resolve(module.path, name, 0, module.dependencies)
            owner = module if path == module.path else None
        if owner is None:
            continue
        value: Value = ModuleRef(owner)
        for word in words[length:]:
            value = member(module.frame, value, word)
        return value
    return UNKNOWN


# What its parameters are given


class _Call:
    """The arguments of a call by the wrapper's parameters."""

    def __init__(
        self,
        node: cst.Call,
        arguments: tuple[Argument, ...],
        parameters: tuple[_Parameter, ...] | None,
    ) -> None:
        self._node = node
        self._parameters = parameters
        self._keywords = {a.keyword: a for a in arguments if a.keyword is not None}
        self._positional: list[Argument] = []
        self._more_positional = False
        for argument in arguments:
            if argument.star == "*":
                self._more_positional = True
            elif argument.keyword is None and not argument.star and not self._more_positional:
                self._positional.append(argument)
        self._has_spread = any(argument.star for argument in arguments)

    def argument(self, parameter: str, origin: Origin | None) -> Argument:
        """Return the argument for ``metal_kernel``, with its expression, or else the call."""
        value, node = self._given(origin)
        if type(value) is Str and parameter in NAMES:
            value = UNKNOWN  # metal_kernel would raise, so the wrapper makes a list of it
        return Argument(value, node, parameter, "")

    def _given(self, origin: Origin | None) -> tuple[Value, cst.BaseExpression]:
        if isinstance(origin, Fixed):
            return _constant(origin.value), self._node
        if origin is None:
            return UNKNOWN, self._node
        parameter = self._parameter(origin)
        if parameter is None:
            name, place = (origin, None) if isinstance(origin, str) else (None, origin)
        else:
            name, place = parameter.name, parameter.place
        found = None if name is None else self._keywords.get(name)
        if found is None and place is not None and place < len(self._positional):
            found = self._positional[place]
        if found is not None:
            return found.value, found.node
        if parameter is None or parameter.default is None or self._has_spread:
            return UNKNOWN, self._node
        return evaluate(parameter.frame, parameter.default), self._node

    def _parameter(self, origin: str | int) -> _Parameter | None:
        for parameter in self._parameters or ():
            if origin == (parameter.name if isinstance(origin, str) else parameter.place):
                return parameter
        return None


def _constant(value: str | bool | tuple[str, ...]) -> Value:
    if isinstance(value, bool):
        return Number("bool", value)
    if isinstance(value, str):
        return Str((Piece(value),))
    return Sequence("tuple", None, tuple(map(_constant, value)))


def _parameters(callee: Value) -> tuple[_Parameter, ...] | None:
    """Return the parameters of a wrapper in their order, None where they are not to be seen."""
    if isinstance(callee, Function):
        return _of_function(callee.info, bound=callee.bound is not None)
    if not isinstance(callee, Class):
        return None
    init = find_method(callee.info, "__init__")
    if init is not None:
        return _of_function(init, bound=True)
    found: dict[str, _Parameter] = {}
    for cls in reversed(tuple(lineage(callee.info))):
        for field in _fields(cls, len(found)):
            known = found.get(field.name)
            found[field.name] = field if known is None else field._replace(place=known.place)
    return tuple(found.values())


def _of_function(info: FunctionInfo, *, bound: bool) -> tuple[_Parameter, ...]:
    frame = Frame(info.module, None, closure_of(info), record=False)
    plain = [p for p in info.parameters if not p.star][1 if bound else 0 :]
    return tuple(
        _Parameter(p.name, None if p.keyword_only else place, p.default, frame)
        for place, p in enumerate(plain)
    )


def _fields(cls: ClassInfo, before: int) -> Iterator[_Parameter]:
    """Yield the fields of a data class that its call takes, in their order."""
    frame = Frame(cls.module, None, cls.frame or cls.module.frame, record=False)
    keywords_only = _is_set(_decorator(cls), "kw_only", "True")
    place = before
    for statement in cls.node.body.body:
        for line in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            if not isinstance(line, cst.AnnAssign) or not isinstance(line.target, cst.Name):
                continue
            kind = annotation_kind(line.annotation.annotation)
            if kind == "KW_ONLY":
                keywords_only = True
            described = line.value if isinstance(line.value, cst.Call) else None
            if kind in ("KW_ONLY", "ClassVar") or _is_set(described, "init", "False"):
                continue
            default = line.value if described is None else _keyword(described, "default")
            only = keywords_only or _is_set(described, "kw_only", "True")
            yield _Parameter(line.target.value, None if only else place, default, frame)
            place += not only


def _decorator(cls: ClassInfo) -> cst.Call | None:
    calls = (d.decorator for d in cls.node.decorators)
    return next((call for call in calls if isinstance(call, cst.Call)), None)


def _keyword(call: cst.Call | None, name: str) -> cst.BaseExpression | None:
    for argument in call.args if call is not None else ():
        if argument.keyword is not None and argument.keyword.value == name:
            return argument.value
    return None


def _is_set(call: cst.Call | None, name: str, flag: Literal["True", "False"]) -> bool:
    value = _keyword(call, name)
    return isinstance(value, cst.Name) and value.value == flag
