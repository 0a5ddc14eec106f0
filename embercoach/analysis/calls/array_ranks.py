"""Shapes of arrays, as the calls and operators that make the arrays determine them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.facts.facts import match
from embercoach.analysis.values.joins import any_item, as_array, as_number
from embercoach.analysis.values.lattice import (
    SCALAR,
    SOME_AXES,
    Array,
    NoneValue,
    Number,
    Numpy,
    Sequence,
    Shape,
)

if TYPE_CHECKING:
    from collections.abc import Callable as Fn
    from collections.abc import Sequence as Items

    from embercoach.analysis.facts.facts import Argument
    from embercoach.analysis.values.lattice import Value

    Arguments = tuple[Argument, ...]
    Index = tuple[cst.BaseExpression, Value] | None  # None for a slice

_ELEMENTWISE = """
abs exp expm1 floor ceil log log1p log2 log10 negative reciprocal round rsqrt sigmoid sign sin cos
tan sqrt square tanh erf contiguous stop_gradient zeros_like ones_like softmax isnan logical_not
"""
#: Activations of ``mlx.nn``.
_ACTIVATIONS = (
    "relu gelu gelu_approx gelu_fast_approx silu leaky_relu elu softplus mish sigmoid tanh"
)
#: Functions of two arrays, element by element.
_BROADCAST = """
add subtract multiply divide power maximum minimum equal not_equal less less_equal greater
greater_equal logical_and logical_or remainder floor_divide logaddexp arctan2
"""
#: Reductions, over all axes unless ``axis`` is given.
_REDUCTIONS = "sum mean max min prod var std all any argmax argmin logsumexp"
#: Methods of arrays that are element-wise.
_METHODS = "abs exp log square sqrt round"
#: Layers that keep the number of axes, and the sizes of all but the last.
_LAYERS = """
Linear Dropout LayerNorm RMSNorm GELU ReLU SiLU Tanh Sigmoid Softmax Identity LeakyReLU ELU Mish
QuantizedLinear
"""


def of_value(value: Value) -> Shape | None:
    """The shape of an array; ``()`` of a Python or NumPy number."""
    if type(value) is Number or (isinstance(value, Numpy) and value.scalar):
        return SCALAR
    array = as_array(value)
    return None if array is None else array.shape


def of_items(value: Value) -> Shape | None:
    """The shape of ``mx.array(value)`` of a number, or of nested lists of numbers."""
    if as_number(value) is not None:
        return SCALAR
    if not isinstance(value, Sequence) or value.kind not in ("list", "tuple"):
        return None
    if value.items is None:
        return SOME_AXES
    inner = {of_items(item) for item in value.items}
    shape = inner.pop() if inner else SCALAR
    if inner or shape is None or shape.sizes is None:
        return SOME_AXES
    # An empty list may have been filled by ``rows[0].append(x)``.
    return Shape((len(value.items) or None, *shape.sizes))


def of_operation(symbol: str, left: Value, right: Value) -> Shape | None:
    """The shape of an element-wise operation on two values."""
    a, b = of_value(left), of_value(right)
    if symbol == "@":
        return _product(None if a is None else a.sizes, None if b is None else b.sizes)
    if a is not None and b is not None and a.sizes is not None and b.sizes is not None:
        return _broadcast(a.sizes, b.sizes)
    return SOME_AXES if any(s is not None and s.sizes != () for s in (a, b)) else None


def _product(a: tuple[int | None, ...] | None, b: tuple[int | None, ...] | None) -> Shape | None:
    """The shape of a product of matrices, or of stacks of them.

    A stack times an array of unknown shape is a stack, of unknown sizes.
    """
    known = a if a is not None else b
    if known is not None and (a is None or b is None):
        return Shape((None,) * len(known)) if len(known) > 2 else None
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return None
    batch = _broadcast(a[:-2], b[:-2]).sizes or ()
    return Shape((*batch, a[-2], b[-1]))


def _broadcast(a: tuple[int | None, ...], b: tuple[int | None, ...]) -> Shape:
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    padded = (1,) * (len(longer) - len(shorter)) + shorter
    return Shape(tuple(_common(m, n) for m, n in zip(longer, padded, strict=True)))


def _common(m: int | None, n: int | None) -> int | None:
    """The size of an axis, of two that are equal if neither is 1."""
    if m == 1:
        return n
    return m if n == 1 or n is None else n


def of_index(shape: Shape | None, indices: Items[Index]) -> Shape | None:
    """The shape of ``x[...]`` by integers, ``None``, ``...`` and slices."""
    if shape is None or shape.sizes is None:
        return None
    left = list(shape.sizes)
    found: list[int | None] = []
    axes = sum(not is_new_axis(index) and not is_ellipsis(index) for index in indices)
    for index in indices:
        if is_ellipsis(index):
            found += left[: len(left) - axes]
            del left[: max(0, len(left) - axes)]
        elif is_new_axis(index):
            found.append(1)
        elif not left or not (index is None or type(index[1]) is Number):
            return None  # too many of them, or an array
        else:
            axes -= 1
            del left[0]
            if index is None:
                found.append(None)
    return Shape((*found, *left))


def is_ellipsis(index: Index) -> bool:
    """Return whether an index is ``...``."""
    return index is not None and type(index[0]) is cst.Ellipsis


def is_new_axis(index: Index) -> bool:
    """Return whether an index is ``None``."""
    return index is not None and type(index[1]) is NoneValue


def of_call(name: str, arguments: Arguments) -> Shape | None:
    """The shape of what a function of MLX returns."""
    handler = _FUNCTIONS.get(name)
    return None if handler is None else handler(name, arguments)


def of_method(array: Array, name: str, arguments: Arguments) -> Shape | None:
    """The shape of what a method of an array returns."""
    if name == "reshape":
        return _reshaped(array.shape, arguments)
    if name in ("transpose", "swapaxes"):
        return _permuted(array.shape, name, arguments)
    if name == "flatten":
        return Shape((None,)) if not arguments else None
    if name in _REDUCTIONS.split():
        return _reduced(array.shape, arguments)
    if name == "squeeze":
        return _squeezed(array.shape, arguments)
    return array.shape if name in _METHODS.split() else None


def of_layer(name: str, arguments: Arguments) -> Shape | None:
    """The shape of what a layer of ``mlx.nn`` returns."""
    before = _like_first(name, arguments)
    sizes = None if before is None else before.sizes
    if not sizes:
        return None
    if name == "mlx.nn.Embedding":
        return Shape((*sizes, None))
    return Shape((*sizes[:-1], None)) if name.removeprefix("mlx.nn.") in _LAYERS.split() else None


def _reduced(before: Shape | None, arguments: Arguments) -> Shape | None:
    """``x.mean()``, ``x.mean(-1)``, ``x.mean(axis=(0, 1), keepdims=True)``."""
    named = {a.keyword: a.value for a in arguments if a.keyword is not None}
    places = [a.value for a in arguments if a.keyword is None]
    keep = named.get("keepdims", places[1] if len(places) > 1 else None)
    if any(a.star for a in arguments) or (keep is not None and type(keep) is not Number):
        return None
    axis = named.get("axis", places[0] if places else None)
    if axis is None or type(axis) is NoneValue:
        return SCALAR if keep is None or keep.const is False else None
    axes = _axes(before, axis)
    if before is None or before.sizes is None or axes is None:
        return None
    if keep is None or keep.const is False:
        return Shape(tuple(n for at, n in enumerate(before.sizes) if at not in axes))
    if keep.const is not True:
        return None
    return Shape(tuple(1 if at in axes else n for at, n in enumerate(before.sizes)))


def _axes(before: Shape | None, axis: Value) -> frozenset[int] | None:
    """The axes that ``axis=-1`` or ``axis=(0, 1)`` names, None if some are not known."""
    sizes = None if before is None else before.sizes
    items = axis.items if isinstance(axis, Sequence) else (axis,)
    named = None if items is None else [_length(item) for item in items]
    if sizes is None or named is None:
        return None
    known = [at % len(sizes) for at in named if at is not None and -len(sizes) <= at < len(sizes)]
    return frozenset(known) if len(known) == len(named) else None


def _squeezed(before: Shape | None, arguments: Arguments) -> Shape | None:
    axis = arguments[0] if len(arguments) == 1 and not arguments[0].star else None
    axes = None if axis is None else _axes(before, axis.value)
    if before is None or before.sizes is None or axes is None:
        return None
    return Shape(tuple(n for at, n in enumerate(before.sizes) if at not in axes))


def _of_first(
    handler: Fn[[Shape | None, Arguments], Shape | None],
) -> Fn[[str, Arguments], Shape | None]:
    """A function of MLX for the method of the same name."""
    return lambda name, arguments: handler(_like_first(name, arguments), arguments[1:])


def _expanded(before: Shape | None, arguments: Arguments) -> Shape | None:
    """``mx.expand_dims(x, axis)`` of one axis."""
    at = _length(arguments[0].value) if len(arguments) == 1 and not arguments[0].star else None
    sizes = None if before is None else before.sizes
    if sizes is None or at is None or not -len(sizes) <= at + 1 <= len(sizes) + 1:
        return None
    at = at if at >= 0 else len(sizes) + 1 + at
    return Shape((*sizes[:at], 1, *sizes[at:]))


def _joined(name: str, arguments: Arguments) -> Shape | None:
    """``mx.stack([x, y])`` has one more axis than each, ``mx.concatenate([x, y])`` as many."""
    first = arguments[0].value if arguments and not arguments[0].star else None
    if not isinstance(first, Sequence):
        return None
    parts = [of_value(item) for item in first.items or (any_item(first),)]
    shapes = [p.sizes for p in parts if p is not None and p.sizes is not None]
    if len(shapes) < len(parts) or len({len(sizes) for sizes in shapes}) > 1:
        return None
    stacks = name == "mlx.core.stack"
    rank = len(shapes[0]) + stacks
    given = next((a.value for a in arguments[1:] if a.keyword in (None, "axis")), None)
    at = 0 if given is None else _length(given)
    if first.items is None or at is None or not -rank <= at < rank:
        return Shape((None,) * rank)
    sizes = [next((n for n in ns if n is not None), None) for ns in zip(*shapes, strict=True)]
    if stacks:
        sizes.insert(at % rank, len(shapes))
    else:
        joined = [n for one in shapes if (n := one[at]) is not None]
        sizes[at] = sum(joined) if len(joined) == len(shapes) else None
    return Shape(tuple(sizes))


def _of_two(name: str, arguments: Arguments) -> Shape | None:
    if len(arguments) < 2 or any(a.star or a.keyword for a in arguments[:2]):
        return None
    symbol = "@" if name == "mlx.core.matmul" else "+"
    return of_operation(symbol, arguments[0].value, arguments[1].value)


def _selected(name: str, arguments: Arguments) -> Shape | None:
    """``mx.where(condition, x, y)``."""
    shapes = [of_value(a.value) for a in arguments if not a.star and not a.keyword]
    if len(shapes) != 3:
        return None
    sizes: tuple[int | None, ...] = ()
    for shape in shapes:
        if shape is None or shape.sizes is None:
            return None
        sizes = _broadcast(sizes, shape.sizes).sizes or ()
    return Shape(sizes)


def _permuted(before: Shape | None, name: str, arguments: Arguments) -> Shape | None:
    """``x.transpose(0, 2, 1, 3)``, ``x.transpose()``, ``x.swapaxes(-1, -2)``."""
    sizes = None if before is None else before.sizes
    if any(a.star or a.keyword for a in arguments):
        return None
    axes = [_length(a.value) for a in arguments]
    if sizes is None:
        return Shape((None,) * len(axes)) if name == "transpose" and len(axes) > 1 else None
    known = [axis % len(sizes) for axis in axes if axis is not None and sizes]
    if name == "swapaxes" and len(known) == len(axes) == 2:
        order = [*range(len(sizes))]
        order[known[0]], order[known[1]] = known[1], known[0]
        return Shape(tuple(sizes[at] for at in order))
    if name == "transpose" and not axes:
        return Shape(sizes[::-1])
    if name == "transpose" and sorted(known) == [*range(len(sizes))]:
        return Shape(tuple(sizes[at] for at in known))
    return Shape((None,) * len(sizes))


def _like_first(name: str, arguments: Arguments) -> Shape | None:
    first = arguments[0] if arguments else None
    return None if first is None or first.star or first.keyword else of_value(first.value)


def _made(name: str, arguments: Arguments) -> Shape | None:
    """``mx.zeros((4, n))``, ``mx.random.normal(shape=(4, n))``."""
    entry = mlx_api.lookup(name)
    if entry is None:
        return None
    shape = next((a for param, a in match(entry, arguments) if param.name == "shape"), None)
    return None if shape is None else _lengths(shape.value)


def _counted(name: str, arguments: Arguments) -> Shape:
    """``mx.arange(stop)``, ``mx.arange(start, stop, step)``."""
    bounds = [_length(a.value) for a in arguments if a.keyword is None]
    known = [n for n in bounds if n is not None]
    if any(a.star or a.keyword in ("start", "stop", "step") for a in arguments):
        return Shape((None,))
    if len(known) < len(bounds) or not 1 <= len(known) <= 3 or known[2:] == [0]:
        return Shape((None,))
    return Shape((len(range(*known)),))


def _spaced(name: str, arguments: Arguments) -> Shape:
    """``mx.linspace(start, stop, num=50)``."""
    entry = mlx_api.lookup(name)
    pairs = match(entry, arguments) if entry is not None else ()
    number = next((a for param, a in pairs if param.name == "num"), None)
    return Shape((50 if number is None else _length(number.value),))


def _flat(name: str, arguments: Arguments) -> Shape | None:
    return Shape((None,)) if len(arguments) == 1 else None


def _reshape(name: str, arguments: Arguments) -> Shape | None:
    return _reshaped(_like_first(name, arguments), arguments[1:])


def _reshaped(before: Shape | None, arguments: Arguments) -> Shape | None:
    """``x.reshape(4, -1)``, ``x.reshape((4, 4))``, ``mx.reshape(x, (4, 4))``."""
    if not arguments or any(a.keyword is not None or a.star for a in arguments):
        return None
    first = arguments[0].value
    shape = Shape(tuple(_length(a.value) for a in arguments))
    if type(first) is not Number:
        given = _lengths(first)
        if given is None:
            return None
        shape = given
    sizes = shape.sizes or ()
    if -1 not in sizes:
        return shape
    whole = None if before is None else before.elements
    part = Shape(tuple(n for n in sizes if n != -1)).elements
    rest = whole // part if whole is not None and part else None
    return Shape(tuple(rest if n == -1 else n for n in sizes))


def _lengths(value: Value) -> Shape | None:
    """A shape that is given as a number or as a tuple of numbers."""
    if type(value) is Number:
        return Shape((_length(value),))
    if not isinstance(value, Sequence) or value.items is None:
        return None
    return Shape(tuple(map(_length, value.items)))


def _length(value: Value) -> int | None:
    return value.const if type(value) is Number and type(value.const) is int else None


_FUNCTIONS: dict[str, Fn[[str, Arguments], Shape | None]] = {
    **{f"mlx.core.{name}": _like_first for name in _ELEMENTWISE.split()},
    **{f"mlx.nn.{name}": _like_first for name in _ACTIVATIONS.split()},
    **{f"mlx.core.{name}": _of_two for name in (*_BROADCAST.split(), "matmul")},
    **{f"mlx.core.{name}": _of_first(_reduced) for name in _REDUCTIONS.split()},
    "mlx.core.squeeze": _of_first(_squeezed),
    "mlx.core.expand_dims": _of_first(_expanded),
    "mlx.core.stack": _joined,
    "mlx.core.concatenate": _joined,
    "mlx.core.where": _selected,
    "mlx.core.take_along_axis": _of_first(lambda before, arguments: before and before.axes),
    "mlx.core.zeros": _made,
    "mlx.core.ones": _made,
    "mlx.core.full": _made,
    "mlx.core.random.normal": _made,
    "mlx.core.random.uniform": _made,
    "mlx.core.random.randint": _made,
    "mlx.core.random.gumbel": _made,
    "mlx.core.arange": _counted,
    "mlx.core.linspace": _spaced,
    "mlx.core.flatten": _flat,
    "mlx.core.reshape": _reshape,
}
