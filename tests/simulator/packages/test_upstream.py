"""MLX's and mlx-lm's own tests of custom kernels, unmodified, under the simulator."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.accuracy.corpus import CACHE, CorpusError, package_root

from .case import VERSIONS

pytestmark = pytest.mark.corpus

ROOT = Path(__file__).resolve().parents[3]

#: The newest commit of MLX's tests that version 0.32.4 of the wheel passes.
MLX_COMMIT = "846d176227a0ac13d2667e58d2bb68b322109ab0"
MLX_SOURCE = "https://github.com/ml-explore/mlx"

# Left out: what runs a kernel that was exported and imported again, which MLX evaluates itself.
_MLX_NAMES = {
    "test_fast.py::TestFast": """
        test_custom_kernel_basic test_custom_kernel_args test_custom_kernel_strides
        test_custom_kernel_helper test_custom_kernel_attributes test_custom_kernel_caching
        test_custom_kernel_same_name_different_source_one_eval test_custom_metal_kernel_math_mode
        test_custom_kernel_mixed_dtypes
    """,
    "test_eval.py::TestEval": "test_eval_exception_does_not_corrupt_state",
}
MLX_TESTS = [f"{case}::{name}" for case, names in _MLX_NAMES.items() for name in names.split()]

# Left out: two tests of the packed gated delta kernel that take minutes; and test_qk_norm, which
# trusts mx.fast.rope in bfloat16: on a CPU MLX rounds inside of that.
_LM_NAMES = {
    "test_kernels.TestKernels": """
        test_norm_add_norm test_pre_norm test_expert_routing test_post_expert_norm_combine
        test_rms_norm_sigmoid_gate
    """,
    "test_losses.TestLosses": """
        test_kl_div_loss test_js_div_loss test_kl_div_loss_vjp test_js_div_loss_vjp
    """,
    "test_models.TestModels": """
        test_bitnet test_ssm test_gated_delta test_gated_delta_contract
        test_gated_delta_precision test_gated_delta_masked
    """,
    "test_gated_delta.TestGatedDelta": """
        test_kill_switch_restores_original_kernel test_packed_matches_ops_reference
        test_masked_generic_matches_ops_reference test_vector_gate_generic_matches_ops_reference
        test_small_head_dim_generic_matches_ops_reference test_unsupported_shapes_fall_back
    """,
}
LM_TESTS = [f"{case}.{name}" for case, names in _LM_NAMES.items() for name in names.split()]

#: mlx-lm's tests of its losses pass in spite of the race that these kernels have.
RACED = {
    "test_kl_div_loss": {"kl_forward"},
    "test_js_div_loss": {"js_forward"},
    "test_kl_div_loss_vjp": {"kl_forward", "kl_backward"},
    "test_js_div_loss_vjp": {"js_forward", "js_backward"},
}


@pytest.fixture(scope="module")
def mlx_results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Each of MLX's tests and what the plugin's run says of it: ``passed`` or the report."""
    folder = _mlx_tests()
    report = tmp_path_factory.mktemp("mlx") / "report.xml"
    command = [sys.executable, "-m", "pytest", "--embercoach-simulate", "-q"]
    command += ["-c", "/dev/null", "--rootdir", str(folder), "-p", "no:cacheprovider"]
    command += [f"--junitxml={report}", *(str(folder / name) for name in MLX_TESTS)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert report.exists(), done.stdout + done.stderr
    results = {}
    for case in ET.parse(report).iter("testcase"):
        trouble = [part for part in case if part.tag in {"failure", "error", "skipped"}]
        text = "\n".join(f"{part.tag}: {part.get('message')}\n{part.text}" for part in trouble)
        results[case.get("name", "")] = text or "passed"
    return results


def _mlx_tests() -> Path:
    """The folder of MLX's Python tests at ``MLX_COMMIT``, fetched once."""
    root = CACHE / f"mlx-{MLX_COMMIT[:12]}-git"
    folder = root / "python" / "tests"
    if not (folder / "test_fast.py").exists():
        root.mkdir(parents=True, exist_ok=True)
        steps = (
            ["init", "--quiet"],
            ["sparse-checkout", "set", "--cone", "python/tests"],
            ["fetch", "--quiet", "--depth=1", "--filter=blob:none", MLX_SOURCE, MLX_COMMIT],
            ["checkout", "--quiet", "FETCH_HEAD"],
        )
        for step in steps:
            done = subprocess.run(
                ["git", "-C", str(root), *step], capture_output=True, text=True, check=False
            )
            if done.returncode:
                pytest.skip(
                    f"MLX's tests can't be fetched from {MLX_SOURCE}: {done.stderr.strip()}"
                )
    return folder


@pytest.mark.parametrize("name", MLX_TESTS)
def test_mlx_test_passes(mlx_results: dict[str, str], name: str) -> None:
    assert mlx_results[name.rpartition("::")[2]] == "passed"


@pytest.fixture(scope="module")
def lm_results() -> dict[str, dict[str, Any]]:
    """Each of mlx-lm's tests, as ``upstream.run`` tells it."""
    version = VERSIONS["mlx-lm"]
    try:
        assert metadata.version("mlx-lm") == version
        folder = package_root("mlx-lm", version, "sdist") / "tests"
    except metadata.PackageNotFoundError:
        pytest.skip(f"mlx-lm is not installed: pip install mlx-lm=={version}")
    except CorpusError as error:
        pytest.skip(f"mlx-lm's tests can't be fetched: {error}")
    command = [sys.executable, "-m", "tests.simulator.packages.upstream", str(folder), *LM_TESTS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return results


@pytest.mark.parametrize("name", LM_TESTS)
def test_mlx_lm_test_passes(lm_results: dict[str, dict[str, Any]], name: str) -> None:
    result = lm_results[name]
    assert result["failed"] == []
    assert result["skipped"] == []
    assert result["ran"] == 1
    assert result["launches"]
    raced = {kernel for kernel, kind, _ in result["findings"] if kind == "threadgroup-race"}
    expected = RACED.get(name.rpartition(".")[2], set())
    assert raced == expected
    assert {kernel for kernel, _, _ in result["findings"]} == expected
