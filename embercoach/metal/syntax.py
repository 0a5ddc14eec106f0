"""Metal text to a C++ syntax tree, in bounded time.

The grammar is C++'s. Metal's address spaces and entry qualifiers, CUDA's, and macros that expand
to a pragma or to qualifiers, are not C++: they are blanked out or exchanged for C++ qualifiers of
the same length before the tree is built, so every position stays true, and the replaced words are
kept.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import NamedTuple

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser

from embercoach.metal.cuda_names import QUALIFIERS
from embercoach.metal.library import ADDRESS_SPACES, ENTRY_QUALIFIERS

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
    """Return the C++ tree of a text.

    An unclosed comment is left out, up to ``tail`` bytes before the text's end.
    """
    # Parsing an ambiguous statement would take more than linear time.
    if _has_many_angles(data) or _MANY_ATTRIBUTES.search(data) is not None:
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
    """Return the root of a text's tree, None where that takes more than it may.

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
    """Return the start of a block comment that nothing ends, None without one."""
    if data.find(b"/*", max(data.rfind(b"*/") - 1, 0)) < 0:
        return None
    for match in _LEXICAL.finditer(data):
        comment = match["comment"]
        if comment is not None and (len(comment) < 4 or not comment.endswith(b"*/")):
            return match.start()
    return None


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


@lru_cache(maxsize=16)
def _words(blanks: frozenset[str]) -> re.Pattern[bytes]:
    """Words that are not C++, and the texts in which they are not looked for."""
    words = b"|".join(
        re.escape(word.encode())
        for word in sorted({*ADDRESS_SPACES, *ENTRY_QUALIFIERS, *QUALIFIERS, *blanks})
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


def exchange_words(data: bytes, blanks: frozenset[str]) -> tuple[bytes, dict[int, str]]:
    """Return a text with Metal's own words exchanged for C++ of the same length, and these words.

    Args:
        data: the text.
        blanks: macros that represent a pragma, qualifiers or nothing.
    """
    qualifiers: dict[int, str] = {}
    edited = bytearray(data)
    for match in _words(blanks | PREAMBLE_BLANKS).finditer(data):
        start, end = match.span()
        directive, word = match["directive"], match["word"]
        if directive is not None and b"/*" in directive:
            # The grammar ends a macro's body at a block comment.
            edited[start:end] = _LEXICAL.sub(_without_comment, directive)
        elif match["pragma"] is not None:
            edited[start:end] = b" " * (end - start)
        elif match["sized"] is not None:
            # The grammar knows int(x) but not long(x).
            if len(match["sized"].split()) == 1 and _CALLED.match(data, end):
                edited[start:end] = b"int".ljust(end - start)
        elif word is not None:
            written = word.decode()
            # A macro that has CUDA's word represents Metal's.
            name = written if written in blanks else QUALIFIERS.get(written, written)
            stand_in = b"const" if name in ADDRESS_SPACES else b"inline"
            if name in ADDRESS_SPACES | ENTRY_QUALIFIERS:
                qualifiers[start] = name
            elif name == written:
                stand_in = b""
            edited[start:end] = stand_in.ljust(end - start)
    return bytes(edited), qualifiers


def _without_comment(match: re.Match[bytes]) -> bytes:
    """Return the text of a match; of a closed block comment spaces, and its continued line ends."""
    comment = match["comment"]
    if comment is None or len(comment) < 4 or not comment.endswith(b"*/"):
        return match[0]
    return b"\\\n".join(b" " * len(line) for line in comment.split(b"\\\n"))
