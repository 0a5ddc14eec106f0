"""Types of what Metal's library returns and of its constants.

Source: Metal Shading Language Specification 3.2, section 6. A function that is not listed, or that
would not accept its arguments, returns something unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.metal.program.types import (
    BOOL,
    FLOAT,
    HALF,
    INT,
    LONG,
    UINT,
    ULONG,
    UNKNOWN,
    VOID,
    Type,
    arithmetic,
    is_address,
    is_floating,
    is_integer,
    value,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# All arguments and the result have one type.
_SAME = _words(
    """
    abs absdiff addsat clamp max min mix saturate smoothstep step max3 median3 min3 hadd rhadd
    mad24 madhi madsat mul24 mulhi subsat rotate select
    """
)
# The result has the type of the first argument; the others have their own types.
_FIRST = _words(
    """
    sign clz ctz popcount reverse_bits extract_bits insert_bits cross faceforward normalize
    reflect refract frexp ldexp modf sincos transpose
    """
)
# Floating-point only: an integer argument is ambiguous.
_FLOATING = _words(
    """
    acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh cospi divide exp exp2 exp10
    fabs fdim floor fma fmax fmax3 fmedian3 fmin fmin3 fmod fract log log2 log10 nextafter pow
    powr rint round rsqrt sin sinh sinpi sqrt tan tanh tanpi trunc
    """
)
_SCALAR_OF = frozenset({"dot", "length", "length_squared", "distance", "distance_squared"})
_BOOL = _words(
    """
    simd_all simd_any simd_is_first simd_is_helper_thread quad_all quad_any quad_is_first all
    any atomic_compare_exchange_weak_explicit atomic_compare_exchange_strong_explicit
    """
)
_BOOL_EACH = _words(
    """
    isfinite isinf isnan isnormal isordered isunordered signbit
    """
)
_VOID = _words(
    """
    threadgroup_barrier simdgroup_barrier quadgroup_barrier atomic_thread_fence atomic_store
    atomic_store_explicit atomic_init simdgroup_load simdgroup_store simdgroup_multiply
    simdgroup_multiply_accumulate
    """
)
_SIMD = _words(
    """
    sum product min max and or xor broadcast broadcast_first shuffle shuffle_down shuffle_up
    shuffle_xor shuffle_rotate_down shuffle_rotate_up shuffle_and_fill_down
    shuffle_and_fill_up prefix_inclusive_sum prefix_exclusive_sum prefix_inclusive_product
    prefix_exclusive_product
    """
)
_LOCATIONS = frozenset({"elem_to_loc", "elem_to_loc_1", "elem_to_loc_2", "elem_to_loc_3"})
_ATOMIC_VALUES = ("atomic_load", "atomic_fetch_", "atomic_exchange")


def result_type(name: str, arguments: Sequence[Type], template: Type | None = None) -> Type:
    """The type that a function of Metal's library, or of MLX's preamble, returns.

    Args:
        name: without namespaces.
        arguments: the types of the arguments.
        template: the first explicit template argument.
    """
    if name in _VOID:
        return VOID
    if name in _BOOL:
        return BOOL
    if not arguments:
        return UNKNOWN
    first = arguments[0]
    if name.startswith(_ATOMIC_VALUES):
        return _atomic_value(first)
    group, _, operation = name.partition("_")
    if group in ("simd", "quad") and operation in _SIMD:
        return _number(first)
    if name in _BOOL_EACH:
        return Type("bool", first.width)
    if name in _SCALAR_OF:
        return Type(first.scalar) if is_floating(first) else UNKNOWN
    if name in _FIRST:
        return _number(first)
    if name in _SAME:
        return _same(arguments[:2] if name == "select" else arguments)
    if name in _FLOATING:
        found = _same(arguments)
        return UNKNOWN if is_integer(found) else found
    return _of_template(name, first, template) or _other(name, arguments)


def _of_template(name: str, first: Type, template: Type | None) -> Type | None:
    """The result of a function that a template argument decides, None for others."""
    if name in _LOCATIONS:
        # MLX's take the type of the index from the one-dimensional element, else it is long.
        deduced = _number(first) if name == "elem_to_loc" and first.width == 1 else LONG
        return deduced if template is None else template
    if name == "make_filled_simdgroup_matrix" and template is not None and template.scalar:
        return Type(f"simdgroup_{template.scalar}8x8")
    return None


def _other(name: str, arguments: Sequence[Type]) -> Type:
    first = arguments[0]
    if name == "simd_ballot":
        return Type("simd_vote")
    if name == "ilogb":
        return Type("int", first.width)
    if name == "ceildiv":
        return arithmetic(first, arguments[-1])
    if name in ("log1p", "expm1", "erf", "erfinv"):
        return FLOAT if first.scalar == "float" and first.width == 1 else UNKNOWN
    if name.startswith("pack_"):
        return UINT
    if name.startswith("unpack_") and name.endswith(("to_float", "to_half")):
        scalar = name.rpartition("_")[2]
        return Type(scalar, 4 if "4x8" in name or "10a2" in name else 2 if "2x16" in name else 3)
    return UNKNOWN


def _number(kind: Type) -> Type:
    return UNKNOWN if is_address(kind) else value(kind)


def _same(arguments: Sequence[Type]) -> Type:
    """The one type of all arguments; a scalar may represent a vector of its type."""
    widest = max(arguments, key=lambda kind: kind.width)
    if all(a.scalar == widest.scalar and a.width in (1, widest.width) for a in arguments):
        return _number(widest)
    return UNKNOWN


def _atomic_value(address: Type) -> Type:
    prefix, _, scalar = (address.scalar or "").partition("_")
    return Type(scalar) if prefix == "atomic" and address.pointer else UNKNOWN


_CONSTANTS = {
    "INFINITY": FLOAT,
    "NAN": FLOAT,
    "MAXFLOAT": FLOAT,
    "HUGE_VALF": FLOAT,
    "MAXHALF": HALF,
    "HUGE_VALH": HALF,
    "INT_MAX": INT,
    "INT_MIN": INT,
    "UINT_MAX": UINT,
    "LONG_MAX": LONG,
    "LONG_MIN": LONG,
    "ULONG_MAX": ULONG,
    "CHAR_BIT": INT,
}
_SUFFIXES = {"_F": FLOAT, "_H": HALF, "_BF": Type("bfloat")}
_LIMITS = {"FLT_": FLOAT, "HALF_": HALF, "BFLT_": Type("bfloat")}
_COUNTS = ("DIG", "EXP", "RADIX")


def constant_type(name: str) -> Type:
    """The type of a constant of Metal's library, unknown for other names."""
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    if name.startswith("M_"):
        return next((t for end, t in _SUFFIXES.items() if name.endswith(end)), UNKNOWN)
    for prefix, kind in _LIMITS.items():
        if name.startswith(prefix):
            return INT if name.endswith(_COUNTS) else kind
    return UNKNOWN
