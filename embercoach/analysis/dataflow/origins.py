"""The flow of a finding: the origin of its array, and the start of its context.

Both are computed for findings only, once a file has been analysed: from the expression back
through the bindings that reach it. Of an operation, the first array operand is followed. The flow
ends where no binding is known, and where several may apply: then each of them is a step.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of, head_contents
from embercoach.analysis.dataflow.contexts import hot_functions
from embercoach.analysis.dataflow.scopes import Bound, assignments_of, bindings_at, passed_arguments
from embercoach.analysis.values.facts import (
    BinaryFact,
    CallFact,
    CompareFact,
    Fact,
    FactPlace,
    calls_by_function,
)
from embercoach.analysis.values.lattice import (
    BoundMember,
    Kernel,
    LibraryObject,
    Symbol,
    as_array,
    holds_arrays,
)

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo, FunctionParameter
    from embercoach.analysis.dataflow.reaching import Binding
    from embercoach.analysis.project.module import Module


class Stop(NamedTuple):
    """A place in a flow.

    Attributes:
        node: the node.
        statement: the statement that contains it.
        text: the text of the step, with ``{}`` for the source of ``quoted``.
        quoted: the node to quote.
        span: start and end in characters of the node's own source, if only a part is meant.
    """

    node: cst.CSTNode
    statement: cst.CSTNode
    text: str
    quoted: cst.CSTNode | None = None
    span: tuple[int, int] | None = None


class OriginTrace(NamedTuple):
    """The context of a finding, the origins of its array and the start of the context."""

    context: str
    flow: list[Stop]
    start: list[Stop]


def binding_stop(binding: Binding, *, maybe: bool = False) -> Stop:
    """Return the stop of a binding; ``maybe`` if it is one of several that may apply."""
    verb = "may be" if maybe else "is"
    texts = {
        "assigned": f"`{binding.name}` {verb} assigned `{{}}`",
        "unpacked": f"`{binding.name}` {verb} unpacked from `{{}}`",
        "updated": f"`{binding.name}` {verb} updated with `{{}}`",
        "element": f"`{binding.name}` {'may iterate' if maybe else 'iterates'} over `{{}}`",
        "parameter": f"`{binding.name}` may be the function's argument",
    }
    return Stop(binding.node, binding.statement, texts[binding.kind], binding.value)


def loop_stop(loop: cst.For | cst.While) -> Stop:
    """Return the stop of a loop."""
    if isinstance(loop, cst.For):
        return Stop(loop.iter, loop, "loop over `{}`", loop.iter)
    return Stop(loop.test, loop, "loop `while {}`", loop.test)


def loop_stops(function: FunctionInfo | None) -> list[Stop]:
    """Return the loop that calls a function, and the calls from there to the function."""
    stops: list[Stop] = []
    called = function
    while called is not None:
        call = hot_functions(called.module).get(called)
        if call is None:
            break
        text = f"`{called.qualified_name}` is called"
        stops.append(Stop(call.node, call.place.statement, text))
        if call.place.loop is not None:
            stops.append(loop_stop(call.place.loop))
        called = None if call.place.loops else call.place.function
    return stops[::-1]


def parameter_text(
    parameter: FunctionParameter, function: FunctionInfo, where: str
) -> tuple[str, cst.CSTNode | None]:
    """Get the text of a parameter with the evidence for its type, and the node that it quotes."""
    text = f"parameter `{parameter.name}` of {where}"
    if parameter.annotation is not None:
        return f"{text}, annotated `{{}}`", parameter.annotation
    if parameter.name in function.shown_arrays:
        return f"{text}, used as an array", None
    if parameter.evidence is not None and as_array(parameter.evidence) is not None:
        return f"{text}, passed an array by calls in this file", None
    return text, None


MOST_STEPS = 8
#: Bindings or calls that become steps where several may apply; of more, none does.
MOST_CHOICES = 3
#: Functions other than MLX's that compute their result from their first array.
_PASSING = frozenset(
    f"builtins.{name}" for name in ("reversed", "iter", "list", "tuple", "sorted", "sum", "abs")
)
_ROLES = {
    "compiled": (("compiled", "compiled (`mx.compile`)"), ("vmapped", "mapped (`mx.vmap`)")),
    "differentiated": (("differentiated", "differentiated"),),
}


class _At(NamedTuple):
    """An expression and the place where it is evaluated."""

    node: cst.CSTNode
    statement: cst.CSTNode
    function: FunctionInfo | None
    loop_names: AbstractSet[str] = frozenset()


class Origins:
    """The origins of one analysed module's findings."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._facts: dict[FunctionInfo | None, dict[int, Fact]] = {}
        #: The roots of operands of nested operators, by function.
        self._led: dict[tuple[FunctionInfo | None, int], tuple[cst.Name | None, str | None]] = {}
        #: Shared by findings whose flows have places in common.
        self._ways: dict[tuple[int, int, FunctionInfo | None], tuple[str | None, Bound | None]]
        self._ways = {}
        self._stops: dict[tuple[int, bool], Stop] = {}
        #: The names that the comprehensions in a statement bind, by the statement's ``id``.
        self._comprehended: dict[int, frozenset[str]] = {}

    def trace(
        self,
        place: FactPlace,
        context: str,
        *,
        subject: cst.CSTNode | None,
        with_start: bool,
    ) -> OriginTrace:
        """Trace a finding.

        Args:
            place: of the finding.
            context: of the finding.
            subject: the expression of its array, if it has one.
            with_start: whether to look for the start of the context.
        """
        flow = [] if subject is None else self._of_value(subject, place)
        return OriginTrace(context, flow, self._of_context(context, place) if with_start else [])

    def _of_value(self, node: cst.CSTNode, place: FactPlace) -> list[Stop]:
        """Return the origins of an expression's value, the earliest stop first."""
        stops: list[Stop] = []
        at: _At | None = _At(node, place.statement, place.function, place.loop_names)
        seen: set[int] = set()
        while at is not None and len(stops) < MOST_STEPS:
            attribute, found = self._reached(at)
            if found is None:
                break
            function, bindings = found
            if len(bindings) > 1:
                stops += [self._stop(choice, maybe=True) for choice in reversed(_choices(bindings))]
                break
            (binding,) = bindings
            if id(binding) in seen:
                break
            seen.add(id(binding))
            if binding.kind == "parameter":
                more, at = self._parameter(binding, function, attribute)
                stops += more
            elif binding.value is None:
                break
            else:
                stops.append(self._stop(binding))
                at = self._before(binding, function)
        return stops[::-1]

    def _reached(self, at: _At) -> tuple[str | None, Bound | None]:
        """Return the attribute that is read of a name, and the bindings of the name."""
        key = (id(at.node), id(at.statement), at.function)
        known = None if at.loop_names else self._ways.get(key)
        if known is None:
            root, attribute = self._root(at)
            found = None
            if root is not None and not self._is_of_comprehension(root.value, at):
                found = bindings_at(root.value, at.statement, at.function, self._module)
            known = attribute, found
            if not at.loop_names:
                self._ways[key] = known
        return known

    def _stop(self, binding: Binding, *, maybe: bool = False) -> Stop:
        """Return the stop of a binding, the same object for all flows through it."""
        key = id(binding), maybe
        if key not in self._stops:
            self._stops[key] = binding_stop(binding, maybe=maybe)
        return self._stops[key]

    def _of_context(self, context: str, place: FactPlace) -> list[Stop]:
        """Get the start of a finding's context, down to the function that contains the finding."""
        info = place.function
        if context in ("avoidable", "minor"):
            return loop_stops(info) if place.loop is None else [loop_stop(place.loop)]
        for role, done in _ROLES.get(context, ()):
            if info is not None and getattr(info, role):
                return self._handed_down(info, role, done)
        return []

    def _handed_down(self, info: FunctionInfo, role: str, done: str) -> list[Stop]:
        stops: list[Stop] = []
        seen = set()
        while role not in info.role_sites:
            giver = info.role_givers.get(role)
            if giver is None or giver in seen:
                return []
            seen.add(giver)
            calls = [
                c
                for c in calls_by_function(self._module).get(info, ())
                if c.place.function is giver
            ]
            if calls:
                text = f"`{giver.qualified_name}` calls `{info.qualified_name}`"
                stops.append(Stop(calls[0].node, calls[0].place.statement, text))
            info = giver
        node, statement = info.role_sites[role]
        return [Stop(node, statement, f"`{info.qualified_name}` is {done}"), *stops[::-1]]

    def _root(self, at: _At) -> tuple[cst.Name | None, str | None]:
        """Get the name that an expression's value is derived from, and the attribute read of it."""
        node: cst.CSTNode | None = at.node
        attribute = None
        passed: list[tuple[FunctionInfo | None, int]] = []
        while node is not None and type(node) is not cst.Name:
            # Nested operators only: each operator of a chain would walk the rest of it.
            if node is not at.node and attribute is None and type(node) is cst.BinaryOperation:
                key = at.function, id(node)
                if key in self._led:
                    node, attribute = self._led[key]
                    break
                passed.append(key)
            attribute = node.attr.value if type(node) is cst.Attribute else attribute
            node = self._inner(node, at)
        self._led.update(dict.fromkeys(passed, (node, attribute)))
        return node, attribute

    def _inner(self, node: cst.CSTNode, at: _At) -> cst.CSTNode | None:
        """Return the part of an expression that its value is derived from."""
        # By exact type: of libcst's classes ``isinstance`` is slow.
        kind = type(node)
        if kind is cst.Attribute or kind is cst.Subscript or kind is cst.NamedExpr:
            return node.value  # type: ignore[attr-defined, no-any-return]
        if kind is cst.UnaryOperation or kind is cst.Await:
            return node.expression  # type: ignore[attr-defined, no-any-return]
        if kind is cst.List or kind is cst.Tuple:
            elements = node.elements  # type: ignore[attr-defined]
            first = elements[0] if elements else None
            # An argument is passed as a whole; of a list by itself any item may be meant.
            known = node is not at.node or len(elements) == 1
            return first.value if known and type(first) is cst.Element else None
        if kind is cst.BinaryOperation or kind is cst.Comparison or kind is cst.Call:
            fact = self._facts_in(at.function).get(id(node))
            if isinstance(fact, (BinaryFact, CompareFact)):
                sides = (fact.left, fact.right)
                return next((one.node for one in sides if one.array is not None), None)
            if isinstance(fact, CallFact):
                return _source(fact)
        return None

    def _facts_in(self, function: FunctionInfo | None) -> dict[int, Fact]:
        facts = self._facts.get(function)
        if facts is None:
            kinds = (CallFact, BinaryFact, CompareFact)
            found = (f for f in self._module.facts_of(function) if type(f) in kinds)
            facts = self._facts[function] = {id(fact.node): fact for fact in found}
        return facts

    def _is_of_comprehension(self, name: str, at: _At) -> bool:
        """Test whether a comprehension around the expression may bind a name."""
        statement = at.statement
        function = at.function
        if function is not None and isinstance(function.node, cst.Lambda):
            statement = function.statement or statement
        elif name not in at.loop_names:
            return False
        names = self._comprehended.get(id(statement))
        if names is None:
            clauses = head_contents(statement).of(cst.CompFor)
            names = frozenset(n for clause in clauses for n in contents_of(clause.target).names)
            self._comprehended[id(statement)] = names
        return name in names

    def _parameter(
        self, binding: Binding, function: FunctionInfo | None, attribute: str | None
    ) -> tuple[list[Stop], _At | None]:
        """Return the stops of a parameter and of the calls that pass it, the latest first."""
        assert function is not None
        parameter = next(p for p in function.parameters if p.name == binding.name)
        if function.is_method and parameter is function.parameters[0]:
            return self._attribute(function, parameter.name, attribute), None
        where, statement = f"`{function.qualified_name}`", binding.statement
        if isinstance(function.node, cst.Lambda):
            where, statement = "a lambda", function.statement or statement
        text, quoted = parameter_text(parameter, function, where)
        stops = [Stop(binding.node, statement, text, quoted)]
        sites = self._passed(function, parameter)
        if not 1 <= len(sites) <= MOST_CHOICES:
            return stops, None
        called = f"{where} is called with `{{}}`"
        stops += [Stop(at.node, at.statement, called, at.node) for at in reversed(sites)]
        return stops, sites[0] if len(sites) == 1 else None

    def _attribute(self, function: FunctionInfo, owner: str, attribute: str | None) -> list[Stop]:
        """Return the assignment of ``self.<attribute>``, if the class has a single one."""
        assert function.cls is not None
        found = assignments_of(function.cls, attribute or "")
        if len(found) != 1 or len(function.cls.setters[attribute or ""]) != 1:
            return []
        statement, setter = found[0].statement, found[0].setter
        value = statement.value if isinstance(statement, cst.Assign) else None
        text = f"`{setter.qualified_name}` sets `{owner}.{attribute}`"
        return [Stop(statement, statement, f"{text}: `{{}}`" if value else text, value)]

    def _passed(self, function: FunctionInfo, parameter: FunctionParameter) -> list[_At]:
        """Return the arguments of the file's calls for a parameter; none if one call is unclear."""
        found = []
        for call in calls_by_function(self._module).get(function, ()):
            if parameter.star or any(argument.star for argument in call.node.args):
                return []
            given = passed_arguments(call).get(parameter.name)
            if given is None:
                return []
            place = call.place
            found.append(_At(given, place.statement, place.function, place.loop_names))
        return found

    def _before(self, binding: Binding, function: FunctionInfo | None) -> _At | None:
        """Return the expression that a binding takes its value from, and its place."""
        node: cst.CSTNode | None = binding.value
        if isinstance(binding.statement, cst.AugAssign):
            node = binding.statement.target
        elif binding.kind == "unpacked" or binding.index is not None:
            node = self._target_of(binding, function)
        return None if node is None else _At(node, binding.statement, function)

    def _target_of(self, binding: Binding, function: FunctionInfo | None) -> cst.CSTNode | None:
        """Return the expression that one of several targets takes its value from, if known."""
        value = binding.value
        if not isinstance(value, cst.Call):
            return value
        fact = self._facts_in(function).get(id(value))
        if not isinstance(fact, CallFact):
            return None
        index = binding.index or 0
        if fact.symbol == "builtins.enumerate" and index == 1 and value.args:
            return value.args[0].value
        if fact.symbol == "builtins.zip" and index < len(value.args):
            return None if any(a.star for a in value.args) else value.args[index].value
        is_mlx = fact.symbol is not None and fact.symbol.startswith("mlx.")
        return value if is_mlx or isinstance(fact.callee, BoundMember) else None


def _choices(bindings: tuple[Binding, ...]) -> tuple[Binding, ...]:
    """Return all bindings that may apply, or none if one of them is unknown."""
    clear = all(b.kind != "opaque" for b in bindings)
    return bindings if clear and len(bindings) <= MOST_CHOICES else ()


def _source(fact: CallFact) -> cst.BaseExpression | None:
    """The array that a call's result is derived from: the receiver, or the first array argument."""
    callee = fact.callee
    if isinstance(callee, BoundMember):
        if fact.array is not None:
            return fact.receiver_node
        if not isinstance(callee.owner, LibraryObject):
            return None
    elif isinstance(callee, Symbol):
        known = callee.name.startswith(("mlx.", "numpy.")) or callee.name in _PASSING
        if not known or callee.name.endswith("_like"):
            return None
    elif not isinstance(callee, (LibraryObject, Kernel)):
        return None
    array = as_array(fact.result)
    if array is not None and array.literal:
        return None
    return next((a.node for a in fact.arguments if not a.star and holds_arrays(a.value)), None)
