"""The shapes of a module's arrays, by the names that are assigned, to be shown."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from embercoach.analysis.shapes.arrays import ArrayShape, DType, ShapedArray
from embercoach.analysis.shapes.program import shapes_of
from embercoach.analysis.shapes.python_values import Options
from embercoach.analysis.shapes.size_integers import ANY_INT, Integer, SizeExpr

if TYPE_CHECKING:
    from embercoach.analysis.project.module import Module

#: How dtypes are written where there is little space, as jaxtyping and PyTorch's reports do.
SHORT_DTYPES = {
    "bool": "bool",
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    **{
        f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
    },
}


class AssignedShape(Struct, frozen=True):
    """An array that a name is bound to.

    Attributes:
        line: of the name, from 1.
        column: of the name's first character, from 0, in UTF-8 bytes as ``ast`` counts.
        end_column: after its last character.
        name: the name; empty for what a function returns, at its ``return``.
        shape: of the array.
        dtype: of the array.
        made_at: the line of the call or operation of this file that makes it; 0 where that is not
            known, or in another file.
    """

    line: int
    column: int
    end_column: int
    name: str
    shape: ArrayShape
    dtype: DType
    made_at: int

    @property
    def text(self) -> str:
        """``bf16[B, S, 8, 64]``; ``[B, ?]`` where the dtype is not known."""
        return written(self.shape, self.dtype)


def written(shape: ArrayShape, dtype: DType) -> str:
    """A shape and a dtype in one short word."""
    sizes = repr(shape)[1:-1].removesuffix(",")
    known = SHORT_DTYPES.get(dtype, "") if isinstance(dtype, str) else ""
    return f"{known}[{sizes}]"


def assigned_shapes(module: Module) -> tuple[AssignedShape, ...]:
    """The arrays of a module, in the order of the text; those of unknown shapes, too.

    What holds for all calls in sight is shown: different calls' sizes are one symbol.
    """
    machine = shapes_of(module, records=True)
    if machine is None or module.shape_source is None:
        return ()
    nodes = {id(node) for node in ast.walk(module.shape_source.tree)}
    found = [
        _assigned(node, name, array)
        for values in machine.records.values()
        for (node, name), value in values.items()
        if id(node) in nodes and (array := _array(value)) is not None
    ]
    found = _without_foreign_lines(found, _statement_lines(module.shape_source.tree))
    return tuple(sorted(found, key=lambda one: (one.line, one.column)))


def _without_foreign_lines(
    found: list[AssignedShape], ends: dict[int, tuple[int, int]]
) -> list[AssignedShape]:
    """The arrays without the lines of other files, which an array does not name.

    A line is of this file where a statement there assigns or returns an array that it makes.
    """
    made = {
        (one.made_at, one.text)
        for one in found
        if one.line in ends and ends[one.line][0] <= one.made_at <= ends[one.line][1]
    }
    return [one if (one.made_at, one.text) in made else replace(one, made_at=0) for one in found]


def _statement_lines(tree: ast.Module) -> dict[int, tuple[int, int]]:
    """By line: the first and the last one of its statement; of a block, those of its head."""
    found: dict[int, tuple[int, int]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            span = (node.lineno, max(node.lineno, _last_line(node)))
            for line in range(span[0], span[1] + 1):
                known = found.get(line, span)
                found[line] = (min(known[0], span[0]), max(known[1], span[1]))
    return found


def _last_line(node: ast.stmt) -> int:
    if isinstance(node, ast.Match):
        return node.subject.end_lineno or 0
    body = getattr(node, "body", None)
    return body[0].lineno - 1 if body else node.end_lineno or 0


def _array(value: Any) -> ShapedArray | None:
    """The array that a value is, if it is one unless it is ``None``."""
    if type(value) is Options:
        arrays = [option for option in value.values if option is not None]
        return arrays[0] if len(arrays) == 1 and type(arrays[0]) is ShapedArray else None
    return value if type(value) is ShapedArray else None


def _assigned(node: Any, name: str, array: ShapedArray) -> AssignedShape:
    # Not by the name's length: Python reads ``ﬁ`` as ``fi``.
    end = node.end_col_offset if name else node.col_offset + len("return")
    shape = array.shape
    head, tail = tuple(map(_shown, shape.head)), tuple(map(_shown, shape.tail))
    shown = ArrayShape(head, shape.middle, tail)
    return AssignedShape(node.lineno, node.col_offset, end, name, shown, array.dtype, array.line)


def _shown(size: Integer) -> Integer:
    """The size; an unknown one where it is one of several that have no name."""
    if isinstance(size, SizeExpr) and any(
        not one.is_named and (one.is_joined or one.name == "?") for one in size.symbols
    ):
        return ANY_INT
    return size


def is_known(shape: ArrayShape) -> bool:
    """Return whether a shape is fully known, in numbers and symbols."""
    return shape.rank is not None and ANY_INT not in shape.head
