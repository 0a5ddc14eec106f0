"""``embercoach port``: files in, a module out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Ran

SCALE = """\
kernel void scale(device const float* x, device float* y, uint i [[thread_position_in_grid]]) {
    y[i] = 2 * x[i];
}
"""


def test_a_file_is_only_replaced_by_force(embercoach: Callable[..., Ran], tmp_path: Path) -> None:
    kernels, module = tmp_path / "a.metal", tmp_path / "a.py"
    kernels.write_text(SCALE)
    assert embercoach("port", str(kernels), "-o", str(module)).code == 0
    written = module.read_text()
    assert embercoach("port", str(kernels)).out == written
    module.write_text("old")
    refused = embercoach("port", str(kernels), "-o", str(module))
    assert refused.code == 2
    assert "exists: pass --force to replace it" in refused.err
    assert module.read_text() == "old"
    assert embercoach("port", str(kernels), "-o", str(module), "--force").code == 0
    assert module.read_text() == written


def test_an_error_names_file_line_and_column(
    embercoach: Callable[..., Ran], tmp_path: Path
) -> None:
    kernels = tmp_path / "a.metal"
    kernels.write_text("\n" + SCALE.replace("float* y", "Item* y"))
    ran = embercoach("port", str(kernels))
    assert ran.code == 2
    assert f"{kernels}:2:55: MLX has no dtype for `Item`" in ran.err


def test_kernels_that_are_not_ported_are_listed(
    embercoach: Callable[..., Ran], tmp_path: Path
) -> None:
    kernels = tmp_path / "a.metal"
    kernels.write_text("kernel void none(device float* y) {}\n" + SCALE)
    ran = embercoach("port", str(kernels))
    assert ran.code == 1
    assert "def scale(" in ran.out
    assert ran.err.strip() == f"not ported: none: {kernels}:1:13: `none` writes no array"


def test_files_are_included_from_the_checkout_alone(
    embercoach: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "outside.h").write_text("inline float two() { return 2; }\n")
    folder = tmp_path / "checkout"
    (folder / ".git").mkdir(parents=True)
    (folder / "own.h").write_text("inline float two() { return 2; }\n")
    kernels = folder / "a.metal"
    kernels.write_text('#include "own.h"\n' + SCALE.replace("2 *", "two() *"))
    assert "inline float two()" in embercoach("port", str(kernels)).out
    kernels.write_text('#include "../outside.h"\n' + SCALE)
    assert (
        f'{kernels}:1:1: MLX cannot include "../outside.h"' in embercoach("port", str(kernels)).err
    )


def test_other_files_and_two_roles_are_refused(
    embercoach: Callable[..., Ran], tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("")
    assert "must be a .metal file" in embercoach("port", str(tmp_path / "a.py")).err
    ran = embercoach("port", "a.metal", "--input", "y", "--update", "y")
    assert "one of --input, --output and --update" in ran.err


def test_text_that_does_not_parse_is_refused(
    embercoach: Callable[..., Ran], tmp_path: Path
) -> None:
    kernels = tmp_path / "a.metal"
    kernels.write_text("#include <metal_stdlib>\n" + SCALE.rstrip() + '\n""",\n)\n')
    ran = embercoach("port", str(kernels))
    assert ran.code == 2
    assert "syntax error: `)` closes nothing" in ran.err
