"""C++ that Metal leaves out, found by the nodes of the syntax tree.

Source: Metal Shading Language Specification 3.2, sections 1.5.4 (restrictions) and 2.1 (types). Of
its restrictions those are left out that the compiler does not keep: MLX's own kernels have derived
classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.metal.facts import Foreign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from embercoach.metal.facts import ForeignKind
    from embercoach.metal.scopes import Scopes
    from embercoach.metal.syntax import Syntax

_KINDS: dict[str, ForeignKind] = {
    "new_expression": "new",
    "delete_expression": "delete",
    "throw_statement": "exception",
    "try_statement": "exception",
    "goto_statement": "goto",
    "lambda_expression": "lambda",
    "virtual": "virtual",
}
# The kinds that `_kind` decides by their words as well.
_LOOKED_AT = (
    *_KINDS, "primitive_type", "sized_type_specifier", "storage_class_specifier",
    "call_expression", "qualified_identifier", "using_declaration", "preproc_include",
)  # fmt: skip
_CALLED: dict[str, ForeignKind] = {"dynamic_cast": "dynamic_cast", "typeid": "typeid"}
_STORAGE = frozenset({"register", "thread_local"})
# What stands there may be compiled or not.
_DOUBTFUL = frozenset(
    {"ERROR", "preproc_if", "preproc_ifdef", "preproc_elif", "preproc_elifdef", "preproc_else"}
)
_LIBRARY = """
algorithm any array atomic bitset chrono cmath complex cstdint cstdio cstdlib cstring deque
functional iostream iterator limits list map memory mutex numeric optional queue random set sstream
stack stdexcept string thread tuple type_traits unordered_map utility valarray variant vector
"""
#: Headers of the C++ standard library that Metal lacks. Those of C (``stdint.h``) are left out: a
#: compiler brings some of them itself.
_CPP_HEADERS = frozenset(_LIBRARY.split())


def foreign_parts(syntax: Syntax, scopes: Scopes) -> Iterator[Foreign]:
    """Every use of what Metal has not, in the order of the text."""
    for node in syntax.of_kinds(*_LOOKED_AT):
        kind = _kind(syntax, scopes, node)
        if kind is not None and syntax.holds(node) and not _is_doubtful(syntax, node):
            yield _foreign(syntax, node, kind)


def _kind(syntax: Syntax, scopes: Scopes, node: Node) -> ForeignKind | None:
    name = node.type
    if name in _KINDS:
        return _KINDS[name]
    if name == "primitive_type":
        given = syntax.words(node) == "double" and "double" not in scopes.macros.names
        return "double" if given else None
    if name == "sized_type_specifier":
        return _sized(syntax.words(node).split())
    if name == "storage_class_specifier":
        return "storage" if syntax.words(node) in _STORAGE else None
    if name == "call_expression":
        return _CALLED.get(_callee(syntax, node))
    if name == "qualified_identifier":
        return "std" if _is_std(syntax, scopes, node) else None
    if name == "using_declaration":
        target = next(iter(node.named_children), None)
        whole = target is not None and target.type == "identifier" and syntax.words(target) == "std"
        return "std" if whole and "std" not in _names(scopes) else None
    if name == "preproc_include":
        path = node.child_by_field_name("path")
        found = path is not None and syntax.words(path).strip('<">') in _CPP_HEADERS
        return "include" if found else None
    return None


def _sized(words: list[str]) -> ForeignKind | None:
    if "double" in words:
        return "double"
    return "long long" if words.count("long") == 2 else None


def _callee(syntax: Syntax, node: Node) -> str:
    callee = node.child_by_field_name("function")
    if callee is not None and callee.type == "template_function":
        callee = callee.child_by_field_name("name")
    return "" if callee is None else syntax.words(callee)


def _is_std(syntax: Syntax, scopes: Scopes, node: Node) -> bool:
    """Whether a name is one of the namespace ``std``, which no text around it declares."""
    scope = node.child_by_field_name("scope")
    if scope is None or scope.type != "namespace_identifier" or syntax.words(scope) != "std":
        return False
    above = syntax.parent(node)
    outermost = above is None or above.type != "qualified_identifier"
    return outermost and "std" not in _names(scopes)


def _names(scopes: Scopes) -> frozenset[str]:
    """The names that the text or a macro may declare."""
    if scopes.qualifying is None:
        declared = (d for d in scopes.declarations if d.kind in ("namespace", "alias", "type"))
        scopes.qualifying = scopes.macros.mentioned.union(d.name for d in declared)
    return scopes.qualifying


def _is_doubtful(syntax: Syntax, node: Node) -> bool:
    current: Node | None = node
    while current is not None:
        if current.type in _DOUBTFUL:
            return True
        current = syntax.parent(current)
    return False


def _foreign(syntax: Syntax, node: Node, kind: ForeignKind) -> Foreign:
    start = end = node
    if kind == "lambda":
        end = node.child_by_field_name("captures") or node
    elif kind == "exception":
        end = node.children[0]
    elif kind in ("dynamic_cast", "typeid"):
        end = node.child_by_field_name("function") or node
    elif kind == "include":
        start = end = node.child_by_field_name("path") or node
    place = syntax.stretch(start.start_byte, end.end_byte)
    return Foreign(kind, " ".join(syntax.text[place.start : place.end].split()), place)
