"""The table ``kernel-builders``: its contents, and messages about mistakes in it."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from embercoach.config import ConfigError, load
from embercoach.kernel_builder import Fixed, KernelBuilder

if TYPE_CHECKING:
    from pathlib import Path

TABLE = '[tool.embercoach.kernel-builders."pack.kernel.Kernel"]\n'


def builders_of(folder: Path, body: str) -> tuple[KernelBuilder, ...]:
    (folder / "pyproject.toml").write_text(f"[tool.embercoach]\n{body}", encoding="utf-8")
    (scope,) = load([str(folder)])
    return scope.settings.kernel_builders


def test_without_a_table_there_are_none(tmp_path: Path) -> None:
    assert builders_of(tmp_path, "") == ()


def test_names_positions_and_fixed_values(tmp_path: Path) -> None:
    body = f"""
{TABLE}
name = "name"
input_names = 1
output_names = {{ value = ["out"] }}
source = "body"
header = {{ value = "" }}
ensure_row_contiguous = {{ value = false }}
compile_options = "options"

[tool.embercoach.kernel-builders."pack.build"]
source = 0
"""
    assert builders_of(tmp_path, body) == (
        KernelBuilder(
            "pack.kernel.Kernel",
            (
                ("name", "name"),
                ("input_names", 1),
                ("output_names", Fixed(("out",))),
                ("source", "body"),
                ("header", Fixed("")),
                ("ensure_row_contiguous", Fixed(False)),
                ("compile_options", "options"),
            ),
        ),
        KernelBuilder("pack.build", (("source", 0),)),
    )


def test_they_travel_between_processes() -> None:
    builder = KernelBuilder("pack.build", (("source", 0), ("header", Fixed(""))))
    assert pickle.loads(pickle.dumps(builder)) == builder


WHERE = "kernel-builders: 'pack.kernel.Kernel'"


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("kernel-builders = 1", 2,
         "kernel-builders must be a table from dotted names to tables, got number"),
        ("[tool.embercoach.kernel-builders.'a.b-c']\nsource = 'body'", 2, "Name\", got 'a.b-c'"),
        ("[tool.embercoach.kernel-builders.'a.class']\nsource = 'body'", 2, "e\", got 'a.class'"),
        ('kernel-builders."pack.Kernel" = "body"', 2, "'pack.Kernel' must be a table from"),
        ('[tool.embercoach.kernel-builders."mlx.core.fast.metal_kernel"]\nsource = "source"', 2,
         "'mlx.core.fast.metal_kernel' must be a wrapper, got a function of MLX"),
        (f"{TABLE}sorce = 'body'", 2,
         f"{WHERE}: metal_kernel has no parameter 'sorce'; did you mean 'source'?"),
        (f"{TABLE}grid = 'grid'", 2, "no parameter 'grid' (known: name, input_names, output_n"),
        (f"{TABLE}name = 'name'", 2, f"{WHERE} must have the key 'source'"),
        (f"{TABLE}source = 'a body'", 2, "source must be the name of a parameter, got 'a body'"),
        (f"{TABLE}source = ''", 2, "source must be the name of a parameter, got ''"),
        (f"{TABLE}source = -1", 2, "source must be a position from 0, got -1"),
        (f"{TABLE}source = true", 2, "source must be a parameter's name, its position, or "),
        (f"{TABLE}source = ['body']", 2, "{ value = ... }, got list"),
        (f"{TABLE}source = 'body'\nheader = 'body'", 2,
         f"{WHERE}: source and header cannot both be 'body'"),
        (f"{TABLE}source = 3\nheader = 3", 2, "source and header cannot both be 3"),
        (f"{TABLE}source = 'body'\nheader = {{ valu = '' }}", 2,
         "header must be a table with one key, 'value'"),
        (f"{TABLE}source = 'body'\ninput_names = {{ value = [1] }}", 2,
         "input_names: value must be a list of strings"),
        (f"{TABLE}source = 'body'\natomic_outputs = {{ value = 0 }}", 2,
         "atomic_outputs: value must be true or false, got number"),
        (f"{TABLE}source = 'body'\ncompile_options = {{ value = '' }}", 2,
         "compile_options must be the name or the position of a parameter"),
    ],
)  # fmt: skip
def test_mistakes_are_told(body: str, line: int, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        builders_of(tmp_path, body)
    assert str(caught.value).startswith("kernel-builders")
    assert str(caught.value).endswith(f" ({tmp_path / 'pyproject.toml'}:{line})")
    assert words in str(caught.value)
