"""Small checkpoints: a model with drawn weights, its configuration, and a tokenizer of bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten, tree_map

from xlstm_kernels.mlx_lm import Model, ModelArgs, register

#: All bytes and an end of text.
VOCABULARY = 257
SETTINGS: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_heads": 2,
    "slstm_at": [1],
    "slstm_num_heads": 2,
    "ffn_round_up_to_multiple_of": 32,
}


def drawn_model(**settings: Any) -> Model:
    """A model whose logits are far enough apart for equal tokens in any order of summation."""
    mx.random.seed(20251121)
    model = Model(ModelArgs.from_dict({**SETTINGS, **settings}))
    model.update(tree_map(lambda array: array + mx.random.normal(array.shape, scale=0.15), model))
    return model


def save_checkpoint(folder: Path, model: Model, **settings: Any) -> Path:
    """Write what a folder of Hugging Face has, but for the tokenizer."""
    folder.mkdir(exist_ok=True)
    config = {"model_type": "xlstm", "eos_token_id": VOCABULARY - 1, **SETTINGS, **settings}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    model.save_weights(str(folder / "model.safetensors"))
    return folder


def save_shards(folder: Path, model: Model, count: int) -> None:
    """Replace model.safetensors by shards with an index."""
    (folder / "model.safetensors").unlink()
    weights = sorted(tree_flatten(model.parameters()))
    index = {}
    for shard in range(count):
        name = f"model-{shard + 1:05}-of-{count:05}.safetensors"
        part = dict(weights[shard::count])
        mx.save_safetensors(str(folder / name), part)
        index |= dict.fromkeys(part, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


def save_tokenizer(folder: Path) -> None:
    """A token for each byte; its first 256 ids are those of the bytes' printable characters."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate([*letters, "<eos>"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>")
    fast.save_pretrained(folder)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Callable[..., Path]:
    """Write a checkpoint without a tokenizer."""
    return lambda **settings: save_checkpoint(
        tmp_path / "model", drawn_model(**settings), **settings
    )


@pytest.fixture(scope="session")
def mlx_lm() -> Any:
    """mlx-lm, which knows xLSTM for these tests."""
    package = pytest.importorskip("mlx_lm", reason="mlx-lm is installed on Linux only")
    register()
    return package


@pytest.fixture(scope="module")
def folder(mlx_lm, tmp_path_factory) -> Path:
    """A checkpoint with a tokenizer."""
    path = save_checkpoint(tmp_path_factory.mktemp("xlstm"), drawn_model())
    save_tokenizer(path)
    return path


@pytest.fixture(scope="module")
def loaded(mlx_lm, folder) -> tuple[Model, Any]:
    """The model and the tokenizer of `folder`, as mlx-lm loads them."""
    return mlx_lm.load(str(folder))
