"""FFT-NORM: transforms and inverses that do not match, in scale or in length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import BinaryFact, CallFact, Fact
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.extents import ExpressionValue, is_length, measures, role_of
from embercoach.analysis.values.joins import as_array
from embercoach.analysis.values.lattice import Symbol
from embercoach.analysis.values.spectra import Length, Signal, Spectrum
from embercoach.checks.registry import ProposedFix, Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embercoach.analysis.project.module import Module

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
    if name.startswith("irfft") and _may_be_odd(signal.spectrum.length):
        given = "n" if name == "irfft" else "s"
        yield Report.at(
            fact,
            "FFT-NORM-003",
            message=f"`{name}` without `{given}=` shortens signals of odd length",
            help="Pass the length of the signal: mx.fft.irfft(spectrum, n=x.shape[-1])",
        )


def _may_be_odd(length: Length | None) -> bool:
    """Test whether the length of a forward transform is unknown, or known to be odd."""
    if length is None or length.extent is not None:
        return True
    last = length.consts[-1]
    return last is not None and last % 2 == 1


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
        yield from _mismatch(module, fact, signal, own)
        yield from _scaled_before(module, fact, signal, own)
        yield from _scaled_after(module, signal, own)


@dataclass(frozen=True, slots=True)
class _Scaling:
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
    module: Module, fact: CallFact, signal: Signal, scalings: list[_Scaling]
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
    if any(_may_rescale(s, signal) for s in scalings):
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


def _may_rescale(scaling: _Scaling, signal: Signal) -> bool:
    """Test whether the function itself may compensate for the norms."""
    scaled = scaling.factor_of(signal)
    if scaled is not None:
        array = as_array(scaled[1][0])
        return array is None or array.scalar or array.literal
    return any(_is_length_of(operand, signal) for operand in (scaling.left, scaling.right))


def _scaled_before(
    module: Module, fact: CallFact, signal: Signal, scalings: list[_Scaling]
) -> Iterator[Report]:
    """``irfft(rfft(x) / n, n=n)``."""
    if not _is_default_pair(signal) or signal.spectrum.scaling != "length":
        return
    if _correlates(signal.spectrum):
        return
    if not _is_same_length(signal.spectrum, signal.length):
        return
    if any(s.factor_of(signal) is not None and _may_rescale(s, signal) for s in scalings):
        return
    yield Report.at(
        fact,
        "FFT-NORM-002",
        message=f"spectrum scaled by n before `{_name(fact)}`, which divides by n by default",
        help=DROP_FACTOR,
    )


def _scaled_after(module: Module, signal: Signal, scalings: list[_Scaling]) -> Iterator[Report]:
    """``irfft(rfft(x), n=n) / n``."""
    spectrum = signal.spectrum
    if not _is_default_pair(signal) or spectrum.scaling != "none" or _correlates(spectrum):
        return
    may_multiply = spectrum.filtered or not _is_same_length(spectrum, signal.length)
    for scaling in scalings:
        scaled = scaling.factor_of(signal)
        if scaled is None or (scaling.operator == "*" and may_multiply):
            continue  # resampled to another length, or by a filter meant for an unscaled pair
        if _is_length_of(scaled[1], signal, dotted(scaled[0][1])):
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


def _is_same_length(spectrum: Spectrum, length: Length | None) -> bool:
    """Test whether the inverse certainly returns as many samples as the transform takes."""
    if length is None:
        return True
    if length == spectrum.length:
        return True
    extent = length.extent
    if spectrum.length is not None or extent is None:
        return False
    return measures(extent, spectrum.axes, spectrum.paths)


def _is_length_of(operand: ExpressionValue, signal: Signal, name: str | None = None) -> bool:
    """Test whether an operand is the length of the signal, which may have a name itself."""
    spectrum = signal.spectrum
    paths = spectrum.paths if name is None else spectrum.paths | {name}
    return is_length(operand, signal.length or spectrum.length, spectrum.axes, paths)


def _inverse(fact: CallFact) -> Signal | None:
    """The signal that an inverse transform returns in this call."""
    if not isinstance(fact.callee, Symbol) or not fact.callee.name.startswith(INVERSE):
        return None
    role = role_of(fact.result)
    return role if isinstance(role, Signal) and role.node is fact.node else None


def _name(fact: CallFact) -> str:
    return fact.callee.name.rpartition(".")[2] if isinstance(fact.callee, Symbol) else ""
