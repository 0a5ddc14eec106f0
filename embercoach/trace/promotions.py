"""Operations whose 16-bit argument becomes 32 bits wide because another one is."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from embercoach.trace.trace_recorder import Recorder

_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
_FUNCTIONS = (
    "add",
    "addmm",
    "concatenate",
    "divide",
    "floor_divide",
    "logaddexp",
    "matmul",
    "maximum",
    "minimum",
    "multiply",
    "power",
    "remainder",
    "stack",
    "subtract",
    "where",
)


class Promotions:
    """Makes the replacements of MLX's operations."""

    def __init__(self, mx: Any, recorder: Recorder) -> None:
        self._mx = mx
        self._recorder = recorder
        self._wide = mx.float32
        self._narrow = (mx.float16, mx.bfloat16)

    def operators(self) -> dict[str, Callable[..., Any]]:
        """Methods of `mx.array` by name."""
        names = [f"__{way}{name}__" for name in _OPERATORS for way in ("", "r", "i")]
        own = self._mx.array.__dict__
        return {name: self._operator(own[name], name) for name in names if name in own}

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Functions of `mlx.core` by name."""
        return {name: self._function(getattr(self._mx, name), name) for name in _FUNCTIONS}

    def _operator(self, real: Callable[..., Any], name: str) -> Callable[..., Any]:
        numbers = (int, float, bool)
        note, plain = self._note, name.strip("_")

        @functools.wraps(real)
        def operator(self: Any, other: Any) -> Any:
            if type(other) in numbers:
                return real(self, other)
            # Before the call: an operator in place changes it.
            dtype = self.dtype
            result = real(self, other)
            if getattr(other, "dtype", dtype) != dtype:
                note(plain, result, (dtype, other.dtype))
            return result

        return operator

    def _function(self, real: Callable[..., Any], name: str) -> Callable[..., Any]:
        array, wide, note = self._mx.array, self._wide, self._note

        @functools.wraps(real)
        def function(*arguments: Any, **named: Any) -> Any:
            result = real(*arguments, **named)
            if result.dtype == wide:
                first = arguments[0] if arguments else ()
                parts = first if type(first) in (list, tuple) else arguments
                note(f"mx.{name}", result, [x.dtype for x in parts if type(x) is array])
            return result

        return function

    def _note(self, operation: str, result: Any, dtypes: Any) -> None:
        if getattr(result, "dtype", None) != self._wide:
            return
        narrow = next((dtype for dtype in dtypes if dtype in self._narrow), None)
        if narrow is None:
            return
        others = (str(dtype) for dtype in dtypes if dtype != narrow)
        names = sorted({name.rpartition(".")[2] for name in others} - {"bool"})
        detail = f"{str(narrow).rpartition('.')[2]} with {' and '.join(names)}"
        self._recorder.add("promotion", operation, 0.0, copied=result.nbytes, detail=detail)
