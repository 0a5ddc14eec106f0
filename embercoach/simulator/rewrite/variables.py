"""Variables of a kernel: threads share those of the threadgroup; unset locals get a pattern."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from embercoach.metal.program.texts import (
    Declarator,
    Parsed,
    SyntaxNode,
    unpack,
    unpack_initialized,
)
from embercoach.metal.tokens import tokens_of
from embercoach.simulator.rewrite.line_edits import LineEdit

if TYPE_CHECKING:
    from embercoach.metal.preprocessor import Macros

SPACE = "threadgroup"
#: What the unit's first header declares storage with.
STORAGE_MACRO = "EMBER_STORAGE"

_PREFIXES = frozenset({"alignas_qualifier", "attribute_specifier", "attribute_declaration"})
_SCOPES = frozenset({"lambda_expression", "function_definition", "field_declaration_list"})
#: Among the children of a declaration that say nothing of its variables' type.
_OTHERS = frozenset({",", ";", "storage_class_specifier"})
_SPACES = frozenset({"space", "newline"})


class Storage(Struct, frozen=True):
    """A declaration of threadgroup variables, and what replaces it.

    Attributes:
        start: first character of the declaration in the parsed text.
        end: after its semicolon.
        text: the replacement, on one line.
        problem: why Metal or the simulator refuses the declaration, "" where neither does.
    """

    start: int
    end: int
    text: str
    problem: str = ""


def spelling(macros: Macros) -> frozenset[str]:
    """Get the words that say threadgroup: itself, and macros that stand for qualifiers with it."""
    blanks = macros.blanks
    return frozenset(
        {SPACE, *(m.name for m in macros.items if m.name in blanks and SPACE in m.text.split())}
    )


def threadgroup_storage(parsed: Parsed, words: frozenset[str]) -> Iterator[Storage]:
    """Yield every declaration of threadgroup variables in the kernel functions of a text.

    Args:
        parsed: a body, or a header, in which only kernel functions count.
        words: that say threadgroup.
    """
    for part in parsed.of_kinds("declaration"):
        if part.has_error or not _in_kernel(parsed, part):
            continue
        declarators = list(part.all("declarator"))
        kind = part.get("type")
        if kind is None or not declarators:
            continue
        written = _written_spaces(parsed, part, kind, declarators[0], words)
        unpacked = [unpack_initialized(declarator)[0] for declarator in declarators]
        shared = [_is_shared(parsed, one, words, base=bool(written)) for one in unpacked]
        if any(shared):
            found = _storage(parsed, part, unpacked, words, mixed=not all(shared))
            yield replace(found, start=min([found.start, *written]))


def _written_spaces(
    parsed: Parsed, part: SyntaxNode, kind: SyntaxNode, first: SyntaxNode, words: frozenset[str]
) -> list[int]:
    """Return the characters where a declaration's specifiers say threadgroup, be it by a macro.

    The tree does not show macros, also those in front of the declaration: they were blanked.
    """
    before = parsed.before(part)
    begin = part.start if before is None else before.end
    found = []
    for start, end in ((begin, kind.start), (kind.end, first.start)):
        text = parsed.text_between(start, end)
        # What is in front of a body's first statement is not in the text.
        tokens = tokens_of(text, parsed.stretch(start, end).end - len(text))
        found += [token.start for token in tokens if token.text in words]
    return found


def _in_kernel(parsed: Parsed, part: SyntaxNode) -> bool:
    """Return whether the function around a part is a kernel; a body has only its wrapper."""
    around = next((above for above in parsed.around(part) if above.kind in _SCOPES), None)
    if parsed.kind == "body":
        return around is None or not parsed.holds(around)
    if around is None or around.kind != "function_definition":
        return False
    marks = (parsed.word(c) for c in around.parts if c.kind == "attribute_declaration")
    return "kernel" in parsed.qualifiers_in(around) or "[[kernel]]" in marks


def _is_shared(
    parsed: Parsed, declarator: Declarator, words: frozenset[str], *, base: bool
) -> bool:
    """Return whether the declared variable itself is in the space, not only its target."""
    if declarator.name is None or declarator.reference or declarator.function is not None:
        return False
    if declarator.star is None:
        return base
    return any(word in words for word in parsed.qualifiers_in(declarator.star))


def _storage(
    parsed: Parsed,
    part: SyntaxNode,
    unpacked: list[Declarator],
    words: frozenset[str],
    *,
    mixed: bool,
) -> Storage:
    place = parsed.place(part)
    declarators = list(part.all("declarator"))
    # In front of a star the space is that of what is pointed to.
    mixed = mixed or len({one.star is None for one in unpacked}) > 1
    problem = _problem(parsed, part, declarators, mixed=mixed)
    if problem:
        return Storage(place.start, place.end, "", problem)
    prefix, kind = [], []
    for child in part.parts:
        if child in declarators or child.kind in _OTHERS:
            continue
        if child.kind in _PREFIXES or any(c.kind in _PREFIXES for c in child.parts):
            prefix.append(_plain(parsed, child, ()))
        elif unpacked[0].star is not None or parsed.qualifiers.get(child.start) not in words:
            kind.append(_plain(parsed, child, ()))
    made = []
    for declarator, one in zip(declarators, unpacked, strict=True):
        assert one.name is not None
        own = () if one.star is None else one.star.parts
        cut = [c for c in own if parsed.qualifiers.get(c.start) in words]
        cut += [p for p in declarator.below() if p.kind == "attribute_declaration"]
        abstract = _plain(parsed, declarator, (_with_parentheses(parsed, one.name), *cut))
        whole = " ".join(filter(None, [*kind, abstract]))
        made.append(f"{STORAGE_MACRO}({parsed.word(one.name)}, {' '.join(prefix)}, {whole})")
    return Storage(place.start, place.end, " ".join(made))


def _with_parentheses(parsed: Parsed, name: SyntaxNode) -> SyntaxNode:
    """Return a name with the parentheses that hold nothing else."""
    for above in parsed.around(name):
        if above.kind != "parenthesized_declarator":
            break
        name = above
    return name


def _problem(
    parsed: Parsed, part: SyntaxNode, declarators: list[SyntaxNode], *, mixed: bool
) -> str:
    """Return why a declaration is invalid, "" if it is valid."""
    if mixed:
        return (
            "one declaration of a threadgroup variable and a pointer to threadgroup memory; "
            "split it"
        )
    if any(declarator.kind == "init_declarator" for declarator in declarators):
        return "a threadgroup variable can't have an initializer; write to it in the kernel"
    kind = part.get("type")
    if kind is not None and kind.get("body") is not None:
        return "type defined in the declaration of a threadgroup variable; define it before"
    storage = [parsed.word(c) for c in part.parts if c.kind == "storage_class_specifier"]
    if storage not in ([], ["static"]):
        return f"a threadgroup variable can't be {' '.join(storage)}"
    return ""


def _plain(parsed: Parsed, part: SyntaxNode, without: tuple[SyntaxNode, ...]) -> str:
    """Return a part's text on one line, without comments and some of the parts in it."""
    pieces, done = [], part.start
    for start, end in sorted((cut.start, _end(parsed, cut)) for cut in without):
        pieces.append(parsed.text_between(done, start))
        done = max(done, end)
    # A word that was exchanged for a shorter one reaches beyond its part.
    pieces.append(parsed.text_between(done, max(done, _end(parsed, part))))
    tokens = tokens_of(" ".join(pieces))
    return " ".join("".join(" " if t.kind in _SPACES else t.text for t in tokens).split())


def _end(parsed: Parsed, part: SyntaxNode) -> int:
    word = parsed.qualifiers.get(part.start)
    is_word = word is not None and part.kind in ("type_qualifier", "const")
    return part.start + len(word) if word and is_word else part.end


#: What the unit's first header gives a variable the pattern with.
FILL_MACRO = "EMBER_FILL"

_STATEMENTS = frozenset({"compound_statement", "case_statement"})
_PLAIN = frozenset({"identifier", "array_declarator"})
_FIXED = frozenset({"const", "constexpr", "consteval", "constinit"})
_SPACE = "thread"


def fillings(parsed: Parsed) -> Iterator[LineEdit]:
    """Fill the variables without a value in the functions of a text, after their declarations."""
    for node in parsed.of_kinds("declaration"):
        if node.has_error or not parsed.holds(node):
            continue
        if not _is_local(parsed, node) or not _is_variable(parsed, node):
            continue
        names = [
            parsed.word(name)
            for declarator in _without_value([*node.all("declarator")])
            for name in unpack(declarator).names
        ]
        if names:
            text = "".join(f" {FILL_MACRO}({name})" for name in names)
            end = parsed.place(node).end
            yield LineEdit(end, end, text)


def _is_local(parsed: Parsed, node: SyntaxNode) -> bool:
    """Return whether it is a statement of a block, in a function that runs when the kernel does."""
    parent = parsed.parent(node)
    if parent is None or parent.kind not in _STATEMENTS:
        return False
    functions = (one for one in parsed.around(node) if one.kind == "function_definition")
    function = next(functions, None)
    return parsed.kind == "body" if function is None else not _fixed(parsed, function)


def _is_variable(parsed: Parsed, node: SyntaxNode) -> bool:
    """Return whether the variable is in the thread's own memory and writable."""
    kind = node.get("type")
    if kind is None or kind.kind == "placeholder_type_specifier":
        return False
    stored = any(child.kind == "storage_class_specifier" for child in node.parts)
    return not (stored or _fixed(parsed, node))


def _fixed(parsed: Parsed, node: SyntaxNode) -> bool:
    """Return whether a declaration's specifiers make it constant, or put it elsewhere."""
    for child in node.parts:
        word = parsed.qualifiers.get(child.start)
        if child.kind == "type_qualifier" and word is None and parsed.word(child) in _FIXED:
            return True
        if node.kind == "declaration" and word not in (None, _SPACE):
            return True
    return False


def _without_value(declarators: list[SyntaxNode]) -> list[SyntaxNode]:
    """Return those that get none; a later declarator of the declaration may write to it."""
    last = max((i for i, each in enumerate(declarators) if not _is_plain(each)), default=-1)
    return declarators[last + 1 :]


def _is_plain(declarator: SyntaxNode) -> bool:
    """Return whether it is a name, or arrays of it, without a value."""
    current: SyntaxNode | None = declarator
    while current is not None and current.kind in _PLAIN:
        if current.kind == "identifier":
            return True
        current = current.get("declarator")
    return False
