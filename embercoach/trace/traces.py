"""Traces of compiled functions: when MLX runs the Python function again, and because of what."""

from __future__ import annotations

import functools
import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from embercoach.trace.trace_recorder import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from embercoach.trace.trace_recorder import Recorder

_MOST_TEXT = 60
#: Arguments of a function that are remembered.
_MOST_THREADS = 4096
_CAPTURED = "captured state, with the same arguments"
#: Functions of `mlx.core` that return a transformed function, and those that call one at once.
_MAKERS = ("grad", "value_and_grad", "vmap")
_CALLERS = ("vjp", "jvp", "export_function")
_Signature = dict[str, str]


def replacements(mx: Any, recorder: Recorder) -> dict[str, Callable[..., Any]]:
    """Functions of `mlx.core` by name; each trace of what they compile is recorded.

    Inside of a transformation MLX calls a compiled function's Python function each time, as part
    of the graph around it. That is not a trace, and is not recorded.
    """
    real = mx.compile
    state = _State(compiles=not os.environ.get("MLX_DISABLE_COMPILE"))

    @functools.wraps(real)
    def compile(fun: Any, *arguments: Any, **named: Any) -> Any:  # noqa: A001  (MLX's name)
        if not callable(fun):
            return real(fun, *arguments, **named)
        return real(_recording(fun, mx.array, recorder, state), *arguments, **named)

    def maker(name: str) -> Callable[..., Any]:
        make = getattr(mx, name)

        @functools.wraps(make)
        def making(*arguments: Any, **named: Any) -> Any:
            return state.within(make(*arguments, **named))

        return making

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
        **{name: maker(name) for name in _MAKERS},
        **{name: state.within(getattr(mx, name)) for name in _CALLERS},
    }


class _Depth(threading.local):
    """How many transformations a thread is inside of."""

    value = 0


@dataclass(slots=True)
class _State:
    """The state of compilation.

    Attributes:
        compiles: without it, MLX calls compiled functions each time.
        depth: of transformations around the running code.
    """

    compiles: bool
    depth: _Depth = field(default_factory=_Depth)

    def within(self, transformation: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that is as deep as a transformation while it runs."""

        @functools.wraps(transformation)
        def transforming(*arguments: Any, **named: Any) -> Any:
            self.depth.value += 1
            try:
                return transformation(*arguments, **named)
            finally:
                self.depth.value -= 1

        return transforming


def _recording(
    fun: Callable[..., Any], array: type, recorder: Recorder, state: _State
) -> Callable[..., Any]:
    before: _Signature | None = None
    # The last thread that traced with some arguments, by a hash of them.
    threads: dict[int, int] = {}
    name = f"mx.compile of {getattr(fun, '__qualname__', type(fun).__qualname__)}"

    @functools.wraps(fun)
    def traced(*arguments: Any, **named: Any) -> Any:
        nonlocal before
        if state.depth.value or not state.compiles:
            return fun(*arguments, **named)
        now = dict(_leaves((arguments, named), array, "arguments"))
        arguments_hash, thread = hash(frozenset(now.items())), threading.get_ident()
        begin = clock()
        state.depth.value += 1
        try:
            return fun(*arguments, **named)
        finally:
            state.depth.value -= 1
            seconds = clock() - begin
            if before is None:
                recorder.add("compile", name, seconds)
            else:
                other = threads.get(arguments_hash)
                detail = _change(before, now) if other is None else _same_arguments(other, thread)
                recorder.add("retrace", name, seconds, detail=detail)
            before = now
            if len(threads) >= _MOST_THREADS:
                threads.clear()
            threads[arguments_hash] = thread

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
    return _CAPTURED


def _same_arguments(before: int, now: int) -> str:
    """The reason for a trace with arguments of an earlier one, from the threads of both."""
    return _CAPTURED if before == now else "another thread"


def _shown(path: str) -> str:
    """`arguments[0][1]` is the second positional argument, `arguments[1]['x']` one by name."""
    positional, named = "arguments[0][", "arguments[1]["
    if path.startswith(positional):
        return f"argument {path.removeprefix(positional).replace(']', '', 1)}"
    if path.startswith(named):
        return f"argument {path.removeprefix(named).replace(']', '', 1)}"
    return path
