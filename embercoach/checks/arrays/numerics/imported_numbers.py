"""DTYPE-006, DTYPE-010, DTYPE-015: arithmetic of other files on what a call passes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from embercoach.analysis.calls.binding import bind
from embercoach.analysis.calls.functions import must_execute
from embercoach.analysis.values.joins import definite_array
from embercoach.analysis.values.lattice import UNKNOWN
from embercoach.analysis.values.promotion import UNSIGNED
from embercoach.checks.arrays.numerics.half_precision import overflow_in_arithmetic
from embercoach.checks.arrays.numerics.narrow_integers import LARGEST, narrow_arithmetic
from embercoach.checks.registry import Report, check
from embercoach.quoting import in_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import BinaryFact, ProjectCall
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Array

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
    arrays = {name: array for name, value in passed.items() if (array := definite_array(value))}
    if not any(array.dtype in _NARROW and not array.scalar for array in arrays.values()):
        return
    for operation in _operations(function, tuple(sorted(arrays.items(), key=lambda one: one[0]))):
        for check_of in (narrow_arithmetic, overflow_in_arithmetic):
            for found in check_of(operation, function.module):
                file = function.module.path.name
                yield Report.at(
                    fact,
                    found.code,
                    message=in_file(function.name, file, f": {_EFFECTS[found.code]}"),
                    help=found.help,
                )
                return


@lru_cache(maxsize=64)
def _operations(
    function: FunctionInfo, arrays: tuple[tuple[str, Array], ...]
) -> tuple[BinaryFact, ...]:
    """The arithmetic that a function must execute for these arrays."""
    return tuple(must_execute(function, frozenset(dict(arrays)), arrays).operations)
