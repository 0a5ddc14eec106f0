"""Launches of the guides: how a kernel is built, and how its grid is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.guides.case import Case, case, mark

COPY = """\
import mlx.core as mx
COPY = mx.fast.metal_kernel(
    name="copy", input_names=["x"], output_names=["y"],
    source="uint i = thread_position_in_grid.x; if (i < x_shape[0]) y[i] = x[i];",
)
"""


def launch_case(name: str, reason: str, **more: Any) -> Callable[[str], Case]:
    """Make a case of a function that launches a kernel that copies."""
    return case(name, reason, form=lambda function: COPY + function, **more)


CASES = (
    launch_case(
        "000 call by position, without outputs",
        "a kernel takes keywords only, and needs the shapes and dtypes of its outputs",
        flagged=mark("KERNEL-ARGS-003", "COPY([x], grid="),
    )("""
        def debug(x: mx.array) -> mx.array:
            mx.set_default_device(mx.gpu)
            output = COPY([x], grid=(1024, 1, 1), threadgroup=(32, 1, 1))
            mx.eval(output)
            return output
    """),
    case(
        "000 inputs passed as they are",
        "arrays and constants go into inputs without a copy by hand",
    )("""
        SCALE = mx.fast.metal_kernel(
            name="scale", input_names=["x", "cap"], output_names=["y"],
            source="uint i = thread_position_in_grid.x; y[i] = x[i] * cap[0];",
        )
        def scaled(x: mx.array) -> mx.array:
            cap_array = mx.array([30.0])
            return SCALE(
                inputs=[x, cap_array], grid=(x.size, 1, 1), threadgroup=(256, 1, 1),
                output_shapes=[x.shape], output_dtypes=[x.dtype],
            )[0]
    """),
    case(
        "002 build once, reuse",
        "a kernel at module level, its grid rounded up to whole groups in threads",
    )('''
        kernel = mx.fast.metal_kernel(
            name="my_kernel", input_names=["A", "shape"], output_names=["out"],
            header="#include <metal_stdlib>\\nusing namespace metal;\\n",
            source="""
                uint tid = thread_position_in_grid.x;
                uint m = (uint)shape[0];
                if (tid >= m) return;
                out[tid] = A[tid] + 1.0f;
            """,
            ensure_row_contiguous=True,
        )
        def ceil_mul(m: int, t: int) -> int:
            return (m + t - 1) // t * t
        def add_one(x: mx.array) -> mx.array:
            m = x.shape[0]
            (y,) = kernel(
                inputs=[x, mx.array([m], dtype=mx.uint32)],
                output_shapes=[(m,)], output_dtypes=[x.dtype],
                grid=(ceil_mul(m, 256), 1, 1), threadgroup=(256, 1, 1),
            )
            return y
    '''),
    case(
        "002 built at every call",
        "a kernel that is built and launched by the same function",
        flagged=mark("KERNEL-CACHE-001", "ker = mx.fast.metal_kernel("),
    )('''
        def exp_elementwise(a: mx.array) -> mx.array:
            ker = mx.fast.metal_kernel(
                name="exp1d", input_names=["a", "shape"], output_names=["out"],
                source="""
                    uint tid = thread_position_in_grid.x;
                    uint n = (uint)shape[0];
                    if (tid >= n) return;
                    out[tid] = exp(a[tid]);
                """,
            )
            n = int(a.size)
            shape = mx.array([n], dtype=mx.uint32)
            (y,) = ker(
                inputs=[a, shape], output_shapes=[a.shape], output_dtypes=[a.dtype],
                grid=((n + 255) // 256 * 256, 1, 1), threadgroup=(256, 1, 1),
            )
            return y
    '''),
    case(
        "003 built on first use, ones as arrays",
        "the lazy form is fine, arrays in grid and threadgroup are not",
        flagged=(
            mark("HOST-PULL-010", "grid=(x.size, mx.array(1"),
            mark("HOST-PULL-010", "threadgroup=(256, 1, mx.array(1"),
        ),
    )("""
        _KERNEL = None
        def my_operation(x: mx.array) -> mx.array:
            global _KERNEL
            if _KERNEL is None:
                _KERNEL = mx.fast.metal_kernel(
                    name="my_kernel", input_names=["x"], output_names=["y"],
                    source="uint i = thread_position_in_grid.x; y[i] = x[i];",
                )
            (result,) = _KERNEL(
                inputs=[x], output_shapes=[x.shape], output_dtypes=[mx.float32],
                grid=(x.size, mx.array(1, dtype=mx.uint32), 1),
                threadgroup=(256, 1, mx.array(1, dtype=mx.int32)),
            )
            return result
    """),
    launch_case(
        "003 grid counted in threadgroups",
        "Python integers are right, but MLX counts threads",
        flagged=mark("KERNEL-GRID-001", "grid = ((total + tpg", "grid=grid"),
    )("""
        def copied(x: mx.array) -> mx.array:
            tpg = 256
            total = x.size
            grid = ((total + tpg - 1) // tpg, 1, 1)
            return COPY(
                inputs=[x], grid=grid, threadgroup=(tpg, 1, 1),
                output_shapes=[x.shape], output_dtypes=[x.dtype],
            )[0]
    """),
    launch_case(
        "v num_groups as grid",
        "the same under the name that gives it away",
        flagged=mark("KERNEL-GRID-001", "num_groups = ", "grid=(num_groups"),
    )("""
        def copied(x: mx.array) -> mx.array:
            num_groups = (x.size + 255) // 256
            return COPY(
                inputs=[x], grid=(num_groups, 1, 1), threadgroup=(256, 1, 1),
                output_shapes=[x.shape], output_dtypes=[x.dtype],
            )[0]
    """),
    launch_case("v num_groups times threads", "whole groups, in threads")("""
        def copied(x: mx.array) -> mx.array:
            num_groups = (x.size + 255) // 256
            return COPY(
                inputs=[x], grid=(num_groups * 256, 1, 1), threadgroup=(256, 1, 1),
                output_shapes=[x.shape], output_dtypes=[x.dtype],
            )[0]
    """),
    launch_case(
        "v grid as Python integers",
        "no buffer connection is lost: these are the integers that the signature asks for",
    )("""
        def copied(x: mx.array) -> mx.array:
            rows, columns = x.shape
            return COPY(
                inputs=[x], grid=(columns, rows, 1), threadgroup=(min(columns, 32), 8, 1),
                output_shapes=[x.shape], output_dtypes=[x.dtype],
            )[0]
    """),
    launch_case(
        "003 grid from mx.divide",
        "dividing integers gives float32, which the grid does not take",
        flagged=mark("KERNEL-GRID-002", "grid = (num_groups", "grid=grid"),
        allowed="HOST-PULL-010 KERNEL-GRID-001",
    )("""
        def copied(x: mx.array) -> mx.array:
            tpg = mx.array(256, dtype=mx.uint32)
            one = mx.array(1, dtype=mx.uint32)
            total_mx = mx.array(x.size, dtype=mx.uint32)
            num_groups = mx.divide(mx.add(total_mx, mx.subtract(tpg, one)), tpg)
            grid = (num_groups, one, one)
            threadgroup = (tpg, one, one)
            return COPY(
                inputs=[x], grid=grid, threadgroup=threadgroup,
                output_shapes=[x.shape], output_dtypes=[x.dtype],
            )[0]
    """),
    launch_case(
        "003 grid of integer arrays",
        "integer arrays are taken, after they were evaluated",
        flagged=mark("HOST-PULL-010", "grid=(total"),
    )("""
        def copied(x: mx.array) -> mx.array:
            one = mx.array(1, dtype=mx.uint32)
            total = mx.multiply(mx.array(x.shape[0]), mx.array(x.shape[1]))
            return COPY(
                inputs=[x], grid=(total, one, one), threadgroup=(256, 1, 1),
                output_shapes=[x.shape], output_dtypes=[x.dtype],
            )[0]
    """),
    case(
        "003 depthwise convolution",
        "body and kernel are right; the grid raises TypeError",
        flagged=mark("KERNEL-GRID-002", "grid=(num_groups"),
        allowed="KERNEL-GRID-001",
    )('''
        _DEPTHWISE = None
        _SOURCE = r"""
            uint B = params[0]; uint C = params[1]; uint L = params[2];
            uint tid = thread_position_in_grid.x;
            if (tid >= B * C * L) return;
            uint b = tid / (C * L);
            uint rem = tid % (C * L);
            uint c = rem / L;
            uint t = rem % L;
            float v0 = (t >= 1) ? x[b * C * L + c * L + (t - 1)] : 0.0f;
            float v1 = x[b * C * L + c * L + t];
            float acc = v0 * k[c * 3 + 0];
            acc = fma(v1, k[c * 3 + 1], acc);
            y[tid] = acc;
        """
        def depthwise(x: mx.array, kernel: mx.array) -> mx.array:
            global _DEPTHWISE
            batch, channels, length = x.shape
            x = x.astype(mx.float32)
            kernel = kernel.astype(mx.float32)
            if _DEPTHWISE is None:
                _DEPTHWISE = mx.fast.metal_kernel(
                    name="depthwise3", input_names=["params", "x", "k"], output_names=["y"],
                    header="#include <metal_stdlib>\\nusing namespace metal;\\n", source=_SOURCE,
                )
            params = mx.array([batch, channels, length], dtype=mx.uint32)
            total = mx.multiply(mx.array(batch), mx.array(channels * length))
            tpg = mx.array(256, dtype=mx.uint32)
            num_groups = mx.divide(mx.add(total, tpg), tpg)
            (y,) = _DEPTHWISE(
                inputs=[params, x, kernel], output_shapes=[(batch, channels, length)],
                output_dtypes=[mx.float32], grid=(num_groups, 1, 1),
                threadgroup=(256, 1, 1),
            )
            return y
    '''),
    launch_case(
        "004 call without outputs",
        "output_shapes and output_dtypes are left out; the grid itself is in threads",
        flagged=mark("KERNEL-ARGS-003", "output = COPY(", "grid=grid_size"),
    )("""
        def forward(input_array: mx.array) -> mx.array:
            batch_size, seq_len = input_array.shape
            grid_size = (batch_size, seq_len, 1)
            threadgroup_size = (32, 1, 1)
            output = COPY(
                inputs=[input_array], grid=grid_size, threadgroup=threadgroup_size
            )
            return output
    """),
)
