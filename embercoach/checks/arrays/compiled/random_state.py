"""COMPILE-001 and COMPILE-002: numbers that are drawn or read when a function is traced."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.calls.library_calls import HOST_STATE
from embercoach.analysis.calls.parameters import closure_of
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.facts.facts import CallFact, match
from embercoach.analysis.syntax.trees import around, dotted
from embercoach.analysis.values.lattice import NONE, Instance, LibraryObject, Symbol
from embercoach.checks.arrays.compiled.captured_state import captures_random_state
from embercoach.checks.arrays.compiled.compilations import (
    imported_by,
    nodes_in,
    traced_by,
)
from embercoach.checks.registry import ProposedFix, Report, check

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
