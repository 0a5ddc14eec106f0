"""Metal's dialect of C++: parsed that C++ lacks, and parameters that Metal refuses."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import dropwhile

from embercoach.metal.library import ADDRESS_SPACES
from embercoach.metal.program.texts import Parsed, SyntaxNode, as_written
from embercoach.metal.program.types import NAMED
from embercoach.metal.tokens import tokens_of
from embercoach.simulator.rewrite.line_edits import LineEdit, blanked

_KINDS = {"pointer_declarator": "pointer", "reference_declarator": "reference"}


def bare_parameters(parsed: Parsed) -> Iterator[tuple[int, str]]:
    """Pointers and references without an address space, of functions that are surely compiled.

    Yields the first character of each in the parsed text, and why Metal refuses it.
    """
    for node in parsed.of_kinds("parameter_declaration"):
        declarator = node.get("declarator")
        if (
            declarator is not None
            and declarator.kind in _KINDS
            and declarator.inner[-1].kind == "identifier"
            and parsed.holds(node)
            and _is_of_function(parsed, node)
            and _is_bare(parsed, node, declarator)
        ):
            kind = _KINDS[declarator.kind]
            what = (
                f"{kind} without an address space: write device, constant, threadgroup or "
                f"thread before {parsed.word(node)!r}"
            )
            yield parsed.place(node).start, what


def _is_of_function(parsed: Parsed, node: SyntaxNode) -> bool:
    """Return whether it is a parameter of a function with a body, outside of ``#if``."""
    above = list(parsed.around(node))
    if len(above) < 2 or above[1].kind != "function_declarator":
        return False
    # After pointers and references that it returns.
    outside = list(dropwhile(lambda one: one.kind in _KINDS, above[2:]))
    if not outside or outside[0].kind != "function_definition" or outside[0].has_error:
        return False
    return not any(one.broken or one.kind.startswith("preproc_") for one in outside)


def _is_bare(parsed: Parsed, node: SyntaxNode, declarator: SyntaxNode) -> bool:
    """Return whether there is only a known type and its qualifiers: an alias may hide a space."""
    before = parsed.before(node)
    start = node.start if before is None else before.end
    found = (
        t.text for t in tokens_of(parsed.text_between(start, declarator.start)) if t.text.strip()
    )
    kinds = [word for word in found if word not in ("const", "volatile")]
    behind = parsed.qualifiers_in(declarator)
    return len(kinds) == 1 and kinds[0] in NAMED and not behind


# The prelude's operators; clang refuses these suffixes before it looks for any.
_SUFFIXES = {"H": "_h", "bf": "_bf", "BF": "_bf"}
#: Clang knows this suffix, but only after a literal with a point or an exponent.
_HALF = "h"
_FIXED = "constant"
_WIDENED = "ember::widened"
_FUNCTIONS = frozenset({"function_declarator", "abstract_function_declarator"})
_METHODS = frozenset({"function_definition", "field_declaration", "declaration"})


def literal_edits(parsed: Parsed) -> Iterator[LineEdit]:
    """Literals of half and bfloat in the spellings that clang refuses, macros' texts included."""
    for node in parsed.of_kinds("literal_suffix", "preproc_arg"):
        if not parsed.holds(node):
            continue
        if node.kind == "literal_suffix":
            number = parsed.before(node)
            suffix = _suffix(parsed.word(node), "" if number is None else parsed.word(number))
            if suffix:
                place = parsed.place(node)
                yield LineEdit(place.start, place.end, suffix)
        else:
            start = parsed.place(node).start
            for edit in literal_edits(as_written(parsed.word(node), "body")):
                yield LineEdit(start + edit.start, start + edit.end, edit.new)


def _suffix(written: str, number: str) -> str:
    """Return the replacement of a suffix, "" if clang knows it."""
    if written == _HALF and number[:2] not in ("0x", "0X") and not set(number) & set(".eE"):
        return "_h"
    return _SUFFIXES.get(written, "")


def cast_edits(parsed: Parsed, starts: Collection[int]) -> Iterator[LineEdit]:
    """Operands of casts between half and bfloat, led through float.

    Args:
        parsed: a parsed text.
        starts: where casts begin that clang refuses, in characters of the text.
    """
    for node in parsed.of_kinds("cast_expression", "call_expression"):
        place = parsed.place(node)
        operand = _operand(node) if place.start in starts and parsed.holds(node) else None
        if operand is not None and not operand.has_error:
            found = parsed.place(operand)
            yield LineEdit(found.start, found.start, f"{_WIDENED}(")
            yield LineEdit(found.end, found.end, ")")


def _operand(node: SyntaxNode) -> SyntaxNode | None:
    """Return the operand of a cast, be it written as a call; None for another call."""
    if node.kind == "cast_expression":
        return node.get("value")
    called = node.get("arguments")
    return called.inner[0] if called is not None and len(called.inner) == 1 else None


def array_edits(parsed: Parsed) -> Iterator[LineEdit]:
    """Array parameters in an address space as the pointers that they are.

    Clang takes the space for that of the pointer, where no parameter can lie.
    """
    for node in parsed.of_kinds("parameter_declaration"):
        array, above = node.get("declarator"), parsed.parent(node)
        if (
            node.has_error
            or above is None
            or above.kind != "parameter_list"
            or array is None
            or array.kind != "array_declarator"
            or not parsed.holds(node)
            or not any(word in ADDRESS_SPACES for word in parsed.qualifiers_in(node))
        ):
            continue
        inner, name = array, array.get("declarator")
        while name is not None and name.kind == "array_declarator":
            inner, name = name, name.get("declarator")
        if name is None or name.kind != "identifier":
            continue
        at = parsed.place(name)
        more = inner is not array
        yield LineEdit(at.start, at.start, "(*" if more else "*")
        gap = blanked(parsed.expanded.text, at.end, parsed.place(inner).end)
        yield LineEdit(gap.start, gap.end, ")" * more + gap.new)


def method_edits(parsed: Parsed) -> Iterator[LineEdit]:
    """Methods of one address space as methods of all: clang's objects have them in every space.

    Of several that then are the same, the first stays.
    """
    spaced: dict[tuple[int, str, str], bool] = {}
    for node in parsed.of_kinds(*_METHODS):
        declarator = node.get("declarator")
        function = _function(declarator)
        if node.has_error or not parsed.holds(node) or declarator is None or function is None:
            continue
        words = _spaces(parsed, function)
        above = parsed.parent(node)
        whole = above if above is not None and above.kind == "template_declaration" else node
        identity = _identity(parsed, whole, node, declarator, function)
        key = (id(parsed.parent(whole)), node.kind, identity)
        if key in spaced and (words or spaced[key]):
            place = parsed.place(whole)
            yield blanked(parsed.expanded.text, place.start, place.end)
            continue
        spaced.setdefault(key, bool(words))
        if declarator.kind == "reference_declarator" and _is_operator(function):
            # What such a method returns is its own object, of any space now.
            for at, word in _spaces(parsed, node).items():
                if word in words.values():
                    yield _replaced(parsed, at, word, "")
        fixed = _is_maker(node) or _says_const(parsed, function)
        for at, word in words.items():
            # An object there is never written.
            yield _replaced(parsed, at, word, "" if fixed or word != _FIXED else "const")


def _replaced(parsed: Parsed, at: int, word: str, new: str) -> LineEdit:
    place = parsed.stretch(at, at + len(word))
    return LineEdit(place.start, place.end, new.ljust(len(word)))


def _function(declarator: SyntaxNode | None) -> SyntaxNode | None:
    """Return the declarator with the parameters of a declared function."""
    current = declarator
    while current is not None and current.kind not in _FUNCTIONS:
        layered = current.kind in ("reference_declarator", "pointer_declarator", "operator_cast")
        parts = current.inner if layered else ()
        current = next((c for c in parts if c.kind.endswith("_declarator")), None)
    return current


def _is_maker(node: SyntaxNode) -> bool:
    """Return whether a declaration is that of a constructor, or of its counterpart: never const."""
    declarator = node.get("declarator")
    cast = declarator is not None and declarator.kind == "operator_cast"
    return node.get("type") is None and not cast


def _is_operator(function: SyntaxNode) -> bool:
    name = function.get("declarator")
    return name is not None and name.kind == "operator_name"


def _spaces(parsed: Parsed, node: SyntaxNode) -> dict[int, str]:
    """Return the address spaces among a node's own children, by their offsets in the data."""
    found = {c.start: parsed.qualifiers.get(c.start, "") for c in node.parts}
    return {at: word for at, word in found.items() if word in ADDRESS_SPACES}


def _says_const(parsed: Parsed, function: SyntaxNode) -> bool:
    spaces = _spaces(parsed, function)
    return any(c.start not in spaces and parsed.word(c) == "const" for c in function.parts)


def _identity(
    parsed: Parsed,
    whole: SyntaxNode,
    node: SyntaxNode,
    declarator: SyntaxNode,
    function: SyntaxNode,
) -> str:
    """Return the key of an overload: template, name, parameters and const, on one line."""
    parts = [parsed.text_between(whole.start, node.start)]
    done = declarator.start
    spaces = _spaces(parsed, function)
    for at, word in spaces.items():
        parts.append(parsed.text_between(done, at))
        done = at + len(word)
    parts.append(parsed.text_between(done, max(done, declarator.end)))
    text = " ".join(" ".join(parts).split())
    fixed = _FIXED in spaces.values() and not _is_maker(node) and not text.endswith(" const")
    return f"{text} const" if fixed else text
