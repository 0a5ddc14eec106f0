"""The models that functions of a file are called with: ``loss_fn(model, x, y)``.

A parameter that is called as a model takes the class of the file that it is named after, or the
only one that is not a part of another; one whose attributes are used, the only class with these.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING

from embercoach.analysis.shapes.attributes import ARRAY_MEMBERS, class_member, library_base
from embercoach.analysis.shapes.python_values import ClassValue, FunctionValue

if TYPE_CHECKING:
    from embercoach.analysis.shapes.path_states import Frame

#: Names of parameters that say no more than that they are models.
_MODELS = frozenset(("model", "net", "network"))


def called_model(function: FunctionValue, name: str) -> ClassValue | None:
    """The class of the file that a parameter's value is an instance of, None if that is unknown."""
    number = _calls(function.node).get(name)
    if number is None:
        return _with_attributes(function, name)
    found = [cls for cls in _models(function.frame) if _takes(cls, number)]
    plain = name.replace("_", "").lower()
    named = [cls for cls in found if plain == cls.name.replace("_", "").lower()]
    if not named and name in _MODELS:
        named = found
    return named[0] if len(named) == 1 else None


def _with_attributes(function: FunctionValue, name: str) -> ClassValue | None:
    """The only class of a file that has all attributes that a function reads of a parameter."""
    used = _read_attributes(function.node).get(name, frozenset()) - _OF_ALL_MODULES
    if not used or not used.isdisjoint(ARRAY_MEMBERS):
        return None
    frame = function.frame
    while frame.outer is not None:
        frame = frame.outer
    by_name = _classes_by_attribute(frame, len(frame.names))
    found = frozenset.intersection(*(by_name.get(one, frozenset()) for one in used))
    cls = next(iter(found)) if len(found) == 1 else None
    # Of what is not a module, one attribute says little.
    is_module = cls is not None and library_base(cls) == "mlx.nn.Module"
    return cls if is_module or len(used) > 1 else None


@lru_cache(maxsize=32)
def _classes_by_attribute(frame: Frame, names: int) -> dict[str, frozenset[ClassValue]]:
    """The classes of a file by their methods, and by the attributes that these set.

    ``names``: how many the file has bound so far.
    """
    found: dict[str, set[ClassValue]] = {}
    for cls in _classes(frame):
        for node in ast.walk(cls.node):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.setdefault(node.name, set()).add(cls)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.setdefault(node.attr, set()).add(cls)
    return {name: frozenset(classes) for name, classes in found.items()}


#: Attributes that say nothing of a class.
_OF_ALL_MODULES = frozenset(
    (
        *("parameters", "trainable_parameters", "train", "eval", "training", "state", "update"),
        *("freeze", "unfreeze", "load_weights", "save_weights", "apply", "modules", "config"),
    )
)


@lru_cache(maxsize=512)
def _read_attributes(function: ast.AST) -> dict[str, frozenset[str]]:
    """The attributes that a function reads of each name."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.setdefault(node.value.id, set()).add(node.attr)
    return {name: frozenset(names) for name, names in found.items()}


@lru_cache(maxsize=512)
def _calls(function: ast.AST) -> dict[str, int]:
    """The names that a function calls, with the least number of positional arguments."""
    found: dict[str, int] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            name, number = node.func.id, len(node.args)
            found[name] = min(number, found.get(name, number))
    return found


def _classes(frame: Frame) -> list[ClassValue]:
    """The classes of a file."""
    while frame.outer is not None:
        frame = frame.outer
    values = frame.names.values()
    return [one for one in values if type(one) is ClassValue and one.frame is frame]


def _models(frame: Frame) -> list[ClassValue]:
    """The models of a file, without those that are parts of others."""
    classes = [
        cls
        for cls in _classes(frame)
        if library_base(cls) == "mlx.nn.Module"
        and type(class_member(cls, "__call__")) is FunctionValue
    ]
    parts = {name for cls in classes for name in _names(cls.node) if name != cls.name}
    return [cls for cls in classes if cls.name not in parts]


@lru_cache(maxsize=512)
def _names(cls: ast.ClassDef) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(cls) if isinstance(node, ast.Name))


def _takes(cls: ClassValue, number: int) -> bool:
    """Return whether a model can be called with so many arguments by position."""
    method = class_member(cls, "__call__")
    assert type(method) is FunctionValue
    given = method.node.args
    most = len(given.posonlyargs) + len(given.args) - 1
    return most - len(method.defaults) <= number <= most
