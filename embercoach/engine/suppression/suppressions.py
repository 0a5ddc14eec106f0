"""Read suppression comments."""

from __future__ import annotations

import io
import re
import token
from typing import TYPE_CHECKING

from embercoach.engine.languages import MARKERS, NOTEBOOK, PYTHON, Language
from embercoach.engine.suppression.directives import CODES, Directive, Item, Kind
from embercoach.engine.suppression.logical_lines import Comment, LineSpans, PhysicalLines
from embercoach.fixes.application import deletion_of_line
from embercoach.fixes.source_file import LineIndex

if TYPE_CHECKING:
    import tokenize
    from collections.abc import Iterator

__all__ = ["CODES", "Directive", "Item", "read_directives", "read_lines"]
LAST_LINE = 1 << 31
_OF_FILES: frozenset[Kind] = frozenset({"ignore-file", "skip-file"})

_DIRECTIVES = {
    marker: re.compile(
        rf"{marker}\s*(?:(?P<noqa>noqa\b)(?P<colon>\s*:\s*)?"
        r"|embercoach:\s*(?P<ours>ignore-file|ignore|skip-file)\b(?![-\w])(?P<bracket>\s*\[)?)",
        re.IGNORECASE,
    )
    for marker in set(MARKERS.values())
}
_ITEM = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*")
_SEPARATOR = re.compile(r"\s*,\s*|\s+")
_SPACES = re.compile(r"\s*")
_PUNCTUATION = re.compile(r"[-,:; ]*")
_END_OF_WORD = re.compile(r"\s*(?:[,#/]|\Z)")
_BLANK = {token.NL, token.INDENT, token.DEDENT, token.ENDMARKER, token.ENCODING}
_STRING_START = {getattr(token, name, -1) for name in ("FSTRING_START", "TSTRING_START")}
_STRING_END = {getattr(token, name, -1) for name in ("FSTRING_END", "TSTRING_END")}
#: What a code of another linter looks like: ``E501``, ``PLR0913``.
_FOREIGN = re.compile(r"[A-Za-z]+[0-9]+\Z")
#: What a code or a family of ours looks like: ``DTYPE-001``, ``GRAPH-BREAK``, ``DTYPE``.
_OURS = re.compile(r"[A-Z]+(?:-[A-Z]+)*(?:-[0-9]+)?\Z")


def read_directives(source: str, language: Language = PYTHON) -> tuple[Directive, ...]:
    """The suppressions of a file, or of a notebook's module.

    What only looks like one inside a string is none.

    Where a Python file stops being tokenisable the suppressions before that place count. In Metal
    and Objective-C a suppression is a comment with ``//``.
    """
    index = LineIndex(source)
    lines = lines_of(source, language)
    spans = LineSpans(lines)
    marker = MARKERS[language]
    return tuple(
        directive
        for comment in lines.comments
        for directive in _in_comment(comment, marker, source, index, spans)
    )


def lines_of(source: str, language: Language) -> PhysicalLines:
    """The physical lines of a file in any of the languages, or of a notebook's module."""
    if language in (PYTHON, NOTEBOOK):
        return read_lines(source)
    from embercoach.engine.suppression.c_lines import read_c_lines

    return read_c_lines(source, language)


def read_lines(source: str) -> PhysicalLines:
    """Tokenise a source, as far as that goes."""
    lines = PhysicalLines()
    first: int | None = None
    opened: list[int] = []
    for item in _tokens(source):
        kind, row = item.type, item.start[0]
        if kind in (token.NL, token.NEWLINE):
            lines.open_ended.add(row)
        if kind in _BLANK:
            continue
        # From Python 3.12 on an f-string is several tokens; its parts may hold strings again.
        if kind in _STRING_START:
            opened.append(row)
        elif kind in _STRING_END and opened:
            lines.strings.append((opened.pop(), row))
        if kind == token.COMMENT:
            alone = not item.line[: item.start[1]].strip()
            lines.comments.append(Comment(row, item.start[1] + 1, item.string, alone))
        elif kind == token.NEWLINE:
            lines.logical.append((first or row, row))
            first = None
        else:
            first = row if first is None else first
            if not lines.code or lines.code[-1] != row:
                lines.code.append(row)
            if item.end[0] > row:
                lines.strings.append((row, item.end[0]))
                lines.code.append(item.end[0])
    for first_row, last_row in lines.strings:
        lines.open_ended.difference_update(range(first_row, last_row))
    return lines


def _tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    from tokenize import TokenError, generate_tokens

    # tokenize breaks lines at "\n" only when fed through a file object with these newlines.
    stream = io.StringIO(source, newline=None)
    try:
        yield from generate_tokens(stream.readline)
    except (TokenError, SyntaxError):
        return


def _in_comment(
    comment: Comment, marker: str, source: str, index: LineIndex, spans: LineSpans
) -> Iterator[Directive]:
    base = index.offset(comment.line, comment.column)
    for match in _DIRECTIVES[marker].finditer(comment.text):
        items, end, blanket = _listed(comment.text, match)
        if not items and not blanket:
            continue
        kind: Kind = "noqa" if match["noqa"] else _ours(match["ours"])
        if kind != "noqa":
            end = _end_of_reason(comment.text, end, marker)
        start, stop = base + match.start(), base + end
        start, stop, remains = _removal(source, start, stop, comment, base, marker)
        yield Directive(
            kind,
            comment.line,
            comment.column + match.start(),
            comment.column + end,
            start,
            stop,
            remains,
            tuple(Item(w, base + a, base + b) for w, a, b in items),
            blanket,
            ((1, LAST_LINE),) if kind in _OF_FILES else (spans.covered(comment, kind),),
        )


def _ours(word: str) -> Kind:
    lowered = word.lower()
    if lowered == "ignore":
        return "ignore"
    return "ignore-file" if lowered == "ignore-file" else "skip-file"


def _listed(text: str, match: re.Match[str]) -> tuple[list[tuple[str, int, int]], int, bool]:
    """The listed words with their places, the end of the directive, and whether it lists none."""
    if match["noqa"] and match["colon"]:
        items = _words(text, match.end(), len(text), codes_only=True)
        return items, items[-1][2] if items else match.end(), False
    if match["ours"] and match["bracket"]:
        close = text.find("]", match.end())
        if close < 0:
            return [], match.end(), False
        return _words(text, match.end(), close, codes_only=False), close + 1, False
    return [], match.end(), True


def _words(text: str, start: int, end: int, *, codes_only: bool) -> list[tuple[str, int, int]]:
    words: list[tuple[str, int, int]] = []
    position = start
    while position < end:
        item = _ITEM.match(text, position, end)
        if item is None:
            skipped = _SEPARATOR.match(text, position, end)
            if skipped is None or words:
                break
            position = skipped.end()
            continue
        if codes_only and not (_FOREIGN.match(item[0]) or _looks_ours(item[0], text, item.end())):
            break
        words.append((item[0], item.start(), item.end()))
        separator = _SEPARATOR.match(text, item.end(), end)
        if separator is None:
            break
        position = separator.end()
    return words


def _looks_ours(word: str, text: str, end: int) -> bool:
    # After a list without commas comes a reason; "DTYPE-001 IS fine" must not list "IS".
    if not _OURS.match(word):
        return "-" in word and word[-1].isdigit()
    return "-" in word or _END_OF_WORD.match(text, end) is not None


def _end_of_reason(text: str, start: int, marker: str) -> int:
    # A reason may hold an address, "https://...".
    following = text.find(marker if marker == "#" else f" {marker}", start)
    return start + len(text[start : following if following >= 0 else None].rstrip())


def _removal(
    source: str, start: int, end: int, comment: Comment, base: int, marker: str
) -> tuple[int, int, str]:
    """The range to delete with a directive, and its replacement."""
    comment_end = base + len(comment.text)
    rest = _skipped(_SPACES, source, end, comment_end)
    if source.startswith(marker, rest, comment_end):
        return start, rest, ""
    if rest < comment_end:
        return start, _skipped(_PUNCTUATION, source, rest, comment_end), f"{marker} "
    if start == base and comment.alone:
        return (*deletion_of_line(source, start, comment_end), "")
    while start and source[start - 1] in " \t":
        start -= 1
    return start, comment_end, ""


def _skipped(pattern: re.Pattern[str], source: str, start: int, end: int) -> int:
    """The place after what a pattern, which may be empty, matches at a place."""
    match = pattern.match(source, start, end)
    assert match is not None
    return match.end()
