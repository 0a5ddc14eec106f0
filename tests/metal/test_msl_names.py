"""The table of known names, against MLX's own headers."""

from __future__ import annotations

from pathlib import Path

import pytest

from embercoach.metal.msl_names import (
    FUNCTIONS,
    MLX_NAMES,
    VALUES,
    is_known,
    is_standard_header,
)
from embercoach.metal.written.body import read_unit

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


@pytest.mark.parametrize(
    "name",
    [
        *("half4", "uchar2", "packed_float3", "bfloat4", "ulong3", "float4x4", "half2x3"),
        *("simdgroup_float8x8", "atomic_uint", "size_t", "uint64_t", "simd_float4"),
        *("INFINITY", "M_PI_F", "M_LN2_H", "FLT_MAX", "HALF_EPSILON", "UINT_MAX", "MAXFLOAT"),
        *("memory_order_relaxed", "mem_flags", "numeric_limits", "bfloat16_t", "Limits"),
        *("__METAL_VERSION__", "texture2d_array", "METAL_FUNC"),
    ],
)
def test_names_that_may_stand_anywhere(name) -> None:
    assert is_known(name, "value")
    assert is_known(name, "type")


@pytest.mark.parametrize("name", ["exp", "step", "length", "bias", "rank", "simd_sum", "as_type"])
def test_words_that_are_known_where_they_are_applied(name) -> None:
    assert is_known(name, "call")
    assert not is_known(name, "value")


@pytest.mark.parametrize(
    "name",
    [
        *("inp0", "out0", "x_size", "erf", "expm1", "cbrt", "lgamma", "std", "int5", "float8"),
        *("thread_position_in_grid", "tid", "packed_float5", "half5x5", "atomic_double", "size"),
    ],
)
@pytest.mark.parametrize("kind", ["value", "call", "type", "namespace"])
def test_unknown_names(name, kind) -> None:
    assert not is_known(name, kind)


def test_tables_do_not_overlap() -> None:
    assert not (VALUES - MLX_NAMES) & FUNCTIONS


@pytest.mark.parametrize(
    ("target", "known"),
    [
        ("<metal_stdlib>", True),
        ("<metal_simdgroup_matrix>", True),
        ("<simd/simd.h>", True),
        ('"mine.h"', False),
        ("<cmath>", False),
        ("<MetalPerformancePrimitives/MetalPerformancePrimitives.h>", False),
    ],
)
def test_standard_headers(target, known) -> None:
    assert is_standard_header(target) is known
