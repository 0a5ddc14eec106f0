"""Sources of values: the expressions that compute a value, in whatever function or file they are.

Names, attributes that are set once, results of functions and methods, and parameters are followed.
Checks ask for few expressions of a file; nothing is executed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import libcst as cst
from msgspec import Struct

from embercoach.analysis.calls.parameters import parameter_value
from embercoach.analysis.dataflow import held_sources
from embercoach.analysis.dataflow.scopes import scope_of, written_arguments
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.facts.facts import LocalCall, ProjectCall, calls_of
from embercoach.analysis.syntax.trees import names_below
from embercoach.analysis.values.inheritance import find_method
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    BoundMember,
    Function,
    Instance,
    LibraryObject,
    Symbol,
    Transformed,
    Value,
    as_array,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import WorkExceededError

#: Sequences inside of each other that are followed.
_MOST_NESTED = 4
_SEQUENTIAL = frozenset(("mlx.nn.Sequential", "mlx.nn.layers.containers.Sequential"))


def constructor(sources: Sources, callee: Source) -> Source | None:
    """The expression that made a layer, the last one of an ``nn.Sequential``."""
    for _ in range(_MOST_NESTED):
        ends = sources.ends(callee)
        if len(ends) != 1:
            return None
        made, value = ends[0].node, sources.value(ends[0])
        is_sequence = isinstance(value, LibraryObject) and value.cls in _SEQUENTIAL
        if not is_sequence or not isinstance(made, cst.Call):
            return ends[0]
        if not made.args or made.args[-1].star:
            return None
        callee = ends[0].at(made.args[-1].value)
    return None


def last_layer(sources: Sources, callee: Source, cls: str) -> str:
    """The class of the layer that computes the result: the last one of ``nn.Sequential``."""
    made = constructor(sources, callee) if cls in _SEQUENTIAL else None
    last = None if made is None else sources.value(made)
    if isinstance(last, Symbol):
        return last.name
    return last.cls if isinstance(last, LibraryObject) else cls


def default_of(source: Source) -> Source | None:
    """The default of a parameter, None for anything else."""
    function, node = source.function, source.node
    if function is None or not isinstance(node, cst.Name):
        return None
    parameters = (p for p in function.parameters if p.name == node.value)
    default = next((p.default for p in parameters), None)
    return None if default is None else source.at(default)


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.dataflow.reaching import Binding, Reaching
    from embercoach.analysis.facts.facts import Fact, FactPlace
    from embercoach.analysis.project.module import Module

    #: From a subscript or an attribute, and what it may be of, to what it may be.
    Step = Callable[["Sources", "Source", list["Source"]], list["Source"] | None]

#: Expressions that are looked at for one question, and calls inside of each other.
MOST_STEPS, MOST_CALLS = 48, 4
#: Steps for the containers of one question.
MOST_NESTED_STEPS = 192
_SAME_RESULT = frozenset(("same", "compile", "checkpoint"))  # transforms


class Source(Struct, frozen=True, eq=False):
    """An expression in a statement of a function; of a call of it, if ``call`` is known."""

    node: cst.BaseExpression
    statement: cst.CSTNode
    function: FunctionInfo | None
    module: Module
    call: Source | None = None

    def at(self, node: cst.BaseExpression) -> Source:
        """Another expression of the same statement."""
        return Source(node, self.statement, self.function, self.module, self.call)

    def moved(self, node: cst.BaseExpression, statement: cst.CSTNode) -> Source:
        """An expression of another statement of the same function."""
        return Source(node, statement, self.function, self.module, self.call)

    def elsewhere(
        self,
        node: cst.BaseExpression,
        statement: cst.CSTNode,
        function: FunctionInfo | None,
        module: Module,
    ) -> Source:
        """An expression of another function or file, of no call in particular."""
        return Source(node, statement, function, module)

    def called(
        self, node: cst.BaseExpression, statement: cst.CSTNode, function: FunctionInfo
    ) -> Source:
        """An expression of the function that this one, a call, calls."""
        return Source(node, statement, function, function.module, self)

    @property
    def depth(self) -> int:
        """How many calls inside of each other it is in."""
        return 0 if self.call is None else 1 + self.call.depth


class Callee(NamedTuple):
    """A function that a call may call; ``is_bound`` if an instance comes first."""

    function: FunctionInfo
    is_bound: bool


class LibraryCall(NamedTuple):
    """A call of MLX: the function's name, and the array that it is given first."""

    name: str
    array: Source | None


class Sources:
    """The sources of the values of one analysed file."""

    def __init__(self, module: Module) -> None:
        """Collect the calls of the file."""
        self.module = module
        self._ends: dict[tuple[object, ...], list[Source]] = {}
        self._nested = 0
        self._steps = 0  # of this question, those of containers among them
        self._calls = calls_of(module)
        self._callees: dict[cst.CSTNode, list[Callee]] = {}
        self._callers: dict[FunctionInfo, list[LocalCall | ProjectCall]] = {}
        for fact in module.facts():
            if type(fact) is LocalCall or type(fact) is ProjectCall:
                found = Callee(fact.function, fact.is_bound)
                self._callees.setdefault(fact.node, []).append(found)
                self._callers.setdefault(fact.function, []).append(fact)

    def callers(self, function: FunctionInfo) -> list[LocalCall | ProjectCall]:
        """The calls of a function in this file."""
        return self._callers.get(function, [])

    def of(self, fact: Fact, node: cst.BaseExpression) -> Source:
        """An expression of a fact of this file."""
        return Source(node, fact.place.statement, fact.place.function, self.module)

    def at_place(self, node: cst.BaseExpression, place: FactPlace) -> Source:
        """An expression of a place in this file."""
        return Source(node, place.statement, place.function, self.module)

    def ends(self, source: Source, *, through_callers: bool = False) -> list[Source]:
        """The expressions that compute a value: all alternatives, none if there are too many.

        Args:
            source: the expression that is asked for.
            through_callers: parameters are what the calls in this file pass.
        """
        if self._nested:  # in the steps that are left
            return self._followed(source, through_callers=through_callers)
        key = source.node, source.statement, source.call, through_callers
        known = self._ends.get(key)
        if known is None:
            known = self._ends[key] = self._followed(source, through_callers=through_callers)
        return known

    def _followed(self, source: Source, *, through_callers: bool) -> list[Source]:
        pending = [source]
        found: list[Source] = []
        seen: set[tuple[int, int]] = set()
        while pending:
            current = pending.pop()
            key = id(current.node), id(current.call)
            if key in seen:
                continue
            seen.add(key)
            is_new = self._nested == 0 and len(seen) == 1
            self._steps = 1 if is_new else self._steps + 1
            if len(seen) > MOST_STEPS or self._steps > MOST_NESTED_STEPS:
                return []
            further = self._step(current, through_callers=through_callers)
            if further is None:
                found.append(current)
            else:
                pending += further
        return found

    def library_call(self, source: Source) -> LibraryCall | None:
        """Return the function of MLX that an expression calls, a method of an array among them."""
        node = source.node
        if not isinstance(node, cst.Call):
            return None
        callee = self._callee(source, node)
        first = node.args[0] if node.args and not node.args[0].star else None
        array = None if first is None else source.at(first.value)
        if isinstance(callee, Symbol) and callee.name.startswith("mlx."):
            return LibraryCall(callee.name, array)
        if isinstance(callee, LibraryObject):
            name = last_layer(self, source.at(node.func), callee.cls)
            return LibraryCall(name, array)
        is_method = isinstance(callee, BoundMember) and as_array(callee.owner) is not None
        if is_method and isinstance(node.func, cst.Attribute):
            return LibraryCall(f"mlx.core.{node.func.attr.value}", source.at(node.func.value))
        return None

    def value(self, source: Source) -> Value:
        """The value of an expression of globals, attributes and annotated parameters."""
        info = source.function
        with suppress(WorkExceededError):
            outer = source.module.frame if info is None else info.closure or source.module.frame
            frame = Frame(source.module, info, outer, record=False)
            frame.statement = source.statement
            if info is not None:
                names = set(names_below(source.node))
                for parameter in info.parameters:
                    if parameter.name in names:
                        frame.names[parameter.name] = parameter_value(info, parameter, None)
                if info.is_method and info.cls is not None and info.parameters:
                    frame.names[info.parameters[0].name] = Instance(info.cls)
            return evaluate(frame, source.node)
        return UNKNOWN

    def _callee(self, source: Source, node: cst.Call) -> Value:
        if source.module is self.module:
            fact = self._calls.get(node)
            return UNKNOWN if fact is None else fact.callee
        return self.value(source.at(node.func))

    def callees(self, source: Source) -> list[Callee]:
        """The functions of the project that an expression calls."""
        node = source.node
        if not isinstance(node, cst.Call):
            return []
        found = self._callees.get(node) if source.module is self.module else None
        return found or list(_functions(self._callee(source, node)))

    def _step(self, source: Source, *, through_callers: bool) -> list[Source] | None:
        """The next expressions to look at, None where there is nothing to follow."""
        node = source.node
        if isinstance(node, cst.Name):
            return self._bound(source, node.value, through_callers=through_callers)
        if isinstance(node, cst.Call):
            return self._returned(source)
        if isinstance(node, cst.Attribute):
            return held_sources.own_attribute(source, node) or self._held(
                source, node.value, held_sources.attribute, through_callers=through_callers
            )
        if isinstance(node, cst.Subscript):
            return self._held(
                source, node.value, held_sources.item, through_callers=through_callers
            )
        if isinstance(node, cst.IfExp):
            return [source.at(node.body), source.at(node.orelse)]
        return None

    def _held(
        self, source: Source, base: cst.BaseExpression, step: Step, *, through_callers: bool
    ) -> list[Source] | None:
        """Return the values that dictionaries and objects hold, those that ``base`` may be."""
        if self._nested >= held_sources.MOST_NESTED:
            return None
        self._nested += 1
        try:
            bases = self.ends(source.at(base), through_callers=through_callers)
            return step(self, source, bases)
        finally:
            self._nested -= 1

    def _bound(self, source: Source, name: str, *, through_callers: bool) -> list[Source] | None:
        function, statement = source.function, source.statement
        scope = scope_of(source.module, function)
        reaching = scope.reaching
        if name not in reaching.bindings:
            return held_sources.outer(source, name)
        if function is not None and isinstance(function.node, cst.Lambda):
            bindings: tuple[Binding, ...] | None = tuple(reaching.bindings[name])
        else:
            bindings = reaching.before(statement, name)
        found: list[Source] = []
        for binding in bindings or ():
            further: list[Source] | None = None
            if binding.kind == "parameter":
                further = self._arguments(source, name, through_callers=through_callers)
            elif binding.kind == "unpacked":
                further = self._item(source, binding)
            elif binding.kind == "opaque":
                further = held_sources.imported(source.moved(source.node, binding.statement), name)
            elif binding.kind == "assigned" and binding.value is not None:
                further = [source.moved(binding.value, binding.statement)]
            if further is None:
                return None
            found += further
        return found or None

    def _arguments(
        self, source: Source, name: str, *, through_callers: bool
    ) -> list[Source] | None:
        """The values of a parameter: the argument of the call, or of all calls in this file."""
        function = source.function
        assert function is not None
        if source.call is not None:
            calls = [source.call]
        elif through_callers and source.module is self.module:
            calls = [self.of(call, call.node) for call in self.callers(function)[:MOST_STEPS]]
        else:
            return None
        found: list[Source] = []
        for call in calls:
            callee = next((c for c in self.callees(call) if c.function is function), None)
            given = None if callee is None else argument_of(call, callee, name)
            if given is None:
                return None
            found.append(given)
        return found or None

    def _item(self, source: Source, binding: Binding) -> list[Source] | None:
        """The item of a returned tuple that one of several targets is assigned."""
        index = _target_index(binding)
        if index is None or binding.value is None or source.depth >= MOST_CALLS:
            return None
        found: list[Source] = []
        value = source.moved(binding.value, binding.statement)
        wholes = [value] if isinstance(value.node, cst.Tuple) else self._returned(value)
        for whole in wholes or ():
            elements = whole.node.elements if isinstance(whole.node, cst.Tuple) else ()
            if len(elements) <= index or any(isinstance(e, cst.StarredElement) for e in elements):
                return None
            found.append(whole.at(elements[index].value))
        return found or None

    def _returned(self, source: Source) -> list[Source] | None:
        """The results of the functions that an expression calls."""
        if source.depth >= MOST_CALLS:
            return None
        found: list[Source] = []
        for callee in self.callees(source):
            results = held_sources.returned_by(callee.function)
            if not results:
                return None
            module = callee.function.module
            found += [Source(v, s, callee.function, module, source) for v, s in results]
        return found or None


def _functions(callee: Value) -> Iterator[Callee]:
    """The functions of the project that calling a value calls, if it is known to call no others."""
    while isinstance(callee, Transformed) and callee.transform in _SAME_RESULT:
        callee = callee.inner
    if isinstance(callee, Function):
        yield Callee(callee.info, callee.bound is not None)
    elif isinstance(callee, Instance):
        method = find_method(callee.info, "__call__")
        if method is not None:
            yield Callee(method, True)


def argument_of(call: Source, callee: Callee, name: str) -> Source | None:
    """The argument of a call for a parameter, or the parameter's default."""
    node, function = call.node, callee.function
    if not isinstance(node, cst.Call):
        return None
    passed = written_arguments(node, function, is_bound=callee.is_bound)
    if passed is None:
        return None
    if name in passed:
        return call.at(passed[name])
    default = _defaults(function).get(name)
    if default is None:
        return None
    return Source(default, function.node, function.outer, function.module)


@kept_for_file
def _defaults(function: FunctionInfo) -> dict[str, cst.BaseExpression]:
    return {p.name: p.default for p in function.parameters if p.default is not None}


def _target_index(binding: Binding) -> int | None:
    statement = binding.statement
    targets = statement.targets if isinstance(statement, cst.Assign) else ()
    if len(targets) != 1 or not isinstance(targets[0].target, (cst.Tuple, cst.List)):
        return None
    for index, element in enumerate(targets[0].target.elements):
        if isinstance(element, cst.StarredElement):
            return None
        if isinstance(element.value, cst.Name) and element.value.value == binding.name:
            return index
    return None


def reaching_of(source: Source) -> Reaching:
    """The bindings of the scope of an expression."""
    return scope_of(source.module, source.function).reaching


def sources_of(module: Module) -> Sources:
    """Return the sources of the file that is checked."""
    if module not in _known:
        if len(_known) >= _MOST_MODULES:
            _known.clear()
        _known[module] = Sources(module)
    return _known[module]


#: Of the file that is checked and of some that it imports: facts lead back to the modules, which
#: they would keep.
_MOST_MODULES = 4
_known: WeakKeyDictionary[Module, Sources] = WeakKeyDictionary()
