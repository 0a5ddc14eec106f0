"""`python -m tests.benchmarks.gpu --check`, on MLX's operations."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx
import pytest

from tests.benchmarks.gpu import check
from tests.benchmarks.gpu.cases import GROUPS, Case


@pytest.mark.parametrize("group", ["mlstm_step", "elementwise"])
def test_native_operations_pass(group, capsys):
    check.check_group("native", "float32", group)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(list(GROUPS[group]()))
    assert all(line.startswith("PASS") for line in lines), lines


def doubled(case: Case) -> Case:
    return replace(case, call=lambda *a, **k: [2 * part for part in case.call(*a, **k)])


def poisoned(case: Case) -> Case:
    return replace(case, call=lambda *a, **k: [part * mx.nan for part in case.call(*a, **k)])


def refused(case: Case) -> Case:
    def call(*arrays: mx.array, backend: str) -> None:
        raise RuntimeError("cannot run")

    return replace(case, call=call)


@pytest.mark.parametrize("spoil", [doubled, poisoned, refused])
def test_errors_are_reported(spoil, capsys, monkeypatch):
    (case, *_) = GROUPS["elementwise"]()
    monkeypatch.setitem(GROUPS, "elementwise", lambda: iter([spoil(case)]))
    check.check_group("native", "float32", "elementwise")
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"FAIL {case.name}")
