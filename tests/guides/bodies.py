"""Kernel bodies of the guides: what belongs into ``source``, and which names it may use."""

from __future__ import annotations

from tests.guides.case import case, kernel_program, mark

CASES = (
    case(
        "000 names inp0, inp1 and out0",
        "MLX declares the names of input_names and output_names, and no others",
        kernel_program(
            """
            uint tid = thread_position_in_grid.x;
            if (tid < inp0_shape[0]) {
                float val = inp0[tid];
                float cap = inp1[0];
                out0[tid] = cap * tanh(val / cap);
            }
            """,
            inputs=("input", "cap_value"),
            outputs=("output",),
        ),
        flagged=(
            mark("KERNEL-SIG-005", "inp0_shape[0]", says=("inp0_shape",)),
            mark("KERNEL-SIG-005", "float val = inp0[tid]", says=("inp0",)),
            mark("KERNEL-SIG-005", "inp1[0]", says=("inp1",)),
            mark("KERNEL-SIG-005", "out0[tid]", says=("out0",)),
        ),
    ),
    case(
        "000 names inp0 and out0, launched elsewhere",
        "a name that is indexed can't be a template argument, so no launch need be seen",
        '''
        SOURCE = """
            uint tid = thread_position_in_grid.x;
            out0[tid] = inp0[tid];
        """
        soft_cap = mx.fast.metal_kernel(
            name="soft_cap", input_names=["input"], output_names=["output"], source=SOURCE
        )
        ''',
        flagged=(mark("KERNEL-SIG-005", "out0[tid] = inp0[tid]"),),
    ),
    case(
        "000 names as given",
        "the same kernel with the names that it was given",
        kernel_program(
            """
            uint tid = thread_position_in_grid.x;
            if (tid < input_shape[0]) {
                float val = input[tid];
                float cap = cap_value[0];
                output[tid] = cap * tanh(val / cap);
            }
            """,
            inputs=("input", "cap_value"),
            outputs=("output",),
        ),
    ),
    case(
        "000 magic names that were given",
        "inp0 and out0 are right where input_names and output_names say so",
        kernel_program(
            "uint tid = thread_position_in_grid.x; out0[tid] = inp0[tid];",
            inputs=("inp0",),
            outputs=("out0",),
        ),
    ),
    case(
        "v size of an input",
        "shape, strides and ndim are passed, a size is not, and nothing for outputs",
        kernel_program(
            """
            uint tid = thread_position_in_grid.x;
            if (tid < x_size) y[tid] = x[tid];
            if (tid < y_shape[0]) y[tid] = x[tid];
            """
        ),
        flagged=(
            mark("KERNEL-SIG-005", "x_size", says=("x_size",)),
            mark("KERNEL-SIG-005", "y_shape", says=("y_shape",)),
        ),
    ),
    case(
        "000 whole shader as source",
        "the text of a .mm file is right there; MLX writes the signature itself",
        kernel_program(
            """
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
            """
        ),
        flagged=(
            mark("KERNEL-SIG-001", "kernel void soft_cap_kernel("),
            mark("KERNEL-SIG-003", "#include <metal_stdlib>"),
        ),
        noted=(mark("KERNEL-SIG-004", "using namespace metal;"),),
        allowed=("KERNEL-SIG-002",),
    ),
    case(
        "000 signature with a parameter named like an attribute",
        "a whole kernel function as source, however its parameters are named",
        kernel_program(
            """
            kernel void orthogonal(
                device float* A [[buffer(0)]],
                device float* out [[buffer(1)]],
                constant uint* shape [[buffer(2)]],
                uint3 thread_position_in_grid [[thread_position_in_grid]]
            ) {
                uint m = shape[0];
                float high = 0.0f;
                for (uint i = 0; i < m; i++) { high += A[i] * A[i]; }
                out[thread_position_in_grid.x] = high;
            }
            """,
            inputs=("A", "shape"),
            outputs=("out",),
        ),
        flagged=(mark("KERNEL-SIG-001", "kernel void orthogonal("),),
        allowed=("KERNEL-SIG-002",),
    ),
    case(
        "000 limbs",
        "macros, casts of bits and local arrays are fine inside a body",
        kernel_program(
            """
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
            """,
            inputs=("data",),
            outputs=("total",),
        ),
    ),
    case(
        "001 cap left undeclared",
        "the parameter of the .metal function was left out of input_names",
        kernel_program(
            """
            int size = int(shape[0]);
            uint id = thread_position_in_grid.x;
            if (id >= size) return;
            float val = input[id];
            out[id] = cap * tanh(val / cap);
            """,
            inputs=("input", "shape"),
            outputs=("out",),
            header="#include <metal_stdlib>\nusing namespace metal;",
        ),
        flagged=(mark("KERNEL-SIG-005", "out[id] = cap", says=("cap",)),),
    ),
    case(
        "001 cap as an input",
        "the scalar is an input of one element; include and using stand in the header",
        kernel_program(
            """
            uint id = thread_position_in_grid.x;
            if (id >= shape[0]) return;
            float val = input[id];
            out[id] = cap[0] * tanh(val / cap[0]);
            """,
            inputs=("input", "shape", "cap"),
            outputs=("out",),
            header="#include <metal_stdlib>\nusing namespace metal;",
        ),
    ),
    case(
        "001 shader function as source",
        "the signature of the .metal file was kept, without attributes for its buffers",
        kernel_program(
            """
            kernel void soft_cap_kernel(device float* input, device float* output,
                                        constant float& cap_value, constant uint& size,
                                        uint id [[thread_position_in_grid]]) {
                if (id < size) output[id] = cap_value * tanh(input[id] / cap_value);
            }
            """
        ),
        flagged=(mark("KERNEL-SIG-001", "kernel void soft_cap_kernel("),),
        allowed=("KERNEL-SIG-002",),
    ),
    case(
        "002 tile in threadgroup memory",
        "template constants, barriers, simd functions and ternary guards are all Metal's",
        '''
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
        ''',
    ),
    case(
        "003 body only",
        "statements alone, with n as an input of no dimension",
        kernel_program(
            """
            uint tid = thread_position_in_grid.x;
            if (tid >= n) return;
            out[tid] = inp[tid] * 2.0f;
            """,
            inputs=("inp", "n"),
            outputs=("out",),
        ),
    ),
    case(
        "003 full signature",
        "a function definition where only its body belongs",
        kernel_program(
            """
            kernel void my_kernel(device float* out [[buffer(0)]]) {
                out[0] = 1.0f;
            }
            """
        ),
        flagged=(mark("KERNEL-SIG-001", "kernel void my_kernel("),),
        allowed=("KERNEL-SIG-002",),
    ),
    case(
        "003 source read from a file",
        "what the file holds is not known, so nothing can be said",
        """
        def build(path: str):
            source = open(path).read()
            return mx.fast.metal_kernel(
                name="mine", input_names=["x"], output_names=["y"], source=source
            )
        """,
    ),
    case(
        "004 full signature through mlx.core.fast",
        "a whole kernel function as source, under another import",
        '''
        from mlx import core as mx
        from mlx.core import fast
        kernel_source = """
        kernel void my_kernel(
            device const float* input [[buffer(0)]],
            device float* output [[buffer(1)]],
            uint gid [[thread_position_in_grid]]
        ) {
            output[gid] = input[gid] * 2.0f;
        }
        """
        kernel = fast.metal_kernel(
            name="my_kernel", input_names=["input"], output_names=["output"], source=kernel_source
        )
        ''',
        flagged=(mark("KERNEL-SIG-001", "kernel void my_kernel("),),
        allowed=("KERNEL-SIG-002",),
    ),
    case(
        "004 signature with threadgroup memory",
        "threadgroup memory is declared in the body, not taken as a parameter",
        kernel_program(
            """
            kernel void mlstm_forward(
                threadgroup float* shared_mem [[threadgroup(0)]],
                uint tid [[thread_position_in_threadgroup]]
            ) {
                shared_mem[tid] = 0.0f;
                threadgroup_barrier(mem_flags::mem_threadgroup);
            }
            """
        ),
        flagged=(mark("KERNEL-SIG-001", "kernel void mlstm_forward("),),
        allowed=("KERNEL-SIG-002",),
    ),
    case(
        "v thirty-three buffers",
        "Metal's table has 31 entries, not 64",
        kernel_program(
            "uint i = thread_position_in_grid.x;\ny[i] = "
            + "\n    + ".join(
                f"{n}[i] * {n}_shape[0] * {n}_strides[0] * {n}_ndim" for n in "abcdefgh"
            )
            + ";",
            inputs=tuple("abcdefgh"),
        ),
        flagged=(mark("KERNEL-BUFFER-001", "KERNEL = mx.fast.metal_kernel(", 'name="guided"'),),
    ),
    case(
        "v twenty-five buffers",
        "as many inputs, within the limit",
        kernel_program(
            "uint i = thread_position_in_grid.x;\ny[i] = "
            + "\n    + ".join(f"{n}[i] * {n}_shape[0] * {n}_strides[0]" for n in "abcdefgh")
            + ";",
            inputs=tuple("abcdefgh"),
        ),
    ),
)
