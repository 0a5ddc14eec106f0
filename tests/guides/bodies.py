"""Kernel bodies of the guides: what belongs into ``source``, and which names it may use."""

from __future__ import annotations

from tests.guides.case import case, kernel_case, mark

CASES = (
    kernel_case(
        "000 names inp0, inp1 and out0",
        "MLX declares the names of input_names and output_names, and no others",
        inputs="input cap_value",
        outputs="output",
        flagged=(
            mark("KERNEL-SIG-005", "inp0_shape[0]", says="inp0_shape"),
            mark("KERNEL-SIG-005", "float val = inp0[tid]", says="inp0"),
            mark("KERNEL-SIG-005", "inp1[0]", says="inp1"),
            mark("KERNEL-SIG-005", "out0[tid]", says="out0"),
        ),
    )("""
        uint tid = thread_position_in_grid.x;
        if (tid < inp0_shape[0]) {
            float val = inp0[tid];
            float cap = inp1[0];
            out0[tid] = cap * tanh(val / cap);
        }
    """),
    case(
        "000 names inp0 and out0, launched elsewhere",
        "a name that is indexed can't be a template argument, so no launch need be seen",
        flagged=mark("KERNEL-SIG-005", "out0[tid] = inp0[tid]"),
    )('''
        SOURCE = """
            uint tid = thread_position_in_grid.x;
            out0[tid] = inp0[tid];
        """
        soft_cap = mx.fast.metal_kernel(
            name="soft_cap", input_names=["input"], output_names=["output"], source=SOURCE
        )
    '''),
    kernel_case(
        "000 names as given",
        "the same kernel with the names that it was given",
        inputs="input cap_value",
        outputs="output",
    )("""
        uint tid = thread_position_in_grid.x;
        if (tid < input_shape[0]) {
            float val = input[tid];
            float cap = cap_value[0];
            output[tid] = cap * tanh(val / cap);
        }
    """),
    kernel_case(
        "000 magic names that were given",
        "inp0 and out0 are right where input_names and output_names say so",
        inputs="inp0",
        outputs="out0",
    )("uint tid = thread_position_in_grid.x; out0[tid] = inp0[tid];"),
    kernel_case(
        "v size of an input",
        "shape, strides and ndim are passed, a size is not, and nothing for outputs",
        flagged=(
            mark("KERNEL-SIG-005", "x_size", says="x_size"),
            mark("KERNEL-SIG-005", "y_shape", says="y_shape"),
        ),
    )("""
        uint tid = thread_position_in_grid.x;
        if (tid < x_size) y[tid] = x[tid];
        if (tid < y_shape[0]) y[tid] = x[tid];
    """),
    kernel_case(
        "000 whole shader as source",
        "the text of a .mm file is right there; MLX writes the signature itself",
        flagged=(
            mark("KERNEL-SIG-001", "kernel void soft_cap_kernel("),
            mark("KERNEL-SIG-003", "#include <metal_stdlib>"),
        ),
        noted=mark("KERNEL-SIG-004", "using namespace metal;"),
        allowed="KERNEL-SIG-002",
    )("""
        #include <metal_stdlib>
        using namespace metal;
        kernel void soft_cap_kernel(
            device float* input [[buffer(0)]],
            device float* output [[buffer(1)]],
            constant float& cap_value [[buffer(2)]],
            uint tid [[thread_position_in_grid]]
        ) {
            output[tid] = cap_value * tanh(input[tid] / cap_value);
        }
    """),
    kernel_case(
        "000 limbs",
        "macros, casts of bits and local arrays are fine inside a body",
        inputs="data",
        outputs="total",
    )("""
        #define NUM_LIMBS 8u
        #define LIMB_RADIX 65536.0f
        uint limbs[NUM_LIMBS] = {0u};
        for (uint i = 0; i < uint(data_shape[0]); i++) {
            uint bits = as_type<uint>(data[i]);
            ushort lo = bits & 0xFFFFu;
            ushort hi = (bits >> 16) & 0xFFFFu;
            limbs[0] += uint(lo * lo) & 0xFFFFu;
            limbs[1] += (uint(lo * lo) >> 16) + uint(lo * hi);
        }
        float result = 0.0f;
        float radix = 1.0f;
        for (uint l = 0; l < NUM_LIMBS; l++) {
            result += float(limbs[l]) * radix;
            radix *= LIMB_RADIX;
        }
        total[0] = result;
    """),
    kernel_case(
        "001 cap left undeclared",
        "the parameter of the .metal function was left out of input_names",
        inputs="input shape",
        outputs="out",
        header="#include <metal_stdlib>\nusing namespace metal;",
        flagged=mark("KERNEL-SIG-005", "out[id] = cap", says="cap"),
    )("""
        int size = int(shape[0]);
        uint id = thread_position_in_grid.x;
        if (id >= size) return;
        float val = input[id];
        out[id] = cap * tanh(val / cap);
    """),
    kernel_case(
        "001 cap as an input",
        "the scalar is an input of one element; include and using stand in the header",
        inputs="input shape cap",
        outputs="out",
        header="#include <metal_stdlib>\nusing namespace metal;",
    )("""
        uint id = thread_position_in_grid.x;
        if (id >= shape[0]) return;
        float val = input[id];
        out[id] = cap[0] * tanh(val / cap[0]);
    """),
    case(
        "002 tile in threadgroup memory",
        "template constants, barriers, simd functions and ternary guards are all Metal's",
    )('''
        TILES = mx.fast.metal_kernel(
            name="tiles",
            input_names=["A", "eps"],
            output_names=["out"],
            header="#include <metal_stdlib>\\nusing namespace metal;\\n",
            source="""
                threadgroup float tile[TM];
                uint lane = thread_position_in_threadgroup.x;
                uint group = threadgroup_position_in_grid.x;
                float v = A[group * TM + lane];
                v = (fabs(v) < eps) ? 0.0f : fmin(fmax(v, -1.0f), 1.0f);
                tile[lane] = simd_sum(v);
                threadgroup_barrier(mem_flags::mem_threadgroup);
                out[group * TM + lane] = fma(tile[0], 2.0f, v);
            """,
        )
        def tiles(A: mx.array, eps: mx.array) -> mx.array:
            return TILES(
                inputs=[A, eps], template=[("TM", 32)], grid=(A.size, 1, 1),
                threadgroup=(32, 1, 1), output_shapes=[A.shape], output_dtypes=[mx.float32],
            )[0]
    '''),
    kernel_case(
        "003 body only",
        "statements alone, with n as an input of no dimension",
        inputs="inp n",
        outputs="out",
    )("""
        uint tid = thread_position_in_grid.x;
        if (tid >= n) return;
        out[tid] = inp[tid] * 2.0f;
    """),
    kernel_case(
        "003 full signature",
        "a function definition where only its body belongs",
        flagged=mark("KERNEL-SIG-001", "kernel void my_kernel("),
        allowed="KERNEL-SIG-002",
    )("""
        kernel void my_kernel(device float* out [[buffer(0)]]) {
            out[0] = 1.0f;
        }
    """),
    case(
        "003 source read from a file", "what the file holds is not known, so nothing can be said"
    )("""
        def build(path: str):
            source = open(path).read()
            return mx.fast.metal_kernel(
                name="mine", input_names=["x"], output_names=["y"], source=source
            )
    """),
    kernel_case(
        "004 signature with threadgroup memory",
        "threadgroup memory is declared in the body, not taken as a parameter",
        flagged=mark("KERNEL-SIG-001", "kernel void mlstm_forward("),
        allowed="KERNEL-SIG-002",
    )("""
        kernel void mlstm_forward(
            threadgroup float* shared_mem [[threadgroup(0)]],
            uint tid [[thread_position_in_threadgroup]]
        ) {
            shared_mem[tid] = 0.0f;
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
    """),
    kernel_case(
        "v thirty-three buffers",
        "Metal's table has 31 entries, not 64",
        inputs="a b c d e f g h",
        flagged=mark("KERNEL-BUFFER-001", "KERNEL = mx.fast.metal_kernel(", 'name="guided"'),
    )(
        "uint i = thread_position_in_grid.x;\ny[i] = "
        + "\n    + ".join(f"{n}[i] * {n}_shape[0] * {n}_strides[0] * {n}_ndim" for n in "abcdefgh")
        + ";"
    ),
    kernel_case(
        "v twenty-five buffers", "as many inputs, within the limit", inputs="a b c d e f g h"
    )(
        "uint i = thread_position_in_grid.x;\ny[i] = "
        + "\n    + ".join(f"{n}[i] * {n}_shape[0] * {n}_strides[0]" for n in "abcdefgh")
        + ";"
    ),
)
