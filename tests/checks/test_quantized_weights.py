"""Edges of the rules of quantized weights, and of memory that state holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks import Project, check_source
from tests.checks.marked import check_marked

if TYPE_CHECKING:
    from pathlib import Path


def test_sizes_of_packed_weights_through_names() -> None:
    check_marked(
        """
import mlx.core as mx
import mlx.nn as nn


def shapes(module: nn.Module) -> tuple:
    bits = getattr(module, "bits", None)
    weight = module.weight
    per_word = 32 // bits
    return weight.shape[0], weight.shape[1] * per_word  # reported


def elements(layer: nn.QuantizedLinear) -> int:
    bits = layer.bits
    return layer.weight.shape[0] * layer.weight.shape[1] * (32 // bits)  # reported


def by_four_bits(layer: nn.QuantizedLinear) -> int:
    dims = layer.weight.shape[-1]
    dims *= 2 * layer.bits  # reported
    return dims


def dequantized(w: mx.array, scales: mx.array, bits: int) -> tuple:
    size = w.shape[-1] * (32 // bits)  # reported
    return size, mx.dequantize(w, scales, bits=bits)


def others(layer: nn.QuantizedLinear, bits: int) -> int:
    size = layer.weight.shape[-1] * (32 // bits)
    return size + layer.weight.shape[0] * (32 // layer.bits)


def whole(layer: nn.QuantizedLinear) -> int:
    if 32 % layer.bits:
        raise ValueError(layer.bits)
    return layer.weight.shape[-1] * (32 // layer.bits)
""",
        "QUANT-001",
    )


MODEL = """
import mlx.core as mx
import mlx.nn as nn


class Projector(nn.Module):
    def __init__(self, dims: int) -> None:
        super().__init__()
        self.proj = nn.Linear(dims, dims)

    def __call__(self, x: mx.array) -> mx.array:
        return self.proj(x.astype(self.proj.weight.dtype))
"""
PACKAGE = """
import mlx.nn as nn
from .projector import Projector


class Model(nn.Module):
    def sanitize(self, weights: dict) -> dict:
        return weights
"""


def test_the_package_of_a_layer_says_that_it_is_quantized(tmp_path: Path) -> None:
    found = []
    for text in ("", PACKAGE):
        folder = tmp_path / f"package{len(text)}"
        folder.mkdir()
        (folder / "__init__.py").write_text(text)
        path = folder / "projector.py"
        path.write_text(MODEL)
        report = check_source(MODEL, path, Project())
        found.append([f.line for f in report.findings if f.code == "QUANT-002"])
    assert found == [[], [12]]


def test_names_of_weights() -> None:
    check_marked(
        """
import mlx.core as mx
import mlx.nn as nn


class Model(nn.Module):
    def __init__(self, dims: int) -> None:
        super().__init__()
        self.proj = nn.Linear(dims, dims)
        self.norm = nn.RMSNorm(dims)

    def sanitize(self, weights: dict) -> dict:
        return weights

    def __call__(self, x: mx.array) -> mx.array:
        weight = self.proj.weight  # reported
        if x.dtype != weight.dtype:
            x = x.astype(weight.dtype)
        return self.proj(x)

    def tied(self, h: mx.array, table: mx.array | None) -> mx.array:
        weight = self.proj.weight
        if table is not None:
            weight = table
        return h @ weight.T

    def normed(self, x: mx.array) -> mx.array:
        weight = self.norm.weight
        return self.proj(x.astype(weight.dtype))
""",
        "QUANT-002",
    )


def test_layers_that_a_predicate_may_leave_are_not_reported() -> None:
    check_marked(
        """
import mlx.core as mx
import mlx.nn as nn


class Model(nn.Module):
    def __init__(self, dims: int) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(dims, dims)
        self.positions = nn.Embedding(dims, dims)

    def model_quant_predicate(self, path: str, module: nn.Module) -> bool:
        return "positions" not in path

    def sanitize(self, weights: dict) -> dict:
        return weights

    def __call__(self, x: mx.array) -> mx.array:
        h = self.embed_tokens(x) + self.positions.weight[: x.shape[1]]
        return h @ self.embed_tokens.weight.T  # reported
""",
        "QUANT-002",
    )


def test_parts_of_partitions() -> None:
    check_marked(
        """
import mlx.core as mx


def parts(x: mx.array, k: int) -> tuple:
    n = x.shape[-1]
    order = mx.argpartition(-x, kth=k - 1)
    return (
        order[..., :k],
        order[..., k:],
        order[..., 0],  # reported
        order[..., k - 1],
        mx.argpartition(x, n - k)[..., n - k :],
        mx.argpartition(x, kth=-(k - 1))[..., -k:],  # reported
        mx.argpartition(x, kth=min(k, n))[..., : min(k, n)],  # reported
        mx.argpartition(x, kth=5)[..., :5],
        mx.argpartition(x, k, axis=1)[:, :k],  # reported
        mx.argpartition(x, k, axis=0)[:, :k],
        mx.topk(x, 1)[..., -1],
    )
""",
        "API-021",
    )


def test_slices_that_state_keeps() -> None:
    check_marked(
        """
import mlx.core as mx


class Stream:
    def __init__(self, x: mx.array) -> None:
        joined = mx.concatenate([x, x], axis=1)
        self.state = joined[:, -2:]

    def step(self, x: mx.array, cache: list, n: int) -> mx.array:
        joined = mx.concatenate([self.state, x], axis=1)
        self.state = joined[:, -n:]  # reported
        cache[0] = joined[:, n:]
        cache[1] = x[:, -n:]
        self.last = joined[:, -n:]
        return joined
""",
        "MEMORY-001",
    )
