"""KERNEL-SIG-010: escapes of Python that end a comment, or break a string, of a kernel's text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from embercoach.checks.programs.kernels import (
    definitions,
    header_of,
    parsed,
    parsed_header,
    source_of,
    target,
)
from embercoach.checks.registry import Report, check
from embercoach.metal.tokens import line_comment, tokens_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.strings import Folded
    from embercoach.checks.programs.kernels import Definition
    from embercoach.metal.written.body import MetalText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from embercoach.metal.source import FoldedText
    from embercoach.metal.text_facts import TextSpan
    from embercoach.metal.tokens import Token

    #: The source of the literal that a text numbers so, None for text that is not known.
    SourceOf = Callable[[int], "str | None"]

_CONDITIONS = frozenset({"if", "ifdef", "ifndef"})


@dataclass(frozen=True, slots=True)
class EscapedBreak:
    """A line break that does not compile.

    Attributes:
        inside: what it ends too early.
        at: its offset in the text.
        end: the offset where the line ends that stands after it in the literal.
        escape: how it is written.
    """

    inside: Literal["comment", "string"]
    at: int
    end: int
    escape: str


def escaped_breaks(
    text: FoldedText, source_of: SourceOf, faults: Iterable[TextSpan]
) -> Iterator[EscapedBreak]:
    """The escapes that end a comment or a string of Metal, if what follows cannot be meant as code.

    Args:
        text: a body or a header.
        source_of: the literals.
        faults: where the parser of the text had to guess.
    """
    if all(piece.exact for piece in text.pieces):
        return  # no character of it stems from an escape
    yield from _Breaks(text, source_of, [place.start for place in faults]).found()


class _Breaks:
    def __init__(self, text: FoldedText, source_of: SourceOf, faults: list[int]) -> None:
        self._text = text
        self._source_of = source_of
        self._faults = faults
        self._tokens = list(tokens_of(text.text))

    def found(self) -> Iterator[EscapedBreak]:
        line: list[Token] = []
        depth = reported = 0
        for token in self._tokens:
            if token.kind != "newline":
                line.append(token)
                continue
            depth += _nesting(line)
            # Text under a condition may never be compiled.
            if depth == 0 and token.start >= reported:
                found = self._broken(line, token.start)
                if found is not None:
                    reported = found.end
                    yield found
            line = []

    def _broken(self, line: list[Token], at: int) -> EscapedBreak | None:
        """The fault of the line break after the tokens of a line, None without one."""
        escape = self._escape(at)
        if escape is None:
            return None
        if line and line_comment(line[-1]) is not None:
            end = self._end(at + 1)
            rest = self._text.text[at + 1 : end].strip()
            plain = rest and not rest.startswith(("//", "/*"))
            if plain and self._is_known(at, end) and self._is_refused(at + 1, end):
                return EscapedBreak("comment", at, end, escape)
            return None
        quote = next((token.start for token in line if _is_quote(token)), None)
        if quote is None:
            return None
        end = self._next(at + 1)
        if '"' in self._text.text[at + 1 : end] and self._is_known(quote, end):
            return EscapedBreak("string", at, end, escape)
        return None

    def _escape(self, at: int) -> str | None:
        """The escape that a line break is written as, None for other line breaks."""
        start, end = self._text.position(at), self._text.end_position(at + 1)
        source = None if start is None else self._source_of(start[0])
        if start is None or end is None or source is None or source[start[1]] != "\\":
            return None
        return source[start[1] : end[1]]

    def _is_known(self, start: int, end: int) -> bool:
        """Return whether a stretch of the text is in one literal."""
        first = self._text.position(start)
        return first is not None and all(
            (place := self._text.position(i)) is not None and place[0] == first[0]
            for i in range(start, end)
        )

    def _next(self, start: int) -> int:
        """The end of a line of the text."""
        end = self._text.text.find("\n", start)
        return len(self._text.text) if end < 0 else end

    def _end(self, start: int) -> int:
        """The end of a line: of the literal, if that has several, else of the text."""
        end = self._next(start)
        while self._has_lines(start) and end < len(self._text.text) and self._escape(end):
            end = self._next(end + 1)
        return end

    def _has_lines(self, at: int) -> bool:
        """Return whether the literal has line breaks that are not escapes."""
        place = self._text.position(at)
        source = None if place is None else self._source_of(place[0])
        return source is not None and ("\n" in source or "\r" in source)

    def _is_refused(self, start: int, end: int) -> bool:
        """Return whether a stretch can't be code: it has half a string, or a syntax error.

        In a literal of one line escapes are how lines are written, so only the string counts there.
        """
        if any(_is_quote(t) and start <= t.start < end for t in self._tokens):
            return True
        return self._has_lines(start) and any(start <= fault <= end for fault in self._faults)


def _is_quote(token: Token) -> bool:
    """Return whether it opens a string that the line does not close."""
    if token.kind != "string" or not token.text.startswith('"'):
        return False
    inside = token.text[1:].removesuffix('"')
    is_escaped = (len(inside) - len(inside.rstrip("\\"))) % 2 == 1
    return is_escaped or not token.text[1:].endswith('"')


def _nesting(line: list[Token]) -> int:
    """The change in depth of conditions that a directive brings."""
    words = [token.text for token in line if token.kind != "space"]
    if len(words) < 2 or words[0] != "#":
        return 0
    return 1 if words[1] in _CONDITIONS else -1 if words[1] == "endif" else 0


# Characters of code that a message shows.
_SHOWN = 40


@check("KERNEL-SIG-010")
def kernel_escapes(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Each text of each kernel that the file builds."""
    for definition in definitions(module, facts):
        source, header = source_of(definition.fact), header_of(definition.fact)
        above = header.text.text if header else ""
        if source is not None:
            facts_of_source = parsed(source.text.text, above)
            yield from _broken_lines(definition, source, facts_of_source, module)
        if header is not None:
            yield from _broken_lines(definition, header, parsed_header(above), module)


def _broken_lines(
    definition: Definition, text: Folded, facts: MetalText, module: Module
) -> Iterator[Report]:

    def source(number: int) -> str | None:
        literal = text.literals[number]
        return None if isinstance(literal, str) else literal.node.value

    for found in escaped_breaks(text.text, source, facts.doubtful):
        where = target(definition, text, found.at, found.at + 1, module)
        if where is not None:
            yield Report.at(
                where,
                "KERNEL-SIG-010",
                message=_message(found, text.text.text),
                help=f'Use a raw string (`r"..."`), or double the backslash: `\\{found.escape}`',
                text_span=where.span,
            )


def _message(found: EscapedBreak, text: str) -> str:
    rest = " ".join(text[found.at + 1 : found.end].split())
    shown = rest if len(rest) <= _SHOWN else rest[: _SHOWN - 3] + "..."
    if found.inside == "comment":
        return f"`{found.escape}` ends the `//` comment: `{shown}` becomes code"
    return f"`{found.escape}` breaks a string of the kernel over two lines"
