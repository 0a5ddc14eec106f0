"""Launches from call to arrays, compiled and run."""

from __future__ import annotations

import sys
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from embercoach.simulator import KernelFault, activate
from embercoach.simulator.reporting.compiler_errors import CompileError
from tests.simulator import evaluation
from tests.simulator.evaluation import launch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulator is tested on Linux")

DTYPES = [
    mx.bool_, mx.uint8, mx.uint16, mx.uint32, mx.uint64, mx.int8, mx.int16, mx.int32, mx.int64,
    mx.float16, mx.bfloat16, mx.float32, mx.complex64,
]  # fmt: skip
COPY = "uint i = thread_position_in_grid.x;\no[i] = a[i];"
PLACE = "uint i = thread_position_in_grid.x;\n"


@pytest.fixture(
    params=[True, pytest.param(False, marks=pytest.mark.exhaustive)], ids=["checked", "unchecked"]
)
def recorder(request):
    with activate(checks=request.param) as recorder:
        yield recorder
    assert recorder.findings == []
    assert recorder.notes == []
    assert recorder.launches
    assert all((launch.accesses > 0) == request.param for launch in recorder.launches)


def run(source, inputs, shape, dtype=mx.float32, **call):
    names = [chr(ord("a") + i) for i in range(len(inputs))]
    given, threads = dict(zip(names, inputs, strict=True)), int(np.prod(shape))
    outputs = {"o": (shape, dtype)}
    (output,) = launch(source, given, outputs, threads=threads, threadgroup=32, **call)
    assert output.shape == shape
    assert output.dtype == dtype
    return output


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [3, 40])
@pytest.mark.sampled(8)
def test_every_dtype_is_read_and_written(dtype, size, recorder):
    array = (mx.arange(size) - 2).astype(dtype)
    assert mx.array_equal(run(COPY, [array], (size,), dtype), array)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.sampled(6)
def test_scalars_of_every_dtype(dtype, recorder):
    array = mx.array(1).astype(dtype)
    assert run(f"{PLACE}o[i] = a;", [array], (4,), dtype).tolist() == [array.item()] * 4


def test_python_values_and_numpy_arrays(recorder):
    numbers = np.array([1.5, 2.5], np.float32)
    output = run(f"{PLACE}o[i] = a + b + c[i] + (d ? 1 : 0);", [2, 0.5, numbers, True], (2,))
    assert output.tolist() == [5.0, 6.0]


def test_template_and_header_and_initial_value(recorder):
    output = run(
        f"{PLACE}if (i % N == 0) o[i] = twice(T(a[i]));",
        [mx.arange(8, dtype=mx.float32)],
        (8,),
        mx.float16,
        build={"header": "template <typename T>\nT twice(T x) { return x + x; }\n"},
        template=[("T", mx.float16), ("N", 3)],
        init_value=-1,
    )
    assert output.tolist() == [0, -1, -1, 6, -1, -1, 12, -1]


@pytest.mark.parametrize(("mode", "value"), [("safe", 0), ("relaxed", 0), ("fast", 1)])
def test_math_mode_is_what_the_kernel_sees(mode, value, recorder):
    source = f"{PLACE}\n#ifdef __FAST_MATH__\no[i] = a[i];\n#else\no[i] = 0 * a[i];\n#endif"
    output = run(source, [mx.ones((4,))], (4,), build={"compile_options": {"math_mode": mode}})
    assert output.tolist() == [value] * 4


def test_a_fault_raises_where_the_kernel_is_called():
    with activate(on_finding="raise"), pytest.raises(KernelFault) as caught:
        run(f"{PLACE}o[i] = a[i + 1];", [mx.arange(40)], (40,), mx.int32)
    assert [Path(entry.path).name for entry in caught.traceback][-1] == "activation.py"
    (finding,) = caught.value.findings
    assert (finding.kind, finding.part, finding.line) == ("out-of-bounds", "body", 2)
    assert finding.thread == (39, 0, 0)
    assert finding.message == ("out-of-bounds read of `a[40]`: 40 elements")
    file, line = finding.launched_at
    assert Path(file) == Path(evaluation.__file__)
    text = Path(file).read_text(encoding="utf-8").split("\n")[line - 1]
    assert text.strip() == "return kernel("


def test_threadgroup_memory_has_an_end():
    def reversed_tile(size):
        body = f"""
            threadgroup float tile[{size}], sum[2];
            const uint i = thread_index_in_threadgroup;
            tile[i] = a[i];
            sum[i % 2] = 0.0f;
            threadgroup_barrier(mem_flags::mem_threadgroup);
            o[i] = tile[31 - i] + sum[0];
        """
        return run(body, [mx.arange(32, dtype=mx.float32)], (32,))

    with activate():
        assert reversed_tile(8190).tolist() == list(range(31, -1, -1))
        refusal = r"32,772 bytes of .* limit of 32,768 \(tile: 32,764, sum: 8\)"
        with pytest.raises(CompileError, match=refusal) as caught:
            reversed_tile(8191)
        (declaration,) = caught.value.diagnostics
        assert (declaration.part, declaration.line, declaration.column) == ("body", 2, 13)
