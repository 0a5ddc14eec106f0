"""Messages are short: what is wrong in one line, the remedy in another."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import pytest

from embercoach.checks import Project, check_objective_c, check_source
from embercoach.finding import Finding
from embercoach.testing.rule_pages import page_paths, read_page

LONGEST = 100
LONGEST_MEAN = 65
NAME = "a" * 300
#: Code that names and operands make messages of.
LONG_NAMES = f"""
import mlx.core as mx
import numpy as np

{NAME} = mx.ones((3,), dtype=mx.int32)
spectrum = mx.fft.rfftn(mx.fft.rfft({NAME}, norm="ortho"), norm="forward")
back = mx.fft.irfftn(spectrum, s=(3,), norm="backward")
for _ in range(3):
    np.testing.assert_array_almost_equal({NAME}, {NAME})
    {NAME} *= 2
    print({NAME} * np.float32(0.5), sorted({NAME}), {NAME}.{NAME}.astype(mx.float16) > 1e9)
"""
LONG_TENSOR = f"""
#include <torch/extension.h>
void f(torch::Tensor {NAME}) {{
    auto host = {NAME}.cpu();
    id<MTLBuffer> b = [device newBufferWithBytes:{NAME}.cpu().data_ptr() length:4 options:0];
}}
"""


def python_findings() -> list[Finding]:
    """The findings of the bad examples of all rules about Python and host code."""
    found: list[Finding] = []
    for path in page_paths():
        if path.stem.startswith(("KERNEL-", "SIM-", "NOQA-")):
            continue
        for block in read_page(path).blocks_of("Bad"):
            if block.language == "objective-c++":
                found += check_objective_c(block.code).findings
            else:
                found += check_source(block.code, Path("example.py"), Project()).findings
    found += check_source(LONG_NAMES, Path("example.py"), Project()).findings
    found += check_objective_c(LONG_TENSOR).findings
    return [one for one in found if not one.code.startswith("KERNEL-")]


@pytest.fixture(scope="module")
def findings() -> list[Finding]:
    return python_findings()


def test_messages_and_helps_are_short(findings: list[Finding]) -> None:
    assert {"HOST-PULL-003", "FFT-NORM-001", "HOST-COPY-001"} <= {one.code for one in findings}
    texts = [text for one in findings for text in (one.message, one.help)]
    assert [text for text in texts if len(text) > LONGEST] == []
    assert mean(map(len, {one.message for one in findings})) <= LONGEST_MEAN


def test_helps_are_sentences(findings: list[Finding]) -> None:
    for one in findings:
        assert one.help[0].isupper(), one
        assert not one.help.endswith("."), one
        assert not one.message.endswith("."), one
