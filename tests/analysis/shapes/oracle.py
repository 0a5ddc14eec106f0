"""Compare transfer functions with MLX, on drawn calls.

    python -m tests.analysis.shapes.oracle 200000

How to register draws, in a file ``draws_*.py`` beside this one (all are imported by ``load``):

    from tests.analysis.shapes.oracle import Draw, draws

    @draws("expand_dims", "squeeze")
    def unary_of_axis(draw: Draw) -> Call:
        x = draw.array()
        return (x, draw.axis(x)), {}

A draw returns positional and keyword arguments, as a transfer function gets them: ``ShapedArray``
with known sizes and dtype (``draw.array(shape, dtype)``), numbers, tuples, ``DTypeValue``, slices.
About one of four calls should be invalid (``draw.wrong()`` says when). MLX gets arrays of zeros.
An integer that is a size is made with ``draw.size()`` or ``Size(n)``, a tuple of them with
``draw.sizes(shape)``: such integers turn into symbols, as the sizes of arrays do.

Options of ``draws``: ``run(*args, **kwargs)`` calls MLX in place of the function that the name
says; ``infer(requirements, *args, **kwargs)`` is used in place of the entry in ``TRANSFERS``;
``open_sizes`` allows unknown sizes in the result of a known call (it depends on data);
``may_raise`` allows MLX to raise without a condition in symbolic calls (a draw may set
``draw.may_raise``, too). A layer is drawn under its name, too: its ``run`` makes the layer and
calls it, its ``infer`` asks LAYERS and LAYER_CALLS; both may return a dictionary or tuple with all
arrays that are to be compared.

``compare(name, args, kwargs, draw)`` returns None, or what disagrees: with known sizes, with
symbols for sizes and dtypes, and with unknown axes; now and then a whole argument is unknown. What
the checker assumes beyond MLX (sizes with names are not 1, arrays of many axes have the greatest
rank) is left out of the comparison."""

from __future__ import annotations

import importlib
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn  # noqa: F401

from embercoach.analysis.shapes import table
from embercoach.analysis.shapes.arrays import (
    UNKNOWN,
    AnyScalar,
    ArrayShape,
    AxesSymbol,
    DType,
    DTypeSymbol,
    DTypeValue,
    Ratio,
    ShapedArray,
    dtype_symbol,
)
from embercoach.analysis.shapes.requirements import Condition, Requirements, ShapeError
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Comparison,
    Integer,
    SizeExpr,
    SizeSymbol,
    add,
    floor_divide,
    multiply,
    substituted,
    symbol,
)
from embercoach.analysis.shapes.table import TRANSFERS
from embercoach.analysis.values import promotion


def concrete(dtype: DType, values: Mapping[DTypeSymbol, str]) -> str | None:
    """The dtype with symbols replaced by MLX's names, None if it isn't known then."""
    if dtype is None or isinstance(dtype, str):
        return dtype
    result = dtype.name
    for one in dtype.symbols:
        value = values.get(one)
        if value is None:
            return None
        result = value if result is None else promotion.promote(result, value)
    return promotion.promote_weak(result, dtype.weak) if dtype.weak else result


def shape_substituted(shape: ArrayShape, sizes: Mapping[SizeSymbol, Integer]) -> ArrayShape:
    """The shape where symbols of sizes are replaced."""
    head = tuple(substituted(n, sizes) for n in shape.head)
    tail = tuple(substituted(n, sizes) for n in shape.tail)
    return ArrayShape(head, shape.middle, tail)


#: Positional and keyword arguments.
Call = tuple[tuple[Any, ...], dict[str, Any]]

FLOATS = ("float32", "float16", "bfloat16")
INTS = ("int32", "int64", "int16", "int8", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, *INTS, "bool", "complex64")
#: Dtypes of most draws; the others come as often as one of these.
USUAL = ("float32", "float16", "bfloat16", "int32", "bool", "")


class Size(int):
    """An integer argument that is a size, and may become a symbol."""

    __slots__ = ()


class Draw(random.Random):
    """What is drawn from a seed.

    may_raise: a draw sets it where MLX raises for what no condition can say (an index that is out
    of bounds of an unknown size).
    """

    may_raise = False

    def chance(self, part: float = 0.5) -> bool:
        """Whether something of this probability happens."""
        return self.random() < part

    def wrong(self) -> bool:
        """Whether to draw something invalid here."""
        return self.random() < 0.12

    def maybe(self, part: float, **values: Any) -> dict[str, Any]:
        """Keyword arguments, of which each is passed with this probability."""
        return {name: value for name, value in values.items() if self.chance(part)}

    def length(self) -> int:
        """The length of an axis."""
        return self.choice((1, 2, 2, 3, 3, 4, 4, 5, 6, 0))

    def size(self) -> Size:
        """An argument that is a size."""
        return Size(self.length())

    def sizes(self, shape: tuple[int, ...]) -> tuple[Size, ...]:
        """An argument that is a shape."""
        return tuple(map(Size, shape))

    def rank(self, least: int = 0, most: int = 5) -> int:
        """A number of axes."""
        return min(max(self.choice((0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5)), least), most)

    def shape(self, least: int = 0, most: int = 5) -> tuple[int, ...]:
        """A shape of least to most axes."""
        return tuple(self.length() for _ in range(self.rank(least, most)))

    def dtype(self, among: tuple[str, ...] = ()) -> str:
        """The name of a dtype."""
        return self.choice(among) if among else self.choice(USUAL) or self.choice(DTYPES)

    def array(
        self,
        shape: tuple[int, ...] | None = None,
        dtype: str = "",
        *,
        least: int = 0,
        most: int = 5,
    ) -> ShapedArray:
        """An array of a shape and dtype, which are drawn if not given."""
        if shape is None:
            shape = self.shape(least, most)
        return ShapedArray(ArrayShape(tuple(map(int, shape))), dtype or self.dtype())

    def floats(self, shape: tuple[int, ...] | None = None, **bounds: int) -> ShapedArray:
        """A floating array."""
        return self.array(shape, self.choice(FLOATS), **bounds)

    def number(self) -> Any:
        """A Python number."""
        return self.choice((2, 0.5, True, 1, 3.0, 1j))

    def axis(self, rank: int | ShapedArray, added: int = 0) -> int:
        """An axis, now and then one out of bounds."""
        rank = (rank if isinstance(rank, int) else len(rank.shape.head)) + added
        if rank == 0 or self.chance(0.08):
            return self.choice((0, -1, rank, -rank - 1, rank + 1))
        return self.randrange(-rank, rank)

    def axes(self, rank: int | ShapedArray) -> Any:
        """None, an axis, or a tuple or list of axes, now and then with one twice."""
        rank = rank if isinstance(rank, int) else len(rank.shape.head)
        kind = self.random()
        if kind < 0.2:
            return None
        if kind < 0.65:
            return self.axis(rank)
        if kind < 0.7:
            return ()
        chosen = self.sample(range(rank), self.randint(1, rank)) if rank else [self.axis(0)]
        chosen = [n - rank if self.chance(0.3) else n for n in chosen]
        if self.chance(0.08):
            chosen.append(self.axis(rank))
        return tuple(chosen) if self.chance(0.7) else chosen

    def broadcasting(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts with another one, or nearly."""
        other = [1 if self.chance(0.2) else n for n in shape]
        if self.wrong() and other:
            other[self.randrange(len(other))] = self.length()
        if self.chance(0.3):
            other = other[self.randint(0, len(other)) :]
        if self.chance(0.1) and len(other) < 5:
            other.insert(0, self.length())
        return tuple(other)


@dataclass(frozen=True)
class Drawn:
    """How the calls of one name are drawn and compared."""

    draw: Callable[[Draw], Call]
    run: Callable[..., Any] | None = None
    infer: Callable[..., Any] | None = None
    open_sizes: bool = False
    may_raise: bool = False


#: By the full name of what is called.
DRAWS: dict[str, Drawn] = {}


def draws(*names: str, **options: Any) -> Callable[[Callable[[Draw], Call]], Any]:
    """Register a draw for names of ``mlx.core``, or for full names."""

    def register(function: Callable[[Draw], Call]) -> Callable[[Draw], Call]:
        for name in names:
            full = name if name.startswith("mlx") else f"mlx.core.{name}"
            DRAWS[full] = Drawn(function, **options)
        return function

    return register


@cache
def load() -> Mapping[str, Drawn]:
    """The draws of all files, and transfer functions with them."""
    table.load()
    for path in sorted(Path(__file__).parent.glob("draws_*.py")):
        importlib.import_module(f"tests.analysis.shapes.{path.stem}")
    return DRAWS


# What MLX does


@cache
def dtype_named(name: str) -> mx.Dtype:
    """The dtype of a name."""
    return getattr(mx, "bool_" if name == "bool" else name)  # type: ignore[no-any-return]


def each(convert: Callable[[Any], Any], value: Any) -> Any:
    """The value with what its tuples, lists, dictionaries and slices hold converted."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind(each(convert, item) for item in value)
    if kind is dict:
        return {key: each(convert, item) for key, item in value.items()}
    if kind is slice:
        return slice(*(each(convert, part) for part in (value.start, value.stop, value.step)))
    return convert(value)


def as_mlx(value: Any) -> Any:
    """The argument that MLX gets."""
    if type(value) is ShapedArray:
        return mx.zeros(value.shape.head, dtype_named(value.dtype))
    if type(value) is DTypeValue:
        return dtype_named(value.dtype)
    return unmarked(value)


def plain(value: Any) -> Any:
    """The value of a result of MLX."""
    if isinstance(value, mx.array):
        return ShapedArray(ArrayShape(value.shape), str(value.dtype)[9:])
    return DTypeValue(str(value)[9:]) if isinstance(value, mx.Dtype) else value


@cache
def mlx_function(name: str) -> Callable[..., Any]:
    """The function of MLX of this name; of a property, what reads it."""
    found: Any = mx
    owner: Any = None
    for part in name.removeprefix("mlx.core.").split("."):
        if part == "mlx":
            found = sys.modules["mlx"]
            continue
        owner, found = found, getattr(found, part)
    if isinstance(owner, type) and not callable(found):
        last = name.rpartition(".")[2]
        return lambda array: getattr(array, last)
    return found  # type: ignore[no-any-return]


def run_mlx(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, str]:
    """What MLX returns, or the text of what it raises."""
    run = DRAWS[name].run or mlx_function(name)
    try:
        return each(plain, run(*each(as_mlx, args), **each(as_mlx, kwargs))), ""
    except Exception as error:  # noqa: BLE001
        return None, f"{type(error).__name__}: {str(error)[:150]}"


# Symbolic arguments


@dataclass
class Symbols:
    """Symbols that stand for known numbers."""

    draw: Draw
    sizes: dict[SizeSymbol, Integer] = field(default_factory=dict)
    axes: dict[AxesSymbol, tuple[int, ...]] = field(default_factory=dict)
    dtypes: dict[DTypeSymbol, str] = field(default_factory=dict)
    chosen: dict[int, Integer] = field(default_factory=dict)
    prefixes: dict[tuple[int, ...], AxesSymbol] = field(default_factory=dict)
    hides: bool = True
    guesses: bool = False
    with_axes: bool = False
    with_dtypes: bool = False

    def new(self, number: int) -> Integer:
        """A symbol for a number, or a sum, product or quotient of symbols."""
        # Of sizes with names it is assumed that they are not 1.
        made = symbol(f"s{len(self.sizes)}", is_named=False)
        kind = self.draw.random()
        if kind < 0.1 and number >= 1:
            self.sizes[made.symbol] = number - 1
            return add(made, 1)
        for factor in (2, 3, 4):
            if kind < 0.25 and number and number % factor == 0:
                self.sizes[made.symbol] = number // factor
                return multiply(made, factor if kind < 0.18 else self.of(factor))
        if kind > 0.95:
            self.sizes[made.symbol] = 2 * number + self.draw.randrange(2)
            return floor_divide(made, 2)
        self.sizes[made.symbol] = number
        return made

    def of(self, number: int) -> Integer:
        """The number, or a symbol for it: mostly the same for equal numbers."""
        if number < 0:
            return int(number)
        if number not in self.chosen:
            self.chosen[number] = self.new(number) if self.draw.chance(0.7) else int(number)
        kind = self.draw.random()
        if kind < 0.85:
            return self.chosen[number]
        return int(number) if kind < 0.92 else self.new(number)

    def shape(self, sizes: tuple[int, ...]) -> ArrayShape:
        """A shape with symbols; sometimes its first axes are unknown."""
        if not self.with_axes or self.draw.chance(0.3):
            return ArrayShape(tuple(map(self.of, sizes)))
        head = self.draw.choice((0, 0, 0, 1)) if sizes else 0
        known = self.draw.randint(0, min(2, len(sizes) - head))
        middle = self.prefix(sizes[head : len(sizes) - known])
        tail = tuple(map(self.of, sizes[len(sizes) - known :]))
        return ArrayShape(tuple(map(self.of, sizes[:head])), middle, tail)

    def prefix(self, sizes: tuple[int, ...]) -> AxesSymbol:
        """Unknown axes of these sizes."""
        found = self.prefixes.get(sizes)
        if found is None or self.draw.chance(0.1):
            found = self.prefixes[sizes] = AxesSymbol(f"a{len(self.axes)}")
            self.axes[found] = sizes
        return found

    def dtype(self, name: str) -> DType:
        """The dtype, or a symbol for it."""
        if not self.with_dtypes or self.draw.chance(0.3):
            return name
        for known, value in self.dtypes.items():
            if value == name:
                return dtype_symbol(known)
        made = DTypeSymbol(f"d{len(self.dtypes)}", name in FLOATS and self.draw.chance(0.7))
        self.dtypes[made] = name
        return dtype_symbol(made)

    def value(self, value: Any) -> Any:
        """An argument with symbols."""
        kind = type(value)
        hideable = kind is not dict if self.hides else kind is ShapedArray or kind is int
        if hideable and self.draw.chance(0.01):
            self.guesses = True
            return UNKNOWN
        if kind is ShapedArray:
            return ShapedArray(self.shape(value.shape.head), self.dtype(value.dtype))
        if kind is Size:
            return self.of(value)
        if kind is int and self.draw.chance(0.04):
            self.guesses = True
            return ANY_INT if self.draw.chance(0.3) else self.of(value)
        if kind is tuple and value and self.axes and all(type(item) is Size for item in value):
            for sizes, middle in self.prefixes.items():
                if sizes and value[: len(sizes)] == sizes and self.draw.chance(0.7):
                    return (middle, *map(self.of, value[len(sizes) :]))
        if kind is tuple or kind is list:
            return kind(map(self.value, value))
        if kind is dict:
            return {key: self.value(item) for key, item in value.items()}
        return each(self.value, value) if kind is slice else value


# Comparing


def infer(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Requirements, str | None]:
    """The result of the transfer function, what it requires, and why it must fail."""
    requirements = Requirements()
    function = DRAWS[name].infer or TRANSFERS[name]
    try:
        return function(requirements, *args, **kwargs), requirements, None
    except ShapeError as error:
        return None, requirements, error.reason


def has_unknown(value: Any) -> bool:
    """Whether a result has a size, shape or value that isn't known."""
    if isinstance(value, ShapedArray):
        shape = value.shape
        return shape.middle is not None or any(n is ANY_INT for n in shape.head)
    if isinstance(value, (tuple, list)):
        return any(map(has_unknown, value))
    if isinstance(value, dict):
        return any(map(has_unknown, value.values()))
    return value is UNKNOWN or value is ANY_INT or isinstance(value, (AnyScalar, AxesSymbol))


def matches(value: Any, found: Any, symbols: Symbols) -> bool:
    """Whether an inferred value agrees with MLX's, with numbers for symbols."""
    if value is UNKNOWN or value is ANY_INT:
        return True
    if isinstance(value, ShapedArray):
        if not isinstance(found, ShapedArray):
            return False
        dtype = concrete(value.dtype, symbols.dtypes)
        return dtype in (None, found.dtype) and shape_matches(
            value.shape, found.shape.head, symbols
        )
    if isinstance(value, (tuple, list)):
        if any(isinstance(item, AxesSymbol) for item in value):
            at = next(at for at, item in enumerate(value) if isinstance(item, AxesSymbol))
            shape = ArrayShape(tuple(value[:at]), value[at], tuple(value[at + 1 :]))
            return shape_matches(shape, found, symbols)
        same = type(value) is type(found) and len(value) == len(found)
        return same and all(matches(a, b, symbols) for a, b in zip(value, found, strict=True))
    if isinstance(value, dict):
        return value.keys() == found.keys() and all(
            matches(item, found[key], symbols) for key, item in value.items()
        )
    if isinstance(value, SizeExpr):
        number = substituted(value, symbols.sizes)
        return not isinstance(number, int) or number == found
    if isinstance(value, DTypeValue):
        dtype = concrete(value.dtype, symbols.dtypes)
        return isinstance(found, DTypeValue) and dtype in (None, found.dtype)
    if isinstance(value, (AnyScalar, Ratio)):
        return isinstance(found, (int, float, complex, str))
    return type(value) is type(found) and value == found


def shape_matches(shape: ArrayShape, found: tuple[int, ...], symbols: Symbols) -> bool:
    """Whether an inferred shape agrees with a known one."""
    shape = shape_substituted(shape, symbols.sizes)
    if shape.middle in symbols.axes:
        shape = ArrayShape((*shape.head, *symbols.axes[shape.middle], *shape.tail))
    if shape.middle is None:
        return len(found) == len(shape.head) and all(map(size_matches, shape.head, found))
    if len(found) < shape.least_rank:
        return False
    head, tail = found[: len(shape.head)], found[len(found) - len(shape.tail) :]
    return all(map(size_matches, shape.head, head)) and all(map(size_matches, shape.tail, tail))


def size_matches(size: Integer, number: int) -> bool:
    """Whether a size may be this number."""
    return not isinstance(size, int) or size == number


def is_violated(condition: Condition, symbols: Symbols) -> bool:
    """Whether a condition doesn't hold for the numbers."""
    left = substituted(condition.left, symbols.sizes)
    right = substituted(condition.right, symbols.sizes)
    if not isinstance(left, int) or not isinstance(right, int) or left == right:
        return False
    return not (condition.allows_one and 1 in (left, right))


def bind_axes(requirements: Requirements, symbols: Symbols) -> bool:
    """Give the axes that a call requires their numbers; return whether they are as many."""
    for middle, shape in requirements.axes:
        sizes = symbols.axes.get(middle)
        if sizes is None:
            continue
        if len(sizes) != len(shape.head):
            return False
        for size, number in zip(shape.head, sizes, strict=True):
            if isinstance(size, SizeExpr) and size.symbol is not None:
                symbols.sizes[size.symbol] = number
    return True


def compare(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], draw: Draw) -> str | None:
    """Compare a call with MLX, with numbers and with symbols; return what disagrees."""
    found, raised = run_mlx(name, args, kwargs)
    said = compare_known(name, args, kwargs, found, raised)
    if said is not None:
        return said
    for with_axes in (False, True):
        # The dtype of uint64 and signed integers, float32, depends on the order of operands.
        with_dtypes = draw.chance(0.3) and "uint64" not in repr((args, kwargs))
        hides = DRAWS[name].infer is None
        symbols = Symbols(draw, hides=hides, with_axes=with_axes, with_dtypes=with_dtypes)
        given = tuple(map(symbols.value, args))
        named = symbols.value(kwargs)
        said = compare_symbolic(name, given, named, symbols, found, raised)
        if said is not None:
            values = {str(key): value for key, value in symbols.sizes.items()}
            values |= {str(key): str(value) for key, value in symbols.axes.items()}
            return f"{said} -- with symbols {given!r} {named!r} {values}"
    return None


def compare_known(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], found: Any, raised: str
) -> str | None:
    """Compare a call of known sizes."""
    try:
        value, requirements, failed = infer(name, each(unmarked, args), each(unmarked, kwargs))
    except TypeError as error:
        return None if raised.startswith("TypeError") else f"{error!r}; MLX: {raised or found}"
    except Exception as error:  # noqa: BLE001
        return f"{error!r}; MLX: {raised or found}"
    if failed is not None or raised:
        if failed is not None and raised:
            return None
        return f"failed: {failed}, {value}; MLX: {raised or found}"
    if requirements.conditions or requirements.axes:
        return f"conditions {requirements.conditions} for known sizes"
    if has_unknown(value) and not DRAWS[name].open_sizes:
        return f"unknown: {value}; MLX: {found}"
    return None if matches(value, found, NOTHING) else f"inferred {value}; MLX: {found}"


def compare_symbolic(
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    symbols: Symbols,
    found: Any,
    raised: str,
) -> str | None:
    """Compare a call with symbols with what MLX does for their numbers."""
    try:
        value, requirements, failed = infer(name, args, kwargs)
    except Exception as error:  # noqa: BLE001
        return None if raised.startswith("TypeError") else f"{error!r}; MLX: {raised or found}"
    if failed is not None:
        return None if raised else f"certain failure: {failed}; MLX: {found}"
    fits = bind_axes(requirements, symbols)
    empty_axes = any(0 in sizes for sizes in symbols.axes.values())
    empty = empty_axes or 0 in symbols.chosen
    broken = [
        one
        for one in requirements.conditions
        if is_violated(one, symbols)
        and not (empty and one.comparison is Comparison.DEGENERATE and not one.allows_one)
        and not (empty_axes and not one.allows_one)
    ]
    if raised:
        silent = fits and not broken and not has_unknown(value)
        lenient = (
            symbols.guesses
            or symbols.dtypes
            or symbols.axes
            or empty
            or symbols.draw.may_raise
            or DRAWS[name].may_raise
        )
        return f"nothing required, {value}; MLX: {raised}" if silent and not lenient else None
    if broken or not fits:
        return f"violated: {broken or requirements.axes}; MLX: {found}"
    return None if matches(value, found, symbols) else f"inferred {value}; MLX: {found}"


def unmarked(value: Any) -> Any:
    """An argument with a plain integer for a size."""
    return int(value) if type(value) is Size else value


#: The symbols of a call that has none.
NOTHING = Symbols(Draw(0))


def check(name: str, seed: int) -> str | None:
    """Draw a call and compare it; return what disagrees, with the call."""
    draw = Draw(seed)
    args, kwargs = DRAWS[name].draw(draw)
    said = compare(name, args, kwargs, draw)
    return None if said is None else f"{name} {args!r} {kwargs!r}: {said}"


def check_many(count: int, names: tuple[str, ...] = ()) -> Iterator[tuple[str, str | None]]:
    """Check so many calls of functions in turn."""
    chosen = [name for name in sorted(load()) if not names or any(one in name for one in names)]
    for seed in range(count):
        name = chosen[seed % len(chosen)]
        yield name, check(name, seed)


def main(count: int, names: tuple[str, ...]) -> None:
    """Check calls, and print how many disagree for each function."""
    begin = time.monotonic()
    wrong: Counter[str] = Counter()
    for name, said in check_many(count, names):
        if said is not None:
            wrong[name] += 1
            if wrong[name] <= (5 if names else 1):
                print(said)  # noqa: T201
    for name, number in wrong.most_common():
        print(f"{number:6} {name}")  # noqa: T201
    rate = count / (time.monotonic() - begin)
    print(f"{sum(wrong.values())} disagreements in {count} calls ({rate:.0f}/s)")  # noqa: T201


if __name__ == "__main__":
    from tests.analysis.shapes import oracle

    oracle.main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000, tuple(sys.argv[2:]))
