"""The linter finds what was planted in the example and nothing else, and the harm is real."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import pytest
from mlx import nn

from tests.examples.programs import (
    ATTENTION,
    BEFORE,
    FIXED,
    PLANTED,
    RACE,
    ROOT,
    check,
    findings,
    imported,
    run,
)

if TYPE_CHECKING:
    from types import ModuleType

# The line (less its indentation), what is wrong with it, how loudly, and in which context.
PROBLEMS = [
    ("loudness = samples.astype(mx.int16) * np.float32(1 / 32768)", "DTYPE-002 error default"),
    ("smooth = mx.fft.irfft(spectrum * kept, n=SAMPLES)", "FFT-NORM-001 error default"),
    (
        "return mx.log1p(mx.abs(mx.fft.rfft(smooth).astype(mx.float32)))",
        "COMPLEX-002 warning default",
    ),
    ("kernel = mx.fast.metal_kernel(", "KERNEL-CACHE-001 warning avoidable"),
    ("y[i] = cap * metal::precise::tanh(inp0[i] / cap);", "KERNEL-SIG-005 error default"),
    ("grid=((x.size + 255) // 256, 1, 1),", "KERNEL-GRID-001 error default"),
    ("gate = h * mx.array(0.5)", "DTYPE-001 warning default"),
    ("certainty = mx.array(np.exp(-np.array(losses)))", "HOST-PULL-002 error differentiated"),
    ('print("two best:", best)', "GRAPH-BREAK-008 error compiled"),
    ("right += guesses[i].item() == kinds[i].item()", "HOST-PULL-008 warning avoidable"),
    ("right += guesses[i].item() == kinds[i].item()", "HOST-PULL-008 warning avoidable"),
]


def line_of(path: str, finding: dict[str, Any]) -> str:
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return lines[finding["line"] - 1].strip()


def loud(path: str) -> list[tuple[str, str]]:
    return [
        (line_of(path, one), f"{one['code']} {one['severity']} {one['context']}")
        for one in findings(path)
        if one["severity"] != "note"
    ]


def test_every_planted_problem_is_found_and_no_other() -> None:
    assert loud(PLANTED) == PROBLEMS


def test_the_repaired_program_is_clean() -> None:
    assert loud(FIXED) == []
    assert check(FIXED).returncode == 0


def test_the_repository_passes_over_the_planted_problems() -> None:
    listed = check("--show-files", "examples").stdout.splitlines()
    there = {path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").rglob("*.py")}
    assert set(listed) == there - {PLANTED, RACE, BEFORE, ATTENTION}
    assert FIXED in listed
    for named in (PLANTED, RACE, BEFORE, ATTENTION):
        assert check(named).returncode == 1


def accuracy(output: str) -> int:
    (percent,) = re.findall(r"^accuracy (\d+)%$", output, re.MULTILINE)
    return int(percent)


def test_only_the_repaired_program_learns() -> None:
    assert accuracy(run(PLANTED, "--steps", "100").stdout) < 60
    assert accuracy(run(FIXED, "--steps", "100").stdout) > 90


@pytest.mark.skipif(mx.metal.is_available(), reason="there is a Metal device")
@pytest.mark.parametrize("path", [PLANTED, FIXED])
def test_the_kernel_is_refused_without_metal(path: str) -> None:
    result = run(path, "--steps", "0", "--metal")
    assert result.returncode == 2
    assert "--metal needs a Metal device" in result.stderr


@pytest.mark.metal
def test_the_repaired_kernel_runs() -> None:
    if not mx.metal.is_available():
        pytest.skip("no Metal")
    result = run(FIXED, "--steps", "100", "--metal")
    assert result.returncode == 0, result.stderr
    assert accuracy(result.stdout) > 90


# --- the harm ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planted() -> ModuleType:
    return imported(PLANTED)


@pytest.fixture(scope="module")
def fixed() -> ModuleType:
    return imported(FIXED)


def test_the_planted_features_are_all_zero(planted: ModuleType, fixed: ModuleType) -> None:
    samples, _ = fixed.recordings(8, seed=0)
    assert not mx.any(planted.features(samples)).item()
    assert mx.all(mx.any(fixed.features(samples), axis=-1)).item()


def test_the_planted_loss_loses_a_part_of_its_gradient(
    planted: ModuleType, fixed: ModuleType
) -> None:
    samples, kinds = fixed.recordings(8, seed=0)
    model = fixed.Classifier(8)
    model.set_dtype(mx.float32)
    results = [
        nn.value_and_grad(model, module.focal_loss)(model, fixed.features(samples), kinds)
        for module in (planted, fixed)
    ]
    (wrong, wrong_gradients), (right, right_gradients) = results
    assert mx.allclose(wrong, right).item()
    differences = mx.abs(wrong_gradients["head"]["bias"] - right_gradients["head"]["bias"])
    assert mx.max(differences).item() > 1e-3
