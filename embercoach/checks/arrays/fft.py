"""FFT-NORM: transforms and inverses that do not match, in scale or in length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import libcst as cst
from msgspec import Struct

from embercoach.analysis.calls.fourier import ExpressionValue, role_of, text_of
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import resolved
from embercoach.analysis.facts.facts import BinaryFact, CallFact, Fact
from embercoach.analysis.shapes.arrays import ArrayShape, Ratio, ShapedArray
from embercoach.analysis.shapes.node_shapes import values_by_call
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Comparison,
    Integer,
    SizeExpr,
    compare,
    product,
)
from embercoach.analysis.syntax.trees import dotted, evaluated
from embercoach.analysis.values.lattice import Symbol, as_array
from embercoach.analysis.values.spectra import Length, Signal, Spectrum
from embercoach.checks.registry import ProposedFix, Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.spectra import Axes

#: Casts, and names, that a number is followed through.
MOST_FOLLOWED = 8
_CASTS = ("array", "float", "int")


class TransformLengths:
    """The lengths of the transforms of one function."""

    def __init__(self, module: Module, function: FunctionInfo | None) -> None:
        """Prepare for the expressions of a function."""
        self.module = module
        self.function = function

    def is_length(
        self,
        number: cst.BaseExpression,
        spectrum: Spectrum,
        length: Length | None,
        signal: cst.BaseExpression | None = None,
    ) -> bool:
        """Return whether a number is the length of a transform, or one over it.

        length: what the transform was given; without it the length is that of the input.
        signal: an array that has the input's length as well.
        """
        inputs = spectrum.inputs if signal is None else (*spectrum.inputs, signal)
        if length is None or self.measures(length.node, spectrum.inputs, spectrum.axes):
            return self.measures(number, inputs, spectrum.axes)
        return any(
            text_of(core) == length.text or self._is_product(core, length.node)
            for core in self._cores(number)
        )

    def measures(
        self, number: cst.BaseExpression, inputs: tuple[cst.BaseExpression, ...], axes: Axes
    ) -> bool:
        """Return whether a number is the length of those axes of one of some arrays."""
        parts = [part for one in inputs for part in contents_of(one)]
        names = {dotted(part) for part in parts} - {None}
        return any(
            _counted(core) in names or any(self._is_axes(core, part, axes) for part in parts)
            for core in self._cores(number)
        )

    def is_even(self, spectrum: Spectrum) -> bool:
        """Return whether a transform is known to take an even number of samples."""
        at = spectrum.axes[-1] if isinstance(spectrum.axes, tuple) else -1
        (given, *others) = [self._values(one) for one in spectrum.inputs]
        sizes = [_size(one.shape, (at,)) for one in given if type(one) is ShapedArray]
        return not others and bool(sizes) and all(type(n) is int and n % 2 == 0 for n in sizes)

    def last_size(self, length: Length) -> int | None:
        """The last size of what a transform was given, if it is known."""
        values = [one[-1] if type(one) is tuple else one for one in self._values(length.node)]
        return values[0] if len(values) == 1 and type(values[0]) is int else None

    def _cores(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """A number, and what it is made of by casts, ``1 / n`` and names."""
        for _ in range(MOST_FOLLOWED):
            yield node
            inner = self._inner(node)
            if inner is None:
                return
            node = inner

    def _inner(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        if isinstance(node, cst.Name):
            found = resolved(node, self.function, self.module)
            return found if isinstance(found, cst.BaseExpression) and found is not node else None
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide):
            is_one = isinstance(node.left, (cst.Integer, cst.Float)) and evaluated(node.left) == 1
            return node.right if is_one else None
        if not isinstance(node, cst.Call) or not node.args:
            return None
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "astype":
            return node.func.value
        return node.args[0].value if last_name(node) in _CASTS else None

    def _values(self, node: cst.CSTNode) -> list[Any]:
        return [one for some in values_by_call(self.module, node).values() for one in some]

    def _pairs(self, a: cst.CSTNode, b: cst.CSTNode) -> list[tuple[Any, Any]]:
        """The values of two expressions in each run of both; none if one has several."""
        first, second = values_by_call(self.module, a), values_by_call(self.module, b)
        lines = [line for line in first if line in second]
        if any(len(first[line]) > 1 or len(second[line]) > 1 for line in lines):
            return []
        return [(first[line][0], second[line][0]) for line in lines]

    def _is_axes(self, number: cst.CSTNode, array: cst.CSTNode, axes: Axes) -> bool:
        if isinstance(axes, str) or not isinstance(array, cst.BaseExpression):
            return False
        pairs = self._pairs(number, array)
        return bool(pairs) and all(
            type(one) is ShapedArray and _is_number(value, _size(one.shape, axes))
            for value, one in pairs
        )

    def _is_product(self, number: cst.CSTNode, sizes: cst.CSTNode) -> bool:
        pairs = self._pairs(number, sizes)
        return bool(pairs) and all(
            _is_number(value, product(size) if type(size) is tuple else size)
            for value, size in pairs
        )


def _size(shape: ArrayShape, axes: tuple[int, ...] | None) -> Integer:
    """The product of the sizes of some axes; of all for None."""
    if axes is None:
        return shape.elements
    if shape.rank is not None and not all(-shape.rank <= axis < shape.rank for axis in axes):
        return ANY_INT
    return product(shape.size(axis) for axis in axes)


def _is_number(value: Any, size: Any) -> bool:
    """Return whether a value is a size, or one over it."""
    if type(value) is Ratio and value.numerator == 1:
        value = value.denominator
    if type(size) is int:
        return size > 1 and value in (size, 1 / size)
    if type(size) is not SizeExpr or type(value) is not SizeExpr:
        return False
    return compare(value, size) is Comparison.EQUAL


def _counted(node: cst.BaseExpression) -> str | None:
    """``x`` of ``x.size`` and ``len(x)``, which for a signal are its length."""
    if isinstance(node, cst.Attribute) and node.attr.value == "size":
        return dotted(node.value)
    if isinstance(node, cst.Call) and dotted(node.func) == "len" and len(node.args) == 1:
        return dotted(node.args[0].value)
    return None


INVERSE = "mlx.core.fft.i"
#: The factor of a transform and of its inverse by norm, as a power of sqrt(n).
FORWARD_POWER = {"backward": 0, "ortho": -1, "forward": -2}
INVERSE_POWER = {"backward": 0, "ortho": 1, "forward": 2}
FACTOR = {-2: "1 / n", -1: "1 / sqrt(n)", 1: "sqrt(n)", 2: "n"}
DROP_FACTOR = 'Drop the factor, or pass norm="forward" to the inverse to scale by hand'
OPERATORS = {"mlx.core.multiply": "*", "mlx.core.divide": "/"}


@check("FFT-NORM-003", of=("mlx.core.fft.",))
def irfft_length(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.fft.irfft(mx.fft.rfft(x))``."""
    signal = _inverse(fact)
    if signal is None or signal.length is not None or not signal.spectrum.is_real:
        return
    name = _name(fact)
    lengths = TransformLengths(module, fact.place.function)
    if name.startswith("irfft") and _may_be_odd(signal.spectrum, lengths):
        given = "n" if name == "irfft" else "s"
        yield Report.at(
            fact,
            "FFT-NORM-003",
            message=f"`{name}` without `{given}=` shortens signals of odd length",
            help="Pass the length of the signal: mx.fft.irfft(spectrum, n=x.shape[-1])",
        )


def _may_be_odd(spectrum: Spectrum, lengths: TransformLengths) -> bool:
    """Test whether a forward transform takes all of a signal that may be odd, or an odd number."""
    length = spectrum.length
    if length is None:
        return not lengths.is_even(spectrum)
    last = lengths.last_size(length)
    if last is not None:
        return last % 2 == 1
    return lengths.measures(length.node, spectrum.inputs, spectrum.axes)


@check("FFT-NORM-001", "FFT-NORM-002")
def scales(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Pairs of transforms whose factors of n do not cancel."""
    if "fft" not in module.source:
        return
    calls = [fact for fact in facts if isinstance(fact, CallFact)]
    pairs = [(fact, signal) for fact in calls if (signal := _inverse(fact)) is not None]
    scalings = [found for fact in facts if pairs and (found := _scaling(fact)) is not None]
    for fact, signal in pairs:
        own = [s for s in scalings if s.fact.place.function is fact.place.function]
        lengths = TransformLengths(module, fact.place.function)
        yield from _mismatch(module, fact, signal, own, lengths)
        yield from _scaled_before(fact, signal, own, lengths)
        yield from _scaled_after(signal, own, lengths)


class _Scaling(Struct, frozen=True):
    """A multiplication or division, by an operator or a function."""

    fact: Fact
    operator: str
    left: ExpressionValue
    right: ExpressionValue

    def factor_of(self, signal: Signal) -> tuple[ExpressionValue, ExpressionValue] | None:
        """The signal, if it is scaled here, and the factor or divisor."""
        if _is_of(self.left, signal):
            return self.left, self.right
        return (
            (self.right, self.left) if self.operator == "*" and _is_of(self.right, signal) else None
        )


def _is_of(operand: ExpressionValue, signal: Signal) -> bool:
    role = role_of(operand[0])
    return isinstance(role, Signal) and role.node is signal.node


def _scaling(fact: Fact) -> _Scaling | None:
    if isinstance(fact, BinaryFact) and fact.operator in ("*", "/"):
        sides = ((one.value, one.node) for one in (fact.left, fact.right))
        return _Scaling(fact, fact.operator, *sides)
    if isinstance(fact, CallFact) and isinstance(fact.callee, Symbol):
        operator = OPERATORS.get(fact.callee.name)
        first, second = fact.positional(0), fact.positional(1)
        if operator is not None and first is not None and second is not None:
            left, right = (first.value, first.node), (second.value, second.node)
            return _Scaling(fact, operator, left, right)
    return None


def _mismatch(
    module: Module,
    fact: CallFact,
    signal: Signal,
    scalings: list[_Scaling],
    lengths: TransformLengths,
) -> Iterator[Report]:
    spectrum = signal.spectrum
    if spectrum.axes != signal.axes or spectrum.scaling != "none" or signal.norm is None:
        return
    power = INVERSE_POWER[signal.norm]
    for norm in spectrum.norms:
        if norm is None:
            return
        power += FORWARD_POWER[norm]
    if power == 0 or {*spectrum.norms} == {signal.norm} or (power < 0 and _correlates(spectrum)):
        return
    if any(_may_rescale(s, signal, lengths) for s in scalings):
        return
    there = " and ".join(f'norm="{norm}"' for norm in dict.fromkeys(spectrum.norms))
    yield Report.at(
        fact,
        "FFT-NORM-001",
        message=(
            f"signal scaled by {FACTOR.get(power, 'a power of n')}: "
            f'`{_name(fact)}` norm="{signal.norm}" after {there}'
        ),
        help='Pass the same norm to the transform and its inverse (default: norm="backward")',
        change=_matching_norm(module, fact, spectrum.norms),
    )


def _matching_norm(
    module: Module, fact: CallFact, norms: Sequence[str | None]
) -> ProposedFix | None:
    """Pass the norm of the transform to the inverse."""
    if len(set(norms)) != 1 or not fact.arguments:
        return None
    given, last = fact.keyword("norm"), fact.arguments[-1]
    written = f'"{norms[0]}"'
    title = f"Pass norm={written} to the inverse"
    if given is not None:
        if not isinstance(given.node, cst.SimpleString):
            return None
        return ProposedFix(title, False, ((given.node, written),))
    if len(fact.arguments) > 3 or any(argument.star for argument in fact.arguments):
        return None  # a norm may be among them
    text = f"{module.parsed.code(last.node)}, norm={written}"
    return ProposedFix(title, False, ((last.node, text),))


def _may_rescale(scaling: _Scaling, signal: Signal, lengths: TransformLengths) -> bool:
    """Test whether the function itself may compensate for the norms."""
    scaled = scaling.factor_of(signal)
    if scaled is not None:
        array = as_array(scaled[1][0])
        return array is None or array.scalar or array.literal
    operands = (scaling.left[1], scaling.right[1])
    return any(lengths.is_length(one, signal.spectrum, _length(signal)) for one in operands)


def _scaled_before(
    fact: CallFact, signal: Signal, scalings: list[_Scaling], lengths: TransformLengths
) -> Iterator[Report]:
    """``irfft(rfft(x) / n, n=n)``."""
    spectrum = signal.spectrum
    if not _is_default_pair(signal) or spectrum.scaling != "factor" or spectrum.factor is None:
        return
    if _correlates(spectrum) or not _is_same_length(signal, lengths):
        return
    if not lengths.is_length(spectrum.factor, spectrum, spectrum.length):
        return
    scaled = [s for s in scalings if s.factor_of(signal) is not None]
    if any(_may_rescale(s, signal, lengths) for s in scaled):
        return
    yield Report.at(
        fact,
        "FFT-NORM-002",
        message=f"spectrum scaled by n before `{_name(fact)}`, which divides by n by default",
        help=DROP_FACTOR,
    )


def _scaled_after(
    signal: Signal, scalings: list[_Scaling], lengths: TransformLengths
) -> Iterator[Report]:
    """``irfft(rfft(x), n=n) / n``."""
    spectrum = signal.spectrum
    if not _is_default_pair(signal) or spectrum.scaling != "none" or _correlates(spectrum):
        return
    for scaling in scalings:
        scaled = scaling.factor_of(signal)
        if scaled is None:
            continue
        if scaling.operator == "*" and (spectrum.filtered or not _is_same_length(signal, lengths)):
            continue  # resampled to another length, or by a filter meant for an unscaled pair
        if lengths.is_length(scaled[1][1], spectrum, _length(signal), scaled[0][1]):
            done = "divided" if scaling.operator == "/" else "multiplied"
            yield Report.at(
                scaling.fact,
                "FFT-NORM-002",
                message=f"signal {done} by n: the inverse transform already divides by n",
                help=DROP_FACTOR,
            )


def _is_default_pair(signal: Signal) -> bool:
    """Test whether the factors of transforms and inverse cancel, all with the default norm."""
    norms = {signal.norm, *signal.spectrum.norms}
    return norms == {"backward"} and signal.spectrum.axes == signal.axes


def _correlates(spectrum: Spectrum) -> bool:
    """Test whether it is the spectrum of a correlation, whose biased estimate is one over n."""
    return len(spectrum.norms) > 1 and spectrum.conjugated


def _is_same_length(signal: Signal, lengths: TransformLengths) -> bool:
    """Test whether the inverse certainly returns as many samples as the transform takes."""
    spectrum, length = signal.spectrum, signal.length
    if length is None or length == spectrum.length:
        return True
    if spectrum.length is not None:
        return False
    return lengths.measures(length.node, spectrum.inputs, spectrum.axes)


def _length(signal: Signal) -> Length | None:
    """The length that the inverse was given, or the transform."""
    return signal.length or signal.spectrum.length


def _inverse(fact: CallFact) -> Signal | None:
    """The signal that an inverse transform returns in this call."""
    if not isinstance(fact.callee, Symbol) or not fact.callee.name.startswith(INVERSE):
        return None
    role = role_of(fact.result)
    return role if isinstance(role, Signal) and role.node is fact.node else None


def _name(fact: CallFact) -> str:
    return fact.callee.name.rpartition(".")[2] if isinstance(fact.callee, Symbol) else ""
