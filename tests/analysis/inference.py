"""Ask the inference what expressions hold: sources mark them ``reveal(<expression>)``.

Values are shown in a short notation, so that a test is one line:

    array, array[float16]         an mx.array, of a known dtype
    int, int 3, float 0.5         a Python number, of a known value
    str, 'text', bytes            text and bytes
    list[array], tuple(array, int 3), shape[int]
    dict[array], {'a': array}     of unknown and of known keys
    numpy, numpy[float], numpy scalar[int], torch
    dtype[float16], dtype
    mlx.nn.Linear(), Net()        instances; ``class Net``, ``def f``, ``builtins.len`` the things
    a | b                         a union, in alphabetical order
    ?                             unknown
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import libcst as cst

from embercoach.analysis.evaluate.dispatch import EVALUATORS, evaluate
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.project.driver import analyse_module
from embercoach.analysis.project.module import Module
from embercoach.analysis.project.project import Project
from embercoach.analysis.values import lattice as v
from embercoach.analysis.values.facts import Fact
from embercoach.analysis.values.lattice import Torch, any_item

PRELUDE = """\
import mlx.core as mx
import mlx.nn as nn
import numpy as np
import torch
"""


def module_of(
    source: str,
    *,
    prelude: str = PRELUDE,
    path: Path = Path("/nowhere/program.py"),
    files: Mapping[str, str] | None = None,
) -> Module:
    """An analysed module. ``files`` are written next to it first; their names are relative."""
    for name, text in (files or {}).items():
        other = path.parent / name
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_text(textwrap.dedent(text), encoding="utf-8")
    module = Project().open(path, prelude + textwrap.dedent(source))
    analyse_module(module)
    return module


def values_of(source: str, **options: object) -> list[v.Value]:
    """What the ``reveal`` calls of a source hold where facts are recorded, in source order."""
    with _spying() as seen:
        module = module_of(source, **options)  # type: ignore[arg-type]
    order = {node: index for index, node in enumerate(_reveals(module.tree))}
    return [seen[node] for node in sorted(seen, key=order.__getitem__)]


def value_of(source: str, **options: object) -> v.Value:
    """The value of the one ``reveal`` of a source."""
    (value,) = values_of(source, **options)
    return value


def revealed(source: str, **options: object) -> str:
    """The one ``reveal`` of a source, shown."""
    return shown(value_of(source, **options))


def all_revealed(source: str, **options: object) -> list[str]:
    """All reveals of a source, shown."""
    return [shown(value) for value in values_of(source, **options)]


def facts_of(source: str, kind: type[Fact] = Fact, **options: object) -> list[Fact]:
    """The facts of one kind that a source yields."""
    module = module_of(source, **options)  # type: ignore[arg-type]
    return [fact for fact in module.facts() if isinstance(fact, kind)]


def _reveals(tree: cst.CSTNode) -> Iterator[cst.Call]:
    pending = [tree]
    while pending:
        node = pending.pop()
        if _is_reveal(node):
            assert isinstance(node, cst.Call)
            yield node
        pending.extend(reversed(node.children))


def _is_reveal(node: cst.CSTNode) -> bool:
    return (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Name)
        and node.func.value == "reveal"
    )


@contextmanager
def _spying() -> Iterator[dict[cst.CSTNode, v.Value]]:
    """Watch the evaluation of ``reveal(...)``; a call of it yields its argument."""
    seen: dict[cst.CSTNode, v.Value] = {}
    real = EVALUATORS[cst.Call]

    def spy(frame: Frame, node: cst.Call) -> v.Value:
        if not _is_reveal(node):
            return real(frame, node)
        value = evaluate(frame, node.args[0].value)
        if frame.record:
            seen[node] = value
        return value

    EVALUATORS[cst.Call] = spy
    try:
        yield seen
    finally:
        EVALUATORS[cst.Call] = real


def shown(value: v.Value) -> str:
    """A value in the notation above."""
    return _SHOWN[type(value)](value)


def _within(name: str, detail: object) -> str:
    return name if detail is None else f"{name}[{detail}]"


def _number(value: v.Number) -> str:
    return value.kind if value.const is None else f"{value.kind} {value.const}"


def _string(value: v.Str) -> str:
    return "str" if value.text is None else repr(value.text)


def _sequence(value: v.Sequence) -> str:
    if value.items is None:
        return f"{value.kind}[{shown(any_item(value))}]"
    return f"{value.kind}({', '.join(map(shown, value.items))})"


def _dict(value: v.Dict) -> str:
    if not value.known:
        return f"dict[{shown(value.item)}]"
    return "{" + ", ".join(f"{k!r}: {shown(o)}" for k, o in value.known) + "}"


_SHOWN: dict[type, Callable[..., str]] = {
    v.Unknown: lambda value: "?",
    v.NoneValue: lambda value: "None",
    v.Array: lambda value: _within("array", value.dtype),
    v.Number: _number,
    v.Str: _string,
    v.Bytes: lambda value: "bytes",
    v.Sequence: _sequence,
    v.Dict: _dict,
    v.Tree: lambda value: "tree",
    v.Numpy: lambda value: _within("numpy scalar" if value.scalar else "numpy", value.kind),
    Torch: lambda value: "torch",
    v.DType: lambda value: _within("dtype", value.name),
    v.Symbol: lambda value: value.name,
    v.LibraryObject: lambda value: f"{value.cls}()",
    v.Callable: lambda value: f"callable -> {shown(value.result)}",
    v.Function: lambda value: f"def {value.info.qualified_name}",
    v.Transformed: lambda value: f"{value.transform}({shown(value.inner)})",
    v.Class: lambda value: f"class {value.info.name}",
    v.Instance: lambda value: f"{value.info.name}()",
    v.Super: lambda value: f"super of {value.info.name}",
    v.ModuleRef: lambda value: f"module {value.module.path.stem}",
    v.Kernel: lambda value: "kernel",
    v.ArrayAt: lambda value: "at",
    v.BoundMember: lambda value: f"{shown(value.owner)}.{value.name}",
    v.Union: lambda value: " | ".join(sorted(map(shown, value.options))),
}
