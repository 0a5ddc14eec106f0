"""Functions of other files whose text shows that they evaluate no array."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.syntax.trees import dotted, walk
from embercoach.analysis.values.inheritance import find_method
from embercoach.analysis.values.joins import as_number
from embercoach.analysis.values.lattice import UNKNOWN

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo

#: Libraries under their usual names, and methods of arrays, lists and dictionaries.
_ROOTS = frozenset(("mx", "nn", "optim"))
_METHODS = frozenset(
    (
        *("append", "get", "items", "keys", "values", "setdefault", "update"),
        *("parameters", "trainable_parameters"),
        *("astype", "mean", "reshape", "square", "squeeze", "sum", "transpose", "var"),
    )
)
_NAMES = frozenset(("dict", "len", "list", "range", "tree_map", "tuple", "zip"))
_EVALUATING = frozenset(("eval", "async_eval", "save", "savez", "save_safetensors"))
#: Methods of the same class that are followed.
_MOST_CALLS = 2
_TESTS = (cst.Assert, cst.FormattedString, cst.Yield, cst.Await, cst.While, cst.BooleanOperation)


@lru_cache(maxsize=256)
def is_plainly_lazy(function: FunctionInfo, depth: int = 0) -> bool:
    """Return whether a function only calls lazy operations, and tests nothing but None."""
    for node in walk(function.node.body):
        if isinstance(node, _TESTS):
            return False
        if isinstance(node, (cst.If, cst.IfExp)) and not _is_presence(node.test):
            return False
        if isinstance(node, cst.Call) and not (
            _is_lazy(node) or _is_lazy_in_class(node, function.cls, depth)
        ):
            return False
    return True


def _is_presence(test: cst.BaseExpression) -> bool:
    """Test whether a condition is ``x is None`` or ``name in totals``."""
    kinds = (cst.Is, cst.IsNot, cst.In, cst.NotIn)
    return isinstance(test, cst.Comparison) and all(
        isinstance(comparison.operator, kinds) for comparison in test.comparisons
    )


def _is_lazy(call: cst.Call) -> bool:
    path = dotted(call.func)
    if path is not None:
        root, _, rest = path.partition(".")
        if root in _ROOTS:
            return rest.rpartition(".")[2] not in _EVALUATING
        if not rest:
            return root in _NAMES
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in _METHODS


def _is_lazy_in_class(call: cst.Call, cls: ClassInfo | None, depth: int) -> bool:
    """Test for a lazy method, ``self.rate()``, and ``min()`` of the numbers of an object."""
    root, _, name = (dotted(call.func) or "").rpartition(".")
    if cls is None or depth == _MOST_CALLS:
        return False
    if root == "self":
        method = find_method(cls, name)
        return method is not None and is_plainly_lazy(method, depth + 1)
    return not root and name in ("min", "max") and all(_is_number(a, cls) for a in call.args)


def _is_number(argument: cst.Arg, cls: ClassInfo) -> bool:
    """Test for arithmetic on literals and on attributes that are numbers."""
    pending: list[cst.BaseExpression] = [argument.value]
    while pending:
        node = pending.pop()
        if isinstance(node, cst.BinaryOperation):
            pending += [node.left, node.right]
        elif isinstance(node, cst.Attribute):
            root, _, name = (dotted(node) or "").partition(".")
            if root != "self" or as_number(cls.attributes.get(name, UNKNOWN)) is None:
                return False
        elif not isinstance(node, (cst.Integer, cst.Float)):
            return False
    return True
