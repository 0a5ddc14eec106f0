"""Metal's types as far as a checker needs them, and how arithmetic promotes them."""

from __future__ import annotations

from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from embercoach.metal.contract import MSL_TYPES
from embercoach.metal.tokens import COMPARISONS, whole_number


class Type(Struct, frozen=True):
    """A type, perhaps partly unknown.

    Attributes:
        scalar: ``bool char uchar short ushort int uint long ulong half bfloat float double void``,
            ``atomic_uint`` and so on, a matrix (``float4x4``, ``simdgroup_float8x8``), the name of
            a template type (``T``) or of a struct; None when unknown (``auto`` of an unknown).
        width: 1 for a scalar, 2 to 4 for a vector.
        pointer: it is a pointer; with ``dimensions`` an array of pointers.
        space: ``device``, ``constant``, ``threadgroup``, ``thread`` or None: where a pointer points
            to, where a variable lives.
        dimensions: of an array, outermost first; None for a size that is not known.
        reference: of a variable: it is a reference. A use of it has the type of what it refers to.
        packed: a packed vector, as in ``packed_float3``.
    """

    scalar: str | None = None
    width: int = 1
    pointer: bool = False
    space: str | None = None
    dimensions: tuple[int | None, ...] = ()
    reference: bool = False
    packed: bool = False


UNKNOWN = Type()
BOOL, INT, UINT, LONG, ULONG, HALF, FLOAT, VOID = (
    Type(name) for name in ("bool", "int", "uint", "long", "ulong", "half", "float", "void")
)

INTEGERS = MappingProxyType(
    {
        "bool": (0, False),
        "char": (1, True),
        "uchar": (1, False),
        "short": (2, True),
        "ushort": (2, False),
        "int": (3, True),
        "uint": (3, False),
        "long": (4, True),
        "ulong": (4, False),
    }
)
"""Integer types: conversion rank, and whether they are signed."""

FLOATS = frozenset({"half", "bfloat", "float", "double"})
"""Floating types. Metal has no ``double``; it can only be there by mistake."""

SIZES = MappingProxyType(
    {
        "bool": 1,
        "char": 1,
        "uchar": 1,
        "short": 2,
        "ushort": 2,
        "half": 2,
        "bfloat": 2,
        "int": 4,
        "uint": 4,
        "float": 4,
        "long": 8,
        "ulong": 8,
    }
)
"""Bytes of a scalar."""

_ALIASES = {
    "int8_t": "char",
    "uint8_t": "uchar",
    "int16_t": "short",
    "uint16_t": "ushort",
    "int32_t": "int",
    "uint32_t": "uint",
    "int64_t": "long",
    "uint64_t": "ulong",
    "size_t": "ulong",
    "ptrdiff_t": "long",
    "intptr_t": "long",
    "uintptr_t": "ulong",
    "float16_t": "half",
    "bfloat16_t": "bfloat",
    "unsigned": "uint",
    "signed": "int",
    "simd_vote": "simd_vote",
    "complex64_t": "complex64_t",
}
_ATOMICS = ("int", "uint", "bool", "long", "ulong", "float", "half", "flag")


def _named_types() -> dict[str, Type]:
    named = {name: Type(name) for name in (*INTEGERS, *FLOATS, "void")}
    named |= {name: Type(real) for name, real in _ALIASES.items()}
    named |= {f"atomic_{name}": Type(f"atomic_{name}") for name in _ATOMICS}
    for scalar in (*INTEGERS, "half", "bfloat", "float"):
        for width in (2, 3, 4):
            named[f"{scalar}{width}"] = Type(scalar, width)
            named[f"packed_{scalar}{width}"] = Type(scalar, width, packed=True)
            named[f"simd_{scalar}{width}"] = named[f"vector_{scalar}{width}"] = Type(scalar, width)
    for scalar in ("half", "float"):
        for columns in (2, 3, 4):
            for rows in (2, 3, 4):
                name = f"{scalar}{columns}x{rows}"
                named[name] = named[f"simd_{name}"] = named[f"matrix_{name}"] = Type(name)
    for scalar in ("half", "bfloat", "float"):
        named[f"simdgroup_{scalar}8x8"] = Type(f"simdgroup_{scalar}8x8")
    return named


NAMED = MappingProxyType(_named_types())
"""The types that every Metal text knows by a single word, MLX's included."""

SCALARS = MappingProxyType(
    {name: kind for name, kind in NAMED.items() if kind.width == 1 and kind.scalar in SIZES}
    | {f"unsigned {name}": NAMED[f"u{name}"] for name in ("char", "short", "int", "long")}
)
"""The numbers among them, and those of two words."""

INTEGER_NAMES = frozenset(
    name for name, kind in SCALARS.items() if kind.scalar in INTEGERS and kind != BOOL
)
"""All spellings of integers, bool left out."""


def is_vector(name: str) -> bool:
    """Return whether a type is a vector, as written: ``half4``, ``vec<T, 4>``."""
    kind = NAMED.get(name.removeprefix("metal::"))
    return name.removeprefix("metal::").startswith("vec<") or (kind is not None and kind.width > 1)


DTYPES = MappingProxyType(
    {dtype: SCALARS[name].scalar or "" for dtype, name in MSL_TYPES.items() if name in SCALARS}
)
"""MLX's names of dtypes to Metal's scalars."""


def size_of(kind: Type) -> int | None:
    """Get bytes of a value of a type, None when it is not known here (structs, template types)."""
    size = SIZES.get(kind.scalar or "")
    if kind.pointer:
        size = 8
    elif size is not None and kind.width > 1:
        # Vectors of three take the space of four unless they are packed.
        size *= 4 if kind.width == 3 and not kind.packed else kind.width
    for dimension in kind.dimensions:
        size = None if size is None or dimension is None else size * dimension
    return size


def is_integer(kind: Type) -> bool:
    """Return whether it is an integer or a vector of integers, bool included."""
    return kind.scalar in INTEGERS and not kind.pointer and not kind.dimensions


def is_floating(kind: Type) -> bool:
    """Return whether it is a floating-point number or a vector of them."""
    return kind.scalar in FLOATS and not kind.pointer and not kind.dimensions


def is_signed(kind: Type) -> bool | None:
    """Return whether an integer is signed, None for a type that is not an integer."""
    return INTEGERS[kind.scalar][1] if kind.scalar is not None and is_integer(kind) else None


def is_address(kind: Type) -> bool:
    """Return whether it is a pointer, or an array, which turns into one."""
    return kind.pointer or bool(kind.dimensions)


def value(kind: Type) -> Type:
    """Get the type of a value that was read: no place, no reference, no packing; arrays decay."""
    if kind.dimensions:
        return decayed(kind)
    return Type(kind.scalar, kind.width, kind.pointer, kind.space if kind.pointer else None)


def decayed(kind: Type) -> Type:
    """Return the pointer that an array turns into."""
    if not kind.dimensions:
        return replace(kind, reference=False)
    if len(kind.dimensions) > 1 or kind.pointer:
        # A pointer to an array or to a pointer: what it points to has no type here.
        return Type(None, pointer=True, space=kind.space)
    return Type(kind.scalar, kind.width, pointer=True, space=kind.space, packed=kind.packed)


def element(kind: Type) -> Type:
    """Return the type of ``x[i]``."""
    if kind.dimensions:
        return replace(kind, dimensions=kind.dimensions[1:], reference=False)
    if kind.pointer:
        return replace(kind, pointer=False, reference=False)
    if kind.width > 1:
        return Type(kind.scalar, space=kind.space)
    columns = _column(kind.scalar)
    return UNKNOWN if columns is None else replace(columns, space=kind.space)


def _column(scalar: str | None) -> Type | None:
    """Return the column of a matrix."""
    base, _, rows = (scalar or "").rpartition("x")
    known = NAMED.get(f"{base[:-1]}{rows}") if base and rows.isdecimal() else None
    return known if known is not None and known.width > 1 else None


def promoted(kind: Type) -> Type:
    """Small integers turn into ``int``; the elements of vectors do not."""
    if kind.width == 1 and is_integer(kind) and INTEGERS[kind.scalar or ""][0] < INTEGERS["int"][0]:
        return INT
    return value(kind)


def arithmetic(left: Type, right: Type) -> Type:
    """The type of ``left + right``, for numbers and vectors; unknown where the text is invalid."""
    if is_address(left) or is_address(right):
        return UNKNOWN
    if left.width > 1 and right.width > 1:
        same = left.scalar == right.scalar and left.width == right.width
        return Type(left.scalar, left.width) if same else UNKNOWN
    if left.width > 1 or right.width > 1:
        vector = left if left.width > 1 else right
        return Type(vector.scalar, vector.width)
    if is_floating(left) or is_floating(right):
        return _floating(left, right)
    if is_integer(left) and is_integer(right):
        return _integer(promoted(left), promoted(right))
    return UNKNOWN


def _floating(left: Type, right: Type) -> Type:
    if not is_floating(left) or not is_floating(right):
        number, other = (left, right) if is_floating(left) else (right, left)
        return Type(number.scalar) if is_integer(other) else UNKNOWN
    if left.scalar == right.scalar:
        return Type(left.scalar)
    # There is no conversion between half and bfloat.
    wider = [name for name in ("double", "float") if name in (left.scalar, right.scalar)]
    return Type(wider[0]) if wider else UNKNOWN


def _integer(left: Type, right: Type) -> Type:
    (left_rank, left_signed), (right_rank, right_signed) = (
        INTEGERS[kind.scalar or ""] for kind in (left, right)
    )
    if left_rank != right_rank:
        return Type(left.scalar if left_rank > right_rank else right.scalar)
    return Type(right.scalar if left_signed and not right_signed else left.scalar)


_CONDITIONS = frozenset({*COMPARISONS, "&&", "||"})


def binary(operator: str, left: Type, right: Type) -> Type:
    """Return the type of an operation, unknown where an operand's is."""
    if operator == ",":
        return right
    if operator in _CONDITIONS:
        return Type("bool", max(left.width, right.width))
    if is_address(left) or is_address(right):
        return _on_addresses(operator, left, right)
    if operator in ("<<", ">>"):
        return promoted(left) if is_integer(left) else UNKNOWN
    return arithmetic(left, right)


def _on_addresses(operator: str, left: Type, right: Type) -> Type:
    if operator == "-" and is_address(left) and is_address(right):
        return LONG
    address, offset = (left, right) if is_address(left) else (right, left)
    # An unknown number, as that of a template type, can only be an integer here.
    if operator in "+-" and not is_address(offset) and not is_floating(offset):
        return decayed(address)
    return UNKNOWN


def unary(operator: str, operand: Type) -> Type:
    """Return the type of ``-x``, ``+x``, ``~x``, ``!x`` or ``&x``."""
    if operator == "&":
        if is_address(operand):
            return Type(None, pointer=True, space=operand.space)
        return replace(operand, pointer=True, reference=False)
    if operator == "!":
        return Type("bool", operand.width)
    return promoted(operand) if not is_address(operand) else UNKNOWN


def conditional(then: Type, otherwise: Type) -> Type:
    """Return the type of ``c ? then : otherwise``."""
    if value(then) == value(otherwise):
        return value(then)
    if is_address(then) or is_address(otherwise):
        return UNKNOWN
    return arithmetic(then, otherwise)


def literal(text: str) -> tuple[int | float, Type] | None:
    """Value and type of a number as it is written, None when it is not a number.

    A floating literal without a suffix is a ``float``: Metal has no wider type.
    """
    digits = text.replace("'", "").lower()
    hexadecimal = digits.startswith("0x")
    if "." in digits or ("p" in digits if hexadecimal else "e" in digits):
        return _floating_literal(digits, hexadecimal)
    if not hexadecimal and digits[-1:] in ("f", "h"):
        return _floating_literal(digits, hexadecimal)
    number = digits.rstrip("ulz")
    suffix = digits[len(number) :]
    found = whole_number(number, 8 if number[:1] == "0" and number.isdecimal() else 0)
    if found is None:
        return None
    return found, _integer_literal(found, suffix, decimal=number[:1] != "0" or found == 0)


def _floating_literal(digits: str, hexadecimal: bool) -> tuple[float, Type] | None:
    scalar = "float"
    for suffix, kind in (("bf", "bfloat"), ("h", "half"), ("f", "float"), ("l", "double")):
        if digits.endswith(suffix) and not (hexadecimal and "p" not in digits):
            digits, scalar = digits[: -len(suffix)], kind
            break
    try:
        return (float.fromhex(digits) if hexadecimal else float(digits)), Type(scalar)
    except (ValueError, OverflowError):
        return None


def _integer_literal(number: int, suffix: str, *, decimal: bool) -> Type:
    """Return the first type that holds the number, as C++ tries them."""
    unsigned, wide = "u" in suffix, "l" in suffix
    for kind, bits in ((INT, 31), (UINT, 32), (LONG, 63), (ULONG, 64)):
        signed = kind in (INT, LONG)
        # A decimal literal without a suffix is never unsigned; one of another base may be.
        refused = unsigned if signed else not unsigned and decimal
        if not refused and not (wide and bits < 63) and number < 1 << bits:
            return kind
    return ULONG
