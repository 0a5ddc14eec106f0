"""Metal text inside string literals of Objective-C++, with the way back to the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from embercoach.metal.tokens import whole_number
from embercoach.metal.written.body import read_unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from embercoach.metal.objective_c import ObjectiveC
    from embercoach.metal.syntax import Syntax
    from embercoach.metal.written.body import MetalText

_LITERALS = frozenset({"string_literal", "raw_string_literal"})
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "\\": "\\",
    '"': '"',
    "'": "'",
    "?": "?",
}
# Every entry point has one of these words, as a qualifier or as an attribute.
_ENTRIES = ("kernel", "vertex", "fragment")


class Embedded(Struct, frozen=True):
    """Metal text in a literal, or in literals side by side.

    Attributes:
        text: its facts.
        offsets: for each character of the text, and for its end, the offset in the file.
    """

    text: MetalText
    offsets: tuple[int, ...]


def embedded_units(file: ObjectiveC) -> Iterator[Embedded]:
    """The literals that hold whole functions of Metal, in the order of the file."""
    for literal in _literals(file.syntax):
        if not any(word in file.syntax.words(literal) for word in _ENTRIES):
            continue
        written = _characters(literal, file.syntax)
        if written is None:
            continue
        text = read_unit("".join(character for character, _ in written))
        if _is_metal(text):
            end = file.syntax.place(literal).end
            yield Embedded(text, (*(offset for _, offset in written), end))


def _is_metal(text: MetalText) -> bool:
    """Return whether it is Metal and not OpenCL, whose entry points may look the same."""
    if not any(function.body for function in text.entry_points):
        return False
    includes = any(d.target.startswith(("<metal", "metal")) for d in text.directives)
    return includes or any(p.attributes for f in text.entry_points for p in f.parameters)


def _literals(syntax: Syntax) -> Iterator[Node]:
    for node in syntax.nodes:
        above = syntax.parent(node)
        joined = above is not None and above.type == "concatenated_string"
        if node.type == "concatenated_string" or (node.type in _LITERALS and not joined):
            yield node


def _characters(literal: Node, syntax: Syntax) -> list[tuple[str, int]] | None:
    """The characters of a literal with their offsets in the file; None if unknown."""
    parts = literal.named_children if literal.type == "concatenated_string" else [literal]
    found: list[tuple[str, int]] = []
    for part in parts:
        if part.type == "comment":
            continue
        if part.type not in _LITERALS:
            return None  # a macro that represents a literal
        for child in part.named_children:
            start = syntax.place(child).start
            words = syntax.words(child)
            if child.type in ("string_content", "raw_string_content"):
                found += [(character, start + i) for i, character in enumerate(words)]
            elif child.type == "escape_sequence":
                character = _escaped(words)
                if character is None:
                    return None
                found += [(c, start) for c in character]
            elif child.type != "raw_string_delimiter":
                return None
    return found


def _escaped(words: str) -> str | None:
    """The text of an escape; empty for a line end after a backslash."""
    inside = words[1:]
    if inside in ("\n", "\r\n"):
        return ""
    if inside in _ESCAPES:
        return _ESCAPES[inside]
    digits, base = (inside[1:], 16) if inside[:1] in "xuU" else (inside, 8)
    code = whole_number(digits, base)
    try:
        return None if code is None else chr(code)
    except (ValueError, OverflowError):
        return None
