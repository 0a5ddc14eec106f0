"""Control flow: branches join, loops run twice, and only the second round records facts."""

from __future__ import annotations

from collections.abc import Callable as Fn
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.evaluate import exactness
from embercoach.analysis.evaluate.assignment import assign
from embercoach.analysis.evaluate.dispatch import element_of, evaluate, execute
from embercoach.analysis.evaluate.must_execute import without_raising
from embercoach.analysis.evaluate.narrowing import is_periodic, narrow, runs_once, test
from embercoach.analysis.syntax.trees import target_names
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    Symbol,
    Value,
    as_array,
    without_alternatives,
)

if TYPE_CHECKING:
    from embercoach.analysis.evaluate.frame import Frame, Snapshot


#: Loops around a loop from which on its rounds are not run again from the same state.
DEEP = 4


class Round(NamedTuple):
    """One round of a loop: whether another one may follow, and the states at a ``break``."""

    again: bool
    breaks: list[Snapshot]


def _body(frame: Frame, suite: cst.BaseSuite) -> bool:
    return execute(frame, suite.body)


def execute_if(frame: Frame, node: cst.If) -> bool:
    """``if``/``elif``/``else``."""
    frame.statement = node
    value = test(frame, node.test, "if")
    truth = exactness.truth(value) if frame.decides else None
    if frame.must is not None and truth is None:
        truth = without_raising(node)
    if truth is not None:
        return _decided(frame, node, truth)
    with frame.unsure():
        return _branches(frame, node)


def _branches(frame: Frame, node: cst.If) -> bool:
    """Run an ``if`` of which either branch may be run."""
    before = frame.fork()
    periodic = frame.periodic
    branches: list[Snapshot] = []
    narrow(frame, node.test, True)
    frame.periodic = periodic or is_periodic(node.test) or runs_once(frame, node)
    if _body(frame, node.body):
        branches.append(frame.fork())
    frame.periodic = periodic
    frame.restore(before)
    frame.statement = node
    narrow(frame, node.test, False)
    falls = True
    if isinstance(node.orelse, cst.If):
        falls = execute_if(frame, node.orelse)
    elif node.orelse is not None:
        falls = _body(frame, node.orelse.body)
    if falls:
        branches.append(frame.fork())
    frame.merge(branches)
    return bool(branches)


def _decided(frame: Frame, node: cst.If, truth: bool) -> bool:
    """Run an ``if`` of which one branch alone is run."""
    if truth:
        return _body(frame, node.body)
    if isinstance(node.orelse, cst.If):
        return execute_if(frame, node.orelse)
    return node.orelse is None or _body(frame, node.orelse.body)


def enter_loop(
    frame: Frame,
    target: cst.BaseAssignTargetExpression,
    iterable: Value,
    node: cst.BaseExpression | None,
) -> None:
    """Bind a loop's targets to an element of what it walks over, one loop deeper."""
    assign(frame, target, element_of(frame, iterable))
    frame.loops += 1
    frame.loop_names = frame.loop_names.union(target_names(target))
    frame.array_names = frame.array_names.union(_array_targets(frame, target, iterable, node))


def _array_targets(
    frame: Frame,
    target: cst.BaseAssignTargetExpression,
    iterable: Value,
    node: cst.BaseExpression | None,
) -> Collection[str]:
    """Get the targets that walk over an array's elements, through ``zip`` and ``enumerate`` too."""
    if as_array(iterable) is not None:
        return tuple(target_names(target))
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Name) or not node.args:
        return ()
    kind = frame.lookup(node.func.value)
    arguments = [a.value for a in node.args]
    if kind == Symbol("builtins.reversed"):
        pairs: list[tuple[cst.CSTNode, cst.BaseExpression]] = [(target, arguments[0])]
    elif not isinstance(target, cst.Tuple):
        return ()
    elif kind == Symbol("builtins.enumerate"):
        pairs = [(target.elements[-1].value, arguments[0])]
    elif kind == Symbol("builtins.zip"):
        pairs = list(zip((e.value for e in target.elements), arguments, strict=False))
    else:
        return ()
    with frame.quiet():
        return [n for t, a in pairs if as_array(evaluate(frame, a)) for n in target_names(t)]


def execute_for(frame: Frame, node: cst.For) -> bool:
    """``for``: a quiet round finds the values that reach the next one, a second records facts."""
    iterable = evaluate(frame, node.iter)
    if frame.exact:
        left = _unrolled(frame, node, iterable)
        if left is not None:
            return left

    def round_of(again: bool) -> bool:
        around = frame.loops, frame.loop_names, frame.array_names
        enter_loop(frame, node.target, iterable, node.iter)
        if not again:
            frame.loops, frame.loop_names, frame.array_names = around
        return _body(frame, node.body)

    breaks = _run_loop(frame, node, round_of, iterable)
    return _leave_loop(frame, node, breaks, runs_out=True)


def _unrolled(frame: Frame, node: cst.For, iterable: Value) -> bool | None:
    """Go through a loop over known items one by one; None if it can't be done so."""
    items = exactness.known_items(iterable)
    if items is None or len(items) > frame.rounds_left:
        return None
    entry, exits, outer_loop = frame.fork(), frame.exits, frame.loop
    before = frame.returned, frame.yielded
    frame.loop = node
    try:
        for item in items:
            frame.rounds_left -= 1
            frame.exits = []
            assign(frame, node.target, item)
            states = [frame.fork()] if _body(frame, node.body) else []
            states += [state for is_break, state in frame.exits if not is_break]
            breaks = [state for is_break, state in frame.exits if is_break]
            frame.merge(states or breaks)
            if breaks and states:  # what is not known decides whether there is another round
                frame.restore(entry)
                frame.returned, frame.yielded = before
                frame.quiet_rounds.clear()
                return None
            if not states:
                return bool(breaks)
    finally:
        frame.exits, frame.loop = exits, outer_loop
    return node.orelse is None or _body(frame, node.orelse.body)


def execute_while(frame: Frame, node: cst.While) -> bool:
    """``while``."""

    def round_of(again: bool) -> bool:
        frame.loops += again
        test(frame, node.test, "while")
        narrow(frame, node.test, True)
        return _body(frame, node.body)

    breaks = _run_loop(frame, node, round_of)
    frame.statement = node
    narrow(frame, node.test, False)
    endless = isinstance(node.test, cst.Name) and node.test.value == "True"
    return _leave_loop(frame, node, breaks, runs_out=not endless)


def _leave_loop(
    frame: Frame, node: cst.For | cst.While, breaks: list[Snapshot], *, runs_out: bool
) -> bool:
    """Leave a loop: one that runs out goes through its ``else``; a ``break`` goes past it."""
    if runs_out and node.orelse is not None:
        runs_out = _body(frame, node.orelse.body)
    branches = [frame.fork(), *breaks] if runs_out else breaks
    frame.merge(branches)
    return bool(branches)


def _run_loop(
    frame: Frame,
    node: cst.For | cst.While,
    round_of: Fn[[bool], bool],
    iterable: Value = UNKNOWN,
) -> list[Snapshot]:
    """Run a loop's rounds; leaves the state before another one, returns those at a ``break``.

    ``round_of`` receives whether another round can follow: with a ``break`` at the end of its body,
    as in a look at the first batch, a loop is none.
    """
    outer_loop, frame.loop = frame.loop, node
    exact, frame.exact = frame.exact, False
    exits, recording = frame.exits, frame.record
    before = frame.fork()
    frame.nesting += 1
    frame.record = False
    must = frame.must
    if must is not None:
        certain, returns, must.certain = must.certain, must.returns, False
    done = _known_round(frame, node, iterable)
    if done is None:
        done = _round(frame, node, round_of, again=True)
        if frame.nesting > DEEP:
            frame.quiet_rounds[id(node)] = (before, iterable, done, frame.fork())
    if recording or must is not None:
        frame.record = recording
        if must is not None:
            must.certain = certain
        done = _round(frame, node, round_of, again=done.again)
    if must is not None:
        must.certain = certain and must.returns == returns
    frame.nesting -= 1
    frame.record, frame.exact = recording, exact
    frame.loop = outer_loop
    frame.exits = exits
    if frame.module.mentions_kernels:
        # Later rounds may add others.
        for name, _, value in list(frame.names.since(before)):
            if value is not None:
                frame.names[name] = without_alternatives(value)
    return done.breaks


def _round(
    frame: Frame, node: cst.For | cst.While, round_of: Fn[[bool], bool], *, again: bool
) -> Round:
    """Run a loop's body once; leaves the state before the body is run again."""
    around = frame.loops, frame.loop_names, frame.array_names
    frame.statement = node
    frame.exits = []
    ends = [frame.fork()]
    completes = round_of(again)
    if completes:
        ends.append(frame.fork())
    frame.loops, frame.loop_names, frame.array_names = around
    breaks = [state for is_break, state in frame.exits if is_break]
    continues = [state for is_break, state in frame.exits if not is_break]
    frame.merge([*ends, *continues])
    return Round(completes or bool(continues), breaks)


def _known_round(frame: Frame, node: cst.For | cst.While, iterable: Value) -> Round | None:
    """Return a quiet round of a deeply nested loop, if the last one began with what is known now.

    The quiet and the recording round of each loop around run it again: the square of the depth.
    """
    known = frame.quiet_rounds.get(id(node))
    if known is None or frame.visit is not None or frame.global_names:
        return None
    before, over, done, after = known
    if over != iterable:
        return None
    if any(one != other for _, one, other in frame.names.since(before)):
        return None
    frame.restore(after)
    return done


def execute_exit(frame: Frame, node: cst.Break | cst.Continue) -> bool:
    """``break`` and ``continue``: the state goes on after the loop, or at its next round."""
    if frame.exits is not None:
        frame.exits.append((type(node) is cst.Break, frame.fork()))
    if frame.must is not None:
        frame.must.jumps += 1
    return False


def execute_try(frame: Frame, node: cst.Try | cst.TryStar) -> bool:
    """``try``: a handler starts from any state between the body's start and its end."""
    before = frame.fork()
    branches: list[Snapshot] = []
    falls = _body(frame, node.body)
    after = frame.fork()
    if falls and node.orelse is not None:
        falls = _body(frame, node.orelse.body)
    if falls:
        branches.append(frame.fork())
    frame.restore(before)
    frame.merge([before, after])
    raised = frame.fork()
    must = frame.must
    if must is not None:
        certain, must.certain = must.certain and falls, False
    for handler in node.handlers:
        frame.restore(raised)
        if handler.name is not None and isinstance(handler.name.name, cst.Name):
            frame.bind(handler.name.name.value, UNKNOWN)
        if _body(frame, handler.body):
            branches.append(frame.fork())
    if must is not None:
        must.certain = certain
    if branches:
        frame.merge(branches)
    if node.finalbody is not None and not _body(frame, node.finalbody.body):
        return False
    return bool(branches)
