"""Launches in functions: judged once for each call of the function that the file makes."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes

BOUNDS = "KERNEL-BOUNDS-001"
HELPER = """
K = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"],
    source="threadgroup float s[64]; s[thread_index_in_threadgroup] = x[0]; y[0] = 1;")
L = mx.fast.metal_kernel(name="l", input_names=["x"], output_names=["y"],
    source="y[thread_position_in_grid.x] = x[thread_position_in_grid.x];")

def run(kernel, x, n, tg=128):
    return kernel(inputs=[x], grid=(n, 1, 1), threadgroup=(tg, 1, 1),
        output_shapes=[(n,)], output_dtypes=[mx.float32])[0]

def over(x, n, tg=128):
    return run(K, x, n, tg)

def plain(x, n, kernel=K, **more):
    return kernel(inputs=[x], grid=(n, 1, 1), output_shapes=[(n,)], output_dtypes=[x.dtype], **more)

def chosen(kernel, x, n, *, wide):
    if wide:
        return kernel(inputs=[x], grid=(n, 1, 1), threadgroup=(256, 1, 1),
            output_shapes=[(n,)], output_dtypes=[mx.float32])
    return kernel(inputs=[x], grid=(n, 1, 1), threadgroup=(32, 1, 1),
        output_shapes=[(n,)], output_dtypes=[mx.float32])

def rebinding(kernel, x, n, tg=128):
    tg = tg // 2 if tg > 64 else tg
    return run(kernel, x, n, tg)

class Runner:
    def run(self, kernel: object, x, tg: int = 128):
        return kernel(inputs=[x], grid=(x.size, 1, 1), threadgroup=(tg, 1, 1),
            output_shapes=[x.shape], output_dtypes=[mx.float32])[0]

GROUP = 96
def caller(x: mx.array, unknown: int):
    return {call}
"""


@pytest.mark.parametrize(
    "call",
    [
        "plain(x, 4096, threadgroup=(96, 1, 1))",
        "plain(x, 4096, **dict(threadgroup=(96, 1, 1)))",
        "chosen(K, x, 4096, wide=True)",
        "rebinding(K, x, 4096, 256)",
        "[run(K, x, 4096) for _ in range(3)]",
    ],
)
def test_one_call_is_enough(call: str) -> None:
    assert set(codes(HELPER.format(call=call), "KERNEL-BOUNDS")) == {BOUNDS}


@pytest.mark.parametrize(
    "call",
    [
        "run(K, x, 32)",
        "plain(x, 4096, L, threadgroup=(96, 1, 1))",
        "chosen(K, x, 4096, wide=False)",
        "[run(K, x, 4096, tg) for tg in unknown]",
    ],
)
def test_no_call_goes_wrong(call: str) -> None:
    # (``over`` is left out: as it stands it launches for any caller, by its default.)
    assert codes(HELPER.format(call=call), "KERNEL-BOUNDS") == []


SIZES = """
K = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"],
    source="uint i = thread_position_in_grid.x; y[i] = x[i];")

def run(x, n, tg):
    {rebound}
    return K(inputs=[x], grid=(n, 1, 1), threadgroup=(tg, 1, 1),
        output_shapes=[x.shape], output_dtypes=[x.dtype])[0]

def caller(x: mx.array, unknown: int):
    return run(x, {arguments})
"""


def test_kernels_with_inputs_of_different_numbers() -> None:
    program = """
    A = mx.fast.metal_kernel(name="a", input_names=["x"], output_names=["y"], source="y[0] = x[0];")
    B = mx.fast.metal_kernel(
        name="b", input_names=["x", "z"], output_names=["y"], source="y[0] = x[0] + z[0];")

    def run(kernel, *inputs):
        return kernel(inputs=list(inputs), grid=(1, 1, 1), threadgroup=(1, 1, 1),
            output_shapes=[(1,)], output_dtypes=[mx.float32])[0]

    def caller(x: mx.array):
        return run(A, x) + run(B, x{more})
    """
    assert codes(program.format(more=", x"), "KERNEL-ARGS") == []
    assert codes(program.format(more=""), "KERNEL-ARGS") == ["KERNEL-ARGS-001"]


def test_helpers_that_call_themselves() -> None:
    program = HELPER.format(call="again(K, x, 4096)") + (
        "def again(kernel, x, n, tg=128):\n"
        "    return again(kernel, x, n, tg) if n else run(kernel, x, n, tg)\n"
    )
    assert codes(program, "KERNEL-BOUNDS") in ([], [BOUNDS])


def test_a_file_with_very_many_calls_is_left_alone() -> None:
    many = ", ".join(f"run(K, x, 4096, {number % 7 + 58})" for number in range(200))
    assert codes(HELPER.format(call=f"[{many}]"), "KERNEL-BOUNDS") == []
