"""KERNEL-SYNTAX: text that does not parse, which no other check follows."""

from __future__ import annotations

from collections.abc import Iterator

from embercoach.checks.kernels.kernel_source import kernel_escapes
from embercoach.checks.programs.kernels import PythonKernel
from embercoach.checks.programs.metal_checks import MetalCode, MetalReport
from embercoach.checks.registry import check
from embercoach.metal.preprocessor import directives
from embercoach.metal.program.written_facts import MetalText
from embercoach.metal.syntax_errors import syntax_fault
from embercoach.metal.text_facts import TextSpan
from embercoach.metal.tokens import tokens

#: Characters of a place that says little: the parser gave up on all of it.
_WIDE = 200


@check("KERNEL-SYNTAX-001", "KERNEL-SYNTAX-002")
def syntax_errors(code: MetalCode) -> Iterator[MetalReport]:
    """Yield the first error of each text, or where the parser gave up on a kernel."""
    if code.holes or not code.header_known:
        return  # what is missing may be anything
    if isinstance(code, PythonKernel) and any(kernel_escapes(code)):
        return  # the text is not the one that was meant
    unparsed = [text for text in code.texts if not text.parse_ok and text.refusal is None]
    faults = [(text, syntax_fault(text)) for text in unparsed]
    for text, fault in faults:
        if fault is not None:
            yield MetalReport(
                "KERNEL-SYNTAX-001",
                text.at(fault.place),
                fault.message,
                "Correct it: other checks of this kernel wait for code that parses",
            )
    if any(fault is not None for _, fault in faults):
        return
    for text in unparsed:
        for place in _unchecked(text, code):
            yield MetalReport(
                "KERNEL-SYNTAX-002",
                text.at(_first_token(text.text)),
                f"kernel not checked: EmberCoach does not understand {_line(text, place)}",
                "Simulate or compile it; simpler code, or fewer macros, may help EmberCoach",
            )
            return


def _unchecked(text: MetalText, code: MetalCode) -> Iterator[TextSpan]:
    """Yield where the parser had to guess in kernels that are not followed, best places first."""
    followed = {kernel.name for kernel in code.kernels}
    problems = {one.spot.place.start for kernel in code.kernels for one in kernel.program.problems}
    lost = [
        entry.extent
        for entry in text.entry_points
        if entry.name not in followed
        or any(entry.extent.start <= at < entry.extent.end for at in problems)
    ]
    whole = not followed and (not code.whole or (not text.entry_points and _mentions_kernel(text)))
    for place in sorted(text.doubtful, key=_is_wide):
        if whole or any(extent.start <= place.start < extent.end for extent in lost):
            yield _first_line(text.text, place)


def _first_token(text: str) -> TextSpan:
    """Return where the code of a text begins: where a parser gives up depends on comments, too."""
    every = [*tokens(text)]
    lines = {one.mark: one.end for one in directives(every)}
    end = 0
    for index, token in enumerate(every):
        if index in lines:
            end = lines[index]
        elif index >= end and token.kind not in ("space", "newline"):
            line = text.count("\n", 0, token.start) + 1
            column = token.start - text.rfind("\n", 0, token.start)
            return TextSpan(token.start, token.end, line, column)
    return TextSpan(0, 1, 1, 1)


def _line(text: MetalText, place: TextSpan) -> str:
    return f"line {place.line}" if text.kind == "file" else f"{text.kind} line {place.line}"


def _is_wide(place: TextSpan) -> bool:
    return place.end - place.start > _WIDE


def _first_line(text: str, place: TextSpan) -> TextSpan:
    """Return the first characters of a place in one line; of an empty one what precedes it."""
    words = text[place.start : place.end]
    start = place.start + len(words) - len(words.lstrip())
    if not words.strip():
        start = len(text[: place.start].rstrip()) - 1
    start = max(start, 0)
    line = text.count("\n", 0, start) + 1
    length = len(text[start : max(place.end, start + 1)].split("\n", 1)[0])
    return TextSpan(start, start + max(length, 1), line, start - text.rfind("\n", 0, start))


def _mentions_kernel(text: MetalText) -> bool:
    return "kernel void" in text.text or "[[kernel]]" in text.text
