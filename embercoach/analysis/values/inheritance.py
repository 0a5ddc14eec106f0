"""Bases of classes of the project: lineage, layers, and where a method is defined."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from embercoach.analysis import mlx_api
from embercoach.analysis.values.lattice import (
    Class,
    Instance,
    LibraryObject,
    Symbol,
    Value,
)
from embercoach.analysis.values.memo import kept_for_file

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.project.module import Module

MODULE_CLASS = "mlx.nn.Module"
MODULE = LibraryObject(MODULE_CLASS)
TORCH_MODULE = "torch.nn.Module"
ENUMS = {"enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag"}

#: Of a class with more bases, the farther ones are not looked at: each member is searched in all.
MOST_BASES = 128


def set_bases(info: ClassInfo, bases: tuple[Value, ...]) -> None:
    """Set the bases of a class."""
    if bases != info.bases:
        info.bases = bases
        lineage.cache_clear()  # type: ignore[attr-defined]


@kept_for_file
def lineage(info: ClassInfo) -> Collection[ClassInfo]:
    """Return the class and its bases of linted files, nearest first, each once."""
    if all(type(base) is not Class for base in info.bases):  # most of them
        return (info,)
    found: dict[ClassInfo, None] = {}
    pending = [info]
    while pending and len(found) < MOST_BASES:
        cls = pending.pop()
        if cls not in found:
            found[cls] = None
            pending += [base.info for base in reversed(cls.bases) if type(base) is Class]
    return found


@kept_for_file
def subclasses(info: ClassInfo, module: Module) -> tuple[ClassInfo, ...]:
    """Return the classes derived from one in a file, in its own, and in those that are imported."""
    files = dict.fromkeys((module, info.module, *module.imported))
    classes = dict.fromkeys(cls for file in files for cls in file.classes)
    return tuple(cls for cls in classes if cls is not info and info in lineage(cls))


def library_bases(info: ClassInfo) -> Iterator[str]:
    """Yield names of the library classes that it inherits from."""
    for cls in lineage(info):
        for base in cls.bases:
            if isinstance(base, Symbol):
                yield base.name


def is_layer_class(name: str) -> bool:
    """Return whether a name is that of ``mlx.nn.Module``, or of a class of MLX derived from it."""
    return name == MODULE_CLASS or mlx_api.is_layer(name)


def is_layer(info: ClassInfo) -> bool:
    """Return whether a class is derived from ``mlx.nn.Module``."""
    return any(map(is_layer_class, library_bases(info)))


def is_torch_module(info: ClassInfo) -> bool:
    """Return whether a class is derived from ``torch.nn.Module``."""
    return any(
        name.startswith("torch.nn.") or name.endswith(".LightningModule")
        for name in library_bases(info)
    )


def is_module(value: Value) -> bool:
    """Return whether a value is an instance of a class derived from ``mlx.nn.Module``."""
    if isinstance(value, LibraryObject):
        return is_layer_class(value.cls)
    return isinstance(value, Instance) and is_layer(value.info)


#: Bases of which no instance can be called.
_NOT_CALLED = frozenset((MODULE_CLASS, "builtins.object", "abc.ABC"))


def called_method(info: ClassInfo) -> FunctionInfo | None:
    """Return the method that a call of an instance runs.

    It is ``forward`` of a layer without ``__call__``, whose calls raise: the rest of the program
    is analysed as if that was repaired.
    """
    method = find_method(info, "__call__")
    if method is None and lacks_call(info):
        method = find_method(info, "forward")
    return method


def lacks_call(info: ClassInfo) -> bool:
    """Return whether no class of a layer's lineage has ``__call__``."""
    return is_layer(info) and not any(
        "__call__" in cls.variables
        or any(
            not isinstance(base, Class)
            and not (isinstance(base, Symbol) and base.name in _NOT_CALLED)
            for base in cls.bases
        )
        for cls in lineage(info)
    )


def is_called(function: FunctionInfo) -> bool:
    """Return whether a method is what a call of an object of its class runs."""
    return function.cls is not None and called_method(function.cls) is function


def is_forward(function: FunctionInfo | None) -> bool:
    """Return whether a function is the forward pass of a layer: its ``__call__``."""
    if function is None or function.cls is None:
        return False
    return is_layer(function.cls) and is_called(function)


def find_method(info: ClassInfo, name: str) -> FunctionInfo | None:
    """Return a method by name, in the class or the nearest base."""
    for cls in lineage(info):
        method = cls.methods.get(name)
        if method is not None:
            return method
    return None
