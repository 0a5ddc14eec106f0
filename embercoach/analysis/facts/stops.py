"""The stops on the way that a value took: places, and what is told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from embercoach.analysis.values.joins import as_array

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.calls.definitions import FunctionInfo, Parameter
    from embercoach.analysis.facts.reaching import Binding


class Stop(NamedTuple):
    """A place on the way. The source of ``quoted`` stands in ``text`` where that has ``{}``.

    ``span`` is start and end in characters of the node's own source, if a part of it is meant.
    """

    node: cst.CSTNode
    statement: cst.CSTNode
    text: str
    quoted: cst.CSTNode | None = None
    span: tuple[int, int] | None = None


def told_binding(binding: Binding, *, maybe: bool = False) -> Stop:
    """A binding, which ``maybe`` is one of several that may hold."""
    texts = {
        "assigned": f"`{binding.name}` {'may be' if maybe else 'is'} `{{}}`",
        "unpacked": f"`{binding.name}` {'may be' if maybe else 'is'} unpacked from `{{}}`",
        "updated": f"`{binding.name}` {'may be' if maybe else 'is'} updated with `{{}}`",
        "element": f"`{binding.name}` {'may go' if maybe else 'goes'} through `{{}}`",
        "parameter": f"`{binding.name}` may be what the function is given",
    }
    return Stop(binding.node, binding.statement, texts[binding.kind], binding.value)


def told_parameter(
    parameter: Parameter, function: FunctionInfo, where: str
) -> tuple[str, cst.CSTNode | None]:
    """A parameter, with why it is taken for what it is, as far as that is one thing."""
    text = f"parameter `{parameter.name}` of {where}"
    if parameter.annotation is not None:
        return f"{text}, annotated `{{}}`", parameter.annotation
    if parameter.name in function.shown_arrays:
        return f"{text}, used as an array alone can be", None
    if parameter.evidence is not None and as_array(parameter.evidence) is not None:
        return f"{text}, which calls in this file give an array", None
    return text, None
