"""Facts of the numbers in a value: spectra, signals of them, array lengths.

Plain data without inference: `fourier` and `extents` make it. It says what happened within one
function and is dropped where a value leaves it, since names distinguish the arrays there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import libcst as cst

#: How a function has scaled a spectrum itself: not, by the length of the transform, or by
#: something that inference doesn't know.
Scaling = Literal["none", "length", "unknown"]
#: Constant axes, None for all of them, or the text of an expression that gives them.
Axes = tuple[int, ...] | str | None


@dataclass(frozen=True, slots=True)
class Extent:
    """The length of axes of an array, or one over it.

    path: the array, as the function names it (``"x"``, ``"self.kernel"``).
    axes: the axes whose lengths are multiplied, None for the whole of it (``x.size``, ``len(x)``).
    rank: how many axes the array has, None if unknown.
    """

    path: str
    axes: frozenset[int] | None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Length:
    """A length that a transform is given (``n=``, ``s=``).

    text: the expression that was passed, in one spelling.
    consts: its integers as far as they are known, one an axis.
    """

    text: str
    consts: tuple[int | None, ...]
    extent: Extent | None


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The result of a forward transform, or the product of such.

    norms: the ``norm`` of each forward transform in the product, None if unknown.
    is_real: made by ``rfft`` or its kin, which keep about half of the coefficients.
    length: what the transform was given, None for the length of its input.
    paths: the names in the expressions of the inputs.
    filtered: multiplied by an array whose own scale is not known.
    conjugated: conjugated, or a product with a conjugate, which correlates.
    """

    norms: tuple[str | None, ...]
    axes: Axes
    is_real: bool
    length: Length | None
    paths: frozenset[str]
    scaling: Scaling = "none"
    filtered: bool = False
    conjugated: bool = False


@dataclass(frozen=True, slots=True)
class Signal:
    """The result of the inverse transform at ``node`` of a spectrum."""

    node: cst.Call
    spectrum: Spectrum
    norm: str | None
    axes: Axes
    length: Length | None


Role = Spectrum | Signal | Extent
