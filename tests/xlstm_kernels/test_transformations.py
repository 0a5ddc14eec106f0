"""`mx.vmap`, `mx.jvp`, `mx.compile`, `mx.checkpoint` and exports of every operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from xlstm_kernels import (
    causal_conv1d,
    causal_conv1d_update,
    exportable,

    mlstm_chunkwise,
    mlstm_sequence,
    mlstm_siging_chunkwise,
    mlstm_step,
    multi_head_layer_norm,
    multi_head_rms_norm,
    rms_norm,
    slstm,
    slstm_step,
    soft_cap,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

B, NH, S, DK, DV = 2, 2, 5, 4, 6
QKV = ((B, NH, S, DK), (B, NH, S, DK), (B, NH, S, DV))
STATES = ((B, NH, DK, DV), (B, NH, DK), (B, NH, 1))
ROWS, WIDE = (B, S, NH, DK), (B, S, NH * DK)


@dataclass(frozen=True, slots=True)
class Case:
    """An operator, called with arrays of `shapes`.

    Attributes:
        name: of the operator.
        call: takes the arrays and the backend.
        shapes: of the arrays.
    """

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


CASES = [
    Case(
        "mlstm_chunkwise",
        lambda *a, backend: mlstm_chunkwise(
            *a, return_last_states=True, chunk_size=2, backend=backend
        ),
        (*QKV, (B, NH, S), (B, NH, S), *STATES),
    ),
    Case(
        "mlstm_siging_chunkwise",
        lambda *a, backend: mlstm_siging_chunkwise(
            *a, return_last_states=True, chunk_size=2, backend=backend
        ),
        (*QKV, (B, NH, S), (B, NH, S), *STATES[:2]),
    ),
    Case(
        "mlstm_sequence",
        lambda *a, backend: mlstm_sequence(*a, return_last_states=True, backend=backend),
        (*QKV, (B, NH, S), (B, NH, S), *STATES),
    ),
    Case(
        "mlstm_step",
        mlstm_step,
        ((B, NH, DK), (B, NH, DK), (B, NH, DV), (B, NH), (B, NH), *STATES),
    ),
    Case(
        "slstm",
        slstm,
        ((B, S, 4, NH, DK), (4, NH, DK, DK), (4, NH, DK)),
    ),
    Case(
        "slstm_step",
        lambda *a, backend: slstm_step(*a, backend=backend),
        ((B, 4, NH, DK), (4, NH, DK, DK), (4, NH, DK)),
    ),
    Case(
        "causal_conv1d",
        lambda *a, backend: causal_conv1d(*a, True, "silu", backend=backend),
        ((B, S, DK), (DK, 3), (DK,), (B, 2, DK)),
    ),
    Case("causal_conv1d_update", causal_conv1d_update, ((B, DK), (B, 2, DK), (DK, 3), (DK,))),
    Case(
        "multi_head_layer_norm",
        lambda x, w, b, g, backend: multi_head_layer_norm(x, w, b, gate=g, backend=backend),
        (ROWS, (NH * DK,), (NH * DK,), WIDE),
    ),
    Case(
        "multi_head_rms_norm",
        lambda x, w, g, backend: multi_head_rms_norm(x, w, gate=g, backend=backend),
        (ROWS, (NH * DK,), WIDE),
    ),
    Case("rms_norm", rms_norm, ((B, S, DK), (DK,))),
    Case("soft_cap", lambda x, c, backend: soft_cap(x, c, backend=backend), ((B, S, DK), ())),
]
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def assert_close(found: list[mx.array], expected: list[mx.array], tolerance: float = 1e-5) -> None:
    """Each array within `tolerance` of the greatest number expected."""
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        scale = float(mx.max(mx.abs(other)).item()) or 1.0
        np.testing.assert_allclose(np.array(one), np.array(other), rtol=0, atol=tolerance * scale)


def inner(ones: list[mx.array], others: list[mx.array]) -> mx.array:
    """The sum of the products of all numbers."""
    return sum((mx.sum(a * b) for a, b in zip(ones, others, strict=True)), start=mx.array(0.0))


# --- mx.vmap -----------------------------------------------------------------------------------


@cases
@pytest.mark.parametrize("shared", ["none", "first", "all but the first"])
def test_vmap_is_a_loop(case, shared):
    """With values and gradients; arrays that are not mapped count in every round."""
    rounds, arrays = case.arrays(1, 3), case.arrays(2)
    mapped = [shared == "none" or (n == 0) == (shared != "first") for n in range(len(arrays))]
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
    numbers = tuple(range(len(given)))
    found = mx.grad(lambda *a: inner(vectorised(*a), weights), argnums=numbers)(*given)
    assert_close(found, mx.grad(lambda *a: inner(looped(*a), weights), argnums=numbers)(*given))


@cases
def test_vmap_of_gradients(case):
    """As for the gradient of each example of a batch."""
    rounds, weights = case.arrays(1, 3), case.arrays(3)
    numbers = tuple(range(len(weights)))

    def loss(*arrays: mx.array) -> mx.array:
        return sum(mx.sum(mx.sin(array)) for array in case.on("native")(*arrays))

    found = mx.vmap(mx.grad(loss, argnums=numbers))(*rounds)
    each = [mx.grad(loss, argnums=numbers)(*(a[k] for a in rounds)) for k in range(3)]
    assert_close(found, [mx.stack(parts) for parts in zip(*each, strict=True)])


@cases
def test_vmap_of_kernels_says_what_to_do(case, simulator):
    name = case.name.removesuffix("_update")
    rounds = case.arrays(1, 3)
    for place in range(len(rounds)):
        given = [r if n == place else a for n, (r, a) in enumerate(zip(rounds, case.arrays(2)))]
        axes = tuple(0 if n == place else None for n in range(len(rounds)))
        with pytest.raises(ValueError, match=f"^{name}: MLX cannot vmap kernels; pass backend='n"):
            mx.eval(mx.vmap(case.on("metal"), in_axes=axes)(*given))


# --- mx.jvp ------------------------------------------------------------------------------------


@cases
def test_jvp_is_the_transpose_of_vjp(case, device):
    """Along all arrays, and along each."""
    arrays, tangents = case.arrays(2), case.arrays(3)
    run = case.on(device)
    weights = [mx.random.normal(a.shape, key=mx.random.key(n)) for n, a in enumerate(run(*arrays))]
    _, gradients = mx.vjp(run, arrays, weights)
    values, pushed = mx.jvp(run, arrays, tangents)
    assert_close(values, run(*arrays))
    expected = [float(mx.sum(g * t).item()) for g, t in zip(gradients, tangents, strict=True)]
    scale = max(map(abs, expected))
    assert float(inner(pushed, weights).item()) == pytest.approx(sum(expected), abs=1e-5 * scale)
    for place, number in enumerate(expected):

        def along(array: mx.array, place: int = place) -> list[mx.array]:
            return run(*arrays[:place], array, *arrays[place + 1 :])

        _, pushed = mx.jvp(along, [arrays[place]], [tangents[place]])
        assert float(inner(pushed, weights).item()) == pytest.approx(number, abs=1e-5 * scale)


@cases
def test_products_with_the_hessian(case, device):
    """Forward over reverse, reverse over forward, and reverse over reverse agree."""
    arrays, tangents = case.arrays(2), case.arrays(3)
    numbers = tuple(range(len(arrays)))

    def loss(*given: mx.array) -> mx.array:
        return sum(mx.sum(mx.sin(array)) for array in case.on(device)(*given))

    gradient = mx.grad(loss, argnums=numbers)
    expected = mx.grad(lambda *a: inner(list(gradient(*a)), tangents), argnums=numbers)(*arrays)
    _, forward = mx.jvp(gradient, arrays, tangents)
    assert_close(forward, expected, 1e-4)
    pushed = mx.grad(lambda *a: mx.jvp(loss, list(a), tangents)[1][0], argnums=numbers)
    assert_close(pushed(*arrays), expected, 1e-4)


# --- mx.compile and mx.checkpoint --------------------------------------------------------------


@cases
def test_compiled_and_checkpointed_transformations(case, device):
    arrays, tangents = case.arrays(2), case.arrays(3)
    numbers = tuple(range(len(arrays)))

    def loss(*given: mx.array) -> mx.array:
        return sum(mx.sum(mx.sin(array)) for array in case.on(device)(*given))

    gradients = mx.grad(loss, argnums=numbers)(*arrays)
    assert_close(mx.grad(mx.checkpoint(loss), argnums=numbers)(*arrays), gradients)
    pushed = mx.compile(lambda *a: mx.jvp(loss, list(a), tangents)[1][0])(*arrays)
    assert_close([pushed], [inner(gradients, tangents)], 1e-4)


@cases
def test_shapeless_is_right_or_refused(case, device):
    compiled = mx.compile(case.on(device), shapeless=True)
    first = case.arrays(2)
    try:
        compiled(*first)
    except ValueError as error:
        assert "cannot infer output shapes" in str(error)
        return
    assert case.name in {}


# --- mx.export_function ------------------------------------------------------------------------


@cases
def test_export(case, tmp_path: Path):
    arrays = case.arrays(2)
    run, path = case.on("native"), str(tmp_path / "operator.mlxfn")
    with exportable():
        mx.export_function(path, run, *arrays)
    assert_close(mx.import_function(path)(*arrays), run(*arrays))
