"""Edges of the rules of weights that come from PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks import Project, check_source
from tests.checks.marked import check_marked

if TYPE_CHECKING:
    from pathlib import Path

SANITIZE = """
import mlx.core as mx


def sanitize(weights):
    converted = {}
    for key, value in weights.items():
        if "conv" in key:
            value = value.transpose(0, 2, 1)
        converted[key] = value
    return converted
"""


def test_weights_that_a_second_conversion_does_not_change() -> None:
    check_marked(
        """
import mlx.core as mx


def sanitize_renamed(weights):
    out = {}
    for k, v in weights.items():
        if "model.language" in k:
            k = k.replace("model.language", "language.model")
            if "experts" in k:
                out[k] = v.swapaxes(1, 2)
                continue
        if "projection" in k:
            out[k.replace("projection", "proj")] = v.swapaxes(0, 1)
    return out


def sanitize_flagged(weights, args):
    out = {}
    is_converted = args.is_converted
    for k, v in weights.items():
        if is_converted:
            out[k] = v
            continue
        out[k] = v.moveaxis(1, -1) if "conv" in k else v
    return out


def sanitize_flattened(weights):
    for k, v in weights.items():
        if "patch" in k and v.ndim == 4:
            weights[k] = v.transpose(0, 2, 3, 1).reshape(v.shape[0], -1)
    return weights


def sanitize_early(weights):
    if "converted" in weights:
        return weights
    return {k: v for k, v in sanitize_patterns(weights).items()}


def sanitize_patterns(weights):
    transposed = ["upscale", "output"]
    for key, value in weights.items():
        if "mask" in key and ".norm." in key:
            key = key.replace(".norm.", ".layer_norm.")
        if len(value.shape) == 4:
            is_transposed = any(p in key for p in transposed)
            order = (1, 2, 3, 0)
            if is_transposed:
                value = mx.transpose(value, (1, 2, 3, 0))  # reported
            else:
                value = value.moveaxis(1, -1)
        weights[key] = value
    mx.save_safetensors("model.safetensors", weights)
    return weights
""",
        "WEIGHTS-001",
    )


def test_packages_that_convert_checkpoints(tmp_path: Path) -> None:
    models = tmp_path / "pack" / "models"
    models.mkdir(parents=True)
    (models / "conformer.py").write_text(SANITIZE)

    def codes() -> set[str]:
        report = check_source(SANITIZE, models / "conformer.py", Project())
        return {one.code for one in report.findings if one.code.startswith("WEIGHTS")}

    assert codes() == set()
    (tmp_path / "pack" / "convert.py").write_text("")
    assert codes() == {"WEIGHTS-001"}
