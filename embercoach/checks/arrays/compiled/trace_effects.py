"""COMPILE-001, 002, 009, 010 and 011: what a compiled function does only when it is traced."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.calls.library_calls import HOST_STATE
from embercoach.analysis.calls.parameters import closure_of
from embercoach.analysis.dataflow.reaching import Reaching
from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.dataflow.stops import Stop
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.evaluate.members import member
from embercoach.analysis.facts.facts import CallFact, match
from embercoach.analysis.syntax.trees import (
    DEFINITIONS,
    around,
    children,
    dotted,
    evaluated,
    names_below,
    small_statements,
    target_names,
)
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.joins import as_array, as_number
from embercoach.analysis.values.lattice import NONE, BoundMember, Instance, LibraryObject, Symbol
from embercoach.checks.arrays.compiled.captured_state import captures_random_state
from embercoach.checks.arrays.compiled.compilations import (
    STEPS_A_FUNCTION,
    imported_by,
    nodes_in,
    place_in,
    traced_by,
)
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.terminal_text import in_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import CompileFact
    from embercoach.analysis.project.module import Module

RANDOM = "mlx.core.random."
#: Functions of ``mx.random`` that draw no numbers from the global state.
_DETERMINISTIC = frozenset({"key", "seed", "split", "state"})
_CAPTURE = "Add mx.random.state to both `inputs=` and `outputs=`"
_DROPOUT = frozenset({"mlx.nn.Dropout", "mlx.nn.Dropout2d", "mlx.nn.Dropout3d"})


@check("COMPILE-001")
def compiled_random(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``mx.random.normal()`` in a function that doesn't capture ``mx.random.state``."""
    if fact.has_star:
        return
    inputs = captures_random_state(fact, fact.option(1, "inputs"), module)
    outputs = captures_random_state(fact, fact.option(2, "outputs"), module)
    if inputs and outputs:
        return
    change = None if inputs or outputs else _change(fact, module)
    functions = traced_by(fact, module)
    trains = any(info.differentiated for info in functions)
    drops = False
    for call in _calls(functions, module):
        drawn = _drawn(call, trains=trains)
        is_layer = isinstance(call.callee, LibraryObject)
        if drawn is None or (is_layer and drops):
            continue
        drops = drops or is_layer
        message = f"{drawn} returns the same numbers at each compiled call"
        if inputs:
            message = f"{drawn} changes mx.random.state, which `outputs=` lacks"
        yield Report.at(
            fact if is_layer else call,  # a layer doesn't know who compiles it
            "COMPILE-001",
            message=message,
            help=_CAPTURE if is_layer else f"{_CAPTURE}, or pass a `key`",
            context="compiled",
            change=change,
            related=(Stop(call.node, call.place.statement, "draws the mask"),) if is_layer else (),
        )


@check("COMPILE-001")
def imported_random(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``mx.compile(noise)`` of a function of another file that draws random numbers."""
    if fact.has_star:
        return
    for index, name in ((1, "inputs"), (2, "outputs")):
        if captures_random_state(fact, fact.option(index, name), module):
            return
    trains = any(info.differentiated for info in traced_by(fact, module))
    for info in imported_by(fact, module):
        nodes = nodes_in(info.node.body, module)
        if any(_draws(info, node) or (trains and _drops(info, node)) for node in nodes):
            yield Report.at(
                fact,
                "COMPILE-001",
                message="compiled function draws from mx.random.state, which is not captured",
                help=f"{_CAPTURE}, or pass a `key`",
                change=_change(fact, module),
            )
            return


def _draws(info: FunctionInfo, node: cst.CSTNode) -> bool:
    """Return whether a node of another file's function draws from the global random state."""
    if not isinstance(node, cst.Call) or dotted(node.func) is None:
        return False
    if any(a.star or (a.keyword is not None and a.keyword.value == "key") for a in node.args):
        return False
    name = _called(info, node)
    entry = mlx_api.lookup(name) if name.startswith(RANDOM) else None
    if entry is None or name.removeprefix(RANDOM) in _DETERMINISTIC:
        return False
    positional = sum(a.keyword is None for a in node.args)
    names = [parameter.name for parameter in entry.params]
    return "key" not in names[:positional]


def _drops(info: FunctionInfo, node: cst.CSTNode) -> bool:
    """Return whether a node of another file's layer calls ``nn.Dropout``."""
    if not isinstance(node, cst.Call) or info.cls is None or not info.parameters:
        return False
    frame = Frame(info.module, info, closure_of(info), record=False)
    frame.names[info.parameters[0].name] = Instance(info.cls)
    callee = evaluate(frame, node.func) if dotted(node.func) is not None else None
    return isinstance(callee, LibraryObject) and callee.cls in _DROPOUT


def _called(info: FunctionInfo, node: cst.Call) -> str:
    """The library function that a call in another file's function calls."""
    frame = Frame(info.module, info, closure_of(info), record=False)
    callee = evaluate(frame, node.func)
    return callee.name if isinstance(callee, Symbol) else ""


def _calls(functions: frozenset[FunctionInfo], module: Module) -> Iterator[CallFact]:
    for info in functions:
        for fact in module.facts_of(info):
            if type(fact) is CallFact:
                yield fact


def _drawn(call: CallFact, *, trains: bool) -> str | None:
    """The call as a message shows it, if it draws from the global random state."""
    if isinstance(call.callee, LibraryObject):
        layer = call.callee.cls
        return f"`{layer.replace('mlx.', '')}`" if trains and layer in _DROPOUT else None
    name = call.symbol
    if name is None or not name.startswith(RANDOM) or call.place.function is None:
        return None
    short = name.removeprefix(RANDOM)
    if short in _DETERMINISTIC or any(argument.star for argument in call.arguments):
        return None
    entry = mlx_api.lookup(name)
    if entry is None:
        return None
    for parameter, argument in match(entry, call.arguments):
        if parameter.name == "key" and argument.value is not NONE:
            return None
    return f"`mx.random.{short}`"


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


@lru_cache(maxsize=1)
def _partial(module: Module) -> str | None:
    """How the file spells ``functools.partial``."""
    for name, value in module.frame.names.items():
        if value == Symbol("functools.partial"):
            return name
        if value == Symbol("functools"):
            return f"{name}.partial"
    return None


@check("COMPILE-002")
def traced_once(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``time.time()``, ``random.random()``: their first result is part of the compiled graph."""
    for call in _calls(traced_by(fact, module), module):
        name = call.symbol
        if name in HOST_STATE and not _is_switched_timer(call, name):
            yield Report.at(
                call,
                "COMPILE-002",
                message=f"`{name}()` runs only when mx.compile traces the function",
                help="Call it outside, and pass the result as an array",
                context="compiled",
            )


def _is_switched_timer(call: CallFact, name: str) -> bool:
    """Return whether a clock is read under a condition, as by ``if self.timing:``."""
    function = call.place.function
    if function is None or not name.startswith("time."):
        return False
    outer = around(function.node.body, call.place.statement)
    return any(isinstance(node, cst.If) for node in outer)


@check("COMPILE-002")
def imported_once(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``mx.compile(jitter)`` of a function of another file that calls ``random.random()``."""
    for info in imported_by(fact, module):
        calls = (n for n in nodes_in(info.node.body, module) if isinstance(n, cst.Call))
        names = (_called(info, call) for call in calls if dotted(call.func) is not None)
        name = next((name for name in names if name in HOST_STATE), None)
        if name is not None:
            yield Report.at(
                fact,
                "COMPILE-002",
                message=f"`{info.name[:24]}()` runs `{name}()` only when traced",
                help="Call it outside, and pass the result as an array",
            )
            return


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
    if not is_shapeless(fact):
        return
    for info in traced_by(fact, module):
        for node, statement in _sizes(info, _own_names(info, module)):
            yield Report.at(
                fact,
                "COMPILE-009",
                node=node,
                place=place_in(fact, info, statement),
                message="size is fixed by the first trace, and `shapeless=True` never traces again",
                help=HELP,
                context="compiled",
            )
    for info in imported_by(fact, module):
        module.work.left -= STEPS_A_FUNCTION
        if any(True for _ in _sizes(info, _bound_names(_reaching(info), info))):
            yield Report.at(
                fact,
                "COMPILE-009",
                message=f"`{info.name[:24]}` computes with a size, fixed by the first trace",
                help=HELP,
            )
            return


def _sizes(info: FunctionInfo, arrays: frozenset[str]) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """The sizes of arrays that a function computes with, and their statements."""
    unpacked: set[str] = set()
    pending: list[tuple[cst.CSTNode, cst.CSTNode, bool]] = []
    body = info.node.body
    start = info.statement if isinstance(info.node, cst.Lambda) and info.statement else body
    pending.append((body, start, False))
    while pending:
        node, statement, is_used = pending.pop()
        if isinstance(node, (*DEFINITIONS, cst.Lambda, *_HARMLESS)):
            continue
        if isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            statement = node
        if isinstance(node, cst.Assign) and _is_shape(node.value, arrays):
            unpacked |= _unpacked(node)
        elif isinstance(node, cst.Assign) and _is_size(node.value, arrays):
            unpacked |= {t.target.value for t in node.targets if isinstance(t.target, cst.Name)}
        elif is_used and (_is_size(node, arrays) or _is_named(node, unpacked)):
            yield node, statement
            continue
        used = is_used or isinstance(node, (cst.BinaryOperation, cst.Comparison, cst.Arg))
        if isinstance(node, (cst.Attribute, cst.Call)):
            used = False  # an argument is used, the function is not
        pending += [(child, statement, used) for child in reversed(children(node))]


def _own_names(info: FunctionInfo, module: Module) -> frozenset[str]:
    """The names that a function binds: what it computes from its arguments."""
    return _bound_names(scope_of(module, info).reaching, info)


def _reaching(info: FunctionInfo) -> Reaching:
    """The bindings of a function of another file, whose scopes are not kept."""
    return Reaching(info.node, has_walrus=":=" in info.module.source)


def _bound_names(reaching: Reaching, info: FunctionInfo) -> frozenset[str]:
    names = set(reaching.bindings)
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


def _is_named(node: cst.CSTNode, names: set[str]) -> bool:
    return isinstance(node, cst.Name) and node.value in names


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
    if not is_shapeless(fact):
        return
    for info in traced_by(fact, module):
        names = _own_names(info, module)
        for call in module.facts_of(info):
            if type(call) is CallFact and _is_unsupported(call):
                yield Report.at(
                    call,
                    "COMPILE-010",
                    message="raises: MLX can't infer its shape with `shapeless=True`",
                    help="Drop `shapeless=True`",
                    context="compiled",
                )
        for node in nodes_in(info.node.body, module):
            if isinstance(node, cst.Subscript) and _cuts(node, names):
                yield Report.at(
                    fact,
                    "COMPILE-010",
                    node=node,
                    place=place_in(fact, info, info.statement or info.node),
                    message="slice raises: MLX can't infer its shape with `shapeless=True`",
                    help="Drop `shapeless=True`, or slice before the call",
                    context="compiled",
                )


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


_EVALUATE = frozenset(("mlx.core.eval", "mlx.core.async_eval"))
#: Statements under which a call may not run in a trace.
_GUARDS = (cst.If, cst.Try, cst.While)


@check("HOST-PULL-011")
def imported_evaluation(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``mx.compile(forward)``, which calls ``standardize(x)`` of another file."""
    for info in imported_by(fact, module):
        if not isinstance(info.node, cst.Lambda) and _evaluates(info, info.node.body):
            yield Report.at(
                fact,
                "HOST-PULL-011",
                message=in_file(
                    info.name, info.module.path.name, " calls mx.eval(): raises when traced"
                ),
                help="Evaluate the result after the compiled call",
                context="compiled",
            )
            return


def _evaluates(info: FunctionInfo, body: cst.CSTNode) -> bool:
    """Return whether a function always evaluates what it computes from its arguments."""
    computed = {p.name for p in info.parameters[info.is_method :]}
    for statement in small_statements(body):
        if isinstance(statement, cst.Assign):
            if not computed.isdisjoint(names_below(statement.value)):
                computed.update(n for t in statement.targets for n in target_names(t.target))
            continue
        call = statement.value if isinstance(statement, cst.Expr) else None
        if not isinstance(call, cst.Call) or dotted(call.func) is None:
            continue
        given = {a.value.value for a in call.args if isinstance(a.value, cst.Name)}
        if computed.isdisjoint(given) or not _is_evaluation(info, call):
            continue
        if not any(isinstance(node, _GUARDS) for node in around(body, statement)):
            return True
    return False


def _is_evaluation(info: FunctionInfo, call: cst.Call) -> bool:
    frame = Frame(info.module, info, closure_of(info), record=False)
    callee = evaluate(frame, call.func)
    return isinstance(callee, Symbol) and callee.name in _EVALUATE


_ADDS = frozenset(("append", "extend", "add", "appendleft"))


@check("COMPILE-005", "COMPILE-006", "COMPILE-010", "COMPILE-011")
def imported_effect(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``mx.compile(step)`` of a function of another file, or one that calls such functions."""
    if fact.has_star:
        return
    has_outputs = fact.option(2, "outputs") is not None
    shapeless = is_shapeless(fact)
    reported: set[str] = set()
    for info in imported_by(fact, module):
        if isinstance(info.node, cst.Lambda):
            continue
        for node in nodes_in(info.node.body, module, DEFINITIONS):
            for report in _effects(fact, info, node, has_outputs=has_outputs, shapeless=shapeless):
                if report.code not in reported:
                    reported.add(report.code)
                    yield report


def _effects(
    fact: CompileFact,
    info: FunctionInfo,
    node: cst.CSTNode,
    *,
    has_outputs: bool,
    shapeless: bool,
) -> Iterator[Report]:
    name = f"`{info.name[:20]}()`"
    if isinstance(node, cst.Call):
        owner = None if has_outputs else _updated(info, node)
        if owner is not None:
            yield Report.at(
                fact,
                "COMPILE-005",
                message=f"{name} updates `{owner[:12]}`, which `outputs=` of mx.compile lacks",
                help="Add `[model.state, optimizer.state]` to `inputs=` and `outputs=`",
            )
        if not has_outputs and _adds_argument(info, node):
            yield Report.at(
                fact,
                "COMPILE-006",
                message=f"{name} stores a traced array outside of the compiled function",
                help="Return the array, or add its container to `outputs=` of mx.compile",
            )
        if shapeless and _is_uninferable(info, node):
            yield Report.at(
                fact,
                "COMPILE-010",
                message=f"{name} raises: MLX can't infer its shape with `shapeless=True`",
                help="Drop `shapeless=True`",
            )
    elif isinstance(node, cst.AugAssign) and _counts(info, node):
        shown = (dotted(node.target) or "a number")[:20]
        yield Report.at(
            fact,
            "COMPILE-011",
            message=f"{name} updates `{shown}` only when mx.compile traces it",
            help="Update it outside of the compiled function, and pass it as an array",
        )


def _updated(info: FunctionInfo, node: cst.Call) -> str | None:
    """The optimizer of ``optimizer.update(model, gradients)``, from around the function."""
    func = node.func
    if not isinstance(func, cst.Attribute) or func.attr.value != "update" or len(node.args) != 2:
        return None
    path = dotted(func.value)
    if path is None or "opt" not in path.lower() or any(a.star for a in node.args):
        return None
    name = path.partition(".")[0]
    own = info.parameters[0].name if info.is_method and info.parameters else None
    return path if name == own or not scope_of(info.module, info).binds(name) else None


def _adds_argument(info: FunctionInfo, node: cst.Call) -> bool:
    """``SEEN.append(x)`` of a list of the file, and of what the function computes."""
    func = node.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in _ADDS:
        return False
    if not isinstance(func.value, cst.Name) or info.outer is not None or not node.args:
        return False
    scope = scope_of(info.module, info)
    if scope.binds(func.value.value) or not scope_of(info.module, None).binds(func.value.value):
        return False
    given = node.args[0].value
    parameters = {p.name for p in info.parameters[info.is_method :]}
    return isinstance(given, cst.Name) and given.value in parameters


def _is_uninferable(info: FunctionInfo, node: cst.Call) -> bool:
    if dotted(node.func) is None or not node.args:
        return False
    frame = Frame(info.module, info, closure_of(info), record=False)
    callee = evaluate(frame, node.func)
    if not isinstance(callee, Symbol) or callee.name not in UNSUPPORTED:
        return False
    parameters = {p.name for p in info.parameters[info.is_method :]}
    return not parameters.isdisjoint(names_below(node.args[0].value))


def _counts(info: FunctionInfo, node: cst.AugAssign) -> bool:
    """``self.calls += 1`` in a layer's method, of a Python number."""
    if info.cls is None or not info.is_method or not info.parameters or not is_layer(info.cls):
        return False
    owner, _, name = (dotted(node.target) or "").partition(".")
    if owner != info.parameters[0].name or not name or "." in name or "trace" in name:
        return False
    frame = Frame(info.module, info, closure_of(info), record=False)
    return as_number(member(frame, Instance(info.cls), name)) is not None
