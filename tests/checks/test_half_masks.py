"""DTYPE-021, 022 and 023: NumPy of bfloat16, scaled masks, and masks of attention."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes

FUNCTION = """
import numpy as np

def run(x: mx.array, mask: mx.array, dtype: mx.Dtype, path: str):
    return {}
"""
CALLED = FUNCTION + "\nrun(mx.ones(2), mx.ones(2), mx.{}, '')\n"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("(1 - mask[:, None].astype(x.dtype)) * -1e9", ["DTYPE-022"]),
        ("-1e9 * mask.astype(x.dtype)", ["DTYPE-022"]),
        ("mask.astype(x.dtype) * -1e4", []),
        ("mask.astype(mx.float32) * -1e9", []),
        ("mask.astype(x.dtype) * float('-inf')", []),
        ("mask.astype(dtype) * -1e9", []),
    ],
)
def test_scaled_masks(expression: str, expected: list[str]) -> None:
    assert codes(FUNCTION.format(expression), ("DTYPE-006", "DTYPE-022")) == expected


@pytest.mark.parametrize(("dtype", "expected"), [("float16", ["DTYPE-006"]), ("bfloat16", [])])
def test_a_dtype_that_callers_pass(dtype: str, expected: list[str]) -> None:
    program = CALLED.format("mask.astype(dtype) * -1e9", dtype)
    assert codes(program, ("DTYPE-006", "DTYPE-022")) == expected


@pytest.mark.parametrize(
    ("expression", "flagged"),
    [
        ("np.exp(x.astype(mx.bfloat16))", True),
        ("np.stack([x.astype(mx.bfloat16)])", True),
        ("np.ones(2) * x.astype(mx.bfloat16)", True),
        ("np.array(mx.load(path)['w'])", True),
        ("x.astype(mx.bfloat16) * np.ones(2)", False),
        ("np.array(x)", False),
        ("np.array(mx.load(path)['w'].astype(mx.float32))", False),
    ],
)
def test_bfloat16_in_numpy(expression: str, flagged: bool) -> None:
    assert bool(codes(FUNCTION.format(expression), "DTYPE-021")) is flagged


ATTENTION = """
class Attention(nn.Module):
    def __call__(self, q: mx.array, keep: mx.array):
        mask = mx.where(keep, mx.array(0.0), mx.array(-1e9))
        return mx.fast.scaled_dot_product_attention(q, q, q, scale=1.0, mask={})
"""


@pytest.mark.parametrize(
    ("mask", "end", "flagged"),
    [
        ("mask", "half = mx.bfloat16", True),
        ("mask", "", False),
        ("mask.astype(q.dtype)", "half = mx.bfloat16", False),
        ("keep", "half = mx.bfloat16", False),
    ],
)
def test_wide_masks_of_attention(mask: str, end: str, flagged: bool) -> None:
    assert bool(codes(ATTENTION.format(mask) + end + "\n", "DTYPE-023")) is flagged
