"""The table of known names, against MLX's own headers."""

from __future__ import annotations

from pathlib import Path

import pytest

from embercoach.metal.library import FUNCTIONS, MLX_NAMES, VALUES, is_known
from embercoach.metal.program.written_facts import read_unit

PREAMBLE = ["bf16.h", "bf16_math.h", "complex.h", "defines.h", "logging.h", "utils.h"]


def headers() -> Path:
    mlx = pytest.importorskip("mlx.core")
    return Path(mlx.__file__).parent / "include/mlx/backend/metal/kernels"


@pytest.mark.parametrize("name", PREAMBLE)
def test_preamble_of_the_installed_mlx_is_known(name) -> None:
    """Whatever MLX declares in front of a kernel is in the table, and it uses nothing else."""
    unit = read_unit((headers() / name).read_text())
    assert unit.names
    assert {n for n in unit.names if not is_known(n, "call")} == set()
    if unit.parse_ok:
        assert {use.name for use in unit.free if not is_known(use.name, use.kind)} == set()


def test_table_of_mlx_holds_nothing_else() -> None:
    """A name that MLX drops has to leave the table, or a real error stays unseen."""
    units = [read_unit((headers() / name).read_text()) for name in PREAMBLE]
    declared = frozenset().union(*(unit.names for unit in units))
    assert MLX_NAMES - declared == set()


def test_tables_do_not_overlap() -> None:
    assert not (VALUES - MLX_NAMES) & FUNCTIONS
