"""``embercoach explain FILE:LINE``: findings at a place, and the kernel's generated signature."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Ran

    Cli = Callable[..., Ran]

PROGRAM = '''\
import mlx.core as mx

_SCALE = mx.fast.metal_kernel(
    name="scale",
    input_names=["x", "factor"],
    output_names=["y"],
    source="""
        uint i = thread_position_in_grid.x;
        y[i] = T(x[i] * factor[0] * cap);
    """,
)


def scale(x: mx.array) -> mx.array:
    return _SCALE(
        inputs=[x, 0.5],
        template=[("T", mx.float16)],
        grid=(x.size, 1, 1),
        threadgroup=(256, 1, 1),
        output_shapes=[x.shape],
        output_dtypes=[mx.float16],
    )[0]


def total(x: mx.array) -> float:
    return x.sum().item()
'''
SIGNATURE = """\
The kernel `scale`, launched in line 15, as MLX writes it:
    template <typename T>
    [[kernel]] void custom_kernel_scale_...(
      const <constant or device> <dtype of x><* or &> x [[buffer(0)]],
      const constant float& factor [[buffer(1)]],
      device float16_t* y [[buffer(2)]],
      uint3 thread_position_in_grid [[thread_position_in_grid]])
    { source }
"""
LINE = PROGRAM.splitlines()[8]


@pytest.fixture
def file(project: Path) -> Path:
    path = project / "kernels.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def test_findings_of_a_kernel_come_with_its_signature(embercoach: Cli, file: Path) -> None:
    ran = embercoach("explain", f"{file.name}:9")
    assert (ran.code, ran.err) == (0, "")
    assert "kernels.py:9:25: KERNEL-RANK-001 error" in ran.out
    assert "KERNEL-RANK-001 (scalar-or-array): A kernel indexes a scalar input" in ran.out
    assert "kernels.py:9:37: KERNEL-SIG-005 error undeclared identifier `cap`" in ran.out
    assert "= help: Write `factor` without an index" in ran.out
    assert ran.out.endswith(SIGNATURE)


def test_a_column_picks_one_finding(embercoach: Cli, file: Path) -> None:
    column = LINE.index("cap") + 2
    ran = embercoach("explain", f"{file.name}:9:{column}")
    assert "KERNEL-SIG-005" in ran.out
    assert "KERNEL-RANK-001" not in ran.out
    assert "No findings" in embercoach("explain", f"{file.name}:9:1").out


@pytest.mark.parametrize("line", [3, 8, 16])
def test_any_place_in_a_kernel_shows_the_signature(embercoach: Cli, file: Path, line: int) -> None:
    ran = embercoach("explain", f"{file.name}:{line}")
    assert ran.code == 0
    assert ran.out == f"No findings at kernels.py:{line}.\n\n{SIGNATURE}"


def test_other_findings_have_no_signature(embercoach: Cli, file: Path) -> None:
    ran = embercoach("explain", f"{file.name}:26")
    assert "GRAPH-BREAK-001" in ran.out
    assert "custom_kernel" not in ran.out
    assert embercoach("explain", f"{file.name}:13").out == "No findings at kernels.py:13.\n"


def test_in_json(embercoach: Cli, file: Path) -> None:
    reported = json.loads(embercoach("explain", f"{file.name}:9", "--output-format", "json").out)
    assert (reported["path"], reported["line"], reported["column"]) == ("kernels.py", 9, None)
    assert [(f["code"], f["rule"]["name"]) for f in reported["findings"]] == [
        ("KERNEL-RANK-001", "scalar-or-array"),
        ("KERNEL-SIG-005", "undeclared-name"),
    ]
    (kernel,) = reported["kernels"]
    (signature,) = kernel["signatures"]
    assert (kernel["name"], kernel["malformed"], signature["launches"]) == ("scale", False, [15])
    shown = "".join(f"    {line}\n" for line in signature["text"].split("\n"))
    assert shown in SIGNATURE


def test_different_launches_have_different_signatures(embercoach: Cli, file: Path) -> None:
    text = PROGRAM + PROGRAM[PROGRAM.index("\ndef scale") :].replace("0.5", "mx.zeros((9,))")
    file.write_text(text, encoding="utf-8")
    out = embercoach("explain", f"{file.name}:3").out
    assert "const constant float& factor" in out
    assert "const device float* factor" in out
    assert out.count("The kernel `scale`, launched in line") == 2


def test_mlx_own_mistake_is_told(embercoach: Cli, file: Path) -> None:
    file.write_text(
        "import mlx.core as mx\n"
        'K = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y", "z"],\n'
        '    source="y[0] = x_shape[0]; z[0] = 1;")\n'
        "y, z = K(inputs=[mx.zeros((9,))], grid=(32, 1, 1), threadgroup=(32, 1, 1),\n"
        "    output_shapes=[(1,), (1,)], output_dtypes=[mx.float32, mx.float32])\n",
        encoding="utf-8",
    )
    out = embercoach("explain", f"{file.name}:3").out
    assert "[[kernel]] void custom_kernel_k_float_float_float(\n" in out
    assert "too early: see KERNEL-SIG-008" in out


def test_the_configuration_counts(embercoach: Cli, file: Path) -> None:
    (file.parent / "embercoach.toml").write_text('ignore = ["KERNEL-RANK"]\n', encoding="utf-8")
    assert "KERNEL-RANK-001" not in embercoach("explain", f"{file.name}:9").out


def test_notes_are_told(embercoach: Cli, file: Path) -> None:
    file.write_text(PROGRAM + "\n\ntotal(mx.ones((4,)).sum().item())\n", encoding="utf-8")
    assert "GRAPH-BREAK-001 note" in embercoach("explain", f"{file.name}:29").out


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("absent.py:3", "absent.py cannot be read: No such file or directory"),
        ("kernels.py:99", "kernels.py has 26 lines, got line 99"),
        ("kernels.py:0", "kernels.py has 26 lines, got line 0"),
        (":3", "invalid location ':3'"),
    ],
)
def test_places_that_are_none(embercoach: Cli, file: Path, place: str, words: str) -> None:
    ran = embercoach("explain", place)
    assert ran.code == 2
    assert words in ran.err


def test_a_file_that_does_not_parse(embercoach: Cli, file: Path) -> None:
    file.write_text("import mlx.core as mx\nmx.fast.metal_kernel(\n", encoding="utf-8")
    ran = embercoach("explain", f"{file.name}:2")
    assert ran.code == 2
    assert "syntax error" in ran.out
    assert "No findings" not in ran.out


BUILDERS = """
[kernel-builders."pack.Kernel"]
name = 0
input_names = "inputs"
output_names = { value = ["y"] }
source = "body"
header = { value = "" }
"""
BUILT = '''\
from pack import Kernel

K = Kernel(
    "scale",
    inputs=["x"],
    body="""
        y[thread_position_in_grid.x] = T(x[0] * cap[0]);
    """,
)


def run(x):
    return K(x)
'''
HEAD = """\
The kernel `scale`, as MLX writes it:
    template <the launch's template arguments>
    [[kernel]] void custom_kernel_scale_...(
"""


def test_a_kernel_of_a_wrapper_of_the_settings(embercoach: Cli, project: Path) -> None:
    (project / "built.py").write_text(BUILT, encoding="utf-8")
    ran = embercoach("explain", "built.py:4")
    assert ran.out == "No findings at built.py:4.\n"
    (project / "embercoach.toml").write_text(BUILDERS, encoding="utf-8")
    ran = embercoach("explain", "built.py:4")
    assert ran.out.startswith(f"No findings at built.py:4.\n\n{HEAD}")
    ran = embercoach("explain", "built.py:7")
    assert "KERNEL-SIG-005" in ran.out
    assert HEAD in ran.out
    assert HEAD not in embercoach("explain", "built.py:13").out
    checked = embercoach("check", "--output-format", "concise", "built.py")
    assert checked.out.splitlines()[0].startswith("built.py:7:49: KERNEL-SIG-005 error")


def test_settings_with_wrappers_are_shown(embercoach: Cli, project: Path) -> None:
    (project / "embercoach.toml").write_text(
        f"{BUILDERS}atomic_outputs = {{ value = true }}\n", encoding="utf-8"
    )
    shown = embercoach("check", "--show-settings").out
    assert 'output_names = { value = ["y"] }' in shown
    assert "atomic_outputs = { value = true }" in shown
