"""`python -m tests.benchmarks.gpu`: its figures, their JSON and the picture."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

import xlstm_kernels as pack
from tests.benchmarks.gpu import measure, plain
from tests.benchmarks.gpu.__main__ import main
from tests.benchmarks.gpu.children import READY, children
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
from tests.benchmarks.gpu.picture import draw
from tests.benchmarks.gpu.programs import PROGRAMS

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


def test_a_worker_that_fails_is_reported_and_the_others_measure_in_order(
    tmp_path, capsys, monkeypatch
):
    # The parent lists one more program than the workers have.
    listed = dict(PROGRAMS, elementwise=lambda sizes: [*PROGRAMS["elementwise"](sizes)] * 2)
    monkeypatch.setattr(measure, "PROGRAMS", listed)
    path = tmp_path / "figures.json"
    options = ["--backend", "native", "--size", "tiny", "--dtype", "bfloat16", "--jobs", "2"]
    groups = ["--group", "mlstm_step", "--group", "elementwise", "--group", "mlstm_chunkwise"]
    assert main([*options, *groups, "--json", str(path)]) == 1
    figures = read(path).figures
    assert [
        (row.operator, row.work == FORWARD, None in row.milliseconds.values()) for row in figures
    ] == [
        ("mlstm_step", True, False),
        ("soft_cap", True, False),
        ("soft_cap", False, False),
        ("soft_cap", True, True),
        ("soft_cap", False, True),
        ("mlstm_chunkwise", True, False),
        ("mlstm_chunkwise", False, False),
        ('mlstm_chunkwise, precision="high"', True, False),
        ('mlstm_chunkwise, precision="high"', False, False),
    ]
    default, _, high, _ = figures[-4:]
    assert high.milliseconds[COMPILED] == default.milliseconds[COMPILED]
    printed = capsys.readouterr().out
    assert "IndexError" in printed
    assert "soft_cap (16, 256): exit status 1" in printed
    assert printed.index("ours failed") < printed.index("\nmlstm_chunkwise")


def test_time_is_limited(tmp_path, capsys):
    path = tmp_path / "figures.json"
    options = ["--backend", "native", "--size", "tiny", "--seconds", "0", "--group", "elementwise"]
    assert main([*options, "--json", str(path)]) == 0
    assert not read(path).figures
    assert "soft_cap (16, 256) float32, forward: skipped, out of time" in capsys.readouterr().out


ASLEEP = "import time; print('first', flush=True); time.sleep(600)"
WAITS = f"print({READY!r}, flush=True); print(input())"


def test_a_child_that_takes_too_long_is_stopped(capsys):
    async def run():
        async with children() as start:
            child = await start("a child", sys.executable, "-c", ASLEEP)
            found = [text async for text in child.lines(2)]
            return found, child.process.returncode

    found, status = asyncio.run(run())
    assert found == ["first"]
    assert status
    assert "a child: stopped after 2 s" in capsys.readouterr().out


def test_a_child_waits_until_it_is_sent_a_line(capsys):
    async def run():
        async with children() as start:
            child = await start("a child", sys.executable, "-c", WAITS)
            before = [text async for text in child.lines(60)]
            await child.send("go")
            return before, [text async for text in child.lines(60)], child.process.returncode

    assert asyncio.run(run()) == ([], ["go"], 0)
    assert not capsys.readouterr().out


def test_an_interrupt_ends_all_children():
    started = []

    async def run():
        async with children() as start:
            started.extend([await start("", sys.executable, "-c", ASLEEP) for _ in range(2)])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run())
    assert all(child.process.returncode for child in started)


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
    assert measure.joined(FIGURE, [other, elsewhere]).milliseconds[TRITON] == 4.0


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


def test_the_plain_step_is_that_of_the_pack():
    shapes = (2, 3, 8), (2, 3, 8), (2, 3, 16), (2, 3), (2, 3), (2, 3, 8, 16), (2, 3, 8), (2, 3)
    inputs = [mx.random.normal(one, key=mx.random.key(at)) for at, one in enumerate(shapes)]
    h, states = pack.mlstm_step(*inputs, backend="native")
    expected = h, *states[:2], states.m[..., 0]
    for found, array in zip(plain.step(*inputs), expected, strict=True):
        np.testing.assert_allclose(np.array(found), np.array(array), rtol=1e-3, atol=1e-4)
