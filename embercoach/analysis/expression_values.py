"""The value of every expression of a file, for ``embercoach dev facts``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from embercoach.analysis.evaluate.dispatch import EVALUATORS
from embercoach.analysis.project.driver import analyse_module
from embercoach.analysis.values.facts import (
    BinaryFact,
    CallFact,
    CompareFact,
    Fact,
    FactPlace,
    FormatFact,
    TruthFact,
)
from embercoach.analysis.values.lattice import Value, join_all

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.evaluate.frame import Frame
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.syntax.parse import Span


class ExpressionValue(NamedTuple):
    """An expression and its value, joined over all of its evaluations."""

    span: Span
    source: str
    value: Value


class _Evaluations:
    """The evaluations of a file's expressions."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.values: dict[cst.CSTNode, list[Value]] = {}
        self.places: dict[cst.CSTNode, FactPlace] = {}

    def add(self, node: cst.CSTNode, value: Value, place: FactPlace) -> None:
        """Note an evaluation."""
        self.values.setdefault(node, []).append(value)
        self.places[node] = place

    def evaluate(self, handler: Callable[[Frame, Any], Value], frame: Frame, node: Any) -> Value:
        """Evaluate an expression, and note its value where facts are recorded."""
        value = handler(frame, node)
        if frame.record and frame.module is self.module:
            self.add(node, value, frame.place())
        return value


def expressions(module: Module) -> list[ExpressionValue]:
    """Analyse a file; its expressions in the order of the source.

    Names are among them where they are operands, arguments or conditions.
    """
    found = _Evaluations(module)
    with _observed(found):
        facts = analyse_module(module)
    for fact in facts:
        for node, value in _operands(fact):
            found.add(node, value, fact.place)
    spans = module.parsed.spans({node: place.statement for node, place in found.places.items()})
    known = [
        ExpressionValue(spans[node], module.parsed.code(node), join_all(values))
        for node, values in found.values.items()
    ]
    return sorted(known, key=lambda one: (one.span.line, one.span.column, one.span[2:]))


@contextmanager
def _observed(found: _Evaluations) -> Iterator[None]:
    before = dict(EVALUATORS)
    for kind, handler in before.items():
        EVALUATORS[kind] = partial(found.evaluate, handler)
    try:
        yield
    finally:
        EVALUATORS.update(before)


def _operands(fact: Fact) -> Iterator[tuple[cst.CSTNode, Value]]:
    if isinstance(fact, CallFact):
        yield from ((argument.node, argument.value) for argument in fact.arguments)
        if fact.receiver_node is not None and fact.receiver is not None:
            yield fact.receiver_node, fact.receiver
    elif isinstance(fact, BinaryFact | CompareFact):
        yield from ((one.node, one.value) for one in (fact.left, fact.right))
    elif isinstance(fact, TruthFact | FormatFact):
        yield fact.node, fact.value
