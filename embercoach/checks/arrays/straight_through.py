"""GRAD-006 and GRAD-008: gradients that rounding, or the choice of an index, stops or negates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.gradient_roots import UnreachedLayer
from embercoach.analysis.dataflow.value_sources import Source, Sources, reaching_of, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.values.facts import ArrayIndexFact, BinaryFact, CallFact, Fact
from embercoach.analysis.values.lattice import BoundMember
from embercoach.analysis.work import MOST_CALLS, MOST_STEPS
from embercoach.checks.arrays.compositions import computed
from embercoach.checks.registry import Report, check

#: What would train such layers, or not: files that mention it are left aside.
_FROZEN = ("freeze(", "trainable")


@check("GRAD-008")
def unreached_by_gradient(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``book[mx.argmin(distances(encoder(x)))]`` without a straight-through gradient."""
    if any(text in module.source for text in _FROZEN):
        return
    reported: set[cst.CSTNode] = set()
    for result in module.differentiated:
        for unreached in result.unreached:
            place = _lookup(unreached, module) or result.root
            if place.node in reported:
                continue
            reported.add(place.node)
            yield Report.at(
                place,
                message=f"`{_shown(unreached)}` gets no gradient through `{unreached.operation}()`",
                help="Add it straight through: `q = z + mx.stop_gradient(q - z)`",
            )


def _shown(unreached: UnreachedLayer) -> str:
    text = unreached.method.module.parsed.code(unreached.layer.func)
    return text if len(text) <= 24 else "a layer"


def _lookup(unreached: UnreachedLayer, module: Module) -> Fact | None:
    """Return the call or subscript that is given the chosen index; without one, what chooses it."""
    if unreached.method.module is not module:
        return None
    cls = unreached.method.cls
    methods = (unreached.method,) if cls is None else cls.methods.values()
    facts = [fact for method in methods for fact in module.facts_of(method)]
    choices = {
        fact.node: fact
        for fact in facts
        if isinstance(fact, CallFact)
        and fact.entry is not None
        and fact.entry.name.rpartition(".")[2] == unreached.operation
    }
    sources = sources_of(module)
    for fact in facts:
        for node in _given(fact):
            ends = computed(sources.of(fact, node), sources)
            if fact.node not in choices and any(end.node in choices for end in ends):
                return fact
    return next(iter(choices.values()), None)


def _given(fact: Fact) -> Iterator[cst.BaseExpression]:
    """Yield the expressions that a call is given, or that a subscript has as its index."""
    if isinstance(fact, CallFact) and fact.symbol != "mlx.core.stop_gradient":
        yield from (argument.node for argument in fact.arguments if not argument.star)
    elif isinstance(fact, BinaryFact):
        yield from (fact.left.node, fact.right.node)
    elif isinstance(fact, ArrayIndexFact):
        yield from (index[0] for index in fact.indices if index is not None)


STOP = "mlx.core.stop_gradient"
#: Functions whose gradient is zero, and whose results a straight-through expression passes on.
STEPS = frozenset(f"mlx.core.{name}" for name in ("round", "floor", "ceil", "sign"))


class _Term(NamedTuple):
    """A term of a sum: its sign, and whether its gradient is stopped."""

    key: tuple[object, ...]
    node: cst.CSTNode
    sign: int
    is_stopped: bool
    is_step: bool


@check("GRAD-006")
def straight_through(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``mx.stop_gradient(z + (q - z))``, ``z + (mx.stop_gradient(q) - z)``."""
    if not any(name in module.source for name in ("stop_gradient", "round", "sign", "floor")):
        return
    sums: list[BinaryFact | CallFact] = []
    stops: list[CallFact] = []
    inner: set[int] = set()
    calls = (fact for fact in facts if type(fact) is CallFact)
    functions = {call.place.function for call in calls if _is_relevant(call)}
    if not functions:
        return
    for fact in facts:
        if isinstance(fact, BinaryFact) and _is_sum(fact.node):
            sums.append(fact)
            inner |= {id(fact.left.node), id(fact.right.node)}
        elif isinstance(fact, CallFact) and fact.symbol == STOP:
            stops.append(fact)
            inner |= {id(argument.node) for argument in fact.arguments}
    sources = sources_of(module)
    for outer in (*sums, *stops):
        if id(outer.node) in inner or outer.place.function not in functions:
            continue
        terms = _Terms(sources)
        assert isinstance(outer.node, cst.BaseExpression)
        terms.add(sources.of(outer, outer.node), 1, is_stopped=False)
        problem = _problem(terms.found)
        if problem is not None:
            yield _report(
                outer, problem, "Stop the difference alone: `z + mx.stop_gradient(q - z)`"
            )
    for fact in facts:
        if isinstance(fact, CallFact) and fact.symbol in STEPS and fact.arguments:
            terms = _Terms(sources)
            terms.add(sources.of(fact, fact.arguments[0].node), 1, is_stopped=False)
            if _is_straight_through(terms.found) and any(t.is_stopped for t in terms.found):
                yield _report(fact, "has no gradient", "Drop the step around the expression")


def _is_relevant(call: CallFact) -> bool:
    """Return whether a call stops the gradient, or may have none: ``x.round()`` too."""
    callee = call.callee
    name = f"mlx.core.{callee.name}" if type(callee) is BoundMember else call.symbol
    return name == STOP or name in STEPS


def _report(fact: Fact, problem: str, remedy: str) -> Report:
    message = f"straight-through expression {problem}"
    return Report.at(fact, "GRAD-006", message=message, help=remedy)


def _is_sum(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.BinaryOperation) and isinstance(
        node.operator, (cst.Add, cst.Subtract)
    )


class _Terms:
    """The terms of a sum, through names and ``mx.stop_gradient``."""

    def __init__(self, sources: Sources) -> None:
        self.found: list[_Term] = []
        self._sources = sources

    def add(self, source: Source, sign: int, *, is_stopped: bool, names: int = 0) -> None:
        """Add the terms of an expression."""
        node = source.node
        if len(self.found) >= MOST_STEPS:
            return
        if isinstance(node, cst.BinaryOperation) and _is_sum(node):
            other = sign if isinstance(node.operator, cst.Add) else -sign
            self.add(source.at(node.left), sign, is_stopped=is_stopped, names=names)
            self.add(source.at(node.right), other, is_stopped=is_stopped, names=names)
            return
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
            self.add(source.at(node.expression), -sign, is_stopped=is_stopped, names=names)
            return
        call = self._sources.library_call(source)
        if call is not None and call.name == STOP and call.array is not None:
            self.add(call.array, sign, is_stopped=True, names=names)
            return
        further = self._assigned(source) if names < MOST_CALLS else None
        if further is not None:
            inner = _Terms(self._sources)
            inner.add(further, sign, is_stopped=False, names=names + 1)
            if not _is_straight_through(inner.found):
                self.found += [
                    t._replace(is_stopped=t.is_stopped or is_stopped) for t in inner.found
                ]
                return
        is_step = call is not None and call.name in STEPS
        self.found.append(_Term(_key(source), node, sign, is_stopped, is_step))

    def _assigned(self, source: Source) -> Source | None:
        """Return the sum, or the call of ``mx.stop_gradient``, that a name is assigned."""
        if not isinstance(source.node, cst.Name):
            return None
        held = reaching_of(source).before(source.statement, source.node.value)
        if not held or len(held) > 1 or held[0].kind != "assigned" or held[0].value is None:
            return None
        value = held[0].value
        further = source.moved(value, held[0].statement)
        call = self._sources.library_call(further)
        is_stop = call is not None and call.name in (STOP, *STEPS)
        return further if is_stop or _is_sum(value) else None


def _key(source: Source) -> tuple[object, ...]:
    """Return the text of a term and the bindings of its names, which equal terms have in common."""
    reaching = reaching_of(source)
    names = contents_of(source.node).of(cst.Name)
    bindings = (reaching.before(source.statement, name.value) for name in names)
    return (source.module.parsed.code(source.node), *bindings)


def _problem(terms: list[_Term]) -> str | None:
    """Return the problem of the gradient of ``z`` in ``z + (q - z)``, if it is this form."""
    carrier, passed = _parts(terms)
    if not carrier or not passed or isinstance(carrier[0].node, (cst.Integer, cst.Float)):
        return None
    if not any(t.is_stopped for t in terms) and not all(t.is_step for t in passed):
        return None
    gradient = _gradient(carrier)
    if gradient == 0:
        return "has no gradient"
    return "negates the gradient" if gradient < 0 else None


def _is_straight_through(terms: list[_Term]) -> bool:
    """Return whether a sum passes the gradient of a term that is not part of its value."""
    carrier, passed = _parts(terms)
    return bool(carrier and passed) and _gradient(carrier) != 0


def _parts(terms: list[_Term]) -> tuple[list[_Term], list[_Term]]:
    """Return the one term that cancels, each time that it occurs, and the terms that do not."""
    groups: dict[tuple[object, ...], list[_Term]] = {}
    for term in terms:
        groups.setdefault(term.key, []).append(term)
    carriers = [g for g in groups.values() if len(g) > 1 and sum(t.sign for t in g) == 0]
    passed = [t for g in groups.values() if g not in carriers for t in g]
    return (carriers[0] if len(carriers) == 1 else []), passed


def _gradient(carrier: list[_Term]) -> int:
    return sum(term.sign for term in carrier if not term.is_stopped)
