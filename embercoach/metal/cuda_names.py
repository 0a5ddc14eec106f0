"""Words, functions and variables of CUDA, and of GLSL and HLSL, and what Metal has instead."""

from __future__ import annotations

#: Qualifiers, and Metal's; "" where Metal needs none.
QUALIFIERS = {
    "__shared__": "threadgroup",
    "__constant__": "constant",
    "__forceinline__": "inline",
    "__device__": "",
    "__host__": "",
    "__global__": "",
}
VARIABLES = {
    "threadIdx": "thread_position_in_threadgroup",
    "blockIdx": "threadgroup_position_in_grid",
    "blockDim": "threads_per_threadgroup",
    "gridDim": "threadgroups_per_grid",
    "warpSize": "threads_per_simdgroup",
}
#: Calls without arguments, and those that do the same.
CALLS = {
    "__syncthreads": "threadgroup_barrier(mem_flags::mem_threadgroup)",
    "__syncwarp": "simdgroup_barrier(mem_flags::mem_threadgroup)",
    "__activemask": "uint(simd_vote::vote_t(simd_active_threads_mask()))",
}
_SINGLE = """
acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh cospi exp exp10 exp2 fabs fdim floor
fma fmax fmin fmod ldexp log log10 log2 nextafter pow rint round rsqrt sin sinh sinpi sqrt tan
tanh trunc
"""
_FAST = ("cos", "exp", "exp10", "log", "log10", "log2", "pow", "sin", "tan")
_VECTORS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float")
#: Functions with the same arguments under another name.
RENAMED = {
    **{f"{name}f": name for name in _SINGLE.split()},
    **{f"__{name}f": f"fast::{name}" for name in _FAST},
    **{f"make_{name}{size}": f"{name}{size}" for name in _VECTORS for size in (2, 3, 4)},
    "__fdividef": "fast::divide",
    "__saturatef": "saturate",
    "__frsqrt_rn": "rsqrt",
    "__fsqrt_rn": "sqrt",
    "__fmaf_rn": "fma",
    "__popc": "popcount",
    "__clz": "clz",
    "__brev": "reverse_bits",
    "__umulhi": "mulhi",
    "__mulhi": "mulhi",
    "__float2half": "half",
    "__half2float": "float",
    **{
        f"{prefix}vec{size}": f"{name}{size}"
        for prefix, name in (("", "float"), ("i", "int"), ("u", "uint"), ("b", "bool"))
        for size in (2, 3, 4)
    },
    **{f"mat{size}": f"float{size}x{size}" for size in (2, 3, 4)},
    "inversesqrt": "rsqrt",
    "lerp": "mix",
    "frac": "fract",
    "dFdx": "dfdx",
    "dFdy": "dfdy",
}
_FETCH = "atomic_fetch_{}_explicit(&y[i], v, memory_order_relaxed)"
_ATOMIC = {
    **{
        f"atomic{name}": _FETCH.format(name.lower())
        for name in ["Add", "Sub", "Min", "Max", "And", "Or", "Xor"]
    },
    "atomicExch": "atomic_exchange_explicit(&y[i], v, memory_order_relaxed)",
    "atomicCAS": "atomic_compare_exchange_weak_explicit",
}
_SHUFFLES = {
    "__shfl_sync": "simd_shuffle(v, lane)",
    "__shfl_down_sync": "simd_shuffle_down(v, delta)",
    "__shfl_up_sync": "simd_shuffle_up(v, delta)",
    "__shfl_xor_sync": "simd_shuffle_xor(v, mask)",
    "__any_sync": "simd_any(v)",
    "__all_sync": "simd_all(v)",
    "__ballot_sync": "uint(simd_vote::vote_t(simd_ballot(v)))",
}
_REMEDIES = {
    **{
        name: f"Use `{other}`; for an output, with `atomic_outputs=True`"
        for name, other in _ATOMIC.items()
    },
    **{name: f"Use `{other}`, without the mask of lanes" for name, other in _SHUFFLES.items()},
    "__ldg": "Read the element itself: `x[i]`",
    "__ffs": "Use `ctz(v) + 1`",
    "__float_as_int": "Use `as_type<int>(v)`",
    "__float_as_uint": "Use `as_type<uint>(v)`",
    "__int_as_float": "Use `as_type<float>(v)`",
    "mod": "Use `x - y * floor(x / y)`, or `fmod(x, y)` for numbers above 0",
    "printf": "Metal has none: write the value to an output, or run `embercoach simulate`",
    "__threadfence": "Use `threadgroup_barrier(mem_flags::mem_device)`, or split the kernel in two",
    "__threadfence_block": "Use `threadgroup_barrier(mem_flags::mem_threadgroup)`",
}
NAMES = frozenset({*VARIABLES, *CALLS, *RENAMED, *_REMEDIES})
"""Names that Metal does not declare."""
UNSIZED_HELP = "Write `threadgroup`, and a constant or a template argument as the size"
"""For an array that the launch of CUDA sizes: ``extern __shared__ float s[];``."""


def cuda_help(name: str) -> str:
    """Return the help for a variable or a function of CUDA, "" for other names."""
    other = VARIABLES.get(name) or CALLS.get(name) or RENAMED.get(name)
    return f"Use `{other}`" if other else _REMEDIES.get(name, "")


def qualifier_help(word: str) -> str:
    """Return the help for a qualifier of CUDA."""
    other = QUALIFIERS[word]
    if other in ("threadgroup", "constant"):
        return f"Write `{other}`, as in `{other} float s[256]`"
    if word == "__global__":
        return "Pass the statements alone as `source`; in a `.metal` file write `kernel`"
    return f"Write `{other}`" if other else "Drop it: a function in `header` needs no qualifier"
