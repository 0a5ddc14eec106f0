"""Metal's library: the names that a kernel body may use without declaring them, and their types.

From the Metal Shading Language specification (3.2, with the additions of 4.0), the preamble that
MLX puts in front of every custom kernel, and what the compiler itself predefines. The tables lean
to completeness: a name that is missing here becomes a false finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

from embercoach.metal import cuda_names
from embercoach.metal.program.types import (
    BOOL,
    FLOAT,
    HALF,
    INT,
    LONG,
    NAMED,
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
from embercoach.metal.unknown_numbers import is_unknown_number

if TYPE_CHECKING:
    from embercoach.metal.text_facts import UseKind


#: What other languages and libraries call scalars that Metal has under another name.
OTHER_SCALARS = {
    **{f"{stem}8": "char" for stem in ("int", "i")},
    **{f"{stem}8": "uchar" for stem in ("uint", "u")},
    **{f"{stem}16": "short" for stem in ("int", "i")},
    **{f"{stem}16": "ushort" for stem in ("uint", "u")},
    **{f"{stem}32": "int" for stem in ("int", "i")},
    **{f"{stem}32": "uint" for stem in ("uint", "u")},
    **{f"{stem}64": "long" for stem in ("int", "i")},
    **{f"{stem}64": "ulong" for stem in ("uint", "u")},
    **{f"{stem}16": "half" for stem in ("float", "f", "fp")},
    **{f"{stem}32": "float" for stem in ("float", "f", "fp")},
    **{f"{stem}16": "bfloat" for stem in ("bfloat", "bf")},
}


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
_TYPES = """
nullptr_t true_type false_type packed_vec simdgroup_matrix numeric_limits integral_constant
bool_constant array_ref interpolant
mem_flags memory_order thread_scope memory_coherence quad_vote
MTLQuadTessellationFactorsHalf MTLTriangleTessellationFactorsHalf
"""

_MACROS = """
INFINITY NAN MAXFLOAT MAXHALF MAXBFLOAT HUGE_VALF HUGE_VALH HUGE_VALBF HUGE_VAL NULL
CHAR_BIT SCHAR_MAX SCHAR_MIN UCHAR_MAX CHAR_MAX CHAR_MIN USHRT_MAX SHRT_MAX SHRT_MIN UINT_MAX
INT_MAX INT_MIN ULONG_MAX LONG_MAX LONG_MIN LLONG_MAX LLONG_MIN ULLONG_MAX SIZE_MAX
PTRDIFF_MAX PTRDIFF_MIN FP_ILOGB0 FP_ILOGBNAN
"""

_ENUMERATORS = """
memory_order_relaxed memory_order_acquire memory_order_release memory_order_acq_rel
memory_order_seq_cst thread_scope_thread thread_scope_simdgroup thread_scope_threadgroup
thread_scope_device thread_scope_system memory_scope_simdgroup memory_scope_threadgroup
memory_scope_device memory_coherence_threadgroup memory_coherence_device
memory_coherence_system
"""

#: What else ``simd_`` and ``quad_`` do, with results of other types.
_GROUP_OPERATIONS = _words(
    """
    active_threads_mask all any ballot is_first is_helper_thread
    """
)

_ATOMIC_FUNCTIONS = """
atomic_compare_exchange_weak atomic_exchange atomic_exchange_explicit atomic_load
atomic_load_explicit atomic_max atomic_max_explicit atomic_min atomic_min_explicit
"""

_PACK_LAYOUTS = """
snorm4x8 snorm2x16 unorm4x8 unorm2x16 unorm10a2 unorm565 srgb_unorm4x8 unorm4x8_srgb
"""

_CURVE_FUNCTIONS = """
bezier bezier_derivative bezier_second_derivative bspline bspline_derivative
bspline_second_derivative catmull_rom catmull_rom_derivative catmull_rom_second_derivative hermite
hermite_derivative hermite_second_derivative
"""

_OTHER_FUNCTIONS = """
determinant ilogb not norm simdgroup_async_copy simdgroup_event simdgroup_future
make_filled_simdgroup_matrix
is_null_acceleration_structure is_null_instance_acceleration_structure
is_null_primitive_acceleration_structure is_null_intersection_function_table
is_null_visible_function_table
as_type static_cast reinterpret_cast const_cast move forward swap declval addressof memcpy memcmp
memset abort likely unlikely assert discard_fragment dfdx dfdy fwidth get_num_samples
get_sample_position is_null_texture is_null_sampler is_function_constant_defined make_array_ref
interpolate_at_center interpolate_at_centroid interpolate_at_offset interpolate_at_sample
"""

# Types and namespaces whose names could just as well be a forgotten variable's.
_WORDS = """
metal precise fast simd raytracing curves mpp tensor_ops mlx
vec matrix array span atomic uniform sampler tensor extents dextents tensor_handle tensor_offset
tensor_inline cooperative_tensor execution_thread execution_simdgroup execution_simdgroups
execution_threadgroup execution_threads
access address bias border_color command_buffer compare_func component compute_command
compute_pipeline_state coord depth_stencil_state filter gradient2d gradient3d gradientcube
imageblock imageblock_data imageblock_layout_explicit imageblock_layout_implicit imageblock_slice
intersection_function_table intersection_params intersection_query intersection_result
intersection_tags intersector interpolation level lod_clamp mag_filter max_anisotropy mesh
mesh_grid_properties min_filter min_lod_clamp mip_filter os_log os_log_type patch_control_point
acceleration_structure instance_acceleration_structure primitive_acceleration_structure
forced_opacity geometry_cull_mode geometry_type opacity_cull_mode triangle_cull_mode vec_elements
rasterization_rate_map_data rasterization_rate_map_decoder ray r_address render_command
render_grid_properties render_pipeline_state s_address sparse_color t_address topology
visible_function_table
"""

_TYPE_TRAITS = """
add_const add_cv add_lvalue_reference add_pointer add_rvalue_reference add_volatile alignment_of
common_type conditional conjunction decay disjunction enable_if extent integral_constant
is_address_space is_arithmetic is_array is_assignable is_base_of is_class is_compound is_const
is_constructible is_convertible is_copy_assignable is_copy_constructible is_default_constructible
is_destructible is_empty is_enum is_final is_floating_point is_function is_fundamental is_integral
is_invocable is_literal_type is_lvalue_reference is_matrix is_member_pointer is_move_assignable
is_move_constructible is_null_pointer is_object is_pod is_pointer is_reference is_rvalue_reference
is_same is_scalar is_signed is_standard_layout is_swappable is_trivial is_trivially_copyable
is_union is_unsigned is_vector is_void is_volatile invoke_result make_scalar make_signed
make_unsigned negation rank
remove_addrspace remove_addrspace_and_cv remove_all_extents remove_const remove_cv remove_cvref
remove_extent remove_pointer remove_reference remove_volatile result_of type_identity
underlying_type void index_sequence index_sequence_for integer_sequence make_index_sequence
make_integer_sequence
"""

_LIMITS = """
DIG MANT_DIG MAX_10_EXP MAX_EXP MIN_10_EXP MIN_EXP RADIX MAX MIN EPSILON TRUE_MIN DECIMAL_DIG
"""

_CONSTANTS = """
E LOG2E LOG10E LN2 LN10 PI PI_2 PI_4 1_PI 2_PI 2_SQRTPI SQRT2 SQRT1_2
"""

_MLX_PREAMBLE = """
float16_t bfloat16_t complex32_t complex64_t complex_t is_complex_v is_lane_convertible_v cast_to
bfloat16_to_uint16 uint16_to_bfloat16 schedule_row_tile
WorkPerThread Limits LoopedElemToLoc ConditionalType instantiate_default_limit
instantiate_float_limit instantiate_kernel instantiate_metal_math_funcs
instantiate_metal_simd_comm_funcs instantiate_metal_simd_reduction_funcs
elem_to_loc elem_to_loc_1 elem_to_loc_2 elem_to_loc_3 elem_to_loc_2_nd elem_to_loc_3_nd
ceildiv log1p hypot simd_shuffle simd_shuffle_down simd_shuffle_up simd_shuffle_and_fill_up
MLX_MTL_PRAGMA_UNROLL MTL_CONST MAX_REDUCE_SPECIALIZED_DIMS REDUCE_N_READS REDUCE_N_WRITES
SOFTMAX_N_READS RMS_N_READS RMS_LOOPED_LIMIT CROSS_ENTROPY_N_READS
"""

_PREFIXES = ("__", "_Pragma", "METAL_", "TARGET_OS_", "os_log_", "texture", "depth2d", "depthcube")
"""Families that are open-ended: the compiler's own names, and the kinds of texture."""


def _constants() -> Iterator[str]:
    for prefix, limit in product(("FLT", "HALF", "BFLT", "DBL"), _LIMITS.split()):
        yield f"{prefix}_{limit}"
    for constant, end in product(_CONSTANTS.split(), ("", "_F", "_H", "_BF")):
        yield f"M_{constant}{end}"


def _functions() -> Iterator[str]:
    for group, operation in product(("simd", "quad"), _GROUP_OPERATIONS | _SIMD):
        yield f"{group}_{operation}"
    for operation in ("add", "and", "max", "min", "or", "sub", "xor"):
        yield f"atomic_fetch_{operation}"
        yield f"atomic_fetch_{operation}_explicit"
    for layout, kind in product(_PACK_LAYOUTS.split(), ("float", "half")):
        yield f"pack_{kind}_to_{layout}"
        yield f"unpack_{layout}_to_{kind}"
    for target in ("char", "uchar", "short", "ushort", "int", "uint"):
        yield f"convert_{target}_saturate"


MLX_NAMES = frozenset(_MLX_PREAMBLE.split())
"""Names of the preamble that MLX prepends: ``kernels/utils.h`` and what it includes."""

VALUES = frozenset(f"{_TYPES} {_MACROS} {_ENUMERATORS}".split()).union(
    NAMED, _constants(), MLX_NAMES
) - {"double", "void", "signed", "unsigned"}
"""Names that may stand anywhere: types, constants, macros."""

FUNCTIONS = frozenset(_functions()).union(
    *(_SAME, _FIRST, _FLOATING, _SCALAR_OF, _BOOL, _BOOL_EACH, _VOID),
    f"{_ATOMIC_FUNCTIONS} {_CURVE_FUNCTIONS} {_OTHER_FUNCTIONS}".split(),
)
"""Functions of Metal's standard library."""

_APPLIED = FUNCTIONS.union(
    _WORDS.split(), map("".join, product(_TYPE_TRAITS.split(), ("", "_t", "_v")))
)


def is_known(name: str, kind: UseKind) -> bool:
    """Return whether every kernel body may use the name in this way without declaring it.

    A function or a plain word of the library (``bias``, ``step``, ``length``) is known where it is
    called, or used as a type or namespace, and unknown where it represents a value.
    """
    if name in cuda_names.NAMES:
        return False
    if name in VALUES or name.startswith(_PREFIXES) or is_unknown_number(name):
        return True
    return kind != "value" and name in _APPLIED


def is_standard_header(target: str) -> bool:
    """Return whether an ``#include`` target, with its brackets or quotes, has known names only."""
    name = target.strip('<>"')
    return name.startswith(("metal_", "simd/")) or name == "TargetConditionals.h"


_LOCATIONS = frozenset({"elem_to_loc", "elem_to_loc_1", "elem_to_loc_2", "elem_to_loc_3"})
_ATOMIC_VALUES = ("atomic_load", "atomic_fetch_", "atomic_exchange")


def result_type(name: str, arguments: Sequence[Type], template: Type | None = None) -> Type:
    """Return the type that a function of Metal's library, or of MLX's preamble, returns.

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
        kind, _, scalar = (first.scalar or "").partition("_")
        return Type(scalar) if kind == "atomic" and first.pointer else UNKNOWN
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
    """Return the result of a function that a template argument decides, None for others."""
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
    """Return the one type of all arguments; a scalar may represent a vector of its type."""
    widest = max(arguments, key=lambda kind: kind.width)
    if all(a.scalar == widest.scalar and a.width in (1, widest.width) for a in arguments):
        return _number(widest)
    return UNKNOWN


_CONSTANT_TYPES = {
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
_LIMIT_TYPES = {"FLT_": FLOAT, "HALF_": HALF, "BFLT_": Type("bfloat")}
_COUNTED_LIMITS = ("DIG", "EXP", "RADIX")


def constant_type(name: str) -> Type:
    """Return the type of a constant of Metal's library, unknown for other names."""
    if name in _CONSTANT_TYPES:
        return _CONSTANT_TYPES[name]
    if name.startswith("M_"):
        return next((t for end, t in _SUFFIXES.items() if name.endswith(end)), UNKNOWN)
    for prefix, kind in _LIMIT_TYPES.items():
        if name.startswith(prefix):
            return INT if name.endswith(_COUNTED_LIMITS) else kind
    return UNKNOWN


ADDRESS_SPACES = frozenset(
    {
        *("device", "constant", "thread", "threadgroup", "threadgroup_imageblock", "object_data"),
        "ray_data",
    }
)
ENTRY_QUALIFIERS = frozenset({"kernel", "vertex", "fragment"})

CPP_KEYWORDS = _words(
    """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class
compl const const_cast constexpr continue decltype default delete do double dynamic_cast else enum
explicit export extern false float for friend goto if inline int long mutable namespace new noexcept
not not_eq nullptr operator or or_eq private protected public register reinterpret_cast return short
signed sizeof static static_assert static_cast struct switch template this thread_local throw true
try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
"""
)

KEYWORDS = ADDRESS_SPACES | ENTRY_QUALIFIERS | CPP_KEYWORDS | {"bfloat", "half"}
"""Keywords of C++17 and the words that Metal adds: address spaces, function qualifiers, types."""


def is_identifier(name: str) -> bool:
    """Return whether a parameter may have this name, as far as its characters go."""
    return name.isidentifier() and name.isascii()


def scalar_help(name: str) -> str:
    """Return the help for a scalar that Metal calls otherwise, "" for other names."""
    scalar = OTHER_SCALARS.get(name)
    return f"Write `{scalar}`: Metal has no type `{name}`" if scalar else ""
