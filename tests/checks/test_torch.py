"""TORCH: which uses of tensors are reported, and which are not."""

from __future__ import annotations

from textwrap import dedent

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
            values = model(x.to(best())).numpy()
    """
    assert [code for code, _ in found(program)] == ["TORCH-NUMPY-001"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("y.numpy()", "TORCH-NUMPY-001"),
        ("np.asarray(y.detach())", "TORCH-NUMPY-001"),
        ("y.double()", "TORCH-DTYPE-001"),
        ("y.to(torch.float64)", "TORCH-DTYPE-001"),
        ("torch.from_numpy(np.zeros((3, 3))).to(device)", "TORCH-DTYPE-001"),
        ("torch.as_tensor(np.random.rand(3), device=device)", "TORCH-DTYPE-001"),
        ("torch.from_numpy(np.zeros(3)).to(device, dtype=torch.float32)", None),
        ("y.to(torch.float64) if device.type != 'mps' else y", None),
        ("y.to('cpu').numpy() + y.cpu().numpy()", None),
        ("x.to(torch.float16).numpy()", None),
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
