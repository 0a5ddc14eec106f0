"""Replaces what evaluates arrays by functions that record it, and puts it back.

Only names are replaced: attributes of `mlx.core`, of its class `array`, and of NumPy. A call does
the same as before, with the same result or exception.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from embercoach.trace.graph_size import operations_of
from embercoach.trace.promotions import Promotions
from embercoach.trace.trace_recorder import clock
from embercoach.trace.traces import replacements

if TYPE_CHECKING:
    from collections.abc import Callable

    from embercoach.trace.trace_record import Kind
    from embercoach.trace.trace_recorder import Events, Recorder

_FUNCTIONS: dict[str, Kind] = {
    "eval": "eval",
    "async_eval": "async-eval",
    "synchronize": "synchronize",
    "save": "save",
    "savez": "save",
    "savez_compressed": "save",
    "save_safetensors": "save",
    "save_gguf": "save",
}
_METHODS: dict[str, tuple[Kind, str]] = {
    "item": ("item", "array.item"),
    "tolist": ("tolist", "array.tolist"),
    "__bool__": ("truth", "bool"),
    "__int__": ("number", "int"),
    "__float__": ("number", "float"),
    "__index__": ("number", "index"),
    "__complex__": ("number", "complex"),
    "__repr__": ("text", "repr"),
    "__format__": ("text", "format"),
    "__array__": ("numpy", "array.__array__"),
    "__dlpack__": ("numpy", "array.__dlpack__"),
    "__getstate__": ("numpy", "pickle"),
}
#: Functions of NumPy that read an MLX array through its buffer, which can't be replaced.
_OF_NUMPY = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "copy")


class Instruments:
    """The replacements of one trace."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._mx: Any = None
        self._replaced: list[tuple[Any, str, Any]] = []

    def install(self) -> None:
        """Replace the names; the program must not have imported MLX yet."""
        import mlx.core as mx
        import numpy as np

        self._mx = mx
        for name, kind in _FUNCTIONS.items():
            self._replace(mx, name, self._recorded(getattr(mx, name), kind, f"mx.{name}"))
        for name, (kind, operation) in _METHODS.items():
            real = mx.array.__dict__.get(name)
            if real is not None:
                self._replace(mx.array, name, self._pull(real, kind, operation))
        for name in _OF_NUMPY:
            real = getattr(np, name)
            self._replace(np, name, self._from_mlx(real, mx.array, f"np.{name}"))
        promotions = Promotions(mx, self._recorder)
        for name, method in promotions.operators().items():
            self._replace(mx.array, name, method)
        for name, function in (replacements(mx, self._recorder) | promotions.functions()).items():
            self._replace(mx, name, function)

    def remove(self) -> None:
        """Put everything back."""
        for owner, name, value in reversed(self._replaced):
            setattr(owner, name, value)
        self._replaced.clear()

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        self._replaced.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def _recorded(self, real: Callable[..., Any], kind: Kind, operation: str) -> Any:
        recorder, count = self._recorder, self._count

        @functools.wraps(real)
        def recorded(*arguments: Any, **named: Any) -> Any:
            events = recorder.begin(kind, operation)
            if events is None:
                return real(*arguments, **named)
            count(events, arguments)
            begin = clock()
            try:
                return real(*arguments, **named)
            finally:
                recorder.end(events, begin)

        return recorded

    def _pull(self, real: Callable[..., Any], kind: Kind, operation: str) -> Any:
        recorder, count = self._recorder, self._count

        @functools.wraps(real)
        def pulled(self: Any, *arguments: Any, **named: Any) -> Any:
            events = recorder.begin(kind, operation)
            if events is None:
                return real(self, *arguments, **named)
            count(events, (self,))
            begin = clock()
            try:
                return real(self, *arguments, **named)
            finally:
                recorder.end(events, begin, self.nbytes)

        return pulled

    def _from_mlx(self, real: Callable[..., Any], array: type, operation: str) -> Any:
        recorder, count = self._recorder, self._count

        @functools.wraps(real)
        def converted(*arguments: Any, **named: Any) -> Any:
            if not arguments or not isinstance(arguments[0], array):
                return real(*arguments, **named)
            events = recorder.begin("numpy", operation)
            if events is None:
                return real(*arguments, **named)
            count(events, arguments[:1])
            begin = clock()
            try:
                return real(*arguments, **named)
            finally:
                recorder.end(events, begin, arguments[0].nbytes)  # type: ignore[attr-defined]

        return converted

    def _count(self, events: Events, values: tuple[Any, ...]) -> None:
        # Counting takes a microsecond for an operation: the 1st, 2nd, 4th, 8th time only.
        if events.begun & (events.begun - 1) == 0:
            events.operations = max(events.operations, operations_of(values, self._mx))
