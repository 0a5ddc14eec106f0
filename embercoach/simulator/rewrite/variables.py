"""Variables of a kernel: threads share those of the threadgroup; unset locals get a pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from embercoach.metal.program.declarators import unpack
from embercoach.metal.program.texts import plain_tree
from embercoach.metal.syntax import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from embercoach.metal.preprocessor import Macros
    from embercoach.metal.syntax import Syntax

SPACE = "threadgroup"
#: What the unit's first header declares storage with.
STORAGE_MACRO = "EMBER_STORAGE"

_LAYERS = frozenset({"array_declarator", "parenthesized_declarator", "attributed_declarator"})
_PREFIXES = frozenset({"alignas_qualifier", "attribute_specifier", "attribute_declaration"})
_SCOPES = frozenset({"lambda_expression", "function_definition", "field_declaration_list"})


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
    """The words that say threadgroup: itself, and macros that stand for qualifiers with it."""
    blanks = macros.blanks
    return frozenset(
        {SPACE, *(m.name for m in macros.items if m.name in blanks and SPACE in m.text.split())}
    )


def threadgroup_storage(syntax: Syntax, words: frozenset[str]) -> Iterator[Storage]:
    """Every declaration of threadgroup variables in the kernel functions of a text.

    Args:
        syntax: a parsed body, or a header, in which only kernel functions count.
        words: that say threadgroup.
    """
    for node in syntax.nodes:
        if node.type != "declaration" or node.has_error or not _in_kernel(syntax, node):
            continue
        declarators = node.children_by_field_name("declarator")
        macros = _macros_of(syntax, node, words)
        base = bool(macros) or any(word in words for word in syntax.qualifiers_in(node))
        shared = [_is_shared(syntax, declarator, words, base) for declarator in declarators]
        if any(shared) and node.child_by_field_name("type") is not None:
            found = _storage(syntax, node, words, mixed=not all(shared))
            start = syntax.stretch(macros[0], macros[0]).start if macros else found.start
            yield replace(found, start=min(start, found.start))


def _macros_of(syntax: Syntax, node: Node, words: frozenset[str]) -> list[int]:
    """The macros with `threadgroup` among a declaration's specifiers.

    The tree does not show them: they were blanked.
    """
    found = []
    before = node.prev_sibling
    done = before.end_byte if before is not None else syntax.shift
    for child in node.children:
        gap = syntax.data[done : child.start_byte].decode()
        found += [done + gap.index(word) for word in gap.split() if word in words]
        done = _end(syntax, child)
        if child == node.child_by_field_name("declarator"):
            break
    return found


def _in_kernel(syntax: Syntax, node: Node) -> bool:
    """Return whether the function around a node is a kernel; a body has only its wrapper."""
    parent = node.parent
    while parent is not None and parent.type not in _SCOPES:
        parent = parent.parent
    if parent is None or parent.type != "function_definition":
        return False
    if syntax.shift:
        return parent.start_byte < syntax.shift
    marks = (syntax.words(c) for c in parent.children if c.type == "attribute_declaration")
    return "kernel" in syntax.qualifiers_in(parent) or "[[kernel]]" in marks


def _is_shared(syntax: Syntax, node: Node, words: frozenset[str], base: bool) -> bool:
    """Return whether the declared variable itself is in the space, not only its target."""
    current: Node | None = node
    shared = base
    while current is not None:
        kind = current.type
        inner = current.child_by_field_name("declarator")
        if kind == "pointer_declarator":
            shared = any(word in words for word in syntax.qualifiers_in(current))
        elif kind == "reference_declarator" or kind.endswith("function_declarator"):
            return False
        elif kind == "identifier":
            return shared
        elif kind != "init_declarator" and kind not in _LAYERS:
            return False
        current = inner or next((c for c in current.named_children if _declares(c)), None)
    return False


def _declares(node: Node) -> bool:
    return node.type == "identifier" or node.type.endswith("_declarator")


def _storage(syntax: Syntax, node: Node, words: frozenset[str], *, mixed: bool) -> Storage:
    place = syntax.place(node)
    declarators = node.children_by_field_name("declarator")
    pointers = [_last_pointer(declarator) for declarator in declarators]
    # In front of a star the space is that of what is pointed to.
    mixed = mixed or len({pointer is None for pointer in pointers}) > 1
    problem = _problem(syntax, node, declarators, mixed=mixed)
    if problem:
        return Storage(place.start, place.end, "", problem)
    prefix, kind = [], []
    for child in node.children:
        if child in declarators or child.type in (",", ";", "storage_class_specifier", "comment"):
            continue
        if child.type in _PREFIXES or any(c.type in _PREFIXES for c in child.children):
            prefix.append(_plain(syntax, child, ()))
        elif pointers[0] is not None or syntax.qualifiers.get(child.start_byte) not in words:
            kind.append(_plain(syntax, child, ()))
    made = []
    for declarator, pointer in zip(declarators, pointers, strict=True):
        (part,) = unpack(plain_tree(declarator)).names
        name = declarator.descendant_for_byte_range(part.start, part.end)
        assert name is not None
        own = [] if pointer is None else pointer.children
        cut = [c for c in own if syntax.qualifiers.get(c.start_byte) in words]
        cut += [n for n in walk(declarator) if n.type == "attribute_declaration"]
        abstract = _plain(syntax, declarator, [_with_parentheses(name), *cut])
        whole = " ".join(filter(None, [*kind, abstract]))
        made.append(f"{STORAGE_MACRO}({syntax.words(name)}, {' '.join(prefix)}, {whole})")
    return Storage(place.start, place.end, " ".join(made))


def _last_pointer(declarator: Node) -> Node | None:
    """The star that says where the variable itself lies, None where the specifiers do."""
    found = None
    current: Node | None = declarator
    while current is not None:
        if current.type == "pointer_declarator":
            found = current
        current = next((c for c in current.named_children if _declares(c)), None)
    return found


def _with_parentheses(name: Node) -> Node:
    """A name with the parentheses that hold nothing else."""
    while name.parent is not None and name.parent.type == "parenthesized_declarator":
        name = name.parent
    return name


def _problem(syntax: Syntax, node: Node, declarators: list[Node], *, mixed: bool) -> str:
    """Return why a declaration is invalid, "" if it is valid."""
    if mixed:
        return (
            "one declaration of a threadgroup variable and a pointer to threadgroup memory; "
            "split it"
        )
    if any(declarator.type == "init_declarator" for declarator in declarators):
        return "a threadgroup variable can't have an initializer; write to it in the kernel"
    kind = node.child_by_field_name("type")
    if kind is not None and kind.child_by_field_name("body") is not None:
        return "type defined in the declaration of a threadgroup variable; define it before"
    storage = [syntax.words(c) for c in node.children if c.type == "storage_class_specifier"]
    if storage not in ([], ["static"]):
        return f"a threadgroup variable can't be {' '.join(storage)}"
    return ""


def _plain(syntax: Syntax, node: Node, without: list[Node] | tuple[Node, ...]) -> str:
    """A node's text on one line, without comments and some of the nodes in it."""
    cut = sorted(
        (n.start_byte, _end(syntax, n))
        for n in (*without, *(n for n in walk(node) if n.type == "comment"))
    )
    parts, done = [], node.start_byte
    for start, end in cut:
        parts.append(syntax.data[done:start])
        done = max(done, end)
    # A word that was exchanged for a shorter one reaches beyond its node.
    parts.append(syntax.data[done : max(done, _end(syntax, node))])
    return " ".join(b" ".join(parts).decode().replace("\\\n", " ").split())


def _end(syntax: Syntax, node: Node) -> int:
    word = syntax.qualifiers.get(node.start_byte)
    is_word = word is not None and node.type in ("type_qualifier", "const")
    return node.start_byte + len(word) if word and is_word else node.end_byte


#: What the unit's first header gives a variable the pattern with.
FILL_MACRO = "EMBER_FILL"

_STATEMENTS = frozenset({"compound_statement", "case_statement"})
_PLAIN = frozenset({"identifier", "array_declarator"})
_FIXED = frozenset({"const", "constexpr", "consteval", "constinit"})
_SPACE = "thread"


class Filling(Struct, frozen=True):
    """An insertion after a declaration.

    Attributes:
        at: after its semicolon, in characters of the parsed text.
        text: statements, on the same line.
    """

    at: int
    text: str


def fillings(syntax: Syntax) -> Iterator[Filling]:
    """Every declaration of variables without a value in the functions of a text."""
    for node in syntax.nodes:
        if node.type != "declaration" or node.has_error or not syntax.holds(node):
            continue
        if not _is_local(syntax, node) or not _is_variable(syntax, node):
            continue
        names = [
            syntax.text_between(name.start, name.end)
            for declarator in _without_value(node.children_by_field_name("declarator"))
            for name in unpack(plain_tree(declarator)).names
        ]
        if names:
            text = "".join(f" {FILL_MACRO}({name})" for name in names)
            yield Filling(syntax.place(node).end, text)


def _is_local(syntax: Syntax, node: Node) -> bool:
    """Return whether it is a statement of a block, in a function that runs when the kernel does."""
    if node.parent is None or node.parent.type not in _STATEMENTS:
        return False
    parent: Node | None = node.parent
    while parent is not None and parent.type != "function_definition":
        parent = parent.parent
    return parent is not None and not _fixed(syntax, parent)


def _is_variable(syntax: Syntax, node: Node) -> bool:
    """Return whether the variable is in the thread's own memory and writable."""
    kind = node.child_by_field_name("type")
    if kind is None or kind.type == "placeholder_type_specifier":
        return False
    stored = any(child.type == "storage_class_specifier" for child in node.children)
    return not (stored or _fixed(syntax, node))


def _fixed(syntax: Syntax, node: Node) -> bool:
    """Return whether a declaration's specifiers make it constant, or put it elsewhere."""
    for child in node.children:
        word = syntax.qualifiers.get(child.start_byte)
        if child.type == "type_qualifier" and word is None and syntax.words(child) in _FIXED:
            return True
        if node.type == "declaration" and word not in (None, _SPACE):
            return True
    return False


def _without_value(declarators: list[Node]) -> list[Node]:
    """Those that get none; a later declarator of the declaration may write to it."""
    last = max((i for i, each in enumerate(declarators) if not _is_plain(each)), default=-1)
    return declarators[last + 1 :]


def _is_plain(declarator: Node) -> bool:
    """Return whether it is a name, or arrays of it, without a value."""
    current: Node | None = declarator
    while current is not None and current.type in _PLAIN:
        if current.type == "identifier":
            return True
        current = current.child_by_field_name("declarator")
    return False
