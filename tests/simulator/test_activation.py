"""What `activate` makes of MLX, with a machine that computes in NumPy in place of compiled code."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from embercoach import simulator
from embercoach.simulator import Limits, SimulatorError
from embercoach.simulator.model import BuiltKernel, LaunchResult, MemoryAccess, RawFinding
from embercoach.simulator.rewrite.translation import read_layout
from embercoach.simulator.session.activation import activate
from embercoach.simulator.session.record import KernelFault

WITHOUT_METAL = pytest.mark.skipif(mx.metal.is_available(), reason="this MLX has Metal")
BODY = "uint i = thread_position_in_grid.x;\no[i] = 2 * a[i];"
RACE = RawFinding(
    "device-race",
    MemoryAccess(5, (3, 0, 0), (0, 0, 0)),
    MemoryAccess(5, (2, 0, 0), (0, 0, 0)),
    "o",
    0,
    "both write",
    4,
)
NOTE = RawFinding("same-value-write", MemoryAccess(5, None, None), None, "o", 1, "", 1)


@dataclass
class Doubling:
    """A machine whose every kernel writes twice the first input to the first output."""

    findings: tuple[RawFinding, ...] = ()
    built: list = field(default_factory=list)
    ran: list = field(default_factory=list)

    def build(self, captured, *, checks, limits):
        self.built.append((captured, checks))
        definition = captured.definition
        lines = read_layout(captured.source, definition.body, definition.header).lines
        return BuiltKernel(definition.name, Path("none"), (), captured.source, lines, checks)

    def run(self, kernel, bound, grid, threadgroup, *, limits):
        self.ran.append((grid, threadgroup, limits))
        first = next(b for b in bound if b.role == "input")
        outputs = [b.data.copy() for b in bound if b.role == "output"]
        doubled = 2 * first.data.view(np.float32)
        outputs[0][: doubled.nbytes] = doubled.view(np.uint8)
        return LaunchResult(tuple(outputs), self.findings, 0.25, 7 if kernel.checked else 0)


def build(name="twice", body=BODY, inputs=("a",)):
    return mx.fast.metal_kernel(name=name, input_names=inputs, output_names=["o"], source=body)


def twice(x, kernel=None, **changes):
    kernel = kernel or build()
    arguments = {
        "inputs": [x],
        "grid": (x.size, 1, 1),
        "threadgroup": (64, 1, 1),
        "output_shapes": [x.shape],
        "output_dtypes": [x.dtype],
    }
    return kernel(**{**arguments, **changes})[0]


X = np.arange(8, dtype=np.float32)


def everything_patched():
    owners = (mx, mx.fast, mx.metal, mx.DeviceType)
    return {(str(o), n): getattr(o, n) for o in owners for n in dir(o) if n != "__doc__"}


# --- values --------------------------------------------------------------------------------------


def test_a_kernel_runs_and_gives_arrays():
    machine = Doubling()
    with activate(machine=machine) as recorder:
        result = build()(
            inputs=[mx.array(X).reshape(2, 4)],
            grid=(8, 1, 1),
            threadgroup=(64, 1, 1),
            output_shapes=[(2, 4)],
            output_dtypes=[mx.float32],
        )
    assert isinstance(result, list)
    assert isinstance(result[0], mx.array)
    assert result[0].tolist() == (2 * X).reshape(2, 4).tolist()
    assert machine.ran == [((8, 1, 1), (8, 1, 1), Limits())]
    (launch,) = recorder.launches
    assert (launch.kernel, launch.grid, launch.threadgroup) == ("twice", (8, 1, 1), (64, 1, 1))
    assert launch.shapes == {"a": (2, 4), "o": (2, 4)}
    assert (launch.seconds, launch.accesses, launch.findings) == (0.25, 7, ())


def test_checks_and_limits_reach_the_machine():
    machine = Doubling()
    with activate(checks=False, timeout=3.0, machine=machine) as recorder:
        twice(mx.array(X))
    assert machine.built[0][1] is False
    assert machine.ran[0][2] == Limits(seconds=3.0)
    assert recorder.launches[0].accesses == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"on_finding": "shout"}, "on_finding must be"),
        ({"timeout": 1.0, "limits": Limits()}, "not both"),
    ],
)
def test_wrong_settings(arguments, message):
    with pytest.raises(ValueError, match=message):
        activate(**arguments)


def test_kernels_are_built_with_positional_arguments_and_checked_by_mlx():
    with activate(machine=Doubling()):
        kernel = mx.fast.metal_kernel("twice", ["a"], ["o"], BODY)
        assert twice(mx.array(X), kernel).tolist() == (2 * X).tolist()
        with pytest.raises(TypeError, match="incompatible function arguments"):
            mx.fast.metal_kernel("twice", ["a"], ["o"])
        with pytest.raises(ValueError, match="Expected `inputs` to have size 1"):
            twice(mx.array(X), inputs=[])


def test_verbose_prints_what_mlx_prints(capfd):
    with activate(machine=Doubling()):
        twice(mx.array(X), verbose=True)
        twice(mx.array(X), verbose=True)
    printed = capfd.readouterr().out
    assert printed.count("Generated source code for `twice`:") == 2
    assert printed.count("[[kernel]] void custom_kernel_twice_float_float(") == 2


# --- geometry ------------------------------------------------------------------------------------


def test_a_grid_without_threads_runs_nothing():
    machine = Doubling()
    with activate(machine=machine) as recorder:
        values = twice(mx.array(X), grid=(0, 1, 1), init_value=3)
        empty = twice(mx.zeros((0,)))
        assert recorder.findings == []
        twice(mx.array(X), grid=(0, 1, 1))
    assert values.tolist() == [3.0] * 8
    assert empty.shape == (0,)
    assert machine.ran == []
    (finding,) = recorder.findings
    assert finding.kind == "unwritten-output"
    assert "the grid has no threads" in finding.details


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"threadgroup": (1025, 1, 1)}, ValueError, r"Thread group size \(1025\) is greater than"),
        ({"threadgroup": (32, 32, 2)}, ValueError, r"Thread group size \(2048\)"),
        ({"grid": (-1, 1, 1)}, SimulatorError, "can't be launched"),
        ({"threadgroup": (0, 1, 1)}, SimulatorError, "can't be launched"),
    ],
)
def test_geometry_that_metal_refuses(change, error, message):
    with activate(machine=Doubling()), pytest.raises(error, match=message):
        twice(mx.array(X), **change)


# --- findings ------------------------------------------------------------------------------------


def test_findings_are_recorded_once_for_each_line():
    with activate(machine=Doubling((RACE, NOTE))) as recorder:
        twice(mx.array(X))
        twice(mx.array(X))
    (finding,) = recorder.findings
    assert (finding.kind, finding.kernel) == ("device-race", "twice")
    assert (finding.part, finding.line, finding.thread) == ("body", 1, (3, 0, 0))
    assert finding.excerpt == "uint i = thread_position_in_grid.x;"
    assert finding.count == 8
    assert [note.kind for note in recorder.notes] == ["same-value-write"]
    assert [len(launch.findings) for launch in recorder.launches] == [1, 1]


def test_findings_raise_where_asked_for():
    with activate(on_finding="raise", machine=Doubling((RACE,))) as recorder:
        with pytest.raises(KernelFault) as caught:
            twice(mx.array(X))
        assert len(recorder.launches) == 1
    text = " ".join(str(caught.value).split())
    assert isinstance(caught.value, SimulatorError)
    assert caught.value.findings == caught.value.launch.findings
    for part in (
        "kernel 'twice' has a finding",
        "device-race (SIM-RACE-002)",
        "body line 1",
        "uint i = thread_position_in_grid.x;",
        "data race on `o[0]`: unsynchronized accesses both write",
        "other access: thread (2, 0, 0) of threadgroup (0, 0, 0), body line 1",
        "thread (3, 0, 0), 4 times, launched at",
        Path(__file__).name,
    ):
        assert part in text


# --- devices and streams -------------------------------------------------------------------------


@WITHOUT_METAL
def test_devices_answer_as_on_a_mac():
    early = mx.gpu
    with activate(machine=Doubling()):
        assert mx.metal.is_available()
        assert mx.is_available(mx.gpu)
        assert mx.is_available(mx.cpu)
        assert mx.device_count(mx.gpu) == 1
        assert mx.default_device() == mx.gpu
        assert mx.default_device() == early
        assert early == mx.default_device()
        assert not mx.default_device() != early  # noqa: SIM202
        assert mx.default_device() == mx.Device(early)
        assert mx.default_device() != mx.cpu
        assert mx.cpu != mx.default_device()
        assert mx.gpu != mx.cpu
        assert {early: 1}[mx.gpu] == {mx.gpu: 1}[early] == 1
        assert mx.default_device().type == early
        assert repr(mx.default_device()) == "Device(gpu, 0)"
        info = mx.device_info()
        assert info["architecture"].startswith("applegpu")
        assert 0 < info["max_recommended_working_set_size"] < info["memory_size"]
        assert mx.metal.device_info() == info
        assert mx.device_info(mx.cpu) != info
        with mx.stream(mx.cpu):
            assert mx.device_info() == mx.device_info(mx.cpu)
    assert mx.gpu is early
    assert mx.default_device() == mx.cpu
    assert not mx.metal.is_available()


@WITHOUT_METAL
def test_the_default_device_can_be_set_and_contexts_change_it():
    with activate(machine=Doubling()):
        mx.set_default_device(mx.cpu)
        assert mx.default_device() == mx.cpu
        with mx.stream(mx.gpu):
            assert mx.default_device() == mx.gpu
            with mx.stream(mx.cpu):
                assert mx.default_device() == mx.cpu
            assert mx.default_device() == mx.gpu
        mx.set_default_device(mx.gpu)
        assert mx.default_device() == mx.gpu
        with mx.stream(mx.new_stream(mx.cpu)):
            assert mx.default_device() == mx.cpu
        for make in (mx.new_stream, mx.new_thread_local_stream, mx.default_stream):
            with mx.stream(make(mx.default_device())):
                assert mx.default_device() == mx.gpu
                assert (mx.ones((2,)) + 1).tolist() == [2, 2]
        with pytest.raises(TypeError):
            mx.stream("gpu")
    assert mx.default_device() == mx.cpu


@WITHOUT_METAL
def test_operations_take_the_gpu_as_stream():
    with activate(machine=Doubling()):
        x = mx.array(X)
        stream = mx.new_stream(mx.gpu)
        for where in (mx.gpu, stream, mx.default_device(), mx.default_stream(mx.gpu), None):
            assert mx.add(x, x, stream=where).tolist() == (2 * X).tolist()
            assert mx.random.uniform(shape=(3,), stream=where).shape == (3,)
            assert mx.fast.rms_norm(x, x, 1e-5, stream=where).shape == (8,)
            assert twice(x, stream=where).tolist() == (2 * X).tolist()
            mx.synchronize(where)
        with mx.stream(stream):
            assert twice(x).tolist() == (2 * X).tolist()
        mx.set_default_stream(mx.default_stream(mx.gpu))


def test_kernels_refuse_the_cpu_as_on_a_mac():
    refused = pytest.raises(ValueError, match="Only supports the GPU")
    with activate(machine=Doubling()):
        with refused:
            twice(mx.array(X), stream=mx.cpu)
        with mx.stream(mx.cpu), refused:
            twice(mx.array(X))
        with pytest.raises(TypeError, match="incompatible function arguments"):
            twice(mx.array(X), stream="gpu")


# --- transformations -----------------------------------------------------------------------------


def operation(kernel):
    @mx.custom_function
    def double(x):
        return twice(x, kernel)

    @double.vjp
    def gradient(_primal, cotangent, _output):
        return twice(cotangent, kernel)

    return double


def test_gradients_of_custom_functions():
    with activate(machine=Doubling()):
        double = operation(build())
        x = mx.array(X)
        gradient = mx.grad(lambda v: (double(v) * v).sum())(x)
        assert gradient.tolist() == (4 * X).tolist()
        value, gradient = mx.value_and_grad(lambda v: double(double(v)).sum())(x)
        assert value.item() == 4 * X.sum()
        assert gradient.tolist() == [4.0] * 8
        assert mx.checkpoint(double)(x).tolist() == (2 * X).tolist()


@pytest.mark.parametrize(
    ("what", "transform"),
    [
        ("vjp", lambda f, x: mx.grad(lambda v: f(v).sum())(x)),
        ("vjp", lambda f, x: mx.vjp(f, [x], [x])),
        ("jvp", lambda f, x: mx.jvp(f, [x], [x])),
    ],
)
def test_a_bare_kernel_has_no_derivatives_as_in_mlx(what, transform):
    with activate(machine=Doubling()):
        kernel = build()
        message = rf"\[Primitive::{what}\] Not implemented for CustomKernel"
        with pytest.raises(ValueError, match=message):
            transform(lambda x: twice(x, kernel), mx.array(X))


@WITHOUT_METAL
def test_vmap_says_why_not():
    with activate(machine=Doubling()):
        kernel = build()
        with pytest.raises(SimulatorError, match="MLX has no vmap for custom kernels"):
            mx.vmap(lambda x: twice(x, kernel))(mx.array(X).reshape(2, 4))


def with_rule(forward, rule):
    operation = mx.custom_function(forward)
    operation.vmap(rule)
    return operation


@WITHOUT_METAL
def test_rule_for_vmap_launches_the_kernel():
    batch = mx.array(X).reshape(2, 4)
    with activate(machine=Doubling()) as recorder:
        kernel = build()
        inside = with_rule(lambda x: twice(x, kernel), lambda x, axis: (2 * x, axis))
        with pytest.raises(SimulatorError, match="launch it in the rule alone"):
            mx.vmap(inside)(batch)
        mapped = with_rule(lambda x: 2 * x, lambda x, axis: (twice(x, kernel), axis))
        assert mx.vmap(mapped)(batch).tolist() == (2 * X).reshape(2, 4).tolist()
    assert len(recorder.launches) == 1


def test_compiled_functions_run_uncompiled():
    calls = []

    def function(x, kernel):
        calls.append(None)
        return twice(x + 1, kernel)

    before = mx.compile(lambda x: function(x, kernel))
    with activate(machine=Doubling()):
        kernel = build()
        inside = mx.compile(lambda x: function(x, kernel))
        for compiled in (before, inside, before, inside):
            assert compiled(mx.array(X)).tolist() == (2 * (X + 1)).tolist()
        assert len(calls) == 4
        gradient = mx.compile(mx.grad(lambda x: operation(kernel)(x).sum()))
        assert gradient(mx.array(X)).tolist() == [2.0] * 8


@pytest.mark.parametrize(
    ("switch", "counts"), [(mx.enable_compile, {1, 2}), (mx.disable_compile, {4})]
)
def test_compilation_is_afterwards_as_it_was(switch, counts):
    switch()
    try:
        traces = []
        counted = mx.compile(lambda x: (traces.append(None), x + 1)[1])
        with activate(machine=Doubling()):
            pass
        for _ in range(4):
            counted(mx.array(X))
        assert len(traces) in counts
    finally:
        mx.enable_compile()


@WITHOUT_METAL
def test_compilation_switched_on_inside_says_why_not():
    with activate(machine=Doubling()):
        kernel = build()
        mx.enable_compile()
        with pytest.raises(SimulatorError, match=r"leave out mx\.enable_compile"):
            mx.compile(lambda x: twice(x, kernel))(mx.array(X))


# --- contexts ------------------------------------------------------------------------------------


def test_everything_is_as_before():
    before = everything_patched()
    with activate(machine=Doubling()):
        assert everything_patched() != before
        with activate(machine=Doubling()):
            pass
        assert mx.metal.is_available()
    with pytest.raises(ZeroDivisionError), activate(machine=Doubling()):
        _ = 1 / 0
    assert everything_patched() == before


@WITHOUT_METAL
def test_a_kernel_that_outlives_the_context_is_mlx_own():
    with activate(machine=Doubling()):
        kernel = build()
    with pytest.raises(RuntimeError, match=r"\[metal_kernel\] No Metal back-end"):
        twice(mx.array(X), kernel)
    with activate(machine=Doubling()):
        assert twice(mx.array(X), kernel).tolist() == (2 * X).tolist()


@WITHOUT_METAL
def test_a_kernel_built_before_says_so():
    kernel = build()
    with (
        pytest.raises(SimulatorError, match="built before the simulator was activated") as caught,
        activate(machine=Doubling()),
    ):
        twice(mx.array(X), kernel)
    assert "No Metal back-end" in str(caught.value.__cause__)


def test_one_activation_is_entered_again_and_again():
    activation = activate(machine=Doubling())
    with activation as first:
        twice(mx.array(X))
        with activation as second:
            twice(mx.array(X))
    with activation as third:
        pass
    assert [len(r.launches) for r in (first, second, third)] == [1, 1, 0]


def test_a_plain_call_is_in_effect_until_its_context_ends():
    before = everything_patched()
    activation = activate(machine=Doubling())
    assert twice(mx.array(X)).tolist() == (2 * X).tolist()
    with activation as recorder:
        twice(mx.array(X))
    assert recorder is activation.recorder
    assert len(recorder.launches) == 2
    assert everything_patched() == before


def test_functions_are_decorated():
    machine = Doubling()
    before = everything_patched()

    @activate(machine=machine)
    def double(values):
        """Twice the values."""
        return twice(mx.array(values)).tolist()

    @activate(machine=machine)
    async def double_later(values):
        await asyncio.sleep(0)
        return twice(mx.array(values)).tolist()

    assert double.__doc__ == "Twice the values."
    assert everything_patched() == before
    assert double(X) == double(X) == asyncio.run(double_later(X)) == (2 * X).tolist()
    assert len(machine.ran) == 3


def test_threads_record_in_their_own_contexts():
    counts, failures = {}, []
    start = threading.Barrier(4)

    def work(number):
        try:
            start.wait()
            with activate(machine=Doubling()) as recorder:
                for _ in range(number):
                    assert twice(mx.array(X)).tolist() == (2 * X).tolist()
            counts[number] = len(recorder.launches)
        except BaseException as error:  # noqa: BLE001  # a thread's failure must be seen
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 5, 10, 20)]
    before = everything_patched()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert counts == {1: 1, 5: 5, 10: 10, 20: 20}
    assert everything_patched() == before


def test_importing_the_simulator_imports_no_mlx():
    code = (
        "import sys, embercoach.simulator as s\n"
        "assert 'activate' in dir(s)\n"
        "assert not {'mlx', 'mlx.core', 'numpy'} & set(sys.modules)\n"
        "s.Limits, s.SimulatorError\n"
        "assert not {'mlx', 'mlx.core', 'numpy'} & set(sys.modules)\n"
        "s.activate\n"
        "assert 'mlx.core' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_names_of_the_package():
    with pytest.raises(AttributeError, match="no attribute 'deactivate'"):
        _ = simulator.deactivate
