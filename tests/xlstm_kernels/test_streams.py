"""The keyword `stream` of the operators: where it is, what it places, and what it refuses."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable
from functools import partial

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

import xlstm_kernels
from xlstm_kernels import linalg, mLSTMBackend, mLSTMBackendConfig, search, soft_cap
from xlstm_kernels.differentiation import Arrays, differentiable
from xlstm_kernels.executors import on_stream
from xlstm_kernels.kernel import Kernel, Launch

X = mx.arange(1.0, 9.0).reshape(2, 4)
MATRIX = mx.array([[4.0, 1.0], [1.0, 3.0]])
VECTOR = mx.array([1.0, 2.0])
MLSTM = (*(mx.ones((1, 2, 3, 4)),) * 3, *(mx.ones((1, 2, 3)),) * 2)
STEP = (*(mx.ones((1, 2, 4)),) * 3, *(mx.ones((1, 2)),) * 2)
STATES = (mx.ones((1, 2, 4, 4)), mx.ones((1, 2, 4)), mx.ones((1, 2, 1)))
RECURRENT = (mx.ones((4, 2, 3, 3)), mx.ones((4, 2, 3)))
HEADS = mx.arange(24.0).reshape(1, 3, 2, 4)
DOUBLE = Kernel(
    "doubled_on_a_stream",
    ("x",),
    ("y",),
    "uint i = thread_position_in_grid.x; y[i] = 2.0f * x[i];",
    lambda x: Launch.of_groups(1, x.size, x.shape),
)


def indexed(index: search.FlatIndex | search.IVFFlatIndex) -> Callable[..., object]:
    if isinstance(index, search.IVFFlatIndex):
        index.train(X)
    index.add(X)
    return index.search


def quantized() -> tuple[mx.array, ...]:
    return mx.ones((1, 64)), *mx.quantize(mx.ones((8, 64)), group_size=64, bits=4)


#: Of each operator by its qualified name, what to call and with what.
CALLS: dict[str, tuple[Callable[..., object], tuple[object, ...]]] = {
    "mLSTMBackend.__call__": (mLSTMBackend(mLSTMBackendConfig()), MLSTM),
    "FlatIndex.search": (indexed(search.FlatIndex(4)), (X, 1)),
    "truncated_svd": (partial(linalg.truncated_svd, key=mx.random.key(0)), (MATRIX, 1)),
    "InvertedIndex.search": (indexed(search.IVFFlatIndex(4, 1)), (X, 1)),
}
ARGUMENTS: dict[str, tuple[object, ...]] = {
    "causal_conv1d": (HEADS[0], mx.ones((4, 2))),
    "causal_conv1d_fn": (HEADS[0], mx.ones((2, 2))),
    "causal_conv1d_update": (X, mx.ones((2, 1, 4)), mx.ones((4, 2))),
    "complex_multiply": (MATRIX, MATRIX),
    "flashrnn": (mx.ones((1, 2, 4, 2, 3)), *RECURRENT),
    "mlstm_chunkwise": MLSTM,
    "mlstm_sequence": MLSTM,
    "mlstm_siging_chunkwise": MLSTM,
    "mlstm_step": (*STEP, *STATES),
    "multi_head_layer_norm": (HEADS,),
    "multi_head_rms_norm": (HEADS,),
    "quantized_matvec": quantized(),
    "rms_norm": (X,),
    "slstm": (mx.ones((1, 2, 4, 2, 3)), *RECURRENT),
    "slstm_step": (mx.ones((1, 4, 2, 3)), *RECURRENT),
    "soft_cap": (X, 3.0),
    "cho_solve": ((MATRIX, True), VECTOR),
    "lstsq": (MATRIX, VECTOR),
    "lu_solve": ((MATRIX, mx.array([0, 1])), VECTOR),
    "solve": (MATRIX, VECTOR),
    "solve_triangular": (MATRIX, VECTOR),
    "top_k": (X, 2),
}


def operators() -> dict[str, Callable[..., object]]:
    """The functions and methods of the public names that take a backend, by qualified name."""
    found = {}
    for module in (xlstm_kernels, linalg, search):
        for value in (getattr(module, name) for name in module.__all__):
            functions = [value]
            if inspect.isclass(value):
                members = inspect.getmembers(value, inspect.isfunction)
                functions = [
                    member
                    for name, member in members
                    if not name.startswith("_") or name == "__call__"
                ]
            for function in filter(inspect.isfunction, functions):
                if "backend" in inspect.signature(function).parameters:
                    found[function.__qualname__] = function
    return found


OPERATORS = operators()


@pytest.fixture
def foreign() -> mx.Stream:
    """A stream of a thread that has ended: MLX refuses to evaluate anything there."""
    made: list[mx.Stream] = []
    thread = threading.Thread(target=lambda: made.append(mx.new_stream(mx.cpu)))
    thread.start()
    thread.join()
    return made[0]


@pytest.mark.parametrize("name", OPERATORS)
def test_stream_is_the_last_keyword_of_each_operator(name):
    parameters = inspect.signature(OPERATORS[name]).parameters.values()
    last = [p for p in parameters if p.kind is not p.VAR_KEYWORD][-1]
    assert (last.name, last.kind, last.default) == ("stream", last.KEYWORD_ONLY, None)


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_describes_its_other_arguments_or_says_whose_they_are(name):
    text = inspect.getdoc(OPERATORS[name])
    if re.search(r"Arguments\b.* are\s+those of", text) is None:
        described = set(re.findall(r"^ +\**(\w+):", text, re.MULTILINE))
        parameters = {*inspect.signature(OPERATORS[name]).parameters}
        assert parameters - described <= {"self", "stream"}


@pytest.mark.parametrize("name", sorted({*OPERATORS} - {"Kernel.__call__"}))
def test_an_operator_runs_on_its_stream(name, foreign):
    call, arguments = CALLS.get(name) or (OPERATORS[name], ARGUMENTS.get(name, (MATRIX,)))
    default, placed = (
        [array for _, array in tree_flatten(call(*arguments, backend="native", stream=stream))]
        for stream in (None, mx.new_stream(mx.cpu))
    )
    for expected, given in zip(default, placed, strict=True):
        assert mx.array_equal(expected, given, equal_nan=True).item()
    with pytest.raises(RuntimeError, match="no Stream"):
        mx.eval(call(*arguments, backend="native", stream=foreign))


def test_a_compiled_function_keeps_the_stream(foreign):
    capped = mx.compile(lambda x: soft_cap(x, 3.0, backend="native", stream=foreign))
    with pytest.raises(RuntimeError, match="no Stream"):
        mx.eval(capped(X))


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: mx.grad(lambda x: mx.sum(f(x)))(X),
        lambda f: mx.compile(mx.grad(lambda x: mx.sum(f(x))))(X),
        lambda f: mx.jvp(f, [X], [X]),
        lambda f: mx.vmap(f)(X),
    ],
    ids=["grad", "compile", "jvp", "vmap"],
)
def test_rules_of_transformations_run_on_the_stream_of_the_values(transform):
    ran_on = []

    def values(x: mx.array) -> mx.array:
        ran_on.append(mx.default_stream(mx.cpu))
        return x + x

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        ran_on.append(mx.default_stream(mx.cpu))
        return (cotangents[0] + cotangents[0],)

    operation = on_stream(lambda x, stream: differentiable(values, gradient)(x))
    for stream in (mx.new_stream(mx.cpu), mx.new_stream(mx.cpu)):
        transform(lambda x, stream=stream: operation(x, stream=stream))
        assert len(ran_on) >= 2
        assert all(one == stream for one in ran_on)
        ran_on.clear()


def test_kernels_and_their_gradients_run_on_a_stream_of_the_gpu(simulator):
    mx.set_default_device(mx.cpu)
    gpu = mx.new_stream(mx.gpu)
    assert DOUBLE(VECTOR, stream=gpu)[0].tolist() == [2, 4]
    expected = mx.grad(lambda x: mx.sum(soft_cap(x, 3.0)))(X)
    gradient = mx.grad(lambda x: mx.sum(soft_cap(x, 3.0, backend="metal", stream=gpu)))(X)
    assert mx.allclose(gradient, expected).item()
    assert len(simulator.launches) == 3


def test_the_cpu_as_stream_runs_mlx_operations(simulator):
    assert soft_cap(VECTOR, None, stream=mx.cpu).tolist() == VECTOR.tolist()
    assert simulator.launches == []
    with pytest.raises(RuntimeError, match=r"calls run on Device\(cpu, 0\); pass stream=mx.gpu"):
        linalg.solve(MATRIX, VECTOR, backend="metal", stream=mx.cpu)
    with pytest.raises(RuntimeError, match="no executor can run kernels here"):
        DOUBLE(VECTOR, stream=mx.cpu)


def test_what_is_no_stream_is_refused_by_mlx():
    with pytest.raises(TypeError, match="Stream"):
        soft_cap(X, 3.0, stream="cpu")


def test_a_search_runs_in_each_thread():
    index = search.FlatIndex(4)
    index.add(X)
    queries = mx.broadcast_to(X[:1], (40, 4))
    expected = index.search(queries, 1, backend="native")[1].tolist()
    found = []

    def find() -> None:
        found.append(index.search(queries, 1, backend="native")[1].tolist())

    thread = threading.Thread(target=find)
    thread.start()
    thread.join()
    assert found == [expected]
