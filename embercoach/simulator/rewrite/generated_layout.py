"""The parts of the text that MLX generates around a user's header and body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.metal.program.declarators import attribute_parts, unpack
from embercoach.metal.program.texts import Parsed, as_written
from embercoach.simulator.model import LaunchParameter, SimulatorError, SourceMap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.program.tree import SyntaxNode

_OPENING = ") {\n"
_CLOSING = "\n}\n"
_KERNEL = "[[kernel]] "


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a generated source; offsets count characters.

    Attributes:
        source: the whole text.
        header_end: where the user's header ends.
        signature_start: of the template line, or of ``[[kernel]]``.
        body_start: of the user's body.
        body_end: of the user's body.
        instance_start: of the line that instantiates a template, or of the end.
        function: what the thunk calls: the function's name, with its template arguments.
        signature: from the template line to the parenthesis that closes the parameters, parsed.
        parameters: of the function, in order.
    """

    source: str
    header_end: int
    signature_start: int
    body_start: int
    body_end: int
    instance_start: int
    function: str
    signature: Parsed
    parameters: tuple[LaunchParameter, ...]

    @property
    def lines(self) -> SourceMap:
        """The map to the user's lines."""
        header = self.source[: self.header_end]
        return SourceMap(
            header_lines=header.count("\n") + (header != "" and not header.endswith("\n")),
            body_start=self.source.count("\n", 0, self.body_start) + 1,
            body_lines=self.source.count("\n", self.body_start, self.body_end) + 1,
        )


def read_layout(source: str, body: str, header: str) -> Layout:
    """Find the parts of a generated source.

    Raises:
        SimulatorError: the text is not what MLX 0.32.4 generates for this body and header.
    """
    if not source.startswith(header):
        raise SimulatorError("the generated source must begin with the kernel's header")
    start = len(header)
    opening = source.find(_OPENING, start)
    if opening < 0:
        raise SimulatorError("the generated source has no function")
    if not source.startswith(body + _CLOSING, opening + len(_OPENING)):
        if source.find(_OPENING + body + _CLOSING, opening + 1) < 0:
            raise SimulatorError("the kernel's body is not in the source that MLX generated")
        raise SimulatorError(
            "MLX closes the parameter list before the last output, as for all kernels with two or "
            "more outputs, no thread attribute, and a shape, strides or ndim parameter. Mention "
            "a thread attribute (thread_position_in_grid) in the body."
        )
    body_start = opening + len(_OPENING)
    body_end = body_start + len(body)
    instance_start = body_end + len(_CLOSING)
    signature = as_written(source[start : opening + 1] + ";", "file")
    name = _function_name(signature)
    function = _instantiated(source[instance_start:], name)
    if function is None or ("<" in function) != source.startswith("template <", start):
        raise SimulatorError(
            f"the generated source has an unexpected end: {source[instance_start:]!r}"
        )
    return Layout(
        source=source,
        header_end=start,
        signature_start=start,
        body_start=body_start,
        body_end=body_end,
        instance_start=instance_start,
        function=function,
        signature=signature,
        parameters=_parameters(signature),
    )


def _instantiated(tail: str, name: str) -> str | None:
    """The function that the thunk calls: ``name``, or the template instance at the end."""
    if not tail:
        return name
    front = f'\ntemplate [[host_name("{name}")]] [[kernel]] decltype('
    length = (len(tail) - len(front) - len(") ;\n")) // 2
    function = tail[len(front) : len(front) + length]
    known = function.startswith(f"{name}<") and function.endswith(">")
    return function if known and tail == f"{front}{function}) {function};\n" else None


def _function_name(signature: Parsed) -> str:
    names = [
        signature.word(name)
        for part in signature.tree.below()
        if part.kind == "function_declarator"
        for name in unpack(part).names
    ]
    if signature.faults or len(names) != 1:
        raise SimulatorError(
            "cannot parse the generated signature: the names of the kernel, its inputs, outputs "
            f"and template parameters must be C++ identifiers\n{signature.expanded.text}"
        )
    return names[0]


def kernel_mark(layout: Layout) -> int:
    """The span of ``[[kernel]]`` in front of the generated function."""
    found = layout.source.find(_KERNEL, layout.signature_start, layout.body_start)
    if found < 0:
        raise SimulatorError("the generated function is not marked [[kernel]]")
    return found


def attribute_places(layout: Layout) -> Iterator[tuple[int, int]]:
    """Start and end of each ``[[...]]`` of the parameters."""
    for part in layout.signature.tree.below():
        if part.kind == "parameter_declaration":
            for attribute in attribute_parts(part):
                place = layout.signature.place(attribute)
                yield layout.signature_start + place.start, layout.signature_start + place.end


def _parameters(signature: Parsed) -> tuple[LaunchParameter, ...]:
    (function,) = (p for p in signature.tree.below() if p.kind == "function_declarator")
    listed = function.get("parameters")
    return tuple(_parameter(signature, part) for part in (() if listed is None else listed.inner))


def _parameter(signature: Parsed, part: SyntaxNode) -> LaunchParameter:
    declarator, kind = part.get("declarator"), part.get("type")
    marks = signature.declared_marks(part)
    names = unpack(declarator).names
    if kind is None or len(names) != 1 or len(marks) != 1:
        raise SimulatorError(f"unsupported generated parameter: {signature.word(part)}")
    qualifiers = signature.qualifiers_in(part)
    spaces = [word for word in qualifiers if word in ("device", "constant")]
    declarators = {"pointer_declarator": "*", "reference_declarator": "&"}
    element = _atomic_element(signature, kind)
    (mark,) = marks
    is_buffer = mark.name == "buffer"
    form = declarators.get(declarator.kind, "") if declarator is not None else ""
    if is_buffer != bool(form) or len(spaces) != is_buffer or len(qualifiers) != len(spaces):
        raise SimulatorError(f"unsupported generated parameter: {signature.word(part)}")
    return LaunchParameter(
        name=signature.word(names[0]),
        type=signature.word(element or kind),
        space=spaces[0] if spaces else "",
        declarator=form,
        is_const=signature.is_constant(part),
        is_atomic=element is not None,
        index=int(mark.arguments or "") if is_buffer else None,
        attribute="" if is_buffer else mark.name,
    )


def _atomic_element(signature: Parsed, kind: SyntaxNode) -> SyntaxNode | None:
    """Return the element type of ``atomic<...>``, None for other types."""
    name, arguments = kind.get("name"), kind.get("arguments")
    if kind.kind != "template_type" or name is None or arguments is None:
        return None
    return arguments.inner[0] if signature.word(name) == "atomic" else None
