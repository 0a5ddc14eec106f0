"""Copy: y = x. Of use to nobody but the reader who is about to write a first kernel.

Every kernel of this package has the parts of this one, in the order in which a call uses them: a
public function that checks its arguments, a reference in MLX operations, a launch rule, a
body in Metal, and an operation that has a gradient. This kernel has nothing else.
"""

from __future__ import annotations

import functools
import math

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.differentiation import Operation, differentiable, gradient_of
from xlstm_kernels.kernel import Kernel, Launch

# A GPU has no float64, and a complex number is a struct, which needs more of a kernel than `=`.
_DTYPES = (
    *(mx.bool_, mx.uint8, mx.uint16, mx.uint32, mx.uint64, mx.int8, mx.int16, mx.int32, mx.int64),
    *(mx.float32, mx.float16, mx.bfloat16),
)
_THREADGROUP = 256
_ELEMENTS_PER_THREAD = 4


def copy(x: mx.array, *, backend: str | None = None) -> mx.array:
    """Copy `x` into new memory, row-contiguous.

    MLX's arrays are values, so no program needs this: it is an example of a kernel. Differentiable
    where `x` is floating.

    Args:
        x: any shape, 0-d and empty included; bool, integers, float32, float16 or bfloat16.
        backend: `"metal"`, `"native"` (MLX operations), or None for Metal where it is available and
            the GPU is the default device. Inside `mx.vmap` and `mx.jvp` it must be `"native"`,
            since MLX refuses kernels there.

    Returns:
        An array of the shape, the dtype and the bits of `x`.

    Raises:
        TypeError: for a dtype that is not listed.
        ValueError: for an unknown backend.
        RuntimeError: for a backend that cannot run here.
    """
    if not isinstance(x, mx.array):
        raise TypeError(f"copy: x must be an mlx.core.array, got {type(x).__name__}")
    if x.dtype not in _DTYPES:
        raise TypeError(
            f"copy: x must be bool, integer, or a float of 32 or 16 bits, got {x.dtype}"
        )
    copied: mx.array = _copy(executors.resolve(backend))(x)
    return copied


def copy_reference(x: mx.array) -> mx.array:
    """`copy` in MLX operations. MLX may give the memory of an `x` that is contiguous already."""
    return mx.contiguous(x)


# --- Metal -------------------------------------------------------------------------------------


def _launch(source: mx.array, _element_count: mx.array) -> Launch:
    """How many threads run, and what they fill. It reads shapes and dtypes, never elements.

    The grid counts threads, not threadgroups as CUDA's does: a grid of one threadgroup for each
    256 elements would leave 255 of 256 uncopied. Threads of a threadgroup can share memory and wait
    for each other. These do not, so its size matters little: a multiple of 32, since 32 threads
    always run together, and at most 1024. It need not divide the grid.
    """
    # A few elements for each thread are less work than a thread for each element.
    threads = math.ceil(source.size / _ELEMENTS_PER_THREAD)
    return Launch(
        grid=(threads, 1, 1),
        threadgroup=(_THREADGROUP, 1, 1),
        output_shapes=(source.shape,),
        output_dtypes=(source.dtype,),
    )


# The body is the inside of a function. MLX writes its signature, from the names below and from the
# arrays of the call. For source of 12 float32 it is
#
#     [[kernel]] void custom_kernel_xlstm_memcpy(
#       const device float* source [[buffer(0)]],
#       const constant int64_t& element_count [[buffer(1)]],
#       device float* copied [[buffer(2)]],
#       uint3 thread_position_in_grid [[thread_position_in_grid]],
#       uint3 threads_per_grid [[threads_per_grid]]) {
#
# and `_MEMCPY.generated_source(x, count)` shows it for an x of yours. Three things in it depend on
# the arrays:
# - `source` lies in `device` memory; with fewer than 8 elements it is `const constant float*`.
#   Pointers into the two are of different types, which do not convert into each other. So let
#   `auto` name the type: a body that says `const device float*` compiles for big inputs only.
# - `element_count` has no axis (`mx.array(12)`), so it is a reference: `element_count`, never
#   `element_count[0]`. An array of one element, of shape (1,), would be a pointer.
# - Types are those of the call. This body names none but its index, so it serves every dtype.
# Attributes, `thread_position_in_grid` and its like, are parameters because the body names them.
_MEMCPY = Kernel(
    name="xlstm_memcpy",
    inputs=("source", "element_count"),
    outputs=("copied",),
    launch=_launch,
    body="""
    // source, copied: any shape, read as flat: a Kernel's inputs are row-contiguous (MLX copies
    // those that are not) unless it says contiguous_inputs=False and reads through their strides.
    const auto from = source;
    // size_t has 64 bits: 32 would do up to 2^32 elements, and are a little faster.
    const size_t count = static_cast<size_t>(element_count);
    const size_t stride = threads_per_grid.x;
    // Neighbouring threads take neighbouring elements, so that memory is fetched in whole lines;
    // then all of them move on by the size of the grid. The condition of the loop is the bounds
    // check: there may be more threads than elements, since an executor may round the grid up to
    // whole threadgroups. Without a check those write where another array lies.
    for (size_t i = thread_position_in_grid.x; i < count; i += stride) {
        // copied starts as whatever was in its memory: every element has to be written.
        copied[i] = from[i];
    }
    """,
)


def _memcpy(x: mx.array, backend: str) -> mx.array:
    # A 0-d array would come as a reference, which has no elements to index.
    source = x if x.ndim else x.reshape((1,))
    # Made anew for each call: an array that outlives it would be tied to the calling thread.
    element_count = mx.array(x.size, dtype=mx.int64)
    (copied,) = _MEMCPY(source, element_count, backend=backend)
    return copied.reshape(x.shape)


@functools.cache
def _copy(backend: str) -> Operation:
    """The differentiable operation x -> copy on one backend.

    MLX refuses to differentiate a kernel, so this one is given the gradient of the reference.
    """
    launch = functools.partial(_memcpy, backend=backend)
    forward = copy_reference if backend == executors.NATIVE else launch
    return differentiable(forward, gradient_of(copy_reference))
