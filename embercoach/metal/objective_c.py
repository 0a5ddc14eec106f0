"""Objective-C++ to a C++ syntax tree, its messages kept aside, and the Metal text in its strings.

No grammar covers Objective-C++: that of C++ knows no messages, that of Objective-C no namespaces,
templates and raw strings. As Metal's own words in ``syntax``, what is not C++ is exchanged for C++
of the same length, so that every position stays true: ``[queue commandBuffer]`` becomes the
expression ``(queue,commandBuffer)``, ``@"text"`` a plain string, a block a lambda, a method a
function. Where that cannot be done, the tree has an error there.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from embercoach.metal.library import CPP_KEYWORDS
from embercoach.metal.preprocessor import Expanded, directives
from embercoach.metal.program.texts import Parsed, SyntaxNode
from embercoach.metal.program.written_facts import MetalText, read_unit
from embercoach.metal.tokens import escaped, tokens

_LITERALS = frozenset({"string_literal", "raw_string_literal"})
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
    """Yield the literals that hold whole functions of Metal, in the order of the file."""
    for literal in _literals(file.parsed):
        if not any(word in file.parsed.word(literal) for word in _ENTRIES):
            continue
        written = _characters(literal, file.parsed)
        if written is None:
            continue
        text = read_unit("".join(character for character, _ in written))
        if _is_metal(text):
            end = file.parsed.place(literal).end
            yield Embedded(text, (*(offset for _, offset in written), end))


def _is_metal(text: MetalText) -> bool:
    """Return whether it is Metal and not OpenCL, whose entry points may look the same."""
    if not any(function.body for function in text.entry_points):
        return False
    includes = any(d.target.startswith(("<metal", "metal")) for d in text.directives)
    return includes or any(p.attributes for f in text.entry_points for p in f.parameters)


def _literals(parsed: Parsed) -> Iterator[SyntaxNode]:
    for part in parsed.of_kinds("concatenated_string", *_LITERALS):
        above = parsed.parent(part)
        if above is None or above.kind != "concatenated_string":
            yield part


def _characters(literal: SyntaxNode, parsed: Parsed) -> list[tuple[str, int]] | None:
    """Return the characters of a literal with their offsets in the file; None if unknown."""
    parts = literal.inner if literal.kind == "concatenated_string" else [literal]
    found: list[tuple[str, int]] = []
    for part in parts:
        if part.kind not in _LITERALS:
            return None  # a macro that represents a literal
        for child in part.inner:
            start = parsed.offset(child)
            words = parsed.word(child)
            if child.kind in ("string_content", "raw_string_content"):
                found += [(character, start + i) for i, character in enumerate(words)]
            elif child.kind == "escape_sequence":
                character = escaped(words)
                if character is None:
                    return None
                found += [(c, start) for c in character]
            elif child.kind != "raw_string_delimiter":
                return None
    return found


#: Kinds of tokens that count as one whatever their text.
_KINDS = {"number": "number_literal", "string": "string"}
# Words of C++ that are operators, or begin an expression: no selector follows or is one of them.
_OPERATORS = frozenset(
    {"and", "or", "xor", "not", "bitand", "bitor", "sizeof", "const", "typename"}
)
_VALUE_ENDS = frozenset({"identifier", ")", "]", "}", "string", "this", "number_literal"})
_OPEN, _CLOSE = "([{", ")]}"


class Atom(Struct, frozen=True):
    """A word, a literal (``string``) or a sign; bytes ``[start, end)`` of the text."""

    kind: str
    start: int
    end: int


class Message(Struct, frozen=True):
    """A message expression; all places count bytes.

    Attributes:
        selector: ``newBufferWithBytes:length:options:``, or ``contents``.
        receiver: its start and end.
        arguments: start and end of each argument.
        commas: where a comma separates the parts once it is written as C++.
        names: where each part of the selector starts.
        blocks: for each argument that is a block directly after its name: the end of the name, and
            the place of the ``^``.
    """

    start: int
    end: int
    selector: str
    receiver: tuple[int, int]
    arguments: tuple[tuple[int, int], ...]
    commas: tuple[int, ...]
    names: tuple[int, ...]
    blocks: tuple[tuple[int, int], ...] = ()


def find_messages(atoms: Sequence[Atom], data: bytes) -> Iterator[Message]:
    """Yield the message expressions among atoms, inner ones before those around them.

    Args:
        atoms: of a text, brackets one by one.
        data: the text.
    """
    closing = closing_brackets(atoms)
    for start, end in closing.items():
        if atoms[start].kind == "[" and atoms[end].kind == "]":
            message = _message(atoms, start, closing, data)
            if message is not None:
                yield message


def closing_brackets(atoms: Sequence[Atom]) -> dict[int, int]:
    """Return the index of the bracket that closes each one, inner ones first; any closes any."""
    opened: list[int] = []
    closing: dict[int, int] = {}
    for index, atom in enumerate(atoms):
        if atom.kind in _OPEN:
            opened.append(index)
        elif atom.kind in _CLOSE and opened:
            closing[opened.pop()] = index
    return closing


def top_level(closing: dict[int, int], bracket: int) -> Iterator[tuple[int, int]]:
    """First and last index of each atom, or whole bracket, inside a closed bracket."""
    index = bracket + 1
    while index < closing[bracket]:
        last = closing.get(index, index)
        yield index, last
        index = last + 1


def _message(
    atoms: Sequence[Atom], first: int, closing: dict[int, int], data: bytes
) -> Message | None:
    """Return the message in a bracket, None if that is a subscript, a lambda or an attribute."""
    top, last = list(top_level(closing, first)), closing[first]
    at = _selector_at(atoms, top, subscript=first > 0 and _ends_value(atoms[first - 1]))
    if at is None:
        return None
    receiver = (atoms[first].end, atoms[top[at - 1][1]].end)
    if at == len(top) - 1:
        name = atoms[top[at][0]]
        comma = _gap(data, receiver[1], name.start)
        if comma is None:
            return None
        selector = data[name.start : name.end].decode(errors="replace")
        start, end = atoms[first].start, atoms[last].end
        return Message(start, end, selector, receiver, (), (comma,), (name.start,))
    return _with_arguments(atoms, first, last, top, receiver, data)


def _with_arguments(
    atoms: Sequence[Atom],
    first: int,
    last: int,
    top: list[tuple[int, int]],
    receiver: tuple[int, int],
    data: bytes,
) -> Message | None:
    names: list[str] = []
    commas: list[int] = []
    blocks: list[tuple[int, int]] = []
    bounds: list[tuple[int, int]] = []  # start and end of each "name:"
    for number in range(1, len(top) - 1):
        name, colon = atoms[top[number][0]], atoms[top[number + 1][0]]
        if not (
            _is_word(name)
            and colon.kind == ":"
            and top[number][0] == top[number][1]
            and _ends_value(atoms[top[number - 1][1]])
        ):
            continue
        comma = _gap(data, atoms[top[number - 1][1]].end, name.start)
        if comma is None:
            return None
        names.append(data[name.start : name.end].decode(errors="replace") + ":")
        commas.append(comma)
        bounds.append((name.start, colon.end))
        following = atoms[top[number + 2][0]] if number + 2 < len(top) else None
        if following is not None and following.kind == "^" and following.start == colon.end:
            blocks.append((name.end, following.start))
        else:
            commas.append(colon.start)
    if not names:
        return None
    ends = [start for start, _ in bounds[1:]] + [atoms[last].start]
    arguments = tuple(
        _trimmed(data, begin, end) for (_, begin), end in zip(bounds, ends, strict=True)
    )
    return Message(
        atoms[first].start,
        atoms[last].end,
        "".join(names),
        receiver,
        arguments,
        tuple(commas),
        tuple(start for start, _ in bounds),
        tuple(blocks),
    )


def _selector_at(
    atoms: Sequence[Atom], top: list[tuple[int, int]], *, subscript: bool
) -> int | None:
    """Return the start of the selector: the first word after a value; None without one."""
    for number in range(1, len(top)):
        before, name = atoms[top[number - 1][1]], atoms[top[number][0]]
        if not (_is_word(name) and _ends_value(before)):
            continue
        following = atoms[top[number + 1][0]] if number + 1 < len(top) else None
        if before.kind == ")":
            # "(int)i" is a cast, unless what follows can only be a selector.
            if following is None and subscript:
                return None
            if following is not None and following.kind != ":":
                continue
        if following is None or following.kind == ":":
            return number
        return None
    return None


def _is_word(atom: Atom) -> bool:
    return atom.kind.isidentifier() and atom.kind not in _OPERATORS


def _ends_value(atom: Atom) -> bool:
    return atom.kind in _VALUE_ENDS


def _gap(data: bytes, start: int, end: int) -> int | None:
    """Blank space in front of a selector that a comma can take; not the end of a comment."""
    gap = data[start:end]
    if not gap or gap.strip():
        return None
    return end - 1


def _trimmed(data: bytes, start: int, end: int) -> tuple[int, int]:
    stop = start + len(data[start:end].rstrip())
    return stop - len(data[start:stop].lstrip()), stop


# Words of Objective-C that qualify a type or a cast, and say nothing that is asked here.
_BLANKS = frozenset(
    {
        *("__autoreleasing", "__block", "__bridge", "__bridge_retained", "__bridge_transfer"),
        *("__kindof", "__nonnull", "__nullable", "__strong", "__unsafe_unretained", "__weak"),
        *("_Nonnull", "_Nullable", "autoreleasepool", "nonnull", "nullable"),
    }
)
# After "@": of these their parentheses go too, of those all up to "@end", or the line.
_VALUES = frozenset({"selector", "encode", "available", "protocol"})
_SECTIONS = frozenset({"interface", "protocol"})
_LINES = frozenset({"import", "implementation", "property", "synthesize", "dynamic", "end"})
_END = b"@end"
_METHOD = b"void _()"
#: From a byte to a blank; line ends stay.
_BLANKED = bytes(byte if byte in b"\r\n" else 0x20 for byte in range(256))


class ObjectiveC(Struct, frozen=True):
    """A parsed file.

    Attributes:
        parsed: the C++ tree; its words are those of the file as it was written.
        messages: the message expressions, in the order of the text.
    """

    parsed: Parsed
    messages: tuple[Message, ...]


@lru_cache(maxsize=1)  # the checks and the suppressions read the same text
def parse(text: str) -> ObjectiveC:
    """Parse Objective-C or Objective-C++."""
    encoded = text.encode(errors="replace")
    edited = bytearray(encoded)
    atoms = _atoms(encoded)
    _exchange_words(edited, atoms)
    _exchange_blocks(edited, atoms)
    _exchange_methods(edited, atoms)
    messages = {message.start: message for message in find_messages(atoms, encoded)}
    for message in messages.values():
        _write_message(edited, message)
    found = tuple(messages[start] for start in sorted(messages))
    return ObjectiveC(Parsed(text, "file", Expanded(text), edited=bytes(edited)), found)


def _atoms(data: bytes) -> list[Atom]:
    """Return the words, literals and signs of a text, in order, those of directives left out."""
    found = tokens(data.decode("latin-1"))  # a character for each byte
    atoms: list[Atom] = []
    done = 0
    for directive in (*directives(found), None):
        end = len(found) if directive is None else directive.mark
        for token in found[done:end]:
            if token.kind == "name":
                kind = token.text if token.text in CPP_KEYWORDS else "identifier"
            else:
                kind = _KINDS.get(token.kind, token.text)
            if token.kind not in ("space", "newline"):
                atoms.append(Atom(kind, token.start, token.end))
        done = end if directive is None else directive.end
    return atoms


def _exchange_words(edited: bytearray, atoms: list[Atom]) -> None:
    """Blank qualifiers, and everything that starts with ``@``."""
    closing = closing_brackets(atoms)
    ends = [match.start() for match in re.finditer(_END, edited)]
    for index, atom in enumerate(atoms):
        word = bytes(edited[atom.start : atom.end]).decode(errors="replace")
        if word in _BLANKS:
            _fill(edited, atom.start, atom.end)
        elif word == "in" and index and atoms[index - 1].kind == "identifier":
            _fill(edited, atom.start, atom.end, b":")  # for (id x in xs)
        if atom.kind == "@":
            _fill(edited, atom.start, atom.end)
            if index + 1 < len(atoms) and atoms[index + 1].start == atom.end:
                _exchange_directive(edited, atoms, index + 1, closing, ends)


def _exchange_directive(
    edited: bytearray,
    atoms: list[Atom],
    index: int,
    closing: dict[int, int],
    ends: list[int],
) -> None:
    """Replace the text after an ``@``; ``ends`` are the places of ``@end``."""
    following = atoms[index]
    word = bytes(edited[following.start : following.end]).decode(errors="replace")
    if word in ("[", "{"):
        _exchange_collection(edited, atoms, index, closing)
    elif word in _VALUES and _is_call(atoms, index):
        close = atoms[closing.get(index + 1, index + 1)]
        _fill(edited, following.start, close.end, b"1")
    elif word == "synchronized" and _is_call(atoms, index):
        _fill(edited, following.start, following.end, b"if")
    elif word in _SECTIONS:
        _fill(edited, following.start, _end_of_section(edited, following.start, ends))
    elif word in _LINES:
        _fill(edited, following.start, _end_of_line(edited, following.start))
    elif word == "finally":
        _fill(edited, following.start, following.end)


def _exchange_collection(
    edited: bytearray, atoms: list[Atom], index: int, closing: dict[int, int]
) -> None:
    """``@[a, b]`` and ``@{a : b}`` to ``(a, b)``, and empty ones to ``0``."""
    last = closing.get(index, index)
    start, end = atoms[index].start, atoms[last].end
    if last <= index + 1:
        _fill(edited, start, end, b"0")
        return
    for colon in _colons(atoms, index, closing) if atoms[index].kind == "{" else ():
        edited[colon : colon + 1] = b","
    before = atoms[last - 1]
    if before.kind == ",":  # after the last element
        _fill(edited, before.start, before.end)
    edited[start : start + 1] = b"("
    edited[end - 1 : end] = b")"


def _colons(atoms: list[Atom], index: int, closing: dict[int, int]) -> Iterator[int]:
    """Yield where a dictionary's keys end: its colons that belong to no conditional expression."""
    questions = 0
    for number, _ in top_level(closing, index):
        atom = atoms[number]
        if atom.kind in "?:":
            questions += 1 if atom.kind == "?" else -1
            if questions < 0:
                questions = 0
                yield atom.start


def _is_call(atoms: list[Atom], index: int) -> bool:
    return index + 1 < len(atoms) and atoms[index + 1].kind == "("


def _exchange_blocks(edited: bytearray, atoms: list[Atom]) -> None:
    """``^(id x) {`` to ``[](id x) {``, and the ``^`` of a block's type to ``*``."""
    for index, atom in enumerate(atoms[:-1]):
        if atom.kind != "^" or index == 0:
            continue
        before, after = atoms[index - 1], atoms[index + 1]
        if before.kind == "(" and after.kind not in "({":
            # void (^done)(int): a pointer's type looks the same.
            edited[atom.start : atom.end] = b"*"
            continue
        if after.kind not in "({" or before.kind not in (",", "(", "=", ":", "return"):
            continue
        if before.end < atom.start:
            edited[atom.start - 1 : atom.end] = b"[]"


def _exchange_methods(edited: bytearray, atoms: list[Atom]) -> None:
    """``- (void)draw:(int)x {`` at file scope to ``void _()      {``."""
    ends = [atom for atom in reversed(atoms) if atom.kind in ("{", ";")]
    depth = filled = 0
    for index, atom in enumerate(atoms):
        while ends and ends[-1].start < atom.start:
            ends.pop()
        if atom.start < filled:
            continue  # in the head of a method that is exchanged
        if atom.kind in "-+" and depth == 0 and _is_call(atoms, index):
            end = ends[-1] if ends else None
            if end is not None and end.kind == "{" and end.start - atom.start >= len(_METHOD):
                filled = end.start
                _fill(edited, atom.start, filled, _METHOD)
        depth += (atom.kind == "{") - (atom.kind == "}")


def _end_of_section(edited: bytearray, start: int, ends: list[int]) -> int:
    """The place after ``@end``; a forward declaration, ``@protocol Name;``, ends with its line."""
    line = _end_of_line(edited, start)
    if edited[start:line].rstrip().endswith(b";"):
        return line
    at = bisect_left(ends, start)
    return ends[at] + len(_END) if at < len(ends) else line


def _end_of_line(edited: bytearray, start: int) -> int:
    end = edited.find(b"\n", start)
    return end if end >= 0 else len(edited)


def _fill(edited: bytearray, start: int, end: int, word: bytes = b"") -> None:
    """Write a word, and blanks after it; line ends stay."""
    edited[start:end] = edited[start:end].translate(_BLANKED)
    edited[start : start + len(word)] = word


def _write_message(edited: bytearray, message: Message) -> None:
    edited[message.start : message.start + 1] = b"("
    edited[message.end - 1 : message.end] = b")"
    for comma in message.commas:
        edited[comma : comma + 1] = b","
    for name in message.names:
        # It may be a keyword of C++, as "new".
        edited[name : name + 1] = b"_"
    for name_end, block in message.blocks:
        # "done:^(" has no space for "[]" but in the name's last letter.
        edited[name_end - 1 : block + 1] = b",[]"
