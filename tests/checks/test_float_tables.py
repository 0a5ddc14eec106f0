"""DTYPE-020: float32 tables and masks that promote the activations of a model."""

from __future__ import annotations

import pytest

from tests.checks.findings import findings

LAYER = """
class Encoder(nn.Module):
    def __init__(self, dims: int):
        super().__init__()
        self.project = nn.Linear(dims, dims)
        {made}

    def __call__(self, x: mx.array, blocked: mx.array) -> mx.array:
        x = self.project(x)
        return {result}
"""
SANITIZED = """
    def sanitize(self, weights):
        return weights
"""
TABLE = "self._pos_emb = mx.cos(mx.arange(dims) * 0.1)"


@pytest.mark.parametrize(
    ("made", "result", "expected"),
    [
        (TABLE, "x + self._pos_emb[: x.shape[0]]", True),
        (TABLE.replace("_pos", "pos"), "x + self.pos_emb", False),
        (TABLE, "(x + self._pos_emb).astype(x.dtype)", False),
        (TABLE, "x.astype(mx.float32) + self._pos_emb", False),
        (TABLE.replace("_pos_emb", "_offsets"), "x + self._offsets", False),
        ("mask = None", "x + make_mask(blocked)", False),
    ],
)
def test_tables_that_promote(made: str, result: str, expected: bool) -> None:
    program = LAYER.format(made=made, result=result) + SANITIZED
    assert bool(findings(program, "DTYPE-020")) is expected


@pytest.mark.parametrize(("end", "context"), [(SANITIZED, "avoidable"), ("", "minor")])
def test_evidence_of_half_precision(end: str, context: str) -> None:
    program = LAYER.format(made=TABLE, result="x + self._pos_emb") + end
    (finding,) = findings(program, "DTYPE-020")
    assert finding.context == context


PASSED = """
class Attention(nn.Module):
    def __init__(self, dims: int):
        super().__init__()
        self.query = nn.Linear(dims, dims)

    def rotary(self, q):
        return q

    def __call__(self, x: mx.array, mask: mx.array) -> mx.array:
        q = self.query(x)
        {result}

class Model(nn.Module):
    def __init__(self, dims: int):
        super().__init__()
        self.layers = [Attention(dims) for _ in range(4)]

    def __call__(self, x: mx.array, keep: mx.array) -> mx.array:
        mask = {mask}
        mask = mask[:, None, None]
        for layer in self.layers:
            x = layer(x, mask)
        return x
"""
FUSED = "return mx.fast.scaled_dot_product_attention(q, q, q, scale=1.0, mask=mask)"
WIDE = "(1.0 - keep.astype(mx.float32)) * -1e9"


@pytest.mark.parametrize(
    ("code", "result", "mask", "expected"),
    [
        ("DTYPE-020", "return mx.softmax(q @ q.T + mask, axis=-1)", WIDE, True),
        ("DTYPE-020", "return mx.softmax(q @ q.T + mask, axis=-1)", "mx.log(keep)", False),
        ("DTYPE-023", FUSED, WIDE, True),
        ("DTYPE-023", FUSED, f"({WIDE}).astype(x.dtype)", False),
        ("DTYPE-023", f"q = self.rotary(q); {FUSED}", WIDE, False),
    ],
)
def test_masks_that_callers_pass(code: str, result: str, mask: str, expected: bool) -> None:
    program = PASSED.format(result=result, mask=mask) + SANITIZED
    assert bool(findings(program, code)) is expected
