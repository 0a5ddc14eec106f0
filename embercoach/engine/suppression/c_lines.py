"""The physical lines of Metal and Objective-C++: comments, statements, strings."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING

from embercoach.engine.languages import METAL, Language
from embercoach.engine.suppression.logical_lines import Comment, PhysicalLines
from embercoach.fixes.source_file import LineIndex

if TYPE_CHECKING:
    from embercoach.metal.syntax import Syntax

#: Statements that a comment on their last line suppresses; of one with a body, its head.
_STATEMENTS = frozenset(
    {
        "alias_declaration",
        "case_statement",
        "declaration",
        "do_statement",
        "expression_statement",
        "field_declaration",
        "for_range_loop",
        "for_statement",
        "function_definition",
        "if_statement",
        "parameter_declaration",
        "preproc_def",
        "preproc_function_def",
        "return_statement",
        "struct_specifier",
        "switch_statement",
        "template_declaration",
        "while_statement",
    }
)
_BODIES = frozenset({"compound_statement", "field_declaration_list"})
_LONE_RETURN = re.compile(r"\r(?!\n)")
_STRINGS = frozenset({"raw_string_literal", "string_literal", "concatenated_string"})


def read_c_lines(source: str, language: Language) -> PhysicalLines:
    """How a file's lines belong together. What the grammar doubts has lines all the same."""
    # A carriage return alone ends a line to Clang, though not to the grammar.
    syntax = _syntax(_LONE_RETURN.sub("\n", source), language)
    index = LineIndex(source)
    lines = PhysicalLines(open_ended=_ends(source, index))
    code: set[int] = set()
    # In the order of the text, where the first one after a statement's begin is its own, or none.
    bodies = [syntax.place(node).start for node in syntax.nodes if node.type in _BODIES]
    for node in syntax.nodes:
        place = syntax.place(node)
        first, last = index.place(place.start)[0], index.place(place.end)[0]
        if node.type == "comment":
            _add_comment(lines, source[place.start : place.end], index.place(place.start), index)
            lines.open_ended.difference_update(range(first, last))
            continue
        if node.type in _STATEMENTS:
            at = bisect_left(bodies, place.start)
            head = min(place.end, bodies[at]) if at < len(bodies) else place.end
            lines.logical.append((first, index.place(head)[0]))
        elif node.type in _STRINGS and last > first:
            lines.strings.append((first, last))
            if node.type != "concatenated_string":
                lines.open_ended.difference_update(range(first, last))
        if node.child_count == 0 and place.end > place.start:
            code.update((first, last))
    lines.code = sorted(code)
    return lines


def _syntax(source: str, language: Language) -> Syntax:
    if language == METAL:
        from embercoach.metal.syntax import parse_unit

        return parse_unit(source)
    from embercoach.metal.objective_c import parse

    return parse(source).syntax


def _ends(source: str, index: LineIndex) -> set[int]:
    """The lines that do not end with a backslash."""
    rows = range(1, len(index.starts) + 1)
    return {row for row in rows if not index.line(row).endswith("\\")}


def _add_comment(lines: PhysicalLines, text: str, place: tuple[int, int], index: LineIndex) -> None:
    row, column = place
    if text.startswith("//") and "\n" not in text:
        alone = not index.line(row)[: column - 1].strip()
        lines.comments.append(Comment(row, column, text.partition("\r")[0], alone))
