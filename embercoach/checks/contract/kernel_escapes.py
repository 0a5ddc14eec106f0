"""KERNEL-SIG-010: escapes of Python that end a comment, or break a string, of a kernel's text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.programs.metal_checks import MetalReport
from embercoach.checks.registry import check
from embercoach.metal.text_facts import TextSpan
from embercoach.metal.tokens import line_comment, tokens_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.values.strings import Folded
    from embercoach.checks.programs.kernels import PythonKernel
    from embercoach.metal.tokens import Token
    from embercoach.metal.written.body import MetalText

#: Characters of code that a message shows.
_SHOWN = 40
_CONDITIONS = frozenset({"if", "ifdef", "ifndef"})


class _Breaks:
    """The escapes that end a comment or a string of a text, if the rest can't be meant as code."""

    def __init__(self, source: Folded, facts: MetalText) -> None:
        self._text = source.text
        self._literals = source.literals
        self._facts = facts
        self._faults = [place.start for place in facts.doubtful]
        self._tokens = list(tokens_of(facts.text))

    def found(self) -> Iterator[MetalReport]:
        if all(piece.exact for piece in self._text.pieces):
            return  # no character of it stems from an escape
        line: list[Token] = []
        depth = reported = 0
        for token in self._tokens:
            if token.kind != "newline":
                line.append(token)
                continue
            depth += _nesting(line)
            # Text under a condition may never be compiled.
            is_checked = depth == 0 and token.start >= reported
            found = self._broken(line, token.start) if is_checked else None
            if found is not None:
                reported, escape, what = found
                yield MetalReport(
                    "KERNEL-SIG-010",
                    self._facts.at(TextSpan(token.start, token.start + 1, 1, 1)),
                    what,
                    f'Use a raw string (`r"..."`), or double the backslash: `\\{escape}`',
                )
            line = []

    def _broken(self, line: list[Token], at: int) -> tuple[int, str, str] | None:
        """The fault of the line break after a line: where the next one ends, escape and message."""
        escape = self._escape(at)
        if escape is None:
            return None
        if line and line_comment(line[-1]) is not None:
            end = self._end(at + 1)
            rest = self._text.text[at + 1 : end].strip()
            plain = rest and not rest.startswith(("//", "/*"))
            if plain and self._is_known(at, end) and self._is_refused(at + 1, end):
                shown = " ".join(rest.split())
                shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."
                return end, escape, f"`{escape}` ends the `//` comment: `{shown}` becomes code"
            return None
        quote = next((token.start for token in line if _is_quote(token)), None)
        if quote is None:
            return None
        end = self._next(at + 1)
        if '"' in self._text.text[at + 1 : end] and self._is_known(quote, end):
            return end, escape, f"`{escape}` breaks a string of the kernel over two lines"
        return None

    def _escape(self, at: int) -> str | None:
        """The escape that a line break is written as, None for other line breaks."""
        start, end = self._text.position(at), self._text.end_position(at + 1)
        source = None if start is None else self._source_of(start[0])
        if start is None or end is None or source is None or source[start[1]] != "\\":
            return None
        return source[start[1] : end[1]]

    def _source_of(self, number: int) -> str | None:
        """The source of the literal that the text numbers so, None for text that is not known."""
        literal = self._literals[number]
        return None if isinstance(literal, str) else literal.node.value

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


@check("KERNEL-SIG-010")
def kernel_escapes(kernel: PythonKernel) -> Iterator[MetalReport]:
    """The body and the header of a kernel."""
    for source, text in ((kernel.source, kernel.text), (kernel.header_source, kernel.header)):
        if source is not None:
            yield from _Breaks(source, text).found()
