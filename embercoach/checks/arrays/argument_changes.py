"""INDEX-005: functions that change their caller's array in place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo, FunctionParameter
from embercoach.analysis.dataflow.contents import contents_of, head_contents
from embercoach.analysis.dataflow.layout import assigned_to, is_read_later, layout_of, reads_of
from embercoach.analysis.dataflow.lazy_evaluation import METADATA
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import (
    bindings_at,
    passed_arguments,
    scope_of,
)
from embercoach.analysis.dataflow.value_sources import (
    Callee,
    Source,
    Sources,
    argument_of,
    reaching_of,
    sources_of,
)
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import (
    BinaryFact,
    Fact,
    FactPlace,
    ItemStoreFact,
    LocalCall,
    ProjectCall,
)
from embercoach.analysis.values.inheritance import is_forward
from embercoach.analysis.values.lattice import Dict, Sequence, any_item, as_array
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import MOST_CALLERS, MOST_CALLS, MOST_STEPS
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import quoted

if TYPE_CHECKING:
    #: Functions with a parameter that have been followed.
    Seen = set[tuple[FunctionInfo, str]]


def is_kept_element(given: Source, sources: Sources) -> bool:
    """Return whether an argument is an array in a list of an attribute: ``self.items[i]``.

    An element of an array is a copy.
    """
    node = given.node
    if isinstance(node, cst.Subscript):
        is_stored = any(target.deep_equals(node) for target in assigned_to(given.statement))
        return not is_stored and _holds_arrays(given.at(node.value), sources)
    if not isinstance(node, cst.Name):
        return False
    held = reaching_of(given).before(given.statement, node.value) or ()
    return bool(held) and all(
        binding.value is not None
        and binding.kind == "element"
        and binding.index is None
        and _holds_arrays(given.moved(binding.value, binding.statement), sources)
        for binding in held
    )


def _holds_arrays(source: Source, sources: Sources) -> bool:
    """Return whether an attribute is a list, a tuple or a dictionary of arrays."""
    if not isinstance(source.node, cst.Attribute):
        return False
    value = sources.value(source)
    if isinstance(value, Dict):
        return as_array(value.item) is not None
    return isinstance(value, Sequence) and as_array(any_item(value)) is not None


def stores_nothing_given(function: FunctionInfo, name: str) -> bool:
    """Return whether all updates of a parameter are ``x += v``, or store nothing that is given."""
    if isinstance(function.node, cst.Lambda):
        return False
    statements = contents_of(function.node.body).statements
    return all(_is_own_update(s, function) for s in statements if name in updated_names(s))


def _is_own_update(statement: cst.CSTNode, function: FunctionInfo) -> bool:
    """Return whether an update is ``x += v``, or stores nothing that the function is given."""
    if isinstance(statement, cst.AugAssign) and isinstance(statement.target, cst.Name):
        return True
    stored = getattr(statement, "value", None)
    given = {parameter.name for parameter in function.parameters}
    return stored is not None and given.isdisjoint(contents_of(stored).names)


def updated_names(statement: cst.CSTNode) -> set[str]:
    """Return the ``x`` of ``x += v``, ``x[i] = v`` and ``x[i] += v``."""
    targets = assigned_to(statement)
    if type(statement) is cst.AugAssign:
        if type(statement.target) is cst.Name:
            return {statement.target.value}
        targets = [statement.target]
    nodes = (target.value for target in targets if type(target) is cst.Subscript)
    return {node.value for node in nodes if type(node) is cst.Name}


@kept_for_file
def argument_updates(function: FunctionInfo) -> dict[str, list[cst.CSTNode]]:
    """Return the statements of a function that update what is passed to it, by parameters."""
    found: dict[str, list[cst.CSTNode]] = {}
    reaching = scope_of(function.module, function).reaching
    for statement in contents_of(function.node.body).statements:
        for name in updated_names(statement):
            kinds = {binding.kind for binding in reaching.before(statement, name) or ()}
            if "parameter" in kinds and kinds <= {"parameter", "updated"}:
                found.setdefault(name, []).append(statement)
    return found


#: Characters of a name that a message quotes.
LONGEST = 20
HELP = "Use `x = x + v`, or copy it first: `mx.array(x)`"
#: Functions that reduce an array to one number.
_REDUCTIONS = frozenset(("max", "min", "sum", "mean", "norm", "item", "all", "any"))


def updated_array(fact: BinaryFact | ItemStoreFact) -> cst.BaseExpression | None:
    """Return the array that ``x += v`` or ``x[i] = v`` updates in place."""
    if isinstance(fact, ItemStoreFact):
        return None if as_array(fact.base) is None else fact.node.value
    return fact.left.node if fact.in_place and fact.left.array is not None else None


@check("INDEX-005")
def updated_parameter(fact: BinaryFact | ItemStoreFact, module: Module) -> Iterator[Report]:
    """``def f(x): x += 1; return x``."""
    updated = updated_array(fact)
    if isinstance(updated, cst.Name):
        yield from _changed_parameter(fact, updated, module)


@check("INDEX-005")
def call_of_changing_function(fact: ProjectCall, module: Module) -> Iterator[Report]:
    """``standardize(x)`` of another file, which changes ``x``."""
    if fact.function.module is module or is_discarded(fact):
        return
    arrays = {a.node for a in fact.arguments if as_array(a.value) is not None}
    if not arrays:
        return
    sources, source = sources_of(module), sources_of(module).of(fact, fact.node)
    for name, node in Callee(fact.function, fact.is_bound).passed(source).items():
        given = source.at(node)
        if node not in arrays or not _may_be_read(given):
            continue
        if not _changes_argument(fact.function, name, module):
            continue
        if _is_kept(given, fact.place) or _harmed(given, sources, set()):
            yield Report.at(
                fact,
                node=given.node,
                message=f"`{quoted(fact.function.name, LONGEST)}()` changes this array in place",
                help="Pass a copy, `mx.array(x)`, or compute a new array in the function",
                subject=given.node,
            )


def _changed_parameter(fact: Fact, node: cst.Name, module: Module) -> Iterator[Report]:
    function, name = fact.place.function, node.value
    parameter = _parameter(function, name)
    if function is None or parameter is None or not _is_argument(function, fact, name, module):
        return
    if isinstance(parameter.default, cst.Call):
        yield _changed(fact, node, "default value of")
    elif _looks_pure(function, name):
        call = _harmed_call(function, name, sources_of(module), set())
        if call is not None and not _may_return_before(fact.place, function, call):
            stop = Stop(call.node, call.place.statement, "the caller reads its array again")
            yield _changed(fact, node, "caller's array passed as", stop)
        elif call is None and isinstance(fact, ItemStoreFact) and is_forward(function):
            # Residuals read it again.
            yield _changed(fact, node, "input of the layer")


def _may_return_before(
    place: FactPlace, function: FunctionInfo, call: LocalCall | ProjectCall
) -> bool:
    """Test whether a call may return before the update, by what it passes or a test has set up."""
    tested = _tested_before(place.statement, function)
    known = {parameter.name for parameter in function.parameters}
    if not tested <= known:
        return True  # the closure decides
    given = passed_arguments(call)
    return any(isinstance(given.get(name), _CONSTANTS) for name in tested)


def _tested_before(statement: cst.CSTNode, function: FunctionInfo) -> set[str]:
    """Return the names in tests of a function that returns before a statement if one holds."""
    return {
        name
        for level in layout_of(function.module, function).outward(statement)
        for test in level.statements[: level.position]
        if isinstance(test, cst.If) and _returns(test.body)
        for name in contents_of(test.test).names
    }


def _returns(body: cst.BaseSuite) -> bool:
    """Test whether a suite ends with ``return``."""
    last = body.body[-1] if body.body else None
    last = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
    return isinstance(last, cst.Return)


_CONSTANTS = (cst.BaseNumber, cst.BaseString, cst.List, cst.Tuple)


def _changed(fact: Fact, node: cst.Name, what: str, *related: Stop) -> Report:
    return Report.at(
        fact,
        message=f"in-place update changes the {what} `{quoted(node.value, LONGEST)}`",
        help=HELP,
        subject=node,
        related=related,
    )


def _parameter(function: FunctionInfo | None, name: str) -> FunctionParameter | None:
    parameters = () if function is None else function.parameters
    return next((p for p in parameters if p.name == name and not p.star), None)


def _is_argument(function: FunctionInfo, fact: Fact, name: str, module: Module) -> bool:
    """Return whether a parameter still holds the caller's array, not updated before.

    In a loop, the update itself comes before that of the next iteration.
    """
    statement = fact.place.statement
    held = scope_of(module, function).reaching.before(statement, name) or ()
    others = [b for b in held if not (b.kind == "updated" and b.statement is statement)]
    return bool(others) and all(binding.kind == "parameter" for binding in others)


def is_discarded(call: LocalCall | ProjectCall) -> bool:
    """Return whether a call is a statement: it is made for what it changes."""
    statement = call.place.statement
    return isinstance(statement, cst.Expr) and statement.value is call.node


def _harmed_call(
    function: FunctionInfo, name: str, sources: Sources, seen: Seen
) -> LocalCall | ProjectCall | None:
    """Return a call after which the array that is passed for a parameter is read, by any caller."""
    if (function, name) in seen or len(seen) >= MOST_STEPS:
        return None
    seen.add((function, name))
    for call in sources.callers(function)[:MOST_CALLERS]:
        if is_discarded(call):
            continue
        source = sources.of(call, call.node)
        given = argument_of(source, Callee(function, call.is_bound), name)
        if given is None or given.statement is not source.statement:
            continue
        if _is_kept(given, call.place) or _harmed(given, sources, seen):
            return call
        if stores_nothing_given(function, name) and is_kept_element(given, sources):
            return call
    return None


def _harmed(given: Source, sources: Sources, seen: Seen) -> bool:
    """Return whether an argument is a parameter of the caller, whose own callers read it again."""
    node, function = given.node, given.function
    if not isinstance(node, cst.Name) or function is None:
        return False
    held = reaching_of(given).before(given.statement, node.value) or ()
    if not any(binding.kind == "parameter" for binding in held):
        return False
    return _harmed_call(function, node.value, sources, seen) is not None


def _may_be_read(given: Source) -> bool:
    """Return whether an argument is a path that does not hold the result, or a parameter."""
    path = dotted(given.node)
    if path is None or not any(dotted(t) == path for t in assigned_to(given.statement)):
        return path is not None
    return given.function is not None and any(p.name == path for p in given.function.parameters)


def _is_kept(given: Source, place: FactPlace) -> bool:
    """Return whether the array of an argument is read again after the call."""
    node, statement = given.node, given.statement
    path = dotted(node)
    if path is None or any(dotted(target) == path for target in assigned_to(statement)):
        return _has_alias(given, place)  # the name holds the result then
    if isinstance(node, cst.Attribute):
        return attribute_reads(given.module.tree)[node.attr.value] > 1
    if not isinstance(node, cst.Name):
        return False
    if node.value not in reaching_of(given).bindings:
        if node.value in place.loop_names:  # ``[(x, change(x)) for x in xs]``
            pairs = contents_of(statement).of(cst.Tuple)
            return any(dotted(e.value) == node.value for pair in pairs for e in pair.elements)
        # An array of a scope around, which the next call of the function reads.
        bound = bindings_at(node.value, statement, given.function, given.module)
        return bound is not None and bound.bindings[0].kind == "assigned"
    loops = sum(1 for _ in layout_of(given.module, given.function).loops(statement))
    if place.loops > loops and node.value not in place.loop_names:
        return True  # by the next iteration of a comprehension
    here = sum(s is statement for s in reads_of(given.module, given.function).get(node.value, ()))
    held = reaching_of(given).before(statement, node.value) or ()
    return any(here > 1 or is_read_later(node.value, b, place, given.module) for b in held)


def _has_alias(given: Source, place: FactPlace) -> bool:
    """Return whether an array is read again under its first name, after ``shaped = logits``."""
    if not isinstance(given.node, cst.Name):
        return False
    reaching = reaching_of(given)
    for alias in reaching.before(given.statement, given.node.value) or ():
        if alias.kind == "assigned" and isinstance(alias.value, cst.Name):
            name = alias.value.value
            for binding in reaching.before(alias.statement, name) or ():
                if is_read_later(name, binding, place, given.module):
                    return True
    return False


@kept_for_file
def attribute_reads(tree: cst.CSTNode) -> Counter[str]:
    """Return how often a file or a class reads an attribute of each name, of whatever object."""
    contents = contents_of(tree)
    assigned = {target.target for target in contents.of(cst.AssignTarget)}
    attributes = (node for node in contents.of(cst.Attribute) if node not in assigned)
    return Counter(node.attr.value for node in attributes)


@kept_for_file
def _changes_argument(function: FunctionInfo, name: str, module: Module) -> bool:
    """Return whether a function that a file calls changes its argument."""
    return _changes(function, name, sources_of(module), set())


def _changes(function: FunctionInfo, name: str, sources: Sources, seen: Seen) -> bool:
    """Return whether a function changes its argument, and looks as if it computed a new array."""
    if isinstance(function.node, cst.Lambda) or (function, name) in seen:
        return False
    if len(seen) >= MOST_STEPS:
        return False
    seen.add((function, name))
    updates = argument_updates(function).get(name)
    if updates is not None and _looks_pure(function, name):
        return not _tested_before(updates[0], function)
    return any(
        isinstance(node, cst.Name)
        and node.value == name
        and _changes(callee.function, parameter, sources, seen)
        for call in _passing(function).get(name, ())
        for callee in sources.callees(call)
        for parameter, node in callee.passed(call).items()
    )


@kept_for_file
def _passing(function: FunctionInfo) -> dict[str, list[Source]]:
    """Return the calls that take a function's arguments and are not statements, by parameters."""
    names = {parameter.name for parameter in function.parameters}
    reaching = scope_of(function.module, function).reaching
    found: dict[str, list[Source]] = {}
    for statement in contents_of(function.node.body).statements:
        discarded = statement.value if isinstance(statement, cst.Expr) else None
        for call in head_contents(statement).calls:
            if call is discarded:
                continue
            given = {a.value.value for a in call.args if type(a.value) is cst.Name}
            for name in names & given:
                held = reaching.before(statement, name) or ()
                if any(binding.kind == "parameter" for binding in held):
                    source = Source(call, statement, function, function.module)
                    found.setdefault(name, []).append(source)
    return found


@kept_for_file
def _looks_pure(function: FunctionInfo, name: str) -> bool:
    """Return whether a function returns its argument, or what it computes from the updated one.

    A function that stores what it is given, and returns a part, is a buffer's or a cache's.
    """
    if isinstance(function.node, cst.Lambda) or function.is_async:
        return False
    statements = contents_of(function.node.body).statements
    reaching = scope_of(function.module, function).reaching
    for statement in statements:
        value = statement.value if isinstance(statement, cst.Return) else None
        if isinstance(value, cst.Name) and value.value == name:
            held = reaching.before(statement, name) or ()
            if held and all(binding.kind in ("parameter", "updated") for binding in held):
                return True
    if not stores_nothing_given(function, name):
        return False
    derived = {name}
    for _ in range(MOST_CALLS):
        for statement in statements:
            if isinstance(statement, cst.Assign) and _computes(statement.value, derived):
                derived.update(t.value for t in assigned_to(statement) if isinstance(t, cst.Name))
    returns = (s.value for s in statements if isinstance(s, cst.Return))
    return any(
        value is not None and not _is_metric(value) and _computes(value, derived)
        for value in returns
    )


def _is_metric(value: cst.CSTNode) -> bool:
    """Return whether an expression reduces an array to one number, a norm for example."""
    if not isinstance(value, cst.Call) or any(argument.keyword for argument in value.args):
        return False
    return last_name(value) in _REDUCTIONS


def _computes(value: cst.CSTNode, names: set[str]) -> bool:
    """Return whether an expression computes with the elements of an array, not a part of it."""
    if isinstance(value, cst.Tuple):
        return any(_computes(element.value, names) for element in value.elements)
    if isinstance(value, (cst.Name, cst.Subscript, cst.Attribute)):
        return False
    contents = contents_of(value)
    measured = {n.value for n in contents.of(cst.Attribute) if n.attr.value in METADATA}
    return any(n.value in names and n not in measured for n in contents.of(cst.Name))
