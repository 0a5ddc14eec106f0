"""Fourier transforms: what a spectrum was made by, how it was scaled, what came back of it.

Roles of arrays (see `spectra`) are made by `mx.fft` and kept through what neither scales nor
mixes: filtering by multiplication, taking the real part, cutting a signal. All else drops them.
"""

from __future__ import annotations

from collections.abc import Callable as Fn
from dataclasses import replace

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.facts import Argument
from embercoach.analysis.frame import Frame
from embercoach.analysis.lattice import as_array, as_number, join_all
from embercoach.analysis.paths import dotted
from embercoach.analysis.results import api_result, match
from embercoach.analysis.spectra import Axes, Extent, Length, Role, Scaling, Signal, Spectrum
from embercoach.analysis.values import (
    INT,
    NONE,
    SHAPE,
    Array,
    Dict,
    Number,
    Sequence,
    Str,
    Union,
    Value,
)

Arguments = tuple[Argument, ...]
Operand = tuple[Value, cst.BaseExpression]
Handler = Fn[[Frame, cst.Call, Arguments], Value]

FORWARD = ("fft", "fft2", "fftn", "rfft", "rfft2", "rfftn")
INVERSE = ("ifft", "ifft2", "ifftn", "irfft", "irfft2", "irfftn")
NORMS = ("backward", "ortho", "forward")
#: Functions and methods whose result is the spectrum, or has the scale of the signal, given.
SHIFTS = ("fftshift", "ifftshift")
SPECTRUM_KEEPERS = ("astype", "contiguous", "stop_gradient", "conj", "conjugate")
RESHAPERS = ("reshape", "transpose", "squeeze", "expand_dims", "swapaxes", "moveaxis", "flatten")
SIGNAL_KEEPERS = (*SPECTRUM_KEEPERS, *RESHAPERS, "real", "roll", "pad", "flip")


def role_of(value: Value) -> Role | None:
    """What is known of an array's numbers."""
    array = as_array(value)
    return None if array is None else array.role


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
        paths=_paths(given["a"].node),
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
        return frame.module.tree.code_for_node(argument.node)
    return tuple(c for c in consts if c is not None)


def _length(given: dict[str, Argument]) -> Length | None:
    argument = given.get("n") or given.get("s")
    if argument is None or argument.value is NONE:
        return None
    extent = argument.value.extent if isinstance(argument.value, Number) else None
    return Length(_consts(argument.value), extent, dotted(argument.node))


def _consts(value: Value) -> tuple[int | None, ...]:
    items = value.items if isinstance(value, Sequence) else (value,)
    return tuple(
        item.const if isinstance(item, Number) and isinstance(item.const, int) else None
        for item in items or (value,)
    )


def _paths(node: cst.CSTNode) -> frozenset[str]:
    """All names in an expression, and the dotted paths that start with them."""
    found: set[str] = set()
    pending = [node]
    while pending:
        part = pending.pop()
        path = dotted(part)
        while path:
            found.add(path)
            path = path.rpartition(".")[0]
        pending.extend(part.children)
    return frozenset(found)


def operate(result: Value, symbol: str, left: Operand, right: Operand) -> Value:
    """The result of an operation on arrays, with the role that it has by theirs."""
    return _with_role(result, _role_of_result(symbol, left, right))


def _role_of_result(symbol: str, left: Operand, right: Operand) -> Role | None:
    a, b = role_of(left[0]), role_of(right[0])
    if symbol not in ("*", "/"):
        return None
    if isinstance(a, Spectrum) and isinstance(b, Spectrum):
        return _product(a, b) if symbol == "*" else None
    if symbol == "*" and (isinstance(b, (Spectrum, Signal)) or isinstance(a, Extent)):
        a, b, left, right = b, a, right, left
    if isinstance(a, Spectrum) and not isinstance(b, Signal):
        return _scaled(a, symbol, right)
    if isinstance(a, Signal):
        return a if b is None and _is_filter(right[0]) else None
    one = isinstance(left[0], Number) and left[0].const == 1
    return b if isinstance(b, Extent) and symbol == "/" and one else None


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
        a.paths | b.paths,
        scaling,
        a.filtered or b.filtered,
        a.conjugated or b.conjugated,
    )


def _scaled(spectrum: Spectrum, symbol: str, other: Operand) -> Spectrum:
    """A spectrum times or over something that is no spectrum."""
    if symbol == "*" and _is_filter(other[0]):
        return replace(spectrum, filtered=True)
    scaling: Scaling = "unknown"
    if spectrum.scaling == "none" and is_length(
        other, spectrum.length, spectrum.axes, spectrum.paths
    ):
        scaling = "length"
    return replace(spectrum, scaling=scaling)


def _is_filter(value: Value) -> bool:
    """Whether a factor is an array of weights, and not a scale, as far as one can tell.

    The spectrum of a kernel from elsewhere is complex, and may have been scaled there.
    """
    array = as_array(value)
    if array is None or array.role is not None:
        return False
    return not array.literal and not array.scalar and array.dtype != "complex64"


def is_length(operand: Operand, length: Length | None, axes: Axes, paths: frozenset[str]) -> bool:
    """Whether an operand is the length of a transform, or one over it.

    length: what the transform was given; without it the length is that of the input's ``axes``.
    paths: names of arrays that have the input's length.
    """
    value, node = operand
    number = as_number(value)
    extent = number.extent if number is not None else role_of(value)
    if isinstance(extent, Extent) and measures(extent, axes, paths):
        given = None if length is None else length.extent
        if length is None or (given is not None and measures(given, axes, paths)):
            return True
    if length is None:
        return False
    if extent is not None and extent == length.extent:
        return True
    if length.path is not None and _named_factor(node) == length.path:
        return True
    total = 1
    for const in length.consts:
        total *= const or 0
    return number is not None and total > 1 and number.const in (total, 1 / total)


def measures(extent: Extent, axes: Axes, paths: frozenset[str]) -> bool:
    """Whether it is the length of those axes of one of the arrays."""
    if extent.path not in paths:
        return False
    if extent.axes is None:
        return True
    if axes is None or isinstance(axes, str):
        return False
    rank = extent.rank
    if rank is None:
        return extent.axes == frozenset(axes)
    return {axis % rank for axis in extent.axes} == {axis % rank for axis in axes}


def _named_factor(node: cst.BaseExpression) -> str | None:
    """``size`` of ``size``, ``1 / size``, ``float(size)`` and ``mx.array(size, dtype=...)``."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide):
        one = isinstance(node.left, (cst.Integer, cst.Float)) and node.left.evaluated_value == 1
        return _named_factor(node.right) if one else None
    if isinstance(node, cst.Call):
        path = dotted(node.func) or ""
        if path.rpartition(".")[2] in ("array", "float", "int") and node.args:
            return _named_factor(node.args[0].value)
        return None
    return dotted(node)


def extent_of_result(symbol: str, left: Number, right: Number) -> Extent | None:
    """The length that an operation on lengths gives: ``1 / n``, ``height * width``."""
    a, b = left.extent, right.extent
    if symbol == "*" and a is not None and b is not None:
        if a.path != b.path or a.rank != b.rank or a.axes is None or b.axes is None:
            return None
        return Extent(a.path, a.axes | b.axes, a.rank)
    if symbol in ("*", "/") and right.const == 1:
        return a
    return b if symbol in ("*", "/") and left.const == 1 else None


def sliced(role: Role | None, node: cst.Subscript) -> Role | None:
    """The role of ``x[...]``: a cut signal keeps its scale, a cut spectrum loses its length."""
    if isinstance(role, Signal):
        return role
    if isinstance(role, Spectrum) and all(_takes_all(e.slice) for e in node.slice):
        return role
    return None


def _takes_all(part: cst.BaseSlice) -> bool:
    if isinstance(part, cst.Slice):
        return part.lower is None and part.upper is None and part.step is None
    assert isinstance(part, cst.Index)
    if isinstance(part.value, cst.Name):
        return part.value.value == "None"
    return isinstance(part.value, cst.Ellipsis)


def keep(result: Value, role: Role | None, name: str) -> Value:
    """What a function or method called ``name`` makes of an array with a role."""
    if isinstance(role, Extent):
        return _with_role(result, role) if name == "astype" else result
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
    """A value that leaves its function, where the names of arrays mean nothing."""
    if isinstance(value, Array):
        return value if value.role is None else replace(value, role=None)
    if isinstance(value, Number):
        return value if value.extent is None else replace(value, extent=None)
    if isinstance(value, Sequence):
        items = value.items and tuple(map(detached, value.items))
        item = join_all(items) if items else detached(value.item)
        if value.array is None and item == value.item and items == value.items:
            return value
        return replace(value, item=item, items=items, array=None)
    if isinstance(value, Dict):
        return Dict(detached(value.item), tuple((k, detached(v)) for k, v in value.known))
    if isinstance(value, Union):
        return join_all(map(detached, value.options))
    return value


def axis_length(array: str, axis: int, rank: int | None = None) -> Number:
    """The length of one axis of the array of that name."""
    return Number("int", extent=Extent(array, frozenset({axis}), rank))


def whole_length(array: str) -> Number:
    """``x.size`` and ``len(x)``, which for a signal are the same."""
    return Number("int", extent=Extent(array, None))


def measure(value: Value, path: str) -> Value:
    """The value of ``x.shape`` or ``x.size`` (``path``), known to be that array's."""
    array = path.rpartition(".")[0]
    if value is SHAPE:
        return Sequence("shape", INT, array=array)
    return whole_length(array) if value is INT else value


def unpacked_shape(array: str, count: int, star: int | None) -> Value:
    """What ``count`` targets get of a shape; without a starred one they tell the rank too."""
    rank = count if star is None else None
    items = tuple(
        axis_length(array, i if star is not None and i < star else i - count, rank)
        for i in range(count)
        if i != star
    )
    return Sequence("shape", INT, items)


def transposed(array: Array) -> Array:
    """``x.T``: the axes of a spectrum are others then."""
    return array if isinstance(array.role, Signal) else replace(array, role=None)


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
