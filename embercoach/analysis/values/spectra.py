"""Facts of the numbers in a value: spectra, and signals of them.

Plain data without inference: `fourier` makes it. It says what happened within one
function and is dropped where a value leaves it, since names distinguish the arrays there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    import libcst as cst

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
