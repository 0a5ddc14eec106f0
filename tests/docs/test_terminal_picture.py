"""The picture of a terminal in README and on the landing page."""

from __future__ import annotations

import mlx.core as mx
import pytest

from tests.examples.programs import ATTENTION, imported


@pytest.mark.docs
def test_the_picture_shows_the_output_of_today() -> None:
    terminal = imported(".ci/terminal.py")
    stored = terminal.PICTURE.read_text(encoding="utf-8")
    assert terminal.picture() == stored, "run `python -m tests.regenerate terminal`"


def test_the_program_in_it_runs_and_is_wrong() -> None:
    """Attention does not depend on the order of the steps; this one does."""
    attention = imported(ATTENTION).Attention(32, heads=4)
    x = mx.random.normal((1, 6, 32))
    backwards = attention(x[:, ::-1])[:, ::-1]
    assert backwards.shape == x.shape
    assert not mx.allclose(attention(x), backwards, atol=1e-3)
