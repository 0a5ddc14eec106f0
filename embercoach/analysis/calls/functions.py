"""Functions of linted files: binding arguments, results, and the analysis of their bodies."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

import libcst as cst
from msgspec.structs import replace

from embercoach.analysis.calls import constants
from embercoach.analysis.calls.binding import bind, without_expressions
from embercoach.analysis.calls.kernel_objects import holds_kernel
from embercoach.analysis.calls.parameters import (
    annotated_result,
    canonical_values,
    closure_of,
    declared_result,
    is_vague,
    parameter_value,
    plain,
)
from embercoach.analysis.dataflow.scopes import assignment_counts
from embercoach.analysis.evaluate import exactness
from embercoach.analysis.evaluate.dispatch import evaluate, execute, link
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.evaluate.must_execute import MustExecute
from embercoach.analysis.values.gradient_marks import marked, marks_of
from embercoach.analysis.values.lattice import (
    NO_PULLS,
    NONE,
    STR,
    TRACED,
    UNKNOWN,
    Array,
    Callable,
    Dict,
    Instance,
    Kernel,
    LibraryObject,
    Number,
    Numpy,
    Sequence,
    Str,
    Torch,
    Value,
    any_item,
    as_array,
    join,
    join_all,
    options,
    parts_of,
)
from embercoach.analysis.values.memo import MAX_DEPTH, MOST_KEPT, shared_result
from embercoach.analysis.work import WorkExceededError

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.dataflow.gradient_roots import GradientRun
    from embercoach.analysis.values.facts import Argument, Fact, FunctionVisit

_NO_ARRAYS = (Sequence, Numpy, Number, Str)


def yielded_values(annotated: Value, inferred: Value) -> Value:
    """The items of a generator: from the body, or from the annotation where it shows nothing."""
    if not isinstance(inferred, Sequence) or not isinstance(annotated, Sequence):
        return annotated
    here, declared = inferred.items, annotated.items
    if here is not None and declared is not None and len(here) == len(declared):
        return Sequence(annotated.kind, None, tuple(map(_yielded_item, declared, here)))
    return Sequence(annotated.kind, _yielded_item(any_item(annotated), any_item(inferred)))


def _yielded_item(annotated: Value, inferred: Value) -> Value:
    if isinstance(inferred, Sequence) and isinstance(annotated, Sequence):
        return yielded_values(annotated, inferred)
    return annotated if UNKNOWN in options(inferred) else inferred


def may_be_kernel(info: FunctionInfo, annotated: Value) -> bool:
    """Return whether a value annotated as a callable may be a kernel that the function builds.

    Or, as an instance of a class, a wrapper of one.
    """
    kinds: tuple[type, ...] = (Callable, LibraryObject)
    if info.module.builders:
        kinds = (*kinds, Instance)
    if not any(isinstance(o, kinds) for o in options(annotated)):
        return False
    return info.module.mentions_kernels


def lacks_dtypes(value: Value) -> bool:
    """Return whether a value is an array of unknown dtype, or a tuple or dictionary of those."""
    if type(value) is Sequence and value.items:
        return all(lacks_dtypes(item) for item in value.items)
    if type(value) is Dict:
        return lacks_dtypes(value.item)
    return type(value) is Array and value.dtype is None


def with_dtypes(annotated: Value, inferred: Value) -> Value:
    """Return the annotated arrays with the dtypes of those that the body returns.

    Where it visibly returns a dictionary without any array, the annotation is incorrect.
    """
    if type(annotated) is Dict:
        return Dict(UNKNOWN) if _holds_no_array(inferred) else annotated
    if type(annotated) is Sequence and type(inferred) is Sequence:
        declared, found = annotated.items or (), inferred.items or ()
        if len(declared) != len(found):
            return annotated
        return replace(annotated, items=tuple(map(with_dtypes, declared, found)))
    array = as_array(inferred)
    if type(annotated) is not Array or array is None:
        return annotated
    return replace(annotated, dtype=array.dtype)


def _holds_no_array(value: Value) -> bool:
    """Return whether a value is a dictionary, all of whose values are known, and no arrays."""
    if type(value) is not Dict or not value.known:
        return False
    held = (o for v in parts_of(value) for o in options(v))
    return all(isinstance(o, _NO_ARRAYS) for o in held)


MAX_SUMMARIES = 6
#: Parameters that are bound in the time of an evaluation.
PARAMETERS_A_STEP = 2


@link("call_function")
def call_function(
    frame: Frame, info: FunctionInfo, bound: Value | None, arguments: tuple[Argument, ...]
) -> Value:
    """Return the result of a call, from the return annotation or from the body.

    Callers are evidence of what parameters hold, and edges of the call graph.
    """
    frame.work.left -= len(info.parameters) // PARAMETERS_A_STEP
    values = constants.with_default_dtypes(info, bind(info, bound, arguments), arguments)
    if frame.record:
        if frame.info is not None:
            frame.info.calls[info] = None
        if info.module is frame.module:
            for parameter in info.parameters:
                value = values.get(parameter.name)
                if value is not None and value is not UNKNOWN and parameter.star != "**":
                    parameter.observe(plain(value))
    given = None if any(a.star for a in arguments) else values
    return _result(frame, info, values, given)


def call_with_values(
    frame: Frame, info: FunctionInfo, bound: Value | None, values: tuple[Value, ...]
) -> Value:
    """Return the result of a call with positional values that have no expressions."""
    return call_function(frame, info, bound, without_expressions(values))


def _result(
    frame: Frame, info: FunctionInfo, values: dict[str, Value], known_to: dict[str, Value] | None
) -> Value:
    if frame.gradient is not None:
        return _marked_result(frame, frame.gradient, info, values, is_known=known_to is not None)
    annotated = annotated_result(info)
    generates = isinstance(annotated, Sequence) and annotated.kind == "iterator"
    is_tensor = type(annotated) is Torch
    makes_text = annotated is not None and constants.may_make_text(frame, info, annotated)
    if (
        annotated is not None
        and annotated is not UNKNOWN
        and not (generates or makes_text or is_tensor or is_vague(annotated))
    ) and not may_be_kernel(info, annotated):
        found = _refined(annotated, info, frame, values)
        is_traced = any(isinstance(v, Array) and v.traced for v in values.values())
        return Array(found.dtype, False, False, is_traced) if type(found) is Array else found
    if info.in_progress or frame.depth >= MAX_DEPTH:
        info.module.project.calls.cut(info)
        return annotated or UNKNOWN
    elsewhere = False
    if info.outer is not None and info.module.mentions_kernels:
        closure = constants.closure_at(frame, info)
        elsewhere = closure is None
        if closure is not None and closure is not info.closure:
            # Another run of the surrounding function holds other values.
            values_here = constants.given(info, known_to or values)
            depth = frame.depth + 1
            return _run(
                info, values_here, record=False, depth=depth, closure=closure, exact=frame.exact
            )
    known = _summary(frame, info, values, annotated or UNKNOWN)
    if elsewhere and type(known) is Str:
        known = STR  # the surrounding function may have been called otherwise
    elif known_to is not None and constants.matter(frame, info, known):
        known = _exactly(frame, info, known_to, known)
    if (makes_text or is_tensor) and annotated is not None:
        return known if type(known) is type(annotated) else annotated
    if annotated is not None and may_be_kernel(info, annotated):
        return known if holds_kernel(known) else annotated
    return yielded_values(annotated, known) if generates and annotated is not None else known


def _refined(annotated: Value, info: FunctionInfo, frame: Frame, values: dict[str, Value]) -> Value:
    """Arrays with the dtypes that the body returns: whatever it is given, or for these values."""
    if not lacks_dtypes(annotated):
        return annotated
    if info.module is frame.module and type(annotated) is type(info.returned) is Array:
        if info.returned.dtype is not None:
            return info.returned
        annotated = info.returned
    if info.in_progress or frame.depth >= MAX_DEPTH:
        info.module.project.calls.cut(info)
        return annotated
    return with_dtypes(annotated, _summary(frame, info, values, annotated))


def _marked_result(
    frame: Frame,
    run: GradientRun,
    info: FunctionInfo,
    values: dict[str, Value],
    *,
    is_known: bool,
) -> Value:
    """Return the result of a call in a run that follows a gradient: from the body, in any case."""
    annotated = declared_result(info)
    if info.in_progress or frame.depth >= MAX_DEPTH:
        return annotated
    given = []
    for parameter in info.parameters:
        value = values.get(parameter.name)
        marks = NO_PULLS if value is None else marks_of(value)
        flag = constants.flag_of_parameter(info, parameter, value) if is_known else None
        given.append(flag or marked(parameter_value(info, parameter, value), marks))
    key = info, tuple(given)
    known = run.results.get(key)
    if known is None:
        run.results[key] = annotated
        closure = constants.closure_at(frame, info) if info.outer is not None else None
        depth = frame.depth + 1
        known = _run(info, key[1], record=False, depth=depth, closure=closure, gradient=run)
        if annotated is not UNKNOWN and not isinstance(known, (Sequence, Dict)):
            known = marked(annotated, marks_of(known))
        run.results[key] = known
    if frame.module is run.module:
        run.note_imported(frame.info, frame.statement, info, known)
    return known


def follow_gradient(info: FunctionInfo, values: tuple[Value, ...], run: GradientRun) -> Value:
    """Return the result of a differentiated function, with the marks of what flows into it."""
    return UNKNOWN if info.in_progress else _run(info, values, record=False, depth=0, gradient=run)


def _summary(frame: Frame, info: FunctionInfo, values: dict[str, Value], vague: Value) -> Value:
    """Return the body's result for these values, up to a number of different ones.

    A shared function is run once for all files that ask, but each file's calls count by
    themselves: what another file asks for must not change the results of this one.
    """
    given = tuple(plain(parameter_value(info, p, values.get(p.name))) for p in info.parameters)
    asked = _asked(frame, info, exact=False)
    if len(asked) >= MAX_SUMMARIES and not frame.module.is_shared and given not in asked:
        first = next(iter(asked.values()))
        if not holds_kernel(first):
            return vague if lacks_dtypes(vague) else first
    return _evaluated(frame, info, given, vague, exact=False)


def _asked(frame: Frame, info: FunctionInfo, *, exact: bool) -> dict[tuple[Value, ...], Value]:
    """Return what the file's calls of a function gave."""
    if info.module.is_shared:
        return frame.module.asked.setdefault((info, exact), {})
    return info.exact if exact else info.summaries


def _evaluated(
    frame: Frame, info: FunctionInfo, given: tuple[Value, ...], vague: Value, *, exact: bool
) -> Value:
    """Return the body's result for these values, kept among those that the file has asked for."""
    if info.module.is_shared and frame.module.is_shared:
        return _once_for_all(frame, info, given, vague, exact=exact)
    asked = _asked(frame, info, exact=exact)
    known = asked.get(given)
    if known is None:
        if len(asked) >= MOST_KEPT:
            return vague
        asked[given] = vague  # for a body that comes back to this very call
        known = asked[given] = _once_for_all(frame, info, given, vague, exact=exact)
    return known


def _once_for_all(
    frame: Frame, info: FunctionInfo, given: tuple[Value, ...], vague: Value, *, exact: bool
) -> Value:
    def run() -> Value:
        return _run(info, given, record=False, depth=frame.depth + 1, exact=exact)

    if not info.module.is_shared:
        return run()
    return shared_result(frame, info, (exact, given), vague, run)


def _exactly(frame: Frame, info: FunctionInfo, values: dict[str, Value], vague: Value) -> Value:
    """Return the body's result for the constants of one call, or ``vague``."""
    if constants.closure_at(frame, info) is None:
        return vague
    return _evaluated(frame, info, constants.given(info, values), vague, exact=True)


def explore(info: FunctionInfo) -> None:
    """Run a method for the attributes that it sets; for good if its file is being analysed."""
    with info.module.project.calls.none() if info.module.is_shared else nullcontext():
        if info.in_progress:
            return
        if info.module.is_analysed and info.analysed_with is None:
            analyse(info)
        else:
            frame = _entered(info, canonical_values(info), record=False, depth=2)
            frame.traceless = False
            _execute(info, frame)


def analyse(info: FunctionInfo) -> None:
    """Run a body with what is known of its parameters, and record its facts.

    Where a use in the body shows that a parameter is an array, or that it is none, the body is run
    again knowing it.
    """
    for _ in range(3):
        shown = len(info.shown_arrays) + len(info.denied_arrays)
        values = canonical_values(info)
        info.module.facts_of(info).clear()
        info.analysed_with = values
        result = _run(info, values, record=True, depth=0)
        if len(info.shown_arrays) + len(info.denied_arrays) == shown:
            break
        info.forget()
    info.summaries.setdefault(tuple(map(plain, values)), result)
    given = filter(None, map(as_array, values))
    if all(array.dtype is None for array in given):
        info.returned = plain(result)  # which callers do not decide


def _run(
    info: FunctionInfo,
    values: tuple[Value, ...],
    *,
    record: bool,
    depth: int,
    closure: Frame | None = None,
    exact: bool = False,
    gradient: GradientRun | None = None,
) -> Value:
    """Run a body, ``exact`` for the constants of one call."""
    frame = _entered(info, values, record=record, depth=depth)
    if gradient is not None:
        frame.gradient, frame.work = gradient, gradient.work
    if closure is not None:
        frame.outer = closure
    if exact:
        frame.exact = True
        frame.rounds_left = exactness.MAX_ROUNDS
    falls = _execute(info, frame)
    if record:
        info.rebound = frame.rebound
    if frame.yielded is not None:
        return Sequence("iterator", frame.yielded)
    if frame.returned is None:
        return NONE if falls else UNKNOWN
    return join(frame.returned, NONE) if falls else frame.returned


@link("left_in")
def left_in(info: FunctionInfo, name: str) -> Value:
    """Return a parameter's value after the body has run, a filled dict for example."""
    if info.in_progress:
        return UNKNOWN
    frame = _entered(info, canonical_values(info), record=False, depth=2)
    _execute(info, frame)
    return frame.names.get(name, UNKNOWN)


def seen_in(visit: FunctionVisit) -> list[Fact]:
    """Return the launches that one call of a function makes, and its calls of other functions."""
    info = visit.function
    if info.in_progress:
        return []
    values = bind(info, visit.bound, visit.arguments)
    frame = _entered(info, constants.given(info, values), record=False, depth=1)
    for name, value in values.items():
        if type(value) is Kernel:  # which an annotation as a callable would hide
            frame.names[name] = value
    frame.outer = visit.closure or frame.outer
    frame.exact, frame.rounds_left = True, exactness.MAX_ROUNDS
    frame.visit = visit
    _execute(info, frame)
    return frame.seen


def must_execute(
    info: FunctionInfo, arrays: frozenset[str], given: Iterable[tuple[str, Value]]
) -> MustExecute:
    """Return the calls that must execute when a function runs, and what must read arrays.

    Args:
        info: the function.
        arrays: names in it that hold arrays, and not None.
        given: what is known of its parameters, and of those of the functions around it.
    """
    if info.in_progress:
        return MustExecute(arrays)
    values: list[Value] = [TRACED if p.name in arrays else UNKNOWN for p in info.parameters]
    owner = info.parameters[0].name if info.is_method and info.parameters else ""
    values[:1] = canonical_values(info)[:1] if owner else values[:1]
    frame = _entered(info, tuple(values), record=False, depth=1)
    frame.names.set_all(given)
    if owner:  # any of several assignments may hold, of whatever object they are
        repeated = (name for name, n in assignment_counts(info.module).items() if n > 1)
        frame.names.set_all((f"{owner}.{name}", UNKNOWN) for name in repeated)
    frame.must = must = MustExecute(arrays)
    with suppress(WorkExceededError):
        _execute(info, frame)
    return must


def _entered(info: FunctionInfo, values: tuple[Value, ...], *, record: bool, depth: int) -> Frame:
    """Return a frame in which the parameters are bound and nothing has been run yet."""
    frame = Frame(info.module, info, closure_of(info), record=record, depth=depth)
    frame.traceless = info.module.is_shared
    frame.names.set_all(zip((p.name for p in info.parameters), values, strict=False))
    for parameter in info.parameters:
        if parameter.name in info.shown_arrays and parameter.annotation is None:
            known = frame.names[parameter.name]
            if UNKNOWN in options(known) or known is NONE:
                shown = [o for o in options(known) if o is NONE]
                frame.names[parameter.name] = join_all([*shown, TRACED])
    return frame


def _execute(info: FunctionInfo, frame: Frame) -> bool:
    """Run the body; whether control falls off its end."""
    functions = info.module.project.calls.functions
    is_outermost = info not in functions
    functions.add(info)
    try:
        node = info.node
        if not isinstance(node, cst.Lambda):
            return execute(frame, node.body.body)
        frame.statement = info.statement or info.module.tree
        frame.returned = evaluate(frame, node.body)
        return False
    finally:
        if is_outermost:
            functions.discard(info)
