"""The mLSTM and its definition against NX-AI's mlstm_kernels, in torch on a CPU.

Theirs runs in float64 on the same rounded inputs. Its parallel form lacks the m = 0 that the
recurrence begins with, so that with an eps it is another function by some 1e-7: eps is zero there.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.mlstm.comparing import Draw, wide
from tests.xlstm_kernels.mlstm.test_gradients import (
    BARS,
    FORMS,
    NAMES,
    computed_gradients,
    cotangents_of,
)
from xlstm_kernels.mlstm import registry
from xlstm_kernels.mlstm.chunkwise import mlstm_chunkwise
from xlstm_kernels.mlstm.siging import mlstm_siging_chunkwise

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.xlstm_kernels.mlstm.comparing import Inputs

pytestmark = pytest.mark.oracle
# Seven heads of 64 steps: theirs takes whole chunks only.
DRAW = Draw(1, 7, 128, 32, 48, seed=101)
OURS = {
    "chunkwise": mlstm_chunkwise,
    "chunks of 32": lambda *a, **k: mlstm_chunkwise(*a, **{**k, "chunk_size": 32}),
}


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="the oracle needs torch")


@pytest.fixture(scope="module")
def theirs(torch) -> Any:
    return pytest.importorskip("mlstm_kernels.torch", reason="the oracle is mlstm_kernels")


def doubles(torch: Any, inputs: Inputs) -> tuple[list[Any], dict[str, Any]]:
    states = (
        {} if inputs.states is None else dict(zip("cnm", map(wide, inputs.states), strict=True))
    )
    given = {f"{name}_initial": torch.tensor(state) for name, state in states.items()}
    return [torch.tensor(wide(array)) for array in inputs.sequence], given


def distance(actual: Any, expected: Any) -> float:
    actual, expected = (x if isinstance(x, np.ndarray) else x.numpy() for x in (actual, expected))
    return float(np.linalg.norm(actual - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize("initial", [False, True])
def test_the_definition_is_theirs(initial, torch, theirs):
    inputs = Draw(2, 3, 40, 16, 24, gates="capped", initial=initial, seed=5).inputs()
    arguments, given = doubles(torch, inputs)
    h, (c, n, m) = theirs.get_mlstm_sequence_kernel("native_sequence__native")(
        *arguments, **given, return_last_states=True, eps=1e-6, dtype_state=torch.float64
    )
    result = inputs.expected()
    assert distance(result.h, h) < 1e-12
    assert distance(result.c, c) < 1e-12
    assert distance(result.n, n) < 1e-12
    assert distance(result.m, m[..., 0]) < 1e-12


@pytest.mark.parametrize("form", OURS.values(), ids=list(OURS))
@pytest.mark.parametrize("initial", [False, True])
def test_chunkwise(form, initial, torch, theirs, device):
    inputs = Draw(1, 7, 128, 32, 48, initial=initial, seed=101).inputs()
    arguments, given = doubles(torch, inputs)
    h, (c, n, m) = theirs.get_mlstm_kernel("chunkwise--native_autograd")(
        *arguments, **given, return_last_states=True, chunk_size=64
    )
    ours = dict(zip(("c_initial", "n_initial", "m_initial"), inputs.states or (), strict=False))
    result, (our_c, our_n, our_m) = form(
        *inputs.sequence, **ours, return_last_states=True, backend=device
    )
    # Where the terms of the normaliser cancel, the definition judges, elsewhere.
    mild = inputs.expected().cancellation < 30
    assert mild.mean() > 0.5
    assert distance(wide(result)[mild], h.numpy()[mild]) < 2e-6
    gauge = np.exp(m.numpy() - wide(our_m))
    assert distance(wide(our_c), c.numpy() * gauge[..., None]) < 1e-6
    assert distance(wide(our_n), n.numpy() * gauge) < 1e-6


@pytest.mark.parametrize("normalize", [True, False])
def test_sigmoid_gates(normalize, torch, theirs, device):
    inputs = DRAW.inputs()
    arguments, _ = doubles(torch, inputs)
    h = theirs.get_mlstm_kernel("parallel--native_siging_autograd")(*arguments, normalize=normalize)
    ours = mlstm_siging_chunkwise(*inputs.sequence, normalize=normalize, backend=device)
    assert distance(wide(ours), h) < 2e-6


def autograd(torch: Any, theirs: Any, inputs: Inputs, cotangents: list[np.ndarray]) -> list[Any]:
    """Gradients of their step by step form in float64, in q, k, v, i, f, c, n and m."""
    arguments, given = doubles(torch, inputs)
    leaves = [*arguments, *given.values()]
    for leaf in leaves:
        leaf.requires_grad_(True)
    h, states = theirs.get_mlstm_sequence_kernel("native_sequence__native")(
        *arguments, **given, return_last_states=True, dtype_state=torch.float64, eps=inputs.eps
    )
    parts = zip((h, *states), cotangents, strict=True)
    sum((part * torch.tensor(weight)).sum() for part, weight in parts).backward()
    return [leaf.grad for leaf in leaves]


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
@pytest.mark.parametrize("eps", [1e-6, 1e-3])
def test_gradients(form, eps, torch, theirs, device):
    inputs = Draw(1, 3, 128, 16, 24, initial=True, eps=eps, seed=11).inputs()
    cotangents = cotangents_of(inputs, 3)
    found = computed_gradients(form, inputs, cotangents, device)
    expected = dict(zip(NAMES, autograd(torch, theirs, inputs, cotangents), strict=True))
    for name, gradient in found.items():
        assert distance(wide(gradient), expected[name]) < BARS[name], name


def test_without_the_normaliser_the_gradient_is_that_of_their_kernels(torch, theirs, device):
    """Their own backward, which takes the normaliser for a constant; from the zero state."""
    inputs = Draw(1, 3, 128, 16, 24, seed=13).inputs()
    weight = np.random.default_rng(5).standard_normal(inputs.v.shape)
    arguments, _ = doubles(torch, inputs)
    for leaf in arguments:
        leaf.requires_grad_(True)
    # It computes in float32 at most.
    h = theirs.get_mlstm_kernel("chunkwise--native_custbw")(*arguments, chunk_size=64)
    (h * torch.tensor(weight)).sum().backward()

    def loss(*arrays):
        h = mlstm_chunkwise(*arrays, normalizer_grad=False, backend=device)
        return (h * mx.array(weight.astype(np.float32))).sum()

    found = mx.grad(loss, argnums=tuple(range(5)))(*inputs.sequence)
    for gradient, leaf in zip(found, arguments, strict=True):
        assert distance(wide(gradient), leaf.grad) < 1e-4


def kernel_signature(function: Callable) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_every_name_of_theirs_takes_what_theirs_takes(theirs):
    """By position and by keyword; what only Triton's forms take is in test_registry."""
    for kind in ("kernel", "sequence_kernel", "step_kernel"):
        for name in getattr(theirs, f"get_available_mlstm_{kind}s")():
            wanted = kernel_signature(getattr(theirs, f"get_mlstm_{kind}")(name))
            wanted = [parameter for parameter in wanted if parameter != "kwargs"]
            assert (
                kernel_signature(getattr(registry, f"get_mlstm_{kind}")(name))[: len(wanted)]
                == wanted
            ), name
