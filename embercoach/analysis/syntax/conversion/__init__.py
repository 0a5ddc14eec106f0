"""Libcst trees without trivia, built from the trees of Python's own parser.

``ast`` parses ten times as fast as libcst. The analysis needs libcst's kinds of nodes, but neither
white space nor comments, and those make up two thirds of a tree. `convert` builds the nodes that
the analysis reads; `embercoach.analysis.syntax.source_tree` parses single statements with libcst
where exact text is needed.
"""

from __future__ import annotations

from embercoach.analysis.syntax.conversion.convert_expressions import (
    Converted,
    SourceLines,
    UnconvertibleError,
)
from embercoach.analysis.syntax.conversion.convert_statements import convert

__all__ = ["Converted", "SourceLines", "UnconvertibleError", "convert"]
