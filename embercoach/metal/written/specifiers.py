"""Types and signatures of declarations, as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.metal.program.declarators import unpack
from embercoach.metal.syntax import ENTRY_QUALIFIERS
from embercoach.metal.text_facts import WrittenFunction, WrittenParameter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.program.declarators import Declarator
    from embercoach.metal.program.texts import Parsed
    from embercoach.metal.program.tree import SyntaxNode

#: Attributes of the entry points of a mesh pipeline.
_MESH_STAGES = frozenset({"mesh", "object"})


def type_words(parsed: Parsed, part: SyntaxNode) -> str:
    """The type of a declaration as written, without qualifiers and without a class body."""
    kind = part.get("type")
    if kind is not None and kind.get("body") is not None:
        kind = kind.get("name")
    return "" if kind is None else " ".join(parsed.word(kind).split())


def _parameter(parsed: Parsed, part: SyntaxNode) -> WrittenParameter:
    parts = unpack(part.get("declarator"))
    name = parts.names[0] if parts.names else None
    return WrittenParameter(
        name="" if name is None else parsed.word(name),
        type=type_words(parsed, part),
        address_space=parsed.space(part),
        pointer=parts.is_address,
        attributes=tuple(parsed.declared_marks(part)),
        place=parsed.place(name or part),
    )


def function(
    parsed: Parsed, part: SyntaxNode, declarator: Declarator, *, member: bool
) -> WrittenFunction | None:
    """The function that a definition or declaration declares, None when it has no plain name."""
    if declarator.function is None or not declarator.names:
        return None
    name = declarator.names[0]
    marks = {
        mark.name
        for child in part.parts
        if child.kind == "attribute_declaration"
        for mark in parsed.attribute_marks(child)
    }
    words = [w for w in (*parsed.qualifiers_in(part), *sorted(marks)) if w in ENTRY_QUALIFIERS]
    words += sorted(marks & _MESH_STAGES)
    listed = declarator.function.get("parameters")
    return WrittenFunction(
        name=parsed.word(name),
        entry=words[0] if words else None,
        body=part.get("body") is not None,
        parameters=tuple(
            _parameter(parsed, child)
            for child in ([] if listed is None else listed.inner)
            if child.kind.endswith("parameter_declaration")
        ),
        place=parsed.place(name),
        extent=parsed.place(part),
        member=member,
        result=type_words(parsed, part) + "*" * declarator.is_address,
    )


def member_names(body: SyntaxNode) -> Iterator[SyntaxNode]:
    """The names that a class body declares, methods and nested types included."""
    for member in body.inner:
        inner = member
        if member.kind == "template_declaration" and member.inner:
            inner = member.inner[-1]
        for declarator in inner.all("declarator"):
            yield from unpack(declarator).names
        name = inner.get("name")
        if name is not None and name.kind == "type_identifier":
            yield name


def callee_words(parsed: Parsed, callee: SyntaxNode) -> tuple[str, tuple[str, ...]]:
    """The callee without its template arguments, and these."""
    last = callee
    if callee.kind == "qualified_identifier":
        last = callee.get("name") or callee
    arguments = last.get("arguments")
    if arguments is None or arguments.kind != "template_argument_list":
        return "".join(parsed.word(callee).split()), ()
    before = parsed.text_between(callee.start, arguments.start)
    return "".join(before.split()), tuple(map(parsed.word, arguments.inner))


def is_include_guard(parsed: Parsed, part: SyntaxNode) -> bool:
    """Return whether a conditional is an include guard: it defines what it tests."""
    asked = part.get("name")
    defined = next((child for child in part.inner if child.kind == "preproc_def"), None)
    name = None if defined is None else defined.get("name")
    if asked is None or name is None or not part.parts[0].kind.startswith("#ifndef"):
        return False
    return parsed.word(asked) == parsed.word(name)
