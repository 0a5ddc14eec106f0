"""Message expressions of Objective-C, ``[receiver name:argument name:argument]``, among atoms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NAMES = frozenset(
    {
        "identifier",
        "type_identifier",
        "field_identifier",
        "namespace_identifier",
        "statement_identifier",
    }
)
# Words of C++ that are operators, or begin an expression: no selector follows or is one of them.
_OPERATORS = frozenset(
    {"and", "or", "xor", "not", "bitand", "bitor", "sizeof", "const", "typename"}
)
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True, slots=True)
class Atom:
    """A word, a literal (``string``) or a sign; bytes ``[start, end)`` of the text."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Message:
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
    """The message expressions among atoms, inner ones before those around them.

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
    """The index of the bracket that closes each one, inner ones first; any closes any."""
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
    """The message in a bracket, None if that is a subscript, a lambda or an attribute."""
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
    """The start of the selector: the first word after a value; None without one."""
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
    return (atom.kind in _NAMES or atom.kind.isidentifier()) and atom.kind not in _OPERATORS


def _ends_value(atom: Atom) -> bool:
    return atom.kind in _NAMES or atom.kind in (")", "]", "}", "string", "this", "number_literal")


def _gap(data: bytes, start: int, end: int) -> int | None:
    """Blank space in front of a selector that a comma can take; not the end of a comment."""
    gap = data[start:end]
    if not gap or gap.strip():
        return None
    return end - 1


def _trimmed(data: bytes, start: int, end: int) -> tuple[int, int]:
    while start < end and data[start : start + 1].isspace():
        start += 1
    while end > start and data[end - 1 : end].isspace():
        end -= 1
    return start, end
