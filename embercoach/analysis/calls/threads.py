"""Functions that run in other threads: targets of ``threading.Thread``, executors and asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.transforms import mark
from embercoach.analysis.values.lattice import UNKNOWN, Function, Transformed, Value

if TYPE_CHECKING:
    from embercoach.analysis.evaluate.frame import Frame
    from embercoach.analysis.facts.facts import Argument

#: Functions that take one: its keyword, and its place.
_STARTERS = {
    "threading.Thread": ("target", 1),
    "threading.Timer": ("function", 1),
    "asyncio.to_thread": ("func", 0),
}
#: Methods that take one, and its place: of an executor whose type is not known, and of a loop.
_METHODS = {"submit": 0, "map": 0, "run_in_executor": 1}
_THREADS, _PROCESSES = "ThreadPoolExecutor", "ProcessPoolExecutor"


def start(name: str, frame: Frame, node: cst.Call, arguments: tuple[Argument, ...]) -> Value:
    """``threading.Thread(target=f)`` runs ``f`` in another thread."""
    keyword, index = _STARTERS[name]
    positional = [a.value for a in arguments if a.keyword is None and not a.star]
    named = next((a.value for a in arguments if a.keyword == keyword), None)
    _mark(frame, node, named or (positional[index] if len(positional) > index else UNKNOWN))
    return UNKNOWN


def submit(frame: Frame, node: cst.Call, arguments: tuple[Argument, ...]) -> None:
    """``executor.submit(f, x)`` does too, in a file that makes executors of threads alone."""
    name = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
    index = _METHODS.get(name)
    if index is None or len(arguments) <= index or arguments[index].keyword is not None:
        return
    source = frame.module.source
    is_default = index == 1  # asyncio's own executor is one of threads
    if (_THREADS in source or is_default) and _PROCESSES not in source:
        repeats = name == "map"
        _mark(frame, node, arguments[index].value, repeats=repeats)


def _mark(frame: Frame, node: cst.Call, value: Value, *, repeats: bool = False) -> None:
    mark(frame, (node, frame.statement), value, "threaded")
    while isinstance(value, Transformed):
        value = value.inner
    if isinstance(value, Function) and (frame.loops or repeats):
        value.info.threaded_often = True


STARTERS = tuple(_STARTERS)
