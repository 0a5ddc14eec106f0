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
