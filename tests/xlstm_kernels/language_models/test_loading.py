"""Checkpoints from folders: what is read when, and what the errors name."""

from __future__ import annotations

import functools
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest
from mlx import nn
from mlx.utils import tree_flatten

from tests.xlstm_kernels.language_models.conftest import (
    SETTINGS,
    VOCABULARY,
    drawn_model,
    save_checkpoint,
    save_shards,
)
from xlstm_kernels.checkpoints import CheckpointError, load
from xlstm_kernels.checkpoints.quantization import quantize
from xlstm_kernels.nn import xLSTM

TOKENS = mx.array([[3, 1, 4, 1, 5, 9, 2, 6]])
INDEX = "model.safetensors.index.json"
WEIGHT = "backbone.blocks.0.mlstm_layer.q.weight"


def dtypes(model: nn.Module) -> dict[str, mx.Dtype]:
    return {name: array.dtype for name, array in tree_flatten(model.parameters())}


@pytest.mark.parametrize(
    ("shards", "settings"),
    [
        (0, {}),
        (4, {"tie_word_embeddings": True}),
        (1, {"chunkwise_kernel": "parallel--native_autograd"}),
    ],
    ids=["untied", "tied", "parallel"],
)
def test_load(shards, settings, checkpoint):
    folder = checkpoint(**settings)
    if shards:
        save_shards(folder, drawn_model(**settings), shards)
    model = load(folder)
    assert type(model) is xLSTM
    assert not model.training
    assert mx.array_equal(model(TOKENS), drawn_model(**settings)(TOKENS)).item()
    cache = model.init_cache(1)
    model(TOKENS, cache)
    assert model(TOKENS[:, :1], cache).shape == (1, 1, VOCABULARY)


def test_a_configuration_in_yaml(checkpoint):
    """As xlstm's: its shards have no index either."""
    folder = checkpoint()
    path = folder / "config.yaml"
    (folder / "config.json").rename(path)  # JSON is YAML
    (folder / "model.safetensors").rename(folder / "model_0.safetensors")
    assert mx.array_equal(load(folder)(TOKENS), drawn_model()(TOKENS)).item()
    path.write_text("a: [")
    with pytest.raises(CheckpointError, match=r"config\.yaml: invalid YAML: \w"):
        load(folder)


@pytest.mark.parametrize("bits", [4, 8])
def test_quantized_while_loading(bits, checkpoint, relative_error, wide):
    model = load(checkpoint(), bits=bits, group_size=32)
    kinds = dtypes(model)
    assert kinds["backbone.embeddings.weight"] == mx.uint32
    assert kinds["backbone.blocks.1.slstm_layer.zgate_preact.weight"] == mx.uint32
    for layer in ("0.mlstm_layer", "1.slstm_layer"):
        for gate in "if":
            assert kinds[f"backbone.blocks.{layer}.{gate}gate_preact.weight"] == mx.float32
    bar = {4: 1.0, 8: 5e-2}[bits]
    assert relative_error(model(TOKENS), wide(drawn_model()(TOKENS))) < bar


def test_groups_wider_than_every_layer_are_refused(checkpoint):
    with pytest.raises(CheckpointError, match="no layer has a width that is a multiple of 128"):
        load(checkpoint(), bits=4, group_size=128)


def test_a_quantized_checkpoint_without_its_settings(tmp_path):
    model = drawn_model()
    quantize(model, group_size=32)
    folder = save_checkpoint(tmp_path / "model", model)
    with pytest.raises(CheckpointError, match='must have "quantization" with group_size and bits'):
        load(folder)


def test_a_dtype_that_is_a_name_is_refused(checkpoint):
    with pytest.raises(TypeError, match=r"such as mx\.bfloat16, got 'bfloat16'"):
        load(checkpoint(), dtype="bfloat16")


@pytest.mark.parametrize("own", [{}, {"lm_head": {"group_size": 32, "bits": 8}}])
def test_a_quantized_checkpoint(own, tmp_path):
    """As `mlx_lm.convert` writes it, also with other bits for single layers."""
    model = drawn_model()
    if own:
        model.lm_head = model.lm_head.to_quantized(**own["lm_head"])
    quantize(model, 4, 32)
    settings = {"quantization": {"group_size": 32, "bits": 4, "mode": "affine", **own}}
    folder = save_checkpoint(tmp_path / "model", model, **settings)
    assert mx.array_equal(load(folder)(TOKENS), model(TOKENS)).item()
    with pytest.raises(CheckpointError, match="quantized already, got bits = 8"):
        load(folder, bits=8)


def test_headwise_layers_that_are_quantized(draw, relative_error, wide):
    """Equal to the layer with the dequantized weights."""
    layer = drawn_model().layers[1].slstm_layer.zgate_preact
    quantized = layer.to_quantized(group_size=32, bits=4)
    x = draw((2, 5, 64), mx.float32)
    layer.weight = mx.dequantize(
        quantized.weight, quantized.scales, quantized.biases, group_size=32, bits=4
    )
    assert relative_error(quantized(x), wide(layer(x))) < 1e-6
    assert str(quantized).endswith("head_dim=32, group_size=32, bits=4, mode='affine')")
    assert quantized.trainable_parameters() == {}


# --- memory ------------------------------------------------------------------------------------


def test_a_layer_is_freed_before_the_next_is_read(tmp_path):
    """MLX maps no file: a weight is read when it is evaluated, and not before."""
    settings = {"hidden_size": 256, "num_hidden_layers": 6, "slstm_at": [], "num_heads": 2}
    model = drawn_model(**settings)
    folder = save_checkpoint(tmp_path / "model", model, **settings)
    sizes = [array.nbytes for _, array in tree_flatten(model.parameters())]
    del model
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    lazy = load(folder, lazy=True)
    assert mx.get_peak_memory() - before < max(sizes) / 8
    del lazy
    quantized = load(folder, bits=4)
    kept = mx.get_active_memory() - before
    assert kept < sum(sizes) / 4
    assert mx.get_peak_memory() - before < kept + 2 * max(sizes)
    assert quantized(TOKENS).shape == (*TOKENS.shape, 257)


# --- errors ------------------------------------------------------------------------------------


def without(folder: Path, name: str) -> None:
    weights = mx.load(str(folder / "model.safetensors"))
    del weights[name]
    mx.save_safetensors(str(folder / "model.safetensors"), weights)


def with_weight(folder: Path, name: str, array: mx.array) -> None:
    weights = mx.load(str(folder / "model.safetensors"))
    mx.save_safetensors(str(folder / "model.safetensors"), {**weights, name: array})


def with_config(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text, encoding="utf-8")


def in_shards(folder: Path) -> None:
    save_shards(folder, drawn_model(), 2)


def lacking_a_shard(folder: Path) -> None:
    in_shards(folder)
    (folder / "model-00002-of-00002.safetensors").unlink()


def lacking_a_listed_weight(folder: Path) -> None:
    in_shards(folder)
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"]["lm_head.bias"] = "model-00001-of-00002.safetensors"
    (folder / INDEX).write_text(json.dumps(index))


def with_quantization(folder: Path, value: object) -> None:
    with_config(folder, json.dumps({**SETTINGS, "quantization": value}))


def with_index(folder: Path, text: str) -> None:
    (folder / INDEX).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        *(
            (functools.partial(with_index, text=text), rf"{INDEX}: must have a weight_map")
            for text in ("[]", "{}", '{"weight_map": null}', '{"weight_map": {"a": 1}}')
        ),
        *(
            (functools.partial(with_quantization, value=value), "must have group_size and bits")
            for value in (True, {"bits": 4})
        ),
        (
            lambda folder: with_weight(folder, WEIGHT, mx.zeros((32, 64), mx.uint8)),
            rf"model\.safetensors: checkpoint: '{WEIGHT}' must be floating, got mlx\.core\.uint8",
        ),
        (shutil.rmtree, r"model: no such folder$"),
        (lambda folder: (folder / "config.json").unlink(), r"config\.json: no such file"),
        (lambda folder: with_config(folder, "{"), r"config\.json: invalid JSON: Expecting"),
        (lambda folder: with_config(folder, "[]"), r"config\.json: must be an object, got list"),
        (
            lambda folder: with_config(folder, '{"hidden_size": "x"}'),
            r"model: .*Config: hidden_size must be an int, got str",
        ),
        (
            lambda folder: (folder / "model.safetensors").unlink(),
            r"model: no \*\.safetensors files",
        ),
        (lacking_a_shard, r"model-00002-of-00002\.safetensors: missing, but listed in .*index"),
        (
            lacking_a_listed_weight,
            r"model-00001-of-00002\.safetensors: missing weight 'lm_head\.bias', listed in",
        ),
        (
            lambda folder: (folder / "model.safetensors").write_text("version https://git-lfs"),
            r"model\.safetensors: not a readable safetensors file: \[load_safetensors\]",
        ),
        (
            lambda folder: (folder / "model.safetensors").write_bytes(
                (folder / "model.safetensors").read_bytes()[:-9]
            ),
            r"model\.safetensors: not a readable .*exceeding the size of the file",
        ),
        (lambda folder: without(folder, WEIGHT), rf"model: .*missing weights: '{WEIGHT}'"),
        (
            lambda folder: with_weight(folder, "backbone.extra", mx.zeros((1,))),
            r"model\.safetensors: .*unexpected weights: 'backbone\.extra'",
        ),
        (
            lambda folder: with_weight(folder, WEIGHT, mx.zeros((2, 3))),
            rf"model\.safetensors: .*'{WEIGHT}' must have shape \(32, 64\), got \(2, 3\)",
        ),
        (
            lambda folder: mx.save_safetensors(
                str(folder / "model.safetensors"), {"a": mx.zeros((1,))}
            ),
            r"unknown origin: .*got 'a'",
        ),
    ],
)
def test_errors_name_the_file_and_the_weight(spoil, message, checkpoint):
    folder = checkpoint()
    spoil(folder)
    with pytest.raises(CheckpointError, match=message) as caught:
        load(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def refuse(*_: Any, **__: Any) -> None:
    raise OSError("no network\nand more")


@pytest.mark.parametrize(
    ("hub", "message"),
    [
        (None, "a/b: no such folder; to download it, pip install huggingface_hub"),
        (
            SimpleNamespace(snapshot_download=refuse),
            "a/b: no such folder, and the download failed: no network",
        ),
    ],
    ids=["without huggingface_hub", "without a network"],
)
def test_a_repository_that_cannot_be_downloaded(hub, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    with pytest.raises(CheckpointError, match=f"^{message}$"):
        load("a/b")


@pytest.mark.parametrize("config", ["config.json", "config.yaml"])
def test_a_repository(config, checkpoint, tmp_path, monkeypatch):
    """Everything that is read is downloaded."""
    folder = checkpoint()
    (folder / "config.json").rename(folder / config)

    def download(name: str, allow_patterns: list[str]) -> str:
        (tmp_path / "hub").mkdir()
        for pattern in allow_patterns:
            for file in folder.glob(pattern):
                shutil.copy(file, tmp_path / "hub")
        return str(tmp_path / "hub")

    hub = SimpleNamespace(snapshot_download=download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    assert mx.array_equal(load("a/b")(TOKENS), drawn_model()(TOKENS)).item()
