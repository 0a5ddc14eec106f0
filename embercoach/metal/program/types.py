"""Metal's types as far as a checker needs them, and how arithmetic promotes them.

Source: Metal Shading Language Specification 3.2, section 2 (types) and 2.12 (implicit conversions).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Type:
    """A type, perhaps partly unknown.

    Attributes:
        scalar: ``bool char uchar short ushort int uint long ulong half bfloat float double void``,
            the name of a template type (``T``) or of a struct; None when unknown (``auto`` of an
            unknown value).
        width: 1 for a scalar, 2 to 4 for a vector.
        pointer: it is a pointer or, of a parameter, a reference.
        space: ``device``, ``constant``, ``threadgroup``, ``thread`` or None: where a pointer points
            to, where a variable lives.
        dimensions: of an array, outermost first; None for a size that is not known.
    """

    scalar: str | None = None
    width: int = 1
    pointer: bool = False
    space: str | None = None
    dimensions: tuple[int | None, ...] = ()


UNKNOWN = Type()
