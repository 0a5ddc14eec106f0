"""`python -m tests.benchmarks.gpu`: its figures, their JSON and the picture."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

import xlstm_kernels as pack
from tests.benchmarks.gpu import plain
from tests.benchmarks.gpu.__main__ import main
from tests.benchmarks.gpu.figures import (
    COMPILED,
    EAGER,
    FORWARD,
    OURS,
    TRITON,
    Figure,
    Report,
    lines,
    read,
)
from tests.benchmarks.gpu.measure import joined
from tests.benchmarks.gpu.picture import draw

STORED = Path(__file__).parents[2] / "docs" / "images" / "performance-h200.json"
FIGURE = Figure("elementwise", "soft_cap", (2, 3), "bfloat16", FORWARD, {OURS: 2.0, COMPILED: 3.0})
REPORT = Report("a GPU", "0.0", "2026-01-01", "cuda", {"bfloat16": 100.0}, (FIGURE,))


def test_a_group_is_timed_and_written(tmp_path, capsys):
    path = tmp_path / "figures.json"
    options = ["--backend", "native", "--size", "tiny", "--dtype", "float32"]
    assert main([*options, "--group", "elementwise", "--json", str(path)]) == 0
    report = read(path)
    assert report.backend == "native"
    assert report.copy_bandwidth["float32"] > 0
    assert [row.work for row in report.figures] == ["forward", "forward and backward"]
    for row in report.figures:
        assert set(row.milliseconds) == {OURS, EAGER, COMPILED}
        assert all(time > 0 for time in row.milliseconds.values())
        assert row.moved_bytes == 16 * 256 * 4 * (2 if row.work == FORWARD else 5)
    assert "soft_cap 16x256 float32, forward" in capsys.readouterr().out


def test_a_report_is_read_as_written(tmp_path):
    path = tmp_path / "figures.json"
    REPORT.write(path)
    assert read(path) == REPORT


def test_other_versions_are_rejected(tmp_path):
    path = tmp_path / "figures.json"
    path.write_text('{"version": 2}', encoding="utf-8")
    with pytest.raises(ValueError, match="must have version 1"):
        read(path)


def test_lines_have_ratios():
    assert "compiled 3 ms (1.50x)" in [*lines(REPORT)][-1]


def test_times_of_other_packages_are_joined_by_shape_and_work():
    other = replace(FIGURE, operator="limit_chunk", milliseconds={TRITON: 4.0})
    elsewhere = replace(other, shape=(9,), milliseconds={TRITON: 5.0})
    assert joined(FIGURE, [other, elsewhere]).milliseconds[TRITON] == 4.0


def test_the_stored_picture_is_that_of_the_stored_figures(tmp_path):
    path = tmp_path / "figures.svg"
    assert main(["--from", str(STORED), "--picture", str(path)]) == 0
    assert "rms_norm (256 x 4096), forward" in path.read_text(encoding="utf-8")
    draw(read(STORED), tmp_path / "again.svg")
    assert path.read_bytes() == (tmp_path / "again.svg").read_bytes()


@pytest.mark.parametrize(
    ("exponential", "operator"),
    [(True, pack.mlstm_chunkwise), (False, pack.mlstm_siging_chunkwise)],
)
def test_the_plain_mlstm_is_that_of_the_pack(exponential, operator):
    shapes = (1, 2, 64, 8), (1, 2, 64, 8), (1, 2, 64, 8), (1, 2, 64), (1, 2, 64)
    inputs = [mx.random.normal(one, key=mx.random.key(at)) for at, one in enumerate(shapes)]
    found = partial(plain.chunkwise, length=16, exponential=exponential)(*inputs)
    expected = operator(*inputs, backend="native")
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-3, atol=1e-4)
