"""Replaces what evaluates arrays by functions that record it, and puts it back.

Only names are replaced: attributes of `mlx.core`, of its class `array`, and of NumPy. A call does
the same as before, with the same result or exception.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from embercoach.trace.graph_size import arrays_in, operations_of
from embercoach.trace.promotions import FAST, FUNCTIONS, Promotions
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

#: Of a program's time, what counting the operations of graphs may take.
_SHARE_OF_COUNTING = 0.01


class Instruments:
    """The replacements of one trace."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._mx: Any = None
        self._replaced: list[tuple[Any, str, Any]] = []
        self._installed = self._counted = 0.0

    def install(self) -> None:
        """Replace the names; the program must not have imported MLX yet."""
        import mlx.core as mx
        import numpy as np

        self._mx = mx
        self._installed = clock()
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
        for name, function in promotions.functions(mx.fast, FAST, "mx.fast").items():
            self._replace(mx.fast, name, function)
        functions = promotions.functions(mx, FUNCTIONS, "mx")
        for name, function in (replacements(mx, self._recorder) | functions).items():
            self._replace(mx, name, function)

    def remove(self) -> None:
        """Put everything back."""
        for owner, name, value in reversed(self._replaced):
            setattr(owner, name, value)
        self._replaced.clear()

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        real = getattr(owner, name)
        self._replaced.append((owner, name, real))
        # A class may have a function of MLX as an attribute: MLX's do not bind to its instances.
        binds = isinstance(owner, type) or hasattr(type(real), "__get__")
        setattr(owner, name, value if binds else staticmethod(value))

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
                result = real(self, *arguments, **named)
            except BaseException:
                recorder.end(events, begin)
                raise
            recorder.end(events, begin, self.nbytes)
            return result

        return pulled

    def _from_mlx(self, real: Callable[..., Any], array: type, operation: str) -> Any:
        recorder, count = self._recorder, self._count

        @functools.wraps(real)
        def converted(*arguments: Any, **named: Any) -> Any:
            value = arguments[0] if arguments else next(iter(named.values()), None)
            if not _begins_with(array, value):
                return real(*arguments, **named)
            events = recorder.begin("numpy", operation)
            if events is None:
                return real(*arguments, **named)
            count(events, (value,))
            begin = clock()
            try:
                result = real(*arguments, **named)
            except BaseException:
                recorder.end(events, begin)
                raise
            recorder.end(events, begin, sum(one.nbytes for one in arrays_in(value, array)))
            return result

        return converted

    def _count(self, events: Events, values: tuple[Any, ...]) -> None:
        # Counting takes microseconds for an operation: the 1st, 2nd, 4th, 8th time only, and not
        # again while all counting has taken more than a hundredth of the time.
        begun = events.begun
        if begun & (begun - 1):
            return
        begin = clock()
        if begun > 1 and self._counted > _SHARE_OF_COUNTING * (begin - self._installed):
            return
        events.operations = max(events.operations, operations_of(values, self._mx))
        self._counted += clock() - begin


def _begins_with(array: type, value: Any) -> bool:
    """Return whether a value is an array, or a list whose first element is one."""
    while type(value) in (list, tuple) and value:
        value = value[0]
    return isinstance(value, array)
