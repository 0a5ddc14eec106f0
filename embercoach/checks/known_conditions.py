"""What the conditions of a function come to in one visit of it, as far as that is known."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import libcst as cst

from embercoach.analysis.facts import calls_of
from embercoach.analysis.paths import dotted
from embercoach.analysis.scopes import is_rebound, scope_of
from embercoach.analysis.trees import children, evaluated, walk

if TYPE_CHECKING:
    from embercoach.analysis.definitions import FunctionInfo
    from embercoach.analysis.module import Module

Constant: TypeAlias = "bool | int | str | None"
#: Parameters and what they are.
Known: TypeAlias = frozenset[tuple[str, Constant]]


class _Unknown:
    """What no constant is."""


UNKNOWN: Final = _Unknown()
_WORDS: dict[str, Constant] = {"True": True, "False": False, "None": None}
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
        value = self.constant(test)
        return None if isinstance(value, _Unknown) else bool(value)

    def _compared(self, test: cst.Comparison) -> bool | None:
        if len(test.comparisons) != 1:
            return None
        operator, other = test.comparisons[0].operator, test.comparisons[0].comparator
        if not isinstance(operator, (cst.Equal, cst.NotEqual, cst.Is, cst.IsNot)):
            return None
        same = self._same(test.left, other)
        if same is None:
            return None
        return same is isinstance(operator, (cst.Equal, cst.Is))

    def _same(self, left: cst.BaseExpression, right: cst.BaseExpression) -> bool | None:
        if _asks_for_device(left) and (dotted(right) or "").endswith(_GPU):
            return True
        first, second = self.constant(left), self.constant(right)
        if isinstance(left, cst.Name) and left.value in self.arrays and second is None:
            return False
        if isinstance(first, _Unknown) or isinstance(second, _Unknown):
            return None
        return first == second

    def constant(self, node: cst.BaseExpression) -> Constant | _Unknown:
        """The constant that an expression is."""
        written = _literal(node)
        if not isinstance(written, _Unknown):
            return written
        if isinstance(node, cst.Name):
            return self._named(node.value)
        path = dotted(node)
        if path is not None and path.startswith("self.") and path.count(".") == 1:
            return _attribute(path[5:], self.function)
        return UNKNOWN

    def _named(self, name: str) -> Constant | _Unknown:
        """A parameter, or a constant of the module that nothing binds anew."""
        found = scope_of(self.function.module, self.function).find(name)
        if found is None:
            return UNKNOWN
        scope, bound = found
        if bound is None:
            return next((value for given, value in self.given if given == name), UNKNOWN)
        if scope.outer is not None or name in _set_by_functions(self.function.module):
            return UNKNOWN
        return _literal(bound.node)

    def passed(self, call: cst.Call, info: FunctionInfo) -> Known:
        """What is known of the parameters in a call of a function."""
        if any(argument.star for argument in call.args):
            return frozenset()
        parameters = [p for p in info.parameters if not p.star]
        placed = [p.name for p in parameters if not p.keyword_only][info.is_method :]
        values: dict[str, Constant | _Unknown] = {
            p.name: _literal(p.default) for p in parameters if p.default is not None
        }
        for index, argument in enumerate(call.args):
            if argument.keyword is not None:
                values[argument.keyword.value] = self.constant(argument.value)
            elif index < len(placed):
                values[placed[index]] = self.constant(argument.value)
        return frozenset(
            (name, value)
            for name, value in values.items()
            if not isinstance(value, _Unknown) and not is_rebound(info.module, info, name)
        )


def _literal(node: cst.CSTNode) -> Constant | _Unknown:
    if isinstance(node, cst.Name):
        return _WORDS.get(node.value, UNKNOWN)
    if isinstance(node, cst.SimpleString):
        text = evaluated(node)
        return text if isinstance(text, str) else UNKNOWN
    number = evaluated(node) if isinstance(node, cst.Integer) else None
    return number if isinstance(number, int) else UNKNOWN


def _asks_for_device(node: cst.CSTNode) -> bool:
    """``mx.default_device()``, ``mx.default_device().type``."""
    if isinstance(node, cst.Attribute) and node.attr.value == "type":
        node = node.value
    return isinstance(node, cst.Call) and (dotted(node.func) or "").endswith(_DEVICE)


def _attribute(name: str, function: FunctionInfo) -> Constant | _Unknown:
    """An attribute that ``__init__`` sets to a constant, and nothing else in the file sets."""
    cls = function.cls
    values = attributes_set(function.module).get(name, [])
    made = cls.methods.get("__init__") if cls is not None else None
    if made is None or len(values) != 1 or values[0][0] is not made.node:
        return UNKNOWN
    return _literal(values[0][1])


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
