"""Arguments of calls by the parameters that take them, also those that ``**`` passes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.syntax.trees import evaluated
from embercoach.analysis.values.facts import Argument
from embercoach.analysis.values.lattice import Dict, Sequence, Value, items_of, join_all

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo


def without_expressions(values: tuple[Value, ...]) -> tuple[Argument, ...]:
    """Return positional arguments that no syntax spells, as of a function that ``map`` calls."""
    placeholder = cst.Name("_")
    return tuple(Argument(value, placeholder, None, "") for value in values)


def written_out(arguments: tuple[Argument, ...]) -> Iterator[Argument]:
    """Yield the arguments of a call with the entries of known dictionaries as keyword arguments.

    An entry stands where it is written within the call, or else at the name of the dictionary.
    """
    for argument in arguments:
        value = argument.value
        if argument.star != "**" or type(value) is not Dict or not value.exact:
            yield argument
        elif _is_held_by_none_else(argument.node):
            nodes = dict(_entries(argument.node))
            for key, item in value.known:
                yield Argument(item, nodes.get(key, argument.node), key, "")
        else:
            yield argument


def _is_held_by_none_else(node: cst.BaseExpression) -> bool:
    """Return whether no attribute or list holds the dict, and might change it."""
    if isinstance(node, cst.Call):
        return isinstance(node.func, cst.Name) and node.func.value == "dict"
    return isinstance(node, (cst.Name, cst.Dict))


def _entries(node: cst.BaseExpression) -> Iterator[tuple[str, cst.BaseExpression]]:
    """Yield the entries of a dictionary that is written as such, by their keys."""
    if isinstance(node, cst.Call):
        for argument in node.args:
            if argument.keyword is not None:
                yield argument.keyword.value, argument.value
    elif isinstance(node, cst.Dict):
        for element in node.elements:
            if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString):
                key = evaluated(element.key)
                if isinstance(key, str):
                    yield key, element.value


def gathered(
    info: FunctionInfo, arguments: tuple[Argument, ...], more: list[Value], *, exact: bool
) -> Iterator[tuple[str, Value]]:
    """Yield the values that ``*args`` and ``**kw`` gather in a call, by name.

    Args:
        info: the function.
        arguments: those of the call.
        more: the values that are left of those passed by place.
        exact: whether to list just those that exist; the call passes nothing by ``*`` or ``**``.
    """
    for parameter in info.parameters:
        if parameter.star == "*":
            if exact:
                yield parameter.name, Sequence("tuple", None, tuple(more))
            elif more:
                yield parameter.name, Sequence("tuple", join_all(more))
        elif parameter.star and exact:
            names = {p.name for p in info.parameters if not p.star}
            known = {a.keyword: a.value for a in arguments if a.keyword and a.keyword not in names}
            yield parameter.name, Dict(join_all(known.values()), tuple(known.items()), exact=True)


def bind(
    info: FunctionInfo, bound: Value | None, arguments: tuple[Argument, ...]
) -> dict[str, Value]:
    """Return the value of each parameter, as far as the call shows it."""
    positional = [p.name for p in info.parameters if not p.star and not p.keyword_only]
    given = list(_positional(arguments))
    if bound is not None and positional:
        given.insert(0, bound)
    values = dict(zip(positional, given, strict=False))
    named = [a for a in arguments if a.keyword is not None]
    if named:
        names = {p.name for p in info.parameters if not p.star}
        values.update((a.keyword, a.value) for a in named if a.keyword in names)
    exact = info.module.mentions_kernels and not any(a.star for a in arguments)
    values.update(gathered(info, arguments, given[len(positional) :], exact=exact))
    return values


def _positional(arguments: tuple[Argument, ...]) -> Iterator[Value]:
    """Yield the values passed by place, as far as their places are known."""
    for argument in arguments:
        items = items_of(argument.value) if argument.star == "*" else None
        if items is not None:
            yield from items
        elif argument.star:
            return
        elif argument.keyword is None:
            yield argument.value
