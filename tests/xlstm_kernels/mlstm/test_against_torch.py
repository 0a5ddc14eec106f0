"""The mLSTM and its definition against NX-AI's mlstm_kernels, in torch on a CPU.

Theirs runs in float64 on the same rounded inputs. Its parallel form lacks the m = 0 that the
recurrence begins with, so that with an eps it is another function by some 1e-7: eps is zero there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.xlstm_kernels.mlstm.comparing import Draw, Inputs, wide
from tests.xlstm_kernels.mlstm.conftest import FORMS
from tests.xlstm_kernels.mlstm.test_gradients import (
    BARS,
    NAMES,
    computed_gradients,
    cotangents_of,
)
from xlstm_kernels.mlstm.chunkwise import mlstm_chunkwise
from xlstm_kernels.mlstm.siging import mlstm_siging_chunkwise

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
