"""Programs whose events were derived from MLX's source, before the trace's code was read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trace.blind_programs import DIRECTORY, read, run

PROGRAMS = sorted(DIRECTORY.glob("*.txt"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_trace_has_the_expected_events_and_no_others(path: Path, tmp_path: Path) -> None:
    score = run(read(path), tmp_path)
    assert not score.differences
