"""INDEX-004: in-place updates of arrays that names, lists and attributes still hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.layout import assigned_to, is_read_later, layout_of, reads_of
from embercoach.analysis.dataflow.reaching import Binding, without_updates
from embercoach.analysis.dataflow.scopes import assignments_of, resolved, scope_of
from embercoach.analysis.dataflow.value_sources import returned_by
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import (
    BinaryFact,
    Fact,
    ItemStoreFact,
    LocalCall,
    calls_by_function,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import MOST_CALLERS, MOST_STEPS
from embercoach.checks.arrays.argument_changes import attribute_reads, updated_array
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import quoted

#: Characters of a name that a message quotes.
LONGEST = 20
HELP = "Use `x = x + v`, or copy it first: `mx.array(x)`"
KEPT_HELP = "Use `x = x + v`, or keep a copy: `mx.array(x)`"


class _Keep(NamedTuple):
    """A statement that keeps an array in a list, an attribute or a name."""

    holder: str
    statement: cst.CSTNode
    function: FunctionInfo


def kept(fact: Fact, node: cst.BaseExpression, module: Module) -> Iterator[Report]:
    """Report an update of an array that a list or an attribute keeps.

    ``history.append(x)``, then ``x += v``; ``self.best = self.w``, then ``self.w[0] = v``.
    """
    function, path = fact.place.function, dotted(node)
    if function is None or path is None or isinstance(function.node, cst.Lambda):
        return
    found = _holder_of_name if isinstance(node, cst.Name) else _holder_of_attribute
    holder = found(fact, path, function, module)
    if holder is not None:
        shown = quoted(holder, LONGEST)
        yield Report.at(
            fact,
            message=f"in-place update also changes `{shown}`, which keeps this array",
            help=KEPT_HELP,
            subject=node,
        )


def _holder_of_name(fact: Fact, name: str, function: FunctionInfo, module: Module) -> str | None:
    """Return the list or attribute that keeps the array of a name at an update."""
    reaching, layout = scope_of(module, function).reaching, layout_of(module, function)
    statement = fact.place.statement
    held = without_updates(reaching.before(statement, name))
    if len(held) != 1:
        return None
    for keep in _keeps_in(function).get(name, ()):
        if keep.statement is statement or keep.holder == name:
            continue
        if without_updates(reaching.before(keep.statement, name)) != held:
            continue
        shared = [
            loop for loop in layout.loops(statement) if layout.is_inside(keep.statement, loop)
        ]
        again = shared and not any(layout.is_inside(b.statement, shared[-1]) for b in held)
        follows = again or layout.in_sequence(keep.statement, statement)
        if follows and _is_read(keep, function, module):
            return keep.holder
    return None


def _is_read(keep: _Keep, function: FunctionInfo, module: Module) -> bool:
    """Return whether what keeps an array is read, other than to keep more."""
    if "." in keep.holder:
        return True
    kept = {id(k.statement) for keeps in _keeps_in(function).values() for k in keeps}
    return any(id(reader) not in kept for reader in reads_of(module, function).get(keep.holder, ()))


def _holder_of_attribute(
    fact: Fact, path: str, function: FunctionInfo, module: Module
) -> str | None:
    """Return the name, attribute or list that keeps the array of ``self.<name>`` at an update."""
    cls = function.cls
    if cls is None or not path.startswith(f"{function.parameters[0].name}."):
        return None
    bound = _bound_by(cls, path)
    twin = _made_with(cls).get(path)
    if twin is not None and function.name != "__init__" and _reads_attribute(cls, twin):
        is_kept = all(method.name == "__init__" for method in bound | _bound_by(cls, twin))
        if is_kept:
            return twin
    for keep in _keeps_of(cls).get(path, ()):
        if not bound.isdisjoint((keep.function, function)) and keep.function.name != "__init__":
            continue  # the attribute may hold a new array by then
        if "." in keep.holder:
            if keep.holder != path and _reads_attribute(cls, keep.holder):
                return keep.holder
        elif keep.function is function and _local_is_read(fact, keep, module):
            return keep.holder
    if function in bound:
        return None
    return _holder_in_caller(path.partition(".")[2], function, cls, module)


def _holder_in_caller(
    attribute: str, function: FunctionInfo, cls: ClassInfo, module: Module
) -> str | None:
    """Return the list or the name in which a caller keeps the attribute.

    ``states.append(board.state())``, then ``board.play(move)``.
    """
    getters = _getters(cls).get(attribute, ())
    for call in calls_by_function(module).get(function, ())[:MOST_CALLERS]:
        caller, func = call.place.function, call.node.func
        owner = dotted(func.value) if isinstance(func, cst.Attribute) else None
        if owner is None or caller is None or isinstance(caller.node, cst.Lambda):
            continue
        for name in (attribute, *getters):
            for keep in _keeps_in(caller).get(f"{owner}.{name}", ()):
                if _is_held(keep, call, module):
                    return keep.holder
    return None


@kept_for_file
def _getters(cls: ClassInfo) -> dict[str, list[str]]:
    """Return the methods that return an attribute itself, by its name."""
    found: dict[str, list[str]] = {}
    for name, method in cls.methods.items():
        paths = {dotted(value) or "" for value, _ in returned_by(method)}
        owner, _, attribute = (paths.pop() if len(paths) == 1 else "").partition(".")
        if attribute and method.is_method and owner == method.parameters[0].name:
            found.setdefault(attribute, []).append(name)
    return found


def _is_held(keep: _Keep, call: LocalCall, module: Module) -> bool:
    """Return whether a list or a name still holds an array after a call, and is read then."""
    layout, statement = layout_of(module, keep.function), call.place.statement
    if isinstance(keep.statement, cst.Assign):
        held = scope_of(module, keep.function).reaching.before(statement, keep.holder) or ()
        return any(
            is_read_later(keep.holder, binding, call.place, module)
            for binding in held
            if binding.statement is keep.statement
        )
    is_again = any(layout.is_inside(keep.statement, around) for around in layout.loops(statement))
    return is_again or layout.in_sequence(keep.statement, statement)


@kept_for_file
def _made_with(cls: ClassInfo) -> dict[str, str]:
    """Get the attributes that ``__init__`` sets to one name: ``self.start = x; self.now = x``."""
    init = cls.methods.get("__init__")
    if init is None:
        return {}
    found: dict[str, str] = {}
    reaching = scope_of(init.module, init).reaching
    for name, keeps in _keeps_in(init).items():
        holders = [k.holder for k in keeps if "." in k.holder and k.function is init]
        if "." not in name and len(holders) == 2 and len(reaching.bindings.get(name, ())) == 1:
            found.update({holders[0]: holders[1], holders[1]: holders[0]})
    return found


def _local_is_read(fact: Fact, keep: _Keep, module: Module) -> bool:
    """Return whether a name that is assigned the attribute is read after the update."""
    reaching = scope_of(module, keep.function).reaching
    held = reaching.before(fact.place.statement, keep.holder) or ()
    if len(held) != 1 or held[0].statement is not keep.statement:
        return False
    return is_read_later(keep.holder, held[0], fact.place, module)


@kept_for_file
def _keeps_in(function: FunctionInfo) -> dict[str, list[_Keep]]:
    """Return the statements of a function that keep an array, by its path or that of its getter."""
    found: dict[str, list[_Keep]] = {}
    for statement in contents_of(function.node.body).statements:
        for holder, node in _kept_by(statement):
            is_getter = isinstance(node, cst.Call) and not node.args
            path = dotted(node.func if is_getter and isinstance(node, cst.Call) else node)
            if path is not None:
                found.setdefault(path, []).append(_Keep(holder, statement, function))
    return found


def _kept_by(statement: cst.CSTNode) -> Iterator[tuple[str, cst.BaseExpression]]:
    """Yield the arrays that a statement keeps, and where: in a list, an attribute or a name."""
    call = statement.value if isinstance(statement, cst.Expr) else None
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
        holder = dotted(call.func.value)
        if call.func.attr.value == "append" and holder is not None and len(call.args) == 1:
            yield from ((holder, item) for item in _items(call.args[0].value))
    for target in assigned_to(statement):
        value = statement.value if isinstance(statement, cst.Assign) else None
        if value is None:
            continue
        if isinstance(target, cst.Attribute) and dotted(target) is not None:
            yield dotted(target) or "", value
        elif isinstance(target, cst.Name) and isinstance(value, (cst.Attribute, cst.Call)):
            yield target.value, value


def _items(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(node, (cst.Tuple, cst.List)):
        return [element.value for element in node.elements]
    return [node]


@kept_for_file
def _keeps_of(cls: ClassInfo) -> dict[str, list[_Keep]]:
    """Return the statements of a class that keep an array of an attribute, by its path."""
    found: dict[str, list[_Keep]] = {}
    for method in cls.methods.values():
        for path, keeps in _keeps_in(method).items():
            if "." in path:
                found.setdefault(path, []).extend(keeps)
    return found


def _bound_by(cls: ClassInfo, path: str) -> set[FunctionInfo]:
    """Return the methods that assign an attribute, other than in place."""
    assigned = assignments_of(cls, path.rpartition(".")[2])
    return {one.setter for one in assigned if isinstance(one.statement, cst.Assign)}


def _reads_attribute(cls: ClassInfo, path: str) -> bool:
    return attribute_reads(cls.node)[path.rpartition(".")[2]] > 0


@check("INDEX-004")
def update_in_place(fact: BinaryFact | ItemStoreFact, module: Module) -> Iterator[Report]:
    """``x += v``, ``x[i] = v``."""
    updated = updated_array(fact)
    if updated is not None:
        yield from _shared(fact, updated, module)
        yield from kept(fact, updated, module)


def _shared(fact: Fact, node: cst.BaseExpression, module: Module) -> Iterator[Report]:
    if isinstance(node, cst.Subscript):
        if node not in module.array_parts:  # a part is a copy (INDEX-002)
            yield from _repeated_item(fact, node, module)
        return
    if not isinstance(node, cst.Name):
        return
    for other, binding in _aliases(fact, node.value, module):
        if is_read_later(other, binding, fact.place, module):
            shown = quoted(other, LONGEST)
            yield Report.at(
                fact,
                message=f"in-place update also changes `{shown}`: it is the same array",
                help=HELP,
                subject=node,
            )
            return


def _aliases(fact: Fact, name: str, module: Module) -> Iterator[tuple[str, Binding]]:
    """Yield the other names that hold the array that a name holds, with their bindings."""
    statement, function = fact.place.statement, fact.place.function
    reaching = scope_of(module, function).reaching
    here = reaching.before(statement, name)
    if not here:
        return
    for binding in _copies(module, function).get(name, ())[:MOST_STEPS]:
        if reaching.before(statement, binding.name) == (binding,) and (
            without_updates(reaching.before(binding.statement, name)) == without_updates(here)
        ):
            yield binding.name, binding
    (first, *more) = without_updates(here) or here
    if more or not isinstance(first.value, cst.Name) or first.kind != "assigned":
        return
    other = first.value.value
    held = reaching.before(statement, other)
    if held and len(held) == 1 and held == reaching.before(first.statement, other):
        yield other, held[0]


@kept_for_file
def _copies(module: Module, function: FunctionInfo | None) -> dict[str, list[Binding]]:
    """Return the bindings ``y = x`` of a scope, by ``x``."""
    reaching = scope_of(module, function).reaching
    found: dict[str, list[Binding]] = {}
    for bindings in reaching.bindings.values():
        for binding in bindings:
            if binding.kind == "assigned" and isinstance(binding.value, cst.Name):
                found.setdefault(binding.value.value, []).append(binding)
    return found


def _repeated_item(fact: Fact, node: cst.Subscript, module: Module) -> Iterator[Report]:
    """``rows = [mx.zeros(3)] * 4; rows[0] += 1`` changes all four."""
    if not isinstance(node.value, cst.Name):
        return
    source = resolved(node.value, fact.place.function, module)
    if not isinstance(source, cst.BinaryOperation) or not isinstance(source.operator, cst.Multiply):
        return
    shown = source.left if isinstance(source.left, cst.List) else source.right
    other = source.right if shown is source.left else source.left
    if not isinstance(shown, cst.List) or not shown.elements:
        return
    if isinstance(other, cst.Integer) and other.value in ("0", "1"):
        return
    yield Report.at(
        fact,
        message="in-place update changes all items: `[x] * n` repeats one array",
        help="Make an array for each item: `[mx.zeros(3) for _ in range(n)]`",
        subject=node.value,
    )
