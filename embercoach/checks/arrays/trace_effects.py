"""COMPILE-001, 002, 009, 010 and 011: what a compiled function does only when it is traced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.calls.library_calls import HOST_STATE
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.function_summaries import (
    calls_in,
    derived_names,
    evaluated_calls,
    frame_of,
)
from embercoach.analysis.dataflow.layout import Level, layout_of
from embercoach.analysis.dataflow.lazy_evaluation import EVALUATING
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.evaluate.members import member
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import SCOPES, dotted, evaluated
from embercoach.analysis.values.facts import CallFact, CompileFact, FactPlace
from embercoach.analysis.values.inheritance import find_method, is_layer
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    BoundMember,
    Instance,
    LibraryObject,
    Symbol,
    Value,
    as_array,
    as_number,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.checks.arrays.compilations import (
    captures_random_state,
    drawn_by,
    imported_by,
    place_in,
    traced_by,
)
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.terminal_text import in_file

_CAPTURE = "Add mx.random.state to both `inputs=` and `outputs=`"


class _Effect(NamedTuple):
    """An effect that happens while tracing alone: messages for its own file and for others."""

    info: FunctionInfo
    node: cst.CSTNode
    place: FactPlace
    message: str
    elsewhere: str


def _reports(
    code: str, help_text: str, fact: CompileFact, effects: Iterable[_Effect], module: Module
) -> Iterator[Report]:
    """Report the effects in the file that is checked, and the first one in other files."""
    is_known = False
    for effect in effects:
        if effect.info.module is module:
            yield Report(
                code,
                effect.node,
                effect.place,
                message=effect.message,
                help=help_text,
                context="compiled",
            )
        elif not is_known:
            is_known = True
            yield Report.at(fact, code, message=effect.elsewhere, help=help_text)


def _functions(fact: CompileFact, module: Module) -> tuple[FunctionInfo, ...]:
    return (*traced_by(fact, module), *imported_by(fact, module))


@check("COMPILE-001")
def compiled_random(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``mx.random.normal()`` in a function that doesn't capture ``mx.random.state``."""
    if fact.has_star:
        return
    inputs = captures_random_state(fact, "inputs", module)
    outputs = captures_random_state(fact, "outputs", module)
    if inputs and outputs:
        return
    change = None if inputs or outputs else _change(fact, module)
    trains = any(info.differentiated for info in traced_by(fact, module))
    at_compilation = False
    for info in _functions(fact, module):
        for call in calls_in(info, module):
            drawn = drawn_by(call, trains=trains)
            # A layer, or another file, doesn't know who compiles it.
            is_elsewhere = info.module is not module
            is_layer_call = not is_elsewhere and isinstance(call.callee, LibraryObject)
            is_outside = is_elsewhere or is_layer_call
            if drawn is None or (is_outside and at_compilation):
                continue
            at_compilation = at_compilation or is_outside
            message = f"{drawn} returns the same numbers at each compiled call"
            if inputs:
                message = f"{drawn} changes mx.random.state, which `outputs=` lacks"
            elif is_elsewhere:
                message = "compiled function draws from mx.random.state, which is not captured"
            stop = Stop(call.node, call.place.statement, "draws the mask")
            yield Report.at(
                fact if is_outside else call,
                message=message,
                help=_CAPTURE
                if is_outside and not is_elsewhere
                else f"{_CAPTURE}, or pass a `key`",
                context=None if is_elsewhere else "compiled",
                change=change,
                related=(stop,) if is_layer_call else (),
            )


def _change(fact: CompileFact, module: Module) -> ProposedFix | None:
    """Capture the random state: the numbers change, which is the purpose."""
    node = fact.node
    if fact.option(1, "inputs") is not None or fact.option(2, "outputs") is not None:
        return None
    call = node.func if isinstance(node, cst.Call) else node
    if not isinstance(call, cst.Attribute) or call.attr.value != "compile":
        return None
    core = module.parsed.code(call.value)
    captured = f"inputs={core}.random.state, outputs={core}.random.state"
    title = "Capture mx.random.state"
    if fact.decorated is None and isinstance(node, cst.Call):
        text = module.parsed.code(node)
        if "\n" in text or len(node.args) != 1:
            return None
        return ProposedFix(title, False, ((node, f"{text[:-1]}, {captured})"),))
    partial = _partial(module)
    if fact.decorated is None or isinstance(node, cst.Call) or partial is None:
        return None
    return ProposedFix(title, False, ((node, f"{partial}({core}.compile, {captured})"),))


@kept_for_file
def _partial(module: Module) -> str | None:
    """Return how the file spells ``functools.partial``."""
    for name, value in module.frame.names.items():
        if value == Symbol("functools.partial"):
            return name
        if value == Symbol("functools"):
            return f"{name}.partial"
    return None


@check("COMPILE-002")
def traced_once(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``time.time()``, ``random.random()``: their first result is part of the compiled graph."""
    found = (
        _Effect(
            info,
            call.node,
            call.place,
            f"`{call.symbol}()` runs only when mx.compile traces the function",
            f"`{info.name[:24]}()` runs `{call.symbol}()` only when traced",
        )
        for info in _functions(fact, module)
        for call in calls_in(info, module)
        if call.symbol in HOST_STATE and not _is_switched_timer(call, call.symbol)
    )
    help_text = "Call it outside, and pass the result as an array"
    yield from _reports("COMPILE-002", help_text, fact, found, module)


def _is_switched_timer(call: CallFact, name: str) -> bool:
    """Return whether a clock is read under a condition, as by ``if self.timing:``."""
    function = call.place.function
    if function is None or not name.startswith("time."):
        return False
    return any(isinstance(level.owner, cst.If) for level in _levels(call, function))


def _levels(call: CallFact, function: FunctionInfo) -> Iterator[Level]:
    return layout_of(function.module, function).outward(call.place.statement)


HELP = "Use `mx.mean`, `mx.flatten` or `-1` in `reshape`, or drop `shapeless=True`"
#: Functions of ``mlx.core`` that end in a primitive without ``output_shapes``.
UNSUPPORTED = frozenset(
    (
        *(f"mlx.core.{n}" for n in ("split", "pad", "roll", "topk", "diag", "diff", "median")),
        *(f"mlx.core.fft.{n}" for n in ("fft", "ifft", "rfft", "irfft", "fft2", "fftn")),
        "mlx.core.fast.rope",
    )
)
_METHODS = frozenset({"split"})
#: Statements in which a size is checked or shown only.
_HARMLESS = (cst.Assert, cst.Raise, cst.FormattedString)


def is_shapeless(fact: CompileFact) -> bool:
    """Return whether a function is compiled with ``shapeless=True``."""
    given = fact.option(3, "shapeless")
    return given is not None and isinstance(given.node, cst.Name) and given.node.value == "True"


@check("COMPILE-009")
def baked_shape(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``x.sum() / x.shape[0]``: the size is that of the first call."""
    found = (
        _Effect(
            info,
            node,
            place_in(fact, info, statement),
            "size is fixed by the first trace, and `shapeless=True` never traces again",
            f"`{info.name[:24]}` computes with a size, fixed by the first trace",
        )
        for info in (_functions(fact, module) if is_shapeless(fact) else ())
        for node, statement in _sizes(info, _bound_names(info))
    )
    yield from _reports("COMPILE-009", HELP, fact, found, module)


def _sizes(info: FunctionInfo, arrays: frozenset[str]) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """Yield the sizes of arrays that a function computes with, and their statements."""
    unpacked: set[str] = set()
    contents = contents_of(info.node.body, (*SCOPES, *_HARMLESS))
    for node in contents:
        if isinstance(node, cst.Assign) and _is_shape(node.value, arrays):
            unpacked |= _unpacked(node)
        elif isinstance(node, cst.Assign) and _is_size(node.value, arrays):
            unpacked |= {t.target.value for t in node.targets if isinstance(t.target, cst.Name)}
        elif _is_size(node, arrays) or (isinstance(node, cst.Name) and node.value in unpacked):
            # An argument is used, the function is not.
            using = next((n for n in contents.above(node) if isinstance(n, _USING)), None)
            if isinstance(using, (cst.BinaryOperation, cst.Comparison, cst.Arg)):
                around = contents.statement_of(node)
                is_lambda = isinstance(info.node, cst.Lambda) and info.statement is not None
                yield node, (info.statement or around) if is_lambda else around


_USING = (cst.BinaryOperation, cst.Comparison, cst.Arg, cst.Attribute, cst.Call)


def _bound_names(info: FunctionInfo) -> frozenset[str]:
    """Return the names that a function binds: what it computes from its arguments."""
    names = set(scope_of(info.module, info).reaching.bindings)
    if info.is_method and info.parameters:
        names.discard(info.parameters[0].name)
    return frozenset(names)


def _is_shape(node: cst.CSTNode, arrays: frozenset[str]) -> bool:
    if not isinstance(node, cst.Attribute) or node.attr.value != "shape":
        return False
    return isinstance(node.value, cst.Name) and node.value.value in arrays


def _is_size(node: cst.CSTNode, arrays: frozenset[str]) -> bool:
    """``x.shape[0]`` or ``x.size``; the last axis is rarely the one that varies."""
    if isinstance(node, cst.Attribute) and node.attr.value == "size":
        return isinstance(node.value, cst.Name) and node.value.value in arrays
    if not isinstance(node, cst.Subscript) or not _is_shape(node.value, arrays):
        return False
    part = node.slice[0].slice
    if not isinstance(part, cst.Index):
        return False
    if isinstance(part.value, cst.Integer):
        return isinstance(evaluated(part.value), int)
    minus = isinstance(part.value, cst.UnaryOperation) and part.value.expression
    return isinstance(minus, cst.Integer) and evaluated(minus) != 1


def _unpacked(node: cst.Assign) -> set[str]:
    """``B`` and ``L`` of ``B, L, D = x.shape``, without the last axis."""
    target = node.targets[0].target
    elements = target.elements if isinstance(target, cst.Tuple) else ()
    return {
        e.value.value
        for e in elements[:-1]
        if isinstance(e.value, cst.Name) and e.value.value != "_"
    }


@check("COMPILE-010")
def shapeless_slice(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``x[:, 1:]``, ``mx.split(x, 2)``: the first call raises."""
    if is_shapeless(fact):
        functions = _functions(fact, module)
        unsupported = (
            _Effect(info, call.node, call.place, _RAISES, f"`{info.name[:20]}()` {_RAISES}")
            for info in functions
            for call in calls_in(info, module)
            if _is_unsupported(call)
        )
        yield from _reports("COMPILE-010", _DROP, fact, unsupported, module)
        cut = (
            _Effect(
                info,
                node,
                place_in(fact, info, info.statement or info.node),
                f"slice {_RAISES}",
                f"slice in `{info.name[:12]}()` {_RAISES}",
            )
            for info in functions
            for node in contents_of(info.node.body, SCOPES).of(cst.Subscript)
            if _cuts(node, _bound_names(info))
        )
        yield from _reports("COMPILE-010", f"{_DROP}, or slice before the call", fact, cut, module)


_RAISES = "raises: MLX can't infer its shape with `shapeless=True`"
_DROP = "Drop `shapeless=True`"


def _is_unsupported(call: CallFact) -> bool:
    if isinstance(call.callee, BoundMember):
        array = as_array(call.callee.owner)
        return call.callee.name in _METHODS and array is not None and array.traced
    if call.symbol not in UNSUPPORTED:
        return False
    first = call.positional(0)
    array = None if first is None else as_array(first.value)
    return array is not None and array.traced


def _cuts(node: cst.Subscript, names: frozenset[str]) -> bool:
    """``x[:, 1:]`` of a name: with several axes, it can only be an array."""
    root = (dotted(node.value) or "").partition(".")[0]
    if root not in names or not isinstance(node.value, cst.Name) or len(node.slice) < 2:
        return False
    parts = [e.slice for e in node.slice]
    return any(isinstance(p, cst.Slice) and (p.lower or p.upper or p.step) for p in parts)


#: Statements under which a call may not run in a trace.
_GUARDS = (cst.If, cst.Try, cst.While)


@check("HOST-PULL-011")
def imported_evaluation(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``mx.compile(forward)``, which calls ``standardize(x)`` of another file."""
    for info in imported_by(fact, module):
        if _evaluates(info):
            yield Report.at(
                fact,
                message=in_file(
                    info.name, info.module.path.name, " calls mx.eval(): raises when traced"
                ),
                help="Evaluate the result after the compiled call",
                context="compiled",
            )
            return


def _evaluates(info: FunctionInfo) -> bool:
    """Return whether a function always evaluates what it computes from its arguments."""
    body = info.node.body
    computed = derived_names(body, {p.name for p in info.parameters[info.is_method :]})
    return any(
        call.symbol in EVALUATING
        and any(dotted(argument.node) in computed for argument in call.arguments)
        and not any(isinstance(level.owner, _GUARDS) for level in _levels(call, info))
        for call in evaluated_calls(info)
    )


#: Parts of the names of numbers that count traces on purpose.
_COUNTS_TRACES = ("trace", "compil")


@check("COMPILE-011")
def traced_counter(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``self.steps += 1`` in a compiled function."""
    functions = _functions(fact, module)
    found = (
        _counter(node, path, info, fact)
        for info in functions
        if not isinstance(info.node, cst.Lambda)
        for node in contents_of(info.node.body).statements
        if isinstance(node, cst.AugAssign)
        and (path := dotted(node.target)) is not None
        and _is_number(path, info, functions, module)
    )
    help_text = "Update it outside of the compiled function, and pass it as an array"
    yield from _reports("COMPILE-011", help_text, fact, found, module)


def _counter(node: cst.AugAssign, path: str, info: FunctionInfo, fact: CompileFact) -> _Effect:
    shown = path if len(path) <= 24 else "a number"
    return _Effect(
        info,
        node,
        place_in(fact, info, node),
        f"`{shown}` is updated only when mx.compile traces the function",
        f"`{info.name[:20]}()` updates `{path[:20]}` only when mx.compile traces it",
    )


def _is_number(
    path: str, info: FunctionInfo, functions: tuple[FunctionInfo, ...], module: Module
) -> bool:
    """Return whether a path is a Python number that outlives the compiled function."""
    name, _, attribute = path.partition(".")
    if any(word in path.lower() for word in _COUNTS_TRACES):
        return False
    value: Value = UNKNOWN
    if attribute:
        owner = info.parameters[0].name if info.is_method and info.parameters else None
        if name != owner or info.cls is None or find_method(info.cls, "__init__") in functions:
            return False
        if info.module is module or is_layer(info.cls):
            value = member(frame_of(info), Instance(info.cls), attribute)
    elif name in info.global_names:
        value = info.module.frame.names.get(name, UNKNOWN)
    elif name in info.nonlocal_names and info.closure is not None:
        found = scope_of(info.module, info.outer).find(name)
        if found is not None and found[0].owner not in functions:
            value = info.closure.lookup(name)
    return as_number(value) is not None
