"""Functions of other files whose text shows that they evaluate no array."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.syntax.trees import dotted, walk

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo

#: Libraries under their usual names, and methods of arrays, lists and dictionaries.
_ROOTS = frozenset(("mx", "nn", "optim"))
_METHODS = frozenset(
    (
        *("append", "get", "items", "keys", "values", "setdefault", "update", "parameters"),
        *("astype", "mean", "reshape", "square", "squeeze", "sum", "transpose", "var"),
    )
)
_NAMES = frozenset(("dict", "len", "list", "range", "tree_map", "tuple", "zip"))
_EVALUATING = frozenset(("eval", "async_eval", "save", "savez", "save_safetensors"))
_TESTS = (cst.Assert, cst.FormattedString, cst.Yield, cst.Await, cst.While, cst.BooleanOperation)


@lru_cache(maxsize=256)
def is_plainly_lazy(function: FunctionInfo) -> bool:
    """Return whether a function only calls lazy operations, and tests nothing but None."""
    for node in walk(function.node.body):
        if isinstance(node, _TESTS):
            return False
        if isinstance(node, (cst.If, cst.IfExp)) and not _is_presence(node.test):
            return False
        if isinstance(node, cst.Call) and not _is_lazy(node):
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
