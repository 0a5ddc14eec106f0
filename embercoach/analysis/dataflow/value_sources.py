"""Sources of values: the expressions that compute a value, in whatever function or file they are.

Names, attributes that are set once, results of functions and methods, entries of dictionaries, and
parameters are followed. Checks ask for few expressions of a file; nothing is executed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst
from msgspec import Struct

from embercoach.analysis.calls.parameters import closure_of, parameter_value
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.scopes import (
    AssignedValue,
    assignment_counts,
    assignments_of,
    bindings_at,
    made_in_init,
    scope_of,
    written_arguments,
)
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.evaluate.imports import LIBRARIES
from embercoach.analysis.syntax.trees import SCOPES, dotted, evaluated
from embercoach.analysis.values.facts import Fact, FactPlace, LocalCall, ProjectCall, calls_of
from embercoach.analysis.values.inheritance import called_method, find_method, lineage
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    BoundMember,
    Class,
    Function,
    Instance,
    LibraryObject,
    ModuleRef,
    Symbol,
    Transformed,
    Value,
    as_array,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import MOST_CALLS, WorkExceededError

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.dataflow.reaching import Binding, Reaching
    from embercoach.analysis.project.module import Module

#: Expressions that are looked at for one question.
_MOST_EXPRESSIONS = 192
_SAME_RESULT = frozenset(("same", "compile", "checkpoint"))  # transforms
_SEQUENTIAL = frozenset(("mlx.nn.Sequential", "mlx.nn.layers.containers.Sequential"))


class Source(Struct, frozen=True, eq=False):
    """An expression in a statement of a function; of a call of it, if ``call`` is known."""

    node: cst.BaseExpression
    statement: cst.CSTNode
    function: FunctionInfo | None
    module: Module
    call: Source | None = None

    @property
    def place(self) -> FactPlace:
        """The place of the statement, for reports."""
        place = self.module.frame.place()
        return place._replace(statement=self.statement, function=self.function)

    def at(self, node: cst.BaseExpression) -> Source:
        """Another expression of the same statement."""
        return self.moved(node, self.statement)

    def moved(self, node: cst.BaseExpression, statement: cst.CSTNode) -> Source:
        """Return an expression of another statement of the same function."""
        return Source(node, statement, self.function, self.module, self.call)

    def results(self, function: FunctionInfo) -> list[Source] | None:
        """Get the results of a function that this expression calls; None if they are not known."""
        depth, call = 0, self.call
        while call is not None:
            depth, call = depth + 1, call.call
        results = returned_by(function) if depth < MOST_CALLS else []
        return [Source(v, s, function, function.module, self) for v, s in results] or None


class Callee(NamedTuple):
    """A function that a call may call; ``is_bound`` if an instance comes first."""

    function: FunctionInfo
    is_bound: bool

    def passed(self, call: Source) -> dict[str, cst.BaseExpression]:
        """Return the arguments of a call by parameters; none of a call with stars."""
        node = cst.ensure_type(call.node, cst.Call)
        return written_arguments(node, self.function, is_bound=self.is_bound) or {}


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
        self._steps = 0  # of the question at hand, those for containers among them
        self._calls = calls_of(module)
        self._callees: dict[cst.CSTNode, list[Callee]] = {}
        self._callers: dict[FunctionInfo, list[LocalCall | ProjectCall]] = {}
        for fact in module.facts():
            if type(fact) is LocalCall or type(fact) is ProjectCall:
                found = Callee(fact.function, fact.is_bound)
                self._callees.setdefault(fact.node, []).append(found)
                self._callers.setdefault(fact.function, []).append(fact)

    def callers(self, function: FunctionInfo) -> list[LocalCall | ProjectCall]:
        """Return the calls of a function in this file."""
        return self._callers.get(function, [])

    def of(self, fact: Fact, node: cst.BaseExpression) -> Source:
        """Return an expression of a fact of this file."""
        return self.at_place(node, fact.place)

    def at_place(self, node: cst.BaseExpression, place: FactPlace) -> Source:
        """Return an expression of a place in this file."""
        return Source(node, place.statement, place.function, self.module)

    def ends(self, source: Source, *, through_callers: bool = False) -> list[Source]:
        """Get the expressions that compute a value: all alternatives, none if there are too many.

        Args:
            source: the expression that is asked for.
            through_callers: parameters are what the calls in this file pass.
        """
        if self._steps:  # a part of another question, in the steps that are left
            return self._followed(source, through_callers=through_callers)
        key = source.node, source.statement, source.call, through_callers
        if key not in self._ends:
            try:
                self._ends[key] = self._followed(source, through_callers=through_callers)
            finally:
                self._steps = 0
        return self._ends[key]

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
            self._steps += 1
            if self._steps > _MOST_EXPRESSIONS:
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
        """Return the value of an expression of globals, attributes and annotated parameters."""
        return value_in(source.node, source.function, source.module, source.statement)

    def _callee(self, source: Source, node: cst.Call) -> Value:
        if source.module is self.module:
            fact = self._calls.get(node)
            return UNKNOWN if fact is None else fact.callee
        return self.value(source.at(node.func))

    def callees(self, source: Source) -> list[Callee]:
        """Return the functions of the project that an expression calls."""
        node = source.node
        if not isinstance(node, cst.Call):
            return []
        found = self._callees.get(node) if source.module is self.module else None
        return found or list(_functions(self._callee(source, node)))

    def _step(self, source: Source, *, through_callers: bool) -> list[Source] | None:
        """Return the next expressions to look at, None where there is nothing to follow."""
        node = source.node
        if isinstance(node, cst.Name):
            return self._bound(source, node.value, through_callers=through_callers)
        if isinstance(node, cst.Call):
            return self._returned(source)
        if isinstance(node, cst.Attribute):
            own = _own_attribute(source, node)
            if own is not None:
                return own
            bases = self.ends(source.at(node.value), through_callers=through_callers)
            return _attribute(self, source, node, bases)
        if isinstance(node, cst.Subscript):
            bases = self.ends(source.at(node.value), through_callers=through_callers)
            return _item(self, source, node, bases)
        if isinstance(node, cst.IfExp):
            return [source.at(node.body), source.at(node.orelse)]
        return None

    def _bound(self, source: Source, name: str, *, through_callers: bool) -> list[Source] | None:
        bound = bindings_at(name, source.statement, source.function, source.module)
        if bound is None:
            return None
        if bound.function is not source.function:  # of whatever call of the function around
            source = Source(source.node, source.statement, bound.function, source.module)
        found: list[Source] = []
        for binding in bound.bindings:
            further: list[Source] | None = None
            if binding.kind == "parameter":
                further = self._arguments(source, name, through_callers=through_callers)
            elif binding.kind == "unpacked":
                further = self._unpacked(source, binding)
            elif binding.kind == "opaque":
                further = _imported(source.moved(source.node, binding.statement), name)
            elif binding.kind == "assigned" and binding.value is not None:
                further = [source.moved(binding.value, binding.statement)]
            if further is None:
                return None
            found += further
        return found

    def _arguments(
        self, source: Source, name: str, *, through_callers: bool
    ) -> list[Source] | None:
        """Get the values of a parameter: the argument of the call, or of all calls in this file."""
        function = source.function
        assert function is not None
        if source.call is not None:
            calls = [source.call]
        elif through_callers and source.module is self.module:
            calls = [
                self.of(call, call.node) for call in self.callers(function)[:_MOST_EXPRESSIONS]
            ]
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

    def _unpacked(self, source: Source, binding: Binding) -> list[Source] | None:
        """Return the item of a returned tuple that one of several targets is assigned."""
        index = binding.index
        if index is None or binding.value is None:
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
        """Return the results of the functions that an expression calls."""
        found: list[Source] = []
        for callee in self.callees(source):
            results = source.results(callee.function)
            if results is None:
                return None
            found += results
        return found or None


def value_in(
    node: cst.BaseExpression,
    function: FunctionInfo | None,
    module: Module,
    statement: cst.CSTNode | None = None,
) -> Value:
    """Return the value of an expression of globals, attributes and annotated parameters."""
    with suppress(WorkExceededError):
        outer = module.frame if function is None else closure_of(function)
        frame = Frame(module, function, outer, record=False)
        frame.statement = node if statement is None else statement
        if function is not None:
            names = contents_of(node).names
            for parameter in function.parameters:
                if parameter.name in names:
                    frame.names[parameter.name] = parameter_value(function, parameter, None)
            if function.is_method and function.cls is not None and function.parameters:
                frame.names[function.parameters[0].name] = Instance(function.cls)
        return evaluate(frame, node)
    return UNKNOWN


def _functions(callee: Value) -> Iterator[Callee]:
    """The functions of the project that calling a value calls, if it is known to call no others."""
    while isinstance(callee, Transformed) and callee.transform in _SAME_RESULT:
        callee = callee.inner
    if isinstance(callee, Function):
        yield Callee(callee.info, callee.bound is not None)
    elif isinstance(callee, Instance):
        method = called_method(callee.info)
        if method is not None:
            yield Callee(method, True)


def argument_of(call: Source, callee: Callee, name: str) -> Source | None:
    """Return the argument of a call for a parameter, or the parameter's default."""
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


def default_of(source: Source) -> Source | None:
    """Return the default of a parameter, None for anything else."""
    function, node = source.function, source.node
    if function is None or not isinstance(node, cst.Name):
        return None
    parameters = (p for p in function.parameters if p.name == node.value)
    default = next((p.default for p in parameters), None)
    return None if default is None else source.at(default)


def constructor(sources: Sources, callee: Source) -> Source | None:
    """Return the expression that made a layer, the last one of an ``nn.Sequential``."""
    for _ in range(MOST_CALLS):
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
    """Return the class of the layer that computes the result: the last one of ``nn.Sequential``."""
    made = constructor(sources, callee) if cls in _SEQUENTIAL else None
    last = None if made is None else sources.value(made)
    if isinstance(last, Symbol):
        return last.name
    return last.cls if isinstance(last, LibraryObject) else cls


def _own_attribute(source: Source, node: cst.Attribute) -> list[Source] | None:
    """Return the values of ``self.<name>``: a property's results, or those of its assignments."""
    owner, _, name = (dotted(node) or "").partition(".")
    bound = bindings_at(owner, source.statement, source.function, source.module)
    function = None if bound is None else bound.function
    if function is None or function.cls is None or not function.is_method or "." in name:
        return None
    if owner != function.parameters[0].name:
        return None
    method = function.cls.methods.get(name)
    if method is not None:
        return source.results(method) if method.is_property else None
    found = assigned_values(function.cls, name, source.module)
    return [Source(v, s, setter, source.module) for v, s, setter in found if v is not None] or None


def assigned_values(cls: ClassInfo, name: str, module: Module) -> tuple[AssignedValue, ...]:
    """Return the statements that assign a value to ``self.<name>``, but for None.

    None of them if other code, or a derived class, may assign to it, or a statement updates it.
    """
    found = assignments_of(cls, name)
    if not found or any(one.value is None for one in found):
        return ()
    paths, others = _assigned_paths(cls), _others(module)
    is_changed = len(found) != paths[f"{found[0].setter.parameters[0].name}.{name}"]
    if is_changed or others.assigned[name] or cls.name in others.bases:
        return ()
    return tuple(one for one in found if getattr(one.value, "value", None) != "None")


def is_set_once(cls: ClassInfo, name: str, module: Module) -> bool:
    """Return whether one statement of ``__init__`` alone assigns to ``self.<name>``."""
    return [one.setter.name for one in assigned_values(cls, name, module)] == ["__init__"]


@kept_for_file
def _assigned_paths(cls: ClassInfo) -> Counter[str | None]:
    """Return how often the text of a class assigns to each path."""
    return Counter(map(dotted, contents_of(cls.node).targets))


class _Others(NamedTuple):
    """Names of attributes that are assigned by other names than ``self``, and of base classes."""

    assigned: Counter[str]
    bases: frozenset[str]


@kept_for_file
def _others(module: Module) -> _Others:
    contents = contents_of(module.tree)
    attributes = (target for target in contents.targets if isinstance(target, cst.Attribute))
    assigned = Counter(a.attr.value for a in attributes if dotted(a.value) != "self")
    bases = (base for node in contents.of(cst.ClassDef) for base in node.bases)
    names = ((dotted(base.value) or "").rpartition(".")[2] for base in bases)
    return _Others(assigned, frozenset(names))


#: Methods that change which entries a dictionary or a list has.
_CHANGES = frozenset(
    ("pop", "popitem", "clear", "update", "setdefault", "append", "extend", "insert", "remove")
)
_FIELDS = frozenset(("field", "dataclasses.field"))
_PLAIN_OBJECTS = frozenset(("types.SimpleNamespace", "argparse.Namespace"))


def _item(
    sources: Sources, source: Source, node: cst.Subscript, bases: list[Source]
) -> list[Source] | None:
    """The value under a literal key or index of each of several dictionaries, lists and tuples."""
    key = _literal(node)
    owner = (dotted(node.value) or "").rpartition(".")[2]
    if key is None or _may_change(source.module, owner, key):
        return None
    found: list[Source] = []
    for base in bases:
        held = _entry(sources, base, key)
        if held is None or _may_change(base.module, owner, key):
            return None
        found.append(held)
    return found or None


def _literal(node: cst.Subscript) -> str | int | None:
    part = node.slice[0].slice if len(node.slice) == 1 else None
    inner = part.value if isinstance(part, cst.Index) else None
    value = evaluated(inner) if isinstance(inner, (cst.SimpleString, cst.Integer)) else None
    return value if isinstance(value, (str, int)) else None


def _entry(sources: Sources, base: Source, key: str | int) -> Source | None:
    node = base.node
    if isinstance(node, (cst.List, cst.Tuple)) and isinstance(key, int):
        has_star = any(isinstance(e, cst.StarredElement) for e in node.elements)
        inside = not has_star and key < len(node.elements)
        return base.at(node.elements[key].value) if inside else None
    if isinstance(node, cst.Dict):
        for element in reversed(node.elements):
            if not isinstance(element, cst.DictElement):
                return None
            name = element.key
            literal = isinstance(name, (cst.SimpleString, cst.Integer))
            if literal and evaluated(name) == key:  # type: ignore[arg-type]
                return base.at(element.value)
        return None
    if isinstance(node, cst.Call) and isinstance(key, str):
        callee = sources.value(base.at(node.func))
        if callee == Symbol("builtins.dict") and not any(a.star for a in node.args):
            return _keyword(base, node, key)
    return None


def _keyword(base: Source, node: cst.Call, name: str) -> Source | None:
    for argument in node.args:
        if argument.keyword is not None and argument.keyword.value == name:
            return base.at(argument.value)
    return None


def _may_change(module: Module, owner: str, key: str | int) -> bool:
    """Return whether a file assigns under a key, or changes a container of this name."""
    keys, owners = _changed(module)
    return key in keys or owner in owners


def changed_keys(module: Module) -> frozenset[str | int]:
    """Return the literal keys that a file assigns under, or deletes."""
    return _changed(module)[0]


def changed_containers(module: Module) -> frozenset[str]:
    """Get the last names of the dictionaries and lists that a file changes: ``state.append(x)``."""
    return _changed(module)[1]


@kept_for_file
def _changed(module: Module) -> tuple[frozenset[str | int], frozenset[str]]:
    """The literal keys that a file assigns under, and the last names of what else it changes."""
    contents = contents_of(module.tree)
    items = [target for target in contents.targets if isinstance(target, cst.Subscript)]
    methods = (call.func for call in contents.calls if isinstance(call.func, cst.Attribute))
    changed = [method.value for method in methods if method.attr.value in _CHANGES]
    # Of ``config["optimizer"].pop("lr")`` the key as well.
    changed_items = [node for node in changed if isinstance(node, cst.Subscript)]
    keys = {key for node in (*items, *changed_items) if (key := _literal(node)) is not None}
    owners = [node.value for node in items if _literal(node) is None]
    owners += [n for n in changed if not isinstance(n, cst.Subscript) or _literal(n) is None]
    names = {(dotted(owner) or "").rpartition(".")[2] for owner in owners}
    return frozenset(keys), frozenset(names - {""})


def _attribute(
    sources: Sources, source: Source, node: cst.Attribute, bases: list[Source]
) -> list[Source] | None:
    """Return the value of an attribute of objects that are made once, or of other files."""
    name = node.attr.value
    owner = sources.value(source.at(node.value))
    if isinstance(owner, ModuleRef):
        return _global_of(source, owner.module, name)
    found: list[Source] = []
    for base in bases:
        held = _field(sources, base, name)
        if held is None or assignment_counts(source.module)[name] > 1:
            return None
        found.append(held)
    return found or None


def _field(sources: Sources, base: Source, name: str) -> Source | None:
    """Return the value of an attribute of an object that a call makes."""
    node = base.node
    if not isinstance(node, cst.Call) or any(a.star for a in node.args):
        return None
    made = sources.value(base.at(node.func))
    if isinstance(made, Symbol) and made.name in _PLAIN_OBJECTS:
        is_set = assignment_counts(base.module)[name] > 0
        return None if is_set else _keyword(base, node, name)
    if not isinstance(made, Class):
        return None
    init = find_method(made.info, "__init__")
    if init is None:
        return _of_dataclass(base, node, made.info, name)
    value = made_in_init(made.info, name)
    if value is None or assignment_counts(init.module)[name] != 1 or init.cls is not made.info:
        return None
    statement = next(one.statement for one in assignments_of(made.info, name) if one.value is value)
    return Source(value, statement, init, init.module, base)


def _of_dataclass(base: Source, node: cst.Call, info: ClassInfo, name: str) -> Source | None:
    owners = {field: cls for cls in reversed([*lineage(info)]) for field in cls.annotations}
    cls = owners.get(name)
    if cls is None or assignment_counts(info.module)[name] > 0:
        return None
    given = _keyword(base, node, name)
    places = [a.value for a in node.args if a.keyword is None]
    index = list(owners).index(name)
    if given is not None or index < len(places):
        return given or base.at(places[index])
    return _default(cls, name)


def field_default(source: Source) -> Source | None:
    """Return the default of a field ``self.<name>`` that nothing in the file passes or assigns."""
    cls, node = None if source.function is None else source.function.cls, source.node
    if cls is None or not isinstance(node, cst.Attribute):
        return None
    owner, name = dotted(node.value), node.attr.value
    known = source.module
    if owner != "self" or (cls, name) in known.fields or assignment_counts(known)[name]:
        return None
    return _default(cls, name)


def _default(cls: ClassInfo, name: str) -> Source | None:
    """Return the default of a field, or what its ``default_factory`` returns."""
    for node in contents_of(cls.node.body).of(cst.AnnAssign):
        if dotted(node.target) != name:
            continue
        value = node.value
        if isinstance(value, cst.Call) and dotted(value.func) in _FIELDS:
            given = {a.keyword.value: a.value for a in value.args if a.keyword is not None}
            factory = given.get("default_factory")
            value = factory.body if isinstance(factory, cst.Lambda) else given.get("default")
        return None if value is None else Source(value, cls.node, None, cls.module)
    return None


def _global_of(source: Source, module: Module, name: str) -> list[Source] | None:
    """Return the value of a top-level name of another file, if it is bound once."""
    held = scope_of(module, None).reaching.bindings.get(name, ())
    if len(held) != 1 or any(name in f.global_names for f in module.functions):
        return None
    value, statement = held[0].value, held[0].statement
    if held[0].kind == "assigned" and value is not None:
        return [Source(value, statement, None, module)]
    return _imported(Source(source.node, statement, None, module), name)


def _imported(source: Source, name: str) -> list[Source] | None:
    """Get the value of a name that ``from other import name`` binds, for its import statement."""
    node = source.statement
    if not isinstance(node, cst.ImportFrom) or isinstance(node.names, cst.ImportStar):
        return None
    level = len(node.relative)
    origin = dotted(node.module) or "" if node.module is not None else ""
    if level == 0 and origin.partition(".")[0] in LIBRARIES:
        return None
    module = source.module.import_module(origin, level)
    for alias in node.names:
        bound = alias.asname.name if alias.asname is not None else alias.name
        if module is not None and dotted(bound) == name and isinstance(alias.name, cst.Name):
            return _global_of(source, module, alias.name.value)
    return None


def returned_by(function: FunctionInfo) -> list[tuple[cst.BaseExpression, cst.CSTNode]]:
    """The results of a function, with the statements; none where it may return something else."""
    node = function.node
    if isinstance(node, cst.Lambda):
        return [(node.body, node)]
    if function.is_async or function.name == "__init__":
        return []
    found: list[tuple[cst.BaseExpression, cst.CSTNode]] = []
    contents = contents_of(node.body, SCOPES)
    for statement in contents.of(cst.Return):
        if statement.value is None:
            return []
        found.append((statement.value, statement))
    return [] if contents.of(cst.Yield) else found


def reaching_of(source: Source) -> Reaching:
    """Return the bindings of the scope of an expression."""
    return scope_of(source.module, source.function).reaching


@kept_for_file
def sources_of(module: Module) -> Sources:
    """Return the sources of the file that is checked."""
    return Sources(module)
