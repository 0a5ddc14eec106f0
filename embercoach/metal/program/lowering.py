"""From Metal text to a program."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from embercoach.metal.facts import Place
from embercoach.metal.program import expressions, functions, statements
from embercoach.metal.program.folding import fold_int
from embercoach.metal.program.nodes import Block, Evaluate, Opaque, Program, Spot
from embercoach.metal.program.preprocessing import Expanded, preprocess
from embercoach.metal.program.state import Lowering, Names, Rules, TooDeepError
from embercoach.metal.program.texts import Parsed

if TYPE_CHECKING:
    from embercoach.metal.program.nodes import Text

__all__ = ["Names", "lower_body", "lower_unit"]

_RULES = Rules(expressions.expression, statements.statement, functions.named_lambda)


@lru_cache(maxsize=128)
def lower_body(source: str, header: str = "", names: Names = Names()) -> Program:  # noqa: B008
    """Lower the ``source`` of a kernel under its ``header``.

    Args:
        source: the body as MLX gets it.
        header: the header as MLX gets it.
        names: what MLX's signature brings into the body's scope.
    """
    around = _unit(header, "header")
    if around is None:
        return _lost(header, "header")
    try:
        outer = around.parsed.expanded
        expanded = preprocess(source, _evaluate, outer.macros, outer.foreign)
        work = Lowering(Parsed(source, "body", expanded), _RULES, names, around)
        work.problems += work.parsed.problems
        body = statements.block(work, work.parsed.tree)
        _finish(work)
    except TooDeepError:
        return _lost(source, "body")
    return _program(work, body)


@lru_cache(maxsize=64)
def lower_unit(text: str) -> Program:
    """Lower a whole file; its entry points are functions."""
    work = _unit(text, "file")
    return _lost(text, "file") if work is None else _program(work, None)


@lru_cache(maxsize=64)
def _unit(text: str, kind: Text) -> Lowering | None:
    """A text at file scope, None where it nests too deep."""
    try:
        work = Lowering(Parsed(text, kind, preprocess(text, _evaluate)), _RULES)
        work.problems += work.parsed.problems
        functions.unit(work, work.parsed.tree.inner)
        _finish(work)
    except TooDeepError:
        return None
    return work


def _evaluate(text: str) -> int | None:
    """The value of a condition of the preprocessor; names left in it are unknown."""
    work = Lowering(Parsed(text, "body", Expanded(f"{text};")), _RULES)
    found = statements.block(work, work.parsed.tree).statements
    if work.parsed.problems or len(found) != 1 or not isinstance(found[0], Evaluate):
        return None
    return fold_int(found[0].expression, {})


def _finish(work: Lowering) -> None:
    while work.later:
        work.later.pop(0)()


def _program(work: Lowering, body: Block | None) -> Program:
    return Program(
        body,
        dict(work.variables),
        dict(work.functions),
        tuple(work.constants),
        tuple(work.problems),
        dict(work.structs),
    )


def _lost(text: str, kind: Text) -> Program:
    """The program of a text that nests too deep to be followed."""
    spot = Spot(kind, Place(0, len(text), 1, 1))
    problem = Opaque("the text nests too deep", spot)
    return Program(Block((problem,), spot) if kind != "file" else None, {}, {}, (), (problem,))
