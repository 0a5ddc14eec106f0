"""TORCH: which uses of tensors are reported, and which are not."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tests.checks.findings import pointed

START = """
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("mps" if torch.backends.mps.is_available() else "cpu")
"""
SHADER = '''
SOURCE = """
kernel void scale(device float* x, constant float& by, constant uint& n,
                  uint i [[thread_position_in_grid]]) {
    if (i < n) {
        x[i] *= by;
    }
}
"""
library = torch.mps.compile_shader(SOURCE)
x = torch.ones(64, device="mps")
'''


def found(body: str, start: str = START) -> list[tuple[str, str]]:
    return pointed(start + dedent(body), "TORCH")


def in_loop(body: str, *, before: str = "", over: str = "for x in loader:") -> list[str]:
    """The codes for a loop of a function that gets a model and a loader of batches."""
    loop = over + "\n" + indent(dedent(body).strip(), "    ")
    function = "def run(model, loader, total, log):\n" + indent(before + "\n" + loop, "    ")
    return [code for code, _ in found(function)]


@pytest.mark.parametrize(
    "body",
    [
        "total += model(x.to(device)).sum().item()",
        "total += float(F.mse_loss(model(x.to(device)), x.to(device)))",
        "y = x.to(device)\nif (y > 0).all():\n    total += 1",
        "y = x.cuda()\nlog.append(y.mean().tolist())",
        "y = torch.zeros_like(x.to('mps:0'))\ntotal += int(y.max())",
    ],
)
def test_a_read_in_a_loop_is_reported(body: str) -> None:
    assert in_loop(body) == ["TORCH-SYNC-001"]


@pytest.mark.parametrize(
    "body",
    [
        "total += x.to('cpu').sum().item()",
        "y = x.to(device)\ntotal += y.shape[0] + y.numel() + y.dim()",
        "y = x.to(device)\nif y is not None and y.requires_grad:\n    total += 1",
        "y = x.to(device)\nif device.type != 'mps':\n    total += y.sum().item()",
        "y = x.to(device)\ntotal += y.sum().item() if device.type == 'cpu' else 0",
        "y = x.to(torch.float16)\ntotal += y.sum().item()",
    ],
)
def test_a_tensor_of_the_host_is_not(body: str) -> None:
    assert in_loop(body) == []


def test_a_read_in_a_function_is_reported_if_a_loop_calls_it() -> None:
    program = """
    def step(x):
        return x.to(device).sum().item()

    def run(loader):
        return [step(x) for x in loader]

    def once(x):
        return x.to(device).sum().item()
    """
    assert found(program) == [("TORCH-SYNC-001", "x.to(device).sum().item()")]


def test_device_and_tensors_are_followed_through_calls_and_modules() -> None:
    program = """
    def best():
        if torch.backends.mps.is_available():
            return torch.device("mps")
        return torch.device("cpu")

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x)

    def run(loader):
        model = Net().to(best()).eval()
        for x in loader:
            values = model(x.to(best())).tolist()
    """
    assert [code for code, _ in found(program)] == ["TORCH-SYNC-001"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("torch.from_numpy(np.exp(y.cpu().numpy())).to(device)", "TORCH-COPY-001"),
        ("torch.tensor(y.cpu().numpy() * 2, device=device)", "TORCH-COPY-001"),
        ("y.cpu().clamp(0, 1).to(device)", "TORCH-COPY-001"),
        ("torch.exp(y.to('cpu')).to(y.device)", "TORCH-COPY-001"),
        ("y.to('cpu').clone().to(y.device)", None),
        ("y.cpu().sort().values.to(device)", None),
        ("y.numpy()", "TORCH-NUMPY-001"),
        ("np.asarray(y.detach())", "TORCH-NUMPY-001"),
        ("y.double()", "TORCH-DTYPE-001"),
        ("y.to(torch.float64)", "TORCH-DTYPE-001"),
        ("torch.from_numpy(np.zeros((3, 3))).to(device)", "TORCH-DTYPE-001"),
        ("torch.as_tensor(np.random.rand(3), device=device)", "TORCH-DTYPE-001"),
        ("torch.from_numpy(np.zeros(3)).to(device, dtype=torch.float32)", None),
        ("y.to(torch.float64) if device.type != 'mps' else y", None),
    ],
)
def test_an_expression(line: str, code: str | None) -> None:
    program = f"def run(x: torch.Tensor):\n    y = x.to(device)\n    return {line}\n"
    assert [found_code for found_code, _ in found(program)] == ([] if code is None else [code])


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("library.scale(x, 2, 64)", ("TORCH-KERNEL-003", "2")),
        ("library.scale(x, 2.0, 0.5)", ("TORCH-KERNEL-003", "0.5")),
        ("library.scale(x, 2, 64, arg_casts='fp16')", None),
        ("library.scale(x, 2.0)", ("TORCH-KERNEL-002", "library.scale(x, 2.0)")),
        ("library.scale(x, 2.0, 64, x)", ("TORCH-KERNEL-002", "x")),
        ("library.scales(x)", ("TORCH-KERNEL-001", "library.scales")),
        ("kernel = library.scale; kernel(x)", ("TORCH-KERNEL-002", "kernel(x)")),
    ],
)
def test_a_launch(call: str, expected: tuple[str, str] | None) -> None:
    assert found(SHADER + call + "\n", START) == ([] if expected is None else [expected])


def test_a_shader_is_followed_with_the_group_size_of_its_launches() -> None:
    text = """
    kernel void turn(device float* y, constant float* x,
                     uint i [[thread_position_in_threadgroup]]) {
        threadgroup float shared[SIZE];
        shared[i] = x[i];
        y[i] = shared[SIZE - 1 - i];
    }
    """
    for size, expected in ((32, []), (256, ["KERNEL-RACE-001"])):
        source = f'library = torch.mps.compile_shader("""{text.replace("SIZE", str(size))}""")\n'
        launch = f"x = torch.ones(256, device='mps')\nlibrary.turn(x, x, group_size={size})\n"
        codes = [code for code, _ in pointed(START + source + launch, ("KERNEL", "TORCH"))]
        assert codes == expected
