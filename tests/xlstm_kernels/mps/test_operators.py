"""Operators for PyTorch: values and gradients, by definitions in float64 and torch's autograd.

Texts run in the simulator on tensors of the CPU, and on a Mac on the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tests.xlstm_kernels.mps.shaders import Shaders

torch: Any = pytest.importorskip("torch", reason="xlstm_kernels.mps needs PyTorch")

# After the line that skips the module without PyTorch.
from torch.nn import functional  # noqa: E402

from xlstm_kernels import mps  # noqa: E402
from xlstm_kernels.mps import launching  # noqa: E402

ON_DEVICES = [
    pytest.param("cpu", marks=pytest.mark.oracle, id="simulated"),
    pytest.param("mps", marks=pytest.mark.metal),
]
TOLERANCES = {torch.float32: 3e-6, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}


@pytest.fixture(params=ON_DEVICES)
def device(request, monkeypatch) -> Iterator[str]:
    """A device whose kernels run, and in which nothing is found."""
    if request.param == "mps":
        if not torch.backends.mps.is_available():
            pytest.skip("PyTorch has no MPS here")
        yield "mps"
        return
    shaders = Shaders()
    monkeypatch.setattr(launching, "DEVICE", "cpu")
    monkeypatch.setattr(torch.mps, "compile_shader", shaders.compile_shader)
    launching.library.cache_clear()
    yield "cpu"
    launching.library.cache_clear()
    assert shaders.launched
    assert shaders.findings == []


# --- definitions -------------------------------------------------------------------------------


def soft_cap(x, cap):
    return cap * torch.tanh(x / cap)


def rms_norm(x, weight):
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) * weight


def head_norm(x, weight, bias, gate, *, centred):
    x = x - x.mean(dim=-1, keepdim=True) if centred else x
    normal = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6)
    return (normal.flatten(2) * weight + bias) * torch.sigmoid(gate)


def causal_conv1d(x, weight, bias, states):
    rows, taps = torch.cat((states, x), dim=1), weight.shape[1]
    seen = [rows[:, tap : tap + x.shape[1]] * weight[:, tap] for tap in range(taps)]
    return functional.silu(sum(seen) + bias), rows[:, x.shape[1] :]


def packed_conv1d(x, weight, *, seq_idx):
    taps = weight.shape[1]
    rows = functional.pad(x, (0, 0, taps - 1, 0))
    numbers = functional.pad(seq_idx, (taps - 1, 0), value=-1)
    y = torch.zeros_like(x)
    for tap in range(taps):
        own = numbers[:, tap : tap + x.shape[1]] == seq_idx
        y = y + rows[:, tap : tap + x.shape[1]] * weight[:, tap] * own[..., None]
    return y


def slstm(gate_input, recurrent, bias, states, *, mask):
    y, c, n, m = states
    after_each = []
    for step in range(gate_input.shape[1]):
        open_gates = gate_input[:, step] + torch.einsum("gnoi,bni->bgno", recurrent, y) + bias
        i, f, z, o = open_gates.unbind(1)
        decayed = functional.logsigmoid(f) + m
        m_new = torch.maximum(i, decayed)
        admit, forget = torch.exp(i - m_new), torch.exp(decayed - m_new)
        c_new, n_new = forget * c + admit * torch.tanh(z), forget * n + admit
        y_new = torch.sigmoid(o) * c_new / n_new
        live = mask[:, step, None, None]
        pairs = ((y_new, y), (c_new, c), (n_new, n), (m_new, m))
        y, c, n, m = (torch.where(live, new, old) for new, old in pairs)
        after_each.append(torch.stack((y * live, c, n, m)))
    return torch.stack(after_each, dim=2), torch.stack((y, c, n, m)).unsqueeze(2)


def mlstm(q, k, v, i, f, c, n, m, *, mask=None, through_normalizer=True):
    constant = (lambda x: x) if through_normalizer else torch.detach
    mask = torch.ones(q.shape[0], q.shape[2], dtype=torch.bool) if mask is None else mask
    read = []
    for step in range(q.shape[2]):
        query, key, value = q[:, :, step] * q.shape[-1] ** -0.5, k[:, :, step], v[:, :, step]
        decayed = functional.logsigmoid(f[:, :, step, None]) + m
        m_new = constant(torch.maximum(decayed, i[:, :, step, None]))
        forget, admit = torch.exp(decayed - m_new), torch.exp(i[:, :, step, None] - m_new)
        c_new = forget[..., None] * c + (admit * key)[..., None] * value[..., None, :]
        n_new = forget * n + admit * key
        bound = torch.maximum((query * n_new).sum(-1, keepdim=True).abs(), torch.exp(-m_new))
        h = (query[..., None] * c_new).sum(-2) / (constant(bound) + 1e-6)
        live = mask[:, step, None, None]
        pairs = ((n_new, n), (m_new, m))
        n, m = (torch.where(live, new, old) for new, old in pairs)
        c = torch.where(live[..., None], c_new, c)
        read.append(h * live)
    return torch.stack(read, dim=2), c, n, m


def mlstm_step(*arrays):
    h, *states = mlstm(*(array.unsqueeze(2) for array in arrays[:5]), *arrays[5:])
    return h.squeeze(2), *states


# --- cases -------------------------------------------------------------------------------------


class Case(NamedTuple):
    """An operator, its definition, the shapes of its arguments, and how many are of one dtype."""

    operator: Callable
    definition: Callable
    shapes: tuple[tuple[int, ...], ...]
    halves: int | None = None


def states_after(operator: Callable, **settings: Any) -> Callable:
    def flat(*arrays):
        h, states = operator(*arrays, **settings)
        return h, *states

    return flat


def head_norm_case(operator: Callable, *, centred: bool) -> Case:
    """Heads of a transposed array, which is read as it lies."""

    def transposed(x, weight, bias, gate):
        return operator(x.transpose(1, 2), weight, bias=bias, gate=gate)

    def definition(x, *extras):
        return head_norm(x.transpose(1, 2), *extras, centred=centred)

    return Case(transposed, definition, ((2, 3, 4, 40), (120,), (120,), (2, 4, 120)))


MASK = [[True, False, True, True, False], [False, True, True, False, True]]
SEQ_IDX = [[0, 0, 0, 1, 1, 2, 2, 2, 2], [5, 5, 5, 5, 5, 5, 3, 3, 3]]
HEADS, STATES = (1, 2), ((1, 2, 8, 12), (1, 2, 8), (1, 2, 1))


def masked_slstm(*arrays):
    return mps.slstm(*arrays, mask=torch.tensor(MASK, device=arrays[0].device))


def masked_slstm_definition(gate_input, recurrent, bias, states):
    mask = torch.tensor(MASK, device=gate_input.device)
    # n is positive, as after a step that let something in.
    return slstm(gate_input, recurrent, bias, states, mask=mask)


def masked_mlstm_sequence(*arrays):
    """Masked steps hold NaN, and the initial m has no last axis."""
    mask = torch.tensor(MASK, device=arrays[0].device)
    hole = torch.where(mask, 0.0, torch.nan)[:, None].to(arrays[0].dtype)
    rows = (array + hole[..., None] for array in arrays[:3])
    gates = (array + hole for array in arrays[3:5])
    states = (*arrays[5:7], arrays[7].squeeze(2))
    h, states = mps.mlstm_sequence(*rows, *gates, *states, True, mask=mask)
    return h, *states


def masked_mlstm(*arrays):
    return mlstm(*arrays, mask=torch.tensor(MASK))


def mlstm_with_constant_normalizer(*arrays):
    return mlstm(*arrays, through_normalizer=False)[:3]


def sequence_with_constant_normalizer(*arrays):
    h, states = mps.mlstm_sequence(*arrays, True, normalizer_grad=False)
    return h, *states[:2]


def sequence_shapes(steps: int, batch: int = 1) -> tuple[tuple[int, ...], ...]:
    """Of q, k, v, i, f and the states, with odd sizes."""
    heads, keys, values = (batch, 2), 9, 7
    gates = (*heads, steps)
    inputs = ((*gates, keys), (*gates, keys), (*gates, values), gates, gates)
    return (*inputs, (*heads, keys, values), (*heads, keys), (*heads, 1))


def packed(x, weight):
    return mps.causal_conv1d(x, weight, seq_idx=torch.tensor(SEQ_IDX, device=x.device))


def packed_definition(x, weight):
    return packed_conv1d(x, weight, seq_idx=torch.tensor(SEQ_IDX, device=x.device))


CASES = {
    "soft_cap": Case(mps.soft_cap, soft_cap, ((3, 5), ()), 1),
    "soft_cap of a number": Case(lambda x: mps.soft_cap(x, 2.0), lambda x: soft_cap(x, 2.0), ((),)),
    "rms_norm": Case(mps.rms_norm, rms_norm, ((2, 3, 40), (40,))),
    "multi_head_layer_norm": head_norm_case(mps.multi_head_layer_norm, centred=True),
    "multi_head_rms_norm": head_norm_case(mps.multi_head_rms_norm, centred=False),
    "causal_conv1d": Case(
        lambda *arrays: mps.causal_conv1d(*arrays, True, "silu"),
        causal_conv1d,
        ((2, 9, 12), (12, 4), (12,), (2, 3, 12)),
    ),
    "causal_conv1d of packed sequences": Case(packed, packed_definition, ((2, 9, 12), (12, 4))),
    "slstm": Case(
        masked_slstm,
        masked_slstm_definition,
        ((2, 5, 4, 2, 6), (4, 2, 6, 6), (4, 2, 6), (4, 2, 2, 6)),
    ),
    "mlstm_chunkwise": Case(
        states_after(mps.mlstm_chunkwise, return_last_states=True, chunk_size=4),
        mlstm,
        ((*HEADS, 11, 8), (*HEADS, 11, 8), (*HEADS, 11, 12), (*HEADS, 11), (*HEADS, 11), *STATES),
        5,
    ),
    "mlstm_sequence": Case(
        states_after(mps.mlstm_sequence, return_last_states=True), mlstm, sequence_shapes(35), 5
    ),
    "mlstm_sequence of masked steps": Case(
        masked_mlstm_sequence, masked_mlstm, sequence_shapes(5, batch=2), 5
    ),
    "mlstm_sequence with a constant normaliser": Case(
        sequence_with_constant_normalizer, mlstm_with_constant_normalizer, sequence_shapes(5), 5
    ),
    "mlstm_step": Case(
        states_after(mps.mlstm_step),
        mlstm_step,
        ((*HEADS, 8), (*HEADS, 8), (*HEADS, 12), HEADS, HEADS, *STATES),
        5,
    ),
}


def drawn(case: Case, dtype: Any) -> list[Any]:
    """Arguments of a case: positive numbers where a cap, an n or a state must be."""
    generator = torch.Generator().manual_seed(7)
    arrays = [torch.randn(shape, generator=generator) for shape in case.shapes]
    if case.definition in (soft_cap, masked_slstm_definition):
        arrays[-1] = arrays[-1].abs() + 0.5
    halves = len(arrays) if case.halves is None else case.halves
    return [a.to(dtype) if place < halves else a for place, a in enumerate(arrays)]


def as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def relative_error(found: Any, expected: Any) -> float:
    distance = (found.detach().cpu().double() - expected).norm()
    return float(distance / expected.norm().clamp_min(1e-30))


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name, dtype, device) -> None:
    case = CASES[name]
    arrays = drawn(case, dtype)
    given = [array.to(device).requires_grad_() for array in arrays]
    exact = [array.double().requires_grad_() for array in arrays]
    results, expected = as_tuple(case.operator(*given)), as_tuple(case.definition(*exact))
    assert [r.shape for r in results] == [e.shape for e in expected]
    generator = torch.Generator().manual_seed(8)
    cotangents = [torch.randn(e.shape, generator=generator) for e in expected]
    typed = [c.to(r.dtype) for c, r in zip(cotangents, results, strict=True)]
    gradients = torch.autograd.grad(results, given, [c.to(device) for c in typed])
    exact_gradients = torch.autograd.grad(expected, exact, [c.double() for c in typed])
    assert [g.dtype for g in gradients] == [a.dtype for a in arrays]
    pairs = zip((*results, *gradients), (*expected, *exact_gradients), strict=True)
    errors = [relative_error(found, e.detach()) for found, e in pairs]
    # `max` would ignore a NaN that is not the first.
    assert all(error < TOLERANCES[dtype] for error in errors), errors


@pytest.mark.parametrize("device", ON_DEVICES, indirect=True)
def test_second_derivatives_are_refused(device) -> None:
    x = torch.ones(4, device=device, requires_grad=True)
    loss = mps.soft_cap(x, 2.0).sum()
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    # The penalty must not count for nothing.
    with pytest.raises(RuntimeError, match="gradients of the first order"):
        (loss + gradient.square().sum()).backward()


@pytest.mark.oracle
@pytest.mark.parametrize("name", CASES)
def test_a_tensor_on_another_device_is_an_error(name) -> None:
    case = CASES[name]
    with pytest.raises(ValueError, match="on the device 'mps', got 'cpu'; there is no path"):
        case.operator(*drawn(case, torch.float32))


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: mps.soft_cap(x.double(), 1.0), "values must be a tensor of float32, float16 or"),
        (lambda x: mps.soft_cap(x, x), "have no dimension"),
        (lambda x: mps.soft_cap(x, -1.0), "cap_value must be positive"),
        (lambda x: mps.rms_norm(x, x), r"weight must have shape \(4,\), \(D,\)"),
        (lambda x: mps.rms_norm(x, eps=-1.0), "eps must not be negative"),
        (mps.multi_head_layer_norm, r"x must be \(B, S, NH, DH\)"),
        (lambda x: mps.causal_conv1d(x, x), r"x must be \(B, S, C\)"),
        (lambda x: mps.slstm(x, x, x), r"Wx must be \(B, T, 4, N, D\)"),
        (lambda x: mps.mlstm_chunkwise(*(x,) * 5), r"q must be \(B, NH, S, DK\)"),
        (lambda x: mps.mlstm_sequence(*(x,) * 5), r"q must be \(B, NH, S, DK\)"),
        (lambda x: mps.mlstm_step(*(x,) * 8), r"q must be \(B, NH, DK\)"),
    ],
)
def test_arguments_that_do_not_fit(call, message, monkeypatch) -> None:
    monkeypatch.setattr(launching, "DEVICE", "cpu")
    with pytest.raises((TypeError, ValueError), match=message):
        call(torch.ones(3, 4))
