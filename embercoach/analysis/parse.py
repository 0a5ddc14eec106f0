"""Parsing with libcst, without checking again what the parser has just built."""

from __future__ import annotations

import ast
from contextlib import contextmanager
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

import libcst as cst
from libcst._nodes.base import CSTNode

if TYPE_CHECKING:
    from collections.abc import Iterator

_validate = CSTNode.__post_init__
_Whitespace = cst.SimpleWhitespace
_Newline = cst.Newline


def _skip_validation(self: CSTNode) -> None:
    """Stands in for the validation of a node that comes straight from the parser."""


class TooDeepError(Exception):
    """Source that nests more deeply than Python itself allows; libcst's parser could crash."""


#: Python itself takes 200 open brackets.
MAX_BRACKETS = 200
#: What chains expressions and statements, each link within the one before. libcst's parser overruns
#: the stack at several thousand of them.
_LINKS = (*".([+-*/%@&|^~", "<<", ">>", "not", "and", "or", "if", "lambda", "await")
MAX_DEPTH = 3_000


def outline_of(source: str) -> ast.Module | None:
    """The tree of Python's own parser, which takes a tenth of libcst's time.

    None where it can't read the source, as with syntax newer than the running Python.
    """
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def refuse_deep_nesting(source: str) -> None:
    """Let Python's parser, which has limits, judge what looks deeply nested.

    Raises:
        TooDeepError: Python refuses the source for its nesting.
    """
    if not _may_be_deep(source):
        return
    try:
        tree = ast.parse(source)
    except (MemoryError, RecursionError) as error:
        raise TooDeepError("expressions are nested too deeply") from error
    except SyntaxError as error:
        if "too many" in (error.msg or "") or "too complex" in (error.msg or ""):
            raise TooDeepError(error.msg) from error
    except ValueError:
        return  # libcst tells what is wrong
    else:
        if _is_deep(tree, source):
            raise TooDeepError("expressions are nested too deeply")


def _is_deep(tree: ast.Module, source: str) -> bool:
    """Whether statements nest, or one expression does, beyond the limit.

    A level takes a character at least: only long expressions are looked into.
    """
    ends = [0, *accumulate(len(line) + 1 for line in source.split("\n"))]
    pending: list[tuple[ast.AST, int]] = [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        if depth > MAX_DEPTH:
            return True
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr):
                pending.append((child, depth + 1))
            elif ends[(child.end_lineno or child.lineno)] - ends[
                child.lineno - 1
            ] > MAX_DEPTH and _expression_is_deep(child):
                return True
    return False


def _expression_is_deep(expression: ast.expr) -> bool:
    pending: list[tuple[ast.AST, int]] = [(expression, 0)]
    while pending:
        node, depth = pending.pop()
        if isinstance(node, ast.BoolOp):
            depth += len(node.values)  # flat to Python, a chain to libcst
        if depth > MAX_DEPTH:
            return True
        pending.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
    return False


def _may_be_deep(source: str) -> bool:
    """Whether a count of brackets and operators, in strings and comments too, looks deep."""
    if any(source.count(link) > MAX_DEPTH // 2 for link in _LINKS):
        return True
    # Brackets open before a paragraph, and those that it opens itself, bound the depth in it.
    before = 0
    for paragraph in source.split("\n\n"):
        opened = sum(map(paragraph.count, "([{"))
        if before + opened > MAX_BRACKETS:
            return True
        before = max(0, before + opened - sum(map(paragraph.count, ")]}")))
    return False


@contextmanager
def unvalidated() -> Iterator[None]:
    """Build nodes without validation, as those of a parser need none; equal spaces are one node.

    libcst validates each node on construction, those that its own parser builds too; that is a
    sixth of the time of parsing. Nodes made later, for fixes, are validated as ever. Nearly half of
    all nodes are spaces, mostly empty ones: they are made once a file, which saves a ninth.
    """
    CSTNode.__post_init__ = _skip_validation  # type: ignore[method-assign]
    cst.SimpleWhitespace = lru_cache(maxsize=256)(_Whitespace)  # type: ignore[misc, assignment]
    cst.Newline = lru_cache(maxsize=8)(_Newline)  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        cst.Newline = _Newline  # type: ignore[misc]
        cst.SimpleWhitespace = _Whitespace  # type: ignore[misc]
        CSTNode.__post_init__ = _validate  # type: ignore[method-assign]


def parse(source: str) -> cst.Module:
    """The tree of a module with all its trivia.

    Raises:
        libcst.ParserSyntaxError: the source does not parse.
    """
    with unvalidated():
        return cst.parse_module(source)
