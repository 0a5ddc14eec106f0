"""DTYPE-006, DTYPE-010, DTYPE-015: arithmetic of other files on what a call passes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.binding import bind
from embercoach.analysis.calls.functions import must_execute
from embercoach.analysis.dataflow.scopes import Expression, resolve_name, scope_of
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.lattice import UNKNOWN, DType, Symbol, as_number, definite_array
from embercoach.analysis.values.promotion import UNSIGNED
from embercoach.checks.arrays.numerics.half_precision import is_large, overflow_in_arithmetic
from embercoach.checks.arrays.numerics.narrow_integers import LARGEST, narrow_arithmetic
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import in_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.evaluate.must_execute import MustExecute
    from embercoach.analysis.facts.facts import ProjectCall
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Array, Value

#: Dtypes whose range arithmetic leaves soon.
_NARROW = frozenset((*UNSIGNED, *LARGEST, "float16"))
_EFFECTS = {
    "DTYPE-006": "a constant overflows float16",
    "DTYPE-010": "a negative unsigned difference wraps",
    "DTYPE-015": "sums or products of small integers wrap",
}


@check("DTYPE-006", "DTYPE-010", "DTYPE-015")
def imported_arithmetic(fact: ProjectCall, module: Module) -> Iterator[Report]:
    """``motion(frames)`` of another file, which subtracts the uint8 frames that it is given."""
    function = fact.function
    if function.module is module or module.is_test or function.is_async:
        return
    passed = bind(function, UNKNOWN if fact.is_bound else None, fact.arguments)
    if DType("float16") in passed.values() and _casts_large_number(function, passed):
        yield _reported(fact, "DTYPE-006", "Use mx.finfo(dtype).min or .max")
        return
    arrays = {name: array for name, value in passed.items() if (array := definite_array(value))}
    if not any(array.dtype in _NARROW and not array.scalar for array in arrays.values()):
        return
    run = _run(function, tuple(sorted(arrays.items(), key=lambda one: one[0])))
    for operation in run.operations:
        for check_of in (narrow_arithmetic, overflow_in_arithmetic):
            for found in check_of(operation, function.module):
                yield _reported(fact, found.code, found.help)
                return


def _reported(fact: ProjectCall, code: str, remedy: str) -> Report:
    name, file = fact.function.name, fact.function.module.path.name
    message = in_file(name, file, f": {_EFFECTS[code]}")
    return Report.at(fact, code, message=message, help=remedy)


def _casts_large_number(function: FunctionInfo, passed: dict[str, Value]) -> bool:
    """Test for ``mx.where(keep, 0.0, -1e9).astype(dtype)``, where float16 is passed."""
    run = _run(function, tuple((n, v) for n, v in passed.items() if isinstance(v, DType)))
    scope = scope_of(function.module, function)
    for call, given in run.calls.items():
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "astype" or len(given) != 1:
            continue
        made = resolve_name(Expression(func.value, scope)).node
        if given[0].value != DType("float16") or not isinstance(made, cst.Call):
            continue
        root, _, name = (dotted(made.func) or "").partition(".")
        is_mlx = function.module.frame.names.get(root) == Symbol("mlx.core")
        if is_mlx and name in ("where", "full", "array"):
            numbers = (as_number(argument.value) for argument in run.calls.get(made, ()))
            if any(number is not None and is_large(number.const) for number in numbers):
                return True
    return False


@lru_cache(maxsize=64)
def _run(function: FunctionInfo, given: tuple[tuple[str, Array | DType], ...]) -> MustExecute:
    """Run a function for what it must execute with these arrays and dtypes."""
    arrays = frozenset(name for name, value in given if not isinstance(value, DType))
    return must_execute(function, arrays, given)
