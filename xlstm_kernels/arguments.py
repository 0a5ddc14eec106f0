"""Checks on the arguments of public operators. None looks at the values of an array."""

from __future__ import annotations

import math
import operator as operators
from collections.abc import Callable, Collection
from numbers import Real
from typing import TypeAlias

import mlx.core as mx

#: Accepts an operator's argument by its name: `require_floating`, or what tensors have for it.
Accept: TypeAlias = Callable[[str, str, object], None]

FLOATING = (mx.float32, mx.float16, mx.bfloat16)


def require_floating(operator: str, argument: str, array: object) -> None:
    """Accept an array of float32, float16 or bfloat16; raise a TypeError for anything else."""
    if not isinstance(array, mx.array):
        raise TypeError(
            f"{operator}: {argument} must be an mlx.core.array, got {type(array).__name__}"
        )
    if array.dtype not in FLOATING:
        hint = "" if array.dtype == mx.complex64 else "; convert it with .astype(mx.float32)"
        raise TypeError(
            f"{operator}: {argument} must be float32, float16 or bfloat16, got {array.dtype}{hint}"
        )


def require_kind(
    operator: str, argument: str, array: object, kind: mx.Dtype | mx.DtypeCategory, meaning: str
) -> mx.array:
    """Return an array of dtype `kind`, or in that category: `meaning`. Else raise a TypeError."""
    if not isinstance(array, mx.array):
        got = f"{type(array).__name__}; convert it with mx.array()"
    elif mx.issubdtype(array.dtype, kind):
        return array
    else:
        got = f"{array.dtype}"
    raise TypeError(f"{operator}: {argument} must be {meaning}, got {got}")


def host_number(operator: str, argument: str, number: object) -> float:
    """Return a number of the host, Python's or NumPy's, as a float: no bool, no array.

    Raise a TypeError for anything else, a ValueError for NaN and for what is infinite in float32.
    """
    if isinstance(number, bool) or not isinstance(number, Real):
        raise TypeError(f"{operator}: {argument} must be a number, got {type(number).__name__}")
    try:
        value = float(number)
    except OverflowError:
        value = math.inf
    if not math.fabs(value) <= mx.finfo(mx.float32).max:
        raise ValueError(f"{operator}: {argument} must be finite in float32, got {value}")
    return value


def non_negative(operator: str, argument: str, number: object) -> float:
    """Return what `host_number` does, and raise a ValueError for a negative number."""
    value = host_number(operator, argument, number)
    if value < 0:
        raise ValueError(f"{operator}: {argument} must not be negative, got {value}")
    return value


def host_integer(
    operator: str,
    argument: str,
    number: object,
    *,
    least: int | None = None,
    most: int | None = None,
) -> int:
    """Return an integer of the host, Python's, NumPy's or another with `__index__`, as an int.

    Raise a TypeError for anything else: for a bool, and for an array of MLX, which would have to be
    evaluated. Raise a ValueError for one below `least` or above `most`, if there are such bounds.
    """
    try:
        if isinstance(number, (bool, mx.array)):
            raise TypeError
        value = operators.index(number)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"{operator}: {argument} must be an int, got {type(number).__name__}"
        ) from None
    if least is not None and value < least:
        raise ValueError(f"{operator}: {argument} must be at least {least}, got {value}")
    if most is not None and value > most:
        raise ValueError(f"{operator}: {argument} must be at most {most}, got {value}")
    return value


def require_choice(
    operator: str, argument: str, value: object, choices: Collection[object]
) -> None:
    """Accept one of the choices; raise a ValueError for another value."""
    if value not in choices:
        listed = ", ".join(map(repr, choices))
        raise ValueError(f"{operator}: {argument} must be one of {listed}, got {value!r}")


def require_mask(operator: str, mask: object, shape: tuple[int, ...], meaning: str) -> None:
    """Accept None, or booleans of `shape`, which `meaning` names.

    Raise a TypeError for another dtype, a ValueError for another shape.
    """
    if mask is not None:
        array = require_kind(operator, "mask", mask, mx.bool_, "an array of booleans")
        require_shape(operator, "mask", array, shape, meaning)


def require_shape(
    operator: str, argument: str, array: mx.array | None, shape: tuple[int, ...], meaning: str
) -> None:
    """Accept None, or an array or tensor of `shape`, which `meaning` names; else a ValueError."""
    if array is not None and tuple(array.shape) != shape:
        raise ValueError(
            f"{operator}: {argument} must have shape {shape}, {meaning}; got {tuple(array.shape)}"
        )
