"""Inferred shapes against those that the arrays of running models have."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import mlx.core as mx

from embercoach.analysis.project.project import Project
from embercoach.analysis.shapes.node_shapes import AssignedShape, assigned_shapes
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Integer,
    SizeExpr,
    SizeSymbol,
    substituted,
)
from tests.analysis.shapes.models import grouped_queries, selective_scan
from tests.analysis.shapes.test_inferred_programs import is_named
from xlstm_kernels.nn import mLSTMLayer, mLSTMLayerConfig, sLSTMLayer, sLSTMLayerConfig

ROOT = Path(__file__).parents[3]
MODELS = Path(grouped_queries.__file__).parent
PROJECT = Project()
#: An array that a name is bound to in an invocation: its line, the name, its dtype and shape.
Row = tuple[int, str, str, tuple[int, ...]]


def recorded(folder: Path, run: Callable[[], object]) -> list[tuple[Path, list[Row]]]:
    """The arrays of each invocation of a function of the folder's files."""
    found: list[tuple[Path, list[Row]]] = []

    def start(frame: FrameType, event: str, arg: object) -> Any:
        path = Path(frame.f_code.co_filename)
        if folder not in path.parents or frame.f_code.co_name.startswith("<"):
            return None
        rows: list[Row] = []
        seen, line = dict(frame.f_locals), frame.f_lineno
        found.append((path, rows))

        def local(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal line
            for name, value in frame.f_locals.items():
                if isinstance(value, mx.array) and seen.get(name) is not value:
                    seen[name] = value
                    dtype = str(value.dtype).removeprefix("mlx.core.")
                    rows.append((line, name, dtype, value.shape))
            line = frame.f_lineno
            return local

        return local

    before = sys.gettrace()
    sys.settrace(start)
    try:
        run()
    finally:
        sys.settrace(before)
    return found


@cache
def inferred(path: Path) -> dict[tuple[int, str], AssignedShape]:
    found = assigned_shapes(PROJECT.open(path, path.read_text()))
    return {(one.line, one.name): one for one in found}


@cache
def loop_lines(path: Path) -> set[int]:
    """Lines of loops, whose rounds have different numbers for one symbol."""
    loops = (n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.For | ast.While))
    return {line for one in loops for line in range(one.lineno, (one.end_lineno or 0) + 1)}


def contradictions(path: Path, rows: list[Row]) -> Iterator[str]:
    """What is inferred and does not hold in an invocation."""
    sizes: list[tuple[Row, Integer, int]] = []
    for row in rows:
        line, name, dtype, shape = row
        one = inferred(path).get((line, name))
        if one is None:
            continue
        least = one.shape.least_rank
        if len(shape) != least if one.shape.middle is None else len(shape) < least:
            yield f"{path.name}:{line} {name} is {shape}, not {one.text}"
            continue
        if isinstance(one.dtype, str) and one.dtype != dtype:
            yield f"{path.name}:{line} {name} is {dtype}, not {one.text}"
        head, tail = one.shape.head, one.shape.tail
        ends = (*shape[: len(head)], *shape[len(shape) - len(tail) :])
        sizes += [(row, n, size) for n, size in zip(head + tail, ends, strict=True)]
    values: dict[SizeSymbol, Integer] = {}
    for row, n, size in sizes:
        if isinstance(n, SizeExpr) and n.symbol and is_named(n) and row[0] not in loop_lines(path):
            values.setdefault(n.symbol, size)
    for row, n, size in sizes:
        known = n if row[0] in loop_lines(path) else substituted(n, values)
        if is_named(n) and isinstance(known, int) and known != size:
            yield f"{path.name}:{row[0]} {row[1]} is {row[3]}, {known} by {n} != {size}"


def run_models() -> None:
    for sizes in ((24, 4, 2, 6, 2), (32, 8, 2, 10, 3)):
        grouped_queries.Model(*sizes)(mx.zeros((2, 7), mx.int32))
    for dims, states, steps in ((12, 5, 6), (40, 3, 4)):
        selective_scan.Scan(dims, states)(mx.zeros((2, steps, dims)))


def run_pack() -> None:
    x = mx.zeros((2, 9, 32))
    matrix = mLSTMLayer(mLSTMLayerConfig(hidden_size=32, num_heads=2))
    matrix(x[:, :1], matrix(x)[1])
    scalar = sLSTMLayer(sLSTMLayerConfig(hidden_size=32, num_heads=4))
    scalar(x[:, :1], scalar(x)[1])


def test_models() -> None:
    calls = recorded(MODELS, run_models)
    assert [text for path, rows in calls for text in contradictions(path, rows)] == []
    places = {(path, line, name) for path, rows in calls for line, name, *_ in rows}
    found = [inferred(path).get((line, name)) for path, line, name in places]
    ranked = [one.shape for one in found if one is not None and one.shape.rank is not None]
    sized = [one for one in ranked if all(n is not ANY_INT and is_named(n) for n in one.head)]
    typed = [one for one in found if one is not None and one.dtype is not None]
    assert len(places) > 30
    assert len(ranked) >= 0.85 * len(places)
    assert len(sized) >= 0.6 * len(places)
    assert len(typed) >= 0.6 * len(places)


def test_layers_of_the_kernel_pack() -> None:
    mx.disable_compile()
    try:
        calls = recorded(ROOT / "xlstm_kernels", run_pack)
    finally:
        mx.enable_compile()
    assert len({path for path, _ in calls}) > 20
    assert sorted({text for path, rows in calls for text in contradictions(path, rows)}) == []
