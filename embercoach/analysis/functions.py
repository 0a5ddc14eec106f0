"""Functions of linted files: binding arguments, results, and the analysis of their bodies."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from embercoach.analysis.annotations import evaluate_annotation
from embercoach.analysis.conventions import SETTING_NAMES, assumed_parameter
from embercoach.analysis.definitions import FunctionInfo, Parameter
from embercoach.analysis.dispatch import evaluate
from embercoach.analysis.facts import Argument
from embercoach.analysis.fourier import detached
from embercoach.analysis.frame import Frame
from embercoach.analysis.kernels import holds_kernel
from embercoach.analysis.lattice import join, join_all, options, pulls_of
from embercoach.analysis.values import (
    NO_PULLS,
    NONE,
    SETTING,
    STR,
    UNKNOWN,
    Array,
    Callable,
    Class,
    Dict,
    Instance,
    LibraryObject,
    Number,
    Numpy,
    Sequence,
    Str,
    Torch,
    Union,
    Value,
)

MAX_DEPTH = 8
MAX_SUMMARIES = 6
MAX_PIECES = 64
MAX_KERNELS = 64


def call_function(
    frame: Frame, info: FunctionInfo, bound: Value | None, arguments: tuple[Argument, ...]
) -> Value:
    """The result of a call, from the return annotation or from the body.

    Callers are evidence of what parameters hold, and edges of the call graph.
    """
    values = _bind(info, bound, arguments)
    if frame.record:
        if frame.info is not None:
            frame.info.calls.add(info)
        if info.module is frame.module:
            for parameter in info.parameters:
                value = values.get(parameter.name)
                if value is not None and value is not UNKNOWN:
                    parameter.observe(_plain(value))
    return _result(frame, info, values)


def call_with_values(
    frame: Frame, info: FunctionInfo, bound: Value | None, values: tuple[Value, ...]
) -> Value:
    """The result of a call with positional values that have no expressions."""
    placeholder = cst.Name("_")
    return call_function(
        frame, info, bound, tuple(Argument(v, placeholder, None, "") for v in values)
    )


def _bind(
    info: FunctionInfo, bound: Value | None, arguments: tuple[Argument, ...]
) -> dict[str, Value]:
    """What each parameter is given, as far as the call says."""
    positional = [p for p in info.parameters if not p.star and not p.keyword_only]
    star = next((p for p in info.parameters if p.star == "*"), None)
    names = {p.name for p in info.parameters if not p.star}
    values: dict[str, Value] = {}
    index = 0
    if bound is not None and positional:
        values[positional[0].name] = bound
        index = 1
    spread = False
    for argument in arguments:
        if argument.star:
            spread = True
        elif argument.keyword is not None:
            if argument.keyword in names:
                values[argument.keyword] = argument.value
        elif not spread:
            if index < len(positional):
                values[positional[index].name] = argument.value
                index += 1
            elif star is not None:
                known = values.get(star.name)
                item = argument.value if known is None else join(known, argument.value)
                values[star.name] = item
    if star is not None and star.name in values:
        values[star.name] = Sequence("tuple", values[star.name])
    return values


def _plain(value: Value) -> Value:
    """A value as evidence and as a key: without constants and sites of this very call."""
    if isinstance(value, Number):
        return Number(value.kind)
    if isinstance(value, Array):
        return (
            Array(value.dtype, False, False, value.traced)
            if value.pulls or value.literal or value.scalar or value.role is not None
            else value
        )
    if isinstance(value, Str):
        return value if value.pieces is not None and len(value.pieces) <= MAX_PIECES else STR
    if isinstance(value, Union):
        return join_all(_plain(o) for o in value.options)
    if isinstance(value, Sequence):
        items = None if value.items is None else tuple(map(_plain, value.items))
        if items is not None and len(items) > 8:
            items = None
        return Sequence(value.kind, _plain(value.item), items)
    if isinstance(value, Dict) and value.known:
        return Dict(_plain(value.item), tuple((k, _plain(v)) for k, v in value.known))
    if getattr(value, "pulls", None):
        return replace(value, pulls=NO_PULLS)  # type: ignore[call-arg]
    return value


def _result(frame: Frame, info: FunctionInfo, values: dict[str, Value]) -> Value:
    annotated = _annotated_result(info)
    generates = isinstance(annotated, Sequence) and annotated.kind == "iterator"
    if annotated is not None and annotated is not UNKNOWN and not (generates or _vague(annotated)):
        if not _may_be_kernel(info, annotated):
            pulls = frozenset().union(*map(pulls_of, values.values())) if values else NO_PULLS
            return _with_traced(annotated, values) if not pulls else annotated
    if info.in_progress or frame.depth >= MAX_DEPTH:
        return annotated or UNKNOWN
    given = tuple(_plain(_parameter_value(info, p, values.get(p.name))) for p in info.parameters)
    known = info.summaries.get(given)
    if known is None:
        if len(info.summaries) >= MAX_SUMMARIES:
            first = next(iter(info.summaries.values()))
            if not holds_kernel(first):
                return first
            if len(info.summaries) >= MAX_KERNELS:
                return annotated or UNKNOWN
        info.summaries[given] = annotated or UNKNOWN
        known = info.summaries[given] = _run(info, given, record=False, depth=frame.depth + 1)
    if annotated is not None and _may_be_kernel(info, annotated):
        return known if holds_kernel(known) else annotated
    return _yielded(annotated, known) if generates and annotated is not None else known


def _yielded(annotated: Value, inferred: Value) -> Value:
    """What a generator yields: what the body shows, and the annotation where it shows nothing."""
    if not isinstance(inferred, Sequence) or not isinstance(annotated, Sequence):
        return annotated
    if inferred.items is not None and annotated.items is not None:
        if len(inferred.items) == len(annotated.items):
            items = tuple(map(_yielded_item, annotated.items, inferred.items))
            return Sequence(annotated.kind, join_all(items), items)
    return Sequence(annotated.kind, _yielded_item(annotated.item, inferred.item))


def _yielded_item(annotated: Value, inferred: Value) -> Value:
    if isinstance(inferred, Sequence) and isinstance(annotated, Sequence):
        return _yielded(annotated, inferred)
    return annotated if UNKNOWN in options(inferred) else inferred


def _may_be_kernel(info: FunctionInfo, annotated: Value) -> bool:
    """Whether what is annotated as a callable may be a kernel that the function builds."""
    if not any(isinstance(o, (Callable, LibraryObject)) for o in options(annotated)):
        return False
    return "metal_kernel" in info.module.source


def _with_traced(value: Value, values: dict[str, Value]) -> Value:
    """The annotated result depends on what the call is given."""
    if type(value) is Array:
        traced = any(isinstance(v, Array) and v.traced for v in values.values())
        return Array(value.dtype, False, False, traced)
    return value


def _vague(value: Value) -> bool:
    """Whether an annotation leaves open what matters: ``tuple``, ``dict``, ``list``."""
    if isinstance(value, Sequence):
        return value.item is UNKNOWN
    return isinstance(value, Dict) and value.item is UNKNOWN and not value.known


def _annotated_result(info: FunctionInfo) -> Value | None:
    node = info.node
    if isinstance(node, cst.Lambda) or node.returns is None:
        return None
    if info.declared is None:
        declared = evaluate_annotation(_closure(info), node.returns.annotation)
        if not info.module.is_complete:
            return declared  # names may be missing still
        info.declared = declared
    return info.declared


def annotated_value(info: FunctionInfo, parameter: Parameter) -> Value:
    """What a parameter's annotation says; ``UNKNOWN`` if it has none."""
    if parameter.annotation is None:
        return UNKNOWN
    if parameter.annotated is None:
        annotated = evaluate_annotation(_closure(info), parameter.annotation)
        if not info.module.is_complete:
            return annotated
        parameter.annotated = annotated
    return parameter.annotated


def declared_result(info: FunctionInfo) -> Value:
    """What the return annotation says, if anything."""
    return _annotated_result(info) or UNKNOWN


def _closure(info: FunctionInfo) -> Frame:
    return info.closure if info.closure is not None else info.module.frame


def _parameter_value(info: FunctionInfo, parameter: Parameter, given: Value | None) -> Value:
    """What a parameter holds within the body: annotation, then caller, then default."""
    if given is not None and (given is not UNKNOWN):
        if type(given) is Instance or type(given) is Class:
            return given
    annotated = annotated_value(info, parameter)
    if parameter.star == "*":
        return given if given is not None else Sequence("tuple", annotated)
    if parameter.star == "**":
        return Dict(annotated)
    if annotated is not UNKNOWN:
        if given is not None and given is not UNKNOWN and _refines(given, annotated):
            return given
        if parameter.default is not None and _is_none(parameter.default):
            return _traced(join(annotated, NONE))
        return _traced(annotated)
    if given is not None:
        return _traced(given)
    if parameter.name in SETTING_NAMES and parameter.default is None:
        return SETTING
    default = UNKNOWN
    if parameter.default is not None:
        default = _quiet_default(info, parameter.default)
    return join(default, UNKNOWN) if default is not UNKNOWN else UNKNOWN


def _refines(given: Value, annotated: Value) -> bool:
    """Whether the caller's value is one of what the annotation allows, known more closely."""
    kinds = {type(o) for o in options(annotated)}
    return type(given) in kinds and type(given) in (Array, Sequence, Dict, Str, type(NONE))


def _traced(value: Value) -> Value:
    if type(value) is Array:
        return value if value.traced else Array(value.dtype, False, False, True)
    if type(value) is Union:
        return join_all(_traced(o) for o in value.options)
    if type(value) is Sequence and value.items is None:
        return Sequence(value.kind, _traced(value.item))
    return value


def _is_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def _quiet_default(info: FunctionInfo, node: cst.BaseExpression) -> Value:
    frame = Frame(info.module, None, _closure(info), record=False)
    return _plain(evaluate(frame, node))


def canonical_values(info: FunctionInfo) -> tuple[Value, ...]:
    """What the parameters hold in the analysis that records facts: all that callers pass."""
    values = []
    for index, parameter in enumerate(info.parameters):
        if index == 0 and info.is_method and not parameter.star:
            cls = info.cls
            assert cls is not None
            is_class = "builtins.classmethod" in info.decorators or info.name == "__new__"
            values.append(Class(cls) if is_class else Instance(cls))
            continue
        evidence = parameter.evidence
        if parameter.annotation is not None and evidence is not None:
            values.append(_reconciled(info, parameter, evidence))
            continue
        if evidence is None:
            evidence = _assumed(info, parameter, index)
        elif parameter.default is not None and parameter.annotation is None:
            evidence = join(evidence, _quiet_default(info, parameter.default))
        values.append(_parameter_value(info, parameter, evidence))
    return tuple(values)


def _reconciled(info: FunctionInfo, parameter: Parameter, evidence: Value) -> Value:
    """The annotation, joined with what callers pass in spite of it.

    Callers elsewhere may pass all that the annotation allows, whatever those seen here do.
    """
    declared = _parameter_value(info, parameter, None)
    allowed = {type(o) for o in options(declared)}
    if Array not in allowed:
        return declared
    others = [o for o in options(evidence) if type(o) in _CONTRADICT and type(o) not in allowed]
    if others and info.outer is not None and type(evidence) in _CONTRADICT:
        return evidence  # every caller of an inner function is in sight
    return join_all([declared, *others])


#: Values that an annotation as an array does not cover.
_CONTRADICT = (Numpy, Number, Str, Torch)


def _assumed(info: FunctionInfo, parameter: Parameter, index: int) -> Value | None:
    """What a parameter without annotation or callers holds by the role of its function."""
    if parameter.default is not None or parameter.star:
        return None
    if parameter.annotation is not None and not _is_vague_annotation(info, parameter):
        return None
    fixture = info.module.fixtures.get(parameter.name)
    if fixture is not None and fixture is not info and info.is_test:
        return call_function(info.module.frame, fixture, None, ())
    return assumed_parameter(info, index, parameter.name)


def _is_vague_annotation(info: FunctionInfo, parameter: Parameter) -> bool:
    """An annotation such as ``dict`` that a convention can say more of."""
    return _vague(annotated_value(info, parameter))


def explore(info: FunctionInfo) -> None:
    """Run a method for the attributes that it sets; for good if its file is being analysed."""
    if info.in_progress:
        return
    if info.module.is_analysed and info.analysed_with is None:
        analyse(info)
    else:
        _run(info, canonical_values(info), record=False, depth=2)


def analyse(info: FunctionInfo) -> None:
    """Run a body with what is known of its parameters, and record its facts.

    Where a use in the body shows that a parameter is an array, or that it is none, the body is run
    again knowing it.
    """
    for _ in range(3):
        shown = len(info.shown_arrays) + len(info.denied_arrays)
        values = canonical_values(info)
        info.module.facts_of(info).clear()
        info.returned_pulls = NO_PULLS
        info.analysed_with = values
        result = _run(info, values, record=True, depth=0)
        if len(info.shown_arrays) + len(info.denied_arrays) == shown:
            break
        info.summaries.clear()
    info.summaries.setdefault(tuple(map(_plain, values)), result)


def _run(info: FunctionInfo, values: tuple[Value, ...], *, record: bool, depth: int) -> Value:
    frame = _entered(info, values, record=record, depth=depth)
    falls = _execute(info, frame)
    if record:
        info.returned_pulls |= frame.pulls
    if frame.yielded is not None:
        return Sequence("iterator", detached(frame.yielded or UNKNOWN))
    if frame.returned is None:
        return NONE if falls else UNKNOWN
    result = detached(frame.returned)
    return join(result, NONE) if falls else result


def left_in(info: FunctionInfo, name: str) -> Value:
    """What a parameter holds when the body has been run: what is put into a dict, say."""
    if info.in_progress:
        return UNKNOWN
    frame = _entered(info, canonical_values(info), record=False, depth=2)
    _execute(info, frame)
    return frame.names.get(name, UNKNOWN)


def _entered(info: FunctionInfo, values: tuple[Value, ...], *, record: bool, depth: int) -> Frame:
    """A frame in which the parameters are bound and nothing has been run yet."""
    frame = Frame(info.module, info, _closure(info), record=record, depth=depth)
    frame.names.update(zip((p.name for p in info.parameters), values))
    for parameter in info.parameters:
        if parameter.name in info.shown_arrays and parameter.annotation is None:
            known = frame.names[parameter.name]
            if UNKNOWN in options(known) or known is NONE:
                shown = [o for o in options(known) if o is NONE]
                frame.names[parameter.name] = join_all([*shown, Array(traced=True)])
    return frame


def _execute(info: FunctionInfo, frame: Frame) -> bool:
    """Run the body; whether control falls off its end."""
    from embercoach.analysis.statements import execute_body

    busy = info.in_progress
    info.in_progress = True
    try:
        node = info.node
        if not isinstance(node, cst.Lambda):
            return execute_body(frame, node.body)
        frame.statement = info.statement or info.module.tree
        frame.returned = evaluate(frame, node.body)
        frame.pulls |= pulls_of(frame.returned)
        return False
    finally:
        info.in_progress = busy
