"""Shapes that authors write: annotations of jaxtyping, and comments such as ``# (B, S, D)``."""

from __future__ import annotations

import ast
import io
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from embercoach.analysis.shapes.arrays import ArrayShape, AxesSymbol, DTypeSymbol, dtype_symbol
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Integer,
    add,
    floor_divide,
    multiply,
    subtract,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from embercoach.analysis.shapes.arrays import DType

#: The longest annotation or comment that is read.
LONGEST = 200


class WrittenShape(Struct, frozen=True):
    """A shape as it is written.

    Attributes:
        text: for messages, ``(B, S, D)``.
        head: the sizes before unknown axes, as expressions; None for one that is not checked.
        middle: the name of unknown axes, empty for ``...``; None where there are none.
        tail: the sizes after them.
        is_typed: whether it is an annotation, whose names have one size each in a call.
        is_described: whether it is from a description, which names sizes that the program does not.
    """

    text: str
    head: tuple[ast.expr | None, ...]
    middle: str | None = None
    tail: tuple[ast.expr | None, ...] = ()
    is_typed: bool = False
    is_described: bool = False

    def pairs(self, shape: ArrayShape) -> list[tuple[ast.expr | None, Integer]]:
        """The written sizes with those of a shape, as far as both are known."""
        if self.middle is None and shape.middle is None:
            return list(zip(self.head, shape.head, strict=False))
        ends = self.head if self.middle is None else self.tail
        sizes = shape.head if shape.middle is None else shape.tail
        after = zip(reversed(ends), reversed(sizes), strict=False)
        return [*zip(self.head, shape.head, strict=False), *after]

    def fits_rank(self, shape: ArrayShape) -> bool:
        """Return whether a shape may have as many axes."""
        least = len(self.head) + len(self.tail)
        if self.middle is None:
            return shape.least_rank <= least if shape.rank is None else shape.rank == least
        return shape.rank is None or shape.rank >= least

    def shape(
        self, size_of: Callable[[str], Integer], axes: Mapping[str, AxesSymbol]
    ) -> ArrayShape:
        """The shape where names have these sizes."""
        head, tail = (
            tuple(ANY_INT if size is None else evaluated(size, size_of) for size in part)
            for part in (self.head, self.tail)
        )
        if self.middle is None:
            return ArrayShape(head)
        return ArrayShape(head, axes.get(self.middle) or AxesSymbol(self.middle), tail)


def evaluated(size: ast.expr, size_of: Callable[[str], Integer]) -> Integer:
    """The integer of an expression of names and numbers."""
    if isinstance(size, ast.Constant):
        return size.value if type(size.value) is int else ANY_INT
    if isinstance(size, ast.Name):
        return size_of(size.id)
    if isinstance(size, ast.UnaryOp):
        return multiply(evaluated(size.operand, size_of), -1)
    assert isinstance(size, ast.BinOp)
    compute = _OPERATIONS[type(size.op)]
    return compute(evaluated(size.left, size_of), evaluated(size.right, size_of))


_OPERATIONS: dict[type[ast.operator], Callable[[Integer, Integer], Integer]] = {
    ast.Add: add,
    ast.Sub: subtract,
    ast.Mult: multiply,
    ast.FloorDiv: floor_divide,
    ast.Div: floor_divide,
}


def _parsed(text: str) -> ast.expr | None:
    """An expression of names, numbers and their sums, products and quotients; None for others."""
    try:
        found = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return found if _is_simple(found) else None


def _is_simple(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return type(node.op) in _OPERATIONS and _is_simple(node.left) and _is_simple(node.right)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _is_simple(node.operand)
    return isinstance(node, ast.Name) or type(getattr(node, "value", None)) is int


def _written(parts: list[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


# -- annotations -----------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def typed_shape(text: str) -> WrittenShape | None:
    """The shape of an annotation ``Float[mx.array, "*batch S D"]``."""
    if len(text) > LONGEST:
        return None
    parts: list[list[ast.expr | None]] = [[]]
    middle = None
    for token in text.split():
        size = token.rpartition("=")[2]
        name = size.lstrip("*#?")
        modifiers = size[: len(size) - len(name)]
        if size == "..." or "*" in modifiers:
            if middle is not None:
                return None
            middle = "" if size == "..." or name.startswith("_") or "#" in modifiers else name
            parts.append([])
        else:
            is_checked = not modifiers and not name.startswith("_")
            parts[-1].append(_parsed(name) if is_checked else None)
    tail = () if middle is None else tuple(parts[1])
    return WrittenShape(_written(text.split()), tuple(parts[0]), middle, tail, is_typed=True)


def typed_dtype(kind: str, name: str) -> DType:
    """The dtype of an annotation's class, such as ``Float32`` or ``Float``."""
    known = kind.lower()
    if known in _DTYPES:
        return known
    return dtype_symbol(DTypeSymbol(name, is_floating=kind == "Float"))


_DTYPES = frozenset(
    ["bool", "float16", "bfloat16", "float32", "float64", "complex64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


# -- comments --------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def _commented_lines(source: str) -> dict[int, bytes]:
    """The lines that may end with a comment about a shape, by their numbers."""
    if "# (" not in source and "# [" not in source:
        return {}
    lines = enumerate(io.StringIO(source, newline=None), 1)
    return {at: line.encode() for at, line in lines if "# (" in line or "# [" in line}


def comment_behind(source: str, node: ast.stmt) -> WrittenShape | None:
    """The shape in the comment after a statement."""
    line = _commented_lines(source).get(node.end_lineno or 0)
    return None if line is None else commented_shape(line[node.end_col_offset :])


def comment_of_parameter(source: str, parameter: ast.arg, end: ast.AST) -> WrittenShape | None:
    """The shape in the comment after a parameter that is alone in its line.

    ``end`` is its default, or the parameter.
    """
    line = _commented_lines(source).get(parameter.lineno)
    if line is None or getattr(end, "end_lineno", 0) != parameter.lineno:
        return None
    if line[: parameter.col_offset].strip():
        return None
    after = line[getattr(end, "end_col_offset", 0) :].lstrip()
    return commented_shape(after.removeprefix(b","))


@lru_cache(maxsize=1024)
def commented_shape(text: bytes) -> WrittenShape | None:
    """The shape of a comment ``# (B, S, D)``, if it is about nothing else."""
    if len(text) > LONGEST:
        return None
    comment = text.decode(errors="replace").strip()
    group = comment.removeprefix("#").lstrip()
    if group == comment or group[:1] not in ("(", "["):
        return None
    parts, rest = _split(group)
    if not _is_about_shape(parts, rest, group[0]):
        return None
    if not parts[-1]:
        parts.pop()  # ``(B,)``
    sizes: list[list[ast.expr | None]] = [[]]
    middle = None
    for part in parts:
        if part in ("...", "*", "…") or (part.startswith("*") and part[1:].isidentifier()):
            if middle is not None:
                return None
            middle = part.strip("*.…")
            sizes.append([])
            continue
        size = None if part in _UNKNOWN else _parsed(part.rstrip("'").rpartition("=")[2])
        if size is None and part not in _UNKNOWN:
            return None
        # What follows ``T`` in time, ``T'``, is not ``T``.
        sizes[-1].append(None if part.endswith("'") else size)
    tail = sizes[-1] if middle is not None else []
    return WrittenShape(_written(parts), tuple(sizes[0]), middle, tuple(tail))


_UNKNOWN = frozenset(("_", "?", "-1", "None"))


def _split(group: str) -> tuple[list[str], str]:
    """The parts of a group in brackets, and what follows it; no parts if it does not end."""
    depth = start = 0
    parts: list[str] = []
    for at, char in enumerate(group):
        if char in "([":
            depth += 1
            start = start or at + 1
        elif char in ")]":
            depth -= 1
        if (char == "," and depth == 1) or depth == 0:
            parts.append(group[start:at].strip())
            start = at + 1
        if depth == 0:
            return parts, group[at + 1 :]
    return [], ""


#: Words after a group that is not, or not alone, the shape at hand.
_OTHERS = frozenset(("or", "if", "when", "else", "for", "x", "and", "to", "unless", "in")) | {
    *("range", "interval", "order", "format", "tuple", "pair", "pairs")
}


def _is_about_shape(parts: list[str], rest: str, bracket: str) -> bool:
    """Return whether a group of a comment is a shape, and the only one."""
    if not parts or (rest and rest[0] not in " \t-:;,.") or any(one in rest for one in "([→"):
        return False
    if "->" in rest or "=>" in rest or (rest[:1] == "-" and rest[1:2].isdigit()):
        return False
    words = rest.replace(",", " ").split()
    if words and (words[0].lower() in _OTHERS or words[0][0] in "*+/@|&<>=%^"):
        return False
    if len(parts) == 1 and (bracket == "(" or len(parts[0]) > 2 or not parts[0].isupper()):
        return False
    if all(part.isdecimal() for part in parts):
        return bracket == "(" and "0" not in parts  # others list values, or are a range
    return True
