"""Effects of calls on lazy arrays, by what is called."""

from __future__ import annotations

from typing import Literal

import libcst as cst

from embercoach.analysis.values.joins import as_array, options
from embercoach.analysis.values.lattice import (
    BoundMember,
    Kernel,
    LibraryObject,
    Sequence,
    Symbol,
    Transformed,
    Unknown,
    Value,
)

Effect = Literal["lazy", "evaluates", "unknown"]

EVALUATING = frozenset(("mlx.core.eval", "mlx.core.async_eval"))
_SAVING = ("mlx.core.save", "mlx.core.export")
#: Writes the graph of an array, which stays lazy.
_GRAPHS = frozenset(("mlx.core.export_to_dot",))
_LAZY_BUILTINS = frozenset(
    f"builtins.{name}"
    for name in (
        *("abs", "dict", "enumerate", "id", "isinstance", "iter", "len", "list", "next", "range"),
        *("reversed", "setattr", "sum", "tuple", "type", "zip", "getattr", "hasattr"),
    )
)
PULLS = frozenset(("item", "tolist"))
#: Methods of a dictionary that evaluate none of its arrays.
_VIEWS = frozenset(("items", "values", "keys"))
_WEIGHTS = frozenset(("parameters", "trainable_parameters"))
_WITHOUT_ARGUMENTS = _VIEWS | _WEIGHTS | {"eval", "train", "freeze", "unfreeze"}
_TREES = frozenset(("tree_map", "tree_unflatten"))
_LOOKUPS = frozenset(("get", "setdefault"))


def effect_of(callee: Value) -> Effect:
    """Return what calling a value does with the arguments."""
    if type(callee) is Symbol:
        return _of_symbol(callee.name)
    if type(callee) is BoundMember:
        return _of_method(callee)
    if type(callee) is LibraryObject or type(callee) is Kernel:
        return "lazy"
    # What is traced is lazy.
    is_traced = type(callee) is Transformed and callee.transform != "partial"
    return "lazy" if is_traced else "unknown"


def _of_symbol(name: str) -> Effect:
    if name in EVALUATING or (name.startswith(_SAVING) and name not in _GRAPHS):
        return "evaluates"
    if name.startswith("mlx.") or name in _LAZY_BUILTINS:
        return "lazy"
    return "evaluates" if name.startswith(("builtins.", "numpy.")) else "unknown"


def _of_method(callee: BoundMember) -> Effect:
    owner, name = callee.owner, callee.name
    if as_array(owner) is not None:
        return "evaluates" if name in PULLS or name.startswith("__") else "lazy"
    if type(owner) is LibraryObject:
        return "unknown" if "save" in name else "lazy"
    if any(type(o) is Unknown for o in options(owner)):
        return "unknown"
    return "lazy" if name == "append" and type(owner) is Sequence else "unknown"


def is_append(node: cst.Call) -> bool:
    """Test whether a call is ``losses.append(loss)``."""
    return isinstance(node.func, cst.Attribute) and node.func.attr.value == "append"


def is_pull(node: cst.Call) -> bool:
    """Test whether a call is ``loss.item()`` or ``x.tolist()``."""
    return isinstance(node.func, cst.Attribute) and node.func.attr.value in PULLS


def keeps_lazy(node: cst.Call) -> bool:
    """Test whether a method is one of a dictionary, list, layer or update that evaluates nothing.

    ``weights.items()``, ``totals.get(name, 0)``, ``losses.append(loss)``, ``model.eval()``.
    """
    name = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
    if name in _LOOKUPS or is_append(node) or is_at_update(node) or _updates_tree(node, name):
        return True
    return name in _WITHOUT_ARGUMENTS and not node.args


def _updates_tree(node: cst.Call, name: str) -> bool:
    """Test whether a call is ``model.update(tree_map(f, weights))``."""
    made = node.args[0].value if name == "update" and len(node.args) == 1 else None
    func = made.func if isinstance(made, cst.Call) else None
    last = func.attr if isinstance(func, cst.Attribute) else func
    return isinstance(last, cst.Name) and last.value in _TREES


def is_at_update(node: cst.Call) -> bool:
    """Test whether a call is ``x.at[i].add(...)``."""
    view = node.func.value if isinstance(node.func, cst.Attribute) else None
    inner = view.value if isinstance(view, cst.Subscript) else None
    return isinstance(inner, cst.Attribute) and inner.attr.value == "at"
