"""The rules of name resolution for each kind of C++ node."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from embercoach.metal import declarators, declaring
from embercoach.metal.facts import Call
from embercoach.metal.macros import Macros, read_macros
from embercoach.metal.scopes import ScopeWalk
from embercoach.metal.syntax import walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tree_sitter import Node

    from embercoach.metal.facts import UseKind
    from embercoach.metal.scopes import Rule, Scopes
    from embercoach.metal.syntax import Syntax

_NAMES = frozenset({"identifier", "type_identifier", "namespace_identifier", "field_identifier"})


def resolve(
    syntax: Syntax, outer: frozenset[str] = frozenset(), around: Macros | None = None
) -> Scopes:
    """Resolve every name of a text.

    Args:
        syntax: the parsed text.
        outer: names declared around the text, such as those of the kernel's header.
        around: macros defined around the text.

    Raises:
        NestingError: the text nests deeper than is followed.
    """
    macros = read_macros(syntax).joined(around or Macros())
    state = ScopeWalk(syntax, RULES, outer, macros)
    state.visit_children(syntax.root)
    for node in syntax.of_kinds("attribute_declaration"):
        state.found.marks.extend(declarators.attribute_marks(syntax, node))
    return state.finish()


def _used_as(kind: UseKind) -> Rule:
    def rule(state: ScopeWalk, node: Node) -> None:
        state.use(node, kind)

    return rule


# Uses


def _template_function(state: ScopeWalk, node: Node) -> None:
    name = node.child_by_field_name("name")
    if name is not None and name.type == "identifier":
        state.use(name, "call")
    else:
        state.visit(name)
    state.visit(node.child_by_field_name("arguments"))


def _qualified_identifier(state: ScopeWalk, node: Node) -> None:
    """Look up the outermost qualifier only; what follows it is its member."""
    scope = node.child_by_field_name("scope")
    name = node.child_by_field_name("name")
    state.visit(scope)
    if scope is None:
        state.visit(name)
    elif name is not None:
        _member(state, name)


def _member(state: ScopeWalk, name: Node) -> None:
    """Visit the template arguments in a member's name, which is not looked up itself."""
    for child in walk(name):
        if child.type == "template_argument_list":
            state.visit(child)
            return


def _field_expression(state: ScopeWalk, node: Node) -> None:
    state.visit(node.child_by_field_name("argument"))
    member = node.child_by_field_name("field")
    if member is not None:
        _member(state, member)


def _call_expression(state: ScopeWalk, node: Node) -> None:
    callee = node.child_by_field_name("function")
    arguments = node.child_by_field_name("arguments")
    if callee is None or arguments is None:
        state.visit_children(node)
        return
    name, template = _callee_words(state.syntax, callee)
    given = (a for a in arguments.named_children if a.type != "comment")
    state.found.calls.append(
        Call(name, template, tuple(map(state.syntax.words, given)), state.syntax.place(node))
    )
    plain = callee
    if callee.type == "parenthesized_expression" and len(callee.named_children) == 1:
        # (max)(a, b), or a cast: (half)(x)
        plain = callee.named_children[0]
    if plain.type == "identifier":
        state.use(plain, "call")
    else:
        state.visit(callee)
    if name in state.found.macros.functions:
        _macro_arguments(state, arguments)
    else:
        state.visit(arguments)


def _callee_words(syntax: Syntax, callee: Node) -> tuple[str, tuple[str, ...]]:
    """The callee without its template arguments, and these."""
    last = callee
    if callee.type == "qualified_identifier":
        last = callee.child_by_field_name("name") or callee
    arguments = last.child_by_field_name("arguments")
    if arguments is None or arguments.type != "template_argument_list":
        return "".join(syntax.words(callee).split()), ()
    before = syntax.data[callee.start_byte : arguments.start_byte].decode()
    given = (a for a in arguments.named_children if a.type != "comment")
    return "".join(before.split()), tuple(map(syntax.words, given))


def _macro_arguments(state: ScopeWalk, arguments: Node) -> None:
    """A macro may declare what it is given, so its arguments count as declared from here on."""
    around, scope = state.collecting, state.scopes[-1]
    state.quiet += 1
    state.collecting = scope
    state.visit(arguments)
    state.collecting = around
    state.quiet -= 1
    if around is scope:
        return
    named = (child for child in walk(arguments) if child.type in _NAMES)
    scope.maybe.update(map(state.syntax.words, named))


# Scopes


def _scoped(state: ScopeWalk, node: Node) -> None:
    state.push()
    state.visit_children(node)
    state.pop()


def _range_loop(state: ScopeWalk, node: Node) -> None:
    state.push()
    for name in ("initializer", "type", "right"):
        state.visit(node.child_by_field_name(name))
    declarator = node.child_by_field_name("declarator")
    if declarator is not None:
        parts = declarators.unpack(declarator)
        for name_node in parts.names:
            state.declare(name_node, "local", node, parts)
    state.visit(node.child_by_field_name("body"))
    state.pop()


def _lambda(state: ScopeWalk, node: Node) -> None:
    state.push()
    captures = node.child_by_field_name("captures")
    for capture in [] if captures is None else captures.children:
        if capture.type == "lambda_capture_initializer":
            state.visit(capture.child_by_field_name("right"))
            left = capture.child_by_field_name("left")
            if left is not None:
                state.declare(left, "local")
        else:
            state.visit(capture)
    state.visit_children(node, but=frozenset({"captures"}))
    state.pop()


def _conditional_text(state: ScopeWalk, node: Node) -> None:
    """Both branches of ``#if`` count for what they declare; its condition holds macros only.

    Which of them the compiler sees is not known here, so no name in them is called undeclared.
    """
    unknown = not _is_include_guard(state, node)
    state.quiet += unknown
    state.visit_children(node, but=frozenset({"name", "condition"}))
    state.quiet -= unknown


def _is_include_guard(state: ScopeWalk, node: Node) -> bool:
    """Whether a conditional keeps a file from being read twice: it defines what it asks for."""
    asked = node.child_by_field_name("name")
    defined = next((child for child in node.named_children if child.type == "preproc_def"), None)
    name = None if defined is None else defined.child_by_field_name("name")
    if asked is None or name is None or not node.children[0].type.startswith("#ifndef"):
        return False
    return state.syntax.words(asked) == state.syntax.words(name)


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "identifier": _used_as("value"),
        "type_identifier": _used_as("type"),
        "namespace_identifier": _used_as("namespace"),
        "template_function": _template_function,
        "qualified_identifier": _qualified_identifier,
        "field_expression": _field_expression,
        "call_expression": _call_expression,
        "declaration": declaring.declaration,
        "field_declaration": declaring.declaration,
        "function_definition": declaring.function_definition,
        "template_instantiation": declaring.function_definition,
        "parameter_declaration": declaring.parameter,
        "optional_parameter_declaration": declaring.parameter,
        "variadic_parameter_declaration": declaring.parameter,
        "template_declaration": declaring.template_declaration,
        "type_parameter_declaration": declaring.type_parameter,
        "optional_type_parameter_declaration": declaring.type_parameter,
        "variadic_type_parameter_declaration": declaring.type_parameter,
        "struct_specifier": declaring.class_specifier,
        "class_specifier": declaring.class_specifier,
        "union_specifier": declaring.class_specifier,
        "enum_specifier": declaring.enum_specifier,
        "enumerator": declaring.enumerator,
        "alias_declaration": declaring.alias,
        "type_definition": declaring.typedef,
        "using_declaration": declaring.using_declaration,
        "preproc_include": declaring.include,
        "namespace_definition": declaring.namespace,
        "namespace_alias_definition": declaring.namespace,
        "compound_statement": _scoped,
        "for_statement": _scoped,
        "if_statement": _scoped,
        "while_statement": _scoped,
        "switch_statement": _scoped,
        "for_range_loop": _range_loop,
        "lambda_expression": _lambda,
        "preproc_if": _conditional_text,
        "preproc_elif": _conditional_text,
        "preproc_ifdef": _conditional_text,
        "preproc_elifdef": _conditional_text,
    }
)
