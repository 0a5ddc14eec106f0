"""`mx.vmap`, `mx.jvp`, `mx.compile`, `mx.checkpoint` and exports of every operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from tests.xlstm_kernels.test_finite_differences import CASES as DEFINED
from xlstm_kernels import (
    causal_conv1d_fn,
    executors,
    inference,
    mlstm_chunkwise,
    slstm,
    soft_cap,
)

MASK = mx.array([([True, False, True, True, False] * 5)[:21], [False, *[True] * 20]])
NUMBERS = mx.array([[0] * 2 + [1] * 19, [0] + [1] * 2 + [2] * 10 + [3] * 8])


@dataclass(frozen=True, slots=True)
class Case:
    """An operator, named first in `name`, called with arrays of `shapes` and a backend."""

    name: str
    call: Callable[..., object]
    shapes: tuple[tuple[int, ...], ...]

    def on(self, backend: str) -> Callable[..., list[mx.array]]:
        """The operator on a backend, its results in a list."""

        def run(*arrays: mx.array) -> list[mx.array]:
            return [array for _, array in tree_flatten(self.call(*arrays, backend=backend))]

        return run

    def arrays(self, seed: int, *leading: int) -> list[mx.array]:
        """Normal numbers in the shapes of the case, after more axes."""
        generator = np.random.default_rng(seed)
        return [
            mx.array(generator.standard_normal((*leading, *shape)), dtype=mx.float32)
            for shape in self.shapes
        ]


SHARED = (
    *("mlstm_chunkwise", "mlstm_siging_chunkwise", "mlstm_sequence", "mlstm_step", "slstm"),
    *("slstm_step", "lstm", "causal_conv1d", "causal_conv1d_update", "multi_head_layer_norm"),
    *("multi_head_rms_norm", "rms_norm", "soft_cap"),
)
CELL, SCALAR = DEFINED["mlstm_chunkwise"].shapes[:5], DEFINED["slstm"].shapes
CASES = [
    *(Case(name, DEFINED[name].call, DEFINED[name].shapes) for name in SHARED),
    Case("mlstm_chunkwise masked", partial(mlstm_chunkwise, mask=MASK[:1], chunk_size=8), CELL),
    Case(
        "mlstm_chunkwise packed", partial(mlstm_chunkwise, seq_idx=NUMBERS[:1], chunk_size=8), CELL
    ),
    # Exports need constants that lie in order: these slices are made in the call.
    Case(
        "slstm masked", lambda *a, backend: slstm(*a, mask=MASK[:, :6], backend=backend), SCALAR[:3]
    ),
    Case(
        "slstm packed",
        lambda *a, backend: slstm(*a, seq_idx=NUMBERS[:, :6], backend=backend),
        SCALAR,
    ),
    Case(
        "causal_conv1d_fn packed",
        lambda *a, backend: causal_conv1d_fn(*a, NUMBERS, activation="silu", backend=backend),
        ((2, 4, 21), (4, 3), (4,)),
    ),
]
WITHOUT_KERNELS = ("lstm", "rms_norm")  # rms_norm of one dtype is MLX's
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
cases_with_kernels = pytest.mark.parametrize(
    "case", [case for case in CASES if case.name not in WITHOUT_KERNELS], ids=lambda case: case.name
)


def assert_close(found: list[mx.array], expected: list[mx.array], tolerance: float = 1e-5) -> None:
    """Each array within `tolerance` of the greatest number expected."""
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        scale = float(mx.max(mx.abs(other)).item()) or 1.0
        np.testing.assert_allclose(np.array(one), np.array(other), rtol=0, atol=tolerance * scale)


def inner(ones: list[mx.array], others: list[mx.array]) -> mx.array:
    """The sum of the products of all numbers."""
    return sum((mx.sum(a * b) for a, b in zip(ones, others, strict=True)), start=mx.array(0.0))


@pytest.fixture
def in_metal_graph(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs a test where MLX records Metal kernels, without Metal: it can build graphs of them."""
    monkeypatch.setattr(executors.MetalExecutor, "unavailable", lambda self: None)

    def record(test: Callable[[], None]) -> None:
        def traced(number: mx.array) -> mx.array:
            test()
            return number

        mx.export_function(lambda record: None, traced, mx.zeros(()))

    return record


def squares(case: Case, backend: str) -> Callable[..., mx.array]:
    """A function of the arrays of a case that is not linear in the results."""
    run = case.on(backend)
    return lambda *arrays: sum(mx.sum(mx.square(array)) for array in run(*arrays))


def all_of(arrays: list[mx.array]) -> tuple[int, ...]:
    return tuple(range(len(arrays)))


# --- mx.vmap -----------------------------------------------------------------------------------


@cases
@pytest.mark.parametrize("shared", [slice(0), slice(1, None)], ids=["none", "all but the first"])
def test_vmap_is_a_loop(case, shared):
    """With values and gradients; arrays that are not mapped count in every round."""
    rounds, arrays = case.arrays(1, 3), case.arrays(2)
    mapped = [n not in all_of(arrays)[shared] for n in all_of(arrays)]
    given = [r if m else a for r, a, m in zip(rounds, arrays, mapped, strict=True)]
    vectorised = mx.vmap(case.on("native"), in_axes=tuple(0 if m else None for m in mapped))

    def looped(*given: mx.array) -> list[mx.array]:
        results = [
            case.on("native")(*(a[k] if m else a for a, m in zip(given, mapped, strict=True)))
            for k in range(3)
        ]
        return [mx.stack(parts) for parts in zip(*results, strict=True)]

    expected = looped(*given)
    assert_close(vectorised(*given), expected)
    weights = [mx.random.normal(a.shape, key=mx.random.key(n)) for n, a in enumerate(expected)]
    found, expected = (
        mx.grad(lambda *a, f=f: inner(f(*a), weights), argnums=all_of(given))(*given)
        for f in (vectorised, looped)
    )
    assert_close(found, expected)


def test_vmap_keeps_what_is_done_to_gradients(draw):
    """MLX's own rule would derive the gradient anew."""
    wx, r, b = (draw(s, mx.float32) for s in ((2, 1, 3, 4, 1, 4), (4, 1, 4, 4), (4, 1, 4)))

    def loss(wx: mx.array) -> mx.array:
        named = {"gradient_recurrent_clipval": 0.01, "backend": "native"}
        return slstm(wx, r, b, **named)[0][0].sum()

    expected = mx.stack([mx.grad(loss)(one) for one in wx])
    found = mx.grad(lambda wx: mx.vmap(loss)(wx).sum())(wx)
    assert_close([found], [expected])


@cases_with_kernels
def test_vmap_of_kernels_says_what_to_do(case, in_metal_graph):
    """Whichever array is mapped, and for gradients."""
    name, _, _ = case.name.partition(" ")
    for suffix in ("_update", "_fn", "_step"):
        name = name.removesuffix(suffix)
    refused = pytest.raises(ValueError, match=f"^{name}.*: MLX cannot vmap kernels; pass backend='")

    def refuses() -> None:
        arrays, run = case.arrays(2), case.on("metal")
        for place, stacked in enumerate(case.arrays(1, 3)):
            given = [*arrays[:place], stacked, *arrays[place + 1 :]]
            axes = tuple(0 if n == place else None for n in all_of(arrays))
            for function in (run, mx.grad(squares(case, "metal"))):
                with refused:
                    mx.vmap(function, in_axes=axes)(*given)

    in_metal_graph(refuses)


# --- mx.jvp ------------------------------------------------------------------------------------


@cases
def test_jvp_is_the_transpose_of_vjp(case, device):
    """Along all arrays, and along each."""
    arrays, tangents, run = case.arrays(2), case.arrays(3), case.on(device)
    weights = [mx.random.normal(a.shape, key=mx.random.key(n)) for n, a in enumerate(run(*arrays))]
    _, gradients = mx.vjp(run, arrays, weights)
    expected = [float(mx.sum(g * t).item()) for g, t in zip(gradients, tangents, strict=True)]
    scale = 1e-5 * max(map(abs, expected))
    values, pushed = mx.jvp(run, arrays, tangents)
    assert_close(values, run(*arrays))
    assert inner(pushed, weights).item() == pytest.approx(sum(expected), abs=scale)
    for place, number in enumerate(expected):
        along = partial(lambda at, a: run(*arrays[:at], a, *arrays[at + 1 :]), place)
        _, pushed = mx.jvp(along, [arrays[place]], [tangents[place]])
        assert inner(pushed, weights).item() == pytest.approx(number, abs=scale)


@cases
def test_jvp_asks_no_kernel(case, in_metal_graph):
    """MLX would ask a kernel inside of a custom function too."""
    loss, arrays = squares(case, "metal"), case.arrays(2)

    def pushes() -> None:
        mx.jvp(loss, arrays, case.arrays(3))
        mx.jvp(mx.grad(loss, argnums=all_of(arrays)), arrays, case.arrays(3))

    in_metal_graph(pushes)


# --- mx.compile and mx.checkpoint --------------------------------------------------------------


@pytest.mark.exhaustive
@cases
def test_compiled_gradients(case):
    arrays = case.arrays(2)
    gradient = mx.grad(squares(case, "native"), argnums=all_of(arrays))
    assert_close(list(mx.compile(gradient)(*arrays)), list(gradient(*arrays)), 1e-4)


@cases
def test_compiled_without_shapes(case):
    """Refused at the first call, not incorrect at another length, where shapes are read."""
    compiled = mx.compile(case.on("native"), shapeless=True)
    if not case.name.endswith("_norm"):
        with pytest.raises(ValueError, match="cannot infer output shapes"):
            compiled(*case.arrays(2))
        return
    for arrays in (case.arrays(2), [a[:, :3] if a.ndim > 2 else a for a in case.arrays(2)]):
        (found,), (expected,) = compiled(*arrays), case.on("native")(*arrays)
        assert found.shape == expected.shape
        if case.name == "rms_norm":
            assert_close([found], [expected])


# --- mx.export_function ------------------------------------------------------------------------


@cases
def test_exports_compute_the_same(case, tmp_path: Path):
    arrays, run, path = case.arrays(2), case.on("native"), str(tmp_path / "operator.mlxfn")
    with inference():
        mx.export_function(path, run, *arrays)
    assert_close(mx.import_function(path)(*arrays), run(*arrays))


@cases_with_kernels
def test_exports_hold_kernels(case, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(executors.MetalExecutor, "unavailable", lambda self: None)
    records: list[dict] = []
    if case.name.startswith("slstm"):
        # MLX 0.32.4 cannot write this operation. If this fails, MLX has learnt it.
        with inference(), pytest.raises(ValueError, match="state for primitive Contiguous"):
            mx.export_function(records.append, case.on("metal"), *case.arrays(2))
        return
    with inference():
        mx.export_function(records.append, case.on("metal"), *case.arrays(2))
    names = {record.get("name") for record in records}
    assert "CustomTransforms" not in names
    assert ("CustomKernel" in names) == (case.name != "rms_norm")


def test_exports_are_refused_with_gradients(tmp_path: Path):
    """If this fails, MLX has learnt it, and `inference` is not needed."""
    with pytest.raises(ValueError, match="Unable to serialize primitive CustomTransforms"):
        mx.export_function(str(tmp_path / "f"), lambda x: soft_cap(x, 1.0), mx.zeros((2,)))
    with inference():
        mx.export_function(str(tmp_path / "f"), lambda x: soft_cap(x, 1.0), mx.zeros((2,)))
    assert mx.grad(lambda x: soft_cap(x, 1.0))(mx.array(0.0)).item() == 1
