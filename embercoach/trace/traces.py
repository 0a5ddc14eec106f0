"""Traces of compiled functions: when MLX runs the Python function again, and because of what."""

from __future__ import annotations

import functools
import inspect
import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from embercoach.trace.trace_recorder import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from embercoach.trace.trace_recorder import Recorder

_MOST_TEXT = 60
#: Traces of a function whose arguments are remembered.
_MOST_SIGNATURES = 4096
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
    # MLX compares functions by identity: compiled functions of one function share its traces.
    known: WeakValueDictionary[int, _TracedFunction] = WeakValueDictionary()
    state = _State(compiles=not os.environ.get("MLX_DISABLE_COMPILE"))

    @functools.wraps(real)
    def compile(fun: Any, *arguments: Any, **named: Any) -> Any:  # noqa: A001  (MLX's name)
        if not callable(fun):
            return real(fun, *arguments, **named)
        traced = known.get(id(fun))
        if traced is None:
            traced = known[id(fun)] = _TracedFunction(fun, mx, recorder, state)
        traced.captured = arguments[0] if arguments else named.get("inputs", traced.captured)
        return real(traced, *arguments, **named)

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


class _TracedFunction:
    """A function that MLX calls in place of the one that a program compiles.

    Attributes:
        captured: the state that it was compiled with last.
    """

    def __init__(self, fun: Callable[..., Any], mx: Any, recorder: Recorder, state: _State) -> None:
        functools.update_wrapper(self, fun)
        self.captured: Any = None
        self._fun, self._mx, self._recorder, self._state = fun, mx, recorder, state
        self._name = f"mx.compile of {getattr(fun, '__qualname__', type(fun).__qualname__)}"
        self._parameters = _parameters(fun)
        self._before: _Signature | None = None
        # The thread and stream that traced with some arguments last, by a hash of them.
        self._traced: dict[int, tuple[int, str]] = {}

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        state = self._state
        if state.depth.value or not state.compiles:
            return self._fun(*arguments, **named)
        now = dict(self._signature(arguments, named))
        begin = clock()
        state.depth.value += 1
        try:
            return self._fun(*arguments, **named)
        finally:
            state.depth.value -= 1
            self._record(now, clock() - begin)

    def _record(self, now: _Signature, seconds: float) -> None:
        key = hash(tuple(now.items()))
        # MLX keeps traces by thread, and by the stream of operations that name none.
        place = threading.get_ident(), str(self._mx.default_stream(self._mx.default_device()))
        earlier = self._traced.get(key, place)
        before, self._before = self._before, now
        if before is None:
            self._recorder.add("compile", self._name, seconds)
        else:
            detail = _change(before, now)
            if earlier != place:
                detail = "another thread"
                if earlier[0] == place[0]:
                    detail = f"default stream: {earlier[1]}, then {place[1]}"
            self._recorder.add("retrace", self._name, seconds, detail=detail)
        if len(self._traced) >= _MOST_SIGNATURES:
            self._traced.clear()
        self._traced[key] = place

    def _signature(
        self, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """All that MLX compares before it uses an earlier trace, by path."""
        array = self._mx.array
        for index, value in enumerate(arguments):
            name = self._parameters[index] if index < len(self._parameters) else str(index + 1)
            yield from _leaves(value, array, f"argument {name}")
        for name, value in named.items():
            yield from _leaves(value, array, f"argument {name}")
        yield "order of keyword arguments", ", ".join(named)
        yield from _leaves(self.captured, array, "captured state")


def _parameters(fun: Callable[..., Any]) -> tuple[str, ...]:
    """The names of positional parameters; without those that ``*args`` takes."""
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return ()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(one.name for one in parameters if one.kind in positional)


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
            return f"{path}: {before.get(path, 'absent')}, then {text}"
    gone = [path for path in before if path not in now]
    if gone:
        return f"{gone[0]}: {before[gone[0]]}, then absent"
    return "the same arguments"
