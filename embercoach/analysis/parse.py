"""Parsing with libcst, without checking again what the parser has just built."""

from __future__ import annotations

import libcst as cst
from libcst._nodes.base import CSTNode


def _skip_validation(node: CSTNode) -> None:
    """Stands in for the validation of a node that comes straight from the parser."""


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
