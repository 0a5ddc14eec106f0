"""Traces of compiled functions: when MLX runs the Python function again, and because of what."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embercoach.trace.trace_recorder import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from embercoach.trace.trace_recorder import Recorder

_MOST_TEXT = 60
_Signature = dict[str, str]


def replacements(mx: Any, recorder: Recorder) -> dict[str, Callable[..., Any]]:
    """Functions of `mlx.core` by name; each trace of what they compile is recorded."""
    real = mx.compile
    state = _State(compiles=not os.environ.get("MLX_DISABLE_COMPILE"))

    @functools.wraps(real)
    def compile(fun: Any, *arguments: Any, **named: Any) -> Any:  # noqa: A001  (MLX's name)
        if not callable(fun):
            return real(fun, *arguments, **named)
        return real(_recording(fun, mx.array, recorder, state), *arguments, **named)

    def switched(name: str, *, compiles: bool) -> Callable[..., Any]:
        switch = getattr(mx, name)

        @functools.wraps(switch)
        def switching(*arguments: Any, **named: Any) -> Any:
            result = switch(*arguments, **named)
            state.compiles = compiles
            return result

        return switching

    return {
        "compile": compile,
        "enable_compile": switched("enable_compile", compiles=True),
        "disable_compile": switched("disable_compile", compiles=False),
    }


@dataclass(slots=True)
class _State:
    """The state of compilation: without it, MLX calls functions each time."""

    compiles: bool


def _recording(
    fun: Callable[..., Any], array: type, recorder: Recorder, state: _State
) -> Callable[..., Any]:
    before: list[_Signature] = []
    name = f"mx.compile of {getattr(fun, '__qualname__', type(fun).__qualname__)}"

    @functools.wraps(fun)
    def traced(*arguments: Any, **named: Any) -> Any:
        if not state.compiles:
            return fun(*arguments, **named)
        now = dict(_leaves((arguments, named), array, "arguments"))
        begin = clock()
        try:
            return fun(*arguments, **named)
        finally:
            seconds = clock() - begin
            if not before or now == before[-1]:
                recorder.add("compile", name, seconds)
            else:
                recorder.add("retrace", name, seconds, detail=_change(before[-1], now))
            before.append(now)

    return traced


def _leaves(value: Any, array: type, path: str) -> Iterator[tuple[str, str]]:
    """The parts of an argument that a compiled function depends on, by their paths."""
    if isinstance(value, array):
        dtype = str(value.dtype).rpartition(".")[2]  # type: ignore[attr-defined]
        yield path, f"{dtype} of shape {value.shape}"  # type: ignore[attr-defined]
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, array, f"{path}[{str(key)[:_MOST_TEXT]!r}]")
    elif isinstance(value, (list, tuple)):
        yield f"{path} (length)", str(len(value))
        for index, inner in enumerate(value):
            yield from _leaves(inner, array, f"{path}[{index}]")
    elif isinstance(value, (bool, int, float, complex, str)) or value is None:
        yield path, repr(value)[:_MOST_TEXT]
    else:
        yield path, type(value).__qualname__


def _change(before: _Signature, now: _Signature) -> str:
    for path, text in now.items():
        if before.get(path) != text:
            return f"{_shown(path)}: {before.get(path, 'absent')}, then {text}"
    gone = [path for path in before if path not in now]
    if gone:
        return f"{_shown(gone[0])}: {before[gone[0]]}, then absent"
    return "no argument"


def _shown(path: str) -> str:
    """`arguments[0][1]` is the second positional argument, `arguments[1]['x']` one by name."""
    positional, named = "arguments[0][", "arguments[1]["
    if path.startswith(positional):
        return f"argument {path.removeprefix(positional).replace(']', '', 1)}"
    if path.startswith(named):
        return f"argument {path.removeprefix(named).replace(']', '', 1)}"
    return path
