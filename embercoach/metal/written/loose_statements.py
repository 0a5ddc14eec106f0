"""Statements at file scope: the text is a part of a function, such as the body of a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embercoach.metal.program.texts import Parsed
    from embercoach.metal.program.tree import SyntaxNode

_CONTROL = frozenset(
    {
        "if_statement",
        "for_statement",
        "for_range_loop",
        "while_statement",
        "do_statement",
        "switch_statement",
        "return_statement",
    }
)
#: In a statement of an expression; others, as a call, may be the use of a macro that declares.
_STORES = frozenset({"assignment_expression", "update_expression"})
#: Their contents are at file scope as well.
_CONDITIONS = frozenset(
    {"preproc_if", "preproc_ifdef", "preproc_elif", "preproc_elifdef", "preproc_else"}
)


def has_loose_statements(parsed: Parsed) -> bool:
    """Return whether a text at file scope has statements outside of functions."""
    pending = list(parsed.tree.parts)
    while pending:
        part = pending.pop()
        if part.kind in _CONDITIONS:
            pending.extend(part.parts)
        elif _is_statement(part):
            return True
    return False


def _is_statement(part: SyntaxNode) -> bool:
    if part.kind == "expression_statement":
        return any(inner.kind in _STORES for inner in part.inner)
    return part.kind in _CONTROL
