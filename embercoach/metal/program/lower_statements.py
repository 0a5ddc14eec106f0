"""Statements."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from embercoach.metal.program import lower_declarations
from embercoach.metal.program.lower_declarations import structure
from embercoach.metal.program.nodes import (
    Block,
    Case,
    Declare,
    Evaluate,
    If,
    Jump,
    Loop,
    Opaque,
    Return,
    Switch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from embercoach.metal.program.lowering_state import Lowering
    from embercoach.metal.program.nodes import Expression, LoopKind, Statement
    from embercoach.metal.program.texts import SyntaxNode

    Rule = Callable[[Lowering, SyntaxNode], list[Statement]]


def statement(work: Lowering, part: SyntaxNode) -> list[Statement]:
    """Lower a statement; what is not understood becomes opaque."""
    rule = _RULES.get(part.kind)
    if rule is None or part.broken:
        return _opaque(work, part, f"not understood: {part.kind.replace('_', ' ').lower()}")
    return rule(work, part)


def _opaque(work: Lowering, part: SyntaxNode, why: str) -> list[Statement]:
    return [Opaque(why, work.spot(part))]


def _nothing(_work: Lowering, _part: SyntaxNode) -> list[Statement]:
    return []


def several(work: Lowering, parts: Iterable[SyntaxNode]) -> tuple[Statement, ...]:
    """Statements one after the other."""
    return tuple(found for part in parts for found in work.statement(part))


def single(work: Lowering, part: SyntaxNode) -> Statement:
    """A statement in a separate scope."""
    work.scopes.append({})
    found = work.statement(part)
    work.scopes.pop()
    return found[0] if len(found) == 1 else Block(tuple(found), work.spot(part))


def block(work: Lowering, part: SyntaxNode) -> Block:
    """Statements in braces."""
    work.scopes.append({})
    found = several(work, part.inner)
    work.scopes.pop()
    return Block(found, work.spot(part))


def _compound(work: Lowering, part: SyntaxNode) -> list[Statement]:
    return [block(work, part)]


def _expression(work: Lowering, part: SyntaxNode) -> list[Statement]:
    return [Evaluate(work.expression(inner), work.spot(part)) for inner in part.inner]


def _if(work: Lowering, part: SyntaxNode) -> list[Statement]:
    condition, then = part.get("condition"), part.get("consequence")
    if condition is None or then is None:
        return _opaque(work, part, "not understood: if")
    work.scopes.append({})
    before, test = _tested(work, condition)
    otherwise = part.get("alternative")
    found = If(
        test,
        single(work, then),
        None if otherwise is None else _else(work, otherwise),
        work.spot(part),
    )
    work.scopes.pop()
    return [Block((*before, found), found.spot)] if before else [found]


def _else(work: Lowering, part: SyntaxNode) -> Statement:
    inner = part.inner
    if part.kind == "else_clause" and len(inner) == 1:
        return single(work, inner[0])
    return Opaque("not understood: else", work.spot(part))


def _tested(work: Lowering, part: SyntaxNode) -> tuple[list[Statement], Expression]:
    """The statements before a condition in its parentheses, and the condition."""
    start, given = part.get("initializer"), part.get("value")
    if part.kind != "condition_clause" or given is None:
        return [], work.expression(part)
    before = [] if start is None else list(several(work, start.inner))
    if given.kind != "declaration":
        return before, work.expression(given)
    before += work.statement(given)
    last = before[-1] if before else None
    if isinstance(last, Declare):
        return before, work.use(last.variable, given)
    return before, work.opaque(given, "a declaration in a condition")


def _for(work: Lowering, part: SyntaxNode) -> list[Statement]:
    body = part.get("body")
    if body is None:
        return _opaque(work, part, "not understood: for")
    start, condition, step = (part.get(role) for role in ("initializer", "condition", "update"))
    work.scopes.append({})
    before: tuple[Statement, ...] = ()
    if start is not None and start.kind in _RULES:
        before = tuple(work.statement(start))
    elif start is not None:
        before = (Evaluate(work.expression(start), work.spot(start)),)
    work.loops += 1
    found = Loop(
        "for",
        before,
        None if condition is None else work.expression(condition),
        None if step is None else work.expression(step),
        single(work, body),
        work.spot(part),
    )
    work.loops -= 1
    work.scopes.pop()
    return [found]


def _while(work: Lowering, part: SyntaxNode) -> list[Statement]:
    condition, body = part.get("condition"), part.get("body")
    if condition is None or body is None:
        return _opaque(work, part, "not understood: a loop")
    kind: LoopKind = "while" if part.kind == "while_statement" else "do"
    work.loops += 1
    test = work.expression(condition)
    found = Loop(kind, (), test, None, single(work, body), work.spot(part))
    work.loops -= 1
    return [found]


def _range_for(work: Lowering, part: SyntaxNode) -> list[Statement]:
    return _opaque(work, part, "a loop over a range")


def _switch(work: Lowering, part: SyntaxNode) -> list[Statement]:
    condition, body = part.get("condition"), part.get("body")
    if condition is None or body is None or body.kind != "compound_statement":
        return _opaque(work, part, "not understood: switch")
    value = work.expression(condition)
    work.scopes.append({})
    cases = tuple(_case(work, inner) for inner in body.inner if inner.kind == "case_statement")
    work.scopes.pop()
    if len(cases) != len(body.inner):
        return _opaque(work, part, "statements in a switch outside of its cases")
    return [Switch(value, cases, work.spot(part))]


def _case(work: Lowering, part: SyntaxNode) -> Case:
    given = part.get("value")
    value = None if given is None else work.expression(given)
    found = several(work, (inner for inner in part.inner if inner is not given))
    return Case(value, found, work.spot(part))


def _return(work: Lowering, part: SyntaxNode) -> list[Statement]:
    inner = part.inner
    value = work.expression(inner[0]) if inner else None
    return [Return(value, work.spot(part))]


def _break(work: Lowering, part: SyntaxNode) -> list[Statement]:
    return [Jump("break", work.spot(part))]


def _continue(work: Lowering, part: SyntaxNode) -> list[Statement]:
    return [Jump("continue", work.spot(part))]


def _labeled(work: Lowering, part: SyntaxNode) -> list[Statement]:
    return list(several(work, (inner for inner in part.inner if inner.role != "label")))


def _attributed(work: Lowering, part: SyntaxNode) -> list[Statement]:
    inner = (child for child in part.inner if child.kind != "attribute_declaration")
    return list(several(work, inner))


def _conditional_text(work: Lowering, part: SyntaxNode) -> list[Statement]:
    return [work.problem(part, "a condition of the preprocessor that is not known")]


_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "declaration": lower_declarations.declaration,
        "expression_statement": _expression,
        "compound_statement": _compound,
        "if_statement": _if,
        "for_statement": _for,
        "for_range_loop": _range_for,
        "while_statement": _while,
        "do_statement": _while,
        "switch_statement": _switch,
        "return_statement": _return,
        "break_statement": _break,
        "continue_statement": _continue,
        "labeled_statement": _labeled,
        "attributed_statement": _attributed,
        "alias_declaration": lower_declarations.alias,
        "type_definition": lower_declarations.typedef,
        "enum_specifier": lower_declarations.enumeration,
        "struct_specifier": structure,
        "class_specifier": structure,
        "using_declaration": _nothing,
        "static_assert_declaration": _nothing,
        "empty_statement": _nothing,
        "access_specifier": _nothing,
        "preproc_call": _nothing,
        "preproc_include": _nothing,
        "preproc_def": _nothing,
        "preproc_function_def": _nothing,
        "preproc_if": _conditional_text,
        "preproc_ifdef": _conditional_text,
        ";": _nothing,
    }
)
