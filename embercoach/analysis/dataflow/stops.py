"""Stops of a flow: places where a value was bound or passed, with a short text each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.contexts import hot_functions
from embercoach.analysis.values.lattice import as_array

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo, FunctionParameter
    from embercoach.analysis.dataflow.reaching import Binding


class Stop(NamedTuple):
    """A place in a flow.

    Attributes:
        node: the node.
        statement: the statement that contains it.
        text: the text of the step, with ``{}`` for the source of ``quoted``.
        quoted: the node to quote.
        span: start and end in characters of the node's own source, if only a part is meant.
    """

    node: cst.CSTNode
    statement: cst.CSTNode
    text: str
    quoted: cst.CSTNode | None = None
    span: tuple[int, int] | None = None


class OriginTrace(NamedTuple):
    """The context of a finding, the origins of its array and the start of the context."""

    context: str
    flow: list[Stop]
    start: list[Stop]


def binding_stop(binding: Binding, *, maybe: bool = False) -> Stop:
    """The stop of a binding; ``maybe`` if it is one of several that may apply."""
    verb = "may be" if maybe else "is"
    texts = {
        "assigned": f"`{binding.name}` {verb} assigned `{{}}`",
        "unpacked": f"`{binding.name}` {verb} unpacked from `{{}}`",
        "updated": f"`{binding.name}` {verb} updated with `{{}}`",
        "element": f"`{binding.name}` {'may iterate' if maybe else 'iterates'} over `{{}}`",
        "parameter": f"`{binding.name}` may be the function's argument",
    }
    return Stop(binding.node, binding.statement, texts[binding.kind], binding.value)


def loop_stop(loop: cst.For | cst.While) -> Stop:
    """The stop of a loop."""
    if isinstance(loop, cst.For):
        return Stop(loop.iter, loop, "loop over `{}`", loop.iter)
    return Stop(loop.test, loop, "loop `while {}`", loop.test)


def loop_stops(function: FunctionInfo | None) -> list[Stop]:
    """The loop that calls a function, and the calls from there to the function."""
    stops: list[Stop] = []
    called = function
    while called is not None:
        call = hot_functions(called.module).get(called)
        if call is None:
            break
        text = f"`{called.qualified_name}` is called"
        stops.append(Stop(call.node, call.place.statement, text))
        if call.place.loop is not None:
            stops.append(loop_stop(call.place.loop))
        called = None if call.place.loops else call.place.function
    return stops[::-1]


def parameter_text(
    parameter: FunctionParameter, function: FunctionInfo, where: str
) -> tuple[str, cst.CSTNode | None]:
    """The text of a parameter with the evidence for its type, and the node that it quotes."""
    text = f"parameter `{parameter.name}` of {where}"
    if parameter.annotation is not None:
        return f"{text}, annotated `{{}}`", parameter.annotation
    if parameter.name in function.shown_arrays:
        return f"{text}, used as an array", None
    if parameter.evidence is not None and as_array(parameter.evidence) is not None:
        return f"{text}, passed an array by calls in this file", None
    return text, None
