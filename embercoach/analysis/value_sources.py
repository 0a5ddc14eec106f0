"""Sources of values: the expressions that compute a value, in whatever function or file they are.

Names, attributes that are set once, results of functions and methods, and parameters are followed.
Checks ask for few expressions of a file; nothing is executed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import libcst as cst

from embercoach.analysis.calls.parameters import parameter_value
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.facts.facts import LocalCall, ProjectCall, calls_of
from embercoach.analysis.facts.scopes import assigned_attributes, scope_of, written_arguments
from embercoach.analysis.syntax.trees import SCOPES, dotted, names_below, small_statements, walk
from embercoach.analysis.values.inheritance import find_method
from embercoach.analysis.values.joins import as_array
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    BoundMember,
    Function,
    Instance,
    LibraryObject,
    Symbol,
    Transformed,
    Value,
)
from embercoach.analysis.work import WorkExceededError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.facts.reaching import Binding, Reaching
    from embercoach.analysis.project.module import Module

#: Expressions that are looked at for one question, and calls inside of each other.
MOST_STEPS, MOST_CALLS = 48, 4
_SAME_RESULT = frozenset(("same", "compile", "checkpoint"))  # transforms


@dataclass(frozen=True, slots=True, eq=False)
class Source:
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
        self._module = module
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
        return Source(node, fact.place.statement, fact.place.function, self._module)

    def ends(self, source: Source, *, through_callers: bool = False) -> list[Source]:
        """The expressions that compute a value: all alternatives, none if there are too many.

        Args:
            source: the expression that is asked for.
            through_callers: parameters are what the calls in this file pass.
        """
        pending = [source]
        found: list[Source] = []
        seen: set[tuple[int, int]] = set()
        while pending:
            current = pending.pop()
            key = id(current.node), id(current.call)
            if key in seen:
                continue
            seen.add(key)
            if len(seen) > MOST_STEPS:
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
            return LibraryCall(callee.cls, array)
        is_method = isinstance(callee, BoundMember) and as_array(callee.owner) is not None
        if is_method and isinstance(node.func, cst.Attribute):
            return LibraryCall(f"mlx.core.{node.func.attr.value}", source.at(node.func.value))
        return None

    def value(self, source: Source) -> Value:
        """The value of an expression of globals, attributes and annotated parameters."""
        info = source.function
        with suppress(WorkExceededError):
            frame = source.module.frame
            if info is not None:
                outer = info.closure or source.module.frame
                frame = Frame(source.module, info, outer, record=False)
                frame.statement = source.statement
                names = set(names_below(source.node))
                for parameter in info.parameters:
                    if parameter.name in names:
                        frame.names[parameter.name] = parameter_value(info, parameter, None)
                if info.is_method and info.cls is not None and info.parameters:
                    frame.names[info.parameters[0].name] = Instance(info.cls)
                return evaluate(frame, source.node)
        return UNKNOWN

    def _callee(self, source: Source, node: cst.Call) -> Value:
        if source.module is self._module:
            fact = self._calls.get(node)
            return UNKNOWN if fact is None else fact.callee
        return self.value(source.at(node.func))

    def callees(self, source: Source) -> list[Callee]:
        """The functions of the project that an expression calls."""
        node = source.node
        if not isinstance(node, cst.Call):
            return []
        found = self._callees.get(node) if source.module is self._module else None
        return found or list(_functions(self._callee(source, node)))

    def _step(self, source: Source, *, through_callers: bool) -> list[Source] | None:
        """The next expressions to look at, None where there is nothing to follow."""
        node = source.node
        if isinstance(node, cst.Name):
            return self._bound(source, node.value, through_callers=through_callers)
        if isinstance(node, cst.Call):
            return self._returned(source)
        if isinstance(node, cst.Attribute):
            return _attribute(source, node)
        if isinstance(node, cst.IfExp):
            return [source.at(node.body), source.at(node.orelse)]
        return None

    def _bound(self, source: Source, name: str, *, through_callers: bool) -> list[Source] | None:
        function, statement = source.function, source.statement
        scope = scope_of(source.module, function)
        reaching = scope.reaching
        if reaching is None:
            return None
        if name not in reaching.bindings:
            return _outer(source, name)
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
        elif through_callers and source.module is self._module:
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
        for whole in self._returned(source.moved(binding.value, binding.statement)) or ():
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
            results = returned_by(callee.function)
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
    if not isinstance(node, cst.Call) or any(argument.star for argument in node.args):
        return None
    given = written_arguments(node, function, is_bound=callee.is_bound).get(name)
    if given is not None:
        return call.at(given)
    parameter = next((p for p in function.parameters if p.name == name), None)
    if parameter is None or parameter.default is None:
        return None
    return Source(parameter.default, function.node, function.outer, function.module)


def returned_by(function: FunctionInfo) -> list[tuple[cst.BaseExpression, cst.CSTNode]]:
    """The results of a function, with the statements; none where it may return something else."""
    node = function.node
    if isinstance(node, cst.Lambda):
        return [(node.body, node)]
    if function.is_async or function.name == "__init__":
        return []
    found: list[tuple[cst.BaseExpression, cst.CSTNode]] = []
    for statement in small_statements(node.body):
        if isinstance(statement, cst.Return):
            if statement.value is None:
                return []
            found.append((statement.value, statement))
    if found and any(isinstance(inner, cst.Yield) for inner in walk(node.body, SCOPES)):
        return []
    return found


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


def _outer(source: Source, name: str) -> list[Source] | None:
    """The value of a name of a scope around, if it is bound once."""
    function = source.function
    while function is not None:
        function = function.outer
        reaching = scope_of(source.module, function).reaching
        held = () if reaching is None else reaching.bindings.get(name, ())
        if not held:
            continue
        binding = held[0]
        if len(held) > 1 or binding.kind not in ("assigned", "parameter"):
            return None
        if binding.kind == "parameter":
            first = _first_statement(function)
            node = cst.ensure_type(source.node, cst.Name)
            return None if first is None else [Source(node, first, function, source.module)]
        if binding.value is None:
            return None
        return [Source(binding.value, binding.statement, function, source.module)]
    return None


def _first_statement(function: FunctionInfo | None) -> cst.CSTNode | None:
    if function is None or isinstance(function.node, cst.Lambda):
        return None
    return next(small_statements(function.node.body), None)


def _attribute(source: Source, node: cst.Attribute) -> list[Source] | None:
    """The value of ``self.<name>``: a property's result, or that of the one assignment of it."""
    function = source.function
    path = dotted(node)
    if path is None or function is None or function.cls is None or path.count(".") != 1:
        return None
    owner, _, name = path.partition(".")
    if not function.is_method or owner != function.parameters[0].name:
        return None
    method = function.cls.methods.get(name)
    if method is not None:
        if not method.is_property or source.depth >= MOST_CALLS:
            return None
        results = returned_by(method)
        return [Source(v, s, method, method.module, source) for v, s in results] or None
    if assigned_attributes(source.module)[name] != 1:
        return None
    setters = function.cls.setters.get(name, ())
    if len(setters) != 1 or isinstance(setters[0].node, cst.Lambda):
        return None
    for statement in small_statements(setters[0].node.body):
        if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
            target = statement.targets[0].target
            if isinstance(target, cst.Attribute) and dotted(target) == f"{owner}.{name}":
                return [Source(statement.value, statement, setters[0], source.module)]
    return None


def reaching_of(source: Source) -> Reaching | None:
    """The bindings of the scope of an expression."""
    return scope_of(source.module, source.function).reaching


def sources_of(module: Module) -> Sources:
    """Return the sources of the file that is checked."""
    if module not in _known:
        _known.clear()
        _known[module] = Sources(module)
    return _known[module]


#: Of the file that is checked: facts lead back to the module, which they would keep.
_known: WeakKeyDictionary[Module, Sources] = WeakKeyDictionary()
