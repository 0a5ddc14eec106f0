"""FFT-NORM: transforms and inverses that do not match, in scale or in length."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import libcst as cst
from msgspec import Struct
from msgspec.structs import replace

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.lazy_evaluation import evaluation_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import resolved, scope_of
from embercoach.analysis.project.module import Module
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
from embercoach.analysis.values.facts import (
    Argument,
    Arithmetic,
    CallFact,
    Fact,
    ItemStoreFact,
    Operand,
    arithmetic_of,
)
from embercoach.analysis.values.lattice import (
    NONE,
    BoundMember,
    Number,
    Sequence,
    Str,
    Symbol,
    Value,
    as_array,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import MOST_STEPS
from embercoach.checks.registry import ProposedFix, Report, check

#: An operand or an argument: its value, and its expression.
Part = Operand | Argument
#: How a function has scaled a spectrum itself: not, by one factor, or in another way.
Scaling = Literal["none", "factor", "unknown"]
#: Constant axes, None for all of them, or the text of an expression that gives them.
Axes = tuple[int, ...] | str | None


class Length(Struct, frozen=True):
    """A length that a transform is given (``n=``, ``s=``).

    text: the expression that was passed, in one spelling.
    node: the expression.
    """

    text: str
    node: cst.BaseExpression

    def __eq__(self, other: object) -> bool:
        return type(other) is Length and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


class Spectrum(Struct, frozen=True):
    """The result of a forward transform, or the product of such.

    norms: the ``norm`` of each forward transform in the product, None if unknown.
    is_real: made by ``rfft`` or its kin, which keep about half of the coefficients.
    length: what the transform was given, None for the length of its input.
    inputs: the expressions of the inputs.
    factor: what the function has multiplied or divided it by, where that is one expression.
    filtered: multiplied by an array whose own scale is not known.
    conjugated: conjugated, or a product with a conjugate, which correlates.
    """

    norms: tuple[str | None, ...]
    axes: Axes
    is_real: bool
    length: Length | None
    inputs: tuple[cst.BaseExpression, ...]
    scaling: Scaling = "none"
    factor: cst.BaseExpression | None = None
    filtered: bool = False
    conjugated: bool = False


class Signal(Struct, frozen=True):
    """The result of the inverse transform at ``node`` of a spectrum."""

    node: cst.Call
    spectrum: Spectrum
    norm: str | None
    axes: Axes
    length: Length | None


Role = Spectrum | Signal


FORWARD = ("fft", "fft2", "fftn", "rfft", "rfft2", "rfftn")
INVERSE = ("ifft", "ifft2", "ifftn", "irfft", "irfft2", "irfftn")
NORMS = ("backward", "ortho", "forward")
#: Functions and methods whose result is the spectrum, or has the scale of the signal, given.
SHIFTS = ("fftshift", "ifftshift")
SPECTRUM_KEEPERS = ("astype", "contiguous", "stop_gradient", "conj", "conjugate")
RESHAPERS = ("reshape", "transpose", "squeeze", "expand_dims", "swapaxes", "moveaxis", "flatten")
SIGNAL_KEEPERS = (*SPECTRUM_KEEPERS, *RESHAPERS, "real", "roll", "pad", "flip")


class FourierRoles:
    """The spectra and signals among the values of one function.

    They are followed through what neither scales nor mixes: filtering by multiplication, taking
    the real part, cutting a signal. All else drops them.
    """

    def __init__(self, module: Module, function: FunctionInfo | None) -> None:
        self._evaluation = evaluation_of(module)
        self._reaching = scope_of(module, function).reaching
        self._order = layout_of(module, function).order
        self._known: dict[tuple[cst.CSTNode, cst.CSTNode], Role | None] = {}
        stores = (fact for fact in module.facts_of(function) if type(fact) is ItemStoreFact)
        #: Writes of anything but a plain number, which masks coefficients out: that is a filter.
        self._stores = [s for s in stores if s.in_place or not isinstance(s.value, Number)]

    def of(self, node: cst.CSTNode, statement: cst.CSTNode) -> Role | None:
        """Return the role of an expression's value in a statement."""
        key = node, statement
        if key not in self._known:
            self._known[key] = None  # in a loop it may depend on itself
            self._known[key] = self._made(node, statement)
        return self._known[key]

    def _made(self, node: cst.CSTNode, statement: cst.CSTNode) -> Role | None:
        if isinstance(node, cst.Name):
            return self._held(node.value, statement)
        if isinstance(node, cst.Subscript):
            return sliced(self.of(node.value, statement), node)
        if isinstance(node, cst.Attribute):
            role = self.of(node.value, statement)
            is_whole = node.attr.value == "T" and isinstance(role, Signal)
            return role if is_whole else _kept(role, node.attr.value)
        call = self._evaluation.calls.get(node)
        fact = call or self._evaluation.operations.get(node)
        operation = None if fact is None else arithmetic_of(fact)
        if operation is not None:
            return self._operated(statement, operation)
        return None if call is None else self._returned(call)

    def _held(self, name: str, statement: cst.CSTNode) -> Role | None:
        """Return the role of what a name holds where a statement begins."""
        found: list[Role | None] = []
        for binding in self._reaching.before(statement, name) or ():
            role = None
            if binding.kind == "updated":
                role = self.of(binding.statement, binding.statement)
            elif binding.kind == "assigned" and binding.value is not None:
                role = self.of(binding.value, binding.statement)
            if role is not None and self._is_changed(name, binding.statement, statement):
                is_spectrum = isinstance(role, Spectrum)
                role = replace(role, scaling="unknown") if is_spectrum else None
            found.append(role)
        return found[0] if found and all(role == found[0] for role in found) else None

    def _is_changed(self, name: str, start: cst.CSTNode, stop: cst.CSTNode) -> bool:
        """Test whether a statement between two others writes items of an array."""
        first, last = (self._order.get(id(statement), -1) for statement in (start, stop))
        writes = (s.place.statement for s in self._stores if dotted(s.node.value) == name)
        return any(first < self._order.get(id(write), -1) < last for write in writes)

    def _returned(self, call: CallFact) -> Role | None:
        statement, callee = call.place.statement, call.callee
        if isinstance(callee, BoundMember) and call.receiver_node is not None:
            return _kept(self.of(call.receiver_node, statement), callee.name)
        name = (call.symbol or "").rpartition(".")[2]
        first = call.positional(0)
        if first is None or not (call.symbol or "").startswith("mlx.core."):
            return None
        if name not in (*FORWARD, *INVERSE):
            return _kept(self.of(first.node, statement), name)
        given = {param.name: argument for param, argument in call.matched}
        if "a" not in given or any(argument.star for argument in call.arguments):
            return None
        norm, axes, length = _norm(given), _axes(name, given), _length_of(given)
        if name in FORWARD:
            return Spectrum((norm,), axes, name[0] == "r", length, (given["a"].node,))
        spectrum = self.of(given["a"].node, statement)
        if not isinstance(spectrum, Spectrum):
            return None
        return Signal(call.node, spectrum, norm, axes, length)

    def _operated(self, statement: cst.CSTNode, operation: Arithmetic) -> Role | None:
        """Return the role of a product or quotient, by those of its operands."""
        symbol, left, right = operation
        a, b = self.of(left.node, statement), self.of(right.node, statement)
        if symbol not in ("*", "/"):
            return None
        if isinstance(a, Spectrum) and isinstance(b, Spectrum):
            return _product(a, b) if symbol == "*" else None
        if symbol == "*" and b is not None:
            a, b, left, right = b, a, right, left
        if isinstance(a, Spectrum) and b is None:
            return _scaled(a, symbol, right)
        return a if isinstance(a, Signal) and b is None and _is_filter(right.value) else None


@kept_for_file
def fourier_roles(module: Module, function: FunctionInfo | None) -> FourierRoles:
    """Return the spectra and signals of a function."""
    return FourierRoles(module, function)


def _norm(given: dict[str, Argument]) -> str | None:
    argument = given.get("norm")
    if argument is None:
        return "backward"
    text = argument.value.text if isinstance(argument.value, Str) else None
    return text if text in NORMS else None


def _axes(short: str, given: dict[str, Argument]) -> Axes:
    argument = given.get("axis") or given.get("axes")
    if argument is None:
        return None if short[-1] == "n" else (-2, -1) if short[-1] == "2" else (-1,)
    value = argument.value
    if value is NONE:
        return None
    consts = _consts(value)
    if None in consts:
        return spelled(argument.node)
    return tuple(c for c in consts if c is not None)


def _length_of(given: dict[str, Argument]) -> Length | None:
    argument = given.get("n") or given.get("s")
    if argument is None or argument.value is NONE:
        return None
    return Length(spelled(argument.node), argument.node)


def _consts(value: Value) -> tuple[int | None, ...]:
    items = value.items if isinstance(value, Sequence) else (value,)
    return tuple(
        item.const if isinstance(item, Number) and isinstance(item.const, int) else None
        for item in items or (value,)
    )


def spelled(node: cst.BaseExpression) -> str:
    """Return an expression in one spelling, whatever its spaces and parentheses are."""
    return ast.unparse(ast.parse(f"({cst.Module([]).code_for_node(node)}\n)", mode="eval"))


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


def _scaled(spectrum: Spectrum, symbol: str, other: Part) -> Spectrum:
    """Return a spectrum times or over something that is not a spectrum."""
    if symbol == "*" and _is_filter(other.value):
        return replace(spectrum, filtered=True)
    scaling: Scaling = "factor" if spectrum.scaling == "none" else "unknown"
    return replace(spectrum, scaling=scaling, factor=other.node)


def _is_filter(value: Value) -> bool:
    """Return whether a factor looks like an array of weights, and not like a scale.

    The spectrum of a kernel from elsewhere is complex, and may have been scaled there.
    """
    array = as_array(value)
    if array is None:
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


def _kept(role: Role | None, name: str) -> Role | None:
    """Return the role of the result of a function or method for an array with a role."""
    keepers = SIGNAL_KEEPERS if isinstance(role, Signal) else SPECTRUM_KEEPERS
    if isinstance(role, Spectrum) and name in ("conj", "conjugate"):
        role = replace(role, conjugated=not role.conjugated)
    return role if name in keepers or name in SHIFTS else None


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
            spelled(core) == length.text or self._is_product(core, length.node)
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
        """Return the last size of what a transform was given, if it is known."""
        values = [one[-1] if type(one) is tuple else one for one in self._values(length.node)]
        return values[0] if len(values) == 1 and type(values[0]) is int else None

    def _cores(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """Yield a number, and what it is made of by casts, ``1 / n`` and names."""
        for _ in range(MOST_STEPS):
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
        """Return the values of two expressions in each run of both; none if one has several."""
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
    """Return the product of the sizes of some axes; of all for None."""
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


#: The factor of a transform and of its inverse by norm, as a power of sqrt(n).
FORWARD_POWER = {"backward": 0, "ortho": -1, "forward": -2}
INVERSE_POWER = {"backward": 0, "ortho": 1, "forward": 2}
FACTOR = {-2: "1 / n", -1: "1 / sqrt(n)", 1: "sqrt(n)", 2: "n"}
DROP_FACTOR = 'Drop the factor, or pass norm="forward" to the inverse to scale by hand'


@check("FFT-NORM-003", of=("mlx.core.fft.",))
def irfft_length(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.fft.irfft(mx.fft.rfft(x))``."""
    signal = _inverse(fact, module)
    if signal is None or signal.length is not None or not signal.spectrum.is_real:
        return
    name = _name(fact)
    lengths = TransformLengths(module, fact.place.function)
    if name.startswith("irfft") and _may_be_odd(signal.spectrum, lengths):
        given = "n" if name == "irfft" else "s"
        yield Report.at(
            fact,
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
    pairs = [(fact, signal) for fact in calls if (signal := _inverse(fact, module)) is not None]
    scalings = [found for fact in facts if pairs and (found := _scaling(fact)) is not None]
    for fact, signal in pairs:
        own = [s for s in scalings if s.fact.place.function is fact.place.function]
        lengths = TransformLengths(module, fact.place.function)
        yield from _mismatch(module, fact, signal, own, lengths)
        yield from _scaled_before(fact, signal, own, lengths)
        yield from _scaled_after(signal, own, lengths)


class _Scaling(NamedTuple):
    """A multiplication or division, by an operator or a function."""

    fact: Fact
    operation: Arithmetic

    def factor_of(self, signal: Signal, module: Module) -> tuple[Part, Part] | None:
        """Return the signal, if it is scaled here, and the factor or divisor."""
        place = self.fact.place
        roles = fourier_roles(module, place.function)
        operator, left, right = self.operation
        for scaled, factor in (
            ((left, right), (right, left)) if operator == "*" else ((left, right),)
        ):
            role = roles.of(scaled.node, place.statement)
            if isinstance(role, Signal) and role.node is signal.node:
                return scaled, factor
        return None


def _scaling(fact: Fact) -> _Scaling | None:
    operation = arithmetic_of(fact)
    if operation is None or operation.operator not in ("*", "/"):
        return None
    return _Scaling(fact, operation)


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
    module: Module, fact: CallFact, norms: tuple[str | None, ...]
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
    scaled = scaling.factor_of(signal, lengths.module)
    if scaled is not None:
        array = as_array(scaled[1].value)
        return array is None or array.scalar or array.literal
    operands = (scaling.operation.left.node, scaling.operation.right.node)
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
    scaled = [s for s in scalings if s.factor_of(signal, lengths.module) is not None]
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
        scaled = scaling.factor_of(signal, lengths.module)
        if scaled is None:
            continue
        operator = scaling.operation.operator
        if operator == "*" and (spectrum.filtered or not _is_same_length(signal, lengths)):
            continue  # resampled to another length, or by a filter meant for an unscaled pair
        if lengths.is_length(scaled[1].node, spectrum, _length(signal), scaled[0].node):
            done = "divided" if operator == "/" else "multiplied"
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
    """Return the length that the inverse was given, or the transform."""
    return signal.length or signal.spectrum.length


def _inverse(fact: CallFact, module: Module) -> Signal | None:
    """Return the signal that an inverse transform returns in this call."""
    if _name(fact) not in INVERSE:
        return None
    role = fourier_roles(module, fact.place.function).of(fact.node, fact.place.statement)
    return role if isinstance(role, Signal) else None


def _name(fact: CallFact) -> str:
    return fact.callee.name.rpartition(".")[2] if isinstance(fact.callee, Symbol) else ""
