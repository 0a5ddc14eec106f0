"""Arrays as inference knows them: shapes of known and symbolic sizes, and dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    AnyInt,
    Integer,
    SizeExpr,
    product,
)
from embercoach.analysis.values import promotion

if TYPE_CHECKING:
    import ast

WeakKind = Literal["bool", "int", "float", "complex"]

_serial = count(1)


class AxesSymbol(Struct, eq=False):
    """An unknown number of axes: ``*x.shape[:-1]``, or the whole shape of a parameter ``x``.

    Attributes:
        name: as the program calls the array; empty for axes that are written ``...``.
        serial: distinguishes it from all others.
        joined: for axes in the join of two paths: the shapes on these, and the tail of the join.
        ahead: how many axes of the array precede these.
        after: how many follow.
        is_given: whether the array is a parameter or a field.
    """

    name: str = ""
    ahead: int = 0
    after: int = 0
    is_given: bool = False
    joined: tuple[ArrayShape, ArrayShape, tuple[Integer, ...]] | None = None
    serial: int = field(default_factory=_serial.__next__)

    def inner(self, ahead: int, after: int) -> AxesSymbol:
        """Return the axes without the first and the last ones."""
        return AxesSymbol(self.name, self.ahead + ahead, self.after + after, self.is_given)

    def axis_name(self, at: int) -> str:
        """Return the name of an axis, counted from the end if negative: ``x.0``."""
        number = at + self.ahead if at >= 0 else at - self.after
        return f"{self.name or 'n'}.{number}"

    def __repr__(self) -> str:
        """As jaxtyping writes it."""
        return f"*{self.name}" if self.name else "..."


class ArrayShape(Struct, frozen=True):
    """Sizes of axes; with ``middle``, unknown axes stand between ``head`` and ``tail``."""

    head: tuple[Integer, ...] = ()
    middle: AxesSymbol | None = None
    tail: tuple[Integer, ...] = ()

    @property
    def rank(self) -> int | None:
        """The number of axes, None if it is unknown."""
        return len(self.head) if self.middle is None else None

    @property
    def least_rank(self) -> int:
        """The number of axes that there are at least."""
        return len(self.head) + len(self.tail)

    @property
    def sizes(self) -> tuple[Integer, ...] | None:
        """The sizes of all axes, None if their number is unknown."""
        return self.head if self.middle is None else None

    def size(self, axis: int) -> Integer:
        """Get the size of an axis, from the end if negative; ``ANY_INT`` where it isn't known."""
        if self.middle is None:
            return self.head[axis]
        if axis >= 0:
            return self.head[axis] if axis < len(self.head) else ANY_INT
        return self.tail[axis] if -axis <= len(self.tail) else ANY_INT

    @property
    def elements(self) -> Integer:
        """The number of elements."""
        return ANY_INT if self.middle is not None else product(self.head)

    def __repr__(self) -> str:
        """``(B, S, 64)``, ``(*x, 64)``."""
        parts = [_written(n) for n in self.head]
        if self.middle is not None:
            parts += [repr(self.middle), *(_written(n) for n in self.tail)]
        return shape_text(parts)


def shape_text(sizes: Sequence[str]) -> str:
    """Return a shape of sizes that are written: ``(B, S)``, ``(B,)``."""
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _written(size: Integer) -> str:
    return "?" if size is ANY_INT else str(size)


def unknown_shape(name: str = "") -> ArrayShape:
    """Return a shape of which nothing is known."""
    return ArrayShape((), AxesSymbol(name))


def shape_of_rank(rank: int | None, more: int = 0) -> ArrayShape:
    """Return a shape of unknown sizes, of so many axes and some more; of None any shape."""
    return unknown_shape() if rank is None else ArrayShape((ANY_INT,) * (rank + more))


def without_last(shape: ArrayShape, count: int = 1) -> ArrayShape:
    """Return the shape without its last axes."""
    if shape.middle is None:
        return ArrayShape(shape.head[: len(shape.head) - count])
    if len(shape.tail) < count:
        return unknown_shape()
    return ArrayShape(shape.head, shape.middle, shape.tail[: len(shape.tail) - count])


def without_first(shape: ArrayShape, count: int = 1) -> ArrayShape:
    """Return the shape without its first axes."""
    if shape.middle is None:
        return ArrayShape(shape.head[count:])
    if len(shape.head) < count:
        return unknown_shape()
    return ArrayShape(shape.head[count:], shape.middle, shape.tail)


def with_last(shape: ArrayShape, *sizes: Integer) -> ArrayShape:
    """Return the shape with more axes after its last."""
    if shape.middle is None:
        return ArrayShape((*shape.head, *sizes))
    return ArrayShape(shape.head, shape.middle, (*shape.tail, *sizes))


def chained(*shapes: ArrayShape) -> ArrayShape:
    """Return the shape of the axes of several shapes, in order."""
    unknown = [at for at, shape in enumerate(shapes) if shape.middle is not None]
    if not unknown:
        return ArrayShape(tuple(n for shape in shapes for n in shape.head))
    first, last = unknown[0], unknown[-1]
    head = [n for shape in shapes[: first + 1] for n in shape.head]
    tail = [*shapes[last].tail, *(n for shape in shapes[last + 1 :] for n in shape.head)]
    middle = shapes[first].middle if first == last else AxesSymbol()
    return ArrayShape(tuple(head), middle, tuple(tail))


class DTypeSymbol(Struct, frozen=True, eq=False):
    """The unknown dtype of one place: of a parameter ``x``, or of a model's parameters.

    is_floating: it is float16, bfloat16 or float32 (MLX casts a model's floating parameters only).
    """

    name: str
    is_floating: bool = False


#: The dtype that a model's floating parameters are loaded, cast or created in.
PARAMETER_DTYPE = DTypeSymbol("parameters", is_floating=True)


class PromotedDType(Struct, frozen=True):
    """The dtype of arrays of unknown dtypes combined with each other, a known one, or a number."""

    symbols: frozenset[DTypeSymbol]
    name: str | None = None
    weak: WeakKind | None = None

    def __repr__(self) -> str:
        """``dtype of x``; ``dtype of x, y and float16``."""
        names = [*sorted(symbol.name for symbol in self.symbols)]
        if self.name:
            names.append(self.name)
        if self.weak:
            names.append(f"a Python {self.weak}")
        last = names.pop()
        return "dtype of " + (f"{', '.join(names)} and {last}" if names else last)


#: What is known of a dtype: MLX's name, an expression of unknown ones, or nothing.
DType = str | PromotedDType | None


def dtype_symbol(symbol: DTypeSymbol) -> DType:
    """Return the dtype that a symbol stands for."""
    return PromotedDType(frozenset((symbol,)))


PARAMETERS: DType = dtype_symbol(PARAMETER_DTYPE)


def is_floating(dtype: DType) -> bool | None:
    """Return whether a dtype is floating (not complex), None if that is unknown."""
    if dtype is None:
        return None
    if isinstance(dtype, str):
        return dtype in FLOATS
    if all(symbol.is_floating for symbol in dtype.symbols):
        return True
    return None


FLOATS = frozenset(("float16", "bfloat16", "float32", "float64"))
_KINDS: tuple[WeakKind, ...] = ("bool", "int", "float", "complex")


def promote(a: DType, b: DType) -> DType:
    """Return the dtype that MLX promotes two arrays to."""
    if a == b:
        return a
    if a is None or b is None:
        return None
    if isinstance(a, str) and isinstance(b, str):
        return promotion.promote(a, b)
    if _hides_number(a, b) or _hides_number(b, a):
        return None
    symbols: frozenset[DTypeSymbol] = frozenset()
    names: list[str] = []
    weak: WeakKind | None = None
    for dtype in (a, b):
        if isinstance(dtype, str):
            names.append(dtype)
            continue
        symbols |= dtype.symbols
        if dtype.name is not None:
            names.append(dtype.name)
        if dtype.weak is not None:
            weak = dtype.weak if weak is None else max(weak, dtype.weak, key=_KINDS.index)
    name = None
    for one in names:
        name = one if name is None else promotion.promote(name, one)
    if name == "float32" and not any(one in FLOATS for one in names):
        return None  # of int32 and uint64, which with float16 make float16
    return _promoted(symbols, name, weak)


def _hides_number(a: DType, b: DType) -> bool:
    """Return whether a number combined with ``a`` affects the dtype of ``a`` and ``b``.

    For integers, ``x * 0.5`` is float32, and stays so with float16.
    """
    if not isinstance(a, PromotedDType) or a.weak is None or a.name in FLOATS:
        return False
    if isinstance(b, str):
        if a.weak == "float":
            return b in ("float16", "bfloat16", "float64")
        return b != "bool" and b not in FLOATS
    return b is None or not b.symbols <= a.symbols or b.name is not None


def _promoted(symbols: frozenset[DTypeSymbol], name: str | None, weak: WeakKind | None) -> DType:
    if name == "complex64":
        return name
    floating = any(symbol.is_floating for symbol in symbols)
    if name == "float32" and all(symbol.is_floating for symbol in symbols):
        return name  # float64 is for the CPU alone, and not what parameters have
    if floating and name is not None and name not in FLOATS:
        name = None
    if floating and weak != "complex":
        weak = None
    if name in FLOATS and weak in ("float", "int", "bool"):
        weak = None
    return PromotedDType(symbols, name, weak)


def promote_weak(dtype: DType, kind: WeakKind) -> DType:
    """Return the dtype of an array combined with a Python number."""
    if kind == "complex":
        return "complex64"
    if dtype is None:
        return None
    if isinstance(dtype, str):
        return promotion.promote_weak(dtype, kind)
    if kind == "bool":
        return dtype
    weak = kind if dtype.weak is None else max(kind, dtype.weak, key=_KINDS.index)
    return _promoted(dtype.symbols, dtype.name, weak)


def floating(dtype: DType) -> DType:
    """Return the dtype of ``mx.exp`` and the like: float32 for integers."""
    if isinstance(dtype, str):
        return promotion.floating(dtype)
    return promote_weak(dtype, "float")


class Origin(Struct, frozen=True, eq=False):
    """A call that gives an array's axes a meaning: a reduction, a softmax, a layer.

    Attributes:
        name: what is called: ``mlx.core.sum``, ``mlx.nn.Linear``.
        node: the call.
        before: the shape of its first argument.
        axes: the axes that it reduces or normalizes, from the end (negative); empty if unknown.
    """

    name: str
    node: ast.AST
    before: ArrayShape
    axes: tuple[int, ...] = ()


class ShapedArray(Struct, frozen=True):
    """An ``mx.array`` of a shape and a dtype.

    line: where the program has made it, for messages; not compared.
    origin: the call that its axes come from, where that says what they mean; not compared.
    """

    shape: ArrayShape
    dtype: DType = None
    line: int = 0
    origin: Origin | None = None

    def __eq__(self, other: object) -> bool:
        return type(other) is ShapedArray and (
            self.shape == other.shape and self.dtype == other.dtype
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        """``float32[B, S, 64]``; without a dtype that is known ``[B, S, 64]``."""
        text = repr(self.shape)[1:-1].removesuffix(",")
        return f"{self.dtype if isinstance(self.dtype, str) else ''}[{text}]"


class HostArray(Struct, frozen=True):
    """A NumPy array of a shape."""

    shape: ArrayShape


class Ratio(Struct, frozen=True):
    """A float that is the quotient of two integers: ``D / 2``, ``0.5 * D``."""

    numerator: Integer
    denominator: Integer


class AnyScalar(Struct, frozen=True):
    """A Python number or string that is not known; integers are ``ANY_INT``."""

    kind: Literal["bool", "float", "complex", "str"]


ANY_BOOL = AnyScalar("bool")
ANY_FLOAT = AnyScalar("float")
ANY_COMPLEX = AnyScalar("complex")
ANY_STR = AnyScalar("str")


class DTypeValue(Struct, frozen=True):
    """A dtype as a value of the program: ``mx.float16``, ``x.dtype``."""

    dtype: DType


class Unknown:
    """The type of ``UNKNOWN``, of which nothing is known, not even whether it is an array."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return a question mark."""
        return "?"


UNKNOWN = Unknown()


def weak_kind(value: object) -> WeakKind | None:
    """Return the kind of a Python number, None for anything else."""
    kind = type(value)
    if kind is bool:
        return "bool"
    if kind is int or kind is SizeExpr or kind is AnyInt:
        return "int"
    if kind is float or kind is Ratio:
        return "float"
    if kind is complex:
        return "complex"
    if isinstance(value, AnyScalar) and value.kind != "str":
        return value.kind
    return None
