"""Expressions of Python's own parser as nodes of libcst."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Callable, Sequence
from io import StringIO
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

import libcst as cst
from msgspec import Struct

#: Nodes without any text: one of each kind serves all trees.
EMPTY = cst.SimpleWhitespace("")
SPACE = cst.SimpleWhitespace(" ")
LINE_END = cst.TrailingWhitespace()
DOT = cst.Dot()
EQUAL = cst.AssignEqual()
COLON = cst.Colon()
ASYNC = cst.Asynchronous()
#: Operators have parentheses, so that generated code keeps the tree's order of evaluation.
OPEN = (cst.LeftParen(),)
CLOSE = (cst.RightParen(),)

#: Lines from so many characters on are not encoded again for each place in them.
_LONG = 500
_BITS = 24
_MASK = (1 << _BITS) - 1


class UnconvertibleError(Exception):
    """Source that only libcst can turn into a tree."""


class AstRange(NamedTuple):
    """A range as ``ast`` counts: lines from 1, columns from 0 in UTF-8 bytes, end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


class StatementLine(NamedTuple):
    """Simple statements on lines where nothing else is."""

    first: int
    last: int
    node: cst.SimpleStatementLine


class ParsedExpression(NamedTuple):
    """An expression that libcst has parsed, in parentheses, and where it begins.

    Lines count from 1, columns from 0 in characters.
    """

    node: cst.BaseExpression
    line: int
    column: int


class Converted(Struct, frozen=True):
    """A tree, and the packed ranges of its statements and expressions by their ``id``.

    ``ranges`` is None for a tree of libcst's own, which is complete.

    Attributes:
        tree: the tree.
        ranges: see above.
        lines: simple statements on separate lines.
        parsed: expressions whose parts have trivia, but no ranges.
    """

    tree: cst.Module
    ranges: dict[int, int] | None
    lines: tuple[StatementLine, ...] = ()
    parsed: tuple[ParsedExpression, ...] = ()

    def range_of(self, node: cst.CSTNode) -> AstRange | None:
        """Return where ``ast`` places a node, None for a node that it doesn't have."""
        packed = None if self.ranges is None else self.ranges.get(id(node))
        return None if packed is None else _unpacked(packed)


def packed_range(node: ast.expr | ast.stmt) -> int:
    """Return the range of a node in one number: a tree has many of them."""
    end_line, end_column = node.end_lineno or 0, node.end_col_offset or 0
    start = node.lineno << _BITS | node.col_offset
    return (start << _BITS | end_line) << _BITS | end_column


def packed_name_range(node: ast.arg) -> int:
    """Return the range of a parameter's name: ``ast`` counts its annotation, too."""
    start = node.lineno << _BITS | node.col_offset
    end_column = node.col_offset + len(node.arg.encode())
    return (start << _BITS | node.lineno) << _BITS | end_column


def _unpacked(packed: int) -> AstRange:
    return AstRange(
        packed >> 3 * _BITS,
        packed >> 2 * _BITS & _MASK,
        packed >> _BITS & _MASK,
        packed & _MASK,
    )


class SourceLines:
    """The lines of a source with their ends, as Python's tokenizer counts them."""

    def __init__(self, source: str) -> None:
        self.texts = list(StringIO(source, newline=""))
        self.is_ascii = source.isascii()
        self._offsets: dict[int, list[int]] = {}  # of each character, by line
        self.has_continuations = "\\\n" in source or "\\\r" in source

    def column(self, line: int, offset: int) -> int:
        """Return the column in characters of an offset in UTF-8 bytes."""
        if self.is_ascii or not offset:
            return offset
        text = self.texts[line - 1]
        if text.isascii():
            return offset
        if len(text) < _LONG:
            return len(text.encode()[:offset].decode())
        offsets = self._offsets.get(line)
        if offsets is None:
            offsets = self._offsets[line] = [0, *accumulate(len(c.encode()) for c in text)]
        return bisect_left(offsets, offset)

    def segment(self, node: ast.expr) -> str:
        """Return the text of an expression, without parentheses around it."""
        line, end_line = node.lineno, node.end_lineno or node.lineno
        start = self.column(line, node.col_offset)
        return self.between(line, start, end_line, self.column(end_line, node.end_col_offset or 0))

    def between(self, line: int, start: int, end_line: int, end: int) -> str:
        """Return the text from a column of a line, from 1, to one of the same or another line."""
        if line == end_line:
            return self.texts[line - 1][start:end]
        inner = self.texts[line : end_line - 1]
        return "".join((self.texts[line - 1][start:], *inner, self.texts[end_line - 1][:end]))

    def start_of_decorator(self, node: ast.expr | AstRange) -> int:
        """The line of a decorator's ``@``, which parentheses may set apart from the expression."""
        line = node.line if isinstance(node, AstRange) else node.lineno
        while line > 1 and not self.texts[line - 1].lstrip().startswith("@"):
            line -= 1
        return line

    def follows_continuation(self, node: ast.stmt) -> bool:
        """Return whether the line before a statement's first one goes on in it."""
        return node.lineno > 1 and self.texts[node.lineno - 2].rstrip("\r\n").endswith("\\")

    def before(self, node: ast.stmt) -> str:
        """Return the text that precedes a statement on its first line."""
        return self.texts[node.lineno - 1][: self.column(node.lineno, node.col_offset)]


BINARY: dict[type[ast.operator], cst.BaseBinaryOp] = {
    ast.Add: cst.Add(),
    ast.Sub: cst.Subtract(),
    ast.Mult: cst.Multiply(),
    ast.MatMult: cst.MatrixMultiply(),
    ast.Div: cst.Divide(),
    ast.Mod: cst.Modulo(),
    ast.Pow: cst.Power(),
    ast.LShift: cst.LeftShift(),
    ast.RShift: cst.RightShift(),
    ast.BitOr: cst.BitOr(),
    ast.BitXor: cst.BitXor(),
    ast.BitAnd: cst.BitAnd(),
    ast.FloorDiv: cst.FloorDivide(),
}
_UNARY: dict[type[ast.unaryop], cst.BaseUnaryOp] = {
    ast.Invert: cst.BitInvert(),
    ast.Not: cst.Not(),
    ast.UAdd: cst.Plus(),
    ast.USub: cst.Minus(),
}
_COMPARISON: dict[type[ast.cmpop], cst.BaseCompOp] = {
    ast.Eq: cst.Equal(),
    ast.NotEq: cst.NotEqual(),
    ast.Lt: cst.LessThan(),
    ast.LtE: cst.LessThanEqual(),
    ast.Gt: cst.GreaterThan(),
    ast.GtE: cst.GreaterThanEqual(),
    ast.Is: cst.Is(),
    ast.IsNot: cst.IsNot(),
    ast.In: cst.In(),
    ast.NotIn: cst.NotIn(),
}
#: Generated code has commas where they are needed.
_NO_COMMA = cst.MaybeSentinel.DEFAULT
_AND, _OR = cst.And(), cst.Or()
_TRIPLE = ('"""', "'''")


class ExpressionConverter:
    """Converts expressions and notes the range of each."""

    def __init__(self, lines: SourceLines) -> None:
        self.lines = lines
        self.ranges: dict[int, int] = {}
        self.parsed_expressions: list[ParsedExpression] = []

    def expression(self, node: ast.expr) -> Any:
        """Return an expression.

        Raises:
            UnconvertibleError: a kind of expression that is newer than this module.
        """
        convert = self._CONVERTERS.get(type(node), ExpressionConverter.parsed)
        made = convert(self, node)
        self.ranges[id(made)] = packed_range(node)
        return made

    def optional(self, node: ast.expr | None) -> Any:
        """Return an expression, or None."""
        return None if node is None else self.expression(node)

    def parsed(self, node: ast.expr) -> cst.BaseExpression:
        """Return an expression parsed from its text by libcst: f-strings and all that is rare."""
        try:
            # The parentheses allow for line ends.
            made = cst.parse_expression(f"({self.lines.segment(node)}\n)")
        except (cst.ParserSyntaxError, UnicodeDecodeError) as error:
            raise UnconvertibleError(ast.dump(node)) from error
        column = self.lines.column(node.lineno, node.col_offset)
        self.parsed_expressions.append(ParsedExpression(made, node.lineno, column))
        return made

    def _attribute(self, node: ast.Attribute) -> cst.Attribute:
        return cst.Attribute(self.expression(node.value), cst.Name(node.attr), DOT)

    def _constant(self, node: ast.Constant) -> cst.BaseExpression:
        kind = type(node.value)
        if kind is str or kind is bytes:
            return self._string(node)
        if kind is int:
            return cst.Integer(self.lines.segment(node))
        if kind is float:
            return cst.Float(self.lines.segment(node))
        if kind is complex:
            return cst.Imaginary(self.lines.segment(node))
        return cst.Ellipsis() if node.value is ... else cst.Name(str(node.value))

    def _string(self, node: ast.Constant) -> cst.BaseExpression:
        """Return one literal, or several in a row, which ``ast`` joins."""
        text = self.lines.segment(node)
        start = next((i for i, c in enumerate(text) if c in "\"'"), len(text))
        quotes = text[start : start + 3]
        if quotes not in _TRIPLE:
            quotes = quotes[:1]
        if quotes and text.find(quotes, start + len(quotes)) == len(text) - len(quotes):
            return cst.SimpleString(text)
        return self.parsed(node)

    def _elements(self, nodes: Sequence[ast.expr]) -> list[cst.BaseElement]:
        return [
            cst.StarredElement(self.expression(n.value), whitespace_before_value=EMPTY)
            if type(n) is ast.Starred
            else cst.Element(self.expression(n))
            for n in nodes
        ]

    def _display(self, node: ast.Tuple | ast.List | ast.Set) -> Any:
        kind, brackets = _IN_BRACKETS[type(node)]
        return kind(self._elements(node.elts), *brackets)

    def _dict(self, node: ast.Dict) -> cst.Dict:
        elements: list[cst.BaseDictElement] = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                elements.append(cst.StarredDictElement(self.expression(value), _NO_COMMA, EMPTY))
            else:
                both = self.expression(key), self.expression(value)
                elements.append(cst.DictElement(*both, _NO_COMMA, EMPTY, SPACE))
        return cst.Dict(elements, _OPEN_CURLY, _CLOSE_CURLY)

    def _call(self, node: ast.Call) -> cst.Call:
        func = self.expression(node.func)
        args = self.arguments(node.args, node.keywords)
        return cst.Call(func, args, whitespace_after_func=EMPTY, whitespace_before_args=EMPTY)

    def arguments(self, values: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> list[Any]:
        """Return the arguments of a call or the bases of a class, in the order of the text."""
        if not keywords:
            return [self._positional(value) for value in values]
        if not values:
            return [self._keyword(keyword) for keyword in keywords]
        last, first = values[-1], keywords[0]
        if (last.lineno, last.col_offset) < (first.lineno, first.col_offset):
            return [*map(self._positional, values), *map(self._keyword, keywords)]
        both: list[ast.expr | ast.keyword] = [*values, *keywords]
        both.sort(key=lambda one: (one.lineno, one.col_offset))
        return [
            self._keyword(one) if isinstance(one, ast.keyword) else self._positional(one)
            for one in both
        ]

    def _positional(self, node: ast.expr) -> cst.Arg:
        star = type(node) is ast.Starred
        value = self.expression(node.value if star else node)  # type: ignore[attr-defined]
        return _argument(value, None, "*" if star else "")

    def _keyword(self, node: ast.keyword) -> cst.Arg:
        if node.arg is None:
            return _argument(self.expression(node.value), None, "**")
        return _argument(self.expression(node.value), cst.Name(node.arg), "")

    def _subscript(self, node: ast.Subscript) -> cst.Subscript:
        value = self.expression(node.value)
        index = node.slice
        items = index.elts if type(index) is ast.Tuple and self._is_bare(index) else [index]
        slices = [cst.SubscriptElement(self._slice(item)) for item in items]
        return cst.Subscript(
            value, slices, _OPEN_SQUARE, _CLOSE_SQUARE, whitespace_after_value=EMPTY
        )

    def _slice(self, node: ast.expr) -> cst.BaseSlice:
        if type(node) is ast.Slice:
            lower, upper = self.optional(node.lower), self.optional(node.upper)
            return cst.Slice(lower, upper, self.optional(node.step), COLON, COLON)
        if type(node) is ast.Starred:
            return cst.Index(self.expression(node.value), "*", EMPTY)
        return cst.Index(self.expression(node))

    def _is_bare(self, node: ast.Tuple) -> bool:
        """Return whether a tuple between brackets has no parentheses itself: ``x[a, b]``."""
        text = self.lines.segment(node)
        if not node.elts or not (text.startswith("(") and text.endswith(")")):
            return bool(node.elts)
        try:
            made = cst.parse_expression(text)  # ``(a), (b)`` begins and ends so, too
        except cst.ParserSyntaxError:
            return True
        return not (isinstance(made, cst.Tuple) and made.lpar)

    def _binary(self, node: ast.BinOp) -> cst.BinaryOperation:
        left, right = self.expression(node.left), self.expression(node.right)
        return cst.BinaryOperation(left, BINARY[type(node.op)], right, OPEN, CLOSE)

    def _boolean(self, node: ast.BoolOp) -> cst.BaseExpression:
        """``a and b and c``: flat to ``ast``, a chain that nests to the left in libcst."""
        operator = _AND if type(node.op) is ast.And else _OR
        first, *others = node.values
        made: cst.BaseExpression = self.expression(first)
        for value in others:
            made = cst.BooleanOperation(made, operator, self.expression(value), OPEN, CLOSE)
        return made

    def _unary(self, node: ast.UnaryOp) -> cst.UnaryOperation:
        operand = self.expression(node.operand)
        return cst.UnaryOperation(_UNARY[type(node.op)], operand, OPEN, CLOSE)

    def _compare(self, node: ast.Compare) -> cst.Comparison:
        left = self.expression(node.left)
        targets = [
            cst.ComparisonTarget(_COMPARISON[type(operator)], self.expression(operand))
            for operator, operand in zip(node.ops, node.comparators, strict=True)
        ]
        return cst.Comparison(left, targets, OPEN, CLOSE)

    def _conditional(self, node: ast.IfExp) -> cst.IfExp:
        test, body = self.expression(node.test), self.expression(node.body)
        spaces = SPACE, SPACE, SPACE, SPACE
        return cst.IfExp(test, body, self.expression(node.orelse), OPEN, CLOSE, *spaces)

    def _lambda(self, node: ast.Lambda) -> cst.Lambda:
        parameters = self.parameters(node.args)
        return cst.Lambda(parameters, self.expression(node.body), COLON, OPEN, CLOSE, SPACE)

    def _walrus(self, node: ast.NamedExpr) -> cst.NamedExpr:
        both = self.expression(node.target), self.expression(node.value)
        return cst.NamedExpr(*both, OPEN, CLOSE, SPACE, SPACE)

    def _yield_from(self, node: ast.YieldFrom) -> cst.Yield:
        given = cst.From(self.expression(node.value), EMPTY, SPACE)
        return cst.Yield(given, OPEN, CLOSE, SPACE)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Any:
        kind, brackets = _IN_BRACKETS[type(node)]
        element = self.expression(node.elt)
        return kind(element, self._loops(node.generators), *brackets)

    def _dict_of(self, node: ast.DictComp) -> cst.DictComp:
        both = self.expression(node.key), self.expression(node.value)
        loops = self._loops(node.generators)
        return cst.DictComp(*both, loops, _OPEN_CURLY, _CLOSE_CURLY, (), (), EMPTY, SPACE)

    def _loops(self, nodes: Sequence[ast.comprehension]) -> Any:
        """Return the ``for`` of a comprehension, each within the one before."""
        made = None
        for node in reversed(nodes):
            ifs = [cst.CompIf(self.expression(test), SPACE, SPACE) for test in node.ifs]
            made = cst.CompFor(
                self.expression(node.target),
                self.expression(node.iter),
                ifs,
                made,
                ASYNC if node.is_async else None,
                SPACE,
                SPACE,
                SPACE,
                SPACE,
            )
        return made

    def parameters(self, node: ast.arguments) -> cst.Parameters:
        """Return the parameters of a function or lambda."""
        plain = [*node.posonlyargs, *node.args]
        missing = len(plain) - len(node.defaults)
        defaults = [*[None] * missing, *node.defaults]
        made = [self._parameter(p, d, "") for p, d in zip(plain, defaults, strict=True)]
        only = [
            self._parameter(p, d, "")
            for p, d in zip(node.kwonlyargs, node.kw_defaults, strict=True)
        ]
        star: Any = cst.MaybeSentinel.DEFAULT
        if node.vararg is not None:
            star = self._parameter(node.vararg, None, "*")
        elif only:
            star = _STAR
        count = len(node.posonlyargs)
        return cst.Parameters(
            params=made[count:],
            star_arg=star,
            kwonly_params=only,
            star_kwarg=None if node.kwarg is None else self._parameter(node.kwarg, None, "**"),
            posonly_params=made[:count],
            posonly_ind=_SLASH if count else cst.MaybeSentinel.DEFAULT,
        )

    def _parameter(self, node: ast.arg, default: ast.expr | None, star: str) -> cst.Param:
        name = cst.Name(node.arg)
        self.ranges[id(name)] = packed_name_range(node)
        return cst.Param(
            name=name,
            annotation=self.annotation(node.annotation),
            equal=EQUAL if default is not None else cst.MaybeSentinel.DEFAULT,
            default=self.optional(default),
            star=star,
            whitespace_after_star=EMPTY,
            whitespace_after_param=EMPTY,
        )

    def annotation(self, node: ast.expr | None) -> cst.Annotation | None:
        """Return the annotation of a parameter, a variable or a return value."""
        if node is None:
            return None
        if type(node) is ast.Starred:  # ``*args: *Ts``
            raise UnconvertibleError("a starred annotation")
        return cst.Annotation(self.expression(node), SPACE, SPACE)

    _CONVERTERS: ClassVar[dict[type[ast.expr], Callable[[ExpressionConverter, Any], Any]]] = {
        ast.Name: lambda _self, node: cst.Name(node.id),
        ast.Attribute: _attribute,
        ast.Constant: _constant,
        ast.Tuple: _display,
        ast.List: _display,
        ast.Set: _display,
        ast.Dict: _dict,
        ast.Call: _call,
        ast.Subscript: _subscript,
        ast.BinOp: _binary,
        ast.BoolOp: _boolean,
        ast.UnaryOp: _unary,
        ast.Compare: _compare,
        ast.IfExp: _conditional,
        ast.Lambda: _lambda,
        ast.NamedExpr: _walrus,
        ast.Await: lambda self, node: cst.Await(self.expression(node.value), OPEN, CLOSE, SPACE),
        ast.Yield: lambda self, node: cst.Yield(self.optional(node.value), OPEN, CLOSE, SPACE),
        ast.YieldFrom: _yield_from,
        ast.ListComp: _comprehension,
        ast.SetComp: _comprehension,
        ast.GeneratorExp: _comprehension,
        ast.DictComp: _dict_of,
    }


def _argument(value: cst.BaseExpression, keyword: cst.Name | None, star: Any) -> cst.Arg:
    equal = cst.MaybeSentinel.DEFAULT if keyword is None else EQUAL
    return cst.Arg(value, keyword, equal, _NO_COMMA, star, EMPTY, EMPTY)


_STAR = cst.ParamStar()
_SLASH = cst.ParamSlash()
_OPEN_SQUARE, _CLOSE_SQUARE = cst.LeftSquareBracket(), cst.RightSquareBracket()
_OPEN_CURLY, _CLOSE_CURLY = cst.LeftCurlyBrace(), cst.RightCurlyBrace()
_IN_BRACKETS: dict[type[ast.expr], tuple[Callable[..., Any], tuple[Any, Any]]] = {
    ast.Tuple: (cst.Tuple, (OPEN, CLOSE)),
    ast.List: (cst.List, (_OPEN_SQUARE, _CLOSE_SQUARE)),
    ast.Set: (cst.Set, (_OPEN_CURLY, _CLOSE_CURLY)),
    ast.ListComp: (cst.ListComp, (_OPEN_SQUARE, _CLOSE_SQUARE)),
    ast.SetComp: (cst.SetComp, (_OPEN_CURLY, _CLOSE_CURLY)),
    ast.GeneratorExp: (cst.GeneratorExp, (OPEN, CLOSE)),
}
