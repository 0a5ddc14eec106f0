"""Attributes of values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from embercoach.analysis import mlx_api
from embercoach.analysis.shapes.arrays import (
    UNKNOWN,
    DTypeValue,
    HostArray,
    ShapedArray,
)
from embercoach.analysis.shapes.host_arrays import host_attribute
from embercoach.analysis.shapes.python_values import (
    Attributes,
    BoundFunction,
    ClassValue,
    DictReference,
    FunctionValue,
    LibraryMethod,
    LibraryName,
    ListReference,
    ModuleValue,
    ObjectReference,
    Options,
    Place,
    SuperValue,
    TransformedFunction,
)
from embercoach.analysis.shapes.requirements import sizes_of
from embercoach.analysis.shapes.size_integers import ANY_INT
from embercoach.analysis.shapes.table.array_members import ArrayAt
from embercoach.analysis.shapes.table_calls import array_of_place, call_table
from embercoach.analysis.shapes.value_joins import joined_values
from embercoach.analysis.values.promotion import DTYPES

if TYPE_CHECKING:
    from embercoach.analysis.shapes.interpreter import ShapeSite

#: What an array has, and hardly anything else.
ARRAY_MEMBERS = frozenset(
    [
        *("shape", "ndim", "astype", "reshape", "transpose", "swapaxes", "flatten", "squeeze"),
        *("moveaxis", "T", "dtype", "argmax", "argmin", "logsumexp", "cumsum", "diag", "diagonal"),
        *("nbytes", "size"),
    ]
)
#: Members that a configuration's field does not have.
_PLAINLY_ARRAYS = frozenset(("shape", "ndim", "astype", "reshape", "transpose", "swapaxes"))
_CONSTANTS: dict[str, Any] = {
    "mlx.core.newaxis": None,
    "numpy.newaxis": None,
    "mlx.core.pi": math.pi,
    "mlx.core.e": math.e,
    "mlx.core.inf": math.inf,
    "mlx.core.nan": math.nan,
    "math.pi": math.pi,
    "math.e": math.e,
    "math.inf": math.inf,
    "numpy.pi": math.pi,
    "numpy.inf": math.inf,
}


def attribute_of(site: ShapeSite, owner: Any, name: str) -> Any:
    """``owner.name``."""
    if type(owner) is Place:
        owner = site.heap.value(owner)
    handler = _HANDLERS.get(type(owner))
    return UNKNOWN if handler is None else handler(site, owner, name)


def library_name(name: str) -> Any:
    """Return the value of a library's name."""
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    last = name.rpartition(".")[2]
    if last in DTYPES and name.startswith("mlx.core."):
        return DTypeValue(last)
    if last == "bool_" and name.startswith("mlx.core."):
        return DTypeValue("bool")
    return LibraryName(mlx_api.canonical(name) if name.startswith("mlx.") else name)


def _of_options(site: ShapeSite, owner: Options, name: str) -> Any:
    found = [
        attribute_of(site, option, name)
        for option in owner.values
        if option is not None and type(option) is not str
    ]
    return joined_values(found) if found else UNKNOWN


def _of_array(site: ShapeSite, owner: ShapedArray, name: str) -> Any:
    if name == "shape":
        return sizes_of(site.heap.shape(owner.shape))
    if name == "ndim":
        return site.heap.rank_of(owner.shape)
    entry = mlx_api.array_member(name)
    if entry is not None and entry.kind == "property":
        return call_table(site, f"mlx.core.array.{name}", (owner,))
    return LibraryMethod(owner, name)


def _of_place(site: ShapeSite, owner: Place, name: str) -> Any:
    """Return an attribute of something unknown: of an array, where only arrays have it."""
    if name in ARRAY_MEMBERS and (not owner.is_setting or name in _PLAINLY_ARRAYS):
        if site.frame.may_see_other_arrays():
            return UNKNOWN
        array = array_of_place(owner)
        site.heap.facts.places[owner] = array
        return _of_array(site, array, name)
    if mlx_api.array_member(name) is not None and not owner.is_setting:
        return UNKNOWN
    return site.heap.value(site.machine.part_of(owner, name, name))


def class_member(cls: ClassValue, name: str) -> Any:
    """Return what a class or its bases define under a name, None if nothing."""
    for one in classes_of(cls):
        if name in one.members:
            return one.members[name]
    return None


#: Classes that a class inherits from at most, directly or not.
MOST_BASES = 32


def classes_of(cls: ClassValue) -> list[ClassValue]:
    """Return a class and its bases of the program, the derived ones first."""
    found = [cls]
    for one in found:
        if len(found) > MOST_BASES:
            break
        found += [base for base in one.bases if type(base) is ClassValue and base not in found]
    return found


def library_base(cls: ClassValue) -> str:
    """Return the first library class that a class derives from, empty if none."""
    for one in classes_of(cls):
        for base in one.bases:
            if type(base) is LibraryName and base.name not in ("abc.ABC", "typing.Generic"):
                return base.name
    return ""


def is_named_tuple(cls: ClassValue | None) -> bool:
    """Return whether a class derives from ``typing.NamedTuple``."""
    return cls is not None and library_base(cls) == "typing.NamedTuple"


def has_unknown_base(cls: ClassValue) -> bool:
    """Return whether a class may inherit what is not in sight."""
    return any(
        type(base) is not ClassValue
        and not (type(base) is LibraryName and base.name in _KNOWN_BASES)
        for one in classes_of(cls)
        for base in one.bases
    )


_KNOWN_BASES = frozenset(
    ("mlx.nn.Module", "builtins.object", "abc.ABC", "typing.Generic", "typing.NamedTuple")
)


def member_of(owner: ObjectReference, name: str) -> Any:
    """Return a method of an object's class, bound to it; None if there is none."""
    found = None if owner.cls is None else class_member(owner.cls, name)
    return BoundFunction(found, owner) if type(found) is FunctionValue else None


def iterable_of(site: ShapeSite, value: Any) -> Any:
    """Return what a loop goes over: of an object the iterator that its ``__iter__`` makes."""
    method = member_of(value, "__iter__") if type(value) is ObjectReference else None
    return value if method is None else site.call(method)


def _of_module(site: ShapeSite, owner: ModuleValue, name: str) -> Any:
    found = owner.frame.names.get(name, UNKNOWN)
    return site.heap.value(found) if type(found) is Place else found


def _of_class(site: ShapeSite, owner: ClassValue, name: str) -> Any:
    found = class_member(owner, name)
    if type(found) is FunctionValue and "builtins.classmethod" in found.decorators:
        return BoundFunction(found, owner)
    return UNKNOWN if found is None else found


def _of_object(site: ShapeSite, owner: ObjectReference, name: str) -> Any:
    held = site.heap.read(owner.number)
    if type(held) is Attributes and name in held.values:
        found = held.values[name]
        return site.heap.value(found) if type(found) is Place else found
    if owner.cls is not None:
        found = class_member(owner.cls, name)
        if found is not None:
            return _bound(site, owner, found)
    if owner.library and mlx_api.member(owner.library, name) is not None:
        return LibraryMethod(owner, name)
    if owner.cls is not None and name == "__class__":
        return owner.cls
    if owner.is_open:
        return site.heap.value(site.machine.part_of(owner, name, name))
    return UNKNOWN


def _bound(site: ShapeSite, owner: ObjectReference, found: Any) -> Any:
    if type(found) is not FunctionValue or "builtins.staticmethod" in found.decorators:
        return found
    if any(one in _PROPERTIES for one in found.decorators):
        return site.call(BoundFunction(found, owner))
    is_of_class = "builtins.classmethod" in found.decorators
    return BoundFunction(found, owner.cls if is_of_class else owner)


_PROPERTIES = ("builtins.property", "functools.cached_property")


def _of_super(site: ShapeSite, owner: SuperValue, name: str) -> Any:
    for base in owner.cls.bases:
        if type(base) is ClassValue:
            found = class_member(base, name)
            if type(found) is FunctionValue:
                return BoundFunction(found, owner.owner)
        elif type(base) is LibraryName:
            return LibraryMethod(owner, f"{base.name}.{name}")
    return LibraryMethod(owner, f"builtins.object.{name}")


def _of_host_array(site: ShapeSite, owner: HostArray, name: str) -> Any:
    if name == "shape":
        return sizes_of(owner.shape)
    found = host_attribute(owner, name)
    return LibraryMethod(owner, name) if found is UNKNOWN else found


#: By the type of the owner: its attributes; those of other values are unknown.
_HANDLERS: dict[type, Callable[[ShapeSite, Any, str], Any]] = {
    ObjectReference: _of_object,
    LibraryName: lambda _site, owner, name: library_name(f"{owner.name}.{name}"),
    ShapedArray: _of_array,
    Place: _of_place,
    Options: _of_options,
    ModuleValue: _of_module,
    ClassValue: _of_class,
    SuperValue: _of_super,
    TransformedFunction: lambda _site, _owner, name: (  # ``@f.vjp``
        LibraryName("builtins.decorator") if name in ("vjp", "jvp", "vmap") else UNKNOWN
    ),
    DTypeValue: lambda _site, _owner, name: ANY_INT if name == "size" else UNKNOWN,
    HostArray: _of_host_array,
    **dict.fromkeys(
        (ListReference, DictReference, tuple, str, ArrayAt),
        lambda _site, owner, name: LibraryMethod(owner, name),
    ),
}
