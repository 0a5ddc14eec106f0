"""Sources of values that dictionaries, objects, attributes and other files hold."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.scopes import assigned_attributes, made_in_init, scope_of
from embercoach.analysis.evaluate.imports import LIBRARIES
from embercoach.analysis.syntax.trees import (
    SCOPES,
    all_statements,
    dotted,
    evaluated,
    small_statements,
    targets_of,
    walk,
)
from embercoach.analysis.values.inheritance import find_method, lineage
from embercoach.analysis.values.lattice import Class, ModuleRef, Symbol

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.dataflow.value_sources import Source, Sources
    from embercoach.analysis.project.module import Module


class AssignedValue(NamedTuple):
    """The value of an attribute, the statement that assigns it, and its method."""

    value: cst.BaseExpression
    statement: cst.CSTNode
    setter: FunctionInfo


def assigned_values(
    cls: ClassInfo, owner: str, name: str, module: Module
) -> tuple[AssignedValue, ...]:
    """The values that a class's methods assign to ``self.<name>``, but for None.

    None of them if other code, or a derived class, may assign to it, or a statement updates it.
    """
    found = _of_class(cls, owner, name)
    if found:  # asked first: the whole file is walked for the others
        others = _others(module)
        if others.assigned[name] or cls.name in others.bases:
            return ()
    return found


def is_set_once(cls: ClassInfo, owner: str, name: str, module: Module) -> bool:
    """Return whether one statement of ``__init__`` alone assigns to ``self.<name>``."""
    setters = [setter.name for setter in cls.setters.get(name, ())]
    if setters != ["__init__"] or _assigned_paths(cls)[f"{owner}.{name}"] != 1:
        return False
    others = _others(module)
    return not others.assigned[name] and cls.name not in others.bases


@lru_cache(maxsize=64)
def _of_class(cls: ClassInfo, owner: str, name: str) -> tuple[AssignedValue, ...]:
    path = f"{owner}.{name}"
    found: list[AssignedValue] = []
    for setter in cls.setters.get(name, ()):
        if isinstance(setter.node, cst.Lambda):
            return ()
        for statement in small_statements(setter.node.body):
            if path in map(dotted, targets_of(statement)):
                value = _value_of(statement)
                if value is None:
                    return ()
                found.append(AssignedValue(value, statement, setter))
    if len(found) != _assigned_paths(cls)[path]:
        return ()
    return tuple(one for one in found if getattr(one.value, "value", None) != "None")


def _value_of(statement: cst.CSTNode) -> cst.BaseExpression | None:
    """The value that a statement assigns to one target."""
    if isinstance(statement, cst.AnnAssign):
        return statement.value
    if not isinstance(statement, cst.Assign) or len(statement.targets) > 1:
        return None
    is_tuple = isinstance(statement.targets[0].target, (cst.Tuple, cst.List))
    return None if is_tuple else statement.value


@lru_cache(maxsize=16)
def _assigned_paths(cls: ClassInfo) -> Counter[str | None]:
    """How often the text of a class assigns to each path."""
    targets = (target for node in all_statements(cls.node) for target in targets_of(node))
    return Counter(map(dotted, targets))


class _Others(NamedTuple):
    """Names of attributes that are assigned by other names than ``self``, and of base classes."""

    assigned: Counter[str]
    bases: frozenset[str]


@lru_cache(maxsize=4)
def _others(module: Module) -> _Others:
    assigned: Counter[str] = Counter()
    bases: set[str] = set()
    for node in all_statements(module.tree):
        if type(node) is cst.ClassDef:
            bases.update((dotted(base.value) or "").rpartition(".")[2] for base in node.bases)
        for target in targets_of(node):
            if type(target) is cst.Attribute and dotted(target.value) != "self":
                assigned[target.attr.value] += 1
    return _Others(assigned, frozenset(bases))


#: Calls inside of each other that are followed.
MOST_CALLS = 4
#: Containers inside of each other that are looked into.
MOST_NESTED = 4
#: Methods that change which entries a dictionary or a list has.
_CHANGES = frozenset(
    ("pop", "popitem", "clear", "update", "setdefault", "append", "extend", "insert", "remove")
)
_WRITES = frozenset((cst.AssignTarget, cst.AugAssign, cst.Del))
_FIELDS = frozenset(("field", "dataclasses.field"))
_PLAIN_OBJECTS = frozenset(("types.SimpleNamespace", "argparse.Namespace"))


def item(sources: Sources, source: Source, bases: list[Source]) -> list[Source] | None:
    """The value under a literal key or index of each of several dictionaries, lists and tuples."""
    node = cst.ensure_type(source.node, cst.Subscript)
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
    """The literal keys that a file assigns under, or deletes."""
    return _changed(module)[0]


def changed_containers(module: Module) -> frozenset[str]:
    """The last names of the dictionaries and lists that a file changes: ``state.append(x)``."""
    return _changed(module)[1]


@lru_cache(maxsize=8)
def _changed(module: Module) -> tuple[frozenset[str | int], frozenset[str]]:
    """The literal keys that a file assigns under, and the last names of what else it changes."""
    keys: set[str | int] = set()
    owners: set[str] = set()
    for node in walk(module.tree):
        if type(node) in _WRITES:
            target: cst.CSTNode = node.target  # type: ignore[attr-defined]
            if isinstance(target, cst.Subscript):
                key = _literal(target)
                if key is None:
                    owners.add((dotted(target.value) or "").rpartition(".")[2])
                else:
                    keys.add(key)
        elif type(node) is cst.Call and type(node.func) is cst.Attribute:
            changed = node.func.value if node.func.attr.value in _CHANGES else None
            key = _literal(changed) if isinstance(changed, cst.Subscript) else None
            if key is not None:  # ``config["optimizer"].pop("lr")``
                keys.add(key)
            elif changed is not None:
                owners.add((dotted(changed) or "").rpartition(".")[2])
    return frozenset(keys), frozenset(owners - {""})


def attribute(sources: Sources, source: Source, bases: list[Source]) -> list[Source] | None:
    """The value of an attribute of objects that are made once, or of other files."""
    node = cst.ensure_type(source.node, cst.Attribute)
    name = node.attr.value
    owner = sources.value(source.at(node.value))
    if isinstance(owner, ModuleRef):
        return global_of(source, owner.module, name)
    found: list[Source] = []
    for base in bases:
        held = _field(sources, base, name)
        if held is None or assigned_attributes(source.module)[name] > 1:
            return None
        found.append(held)
    return found or None


def _field(sources: Sources, base: Source, name: str) -> Source | None:
    """The value of an attribute of an object that a call makes."""
    node = base.node
    if not isinstance(node, cst.Call) or any(a.star for a in node.args):
        return None
    made = sources.value(base.at(node.func))
    if isinstance(made, Symbol) and made.name in _PLAIN_OBJECTS:
        is_set = assigned_attributes(base.module)[name] > 0
        return None if is_set else _keyword(base, node, name)
    if not isinstance(made, Class):
        return None
    init = find_method(made.info, "__init__")
    if init is None:
        return _of_dataclass(base, node, made.info, name)
    value = made_in_init(made.info, name)
    if value is None or assigned_attributes(init.module)[name] != 1 or init.cls is not made.info:
        return None
    return base.called(value, _statement_of(init.node, value), init)


def _statement_of(body: cst.CSTNode, value: cst.CSTNode) -> cst.CSTNode:
    """The assignment of a value."""
    kinds = (cst.Assign, cst.AnnAssign)
    return next((n for n in walk(body) if isinstance(n, kinds) and n.value is value), body)


def _of_dataclass(base: Source, node: cst.Call, info: ClassInfo, name: str) -> Source | None:
    owners = {field: cls for cls in reversed([*lineage(info)]) for field in cls.annotations}
    cls = owners.get(name)
    if cls is None or assigned_attributes(info.module)[name] > 0:
        return None
    given = _keyword(base, node, name)
    places = [a.value for a in node.args if a.keyword is None]
    index = list(owners).index(name)
    if given is not None or index < len(places):
        return given or base.at(places[index])
    default = _default(cls, name)
    return None if default is None else base.elsewhere(default, cls.node, None, cls.module)


def field_default(source: Source) -> Source | None:
    """The default of a field ``self.<name>`` that nothing in the file passes or assigns."""
    cls, node = None if source.function is None else source.function.cls, source.node
    if cls is None or not isinstance(node, cst.Attribute):
        return None
    owner, name = dotted(node.value), node.attr.value
    known = source.module
    if owner != "self" or (cls, name) in known.fields or assigned_attributes(known)[name]:
        return None
    default = _default(cls, name)
    return None if default is None else source.elsewhere(default, cls.node, None, cls.module)


def _default(cls: ClassInfo, name: str) -> cst.BaseExpression | None:
    """The default of a field, or what its ``default_factory`` returns."""
    for node in walk(cls.node.body):
        if not isinstance(node, cst.AnnAssign) or dotted(node.target) != name:
            continue
        value = node.value
        if not isinstance(value, cst.Call) or dotted(value.func) not in _FIELDS:
            return value
        given = {a.keyword.value: a.value for a in value.args if a.keyword is not None}
        factory = given.get("default_factory")
        return factory.body if isinstance(factory, cst.Lambda) else given.get("default")
    return None


def global_of(source: Source, module: Module, name: str) -> list[Source] | None:
    """The value of a top-level name of another file, if it is bound once."""
    held = scope_of(module, None).reaching.bindings.get(name, ())
    if len(held) != 1 or any(name in f.global_names for f in module.functions):
        return None
    binding = held[0]
    if binding.kind == "assigned" and binding.value is not None:
        return [source.elsewhere(binding.value, binding.statement, None, module)]
    return imported(source.elsewhere(source.node, binding.statement, None, module), name)


def imported(source: Source, name: str) -> list[Source] | None:
    """The value of a name that ``from other import name`` binds, for its import statement."""
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
            return global_of(source, module, alias.name.value)
    return None


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
    if found and any(type(inner) is cst.Yield for inner in walk(node.body, SCOPES)):
        return []
    return found


def outer(source: Source, name: str) -> list[Source] | None:
    """The value of a name of a scope around, if it is bound once."""
    function = source.function
    while function is not None:
        function = function.outer
        held = scope_of(source.module, function).reaching.bindings.get(name, ())
        if not held:
            continue
        binding = held[0]
        if len(held) == 1 and binding.kind == "opaque":
            return imported(
                source.elsewhere(source.node, binding.statement, function, source.module), name
            )
        if len(held) > 1 or binding.kind not in ("assigned", "parameter"):
            return None
        if binding.kind == "parameter":
            first = _first_statement(function)
            node = cst.ensure_type(source.node, cst.Name)
            return (
                None if first is None else [source.elsewhere(node, first, function, source.module)]
            )
        if binding.value is None:
            return None
        return [source.elsewhere(binding.value, binding.statement, function, source.module)]
    return None


def _first_statement(function: FunctionInfo | None) -> cst.CSTNode | None:
    if function is None or isinstance(function.node, cst.Lambda):
        return None
    return next(small_statements(function.node.body), None)


def own_attribute(source: Source, node: cst.Attribute) -> list[Source] | None:
    """The values of ``self.<name>``: a property's results, or those of its assignments."""
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
        return [source.called(v, s, method) for v, s in results] or None
    found = assigned_values(function.cls, owner, name, source.module)
    return [source.elsewhere(v, s, setter, source.module) for v, s, setter in found] or None
