"""Checks that the translation adds: pointers from casts, indices, and loops that wait."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from embercoach.metal.program.texts import Parsed, SyntaxNode, cast_target
from embercoach.metal.program.types import SCALARS
from embercoach.simulator.rewrite.line_edits import LineEdit

_POINTED = "ember::pointed"
_ELEMENT = "ember::element"
#: Characters of an array's name in messages.
_LONGEST = 80
_POINTERS = frozenset({"pointer_declarator", "abstract_pointer_declarator"})
#: A pointer to one of these, if it was not cast, has its alignment.
_SCALARS = SCALARS.keys() | {"void"}
_DECLARATIONS = frozenset({"declaration", "parameter_declaration"})
_ACCESSES = ("field_expression", "pointer_expression", "subscript_expression")


def alignment_edits(texts: Sequence[Parsed]) -> Iterator[tuple[int, LineEdit]]:
    """Check each access by a pointer that may come from a cast; with the number of the text."""
    if not any(_is_cast(parsed, node) for parsed in texts for node in _casts(parsed)):
        return
    for number, parsed in enumerate(texts):
        names = frozenset(_cast_pointers(parsed))
        for node in parsed.of_kinds(*_ACCESSES):
            pointer = _pointer(parsed, node)
            if pointer is None or pointer.has_error or not parsed.holds(node):
                continue
            if _comes_from_cast(parsed, pointer, names):
                place = parsed.place(pointer)
                whole = "false" if node.kind == "subscript_expression" else "true"
                yield number, LineEdit(place.start, place.start, f"{_POINTED}<{whole}>(")
                yield number, LineEdit(place.end, place.end, ")")


def _casts(parsed: Parsed) -> Iterator[SyntaxNode]:
    return parsed.of_kinds("cast_expression", "call_expression")


def _is_cast(parsed: Parsed, node: SyntaxNode) -> bool:
    """Return whether an expression is a cast to a pointer, in any spelling."""
    target = cast_target(parsed, node)
    declarator = None if target is None else target.get("declarator")
    return declarator is not None and declarator.kind in _POINTERS


def _cast_pointers(parsed: Parsed) -> Iterator[str]:
    """Yield names of pointers that a cast gave their value, or that may have got one by a call."""
    for node in parsed.of_kinds(*_DECLARATIONS):
        kind = node.get("type")
        is_scalar = kind is None or parsed.word(kind) in _SCALARS
        is_auto = kind is not None and kind.kind == "placeholder_type_specifier"
        for declared in node.all("declarator"):
            declarator, cast = declared, False
            if declared.kind == "init_declarator":
                value = declared.get("value")
                cast = value is not None and _comes_from_cast(parsed, value, ())
                declarator = declared.get("declarator") or declared
            is_pointer = declarator.kind in _POINTERS
            if is_pointer:
                declarator = declarator.get("declarator") or declarator
            if declarator.kind == "identifier" and (
                (is_pointer and (cast or not is_scalar)) or (is_auto and cast)
            ):
                yield parsed.word(declarator)


def _pointer(parsed: Parsed, node: SyntaxNode) -> SyntaxNode | None:
    """Return the pointer that an expression dereferences; None if it makes no access."""
    if _gives_address(parsed, node):
        return None
    operator = _operator(node)
    is_access = {
        "field_expression": operator == "->",
        "pointer_expression": operator == "*",
        "subscript_expression": True,
    }
    return node.get("argument") if is_access[node.kind] else None


def _gives_address(parsed: Parsed, node: SyntaxNode) -> bool:
    above = parsed.parent(node)
    return above is not None and above.kind == "pointer_expression" and _operator(above) == "&"


def _operator(node: SyntaxNode) -> str:
    operator = node.get("operator")
    return operator.kind if operator is not None else ""


def _comes_from_cast(parsed: Parsed, pointer: SyntaxNode, names: Collection[str]) -> bool:
    """Return whether an expression is a pointer that a cast made, or one that is offset."""
    pending = [pointer]
    while pending:
        node = pending.pop()
        if node.kind == "identifier":
            if parsed.word(node) in names:
                return True
        elif _is_cast(parsed, node):
            return True
        elif node.kind == "binary_expression" and _operator(node) in ("+", "-"):
            pending += (node.parts[0], node.parts[-1])
        elif node.kind in ("parenthesized_expression", "update_expression"):
            pending += node.inner
    return False


def _is_guessed(parsed: Parsed, node: SyntaxNode) -> bool:
    """Return whether the statement around an expression is one that the grammar had to guess."""
    for above in parsed.around(node):
        if above.kind == "compound_statement":
            break
        if above.has_error:
            return True
    return False


def element_edits(parsed: Parsed) -> Iterator[LineEdit]:
    """Check each index of an array that is an element or a member."""
    for node in parsed.of_kinds("subscript_expression"):
        array, given = node.get("argument"), node.get("indices")
        indices = () if given is None else given.inner
        if (
            node.has_error
            or array is None
            or array.kind not in ("subscript_expression", "field_expression")
            or len(indices) != 1
            or not parsed.holds(node)
            or _gives_address(parsed, node)
            or _is_guessed(parsed, node)
        ):
            continue
        text, place = parsed.text_between(array.start, array.end), parsed.place(indices[0])
        if len(text) < _LONGEST and not any(character in text for character in '\n"\\'):
            start = f"{_ELEMENT}<decltype(({text}))>("
            yield LineEdit(place.start, place.start, start)
            yield LineEdit(place.end, place.end, f', "{text}")')


#: What the unit's first header declares; its scope ends with the loop, however that is left.
_MARK = "EMBER_SPIN"
_LOOPS = ("while_statement", "do_statement", "for_statement")
_COMPARES = frozenset(
    {"atomic_compare_exchange_weak_explicit", "atomic_compare_exchange_strong_explicit"}
)
_LEAVES = frozenset({"break_statement", "return_statement"})
_ASSIGNMENT = "assignment_expression"
#: A pragma must stay in front of its loop.
_FIXED = frozenset({"preproc_call", "attributed_statement"})


def spin_edits(parsed: Parsed) -> Iterator[LineEdit]:
    """Give each loop that waits for an atomic a scope with a mark."""
    if "atomic_" not in parsed.expanded.text:
        return
    for node in parsed.of_kinds(*_LOOPS):
        before = parsed.before(node)
        is_fixed = before is not None and before.kind in _FIXED
        if not node.has_error and not is_fixed and parsed.holds(node) and _waits(parsed, node):
            place = parsed.place(node)
            yield LineEdit(place.start, place.start, f"{{ {_MARK} ")
            yield LineEdit(place.end, place.end, " }")


def _waits(parsed: Parsed, loop: SyntaxNode) -> bool:
    """Return whether an atomic decides when a loop ends."""
    condition, body = (loop.get(name) for name in ("condition", "body"))
    changed = frozenset(_assigned(parsed, loop))
    if condition is not None and _asks(parsed, condition, changed):
        return True
    if loop.kind == "for_statement" and condition is not None:
        return False
    read = frozenset(_set_by_atomics(parsed, loop, changed))
    asked = frozenset() if condition is None else frozenset(_names(parsed, condition))
    if not read.isdisjoint(asked):
        return True
    for choice in () if body is None else body.below():
        given = choice.get("condition") if choice.kind == "if_statement" else None
        if given is None:
            continue
        is_read = _asks(parsed, given, changed) or not read.isdisjoint(_names(parsed, given))
        if is_read and _leaves(parsed, choice, asked):
            return True
    return False


def _leaves(parsed: Parsed, choice: SyntaxNode, asked: frozenset[str]) -> bool:
    """Return whether an `if` leaves the loop, or sets a variable of the loop's condition."""
    return any(node.kind in _LEAVES for node in choice.below()) or not asked.isdisjoint(
        _assigned(parsed, choice)
    )


def _asks(parsed: Parsed, node: SyntaxNode, changed: frozenset[str]) -> bool:
    """Return whether an expression has the value of an atomic that another thread must change."""
    return any(_is_awaited(parsed, call, changed) for call in node.below())


def _is_awaited(parsed: Parsed, call: SyntaxNode, changed: frozenset[str]) -> bool:
    function = call.get("function") if call.kind == "call_expression" else None
    if function is None:
        return False
    name = parsed.word(function).rpartition("::")[2]
    if not name.startswith("atomic_"):
        return False
    if name not in _COMPARES:
        return True
    arguments = call.get("arguments")
    given = [] if arguments is None else arguments.inner
    if len(given) < 3:
        return False
    new = set(_names(parsed, given[2]))
    return new.isdisjoint(changed) and new.isdisjoint(_names(parsed, given[1]))


def _set_by_atomics(parsed: Parsed, loop: SyntaxNode, changed: frozenset[str]) -> Iterator[str]:
    """Yield variables that get the value of an atomic in a loop."""
    for node in loop.below():
        value = node.get("right" if node.kind == _ASSIGNMENT else "value")
        if value is not None and _asks(parsed, value, changed):
            yield from _assigned(parsed, node)


def _assigned(parsed: Parsed, node: SyntaxNode) -> Iterator[str]:
    """Yield variables that a statement and those inside of it assign or declare with a value."""
    for each in node.below():
        target = None
        if each.kind == _ASSIGNMENT:
            target = each.get("left")
        elif each.kind == "init_declarator":
            target = each.get("declarator")
        elif each.kind == "update_expression":
            target = each.get("argument")
        if target is not None:
            yield from _names(parsed, target)


def _names(parsed: Parsed, node: SyntaxNode) -> Iterator[str]:
    return (parsed.word(each) for each in node.below() if each.kind == "identifier")
