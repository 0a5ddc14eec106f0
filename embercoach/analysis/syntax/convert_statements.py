"""Statements of Python's own parser as nodes of libcst, and whole modules."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import libcst as cst

from embercoach.analysis.syntax.convert_expressions import (
    ASYNC,
    BINARY,
    DOT,
    EMPTY,
    EQUAL,
    LINE_END,
    SPACE,
    Converted,
    ExpressionConverter,
    SourceLines,
    StatementLine,
    UnconvertibleError,
    packed_range,
)

_AUGMENTED: dict[type[ast.operator], cst.BaseAugOp] = {
    kind: getattr(cst, f"{type(operator).__name__}Assign")() for kind, operator in BINARY.items()
}


def convert(source: str, outline: ast.Module) -> Converted:
    """Return the tree of a source that Python's parser has read.

    Args:
        source: the text.
        outline: what ``ast.parse`` makes of it.

    Returns:
        A tree that equals libcst's but for white space, comments, commas and parentheses.

    Raises:
        UnconvertibleError: only libcst can make the tree.
        RecursionError: the source nests too deeply.
    """
    if not source.isascii() and any(map(_may_be_normalized, set(source))):
        raise UnconvertibleError("names whose text may be lost")
    converter = _Converter(SourceLines(source))
    tree = cst.Module(converter.body(outline.body))
    lines = tuple(sorted(converter.own_lines, key=lambda one: one.first))
    return Converted(tree, converter.ranges, lines, tuple(converter.parsed_expressions))


def _may_be_normalized(character: str) -> bool:
    """Return whether Python normalizes names with a character, so that ``ast`` lacks their text."""
    import unicodedata

    if not f"a{character}".isidentifier():
        return False
    combines = unicodedata.combining(character) > 0
    return combines or not unicodedata.is_normalized("NFKC", character)


class _Converter(ExpressionConverter):
    """Converts statements, too."""

    def __init__(self, lines: SourceLines) -> None:
        super().__init__(lines)
        self.own_lines: list[StatementLine] = []

    def body(self, nodes: Sequence[ast.stmt]) -> list[Any]:
        """Return statements, with simple ones of one line together."""
        found: list[Any] = []
        statements: list[cst.BaseSmallStatement] = []
        if self.lines.has_continuations and any(map(self.lines.follows_continuation, nodes)):
            raise UnconvertibleError("a statement that starts after a backslash")
        first = last = -1  # lines of the last simple statements
        for node in nodes:
            convert = self._SIMPLE.get(type(node))
            if convert is None:
                found.append(self._compound(node))
                last = -1
                continue
            made = convert(self, node)
            self.ranges[id(made)] = packed_range(node)
            if node.lineno == last:
                statements.append(made)
                self.own_lines.pop()
            else:
                first = node.lineno
                statements = [made]
                found.append(cst.SimpleStatementLine(statements, (), LINE_END))
            last = node.end_lineno or node.lineno
            self.own_lines.append(StatementLine(first, last, found[-1]))
        return found

    def _compound(self, node: ast.stmt) -> cst.CSTNode:
        convert = self._COMPOUND.get(type(node))
        made = self._parsed_statement(node) if convert is None else convert(self, node)
        self.ranges[id(made)] = packed_range(node)
        return made  # type: ignore[no-any-return]

    def _parsed_statement(self, node: ast.stmt) -> Any:
        """Return a statement parsed from its text by libcst: ``match`` and all that is rare."""
        before = self.lines.before(node)
        if before.strip() or not node.end_lineno:
            raise UnconvertibleError("a statement that follows another on its line")
        decorators = getattr(node, "decorator_list", ())
        first = min((node.lineno, *map(self.lines.start_of_decorator, decorators)))
        text = "".join(self.lines.texts[first - 1 : node.end_lineno])
        try:
            body = cst.parse_module(f"if x:\n{text}" if before else text).body
        except cst.ParserSyntaxError as error:
            raise UnconvertibleError(type(node).__name__) from error
        found = body[0].body.body if before else body  # type: ignore[union-attr]
        if len(found) > 1 or (
            isinstance(found[0], cst.SimpleStatementLine) and len(found[0].body) > 1
        ):
            raise UnconvertibleError("a statement that another follows on its line")
        return found[0]

    def suite(self, nodes: Sequence[ast.stmt]) -> Any:
        """Return the body of a compound statement, on separate lines or not."""
        made = self.body(nodes)
        if not self.lines.before(nodes[0]).strip() or type(made[0]) is not cst.SimpleStatementLine:
            return cst.IndentedBlock(made, LINE_END)
        self.own_lines.pop()  # the header has that line
        return cst.SimpleStatementSuite(made[0].body, SPACE, LINE_END)

    def _else(self, nodes: Sequence[ast.stmt]) -> cst.Else | None:
        return cst.Else(self.suite(nodes), (), EMPTY) if nodes else None

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Any:
        if getattr(node, "type_params", None):
            return self._parsed_statement(node)
        return cst.FunctionDef(
            name=cst.Name(node.name),
            params=self.parameters(node.args),
            body=self.suite(node.body),
            decorators=self._decorators(node.decorator_list),
            returns=self.annotation(node.returns),
            asynchronous=ASYNC if type(node) is ast.AsyncFunctionDef else None,
            whitespace_after_def=SPACE,
            whitespace_after_name=EMPTY,
            whitespace_before_params=EMPTY,
            whitespace_before_colon=EMPTY,
            whitespace_after_type_parameters=EMPTY,
        )

    def _class(self, node: ast.ClassDef) -> Any:
        if getattr(node, "type_params", None):
            return self._parsed_statement(node)
        arguments = self.arguments(node.bases, node.keywords)
        count = next((i for i, a in enumerate(arguments) if _is_keyword(a)), len(arguments))
        if not all(map(_is_keyword, arguments[count:])):
            raise UnconvertibleError("a base after a keyword, which libcst does not parse")
        return cst.ClassDef(
            name=cst.Name(node.name),
            body=self.suite(node.body),
            bases=arguments[:count],
            keywords=arguments[count:],
            decorators=self._decorators(node.decorator_list),
            whitespace_after_class=SPACE,
            whitespace_after_name=EMPTY,
            whitespace_before_colon=EMPTY,
            whitespace_after_type_parameters=EMPTY,
        )

    def _decorators(self, nodes: Sequence[ast.expr]) -> list[cst.Decorator]:
        found = []
        for node in nodes:
            made = cst.Decorator(self.expression(node), (), EMPTY, LINE_END)
            self.ranges[id(made)] = packed_range(node)
            found.append(made)
        return found

    def _if(self, node: ast.If) -> cst.If:
        orelse: cst.If | cst.Else | None = None
        if (
            len(node.orelse) == 1
            and type(node.orelse[0]) is ast.If
            and self._is_elif(node.orelse[0])
        ):
            orelse = self._compound(node.orelse[0])  # type: ignore[assignment]
        else:
            orelse = self._else(node.orelse)
        test, body = self.expression(node.test), self.suite(node.body)
        return cst.If(test, body, orelse, (), SPACE, EMPTY)

    def _is_elif(self, node: ast.stmt) -> bool:
        if type(node) is not ast.If:
            return False
        line = self.lines.texts[node.lineno - 1]
        return line.startswith("elif", self.lines.column(node.lineno, node.col_offset))

    def _for(self, node: ast.For | ast.AsyncFor) -> cst.For:
        return cst.For(
            self.expression(node.target),
            self.expression(node.iter),
            self.suite(node.body),
            self._else(node.orelse),
            ASYNC if type(node) is ast.AsyncFor else None,
            (),
            SPACE,
            SPACE,
            SPACE,
            EMPTY,
        )

    def _while(self, node: ast.While) -> cst.While:
        test, body = self.expression(node.test), self.suite(node.body)
        return cst.While(test, body, self._else(node.orelse), (), SPACE, EMPTY)

    def _with(self, node: ast.With | ast.AsyncWith) -> cst.With:
        items = []
        for item in node.items:
            name = None
            if item.optional_vars is not None:
                name = cst.AsName(self.expression(item.optional_vars), SPACE, SPACE)
            items.append(cst.WithItem(self.expression(item.context_expr), name))
        return cst.With(
            items,
            self.suite(node.body),
            ASYNC if type(node) is ast.AsyncWith else None,
            whitespace_after_with=SPACE,
            whitespace_before_colon=EMPTY,
        )

    def _try(self, node: ast.Try) -> cst.Try:
        handlers = [
            cst.ExceptHandler(
                self.suite(handler.body),
                self.optional(handler.type),
                None if handler.name is None else cst.AsName(cst.Name(handler.name), SPACE, SPACE),
                (),
                SPACE,
                EMPTY,
            )
            for handler in node.handlers
        ]
        final = cst.Finally(self.suite(node.finalbody), (), EMPTY) if node.finalbody else None
        return cst.Try(self.suite(node.body), handlers, self._else(node.orelse), final, (), EMPTY)

    def _delete(self, node: ast.Delete) -> cst.Del:
        if len(node.targets) == 1:
            return cst.Del(self.expression(node.targets[0]), SPACE)
        return cst.Del(cst.Tuple(self._elements(node.targets)), SPACE)

    def _assign(self, node: ast.Assign) -> cst.Assign:
        targets = [cst.AssignTarget(self.expression(t), SPACE, SPACE) for t in node.targets]
        return cst.Assign(targets, self.expression(node.value))

    def _augmented(self, node: ast.AugAssign) -> cst.AugAssign:
        target, value = self.expression(node.target), self.expression(node.value)
        return cst.AugAssign(target, _AUGMENTED[type(node.op)], value)

    def _annotated(self, node: ast.AnnAssign) -> cst.AnnAssign:
        target, annotation = self.expression(node.target), self.annotation(node.annotation)
        assert annotation is not None
        value = self.optional(node.value)
        equal = cst.MaybeSentinel.DEFAULT if value is None else EQUAL
        return cst.AnnAssign(target, annotation, value, equal)

    def _raise(self, node: ast.Raise) -> cst.Raise:
        raised = self.optional(node.exc)
        cause = None if node.cause is None else cst.From(self.expression(node.cause), SPACE, SPACE)
        return cst.Raise(raised, cause, SPACE)

    def _assert(self, node: ast.Assert) -> cst.Assert:
        test, message = self.expression(node.test), self.optional(node.msg)
        return cst.Assert(test, message, whitespace_after_assert=SPACE)

    def _import(self, node: ast.Import) -> cst.Import:
        return cst.Import([_alias(alias) for alias in node.names], whitespace_after_import=SPACE)

    def _import_from(self, node: ast.ImportFrom) -> cst.ImportFrom:
        names: Any = [_alias(alias) for alias in node.names]
        if node.names[0].name == "*":
            names = cst.ImportStar()
        return cst.ImportFrom(
            _dotted(node.module) if node.module else None,
            names,
            (DOT,) * node.level,
            whitespace_after_from=SPACE,
            whitespace_before_import=SPACE,
            whitespace_after_import=SPACE,
        )

    def _global(self, node: ast.Global | ast.Nonlocal) -> cst.Global | cst.Nonlocal:
        names = [cst.NameItem(cst.Name(name)) for name in node.names]
        return (cst.Global if type(node) is ast.Global else cst.Nonlocal)(names, SPACE)

    _SIMPLE: ClassVar[dict[type[ast.stmt], Callable[[_Converter, Any], Any]]] = {
        ast.Return: lambda self, node: cst.Return(self.optional(node.value), SPACE),
        ast.Delete: _delete,
        ast.Assign: _assign,
        ast.AugAssign: _augmented,
        ast.AnnAssign: _annotated,
        ast.Raise: _raise,
        ast.Assert: _assert,
        ast.Import: _import,
        ast.ImportFrom: _import_from,
        ast.Global: _global,
        ast.Nonlocal: _global,
        ast.Expr: lambda self, node: cst.Expr(self.expression(node.value)),
        ast.Pass: lambda _self, _node: cst.Pass(),
        ast.Break: lambda _self, _node: cst.Break(),
        ast.Continue: lambda _self, _node: cst.Continue(),
    }
    _COMPOUND: ClassVar[dict[type[ast.stmt], Callable[[_Converter, Any], Any]]] = {
        ast.FunctionDef: _function,
        ast.AsyncFunctionDef: _function,
        ast.ClassDef: _class,
        ast.If: _if,
        ast.For: _for,
        ast.AsyncFor: _for,
        ast.While: _while,
        ast.With: _with,
        ast.AsyncWith: _with,
        ast.Try: _try,
    }


def _is_keyword(argument: cst.Arg) -> bool:
    return argument.keyword is not None or argument.star == "**"


def _alias(node: ast.alias) -> cst.ImportAlias:
    name = None if node.asname is None else cst.AsName(cst.Name(node.asname), SPACE, SPACE)
    return cst.ImportAlias(_dotted(node.name), name) if node.name != "*" else None  # type: ignore[return-value]


def _dotted(name: str) -> Any:
    first, *others = name.split(".")
    made: cst.Name | cst.Attribute = cst.Name(first)
    for other in others:
        made = cst.Attribute(made, cst.Name(other), DOT)
    return made
