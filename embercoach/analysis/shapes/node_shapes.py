"""The inferred values of a module's expressions, by their nodes, and its arrays by their names."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from embercoach.analysis.shapes.arrays import (
    UNKNOWN,
    ArrayShape,
    AxesSymbol,
    DType,
    ShapedArray,
    weak_kind,
)
from embercoach.analysis.shapes.interpreter import MOST_RESULTS
from embercoach.analysis.shapes.program import (
    ANY_CALLER,
    MOST_VALUES,
    ValueMachine,
    Values,
    keep,
    run_program,
    shapes_of,
)
from embercoach.analysis.shapes.python_values import Options
from embercoach.analysis.shapes.size_integers import ANY_INT, Integer, SizeExpr
from embercoach.analysis.shapes.value_joins import Facts, shape_under
from embercoach.analysis.syntax.convert_expressions import packed_range

if TYPE_CHECKING:
    import libcst as cst

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
    """Return a shape and a dtype in one short word."""
    sizes = repr(shape)[1:-1].removesuffix(",")
    known = SHORT_DTYPES.get(dtype, "") if isinstance(dtype, str) else ""
    return f"{known}[{sizes}]"


def assigned_shapes(module: Module) -> tuple[AssignedShape, ...]:
    """Return the arrays of a module, in the order of the text; those of unknown shapes, too.

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
    """Return the arrays without the lines of other files, which an array does not name.

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
    """Return the array that a value is, if it is one unless it is ``None``."""
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
    """Return the size; an unknown one where it is one of several that have no name."""
    if isinstance(size, SizeExpr) and any(
        not one.is_named and (one.is_joined or one.name == "?") for one in size.symbols
    ):
        return ANY_INT
    return size


#: The sizes of an array's axes; None for those that are unknown.
Sizes = tuple[int | None, ...]


class ArrayAxes(NamedTuple):
    """The axes of an array or a number: their sizes, or only that there are some.

    sizes: None if their number is unknown.
    """

    sizes: Sizes | None
    has_some: bool = False


def shape_at(module: Module, node: cst.CSTNode) -> Sizes | None:
    """Return the shape of an array; None if an expression may be none, or have other axes."""
    found = value_at(module, node)
    return found.sizes if type(found) is ArrayAxes else None


def is_scalar(module: Module, node: cst.CSTNode) -> bool:
    """Return whether an expression is an array without axes."""
    return shape_at(module, node) == ()


def value_at(module: Module, node: cst.CSTNode, call: cst.CSTNode | None = None) -> Any:
    """Return the value that an expression has in all runs of it, or in those by a call.

    An integer, a string, ``ArrayAxes`` of arrays and other numbers, or a tuple of such values, also
    for a list. None if it is unknown.
    """
    values = values_by_call(module, node)
    if call is not None:
        span = module.parsed.converted.range_of(call)
        line = ANY_CALLER if span is None else span.line
        # Calls that pass the same are run once.
        called = {at: some for at, some in values.items() if at != ANY_CALLER}
        values = {line: values[line]} if line in called else called or values
    return _common([one for some in values.values() for one in some])


def values_by_call(module: Module, node: cst.CSTNode) -> dict[int, list[Any]]:
    """Return the values of an expression, by the line of the call that runs it; none if unknown."""
    place = (module.parsed.converted.ranges or {}).get(id(node))
    values = {} if place is None else _values(module).get(place, {})
    return {} if any(len(some) == MOST_VALUES for some in values.values()) else values


def returned_by(module: Module, function: cst.CSTNode) -> Any:
    """Return the value that a function returns, as ``value_at`` gives it."""
    found = _results(module)
    place = (module.parsed.converted.ranges or {}).get(id(function))
    results = [] if place is None else found.get(place, [])
    return None if len(results) > MOST_RESULTS else _common(results)


@lru_cache(maxsize=2)
def _results(module: Module) -> dict[int, list[Any]]:
    machine = shapes_of(module)
    if machine is None:
        return {}
    own = {id(node) for node in ast.walk(machine.file.tree)}
    return {
        packed_range(node): results  # type: ignore[arg-type]
        for node, results in machine.results.items()
        if id(node) in own
    }


@lru_cache(maxsize=2)
def _values(module: Module) -> dict[int, Values]:
    machine = shapes_of(module)
    if machine is None:
        return {}
    if not isinstance(machine, ValueMachine):
        machine = ValueMachine(machine.file, characters=len(module.source))
        run_program(machine, with_names=False)
    learned = Facts({}, machine.learned, {}, {})
    for values in machine.values.values():
        for line, some in values.items():
            if len(some) < MOST_VALUES:
                found: list[Any] = []
                for one in some:
                    if type(one) is ShapedArray:  # more may be learned of its axes later
                        one = replace(one, shape=shape_under(learned, one.shape))  # noqa: PLW2901
                    keep(found, one)
                values[line] = found
    return {packed_range(node): values for node, values in machine.values.items()}  # type: ignore[arg-type]


def _common(values: list[Any]) -> Any:
    """Return the common part of some values."""
    flat = [one for value in values for one in _options(value)]
    kinds = {tuple if type(one) is list else type(one) for one in flat}
    if kinds == {tuple}:
        if len({len(one) for one in flat}) > 1:
            return None
        if any(type(item) is AxesSymbol for one in flat for item in one):
            return None  # it stands for several items, or none
        return tuple(_common(list(items)) for items in zip(*flat, strict=True))
    if len(kinds) == 1 and kinds <= {int, str} and all(one == flat[0] for one in flat):
        return flat[0]
    axes = [_axes(one) for one in flat]
    return _common_axes([one for one in axes if one is not None]) if axes and all(axes) else None


def _common_axes(found: list[ArrayAxes]) -> ArrayAxes:
    shapes = [one.sizes for one in found if one.sizes is not None]
    has_some = all(one.has_some for one in found)
    if len(shapes) < len(found) or len(set(map(len, shapes))) > 1:
        return ArrayAxes(None, has_some)
    sizes = zip(*shapes, strict=True)
    return ArrayAxes(tuple(n[0] if len(set(n)) == 1 else None for n in sizes), has_some)


def _options(value: Any) -> tuple[Any, ...]:
    if type(value) is not Options:
        return (value,)
    return tuple(option for option in value.values if option is not None)


def _axes(value: Any) -> ArrayAxes | None:
    if type(value) is ShapedArray:
        known = value.shape.sizes
        sizes = None if known is None else tuple(n if type(n) is int else None for n in known)
        return ArrayAxes(sizes, value.shape.least_rank > 0)
    return None if value is UNKNOWN or weak_kind(value) is None else ArrayAxes(())
