"""The conditions of a function, where some of its parameters are known."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

from embercoach.analysis import exactness
from embercoach.analysis.dispatch import EVALUATORS
from embercoach.analysis.facts import calls_of
from embercoach.analysis.operators import COMPARISONS
from embercoach.analysis.paths import dotted
from embercoach.analysis.scopes import by_parameter, is_rebound, scope_of
from embercoach.analysis.trees import children, walk
from embercoach.analysis.values import NONE, UNKNOWN, Str, Value

if TYPE_CHECKING:
    from embercoach.analysis.definitions import FunctionInfo
    from embercoach.analysis.module import Module

#: Parameters and the constants that they are.
Known: TypeAlias = frozenset[tuple[str, Value]]
#: A kernel runs with Metal only, so that these hold where one matters.
_AVAILABLE = "mlx.core.metal.is_available"
_DEVICE, _GPU = "default_device", ("gpu", "DeviceType.gpu")


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a function.

    arrays: names that stand for arrays, and not for None.
    given: what is known of its parameters.
    """

    function: FunctionInfo
    arrays: frozenset[str]
    given: Known

    def holds(self, test: cst.BaseExpression) -> bool | None:
        """Whether a condition is true, None where that is unknown."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            inner = self.holds(test.expression)
            return None if inner is None else not inner
        if isinstance(test, cst.BooleanOperation):
            decisive = isinstance(test.operator, cst.Or)
            parts = self.holds(test.left), self.holds(test.right)
            if decisive in parts:
                return decisive
            return None if None in parts else not decisive
        if isinstance(test, cst.Comparison):
            return self._compared(test)
        if isinstance(test, cst.Call):
            fact = calls_of(self.function.module).get(test)
            return True if fact is not None and fact.symbol == _AVAILABLE else None
        return exactness.truth(self.constant(test))

    def _compared(self, test: cst.Comparison) -> bool | None:
        symbol = COMPARISONS.get(type(test.comparisons[0].operator))
        if len(test.comparisons) != 1 or symbol not in ("==", "!=", "is", "is not"):
            return None
        left, right = test.left, test.comparisons[0].comparator
        if _asks_for_device(left) and (dotted(right) or "").endswith(_GPU):
            return symbol in ("==", "is")
        one, other = self.constant(left), self.constant(right)
        if isinstance(left, cst.Name) and left.value in self.arrays and other is NONE:
            return symbol in ("!=", "is not")
        # Constants that are equal are one object, as far as such code is concerned.
        return exactness.compare(symbol.replace("is not", "!=").replace("is", "=="), one, other)

    def constant(self, node: cst.BaseExpression) -> Value:
        """The constant that an expression is."""
        if isinstance(node, cst.Name):
            found = scope_of(self.function.module, self.function).find(node.value)
            if found is not None and found[1] is None:
                return dict(self.given).get(node.value, UNKNOWN)
            if found is not None and found[1] is not None:
                shared = found[0].outer is None
                if not shared or node.value in _set_by_functions(self.function.module):
                    return UNKNOWN
                return _literal(found[1].node, self.function.module)
        path = dotted(node)
        if path is not None and path.startswith("self.") and path.count(".") == 1:
            return _attribute(path[5:], self.function)
        return _literal(node, self.function.module)

    def passed(self, call: cst.Call, info: FunctionInfo) -> Known:
        """What is known of the parameters in a call of a function."""
        if any(argument.star for argument in call.args):
            return frozenset()
        values = {
            p.name: _literal(p.default, info.module)
            for p in info.parameters
            if p.default is not None and not p.star
        }
        pairs = ((a.keyword.value if a.keyword else None, a.value) for a in call.args)
        given = by_parameter(info, pairs, is_bound=info.is_method)
        values.update((name, self.constant(node)) for name, node in given.items())
        return frozenset(
            (name, value)
            for name, value in values.items()
            if value is not UNKNOWN and not is_rebound(info.module, info, name)
        )


def _literal(node: cst.CSTNode, module: Module) -> Value:
    """The value of ``True``, ``None``, an integer or a string; ``UNKNOWN`` for anything else."""
    is_word = isinstance(node, cst.Name) and node.value in ("True", "False", "None")
    if not is_word and not isinstance(node, (cst.Integer, cst.SimpleString)):
        return UNKNOWN
    value = EVALUATORS[type(node)](module.frame, node)
    is_known = value is NONE or getattr(value, "const", None) is not None
    return value if is_known or (isinstance(value, Str) and value.text is not None) else UNKNOWN


def _asks_for_device(node: cst.CSTNode) -> bool:
    """``mx.default_device()``, ``mx.default_device().type``."""
    if isinstance(node, cst.Attribute) and node.attr.value == "type":
        node = node.value
    return isinstance(node, cst.Call) and (dotted(node.func) or "").endswith(_DEVICE)


def _attribute(name: str, function: FunctionInfo) -> Value:
    """An attribute that ``__init__`` sets to a constant, and nothing else in the file sets."""
    cls = function.cls
    values = attributes_set(function.module).get(name, [])
    made = cls.methods.get("__init__") if cls is not None else None
    if made is None or len(values) != 1 or values[0][0] is not made.node:
        return UNKNOWN
    return _literal(values[0][1], function.module)


@lru_cache(maxsize=4)
def attributes_set(
    module: Module,
) -> dict[str, list[tuple[cst.CSTNode | None, cst.BaseExpression]]]:
    """What a file assigns to attributes of each name, with the function that does."""
    found: dict[str, list[tuple[cst.CSTNode | None, cst.BaseExpression]]] = defaultdict(list)
    pending: list[tuple[cst.CSTNode, cst.CSTNode | None]] = [(module.tree, None)]
    while pending:
        node, function = pending.pop()
        if isinstance(node, (cst.FunctionDef, cst.Lambda)):
            function = node
        if isinstance(node, cst.Assign):
            for target in node.targets:
                if isinstance(target.target, cst.Attribute):
                    found[target.target.attr.value].append((function, node.value))
        elif (
            isinstance(node, (cst.AnnAssign, cst.AugAssign))
            and isinstance(node.target, cst.Attribute)
            and node.value is not None
        ):
            found[node.target.attr.value].append((function, node.value))
        pending.extend((child, function) for child in children(node))
    return dict(found)


@lru_cache(maxsize=4)
def _set_by_functions(module: Module) -> frozenset[str]:
    """The names that functions of a file declare global."""
    return frozenset(
        item.name.value
        for node in walk(module.tree, (cst.BaseExpression,))
        if isinstance(node, cst.Global)
        for item in node.names
    )
