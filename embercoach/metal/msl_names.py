"""Names that a kernel body may use without declaring them.

From the Metal Shading Language specification (3.2, with the additions of 4.0), the preamble that
MLX puts in front of every custom kernel, and what the compiler itself predefines. The tables lean
to completeness: a name that is missing here becomes a false finding.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from embercoach.metal.unknown_numbers import is_unknown_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.text_facts import UseKind

_COUNTS = ("2", "3", "4")

_SCALARS = """
bool char uchar short ushort int uint long ulong half bfloat float
"""

_TYPES = """
int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t
size_t ptrdiff_t intptr_t uintptr_t nullptr_t true_type false_type
packed_vec simdgroup_matrix numeric_limits integral_constant bool_constant array_ref interpolant
mem_flags memory_order thread_scope memory_coherence simd_vote quad_vote
atomic_int atomic_uint atomic_bool atomic_long atomic_ulong atomic_float atomic_half atomic_flag
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

_COMMON_FUNCTIONS = """
abs clamp max min mix saturate sign smoothstep step
"""

_INTEGER_FUNCTIONS = """
absdiff addsat clz ctz extract_bits hadd insert_bits mad24 madhi madsat max3 median3 min3 mul24
mulhi popcount reverse_bits rhadd rotate subsat
"""

_RELATIONAL_FUNCTIONS = """
all any isfinite isinf isnan isnormal isordered isunordered not select signbit
"""

_MATH_FUNCTIONS = """
acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh cospi divide exp exp2 exp10 fabs fdim
floor fma fmax fmax3 fmedian3 fmin fmin3 fmod fract frexp ilogb ldexp log log2 log10 modf nextafter
pow powr rint round rsqrt sin sincos sinh sinpi sqrt tan tanh tanpi trunc
"""

_GEOMETRIC_FUNCTIONS = """
cross determinant distance distance_squared dot faceforward length length_squared norm normalize
reflect refract transpose
"""

_SYNCHRONIZATION = """
threadgroup_barrier simdgroup_barrier quadgroup_barrier atomic_thread_fence
simdgroup_async_copy simdgroup_event simdgroup_future
"""

_SIMDGROUP_FUNCTIONS = """
make_filled_simdgroup_matrix simdgroup_load simdgroup_store simdgroup_multiply
simdgroup_multiply_accumulate
"""

_GROUP_OPERATIONS = """
active_threads_mask all and any ballot broadcast broadcast_first is_first is_helper_thread max min
or prefix_exclusive_product prefix_exclusive_sum prefix_inclusive_product prefix_inclusive_sum
product shuffle shuffle_and_fill_down shuffle_and_fill_up shuffle_down shuffle_rotate_down
shuffle_rotate_up shuffle_up shuffle_xor sum xor
"""

_ATOMIC_FUNCTIONS = """
atomic_compare_exchange_strong_explicit atomic_compare_exchange_weak
atomic_compare_exchange_weak_explicit atomic_exchange atomic_exchange_explicit atomic_init
atomic_load atomic_load_explicit atomic_max atomic_max_explicit atomic_min atomic_min_explicit
atomic_store atomic_store_explicit
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
is_null_acceleration_structure is_null_instance_acceleration_structure
is_null_primitive_acceleration_structure is_null_intersection_function_table
is_null_visible_function_table
as_type static_cast reinterpret_cast const_cast move forward swap declval addressof memcpy memcmp
memset abort likely unlikely assert printf discard_fragment dfdx dfdy fwidth get_num_samples
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


def _vectors() -> Iterator[str]:
    for scalar, count in product(_SCALARS.split(), _COUNTS):
        for prefix in ("", "packed_", "simd_", "vector_"):
            yield f"{prefix}{scalar}{count}"


def _matrices() -> Iterator[str]:
    for prefix, scalar in product(("", "simd_", "matrix_"), ("half", "float")):
        for columns, rows in product(_COUNTS, _COUNTS):
            yield f"{prefix}{scalar}{columns}x{rows}"
    for scalar in ("half", "bfloat", "float"):
        yield f"simdgroup_{scalar}8x8"


def _constants() -> Iterator[str]:
    for prefix, limit in product(("FLT", "HALF", "BFLT", "DBL"), _LIMITS.split()):
        yield f"{prefix}_{limit}"
    for constant, end in product(_CONSTANTS.split(), ("", "_F", "_H", "_BF")):
        yield f"M_{constant}{end}"


def _functions() -> Iterator[str]:
    for group, operation in product(("simd", "quad"), _GROUP_OPERATIONS.split()):
        yield f"{group}_{operation}"
    for operation in ("add", "and", "max", "min", "or", "sub", "xor"):
        yield f"atomic_fetch_{operation}"
        yield f"atomic_fetch_{operation}_explicit"
    for layout, kind in product(_PACK_LAYOUTS.split(), ("float", "half")):
        yield f"pack_{kind}_to_{layout}"
        yield f"unpack_{layout}_to_{kind}"
    for target in ("char", "uchar", "short", "ushort", "int", "uint"):
        yield f"convert_{target}_saturate"


def _traits() -> Iterator[str]:
    for trait, end in product(_TYPE_TRAITS.split(), ("", "_t", "_v")):
        yield f"{trait}{end}"


MLX_NAMES = frozenset(_MLX_PREAMBLE.split())
"""Names of the preamble that MLX prepends: ``kernels/utils.h`` and what it includes."""

VALUES = frozenset(f"{_SCALARS} {_TYPES} {_MACROS} {_ENUMERATORS}".split()).union(
    _vectors(), _matrices(), _constants(), MLX_NAMES
)
"""Names that may stand anywhere: types, constants, macros."""

FUNCTIONS = frozenset(_functions()).union(
    _COMMON_FUNCTIONS.split(),
    _INTEGER_FUNCTIONS.split(),
    _RELATIONAL_FUNCTIONS.split(),
    _MATH_FUNCTIONS.split(),
    _GEOMETRIC_FUNCTIONS.split(),
    _SYNCHRONIZATION.split(),
    _SIMDGROUP_FUNCTIONS.split(),
    _ATOMIC_FUNCTIONS.split(),
    _CURVE_FUNCTIONS.split(),
    _OTHER_FUNCTIONS.split(),
)
"""Functions of Metal's standard library."""

_APPLIED = FUNCTIONS.union(_WORDS.split(), _traits())


def is_known(name: str, kind: UseKind) -> bool:
    """Return whether every kernel body may use the name in this way without declaring it.

    A function or a plain word of the library (``bias``, ``step``, ``length``) is known where it is
    called, or used as a type or namespace, and unknown where it represents a value.
    """
    if name in VALUES or name.startswith(_PREFIXES) or is_unknown_number(name):
        return True
    return kind != "value" and name in _APPLIED


def is_standard_header(target: str) -> bool:
    """Return whether an ``#include`` target, with its brackets or quotes, has known names only."""
    name = target.strip('<>"')
    return name.startswith(("metal_", "simd/")) or name == "TargetConditionals.h"
