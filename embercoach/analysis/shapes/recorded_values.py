"""Values that are recorded to be shown: what holds for all calls, and how sizes are called."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embercoach.analysis.shapes.arrays import ArrayShape, AxesSymbol, ShapedArray
from embercoach.analysis.shapes.python_values import FunctionValue, options_of
from embercoach.analysis.shapes.requirements import is_named
from embercoach.analysis.shapes.size_integers import SizeExpr, rename

if TYPE_CHECKING:
    from embercoach.analysis.shapes.interpreter import Machine, SourceFile
    from embercoach.analysis.shapes.path_states import Heap


#: Files next to a module that are read for what they import of it, and their bytes.
MOST_BESIDE, LARGEST_BESIDE = 200, 1 << 20


def imported_beside(file: SourceFile) -> frozenset[str]:
    """Get the names that files of the same folder import from a file: they pass what they like."""
    found: set[str] = set()
    try:
        beside = sorted(file.path.parent.glob("*.py"))[:MOST_BESIDE]
        named = [path for path in beside if path != file.path and _mentions(path, file.path.stem)]
    except OSError:
        return frozenset()
    for path in named:
        other = file.find(path.stem, 1)
        for node in () if other is None else other.tree.body:
            if isinstance(node, ast.ImportFrom) and other is not None:
                source = other.find(node.module or "", node.level)
                if source is not None and source.path == file.path:
                    found |= {alias.name for alias in node.names}
    return frozenset(found)


def _mentions(path: Path, name: str) -> bool:
    """Return whether a file of usual size contains a name."""
    if path.is_symlink() or path.stat().st_size > LARGEST_BESIDE:
        return False
    return name.encode() in path.read_bytes()


def is_special(machine: Machine, function: FunctionValue, names: dict[str, Any]) -> bool:
    """Return whether callers in other files may pass arrays of other shapes than this call's.

    Here that has a batch of 1 and sizes without names, or fixed ones next to unknown axes.
    """
    is_private = function.name.startswith("_") and function.name != "__call__"
    values = list(names.values())[function.cls is not None :]
    first = machine.heap.value(values[0]) if values else None
    if type(first) is not ShapedArray or is_private or isinstance(function.node, ast.Lambda):
        return False
    head, tail = first.shape.head, first.shape.tail
    if first.shape.middle is not None:
        return any(type(n) is int and n > 1 for n in (*head, *tail))
    return (
        bool(head) and type(head[0]) is int and not all(type(n) is int or is_named(n) for n in head)
    )


def learn_before_joins(heap: Heap) -> None:
    """Learn what arrays were before paths joined, from what is learned of the join.

    That holds on the path of each alone: where values of one path are looked at.
    """
    pending = list(heap.facts.axes)
    while pending:
        axes = pending.pop()
        if axes.joined is None:
            continue
        *parts, tail = axes.joined
        whole = heap.shape(ArrayShape((), axes, tail)).sizes
        for part in () if whole is None else map(heap.shape, parts):
            first, last = len(part.head), len(whole or ()) - len(part.tail)
            if part.middle is not None and whole is not None and first <= last:
                heap.facts.axes[part.middle] = ArrayShape(whole[first:last])
                pending.append(part.middle)


def name_axes(values: Iterable[Any]) -> None:
    """Call sizes that the program does not name by their axes, ``x.1``, if the array is given."""
    for value in values:
        for array in options_of(value):
            shape = array.shape if type(array) is ShapedArray else ArrayShape()
            for size in (*shape.head, *shape.tail):
                for one in size.symbols if type(size) is SizeExpr else ():
                    if type(one.place) is AxesSymbol and one.place.is_given and not one.is_named:
                        rename(one, one.name)
