"""Arrays that hold what the host has given: reading them costs a copy, and evaluates nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import calls_of
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.syntax.trees import dotted, walk
from embercoach.analysis.value_sources import sources_of
from embercoach.analysis.values.joins import as_numpy, holds_arrays
from embercoach.analysis.values.lattice import Sequence, Value
from embercoach.checks.arrays.pulls.invariance import is_changed

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import Fact, FactPlace
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.value_sources import Source

_MAKERS = frozenset(("mlx.core.array", "mlx.core.asarray"))
#: Functions of one array that Python has for lists.
_REDUCING = frozenset(f"mlx.core.{name}" for name in ("all", "any", "max", "min", "prod", "sum"))


def is_host_data(fact: Fact, node: cst.BaseExpression, module: Module) -> bool:
    """Test whether an array is certainly made by ``mx.array()`` of a list or of NumPy's array."""
    function = fact.place.function
    name = node.value if isinstance(node, cst.Name) else None
    if name is not None and function is not None and is_changed(name, function.node.body):
        return False
    ends = _ends(fact, node, module)
    return bool(ends) and all(_is_made_from_host_data(end, module) for end in ends)


def is_from_list(fact: Fact, node: cst.CSTNode | None, module: Module) -> bool:
    """Test whether ``mx.max(x)`` reduces an array that the function makes of a Python list."""
    if not isinstance(node, cst.Call):
        return False
    sources = sources_of(module)
    reduction = sources.library_call(sources.of(fact, node))
    if reduction is None or reduction.name not in _REDUCING or reduction.array is None:
        return False
    if not isinstance(reduction.array.node, cst.Name):
        return False
    ends = _ends(fact, reduction.array.node, module)
    return bool(ends) and all(
        end.function is fact.place.function and isinstance(_given(end, module), Sequence)
        for end in ends
    )


def _ends(fact: Fact, node: cst.BaseExpression, module: Module) -> list[Source]:
    sources = sources_of(module)
    ends = sources.ends(sources.of(fact, node))
    return [end for end in ends if dotted(end.node) != "None"]


def _is_made_from_host_data(end: Source, module: Module) -> bool:
    call = calls_of(module).get(end.node)
    if call is not None and as_numpy(call.result) is not None:
        return True
    given = _given(end, module)
    # ``mx.array([a, b])`` of arrays computes.
    return given is not None and not holds_arrays(given)


def _given(end: Source, module: Module) -> Value | None:
    """The value that ``mx.array()`` is given, in this file or in another."""
    call = calls_of(module).get(end.node)
    if call is not None:
        argument = call.positional(0) if call.symbol in _MAKERS else None
        return None if argument is None else argument.value
    sources = sources_of(module)
    made = sources.library_call(end) if end.module is not module else None
    if made is None or made.name not in _MAKERS or made.array is None:
        return None
    return sources.value(made.array)


def takes_lists(place: FactPlace, subject: cst.CSTNode, module: Module) -> bool:
    """Test whether a pull converts what may be an array: ``if isinstance(x, mx.array):``.

    The function takes host data as well, and goes on with that.
    """
    path = dotted(subject)
    if path is None:
        return False
    levels = layout_of(module, place.function).outward(place.statement)
    tests = [v.owner.test for v in levels if isinstance(v.owner, cst.If) and v.arm == "body"]
    tests += [n.test for n in walk(place.statement) if isinstance(n, cst.IfExp)]
    return any(_is_type_test(test, path) for test in tests)


def _is_type_test(test: cst.BaseExpression, path: str) -> bool:
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return any(_is_type_test(part, path) for part in (test.left, test.right))
    if not isinstance(test, cst.Call) or len(test.args) != 2:
        return False
    if dotted(test.args[0].value) != path:
        return False
    if dotted(test.func) == "hasattr":
        return True
    kind = dotted(test.args[1].value) or ""
    return dotted(test.func) == "isinstance" and kind.rpartition(".")[2] == "array"
