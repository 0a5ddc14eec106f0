"""Reads that cost little: of host data, and while an object is made; and clocks under a switch."""

from __future__ import annotations

import pytest

from tests.checks.findings import effect, findings

PULLS = ("HOST-PULL-001", "HOST-PULL-002", "HOST-PULL-008")
METHODS = """
import numpy as np

class Tables:
    def __init__(self, n):
        self._build(mx.random.normal((n,)))
        self.add(mx.random.normal((n,)))
        self._both(mx.random.normal((n,)))
        self.rates = [x.item() for x in mx.linspace(0, 1, n)]

    def _build(self, x: mx.array):
        self.table = [np.array(x + i) for i in range(4)]

    def add(self, x: mx.array):
        self.table += [np.array(x + i) for i in range(4)]

    def _both(self, x: mx.array):
        self.table += [np.array(x + i) for i in range(4)]

    def later(self, x: mx.array):
        self._both(x)
"""


def test_reads_while_an_object_is_made_run_once() -> None:
    contexts = [effect(one) for one in findings(METHODS, PULLS)]
    assert contexts == ["once", "once", "iteration", "iteration"]  # in the order of the lines


@pytest.mark.parametrize(("annotation", "fixed"), [("list[mx.array]", False), ("mx.array", True)])
def test_rows_of_a_list_get_no_fix(annotation: str, fixed: bool) -> None:
    program = f"""
def total(rows: {annotation}):
    out = []
    for i, row in enumerate(rows):
        out.append(row.tolist())
    return mx.array(out)
"""
    found = findings(program, PULLS)
    assert found
    assert any(one.fix is not None and "rows.tolist()" in str(one.fix) for one in found) == fixed
