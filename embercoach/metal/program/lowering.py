"""From Metal text to a program: its statements and its declarations at file scope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from embercoach.metal.preprocessor import Expanded, preprocess
from embercoach.metal.program import lower_declarations, lower_expressions
from embercoach.metal.program.lower_declarations import (
    define_struct,
    make_function,
    template_parameter,
)
from embercoach.metal.program.lowering_state import (
    DeepTextError,
    Lowering,
    MisreadError,
    Rules,
    SignatureNames,
)
from embercoach.metal.program.nodes import (
    Block,
    Case,
    Declare,
    Evaluate,
    Expression,
    If,
    Jump,
    Loop,
    LoopKind,
    Opaque,
    Program,
    Return,
    Spot,
    Statement,
    Switch,
    Text,
    Variable,
)
from embercoach.metal.program.texts import Parsed, SyntaxNode, unpack
from embercoach.metal.program.types import UNKNOWN
from embercoach.metal.program.walk import fold_int
from embercoach.metal.text_facts import TextSpan
from embercoach.metal.work_budget import STEPS_A_TOKEN, TOO_DEEP, TOO_INTRICATE

if TYPE_CHECKING:
    Rule = Callable[[Lowering, SyntaxNode], list[Statement]]

__all__ = ["SignatureNames", "lower_body", "lower_unit"]


def statement(work: Lowering, part: SyntaxNode) -> list[Statement]:
    """Lower a statement; what is not understood becomes opaque."""
    rule = _STATEMENTS.get(part.kind)
    if rule is None or part.broken:
        return _not_followed(work, part, f"not understood: {part.kind.replace('_', ' ').lower()}")
    return rule(work, part)


def _not_followed(work: Lowering, part: SyntaxNode, why: str) -> list[Statement]:
    return [Opaque(why, work.spot(part))]


def several(work: Lowering, parts: Iterable[SyntaxNode]) -> tuple[Statement, ...]:
    """Return statements one after the other."""
    return tuple(found for part in parts for found in work.statement(part))


def single(work: Lowering, part: SyntaxNode) -> Statement:
    """Return a statement in a separate scope."""
    work.scopes.append({})
    found = work.statement(part)
    work.scopes.pop()
    return found[0] if len(found) == 1 else Block(tuple(found), work.spot(part))


def block(work: Lowering, part: SyntaxNode) -> Block:
    """Return statements in braces."""
    work.scopes.append({})
    found = several(work, part.inner)
    work.scopes.pop()
    return Block(found, work.spot(part))


def _expression(work: Lowering, part: SyntaxNode) -> list[Statement]:
    return [Evaluate(work.expression(inner), work.spot(part)) for inner in part.inner]


def _if(work: Lowering, part: SyntaxNode) -> list[Statement]:
    condition, then = part.get("condition"), part.get("consequence")
    if condition is None or then is None:
        return _not_followed(work, part, "not understood: if")
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
    """Return the statements before a condition in its parentheses, and the condition."""
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
        return _not_followed(work, part, "not understood: for")
    start, condition, step = (part.get(role) for role in ("initializer", "condition", "update"))
    work.scopes.append({})
    before: tuple[Statement, ...] = ()
    if start is not None and start.kind in _STATEMENTS:
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
        return _not_followed(work, part, "not understood: a loop")
    kind: LoopKind = "while" if part.kind == "while_statement" else "do"
    work.loops += 1
    test = work.expression(condition)
    found = Loop(kind, (), test, None, single(work, body), work.spot(part))
    work.loops -= 1
    return [found]


def _switch(work: Lowering, part: SyntaxNode) -> list[Statement]:
    condition, body = part.get("condition"), part.get("body")
    if condition is None or body is None or body.kind != "compound_statement":
        return _not_followed(work, part, "not understood: switch")
    value = work.expression(condition)
    work.scopes.append({})
    cases = tuple(_case(work, inner) for inner in body.inner if inner.kind == "case_statement")
    work.scopes.pop()
    if len(cases) != len(body.inner):
        return _not_followed(work, part, "statements in a switch outside of its cases")
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


def _labeled(work: Lowering, part: SyntaxNode) -> list[Statement]:
    return list(several(work, (inner for inner in part.inner if inner.role != "label")))


def _attributed(work: Lowering, part: SyntaxNode) -> list[Statement]:
    inner = (child for child in part.inner if child.kind != "attribute_declaration")
    return list(several(work, inner))


_CONDITION = "a condition of the preprocessor that is not known"
#: Parts that leave nothing in a program.
_NOTHING = (
    *("using_declaration", "static_assert_declaration", "empty_statement", "access_specifier"),
    *("preproc_call", "preproc_include", "preproc_def", "preproc_function_def", ";"),
)
_STATEMENTS: Mapping[str, Rule] = MappingProxyType(
    {
        "declaration": lower_declarations.declaration,
        "expression_statement": _expression,
        "compound_statement": lambda work, part: [block(work, part)],
        "if_statement": _if,
        "for_statement": _for,
        "for_range_loop": lambda work, part: _not_followed(work, part, "a loop over a range"),
        "while_statement": _while,
        "do_statement": _while,
        "switch_statement": _switch,
        "return_statement": _return,
        "break_statement": lambda work, part: [Jump("break", work.spot(part))],
        "continue_statement": lambda work, part: [Jump("continue", work.spot(part))],
        "labeled_statement": _labeled,
        "attributed_statement": _attributed,
        "alias_declaration": lower_declarations.alias,
        "type_definition": lower_declarations.typedef,
        "enum_specifier": lower_declarations.enumeration,
        "struct_specifier": lower_declarations.structure,
        "class_specifier": lower_declarations.structure,
        "preproc_if": lambda work, part: [work.problem(part, _CONDITION)],
        "preproc_ifdef": lambda work, part: [work.problem(part, _CONDITION)],
        **dict.fromkeys(_NOTHING, lambda _work, _part: []),
    }
)


def unit(work: Lowering, parts: Iterable[SyntaxNode]) -> None:
    """Lower the declarations at file scope."""
    for part in parts:
        _item(work, part, ())


def _item(work: Lowering, part: SyntaxNode, template: tuple[Variable, ...]) -> None:
    kind = part.kind
    if kind == "function_definition":
        _define(work, part, template)
    elif kind == "declaration":
        _declare(work, part, template)
    elif kind == "template_declaration":
        _template(work, part)
    elif kind in ("struct_specifier", "class_specifier"):
        define_struct(work, part, template)
    elif kind == "namespace_definition":
        _namespace(work, part)
    elif kind in ("linkage_specification", "declaration_list"):
        unit(work, part.inner)
    elif kind not in ("template_instantiation", "namespace_alias_definition"):
        work.constants += [found for found in work.statement(part) if isinstance(found, Declare)]


def _namespace(work: Lowering, part: SyntaxNode) -> None:
    """Lower a namespace; its names are found without it, too: using-directives may bring them."""
    name, body = part.get("name"), part.get("body")
    if name is not None:
        work.namespaces.add(work.words(name))
    if body is not None:
        unit(work, body.inner)


def _template(work: Lowering, part: SyntaxNode) -> None:
    parameters = part.get("parameters")
    inner = part.inner[-1] if part.inner else None
    if parameters is None or inner is None:
        work.problem(part, "not understood: a template")
        return
    work.scopes.append({})
    template = tuple(template_parameter(work, p) for p in parameters.inner)
    scope = work.scopes.pop()
    if inner.kind == "alias_declaration":
        name = inner.get("name")
        if name is not None:
            work.declare(work.word(name), UNKNOWN)
        return
    work.templates.append(scope)
    _item(work, inner, template)
    work.templates.pop()


def _declare(work: Lowering, part: SyntaxNode, template: tuple[Variable, ...]) -> None:
    """A declaration at file scope: constants, and functions without their bodies."""
    for declarator in part.all("declarator"):
        parts = unpack(declarator)
        if parts.function is not None and parts.name is not None:
            make_function(work, part, parts, template)
            return
    work.constants += [
        found for found in lower_declarations.declaration(work, part) if isinstance(found, Declare)
    ]


def _define(work: Lowering, part: SyntaxNode, template: tuple[Variable, ...]) -> None:
    parts = unpack(part.get("declarator"))
    if parts.name is None or parts.function is None:
        # An operator, a constructor out of its struct, a conversion: nothing calls it by name.
        return
    make_function(work, part, parts, template)


_Lowered = TypeVar("_Lowered")
# How often one text is read, and how many characters of it are, all together; each may be twice,
# which suffices for MLX's headers.
_MAX_READINGS = 31
_MAX_READ = 60_000
_RULES = Rules(lower_expressions.expression, statement, lower_declarations.named_lambda)


class _Unread(Enum):
    """Why a text cannot be lowered."""

    TOO_DEEP = "the text nests too deeply"
    TOO_INTRICATE = "the text takes too long to parse"
    AMBIGUOUS = "the text is read one way and then another"


_REFUSALS = {_Unread.TOO_DEEP: TOO_DEEP, _Unread.TOO_INTRICATE: TOO_INTRICATE}


@lru_cache(maxsize=128)
def lower_body(source: str, header: str = "", names: SignatureNames = SignatureNames()) -> Program:  # noqa: B008
    """Lower the ``source`` of a kernel under its ``header``.

    Args:
        source: the body as MLX gets it.
        header: the header as MLX gets it.
        names: what MLX's signature brings into the body's scope.
    """
    around = _unit(header, "header")
    if isinstance(around, _Unread):
        return _lost(header, "header", around)
    outer = around.parsed.expanded
    expanded = preprocess(source, evaluate, outer.macros, outer.foreign)

    def lower(parsed: Parsed) -> Program:
        work = Lowering(parsed, _RULES, names, around)
        work.problems += parsed.problems
        body = block(work, parsed.tree)
        _finish(work)
        return _program(work, body)

    found = _read(source, "body", expanded, lower)
    if isinstance(found, _Unread):
        found = _lost(source, "body", found)
    steps, above = (STEPS_A_TOKEN * one.spent for one in (expanded, outer))
    return replace(found, steps=steps, header_steps=above)


@lru_cache(maxsize=64)
def lower_unit(text: str) -> Program:
    """Lower a whole file; its entry points are functions."""
    work = _unit(text, "file")
    if isinstance(work, _Unread):
        return _lost(text, "file", work)
    steps = STEPS_A_TOKEN * work.parsed.expanded.spent
    return replace(_program(work, None), steps=steps)


@lru_cache(maxsize=64)
def _unit(text: str, kind: Text) -> Lowering | _Unread:
    """Return a text at file scope."""

    def lower(parsed: Parsed) -> Lowering:
        work = Lowering(parsed, _RULES)
        work.problems += parsed.problems
        unit(work, parsed.tree.inner)
        _finish(work)
        return work

    return _read(text, kind, preprocess(text, evaluate), lower)


def _read(
    text: str, kind: Text, expanded: Expanded, lower: Callable[[Parsed], _Lowered]
) -> _Lowered | _Unread:
    """Lower a text, again for each stretch that the grammar misread."""
    misread: dict[int, str] = {}
    for _ in range(max(2, min(_MAX_READINGS, _MAX_READ // max(len(expanded.text), 1)))):
        parsed = Parsed(text, kind, expanded, dict(misread))
        if parsed.is_exceeded:
            return _Unread.TOO_INTRICATE
        found = _attempt(lower, parsed)
        if not isinstance(found, MisreadError):
            return found
        misread |= found.exchange
    return _Unread.AMBIGUOUS


def _attempt(
    lower: Callable[[Parsed], _Lowered], parsed: Parsed
) -> _Lowered | MisreadError | _Unread:
    try:
        return lower(parsed)
    except MisreadError as error:
        return error
    except (DeepTextError, RecursionError):
        return _Unread.TOO_DEEP


def evaluate(text: str) -> int | None:
    """Return the value of a condition of the preprocessor; names left in it are unknown."""

    def lower(parsed: Parsed) -> int | None:
        found = block(Lowering(parsed, _RULES), parsed.tree).statements
        if parsed.problems or len(found) != 1 or not isinstance(found[0], Evaluate):
            return None
        return fold_int(found[0].expression, {})

    found = _read(text, "body", Expanded(f"{text};"), lower)
    return None if isinstance(found, _Unread) else found


def _finish(work: Lowering) -> None:
    """Lower the bodies of functions; of all of them, what was misread."""
    exchange: dict[int, str] = {}
    while work.later:
        exchange |= _misread(work.later.pop(0))
    if exchange:
        raise MisreadError(exchange)


def _misread(lower: Callable[[], None]) -> dict[int, str]:
    """Return the characters of a function's body to read otherwise."""
    try:
        lower()
    except MisreadError as error:
        return error.exchange
    return {}


def _program(work: Lowering, body: Block | None) -> Program:
    return Program(
        body,
        dict(work.variables),
        dict(work.functions),
        tuple(work.constants),
        tuple(work.problems),
        dict(work.structs),
    )


def _lost(text: str, kind: Text, why: _Unread) -> Program:
    """Return the program of a text that cannot be read."""
    spot = Spot(kind, TextSpan(0, len(text), 1, 1))
    problem = Opaque(why.value, spot)
    body = Block((problem,), spot) if kind != "file" else None
    return Program(body, {}, {}, (), (problem,), refusal=_REFUSALS.get(why))
