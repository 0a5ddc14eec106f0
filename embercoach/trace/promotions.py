"""Operations whose 16-bit argument becomes 32 bits wide because another one is."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from embercoach.trace.trace_recorder import Recorder

#: Bytes of an element before and after a promotion, and of one of each operand together.
_NARROW, _WIDE = 2, 4
_BOTH = (_NARROW + _NARROW, _NARROW + _WIDE)
#: The bytes of what has no elements: with those of any operand not in `_BOTH`.
_NEITHER = -16
_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
#: Functions of `mlx.core`, and of `mlx.core.fast`, whose result has the widest of their dtypes.
FUNCTIONS = (
    "add",
    "addmm",
    "arctan2",
    "clip",
    "concatenate",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_general",
    "conv_transpose1d",
    "conv_transpose2d",
    "divide",
    "einsum",
    "floor_divide",
    "inner",
    "kron",
    "logaddexp",
    "matmul",
    "maximum",
    "minimum",
    "multiply",
    "outer",
    "power",
    "quantized_matmul",
    "remainder",
    "stack",
    "subtract",
    "tensordot",
    "where",
)
FAST = ("layer_norm", "rms_norm", "scaled_dot_product_attention")


class Promotions:
    """Makes the replacements of MLX's operations.

    They run at each operation of a program: the sizes of elements, which are cheap to read, decide
    whether a promotion is possible, before any dtype is read.
    """

    def __init__(self, mx: Any, recorder: Recorder) -> None:
        self._mx = mx
        self._recorder = recorder
        self._wide = mx.float32
        self._narrow = (mx.float16, mx.bfloat16)
        self._details: dict[frozenset[Any], str] = {}

    def operators(self) -> dict[str, Callable[..., Any]]:
        """Methods of `mx.array` by name."""
        names = [f"__{way}{name}__" for name in _OPERATORS for way in ("", "r", "i")]
        own = self._mx.array.__dict__
        return {name: self._operator(own[name], name) for name in names if name in own}

    def functions(
        self, module: Any, names: Sequence[str], prefix: str
    ) -> dict[str, Callable[..., Any]]:
        """Functions of a module by name.

        Args:
            module: `mlx.core`, or `mlx.core.fast`.
            names: of functions.
            prefix: of the module's names in reports.
        """
        return {name: self._function(getattr(module, name), f"{prefix}.{name}") for name in names}

    def _operator(self, real: Callable[..., Any], name: str) -> Callable[..., Any]:
        array, note = self._mx.array, self._note
        plain, in_place = name.strip("_"), name.startswith("__i")

        @functools.wraps(real)
        def operator(self: Any, other: Any) -> Any:
            # NumPy's arrays and scalars have the attribute; Python's numbers promote nothing.
            size = other.itemsize if type(other) is array else getattr(other, "itemsize", _NEITHER)
            if self.itemsize + size not in _BOTH:
                return real(self, other)
            # An operator in place changes it; elsewhere reading it early would take time.
            dtype = self.dtype if in_place else None
            result = real(self, other)
            if result.itemsize == _WIDE:
                note(plain, result, {dtype or self.dtype, other.dtype})
            return result

        return operator

    def _function(self, real: Callable[..., Any], name: str) -> Callable[..., Any]:
        array, note = self._mx.array, self._note

        @functools.wraps(real)
        def function(*arguments: Any, **named: Any) -> Any:
            result = real(*arguments, **named)
            first = arguments[0] if arguments else ()
            parts = first if type(first) in (list, tuple) else arguments
            for part in (*parts, *named.values()) if named else parts:
                if type(part) is array and part.itemsize == _NARROW:
                    if type(result) is array and result.itemsize == _WIDE:
                        given = (*parts, *named.values())
                        note(name, result, {one.dtype for one in given if type(one) is array})
                    break
            return result

        return function

    def _note(self, operation: str, result: Any, dtypes: set[Any]) -> None:
        if result.dtype != self._wide:
            return
        key = frozenset(dtypes)
        detail = self._details.get(key)
        if detail is None:
            detail = self._details[key] = self._detail(key)
        if detail:
            self._recorder.add("promotion", operation, 0.0, copied=result.nbytes, detail=detail)

    def _detail(self, dtypes: frozenset[Any]) -> str:
        """The dtypes by name, a 16-bit one first; empty if none is."""
        narrow = next((dtype for dtype in self._narrow if dtype in dtypes), None)
        if narrow is None:
            return ""
        others = (str(dtype) for dtype in dtypes if dtype != narrow)
        names = sorted({name.rpartition(".")[2] for name in others} - {"bool"})
        if not names:
            return ""
        return f"{str(narrow).rpartition('.')[2]} with {' and '.join(names)}"
