"""Classes of linted files: attributes, methods, inheritance, instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis import mlx_api
from embercoach.analysis.calls.annotations import evaluate_annotation
from embercoach.analysis.calls.call_results import result_value
from embercoach.analysis.calls.functions import call_function, call_with_values, explore
from embercoach.analysis.calls.parameters import plain, with_dtype
from embercoach.analysis.calls.torch_api import OF_MODULE
from embercoach.analysis.evaluate.dispatch import link
from embercoach.analysis.values.gradient_marks import LIVE, marked
from embercoach.analysis.values.inheritance import (
    ENUMS,
    called_method,
    find_method,
    is_layer,
    is_torch_module,
    library_bases,
    lineage,
)
from embercoach.analysis.values.lattice import (
    ARRAY,
    INT,
    STR,
    UNKNOWN,
    BoundMember,
    Callable,
    Class,
    Function,
    Instance,
    LibraryObject,
    Sequence,
    Super,
    Value,
    any_item,
    as_array,
    join,
    join_all,
)

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.evaluate.frame import Frame
    from embercoach.analysis.values.facts import Argument


def instance_member(frame: Frame, owner: Instance, name: str) -> Value:
    """``self.name``: a method, property, field, or what methods assign to it."""
    info = owner.info
    for cls in lineage(info):
        method = cls.methods.get(name)
        if method is not None:
            return _method(frame, owner, method)
        annotation = cls.annotations.get(name)
        if annotation is not None and cls.frame is not None:
            value = evaluate_annotation(cls.frame, annotation)
            if value is not UNKNOWN:
                return with_dtype(value, frame.module.fields.get((cls, name)), frame.module)
        sources = _assigned(cls, name), frame.module.attributes.get((cls, name))
        known = [v for v in (*sources, cls.variables.get(name)) if v is not None]
        if known:
            value = join_all(known)
            is_weight = _is_weight(frame, info, name) and as_array(value) is not None
            return marked(value, LIVE) if is_weight else value
    for base in library_bases(info):
        entry = mlx_api.member(base, name)
        if entry is not None:
            if entry.kind == "property":
                return result_value(entry.returns)
            return BoundMember(LibraryObject(base), name)
    if name in OF_MODULE and is_torch_module(info):
        return Callable(owner)
    return UNKNOWN


def note_fields(frame: Frame, info: ClassInfo, arguments: tuple[Argument, ...]) -> None:
    """Note what a call of a class without ``__init__`` passes for its fields, in their order."""
    if any(argument.star for argument in arguments):
        return
    owners = {name: cls for cls in reversed([*lineage(info)]) for name in cls.annotations}
    names = iter(owners)
    for argument in arguments:
        name = argument.keyword or next(names, None)
        if name in owners:
            key = owners[name], name
            known = frame.module.fields.get(key)
            value = plain(argument.value)
            frame.module.fields[key] = value if known is None else join(known, value)


def _is_weight(frame: Frame, info: ClassInfo, name: str) -> bool:
    """Return whether a run follows the gradient of an array that this attribute would hold."""
    if frame.gradient is None or not frame.gradient.of_parameters:
        return False
    return not name.startswith("_") and is_layer(info)


def _method(frame: Frame, owner: Value, method: FunctionInfo) -> Value:
    if method.is_property:
        return call_function(frame, method, owner, ())
    return Function(method, owner if method.is_method else None)


def _assigned(cls: ClassInfo, name: str) -> Value | None:
    """Return the values that methods, explored on demand, assign to ``self.name``."""
    setters = cls.setters.get(name)
    if setters is None:
        return cls.attributes.get(name)
    for method in setters:
        if method not in cls.explored:
            cls.explored.add(method)
            explore(method)
    return cls.attributes.get(name, UNKNOWN)


def assigned_by(info: ClassInfo, method: FunctionInfo) -> set[str]:
    """The attributes that a call of a method may set, by itself or by what it is known to call."""
    found: set[str] = set()
    pending, seen = [method], {method}
    while pending:
        current = pending.pop()
        for cls in lineage(info):
            found.update(cls.set_by.get(current, ()))
        callees = {callee for callee in current.calls if callee.cls is not None} - seen
        seen |= callees
        pending.extend(callees)
    return found


def class_member(frame: Frame, owner: Class, name: str) -> Value:
    """``Class.name``."""
    info = owner.info
    method = find_method(info, name)
    if method is not None:
        is_classmethod = "builtins.classmethod" in method.decorators
        return Function(method, owner if is_classmethod else None)
    if any(base in ENUMS for base in library_bases(info)):
        return Instance(info) if name not in ("value", "name") else UNKNOWN
    for cls in lineage(info):
        assigned = _assigned(cls, name)
        if assigned is not None:
            return assigned
        if name in cls.variables:
            return cls.variables[name]
    return STR if name == "__name__" else UNKNOWN


def super_member(frame: Frame, owner: Super, name: str) -> Value:
    """``super().name``, bound to an instance of the class."""
    instance = Instance(owner.info)
    for base in owner.info.bases:
        if isinstance(base, Class):
            method = find_method(base.info, name)
            if method is not None:
                return _method(frame, instance, method)
    for name_of_base in library_bases(owner.info):
        if mlx_api.member(name_of_base, name) is not None:
            return BoundMember(LibraryObject(name_of_base), name)
        if name == "__call__" and mlx_api.is_layer(name_of_base):
            return LibraryObject(name_of_base)
    return UNKNOWN


def call_method(frame: Frame, owner: Instance, name: str, values: tuple[Value, ...]) -> Value:
    """Return the result of calling a method of an instance with positional values."""
    is_call = name == "__call__"
    method = called_method(owner.info) if is_call else find_method(owner.info, name)
    if method is None:
        for base in library_bases(owner.info):
            if is_call and mlx_api.is_layer(base):
                return ARRAY
        return INT if name == "__len__" else UNKNOWN
    return call_with_values(frame, method, owner, values)


@link("iterated")
def iterated(frame: Frame, value: Value) -> Value:
    """Return the items that iterating over an instance yields."""
    if not isinstance(value, Instance):
        return UNKNOWN
    result = call_method(frame, value, "__iter__", ())
    if isinstance(result, Sequence):
        return any_item(result)
    if result is UNKNOWN:
        return call_method(frame, value, "__getitem__", (INT,))
    return UNKNOWN
