"""Shapes of parameters that a function's docstring or first comment gives: ``x: (B, S, D)``."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import lru_cache

from embercoach.analysis.shapes.shape_annotations import (
    LONGEST,
    WrittenShape,
    commented_shape,
)

#: Lines of a docstring that are read.
MOST_LINES = 200
#: Words between a parameter's name and its shape that say that it is one.
_OF_SHAPE = ("shape", "shaped", "shape:", "array", "tensor", "mx.array", "size")


def described_shapes(
    function: ast.AST, names: frozenset[str], source: str
) -> dict[str, WrittenShape]:
    """Read the shapes of parameters from a function's docstring and the comments after it.

    Args:
        function: that has a body.
        names: of its parameters.
        source: of its file.
    """
    body = getattr(function, "body", None)
    if not isinstance(body, list) or not body:
        return {}
    found: dict[str, WrittenShape] = {}
    described = _docstring_lines(body[0])
    comments = _first_comments(function, body, source)
    for at, line in enumerate((*described, *comments)):
        if len(line) <= LONGEST and ("(" in line or "[" in line):
            # Further down, a parameter is described where its name begins a line.
            is_alone = 0 < at < len(described)
            for name, shape in _shapes_in(line, names, is_alone=is_alone):
                # One that is described in two ways is of neither for certain.
                known = found.setdefault(name, shape)
                if known.text != shape.text:
                    found[name] = replace(known, head=(), middle="", tail=())
    return {name: shape for name, shape in found.items() if shape.head or shape.tail}


def _docstring_lines(node: ast.stmt) -> list[str]:
    value = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
        return []
    return value.value.splitlines()[:MOST_LINES]


@lru_cache(maxsize=8)
def _lines(source: str) -> list[str]:
    return source.splitlines()


def _first_comments(function: ast.AST, body: list[ast.stmt], source: str) -> list[str]:
    """The lines of comments before a function's first statement, and after its docstring."""
    found: list[str] = []
    before = getattr(function, "lineno", 0)
    for node in body[:2]:
        lines = _lines(source)[before : node.lineno - 1]
        found += [text[1:] for line in lines[-MOST_LINES:] if (text := line.strip())[:1] == "#"]
        if not _docstring_lines(node):
            break
        before = node.end_lineno or node.lineno
    return found


def _shapes_in(
    line: str, names: frozenset[str], *, is_alone: bool
) -> list[tuple[str, WrittenShape]]:
    """The parameters that a line names, each with the shape after its name.

    ``is_alone``: one begins the line, or follows a comma or semicolon and precedes a colon.
    """
    found: list[tuple[str, WrittenShape]] = []
    listed: list[str] = []
    at, is_first = 0, True
    while at < len(line):
        end = at
        while end < len(line) and (line[end].isalnum() or line[end] == "_"):
            end += 1
        if end == at:
            at += 1
            continue
        name, before, after = line[at:end], line[:at].rstrip(), line[end:].lstrip("`* ")
        is_own = is_first or not is_alone or (before[-1:] in ",;." and after[:1] == ":")
        if (name in names and line[at - 1 : at] not in (".", "'", '"')) or (
            name in names and not at
        ):
            shape = _shape_after(line[end:], starts_line=is_first) if is_own else None
            if shape is not None:
                found += [(one, shape) for one in (*listed, name)]
                listed = []
            elif after[:1] == "," and (is_first or listed):
                listed.append(name)  # ``x, y: (B, S)``
        else:
            listed = []
        at, is_first = end, False
    return found


def _shape_after(text: str, *, starts_line: bool) -> WrittenShape | None:
    """The shape in ``: (B, S)``, `` (B, S)``, or ``: queries of shape (B, S)`` in its own line."""
    rest = text.lstrip("`* ")
    if starts_line and rest[:1] == "(" and _shape_of(rest) is None:
        rest = rest.partition(")")[2].lstrip()  # ``x (mx.array): (B, S)``
    direct = rest.lstrip(":= `")
    if direct[:1] in ("(", "["):
        return _shape_of(direct)
    start = min((at for at in map(rest.find, "([") if at >= 0), default=0)
    words = rest[1:start].lower().replace("`", " ").rstrip(" =:").split()
    if not starts_line or rest[:1] != ":" or not words or words[-1] not in _OF_SHAPE:
        return None
    return _shape_of(rest[start:])


def _shape_of(group: str) -> WrittenShape | None:
    """The shape that a text begins with, if it is one of several axes."""
    end = next((at for at, char in enumerate(group) if char in ")]"), 0) + 1
    rest = group[end:]
    if " or (" in rest or " or [" in rest:
        return None
    words = rest.lstrip(",;. ")
    is_other = words.startswith(("or ", "if ", "when ", "and (", "and ["))
    if not is_other and (rest[:1] in (",", ";", ".") or words.startswith("and ")):
        group = group[:end]  # what follows is of something else
    found = commented_shape(f"# {group}".encode())
    if found is None or not found.text.startswith("(") or "," not in found.text:
        return None
    return replace(found, is_described=True)
