"""The kernels of `docs/kernel-advice.md` are correct where they should be, and faulty elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import mlx.core as mx
import pytest

from tests.benchmarks import saved_figures
from tests.benchmarks.advice import page, timing
from tests.benchmarks.advice.counts import counted
from tests.benchmarks.advice.subjects import SUBJECTS
from tests.cuda.fake_gpu import FakeGpu, gpu  # noqa: F401
from tests.xlstm_kernels.test_cuda import WITHOUT_PTXAS, assemble, cuda  # noqa: F401

if TYPE_CHECKING:
    from pathlib import Path

KERNELS = sorted(set(SUBJECTS) - {"streams"})


@pytest.mark.skipif(sys.platform != "linux", reason="the simulator is tested on Linux")
@pytest.mark.sampled(6)
@pytest.mark.parametrize("subject", KERNELS)
def test_only_faulty_variants_have_findings(subject: str) -> None:
    for piece in SUBJECTS[subject](False):
        rows = counted(piece, piece.draw())
        assert [(row.variant, row.findings) for row in rows] == [
            (variant.name, (variant.finding,) if variant.finding else ())
            for variant in piece.variants
        ]
        for variant, row in zip(piece.variants, rows, strict=True):
            if variant.same and variant.finding is None:
                assert (row.different, row.error) == (0, ""), variant.name


def test_streams_compute_the_same() -> None:
    for piece in SUBJECTS["streams"](False):
        inputs = piece.draw()
        assert timing.warm(piece, inputs, "native") == {}
        first, *others = (
            variant.call(*inputs, backend="native") for variant in piece.variants if variant.same
        )
        for outputs in others:
            for output, expected in zip(outputs, first, strict=True):
                assert mx.allclose(output, expected, atol=1e-4).item()


@WITHOUT_PTXAS
@pytest.mark.sampled(0)
@pytest.mark.parametrize("subject", KERNELS)
def test_kernels_compile_for_cuda(subject: str, cuda: FakeGpu, tmp_path: Path) -> None:  # noqa: F811
    for piece in SUBJECTS[subject](False):
        for variant in piece.variants:
            mx.eval(variant.call(*piece.draw(), backend="cuda"))
    assemble([launch.code for launch in cuda.launches], tmp_path)


def test_the_page_has_every_piece_and_the_tables_of_the_figures() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    marks = [
        saved_figures.marked(line, page.MARK)
        for line in text.splitlines()
        if line.startswith(page.MARK)
    ]
    names = [piece.name for pieces in SUBJECTS.values() for piece in pieces(True)]
    assert sorted(marks) == sorted(names)
    assert page.filled(text) == text, "python -m tests.regenerate advice"
