"""Metal text: whole ``.metal`` files, and bodies of kernels in Python."""

from __future__ import annotations

from tests.fuzz import seeds
from tests.fuzz.mutation import text_mutation
from tests.fuzz.soundness import examine
from tests.fuzz.target import Target

WORDS = (
    *("kernel", "void", "device", "constant", "threadgroup", "thread", "const", "float", "half"),
    *("uint", "int", "bool", "char", "ulong", "bfloat16_t", "float4", "half2", "uint3", "float4x4"),
    *("x", "y", "x_shape", "x_strides", "x_ndim", "T", "elem", "if", "else", "for", "while", "do"),
    *("switch", "case", "break;", "continue;"),
    *("return;", "struct", "enum", "template <typename T>"),
    *("[[buffer(0)]]", "[[thread_position_in_grid]]", '[[host_name("a")]]', "[[kernel]]"),
    *("thread_position_in_grid.x", "thread_index_in_simdgroup", "threadgroup_position_in_grid"),
    "threadgroup_barrier(mem_flags::mem_threadgroup);",
    "simdgroup_barrier(mem_flags::mem_none);",
    *("simd_sum(x[0])", "simd_shuffle_down(v, 1)", "atomic_fetch_add_explicit(&y[0], 1,"),
    *("memory_order_relaxed)", "as_type<uint>(v)", "static_cast<float>(v)", "metal::fast::exp(v)"),
    *("#define A(x) x x", "#include <metal_stdlib>", "#if 1", "#else", "#endif"),
    *("##", "__VA_ARGS__"),
    *("using namespace metal;", "constexpr", "auto", "&", "*", "->", "::", "<<", ">>", "%", "/ 0"),
    *("{", "}", "(", ")", "[", "]", ";", ",", "?", ":", "=", "+=", "++", "--", "!", "~"),
    *("^", "\\\n"),
    *("// embercoach: ignore", "// embercoach: ignore[KERNEL-RACE-001]", "/*", "*/", "// noqa"),
)


def execute_unit(data: bytes) -> None:
    """Check a ``.metal`` file."""
    examine(data, "unit.metal")


def execute_body(data: bytes) -> None:
    """Launch a body as a header would be found before a line of dashes, if there is one."""
    text = data.decode("utf-8", "replace").replace("\0", "")
    header, _, body = text.rpartition("\n----\n")
    program = (
        "import mlx.core as mx\n\n"
        "K = mx.fast.metal_kernel(name='k', input_names=['x', 'n'], output_names=['y', 'z'],\n"
        f"    header={header!r},\n    source={body!r})\n\n\n"
        "def launch(x: mx.array, groups):\n"
        "    return K(inputs=[x, 4], grid=(128, 1, groups), threadgroup=(128, 1, 1),\n"
        "             template=[('T', mx.float16), ('N', 8)], output_shapes=[x.shape, (4,)],\n"
        "             output_dtypes=[x.dtype, mx.int32], init_value=0)\n"
    )
    examine(program.encode("utf-8", "surrogatepass"), "launch.py")


UNIT = Target("metal", seeds.metal_units, text_mutation(seeds.metal_units, WORDS), execute_unit)
BODY = Target(
    "kernel-body",
    lambda: seeds.kernel_bodies()[::4],
    text_mutation(seeds.kernel_bodies, (*WORDS, "\n----\n")),
    execute_body,
)
