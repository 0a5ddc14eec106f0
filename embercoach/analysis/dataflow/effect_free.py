"""Functions without effects: they compute a result of what they get, and change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.dataflow.contents import contents_of, root_name
from embercoach.analysis.dataflow.function_summaries import evaluated_calls
from embercoach.analysis.dataflow.lazy_evaluation import EVALUATING
from embercoach.analysis.syntax.trees import SCOPES
from embercoach.analysis.values.inheritance import called_method, library_bases
from embercoach.analysis.values.lattice import (
    BoundMember,
    Function,
    Instance,
    LibraryObject,
    Symbol,
    Unknown,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import MOST_CALLS

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.values.facts import CallFact

#: Statements and expressions that change something, end a call early, or run code that is not seen.
_EFFECTS = (
    *(cst.Raise, cst.Assert, cst.Global, cst.Nonlocal, cst.Del, cst.With, cst.Try, cst.TryStar),
    *(cst.Yield, cst.Await, cst.ClassDef, cst.FunctionDef, cst.Lambda, cst.Import, cst.ImportFrom),
)
_PURE_BUILTINS = frozenset(
    f"builtins.{name}"
    for name in (
        *("abs", "all", "any", "bool", "dict", "enumerate", "float", "getattr", "hasattr", "int"),
        *("isinstance", "len", "list", "max", "min", "range", "reversed", "round", "set", "slice"),
        *("sorted", "str", "sum", "tuple", "type", "zip"),
    )
)
#: Packages of MLX whose functions compute arrays of arrays.
_PURE_PACKAGES = ("mlx.core.fast.", "mlx.core.fft.", "mlx.core.linalg.", "mlx.nn.")
#: Layers that change their state, or draw random numbers, when they are called.
_STATEFUL = frozenset(("mlx.nn.BatchNorm",))
#: Methods that leave their object as it is, of whatever kind it is.
_READS = frozenset(
    ("copy", "count", "endswith", "format", "get", "index", "items", "join", "keys", "lower")
) | frozenset(("split", "startswith", "strip", "upper", "values", "replace"))


#: Decorators that only say what a method is bound to.
_BINDING = frozenset(("builtins.staticmethod", "builtins.classmethod"))


def is_pure_symbol(name: str) -> bool:
    """Return whether a function of MLX, of Python or of ``math`` has no effect but its result."""
    if name in _PURE_BUILTINS or name.startswith("math."):
        return True
    entry = mlx_api.lookup(name) if name.startswith("mlx.") else None
    if entry is None or name in EVALUATING or entry.kind not in ("function", "class"):
        return False
    if entry.kind == "class":
        return name in ("mlx.core.array", "mlx.core.Dtype")
    is_core = name.startswith("mlx.core.") and name.count(".") == 2
    return (is_core or name.startswith(_PURE_PACKAGES)) and entry.returns == "array"


def is_effect_free(function: FunctionInfo, depth: int = 0) -> bool:
    """Return whether a function returns a value on all paths that return, and does nothing else."""
    return depth <= MOST_CALLS and _is_effect_free(function, depth)


@kept_for_file
def _is_effect_free(function: FunctionInfo, depth: int) -> bool:
    node = function.node
    if not isinstance(node, cst.FunctionDef) or function.is_async:
        return False
    if len(function.decorators) < len(node.decorators) or not _BINDING.issuperset(
        function.decorators
    ):
        return False
    contents = contents_of(node.body)
    # Other targets are attributes, or items of some object.
    if contents.of(*_EFFECTS) or not all(isinstance(t, cst.Name) for t in contents.targets):
        return False
    returns = contents_of(node.body, SCOPES).of(cst.Return)
    if not returns or any(one.value is None for one in returns):
        return False
    calls = evaluated_calls(function)
    return len(calls) == len(contents.calls) and all(_is_pure(call, depth) for call in calls)


def _is_pure(call: CallFact, depth: int) -> bool:
    callee = call.callee
    if isinstance(callee, Symbol):
        return is_pure_symbol(callee.name)
    if isinstance(callee, Function):
        return is_effect_free(callee.info, depth + 1)
    if isinstance(callee, LibraryObject):
        return mlx_api.is_layer(callee.cls) and callee.cls not in _STATEFUL
    if isinstance(callee, Instance):
        method = called_method(callee.info)
        if method is not None:
            return is_effect_free(method, depth + 1)
        return any(mlx_api.is_layer(b) and b not in _STATEFUL for b in library_bases(callee.info))
    func = call.node.func
    if not isinstance(func, cst.Attribute):
        return False
    # Attributes of an object may be of any class; the results of pure calls are arrays, or plain.
    computed = (cst.Call, cst.BinaryOperation, cst.UnaryOperation)
    is_known = isinstance(callee, BoundMember) or isinstance(func.value, computed)
    is_known = is_known or root_name(func.value) not in ("self", "cls", "")
    name = func.attr.value
    of_array = mlx_api.array_member(name) is not None and isinstance(callee, (BoundMember, Unknown))
    return is_known and (of_array or name in _READS)
