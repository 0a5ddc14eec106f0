"""UNUSED-001: arrays that are computed and never used, while the code goes on with an older one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.layout import Layout, layout_of, reads_of
from embercoach.analysis.dataflow.lazy_evaluation import METADATA
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.dataflow.reaching import Binding, Reaching, last_name
from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.dataflow.value_sources import Source, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import SCOPES
from embercoach.analysis.values.facts import BinaryFact, CallFact, calls_of
from embercoach.analysis.values.lattice import Array, Instance, LibraryObject
from embercoach.analysis.values.memo import kept_for_file
from embercoach.checks.registry import Report, check

#: Operations whose result is not another version of the array.
_REDUCTIONS = frozenset(
    (
        *(
            *("all", "any", "argmax", "argmin", "argsort", "item", "max", "mean", "min", "norm"),
            "prod",
        ),
        *("std", "sum", "var", "zeros_like", "ones_like", "full_like", "array_equal"),
    )
)
#: Values whose calls compute with weights.
_COMPUTING = frozenset((LibraryObject, Instance))
#: Characters of a name that a message quotes.
_LONGEST = 30


class _Body(NamedTuple):
    """A function, with what is asked of its names."""

    function: FunctionInfo
    reaching: Reaching
    layout: Layout
    reads: dict[str, list[cst.CSTNode]]

    def readers(self, name: str) -> list[cst.CSTNode]:
        """Return the statements that read a name, or update its object."""
        bindings = self.reaching.bindings.get(name, ())
        updates = (b.statement for b in bindings if b.kind == "updated")
        return [*self.reads.get(name, ()), *updates]


@check("UNUSED-001")
def unused_array(fact: CallFact | BinaryFact, module: Module) -> Iterator[Report]:
    """``masked = mx.where(mask, 0, weights)``, and then ``x * weights``."""
    statement, function = fact.place.statement, fact.place.function
    if type(statement) is not cst.Assign or statement.value is not fact.node:
        return
    target = statement.targets[0].target if len(statement.targets) == 1 else None
    if function is None or type(target) is not cst.Name or target.value.startswith("_"):
        return
    if isinstance(fact, CallFact) and _is_call_of_target(fact):
        body = _body_of(function, module)
        for binding in _bindings(target, statement, body):
            yield from _overwritten(binding, body)
    elif _computes_array(fact) and _may_be_unused(target, statement.value, function):
        body = _body_of(function, module)
        if target.value not in _held_elsewhere(function):
            for binding in _bindings(target, statement, body):
                if _is_unused(binding, body):
                    yield from _reported(binding, body, module)


def _computes_array(fact: CallFact | BinaryFact) -> bool:
    if isinstance(fact, CallFact):
        return type(fact.result) is Array
    return fact.left.array is not None or fact.right.array is not None


def _is_call_of_target(fact: CallFact) -> bool:
    """Return whether a call is one of what the loop around it walks over."""
    func, loop = fact.node.func, fact.place.loop
    target = loop.target if isinstance(loop, cst.For) else None
    if not isinstance(func, cst.Name) or not isinstance(target, cst.Name):
        return False
    return func.value == target.value and bool(fact.node.args)


def _may_be_unused(target: cst.Name, value: cst.BaseExpression, function: FunctionInfo) -> bool:
    """Return whether no name after an assignment in the text is its target: what is rare."""
    name, words = target.value, set(target.value.lower().split("_"))
    inside = contents_of(value).reads
    if name not in inside and all(words.isdisjoint(one.lower().split("_")) for one in inside):
        return False
    contents = contents_of(function.node.body)
    named = contents.reads[name]
    last = inside[name][-1] if name in inside else target
    at = next((index for index, one in enumerate(named) if one is last), len(named))
    later = named[at + 1 :]
    return not later or all(id(one) in _keywords(function) for one in later)


@kept_for_file
def _keywords(function: FunctionInfo) -> frozenset[int]:
    """Return the names of keyword arguments in a function, by ``id``."""
    calls = contents_of(function.node.body).calls
    return frozenset(id(a.keyword) for call in calls for a in call.args if a.keyword is not None)


@kept_for_file
def _body_of(function: FunctionInfo, module: Module) -> _Body:
    reaching = scope_of(module, function).reaching
    return _Body(function, reaching, layout_of(module, function), reads_of(module, function))


def _bindings(target: cst.Name, statement: cst.CSTNode, body: _Body) -> list[Binding]:
    """Return the binding of a name that a statement makes."""
    found = body.reaching.bindings.get(target.value, ())
    return [b for b in found if b.kind == "assigned" and b.statement is statement]


@kept_for_file
def _held_elsewhere(function: FunctionInfo) -> frozenset[str]:
    """Return names that other scopes read or bind, or that are deleted."""
    contents = contents_of(function.node.body)
    if "locals" in contents.names:
        return contents.names
    scopes: list[cst.CSTNode] = contents.of(*SCOPES)
    inner = [contents_of(scope) for scope in scopes]
    deleted = (name for node in contents.of(cst.Del) for name in contents_of(node).names)
    outer = (*function.nonlocal_names, *function.global_names)
    return frozenset((*outer, *deleted, *(name for scope in inner for name in scope.names)))


def _is_unused(binding: Binding, body: _Body) -> bool:
    """Return whether no statement that reads the name may see what a binding assigns."""
    for reader in body.readers(binding.name):
        held = body.reaching.before(reader, binding.name)
        if held is None or binding in held:
            return False
    return True


def _reported(binding: Binding, body: _Body, module: Module) -> Iterator[Report]:
    assert binding.value is not None
    name = binding.name
    if name in _data_names(binding.value):
        if not _is_of_data(binding, body, module):
            return
        node = _given_instead(binding, body)
        binding.statement if node is None else _statement_of(node, body)
        stop = Stop(binding.node, binding.statement, f"`{name[:_LONGEST]}` is computed")
        yield Report.in_file(
            body.function.module,
            node or binding.node,
            function=body.function,
            context=None,
            message=f"`{name[:_LONGEST]}` is updated, and nothing uses the update",
            help="Use the updated array after it, or remove the statement",
            related=() if node is None else (stop,),
        )
        return
    older = _older(binding, body)
    if older is not None:
        yield Report.in_file(
            body.function.module,
            binding.node,
            function=body.function,
            context=None,
            message=f"`{name[:_LONGEST]}` is never used: `{older[:_LONGEST]}` is used after it",
            help=f"Use `{name[:_LONGEST]}` there, or remove the statement",
        )


def _is_of_data(binding: Binding, body: _Body, module: Module) -> bool:
    """Return whether a name has held a parameter, or what a layer or a function returns.

    What is made of numbers alone is left over, and its update is as well.
    """
    calls = calls_of(module)
    pending, seen = [binding], {binding}
    while pending:
        one = pending.pop()
        if one.kind == "parameter":
            return True
        for call in () if one.value is None else contents_of(one.value).calls:
            fact = calls.get(call)
            source = Source(call, one.statement, body.function, module)
            if (fact and type(fact.callee) in _COMPUTING) or sources_of(module).callees(source):
                return True
        held = body.reaching.before(one.statement, binding.name) or ()
        new = [other for other in held if other not in seen]
        seen.update(new)
        pending += new
    return False


def _older(binding: Binding, body: _Body) -> str | None:
    """Return the older version of an array, which statements after it still use."""
    value = binding.value
    assert value is not None
    if isinstance(value, cst.Call) and last_name(value) in _REDUCTIONS:
        return None
    words = binding.name.lower().split("_")
    for name in sorted(_data_names(value) & body.reaching.bindings.keys()):
        last = name.lower().split("_")[-1]
        if name == "self" or not last or (last != words[-1] and name.lower() not in words):
            continue
        held = body.reaching.before(binding.statement, name)
        if held and any(
            reader is not binding.statement
            and body.layout.in_sequence(binding.statement, reader)
            and body.reaching.before(reader, name) == held
            for reader in body.reads.get(name, ())
        ):
            return name
    return None


def _data_names(value: cst.BaseExpression) -> set[str]:
    """Return the names of an expression but for those of which it takes the shape or the dtype."""
    contents = contents_of(value)
    return {
        name
        for name in contents.names
        if any(not _is_metadata(contents.parent_of(use)) for use in contents.uses(name))
    }


def _is_metadata(node: cst.CSTNode | None) -> bool:
    return isinstance(node, cst.Attribute) and node.attr.value in METADATA


def _given_instead(binding: Binding, body: _Body) -> cst.BaseExpression | None:
    """Return what a later call passes by the keyword of a name in place of its unused value."""
    for call in contents_of(body.function.node.body, SCOPES).calls:
        for argument in call.args:
            if argument.keyword is None or argument.keyword.value != binding.name:
                continue
            given = argument.value
            if isinstance(given, cst.Name) and given.value.endswith(f"_{binding.name}"):
                statement = _statement_of(call, body)
                if body.layout.in_sequence(binding.statement, statement):
                    return given
    return None


def _statement_of(node: cst.CSTNode, body: _Body) -> cst.CSTNode:
    """Return the statement of a function that an expression is in."""
    return contents_of(body.function.node.body, SCOPES).statement_of(node)


def _overwritten(binding: Binding, body: _Body) -> Iterator[Report]:
    """``for layer in layers: out = layer(h)``: the last layer alone makes the result."""
    name, layout = binding.name, body.layout
    loop = next(layout.loops(binding.statement), None)
    call = binding.value
    if loop is None or not isinstance(call, cst.Call):
        return
    readers = body.readers(name)
    given = {n for argument in call.args for n in contents_of(argument.value).names}
    changed = {
        n
        for n in given
        for other in body.reaching.bindings.get(n, ())
        if layout.is_bound_in(other, loop)
    }
    leaves = contents_of(loop.body, SCOPES).of(cst.Break, cst.Return, cst.Yield)
    if changed or leaves or not readers or any(layout.is_inside(r, loop) for r in readers):
        return
    if all(binding in (body.reaching.before(reader, name) or ()) for reader in readers):
        yield Report.in_file(
            body.function.module,
            binding.node,
            function=body.function,
            context=None,
            message=f"`{name[:_LONGEST]}` is computed anew from the same arrays in each iteration",
            help=f"Pass `{name[:_LONGEST]}` to the next layer, or collect the results in a list",
        )
