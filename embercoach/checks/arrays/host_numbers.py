"""HOST-PULL-009, 010, 012 and INDEX-007: arrays in place of Python ints and of keys."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.dataflow.contexts import context_of, error_of
from embercoach.analysis.dataflow.layout import assigned_to
from embercoach.analysis.project.module import Module
from embercoach.analysis.values.facts import (
    Argument,
    CallFact,
    CompareFact,
    Fact,
    FactPlace,
    IndexFact,
)
from embercoach.analysis.values.lattice import (
    BoundMember,
    Dict,
    Kernel,
    Sequence,
    Str,
    Value,
    as_array,
    definite_array,
    options,
)
from embercoach.analysis.values.promotion import FLOATING
from embercoach.checks.registry import VALUE, Report, check


@check("HOST-PULL-009", "HOST-PULL-012", of=("builtins.range", "mlx.", "."))
def array_as_int(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.zeros((n,))``, ``x.reshape(n, -1)``, ``range(n)`` with an array ``n``."""
    name = fact.symbol
    callee = fact.callee
    if name == "builtins.range":
        for argument in fact.arguments:
            if as_array(argument.value) is not None:
                yield _int_report(fact, module, argument, "`range()`")
        return
    shown = f"`mx.{name.removeprefix('mlx.core.')}()`" if name else f"`.{callee.name}()`"  # type: ignore[attr-defined]
    for param, argument in fact.matched:
        if name == "mlx.core.arange" and as_array(argument.value) is not None:
            yield Report.at(
                fact,
                "HOST-PULL-012",
                node=argument.node,
                message="`mx.arange()` raises a TypeError on an mx.array",
                help="Pass a Python number, such as one from `.shape`",
                context=error_of(fact.place, argument.value) or context_of(fact.place, module),
                subject=argument.node,
            )
        elif param.takes_only_ints and _holds_array_int(argument.value):
            yield _int_report(fact, module, argument, shown)


def _holds_array_int(value: Value) -> bool:
    if as_array(value) is not None:
        return True
    return (
        isinstance(value, Sequence)
        and value.kind in ("tuple", "list")
        and value.items is not None
        and any(as_array(i) is not None for i in value.items)
    )


def _int_report(fact: Fact, module: Module, argument: Argument, shown: str) -> Report:
    value, array = argument.value, argument.node
    if isinstance(value, Sequence) and value.items is not None:
        items = value.items
        index, value = next((n, v) for n, v in enumerate(items) if as_array(v) is not None)
        if isinstance(array, (cst.List, cst.Tuple)) and len(array.elements) == len(items):
            array = array.elements[index].value
    return Report.at(
        fact,
        "HOST-PULL-009",
        node=argument.node,
        message=f"{shown} needs an int, got an mx.array",
        help="Keep sizes, axes and counts as Python ints, such as those of `.shape`",
        context=error_of(fact.place, value, argument.node) or context_of(fact.place, module),
        subject=array,
    )


@check("HOST-PULL-009", "HOST-PULL-012")
def array_index(fact: IndexFact, module: Module) -> Iterator[Report]:
    """``names[i]``, ``names[:n]`` and ``x[:n]`` with arrays ``i`` and ``n``."""
    if fact.form == "slice" and as_array(fact.base) is not None:
        yield Report.at(
            fact,
            "HOST-PULL-012",
            message="mx.array as a slice bound raises a ValueError",
            help="Use a Python int, or mx.slice or mx.take with the array",
            context=error_of(fact.place, fact.index) or context_of(fact.place, module),
            subject=fact.node,
        )
    elif all(isinstance(o, (Sequence, Str)) for o in options(fact.base)):
        yield Report.at(
            fact,
            "HOST-PULL-009",
            message="sequence index must be an int, got an mx.array",
            help="Index with a Python int, or stack the items into one mx.array for mx.take",
            context=error_of(fact.place, fact.index, fact.node) or context_of(fact.place, module),
            subject=fact.node,
        )


@check("HOST-PULL-010", of=(VALUE,))
def array_grid(fact: CallFact, module: Module) -> Iterator[Report]:
    """Yield a kernel's ``grid`` or ``threadgroup`` that holds arrays."""
    if not isinstance(fact.callee, Kernel):
        return
    for name in ("grid", "threadgroup"):
        argument = fact.keyword(name)
        if argument is None or not isinstance(argument.value, Sequence):
            continue
        for item in argument.value.items or ():
            array = as_array(item)
            if array is not None and array.dtype not in FLOATING:
                yield Report.at(
                    fact,
                    node=argument.node,
                    message=f"`{name}` entries must be ints, got an mx.array",
                    help=f"Compute `{name}` from `.shape`, as three Python ints",
                    context=error_of(fact.place, item, argument.node)
                    or context_of(fact.place, module),
                )
                break


_COLLECTIONS = ("builtins.set", "builtins.frozenset", "collections.Counter")
_METHODS = tuple(f".{name}" for name in ("get", "setdefault", "pop", "add", "discard", "remove"))


@check("INDEX-007")
def array_key(fact: IndexFact, module: Module) -> Iterator[Report]:
    """``names[token]``, ``counts[token] = 1``."""
    if fact.form == "index" and _is_hashed(fact.base, "dict"):
        is_read = not _is_target(fact.place.statement, fact.node)
        yield from _report(fact, fact.node, fact.index, is_read=is_read)


@check("INDEX-007")
def hashed_member(fact: CompareFact, module: Module) -> Iterator[Report]:
    """``token in seen``."""
    if fact.operator in ("in", "not in") and _is_hashed(fact.right.value, "dict", "set"):
        yield from _report(fact, fact.left.node, fact.left.value, is_read=True)


@check("INDEX-007", of=_METHODS)
def hashed_argument(fact: CallFact, module: Module) -> Iterator[Report]:
    """``names.get(token)``, ``seen.add(token)``."""
    owner = fact.callee.owner if isinstance(fact.callee, BoundMember) else None
    key = fact.positional(0)
    if owner is None or key is None or not isinstance(fact.callee, BoundMember):
        return
    is_added = fact.callee.name == "add"
    if _is_hashed(owner, "set" if is_added else "dict", "set"):
        yield from _report(fact, key.node, key.value, is_read=not is_added)


@check("INDEX-007", of=_COLLECTIONS)
def counted_array(fact: CallFact, module: Module) -> Iterator[Report]:
    """``set(tokens)``, ``Counter(tokens)``."""
    first = fact.positional(0)
    if first is not None and definite_array(first.value) is not None:
        yield from _report(fact, first.node, first.value, is_read=True)


def _is_hashed(value: Value, *kinds: str) -> bool:
    """Return whether a value is certainly a dictionary or a set."""
    for option in options(value):
        if isinstance(option, Dict):
            found = "dict"
        elif isinstance(option, Sequence):
            found = option.kind
        else:
            return False
        if found not in kinds:
            return False
    return True


def _report(
    fact: Fact, node: cst.BaseExpression, value: Value, *, is_read: bool
) -> Iterator[Report]:
    """Report an array; one that is stored under its name may be looked up by this very object."""
    if definite_array(value) is None or not (is_read or _is_fresh(node, fact.place)):
        return
    yield Report.at(
        fact,
        "INDEX-007",
        node=node,
        message="mx.array as a key: hashed by identity, an equal one is never found",
        help="Use Python numbers as keys: `x.tolist()` once, or `x.item()`",
        subject=node,
    )


def _is_fresh(node: cst.BaseExpression, place: FactPlace) -> bool:
    """Return whether an expression is a new object each time that it is evaluated."""
    return not isinstance(node, (cst.Name, cst.Attribute)) or (
        isinstance(node, cst.Name) and node.value in place.array_names
    )


def _is_target(statement: cst.CSTNode, node: cst.BaseExpression) -> bool:
    """Return whether an item under a key is assigned."""
    targets = (t for t in assigned_to(statement) if isinstance(t, cst.Subscript))
    indices = (element.slice for target in targets for element in target.slice)
    return any(isinstance(index, cst.Index) and index.value is node for index in indices)
