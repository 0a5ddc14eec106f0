"""Parsing a text again that changed a little, as at each keystroke in an editor.

Python's own parser, which is quick, tells where top-level statements begin and end. libcst parses
each as a module of its own, and those whose text is known from before are taken as they are: its
nodes know no positions. Whatever is doubtful is left to a parse of the whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.parse import parse, skeleton

if TYPE_CHECKING:
    import ast
    from collections.abc import Mapping, Sequence

#: Top-level statements as modules of their own, by their texts; of equal ones there are several.
Parts = dict[str, list[cst.Module]]


class Reparsed(NamedTuple):
    """The tree of a text, and the parts that the next text may have in common with it."""

    tree: cst.Module
    parts: Parts


def reparse(source: str, before: Mapping[str, Sequence[cst.Module]]) -> Reparsed | None:
    """Parse what is new in a text.

    Args:
        source: the text.
        before: the parts of an earlier one.

    Returns:
        None where the text does not fall into parts, or does not parse. White space and comments
        between statements may belong to another node than in a tree made at once.
    """
    # Python's parser counts lines as ``split`` does here, but for other line ends.
    outline = None if "\r" in source or source.startswith("\ufeff") else skeleton(source)
    if outline is None:
        return None
    known = {text: list(parts) for text, parts in before.items()}
    parts: list[cst.Module] = []
    found: Parts = {}
    for text in _texts(source, _last_lines(outline)):
        unused = known.get(text)
        try:
            part = unused.pop() if unused else parse(text)
        except cst.ParserSyntaxError:  # a backslash may join more lines than the statement's own
            return None
        parts.append(part)
        found.setdefault(text, []).append(part)
    tree = _joined(parts)
    return None if tree is None else Reparsed(tree, found)


def _last_lines(outline: ast.Module) -> list[int]:
    """The last line of each top-level statement, of several that share lines the last one's."""
    found: list[int] = []
    for statement in outline.body:
        decorators = getattr(statement, "decorator_list", ())
        first = min(node.lineno for node in (statement, *decorators))
        if found and first <= found[-1]:
            found.pop()
        found.append(statement.end_lineno or first)
    return found


def _texts(source: str, last_lines: Sequence[int]) -> list[str]:
    """The text of each statement with what stands above it; the last one's goes to the end."""
    lines = source.split("\n")
    starts = [0, *last_lines[:-1]]
    inner = zip(starts[:-1], last_lines[:-1], strict=True)
    texts = ["\n".join(lines[start:end]) + "\n" for start, end in inner]
    return [*texts, "\n".join(lines[starts[-1] :])]


def _joined(parts: Sequence[cst.Module]) -> cst.Module | None:
    """One module of the parts, where they agree on what a module has once."""
    body: list[cst.SimpleStatementLine | cst.BaseCompoundStatement] = []
    indents = set()
    for part in parts:
        if not part.body or (part.footer and part is not parts[-1]):
            return None
        first, *others = part.body
        if part.header:
            above = (*part.header, *first.leading_lines)
            first = first.with_changes(leading_lines=above)
        body += (first, *others)
        if any(not isinstance(statement, cst.SimpleStatementLine) for statement in part.body):
            indents.add(part.default_indent)
    if len(indents) > 1:
        return None  # blocks that are indented as usual don't say how
    last = parts[-1]
    return cst.Module(
        body=body,
        footer=last.footer,
        default_indent=indents.pop() if indents else last.default_indent,
        has_trailing_newline=last.has_trailing_newline,
    )
