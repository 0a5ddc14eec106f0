"""Metal's dialect of C++: syntax that C++ lacks, and parameters that Metal refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from embercoach.metal.library import ADDRESS_SPACES
from embercoach.metal.program.types import NAMED
from embercoach.metal.syntax import parse_body
from embercoach.simulator.rewrite.line_edits import LineEdit, blanked

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tree_sitter import Node

    from embercoach.metal.syntax import Syntax

_KINDS = {"pointer_declarator": "pointer", "reference_declarator": "reference"}


class BareParameter(Struct, frozen=True):
    """A parameter that must not be compiled.

    Attributes:
        start: its first character in the parsed text.
        problem: why Metal refuses it.
    """

    start: int
    problem: str


def bare_parameters(syntax: Syntax) -> Iterator[BareParameter]:
    """Pointers and references without an address space, of functions that are surely compiled."""
    for node in syntax.nodes:
        declarator = node.child_by_field_name("declarator")
        if (
            node.type == "parameter_declaration"
            and declarator is not None
            and declarator.type in _KINDS
            and declarator.named_children[-1].type == "identifier"
            and syntax.holds(node)
            and _is_of_function(node)
            and _is_bare(syntax, node, declarator)
        ):
            kind = _KINDS[declarator.type]
            yield BareParameter(
                syntax.place(node).start,
                f"{kind} without an address space: write device, constant, threadgroup or "
                f"thread before {syntax.words(node)!r}",
            )


def _is_of_function(node: Node) -> bool:
    """Return whether it is a parameter of a function with a body, outside of ``#if``."""
    function = node.parent.parent if node.parent is not None else None
    if function is None or function.type != "function_declarator":
        return False
    # After pointers and references that it returns.
    owner = function.parent
    while owner is not None and owner.type in _KINDS:
        owner = owner.parent
    if owner is None or owner.type != "function_definition" or owner.has_error:
        return False
    around: Node | None = owner
    while around is not None:
        if around.is_error or around.type.startswith("preproc_"):
            return False
        around = around.parent
    return True


def _is_bare(syntax: Syntax, node: Node, declarator: Node) -> bool:
    """Return whether there is only a known type and its qualifiers: an alias may hide a space."""
    before = node.prev_sibling
    start = node.start_byte if before is None else before.end_byte
    words = syntax.data[start : declarator.start_byte].decode().split()
    kinds = [word for word in words if word not in ("const", "volatile")]
    behind = syntax.qualifiers_in(declarator)
    return len(kinds) == 1 and kinds[0] in NAMED and not behind


# The prelude's operators; clang refuses these suffixes before it looks for any.
_SUFFIXES = {"H": "_h", "bf": "_bf", "BF": "_bf"}
#: Clang knows this suffix, but only after a literal with a point or an exponent.
_HALF = "h"
_FIXED = "constant"
_WIDENED = "ember::widened"
_FUNCTIONS = frozenset({"function_declarator", "abstract_function_declarator"})
_METHODS = frozenset({"function_definition", "field_declaration", "declaration"})


def literal_edits(syntax: Syntax) -> Iterator[LineEdit]:
    """Literals of half and bfloat in the spellings that clang refuses, macros' texts included."""
    for node in syntax.nodes:
        if not syntax.holds(node):
            continue
        if node.type == "literal_suffix":
            number = node.prev_sibling
            suffix = _suffix(syntax.words(node), "" if number is None else syntax.words(number))
            if suffix:
                place = syntax.place(node)
                yield LineEdit(place.start, place.end, suffix)
        elif node.type == "preproc_arg":
            start = syntax.place(node).start
            for edit in literal_edits(parse_body(syntax.words(node))):
                yield LineEdit(start + edit.start, start + edit.end, edit.new)


def _suffix(written: str, number: str) -> str:
    """Return the replacement of a suffix, "" if clang knows it."""
    if written == _HALF and number[:2] not in ("0x", "0X") and not set(number) & set(".eE"):
        return "_h"
    return _SUFFIXES.get(written, "")


def cast_edits(syntax: Syntax, starts: Collection[int]) -> Iterator[LineEdit]:
    """Operands of casts between half and bfloat, led through float.

    Args:
        syntax: a parsed text.
        starts: where casts begin that clang refuses, in characters of the text.
    """
    for node in syntax.nodes:
        place = syntax.place(node)
        operand = _operand(node) if place.start in starts and syntax.holds(node) else None
        if operand is not None and not operand.has_error:
            found = syntax.place(operand)
            yield LineEdit(found.start, found.start, f"{_WIDENED}(")
            yield LineEdit(found.end, found.end, ")")


def _operand(node: Node) -> Node | None:
    """Return the operand of a cast of any spelling, None for another node."""
    if node.type == "cast_expression":
        return node.child_by_field_name("value")
    called = node.child_by_field_name("arguments") if node.type == "call_expression" else None
    given = [] if called is None else [c for c in called.named_children if c.type != "comment"]
    return given[0] if len(given) == 1 else None


def array_edits(syntax: Syntax) -> Iterator[LineEdit]:
    """Array parameters in an address space as the pointers that they are.

    Clang takes the space for that of the pointer, where no parameter can lie.
    """
    for node in syntax.nodes:
        array = node.child_by_field_name("declarator")
        if (
            node.type != "parameter_declaration"
            or node.has_error
            or node.parent is None
            or node.parent.type != "parameter_list"
            or array is None
            or array.type != "array_declarator"
            or not syntax.holds(node)
            or not any(word in ADDRESS_SPACES for word in syntax.qualifiers_in(node))
        ):
            continue
        inner, name = array, array.child_by_field_name("declarator")
        while name is not None and name.type == "array_declarator":
            inner, name = name, name.child_by_field_name("declarator")
        if name is None or name.type != "identifier":
            continue
        at = syntax.place(name)
        more = inner != array
        yield LineEdit(at.start, at.start, "(*" if more else "*")
        gap = blanked(syntax.text, at.end, syntax.place(inner).end)
        yield LineEdit(gap.start, gap.end, ")" * more + gap.new)


def method_edits(syntax: Syntax) -> Iterator[LineEdit]:
    """Methods of one address space as methods of all: clang's objects have them in every space.

    Of several that then are the same, the first stays.
    """
    spaced: dict[tuple[int, str, str], bool] = {}
    for node in syntax.nodes:
        declarator = node.child_by_field_name("declarator")
        function = _function(declarator)
        if (
            node.type not in _METHODS
            or node.has_error
            or not syntax.holds(node)
            or declarator is None
            or function is None
        ):
            continue
        words = _spaces(syntax, function)
        templated = node.parent is not None and node.parent.type == "template_declaration"
        whole = node.parent if node.parent is not None and templated else node
        identity = _identity(syntax, whole, node, declarator, function)
        key = (0 if whole.parent is None else whole.parent.id, node.type, identity)
        if key in spaced and (words or spaced[key]):
            place = syntax.place(whole)
            yield blanked(syntax.text, place.start, place.end)
            continue
        spaced.setdefault(key, bool(words))
        if declarator.type == "reference_declarator" and _is_operator(function):
            # What such a method returns is its own object, of any space now.
            for at, word in _spaces(syntax, node).items():
                if word in words.values():
                    yield _replaced(syntax, at, word, "")
        fixed = _is_maker(node) or _says_const(syntax, function)
        for at, word in words.items():
            # An object there is never written.
            yield _replaced(syntax, at, word, "" if fixed or word != _FIXED else "const")


def _replaced(syntax: Syntax, at: int, word: str, new: str) -> LineEdit:
    place = syntax.stretch(at, at + len(word))
    return LineEdit(place.start, place.end, new.ljust(len(word)))


def _function(declarator: Node | None) -> Node | None:
    """The declarator with the parameters of a declared function."""
    current = declarator
    while current is not None and current.type not in _FUNCTIONS:
        layered = current.type in ("reference_declarator", "pointer_declarator", "operator_cast")
        parts = current.named_children if layered else ()
        current = next((c for c in parts if c.type.endswith("_declarator")), None)
    return current


def _is_maker(node: Node) -> bool:
    """Return whether a declaration is that of a constructor, or of its counterpart: never const."""
    declarator = node.child_by_field_name("declarator")
    cast = declarator is not None and declarator.type == "operator_cast"
    return node.child_by_field_name("type") is None and not cast


def _is_operator(function: Node) -> bool:
    name = function.child_by_field_name("declarator")
    return name is not None and name.type == "operator_name"


def _spaces(syntax: Syntax, node: Node) -> dict[int, str]:
    """The address spaces among a node's own children, by their offsets in the data."""
    found = {c.start_byte: syntax.qualifiers.get(c.start_byte, "") for c in node.children}
    return {at: word for at, word in found.items() if word in ADDRESS_SPACES}


def _says_const(syntax: Syntax, function: Node) -> bool:
    spaces = _spaces(syntax, function)
    return any(c.start_byte not in spaces and syntax.words(c) == "const" for c in function.children)


def _identity(syntax: Syntax, whole: Node, node: Node, declarator: Node, function: Node) -> str:
    """The key of an overload: template, name, parameters and const, on one line."""
    parts = [syntax.data[whole.start_byte : node.start_byte]]
    done = declarator.start_byte
    spaces = _spaces(syntax, function)
    for at, word in spaces.items():
        parts.append(syntax.data[done:at])
        done = at + len(word)
    parts.append(syntax.data[done : max(done, declarator.end_byte)])
    text = " ".join(b" ".join(parts).decode().split())
    fixed = _FIXED in spaces.values() and not _is_maker(node) and not text.endswith(" const")
    return f"{text} const" if fixed else text
