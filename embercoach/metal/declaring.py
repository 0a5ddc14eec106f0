"""Rules of name resolution for the nodes that declare something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.metal import declarators
from embercoach.metal.facts import Directive
from embercoach.metal.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from embercoach.metal.declarators import Declarator
    from embercoach.metal.facts import DeclarationKind
    from embercoach.metal.scopes import ScopeWalk

_BESIDE_DECLARATORS = frozenset({"declarator", "value", "default_value"})
_BESIDE_FUNCTION = frozenset({"declarator", "body"})


def declaration(state: ScopeWalk, node: Node) -> None:
    """Variables and fields, in the order of their declarators."""
    state.visit_children(node, but=_BESIDE_DECLARATORS)
    kind: DeclarationKind = "field" if node.type == "field_declaration" else "local"
    value = node.child_by_field_name("value") or node.child_by_field_name("default_value")
    for declarator in node.children_by_field_name("declarator"):
        inner, initial = declarator, value
        if declarator.type == "init_declarator":
            initial = declarator.child_by_field_name("value")
            inner = declarator.child_by_field_name("declarator") or declarator
        _declarator(state, node, declarators.unpack(inner), kind, initial)
        state.visit(initial)


def _declarator(
    state: ScopeWalk, node: Node, parts: Declarator, kind: DeclarationKind, value: Node | None
) -> None:
    _beside_the_name(state, parts)
    if state.at_file_scope:
        kind = "constant" if parts.function is None else "function"
    if kind == "function":
        _note_function(state, node, parts)
    if len(parts.names) > 1:
        kind = "binding"
    for name in parts.names:
        state.declare(name, kind, node, parts, value)
    _parameters(state, parts, Scope())


def _beside_the_name(state: ScopeWalk, parts: Declarator) -> None:
    for used in (*parts.rest, *parts.dimensions):
        state.visit(used)


def _parameters(state: ScopeWalk, parts: Declarator, scope: Scope) -> None:
    if parts.function is not None:
        state.push(scope)
        state.visit(parts.function.child_by_field_name("parameters"))
        state.pop()


def _note_function(state: ScopeWalk, node: Node, parts: Declarator) -> None:
    made = declarators.function(state.syntax, node, parts)
    if made is not None and all(map(state.syntax.holds, parts.names)):
        state.found.functions.append(made)


def function_definition(state: ScopeWalk, node: Node) -> None:
    """A function: its name outside, its parameters and body inside."""
    declarator = node.child_by_field_name("declarator")
    parts = declarators.Declarator() if declarator is None else declarators.unpack(declarator)
    late = [child for child in node.children if child.type == "field_initializer_list"]
    for index, child in enumerate(node.children):
        if child not in late and node.field_name_for_child(index) not in _BESIDE_FUNCTION:
            state.visit(child)
    _note_function(state, node, parts)
    for name in parts.names:
        state.declare(name, "function", node, parts)
    # A member defined out of its class sees the class.
    inside = Scope(open=bool(parts.rest))
    _parameters(state, parts, inside)
    state.push(inside)
    for initializers in late:
        state.visit(initializers)
    state.visit(node.child_by_field_name("body"))
    state.pop()


def parameter(state: ScopeWalk, node: Node) -> None:
    """A parameter of a function, a lambda or a template."""
    state.visit_children(node, but=_BESIDE_DECLARATORS)
    state.visit(node.child_by_field_name("default_value"))
    declarator = node.child_by_field_name("declarator")
    if declarator is None:
        return
    parts = declarators.unpack(declarator)
    _beside_the_name(state, parts)
    for name in parts.names:
        state.declare(name, "template" if state.scopes[-1].template else "parameter", node, parts)
    _parameters(state, parts, Scope())


def template_declaration(state: ScopeWalk, node: Node) -> None:
    """Template parameters, in scope in what they stand before."""
    state.push(Scope(template=True))
    state.visit_children(node)
    state.pop()


def type_parameter(state: ScopeWalk, node: Node) -> None:
    """``typename T`` among template parameters."""
    state.visit(node.child_by_field_name("default_type"))
    named = [child for child in node.named_children if child.type == "type_identifier"]
    name = node.child_by_field_name("name") or (named[0] if named else None)
    if name is not None:
        state.declare(name, "template")


def class_specifier(state: ScopeWalk, node: Node) -> None:
    """A struct, class or union."""
    name = node.child_by_field_name("name")
    if name is not None:
        if name.type == "type_identifier":
            state.declare(name, "type")
        else:
            state.visit(name)
    bases = [child for child in node.children if child.type == "base_class_clause"]
    for base in bases:
        state.visit(base)
    body = node.child_by_field_name("body")
    if body is None:
        return
    # Members are in scope in the whole class, above their declaration too.
    members = set(map(state.syntax.words, _members(body)))
    state.push(Scope(maybe=members, open=bool(bases)))
    state.visit_children(body)
    state.pop()


def _members(body: Node) -> Iterator[Node]:
    """The names that a class body declares, methods and nested types included."""
    for member in body.named_children:
        inner = member
        if member.type == "template_declaration" and member.named_children:
            inner = member.named_children[-1]
        for declarator in inner.children_by_field_name("declarator"):
            yield from declarators.unpack(declarator).names
        name = inner.child_by_field_name("name")
        if name is not None and name.type == "type_identifier":
            yield name


def enum_specifier(state: ScopeWalk, node: Node) -> None:
    """An enumeration; its enumerators count as declared around it, scoped or not."""
    name = node.child_by_field_name("name")
    if name is not None:
        state.declare(name, "type")
    state.visit_children(node, but=frozenset({"name"}))


def enumerator(state: ScopeWalk, node: Node) -> None:
    """One enumerator."""
    state.visit(node.child_by_field_name("value"))
    name = node.child_by_field_name("name")
    if name is not None:
        state.declare(name, "enumerator")


def alias(state: ScopeWalk, node: Node) -> None:
    """``using A = type``."""
    state.visit(node.child_by_field_name("type"))
    name = node.child_by_field_name("name")
    if name is not None:
        state.declare(name, "alias", node)


def typedef(state: ScopeWalk, node: Node) -> None:
    """``typedef``."""
    state.visit_children(node, but=_BESIDE_DECLARATORS)
    for declarator in node.children_by_field_name("declarator"):
        parts = declarators.unpack(declarator)
        _beside_the_name(state, parts)
        for name in parts.names:
            state.declare(name, "alias", node, parts)
        _parameters(state, parts, Scope())


def using_declaration(state: ScopeWalk, node: Node) -> None:
    """``using namespace n`` and ``using n::name``."""
    target = next(iter(node.named_children), None)
    if target is None:
        return
    words = state.syntax.words(target)
    whole = any(child.type == "namespace" for child in node.children)
    place = state.syntax.place(node)
    state.found.directives.append(Directive("using namespace" if whole else "using", words, place))
    if not whole:
        inner = target.child_by_field_name("name")
        if inner is not None:
            state.declare(inner, "alias")


def include(state: ScopeWalk, node: Node) -> None:
    """``#include``."""
    path = node.child_by_field_name("path")
    if path is not None:
        # The node itself reaches to the next line.
        place = state.syntax.stretch(node.start_byte, path.end_byte)
        state.found.directives.append(Directive("include", state.syntax.words(path), place))


def namespace(state: ScopeWalk, node: Node) -> None:
    """What a namespace declares counts as declared outside too: using-directives may bring it."""
    name = node.child_by_field_name("name")
    if name is not None and name.type == "namespace_identifier":
        state.declare(name, "namespace")
    if node.type == "namespace_definition":
        state.visit(node.child_by_field_name("body"))
