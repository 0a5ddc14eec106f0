"""Suppression comments: read from Python, Metal and Objective-C++, by logical lines."""

from __future__ import annotations

import io
import re
import token
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from embercoach.engine.languages import MARKERS, METAL, NOTEBOOK, PYTHON, Language
from embercoach.finding import MOST, Edit, Offset, Position
from embercoach.fixes.application import deletion_of_line
from embercoach.fixes.source_file import LineIndex
from embercoach.rulebook import static_codes, words

if TYPE_CHECKING:
    import tokenize

    from embercoach.metal.program.texts import Parsed

__all__ = ["CODES", "Directive", "Item", "read_directives", "read_lines"]

Kind = Literal["noqa", "ignore", "ignore-file", "skip-file"]

CODES = ("NOQA-001", "NOQA-002")


class Item(Struct, frozen=True, array_like=True):
    """A word of a suppression's list and its place, as character offsets."""

    word: str
    start: Offset
    end: Offset


class Directive(Struct, frozen=True, array_like=True):
    """A suppression comment.

    ``[start, end)`` is the directive's text and ``[removal, removal_end)`` what goes when it goes;
    ``spans`` are the first and last lines of what it covers. ``blanket`` names no codes and
    suppresses all. ``quoted`` is one in a string, which may be a kernel's source or not.
    """

    kind: Kind
    line: Position
    column: Position
    end_column: Position
    removal: Offset
    removal_end: Offset
    remains: str
    items: tuple[Item, ...]
    blanket: bool
    spans: tuple[tuple[Position, Position], ...]
    quoted: bool = False

    def edit(self, kept: list[str]) -> Edit:
        """Return the edit that leaves only some of the listed words, or removes the directive."""
        if not kept:
            return Edit(self.removal, self.removal_end, self.remains)
        return Edit(self.items[0].start, self.items[-1].end, ", ".join(kept))


class Comment(Struct, frozen=True):
    """A comment token."""

    line: int
    column: int
    text: str
    alone: bool
    quoted: bool = False


class PhysicalLines(Struct):
    """How physical lines belong together.

    ``logical`` and ``strings`` hold first and last lines of statements and of strings over several
    lines, ``code`` the lines with code, ``open_ended`` those that a comment may end.
    """

    comments: list[Comment] = field(default_factory=list)
    logical: list[tuple[int, int]] = field(default_factory=list)
    strings: list[tuple[int, int]] = field(default_factory=list)
    code: list[int] = field(default_factory=list)
    open_ended: set[int] = field(default_factory=set)


class LineSpans:
    """The lines that a suppression covers, by the line that it stands on."""

    def __init__(self, lines: PhysicalLines) -> None:
        """Index the lines: a search through all of them for each comment takes the square."""
        self._code = sorted(lines.code)
        self._first = sorted(span[0] for span in lines.logical)
        # How far the statements reach that begin up to there.
        self._reach = [*accumulate((last for _, last in sorted(lines.logical)), max)]
        # By the line where statements begin, the last that they reach; by the line where they end,
        # and where strings end, the first that these begin at.
        self._last: dict[int, int] = {}
        self._start: dict[int, int] = {}
        self._string: dict[int, int] = {}
        for first, last in lines.logical:
            self._last[first] = max(self._last.get(first, last), last)
            self._start[last] = min(self._start.get(last, first), first)
        for first, last in lines.strings:
            self._string[last] = min(self._string.get(last, first), first)

    def covered(self, comment: Comment, kind: str) -> tuple[int, int]:
        """Return the first and the last line that a suppression of a kind covers in a comment."""
        row = comment.line
        if comment.quoted:
            return row + comment.alone, row + comment.alone
        if comment.alone and kind == "ignore":
            at = bisect_right(self._code, row)
            below = self._code[at] if at < len(self._code) else row
            return below, below if self._is_inside(row) else self._last.get(below, below)
        first = min(self._start.get(row, row), self._string.get(row, row))
        return first, self._last.get(row, row)

    def _is_inside(self, row: int) -> bool:
        """Return whether a statement that begins above a line continues there."""
        above = bisect_left(self._first, row)
        return above > 0 and self._reach[above - 1] >= row


LAST_LINE = MOST
_OF_FILES: frozenset[Kind] = frozenset({"ignore-file", "skip-file"})

_DIRECTIVES = {
    marker: re.compile(
        rf"{marker}\s*(?:(?P<noqa>noqa\b)(?P<colon>\s*:\s*)?"
        r"|embercoach:\s*(?P<ours>ignore-file|ignore|skip-file|disable|noqa)\b(?![-\w])(?P<bracket>\s*\[)?)",
        re.IGNORECASE,
    )
    for marker in set(MARKERS.values())
}
_ITEM = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*")
_SEPARATOR = re.compile(r"\s*,\s*|\s+")
_SPACES = re.compile(r"\s*")
_PUNCTUATION = re.compile(r"[-,:;= ]*")
_END_OF_WORD = re.compile(r"\s*(?:[,#/]|\Z)")
_BLANK = {token.NL, token.INDENT, token.DEDENT, token.ENDMARKER, token.ENCODING}
_STRING_START = {getattr(token, name, -1) for name in ("FSTRING_START", "TSTRING_START")}
_STRING_TOKENS = {token.STRING} | {
    getattr(token, name, -1) for name in ("FSTRING_MIDDLE", "TSTRING_MIDDLE")
}
_QUOTED = re.compile(r"//\s*embercoach:\s*ignore\s*\[", re.IGNORECASE)
_STRING_END = {getattr(token, name, -1) for name in ("FSTRING_END", "TSTRING_END")}
#: What a code of another linter looks like: ``E501``, ``PLR0913``.
_FOREIGN = re.compile(r"[A-Za-z]+[0-9]+\Z")
#: What a code or a family of ours looks like: ``DTYPE-001``, ``GRAPH-BREAK``, ``DTYPE``.
_OURS = re.compile(r"[A-Z]+(?:-[A-Z]+)*(?:-[0-9]+)?\Z")


def read_directives(source: str, language: Language = PYTHON) -> tuple[Directive, ...]:
    """Return the suppressions of a file, or of a notebook's module.

    In a string, which may be the source of a kernel, Metal's comments with a list of codes count.

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
        for directive in _in_comment(
            comment, MARKERS[METAL] if comment.quoted else marker, source, index, spans
        )
    )


def lines_of(source: str, language: Language) -> PhysicalLines:
    """Return the physical lines of a file in any of the languages, or of a notebook's module."""
    if language in (PYTHON, NOTEBOOK):
        return read_lines(source)

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
            if kind in _STRING_TOKENS and "embercoach:" in item.string:
                lines.comments += _quoted(item)
            if item.end[0] > row:
                lines.strings.append((row, item.end[0]))
                lines.code.append(item.end[0])
    for first_row, last_row in lines.strings:
        lines.open_ended.difference_update(range(first_row, last_row))
    return lines


def _quoted(item: tokenize.TokenInfo) -> Iterator[Comment]:
    """Yield the comments of a kernel's source in a string, which cover a line of it."""
    for number, text in enumerate(item.string.split("\n")):
        if match := _QUOTED.search(text):
            column = match.start() + 1 + (0 if number else item.start[1])
            alone = not text[: match.start()].strip()
            yield Comment(item.start[0] + number, column, text[match.start() :], alone, quoted=True)


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
        if comment.quoted and (blanket or kind != "ignore"):
            continue
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
            comment.quoted,
        )


def _ours(word: str) -> Kind:
    lowered = word.lower()
    if lowered in ("ignore-file", "skip-file"):
        return "ignore-file" if lowered == "ignore-file" else "skip-file"
    return "ignore"  # other linters' words for it, too


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
    # Codes without brackets are meant as codes: all findings would be ignored in their place.
    start = _skipped(_PUNCTUATION, text, match.end(), len(text))
    takes_codes = match["ours"] and _ours(match["ours"]) != "skip-file"
    items = _words(text, start, len(text), codes_only=True) if takes_codes else []
    return (items, items[-1][2], False) if items else ([], match.end(), True)


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
        return "-" in word and (word[-1].isdigit() or word.upper() in words(static_codes()))
    return "-" in word or _END_OF_WORD.match(text, end) is not None


def _end_of_reason(text: str, start: int, marker: str) -> int:
    # A reason may hold an address, "https://...".
    following = text.find(marker if marker == "#" else f" {marker}", start)
    return start + len(text[start : following if following >= 0 else None].rstrip())


def _removal(
    source: str, start: int, end: int, comment: Comment, base: int, marker: str
) -> tuple[int, int, str]:
    """Return the range to delete with a directive, and its replacement."""
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
    """Return the place after what a pattern, which may be empty, matches at a place."""
    match = pattern.match(source, start, end)
    assert match is not None
    return match.end()


#: Statements that a comment on their last line suppresses; of one with a body, its head.
_STATEMENTS = frozenset(
    (
        *("alias_declaration", "case_statement", "declaration", "do_statement"),
        *("expression_statement", "field_declaration", "for_range_loop", "for_statement"),
        *("function_definition", "if_statement", "parameter_declaration", "preproc_def"),
        *("preproc_function_def", "return_statement", "struct_specifier", "switch_statement"),
        *("template_declaration", "while_statement"),
    )
)
_BODIES = frozenset({"compound_statement", "field_declaration_list"})
_LONE_RETURN = re.compile(r"\r(?!\n)")
_STRINGS = frozenset({"raw_string_literal", "string_literal", "concatenated_string"})


def read_c_lines(source: str, language: Language) -> PhysicalLines:
    """Return how a file's lines belong together. What the grammar doubts has lines all the same."""
    # A carriage return alone ends a line to Clang, though not to the grammar.
    parsed = _parsed(_LONE_RETURN.sub("\n", source), language)
    index = LineIndex(source)
    lines = PhysicalLines(open_ended=_ends(source, index))
    code: set[int] = set()
    for comment in parsed.comments:
        start, end = parsed.offsets(comment.start, comment.end)
        first, last = index.place(start)[0], index.place(end)[0]
        _add_comment(lines, source[start:end], index.place(start), index)
        lines.open_ended.difference_update(range(first, last))
    # In the order of the text, where the first one after a statement's begin is its own, or none.
    bodies = [parsed.offset(part) for part in parsed.of_kinds(*_BODIES)]
    for part in parsed.tree.below():
        start, end = parsed.offsets(part.start, part.end)
        first, last = index.place(start)[0], index.place(end)[0]
        if part.kind in _STATEMENTS:
            at = bisect_left(bodies, start)
            head = min(end, bodies[at]) if at < len(bodies) else end
            lines.logical.append((first, index.place(head)[0]))
        elif part.kind in _STRINGS and last > first:
            lines.strings.append((first, last))
            if part.kind != "concatenated_string":
                lines.open_ended.difference_update(range(first, last))
        if not part.parts and part is not parsed.tree and end > start:
            code.update((first, last))
    lines.code = sorted(code)
    return lines


def _parsed(source: str, language: Language) -> Parsed:
    if language == METAL:
        from embercoach.metal.program.texts import as_written

        return as_written(source, "file")
    from embercoach.metal.objective_c import parse

    return parse(source).parsed


def _ends(source: str, index: LineIndex) -> set[int]:
    """Return the lines that do not end with a backslash."""
    rows = range(1, len(index.starts) + 1)
    return {row for row in rows if not index.line(row).endswith("\\")}


def _add_comment(lines: PhysicalLines, text: str, place: tuple[int, int], index: LineIndex) -> None:
    row, column = place
    if text.startswith("//") and "\n" not in text:
        alone = not index.line(row)[: column - 1].strip()
        lines.comments.append(Comment(row, column, text.partition("\r")[0], alone))
