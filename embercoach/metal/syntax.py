"""Metal text to a C++ syntax tree, with positions in the text itself.

The grammar is C++'s. Metal's address spaces and entry qualifiers, and macros that expand to a
pragma or to qualifiers, are not C++: they are blanked out or exchanged for C++ qualifiers of the
same length before the tree is built, so every position stays true, and the replaced words are kept.
A body is wrapped into a function for the grammar's sake.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import tree_sitter_cpp
from msgspec import Struct, field
from msgspec.structs import replace
from tree_sitter import Language, Node, Parser

from embercoach.metal.library import ADDRESS_SPACES, ENTRY_QUALIFIERS
from embercoach.metal.text_facts import TextSpan

if TYPE_CHECKING:
    from collections.abc import Iterator

# Comments, literals and numbers; an unclosed string ends with its line.
LEXICAL = rb"""
    //(?:\\\r?\n|[^\n])*
    | (?P<comment>/\*(?:.*?\*/|.*))
    | R"([^()\\\s]{0,16})\((?:.*?\)\2"|.*)
    | "(?:\\.|[^"\\\n])*"?
    | '(?:\\.|[^'\\\n])*'?
    | (?<![\w\x80-\xff])\d(?:[eEpP][+-]|'?[\w.])*
"""
_LEXICAL = re.compile(LEXICAL, re.VERBOSE | re.DOTALL)
# Each ``<`` may begin the arguments of a template: the grammar follows both ways.
_MAX_OPEN = 100
_ANGLES = re.compile(rb"[<>;{}]")
# The grammar compares both ways of reading attributes in a row, at each of them.
_MANY_ATTRIBUTES = re.compile(rb"(?:\[\[[^\[\]]*\]\]\s*){100}")
# The grammar reports its progress after a hundred steps. Metal's own and MLX's headers take one
# report for each 50 to 80 characters, and 0.5 microseconds a character.
_REPORTS = 2_000
_REPORTS_A_CHARACTER = 0.1
# Shorter texts take no time in any case.
_SHORT = 500
_PIECE = 1 << 16


class ParsedTree(NamedTuple):
    """A tree of a text in bytes.

    Attributes:
        root: its root; of a text that was not parsed, that of an empty one.
        unread: start and end of what the grammar did not get, None where it got all.
        is_exceeded: the parse took more than it may.
    """

    root: Node
    unread: tuple[int, int] | None = None
    is_exceeded: bool = False


@cache
def _language() -> Language:
    return Language(tree_sitter_cpp.language())


# The checks, the followed kernels and the suppressions read the same text.
@lru_cache(maxsize=2)
def tree_of(data: bytes, tail: int = 0) -> ParsedTree:
    """The C++ tree of a text.

    An unclosed comment is left out, up to ``tail`` bytes before the text's end.
    """
    if _is_ambiguous(data):
        return ParsedTree(_empty(), (0, len(data)))
    end = len(data) - tail
    start = _open_comment(data[:end])
    if start is not None:
        data = data[:start] + b" " * (end - start) + data[end:]
    root = _parse_bytes(data)
    if root is None:
        return ParsedTree(_empty(), (0, len(data)), is_exceeded=True)
    return ParsedTree(root, None if start is None else (start, end))


def _empty() -> Node:
    return Parser(_language()).parse(b"").root_node


def _parse_bytes(data: bytes) -> Node | None:
    """The root of a text's tree, None where that takes more than it may.

    The package reports progress only where it reads the text piece by piece, and nodes of such a
    tree have no safe text: so the first tree is only made to see that it can be.
    """
    if len(data) > _SHORT and not _ends(data):
        return None
    # Its own parser: another thread may parse at the same time.
    return Parser(_language()).parse(data).root_node


def _ends(data: bytes) -> bool:
    """Return whether parsing a text takes no more than it may."""
    reports = int(_REPORTS + _REPORTS_A_CHARACTER * len(data))
    stopped = False

    def is_over(_offset: int, _has_error: bool, /) -> bool:
        nonlocal reports, stopped
        reports -= 1
        stopped = reports < 0
        return stopped

    try:
        Parser(_language()).parse(lambda at, _: data[at : at + _PIECE], progress_callback=is_over)
    except ValueError:
        if not stopped:
            raise
    return not stopped


def _open_comment(data: bytes) -> int | None:
    """The start of a block comment that nothing ends, None without one."""
    if data.find(b"/*", max(data.rfind(b"*/") - 1, 0)) < 0:
        return None
    for match in _LEXICAL.finditer(data):
        comment = match["comment"]
        if comment is not None and (len(comment) < 4 or not comment.endswith(b"*/")):
            return match.start()
    return None


def _is_ambiguous(data: bytes) -> bool:
    """Return whether parsing a statement would take more than linear time."""
    return _has_many_angles(data) or _MANY_ATTRIBUTES.search(data) is not None


def _has_many_angles(data: bytes) -> bool:
    if data.count(b"<") <= _MAX_OPEN:
        return False
    found = 0
    for byte in _ANGLES.findall(data):
        if byte == b"<":
            found += 1
            if found > _MAX_OPEN:
                return True
        elif byte == b">":
            found = max(found - 1, 0)
        else:
            found = 0
    return False


# Macros of Metal's and MLX's own headers that represent qualifiers or a pragma.
PREAMBLE_BLANKS = frozenset({"METAL_FUNC", "METAL_CONST", "MTL_CONST", "MLX_MTL_PRAGMA_UNROLL"})

_PREFIX = b"void _(){\n"
_SUFFIX = b"\n}\n"
_LINE_BREAK = re.compile("\n")
_DIRECTIVE_TEXT = re.compile(LEXICAL, re.VERBOSE | re.DOTALL)
# What words are in that are left to the tree: comments, directives, strings and attributes.
_OTHER_TEXT = (
    LEXICAL
    + rb"""
    | (?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)
    | \[\[[^\]\n]{0,200}
"""
)


# A pragma with its text, and words that make a type of C++ together.
_OTHER_WORDS = rb"""
    | (?P<pragma>(?<![\w\x80-\xff])_Pragma\s*(?:\((?:"(?:\\.|[^"\\\n])*"|[^()"])*\))?)
    | (?<![\w\x80-\xff])
      (?P<sized>(?:long|short|unsigned|signed)(?:\s+(?:long|short|unsigned|signed))*)
      (?![\w\x80-\xff])
"""
_CALLED = re.compile(rb"[\s\\]*\(")


class Syntax(Struct, frozen=True):
    """A parsed text.

    Attributes:
        text: the text as given.
        root: of a body its ``compound_statement``, else the ``translation_unit``.
        top: the root of the whole tree.
        data: the text as the grammar saw it, in bytes, before the exchange.
        shift: bytes in front of the text in ``data``.
        tail: bytes after it.
        qualifiers: byte offset of each exchanged qualifier, to the word that it replaces.
        faults: stretches where the grammar had to guess; empty means a clean parse.
        is_exceeded: the parse took more than it may: the tree is that of an empty text.
    """

    text: str
    root: Node
    top: Node
    data: bytes
    shift: int
    tail: int
    qualifiers: dict[int, str]
    faults: tuple[TextSpan, ...] = ()
    is_exceeded: bool = False
    _nodes: list[Node] = field(default_factory=list)
    _parents: dict[int, Node] = field(default_factory=dict)
    _rows: list[int] = field(default_factory=list)
    _characters: list[int] | None = None

    @property
    def nodes(self) -> list[Node]:
        """Every node of the whole tree, in the order of the text."""
        if not self._nodes:
            self._nodes.extend(walk(self.top))
        return self._nodes

    def parent(self, node: Node) -> Node | None:
        """The node directly above one. The grammar's own way to it starts at the root."""
        if not self._parents:
            for above in self.nodes:
                self._parents.update((child.id, above) for child in above.children)
        return self._parents.get(node.id)

    def words(self, node: Node) -> str:
        """The text of a node as it was written."""
        return self.text_between(node.start_byte, node.end_byte)

    def text_between(self, start: int, end: int) -> str:
        """A stretch of ``data``, given in bytes, as it was written."""
        return self.data[start:end].decode()

    def place(self, node: Node) -> TextSpan:
        """The place of a node in the text."""
        return self.stretch(node.start_byte, node.end_byte)

    def stretch(self, start: int, end: int) -> TextSpan:
        """The place of a stretch of ``data``, given in bytes."""
        first, last = self.offsets(start, end)
        row = bisect_right(self._rows, first) - 1
        return TextSpan(first, last, row + 1, first - self._rows[row] + 1)

    def offsets(self, start: int, end: int) -> tuple[int, int]:
        """A stretch of ``data``, given in bytes, in characters of the text."""
        shift, table = self.shift, self._characters
        most = len(self.text) if table is None else len(table) - 1
        first, last = start - shift, end - shift
        first = 0 if first < 0 else min(first, most)
        last = 0 if last < 0 else min(last, most)
        return (first, last) if table is None else (table[first], table[last])


def parse_body(text: str, blanks: frozenset[str] = frozenset()) -> Syntax:
    """Parse the ``source`` of a kernel: statements, as they stand inside a function.

    Args:
        text: the body.
        blanks: macros of the header that represent a pragma, qualifiers or nothing.
    """
    return _parse(text, _PREFIX, _SUFFIX, blanks)


def parse_unit(text: str, blanks: frozenset[str] = frozenset()) -> Syntax:
    """Parse text that is at file scope: a ``header``, or a whole ``.metal`` file."""
    return _parse(text, b"", b"", blanks)


def _parse(text: str, prefix: bytes, suffix: bytes, blanks: frozenset[str]) -> Syntax:
    # Lone surrogates cannot be encoded; a question mark keeps every offset.
    data = prefix + text.encode(errors="replace") + suffix
    margins = len(prefix), len(suffix)
    edited, qualifiers = _exchange(data, blanks | PREAMBLE_BLANKS)
    tree = tree_of(edited, len(suffix))
    body = _wrapped_body(tree.root, len(data)) if prefix else tree.root
    if body is None:
        tree = tree._replace(unread=(0, len(data)))
    syntax = _syntax(text, data, margins, tree)
    return replace(syntax, root=body or tree.root, qualifiers=qualifiers)


def _syntax(text: str, data: bytes, margins: tuple[int, int], tree: ParsedTree) -> Syntax:
    """A syntax without qualifiers; the margins are bytes in front of and after the text."""
    shift, tail = margins
    encoded = data[shift : len(data) - tail]
    syntax = Syntax(
        text=text,
        root=tree.root,
        top=tree.root,
        data=data,
        shift=shift,
        tail=tail,
        qualifiers={},
        is_exceeded=tree.is_exceeded,
        _rows=line_starts(text),
        _characters=None if len(encoded) == len(text) else _character_table(encoded),
    )
    faults = [syntax.place(node) for node in _faults(syntax)]
    if tree.unread is not None:
        faults.append(syntax.stretch(*tree.unread))
    return replace(syntax, faults=tuple(faults))


def syntax_of(text: str, data: bytes, edited: bytes) -> Syntax:
    """A text whose tree was made from bytes of the same length.

    Args:
        text: the text as it was written.
        data: the same, encoded.
        edited: what the grammar is to see.
    """
    tree = tree_of(edited)
    return _syntax(text, data, (0, 0), tree)


@lru_cache(maxsize=16)
def _words(blanks: frozenset[str]) -> re.Pattern[bytes]:
    """Words that are not C++, and the texts in which they are not looked for."""
    words = b"|".join(
        re.escape(word.encode()) for word in sorted(ADDRESS_SPACES | ENTRY_QUALIFIERS | blanks)
    )
    flags = re.VERBOSE | re.DOTALL | re.MULTILINE
    return re.compile(
        _OTHER_TEXT
        + _OTHER_WORDS
        + rb"| (?<![\w\x80-\xff])(?P<word>"
        + words
        + rb")(?![\w\x80-\xff])",
        flags,
    )


def _exchange(data: bytes, blanks: frozenset[str]) -> tuple[bytes, dict[int, str]]:
    """A text with Metal's own words exchanged for C++ of the same length, and these words."""
    qualifiers: dict[int, str] = {}
    edited = bytearray(data)
    for match in _words(blanks).finditer(data):
        start, end = match.span()
        directive, word = match["directive"], match["word"]
        if directive is not None and b"/*" in directive:
            edited[start:end] = _without_comments(directive)
        elif match["pragma"] is not None:
            edited[start:end] = b" " * (end - start)
        elif match["sized"] is not None:
            # The grammar knows int(x) but not long(x).
            if len(match["sized"].split()) == 1 and _CALLED.match(data, end):
                edited[start:end] = b"int".ljust(end - start)
        elif word is not None:
            name = word.decode()
            stand_in = b"const" if name in ADDRESS_SPACES else b"inline"
            if name in ADDRESS_SPACES | ENTRY_QUALIFIERS:
                qualifiers[start] = name
            else:
                stand_in = b""
            edited[start:end] = stand_in.ljust(end - start)
    return bytes(edited), qualifiers


def _without_comments(directive: bytes) -> bytes:
    """A directive with its block comments blanked: the grammar ends a macro's body at one."""
    return _DIRECTIVE_TEXT.sub(_without_comment, directive)


def _without_comment(match: re.Match[bytes]) -> bytes:
    """The text of a match; of a closed block comment spaces, and its continued line ends."""
    comment = match["comment"]
    if comment is None or len(comment) < 4 or not comment.endswith(b"*/"):
        return match[0]
    return b"\\\n".join(b" " * len(line) for line in comment.split(b"\\\n"))


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, in the order of the text."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(current.children))


def line_starts(text: str) -> list[int]:
    """The starts of the lines of a text."""
    return [0, *(match.end() for match in _LINE_BREAK.finditer(text))]


def _faults(syntax: Syntax) -> Iterator[Node]:
    if syntax.top.has_error:
        yield from (node for node in syntax.nodes if node.is_error or node.is_missing)


def _wrapped_body(root: Node, end: int) -> Node | None:
    """The body of the wrapping function, None where the text closes it or leaves it open."""
    functions = root.named_children
    if len(functions) != 1 or functions[0].type != "function_definition":
        return None
    body = functions[0].child_by_field_name("body")
    # The last byte of the wrapper is the line break after its brace.
    return body if body is not None and body.end_byte == end - 1 else None


def _character_table(encoded: bytes) -> list[int]:
    """Byte offset to character offset, with an entry for the end."""
    table: list[int] = []
    character = -1
    for byte in encoded:
        if byte & 0xC0 != 0x80:
            character += 1
        table.append(character)
    table.append(character + 1)
    return table
