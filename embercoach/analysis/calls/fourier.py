"""Fourier transforms: what a spectrum was made by, how it was scaled, what came back of it.

Roles of arrays (see `spectra`) are made by `mx.fft` and kept through what neither scales nor
mixes: filtering by multiplication, taking the real part, cutting a signal. All else drops them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable as Fn

import libcst as cst
from msgspec.structs import replace

from embercoach.analysis import mlx_api
from embercoach.analysis.calls.call_results import api_result
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.facts.facts import Argument, match
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.lattice import (
    NONE,
    Array,
    Dict,
    Number,
    Sequence,
    Str,
    Union,
    Value,
    as_array,
    join_all,
)
from embercoach.analysis.values.spectra import Axes, Length, Role, Scaling, Signal, Spectrum

Arguments = tuple[Argument, ...]
ExpressionValue = tuple[Value, cst.BaseExpression]
Handler = Fn[[Frame, cst.Call, Arguments], Value]

FORWARD = ("fft", "fft2", "fftn", "rfft", "rfft2", "rfftn")
INVERSE = ("ifft", "ifft2", "ifftn", "irfft", "irfft2", "irfftn")
NORMS = ("backward", "ortho", "forward")
#: Functions and methods whose result is the spectrum, or has the scale of the signal, given.
SHIFTS = ("fftshift", "ifftshift")
SPECTRUM_KEEPERS = ("astype", "contiguous", "stop_gradient", "conj", "conjugate")
RESHAPERS = ("reshape", "transpose", "squeeze", "expand_dims", "swapaxes", "moveaxis", "flatten")
SIGNAL_KEEPERS = (*SPECTRUM_KEEPERS, *RESHAPERS, "real", "roll", "pad", "flip")


def _transform(name: str) -> Handler:
    short = name.rpartition(".")[2]

    def handle(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
        entry = mlx_api.lookup(name)
        assert entry is not None
        result = api_result(entry, arguments)
        given = {param.name: argument for param, argument in match(entry, arguments)}
        if "a" not in given or any(a.star for a in arguments):
            return result
        if short in FORWARD:
            return _with_role(result, _forward(frame, short, given))
        spectrum = role_of(given["a"].value)
        if not isinstance(spectrum, Spectrum):
            return result
        axes = _axes(frame, short, given)
        return _with_role(result, Signal(node, spectrum, _norm(given), axes, _length(given)))

    return handle


def _with_role(result: Value, role: Role | None) -> Value:
    return replace(result, role=role) if role is not None and type(result) is Array else result


def _forward(frame: Frame, short: str, given: dict[str, Argument]) -> Spectrum:
    return Spectrum(
        norms=(_norm(given),),
        axes=_axes(frame, short, given),
        is_real=short[0] == "r",
        length=_length(given),
        inputs=(given["a"].node,),
    )


def _norm(given: dict[str, Argument]) -> str | None:
    argument = given.get("norm")
    if argument is None:
        return "backward"
    text = argument.value.text if isinstance(argument.value, Str) else None
    return text if text in NORMS else None


def _axes(frame: Frame, short: str, given: dict[str, Argument]) -> Axes:
    argument = given.get("axis") or given.get("axes")
    if argument is None:
        return None if short[-1] == "n" else (-2, -1) if short[-1] == "2" else (-1,)
    value = argument.value
    if value is NONE:
        return None
    consts = _consts(value)
    if None in consts:
        return text_of(argument.node)
    return tuple(c for c in consts if c is not None)


def _length(given: dict[str, Argument]) -> Length | None:
    argument = given.get("n") or given.get("s")
    if argument is None or argument.value is NONE:
        return None
    return Length(text_of(argument.node), argument.node)


def _consts(value: Value) -> tuple[int | None, ...]:
    items = value.items if isinstance(value, Sequence) else (value,)
    return tuple(
        item.const if isinstance(item, Number) and isinstance(item.const, int) else None
        for item in items or (value,)
    )


def role_of(value: Value) -> Role | None:
    """Return the known facts of an array's numbers."""
    array = as_array(value)
    return None if array is None else array.role


def text_of(node: cst.BaseExpression) -> str:
    """Return an expression in one spelling, whatever its spaces and parentheses are."""
    return ast.unparse(ast.parse(f"({cst.Module([]).code_for_node(node)}\n)", mode="eval"))


def operate(result: Value, symbol: str, left: ExpressionValue, right: ExpressionValue) -> Value:
    """Return the result of an operation on arrays, with the role that it has by theirs."""
    return _with_role(result, _role_of_result(symbol, left, right))


def _role_of_result(symbol: str, left: ExpressionValue, right: ExpressionValue) -> Role | None:
    a, b = role_of(left[0]), role_of(right[0])
    if symbol not in ("*", "/"):
        return None
    if isinstance(a, Spectrum) and isinstance(b, Spectrum):
        return _product(a, b) if symbol == "*" else None
    if symbol == "*" and b is not None:
        a, b, left, right = b, a, right, left
    if isinstance(a, Spectrum) and not isinstance(b, Signal):
        return _scaled(a, symbol, right)
    return a if isinstance(a, Signal) and b is None and _is_filter(right[0]) else None


def _product(a: Spectrum, b: Spectrum) -> Spectrum | None:
    if (a.axes, a.is_real) != (b.axes, b.is_real):
        return None
    if a.length != b.length and a.length is not None and b.length is not None:
        return None
    # A kernel's spectrum over n is as good as the product over n.
    scaling: Scaling = a.scaling if b.scaling == "none" else b.scaling
    if "none" not in (a.scaling, b.scaling):
        scaling = "unknown"
    return Spectrum(
        a.norms + b.norms,
        a.axes,
        a.is_real,
        a.length or b.length,
        a.inputs + b.inputs,
        scaling,
        a.factor or b.factor,
        a.filtered or b.filtered,
        a.conjugated or b.conjugated,
    )


def _scaled(spectrum: Spectrum, symbol: str, other: ExpressionValue) -> Spectrum:
    """Return a spectrum times or over something that is not a spectrum."""
    if symbol == "*" and _is_filter(other[0]):
        return replace(spectrum, filtered=True)
    scaling: Scaling = "factor" if spectrum.scaling == "none" else "unknown"
    return replace(spectrum, scaling=scaling, factor=other[1])


def _is_filter(value: Value) -> bool:
    """Return whether a factor looks like an array of weights, and not like a scale.

    The spectrum of a kernel from elsewhere is complex, and may have been scaled there.
    """
    array = as_array(value)
    if array is None or array.role is not None:
        return False
    return not array.literal and not array.scalar and array.dtype != "complex64"


def sliced(role: Role | None, node: cst.Subscript) -> Role | None:
    """Get the role of ``x[...]``: a cut signal keeps its scale, a cut spectrum loses its length."""
    if isinstance(role, Signal):
        return role
    if not isinstance(role, Spectrum):
        return None
    parts = [element.slice for element in node.slice]
    if all(_is_whole(part) or _is_new_axis(part) for part in parts):
        return role
    axes = role.axes
    if not isinstance(axes, tuple) or max(axes, default=0) >= 0:
        return None
    # Of ``x[a:b, :]`` the last axis is whole, whether the colon stands for it or not.
    last = parts[min(axes) :]
    return role if len(last) == -min(axes) and all(map(_is_whole, last)) else None


def _is_whole(part: cst.BaseSlice) -> bool:
    if isinstance(part, cst.Slice):
        return part.lower is None and part.upper is None and part.step is None
    return isinstance(part, cst.Index) and isinstance(part.value, cst.Ellipsis)


def _is_new_axis(part: cst.BaseSlice) -> bool:
    return isinstance(part, cst.Index) and dotted(part.value) == "None"


def keep(result: Value, role: Role | None, name: str) -> Value:
    """Return the result of a function or method ``name`` for an array with a role."""
    keepers = SIGNAL_KEEPERS if isinstance(role, Signal) else SPECTRUM_KEEPERS
    if isinstance(role, Spectrum) and name in ("conj", "conjugate"):
        role = replace(role, conjugated=not role.conjugated)
    return _with_role(result, role) if name in keepers or name in SHIFTS else result


def touch(frame: Frame, target: cst.Subscript, value: Value | None) -> None:
    """After ``x[...] = value``, or with None ``x[...] /= y``, the scale of ``x`` is not known.

    A plain number as a value masks coefficients out; that is a filter.
    """
    path = dotted(target.value)
    array = None if path is None else frame.names.get(path)
    if path is None or type(array) is not Array or array.role is None:
        return
    if isinstance(value, Number):
        return
    role = array.role
    masked = replace(role, scaling="unknown") if isinstance(role, Spectrum) else None
    frame.names[path] = replace(array, role=masked)


def detached(value: Value) -> Value:
    """Return a value that leaves its function, where names of arrays mean nothing."""
    if isinstance(value, Array):
        return value if value.role is None else replace(value, role=None)
    if isinstance(value, Sequence):
        items = value.items and tuple(map(detached, value.items))
        common = value.common and detached(value.common)
        if common == value.common and items == value.items:
            return value
        return replace(value, common=common, items=items)
    if isinstance(value, Dict):
        return Dict(detached(value.item), tuple((k, detached(v)) for k, v in value.known))
    if isinstance(value, Union):
        options = [detached(option) for option in value.options]
        same = all(new is old for new, old in zip(options, value.options, strict=True))
        return value if same else join_all(options)
    return value


def transposed(array: Array) -> Array:
    """``x.T``: the axes of a spectrum are others then."""
    known = array.role is not None and not isinstance(array.role, Signal)
    return replace(array, role=None) if known else array


def _keeper(name: str) -> Handler:
    short = name.rpartition(".")[2]

    def handle(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
        entry = mlx_api.lookup(name)
        assert entry is not None
        result = api_result(entry, arguments)
        return keep(result, role_of(arguments[0].value), short) if arguments else result

    return handle


def _operator(name: str, symbol: str) -> Handler:
    def handle(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
        entry = mlx_api.lookup(name)
        assert entry is not None
        result = api_result(entry, arguments)
        if len(arguments) < 2 or not any(role_of(a.value) for a in arguments[:2]):
            return result
        left, right = arguments[:2]
        return operate(result, symbol, (left.value, left.node), (right.value, right.node))

    return handle


HANDLERS: dict[str, Handler] = {
    **{name: _transform(name) for name in (f"mlx.core.fft.{n}" for n in (*FORWARD, *INVERSE))},
    **{name: _keeper(name) for name in (f"mlx.core.fft.{n}" for n in SHIFTS)},
    **{name: _keeper(name) for name in (f"mlx.core.{n}" for n in SIGNAL_KEEPERS)},
    "mlx.core.multiply": _operator("mlx.core.multiply", "*"),
    "mlx.core.divide": _operator("mlx.core.divide", "/"),
}
