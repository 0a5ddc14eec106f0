"""The recursion of following a kernel: evaluate, assign, execute, call.

Expressions contain calls, calls run the statements of functions, statements contain expressions.
Their modules call each other through this one, which imports none of them: ``expressions`` fills
the table by node type, and the modules named below provide the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from embercoach.metal.execution.conversions import number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from embercoach.metal.execution.machine import Machine
    from embercoach.metal.execution.memory import Pointer, Result
    from embercoach.metal.execution.path_state import State
    from embercoach.metal.execution.values import LaneValue
    from embercoach.metal.program.nodes import Assign, Call, Expression, Spot, Statement

_F = TypeVar("_F", bound="Callable[..., Any]")

RULES: dict[type[Expression], Callable[[Machine, State, Any], Result]] = {}
_LINKED: dict[str, Any] = {}


def link(name: str) -> Callable[[_F], _F]:
    """Provide one of the functions below, by its name."""

    def register(function: _F) -> _F:
        _LINKED[name] = function
        return function

    return register


def evaluate(m: Machine, state: State, node: Expression) -> Result:
    """Return the value of an expression."""
    m.tick(node.spot)
    return RULES[type(node)](m, state, node)


def evaluate_number(m: Machine, state: State, node: Expression) -> LaneValue:
    """Return the value of an expression as one number."""
    return number(m, state, evaluate(m, state, node), node)


def assign(m: Machine, state: State, node: Assign) -> tuple[Result, Pointer | None]:
    """Follow an assignment; return its value and place (``expressions``)."""
    return cast("tuple[Result, Pointer | None]", _LINKED["assign"](m, state, node))


def execute(m: Machine, state: State, node: Statement) -> None:
    """Follow a statement (``statements``)."""
    _LINKED["execute"](m, state, node)


def call(m: Machine, state: State, node: Call) -> Result:
    """Follow a call; return its result (``calls``)."""
    return cast("Result", _LINKED["call"](m, state, node))


def unheard(m: Machine, state: State, given: Sequence[Expression], spot: Spot) -> Result:
    """Follow a call of something that the texts do not define (``calls``)."""
    return cast("Result", _LINKED["unheard"](m, state, given, spot))
