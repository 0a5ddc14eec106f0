"""Parsing with libcst, without checking again what the parser has just built."""

from __future__ import annotations

import ast
import contextlib

import libcst as cst
from libcst._nodes.base import CSTNode


def _skip_validation(node: CSTNode) -> None:
    """Stands in for the validation of a node that comes straight from the parser."""


class TooDeep(Exception):
    """Source that nests more deeply than Python itself allows; libcst's parser could crash."""


def skeleton(source: str) -> ast.Module | None:
    """The tree of Python's own parser, which is quick and knows where statements start.

    None where it can't read the source, as with syntax newer than the running Python.

    Raises:
        TooDeep: Python refuses the source for its nesting.
    """
    with contextlib.suppress(SyntaxError, ValueError):
        try:
            return ast.parse(source)
        except (MemoryError, RecursionError) as error:
            raise TooDeep("expressions are nested too deeply") from error
        except SyntaxError as error:
            if "too many" in (error.msg or "") or "too complex" in (error.msg or ""):
                raise TooDeep(error.msg) from error
            raise
    return None


def parse(source: str) -> cst.Module:
    """The tree of a module.

    libcst validates each node on construction, those that its own parser builds too; that is a
    sixth of the time of parsing. Nodes made later, for fixes, are validated as ever.

    Raises:
        libcst.ParserSyntaxError: the source does not parse.
    """
    validation = CSTNode.__post_init__
    CSTNode.__post_init__ = _skip_validation  # type: ignore[method-assign]
    try:
        return cst.parse_module(source)
    finally:
        CSTNode.__post_init__ = validation  # type: ignore[method-assign]
