"""MLX's generated Metal source to a C++ translation unit, line for line.

Clang compiles Metal's dialect as C++ once a header has declared what is missing; only what no
header can express is edited here: the attributes of the generated function, its instantiation,
threadgroup variables, and locals without a value. Edits keep lines. What is not understood stays
as it is, so that clang refuses it; address spaces stay everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from embercoach.metal.contract import ATTRIBUTES
from embercoach.metal.preprocessor import read_macros
from embercoach.metal.program.texts import Parsed, SyntaxNode, as_written
from embercoach.metal.program.written_facts import MetalText, read_body, read_unit
from embercoach.simulator.model import LaunchParameter, SimulatorError, SourceMap
from embercoach.simulator.rewrite.line_edits import (
    EditedText,
    LineEdit,
    apply,
    blanked,
    line_of,
    start_of_line,
)
from embercoach.simulator.rewrite.metal_dialect import (
    array_edits,
    bare_parameters,
    cast_edits,
    literal_edits,
    method_edits,
)
from embercoach.simulator.rewrite.runtime_checks import alignment_edits, element_edits, spin_edits
from embercoach.simulator.rewrite.variables import SPACE, fillings, spelling, threadgroup_storage

if TYPE_CHECKING:
    from embercoach.metal.text_facts import WrittenFunction, WrittenParameter

    # The C++ of the function that is called, from the layout of a generated source.
    EntryWriter = Callable[["Layout"], str]

_OPENING = ") {\n"
_CLOSING = "\n}\n"
_KERNEL = "[[kernel]] "


class Layout(Struct, frozen=True):
    """The layout of a generated source; offsets count characters.

    Attributes:
        source: the whole text.
        header_end: where the user's header ends, and MLX's signature begins.
        body_start: of the user's body.
        body_end: of the user's body.
        instance_start: of the line that instantiates a template, or of the end.
        function: what the thunk calls: the function's name, with its template arguments.
        attributes: start and end of each ``[[...]]`` of the parameters.
        parameters: of the function, in order.
    """

    source: str
    header_end: int
    body_start: int
    body_end: int
    instance_start: int
    function: str
    attributes: tuple[tuple[int, int], ...]
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
    declared = _declared(read_unit(source[start : opening + 1] + ";"))
    function = _instantiated(source[instance_start:], declared.name)
    if function is None or ("<" in function) != source.startswith("template <", start):
        raise SimulatorError(
            f"the generated source has an unexpected end: {source[instance_start:]!r}"
        )
    return Layout(
        source=source,
        header_end=start,
        body_start=body_start,
        body_end=body_end,
        instance_start=instance_start,
        function=function,
        attributes=tuple(
            (start + mark.place.start, start + mark.place.end)
            for parameter in declared.parameters
            for mark in parameter.attributes
        ),
        parameters=tuple(map(_parameter, declared.parameters)),
    )


def _instantiated(tail: str, name: str) -> str | None:
    """Return the function that the thunk calls: ``name``, or the template instance at the end."""
    if not tail:
        return name
    front = f'\ntemplate [[host_name("{name}")]] [[kernel]] decltype('
    length = (len(tail) - len(front) - len(") ;\n")) // 2
    function = tail[len(front) : len(front) + length]
    known = function.startswith(f"{name}<") and function.endswith(">")
    return function if known and tail == f"{front}{function}) {function};\n" else None


def _declared(signature: MetalText) -> WrittenFunction:
    """Return the function that MLX declares."""
    if signature.doubtful or len(signature.functions) != 1:
        raise SimulatorError(
            "cannot parse the generated signature: the names of the kernel, its inputs, outputs "
            f"and template parameters must be C++ identifiers\n{signature.text}"
        )
    return signature.functions[0]


def _parameter(parameter: WrittenParameter) -> LaunchParameter:
    space, marks = parameter.address_space, parameter.attributes
    is_buffer = len(marks) == 1 and marks[0].name == "buffer"
    is_spaced = space in ("device", "constant") if parameter.pointer else space is None
    if len(marks) != 1 or not parameter.name or parameter.pointer != is_buffer or not is_spaced:
        raise SimulatorError(f"unsupported generated parameter: {parameter.name}")
    is_atomic = parameter.type.startswith("atomic<")
    return LaunchParameter(
        name=parameter.name,
        type=parameter.type[len("atomic<") : -1] if is_atomic else parameter.type,
        space=space or "",
        declarator="&" if parameter.reference else "*" if parameter.pointer else "",
        is_const=parameter.constant,
        is_atomic=is_atomic,
        index=int(marks[0].arguments or "") if is_buffer else None,
        attribute="" if is_buffer else marks[0].name,
    )


#: The name that the unit's text has for clang.
FILE_NAME = "kernel.metal"

_STANDARD_ATTRIBUTES = frozenset(
    {
        *("assume", "carries_dependency", "deprecated", "fallthrough", "likely", "maybe_unused"),
        *("nodiscard", "noreturn", "no_unique_address", "unlikely"),
    }
)

_PROBLEMS = {
    "asm": "Metal has no inline assembly",
    "static": "static local variable {!r}: Metal allows only constants",
    "file scope": "program-scope variable {!r} must be in the constant address space",
    "order": "{!r} on an atomic: Metal has only memory_order_relaxed",
}


class TranslationProblem(Struct, frozen=True):
    """A place of the generated source that Metal or the simulator refuses.

    Attributes:
        line: from 1.
        column: in characters from 1.
        message: the problem.
    """

    line: int
    column: int
    message: str


class Rewritten(Struct, frozen=True):
    """A translation unit.

    Attributes:
        edited: the generated source, edited; the thunk is not in it.
        thunk: C++ after it, which defines the function that is called.
        parameters: of the generated function.
        lines: the map of the generated source.
        signature: what MLX wrote between header and body.
        problems: places that must not be compiled.
        opaque: names of macros that hide the word threadgroup from the rewriter.
    """

    edited: EditedText
    thunk: str
    parameters: tuple[LaunchParameter, ...]
    lines: SourceMap
    signature: str
    problems: tuple[TranslationProblem, ...]
    opaque: tuple[str, ...]

    @property
    def text(self) -> str:
        """The text for clang."""
        return f'#line 1 "{FILE_NAME}"\n{self.edited.text}\n{self.thunk}'


def rewrite(
    source: str,
    body: str,
    header: str,
    casts: Collection[tuple[int, int]] = (),
    entry: EntryWriter | None = None,
) -> Rewritten:
    """Make a translation unit of a generated source.

    Args:
        source: as MLX generates it.
        body: the ``source`` argument of the kernel.
        header: the ``header`` argument of the kernel.
        casts: lines and columns of casts between half and bfloat that clang refused.
        entry: writes the function that is called; None for the simulator's.

    Raises:
        SimulatorError: the source is not built as MLX builds it, or a line can't be kept.
    """
    _refuse_odd_characters(source)
    layout = read_layout(source, body, header)
    edits = [*_frame_edits(layout)]
    problems: list[TranslationProblem] = []
    header_macros = read_macros(header)
    macros = read_macros(body).joined(header_macros)
    words = spelling(macros)
    shifts = (0, layout.body_start)
    texts = (as_written(header, "file", macros.blanks), as_written(body, "body", macros.blanks))
    for shift, parsed in zip(shifts, texts, strict=True):
        _refuse_line_directives(parsed, source, shift)
        edits += _attribute_edits(parsed, source, shift)
        starts = {start_of_line(source, line) + column - 1 - shift for line, column in casts}
        edits += (_moved(edit, shift) for edit in cast_edits(parsed, starts))
        dialect = (*literal_edits(parsed), *array_edits(parsed), *method_edits(parsed))
        checks = (*spin_edits(parsed), *element_edits(parsed))
        edits += (_moved(edit, shift) for edit in (*dialect, *checks))
        refused = (*bare_parameters(parsed), *_function_constants(parsed))
        problems += (_problem(source, shift + at, what) for at, what in refused)
        shared = tuple(threadgroup_storage(parsed, words))
        for filling in fillings(parsed):
            # Macros that say threadgroup are not in the tree.
            if all(filling.end != found.end for found in shared):
                edits.append(_moved(filling, shift))
        for found in shared:
            start, end = shift + found.start, shift + found.end
            if found.problem:
                problems.append(_problem(source, start, found.problem))
            else:
                breaks = "\n" * source.count("\n", start, end)
                edits.append(LineEdit(start, end, found.text + breaks))
    # Inside of a cast that begins at the same place.
    edits += (_moved(edit, shifts[number]) for number, edit in alignment_edits(texts))
    around = read_unit(header)
    for shift, text in zip(shifts, (around, read_body(body, around)), strict=True):
        problems += (_problem(source, shift + start, what) for start, what in _refusals(text))
    return Rewritten(
        edited=apply(source, _outermost(edits)),
        thunk=(entry or _thunk)(layout),
        parameters=layout.parameters,
        lines=layout.lines,
        signature=source[layout.header_end : layout.body_start].rstrip("\n"),
        problems=tuple(problems),
        opaque=tuple(m.name for m in macros.items if m.name not in words and _hides(m.text)),
    )


def _problem(source: str, start: int, message: str) -> TranslationProblem:
    return TranslationProblem(line_of(source, start), start - source.rfind("\n", 0, start), message)


def _moved(edit: LineEdit, shift: int) -> LineEdit:
    return LineEdit(shift + edit.start, shift + edit.end, edit.new)


def _outermost(edits: Sequence[LineEdit]) -> Iterator[LineEdit]:
    """Edits but for those of text that another one removes altogether."""
    gone = [e for e in edits if e.end > e.start and not e.new.strip()]
    for edit in edits:
        place = (edit.start, edit.end)
        if not any(
            g.start <= edit.start and edit.end <= g.end and (g.start, g.end) != place for g in gone
        ):
            yield edit


def _hides(text: str) -> bool:
    """Return whether a macro's text says threadgroup."""
    return (
        SPACE in text
        and SPACE in as_written(text.replace("\\\n", " \n"), "file").qualifiers.values()
    )


def _refuse_odd_characters(source: str) -> None:
    """Clang counts a lone carriage return as a line, and stops at a null."""
    for index, character in enumerate(source):
        alone = character == "\r" and not source.startswith("\n", index + 1)
        if alone or character == "\0" or "\ud800" <= character <= "\udfff":
            raise SimulatorError(
                f"line {line_of(source, index)} of the generated source has the invalid "
                f"character {character!r}"
            )


def _refuse_line_directives(parsed: Parsed, source: str, shift: int) -> None:
    for part in parsed.of_kinds("preproc_call"):
        directive = part.get("directive")
        if directive is not None and parsed.word(directive).lstrip("# \t") == "line":
            line = line_of(source, shift + parsed.place(part).start)
            raise SimulatorError(
                f"line {line} of the generated source is a #line directive; remove it"
            )


def _frame_edits(layout: Layout) -> Iterator[LineEdit]:
    """Edit MLX's text around the body to C++: an internal function without attributes."""
    mark = layout.source.find(_KERNEL, layout.header_end, layout.body_start)
    if mark < 0:
        raise SimulatorError("the generated function is not marked [[kernel]]")
    yield LineEdit(mark, mark + len("[[kernel]]"), "static".ljust(len("[[kernel]]")))
    for start, end in layout.attributes:
        yield blanked(layout.source, start, end)
    if layout.instance_start < len(layout.source):
        yield blanked(layout.source, layout.instance_start, len(layout.source))


def _attribute_edits(parsed: Parsed, source: str, shift: int) -> Iterator[LineEdit]:
    """Blank Metal's own attributes; clang knows the standard ones and those of a vendor."""
    for part in parsed.of_kinds("attribute_declaration"):
        if part.has_error or not parsed.holds(part):
            continue
        if any(_is_metals(parsed, child) for child in part.inner):
            place = parsed.place(part)
            yield blanked(source, shift + place.start, shift + place.end)


def _is_metals(parsed: Parsed, attribute: SyntaxNode) -> bool:
    """Return whether an attribute is neither standard C++ nor of a vendor, such as ``clang::``."""
    name = attribute.get("name")
    is_prefixed = attribute.get("prefix") is not None
    return name is not None and not is_prefixed and parsed.word(name) not in _STANDARD_ATTRIBUTES


def _thunk(layout: Layout) -> str:
    """Get the thunk of one GPU thread: it calls the function with typed buffers and attributes."""
    arguments = ", ".join(_argument(parameter) for parameter in layout.parameters)
    return (
        'extern "C" EMBER_ENTRY void ember_kernel('
        "const ember_thread* ember_self, void* const* ember_buffers) "
        f"{{ {layout.function}({arguments}); }}\n"
    )


def _argument(parameter: LaunchParameter) -> str:
    if parameter.index is not None:
        return buffer_argument(parameter, f"ember_buffers[{parameter.index}]")
    return attribute_argument(parameter)


def buffer_argument(parameter: LaunchParameter, pointer: str) -> str:
    """Return the argument of a buffer's parameter, from an untyped pointer."""
    element = f"atomic<{parameter.type}>" if parameter.is_atomic else parameter.type
    const = "const " if parameter.is_const else ""
    star = "*" if parameter.declarator == "&" else ""
    return f"{star}({const}{parameter.space} {element}*){pointer}"


def attribute_argument(parameter: LaunchParameter) -> str:
    """Return the argument of a thread attribute's parameter, from ``ember_self``.

    Raises:
        SimulatorError: Metal has no such attribute, or not with this type.
    """
    known = ATTRIBUTES.get(parameter.attribute)
    width = int(parameter.type[-1]) if parameter.type[-1:].isdigit() else 1
    available = 3 if known == "uint3" else 1
    if known is None or width > available:
        raise SimulatorError(f"unsupported type of {parameter.attribute}: {parameter.type}")
    value = f"ember_self->{parameter.attribute}"
    parts = [f"{value}[{i}]" for i in range(width)] if available == 3 else [value]
    return f"{parameter.type}({', '.join(parts)})"


def _function_constants(parsed: Parsed) -> Iterator[tuple[int, str]]:
    for part in parsed.of_kinds("declaration"):
        if parsed.is_function_constant(part):
            message = "function constant: MLX sets none for custom kernels; use template arguments"
            yield parsed.place(part).start, message


def _refusals(text: MetalText) -> Iterator[tuple[int, str]]:
    """Yield the places of a text that Metal refuses, in characters, each with the problem."""
    for part in text.foreign:
        problem = _PROBLEMS.get(part.kind)
        if problem is not None:
            yield part.place.start, problem.format(part.text)
    for cast in text.bare_casts:
        yield cast.place.start, f"cast to {cast.type}* without an address space"
