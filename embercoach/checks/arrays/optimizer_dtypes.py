"""DTYPE-025: float32 scalars of an optimizer that promote half-precision parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import resolved
from embercoach.analysis.syntax.trees import dotted, evaluated
from embercoach.analysis.values.facts import BinaryFact
from embercoach.analysis.values.inheritance import library_bases, lineage
from embercoach.analysis.values.lattice import as_array
from embercoach.checks.arrays.dtype import is_cast_back
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import Fact

#: The method that MLX calls for each parameter, and the names that are followed in it.
_UPDATE = "apply_single"
_DEEPEST = 4
#: Functions that make a float of an integer.
_ROOTS = frozenset(("power", "sqrt", "rsqrt", "divide", "reciprocal"))


@check("DTYPE-025")
def optimizer_scalar(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``parameter - self.learning_rate * gradient``, ``m / (1 - b1**self.step)``."""
    if _UPDATE not in module.source or module.is_test:
        return
    seen: set[FunctionInfo] = set()
    for fact in facts:
        function = fact.place.function
        if type(fact) is not BinaryFact or function is None or function in seen:
            continue
        if function.name != _UPDATE or fact.operator not in "+-*/" or not _is_optimizer(function):
            continue
        for scalar, other in ((fact.left, fact.right), (fact.right, fact.left)):
            array = as_array(other.value)
            if array is None or array.dtype is not None or not array.traced:
                continue
            if not _is_float32(scalar.node, function, module) or is_cast_back(fact, module):
                continue
            seen.add(function)
            is_step = _is_step(scalar.node, function, module)
            shown = "a function of the step" if is_step else "the learning rate"
            yield Report.at(
                fact,
                "DTYPE-025",
                node=scalar.node,
                message=f"{shown} is float32: half-precision parameters become float32",
                help="Cast it: `.astype(gradient.dtype)`",
            )
            break


def _is_optimizer(function: FunctionInfo) -> bool:
    """Return whether a method is one of a class derived from MLX's ``Optimizer``."""
    if function.cls is None:
        return False
    if any(base.startswith("mlx.optimizers.") for base in library_bases(function.cls)):
        return True
    return any(cls.name == "Optimizer" for cls in lineage(function.cls))


def _is_float32(
    node: cst.CSTNode, function: FunctionInfo, module: Module, depth: int = _DEEPEST
) -> bool:
    """Return whether an expression is a float32 scalar of the learning rate or the step."""
    if depth == 0:
        return False
    if _member(node) == "learning_rate":
        return True
    if isinstance(node, cst.Name):
        found = resolved(node, function, module)
        return found is not node and _is_float32(found, function, module, depth - 1)
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, (cst.Power, cst.Divide)):
            sides = (node.left, node.right)
            if any(_is_step(side, function, module) for side in sides):
                return not _has_parameters(node)
        sides = (node.left, node.right)
        found_in = [_is_float32(side, function, module, depth - 1) for side in sides]
        return any(found_in) and not _has_parameters(node)
    if isinstance(node, cst.Call) and last_name(node) in _ROOTS:
        given = [argument.value for argument in node.args]
        return any(
            _is_step(one, function, module) or _is_float32(one, function, module, depth - 1)
            for one in given
        ) and not _has_parameters(node)
    return False


def _is_step(node: cst.CSTNode, function: FunctionInfo, module: Module) -> bool:
    """Test for ``self.step``, ``self.state["step"]`` and what has it in it."""
    found = resolved(node, function, module) if isinstance(node, cst.Name) else node
    contents = contents_of(found)
    return "astype" not in contents.names and any(_member(one) == "step" for one in contents)


def _has_parameters(node: cst.CSTNode) -> bool:
    names = contents_of(node).names
    return not names.isdisjoint(("gradient", "grad", "g", "parameter", "param", "p", "astype"))


def _member(node: cst.CSTNode) -> str | None:
    """Return the name of ``self.step`` and of ``self.state["step"]``."""
    if isinstance(node, cst.Subscript) and dotted(node.value) == "self.state":
        part = node.slice[0].slice
        key = part.value if isinstance(part, cst.Index) else None
        text = evaluated(key) if isinstance(key, cst.SimpleString) else None
        return text if isinstance(text, str) else None
    path = dotted(node) or ""
    return path.removeprefix("self.") if path.startswith("self.") else None
