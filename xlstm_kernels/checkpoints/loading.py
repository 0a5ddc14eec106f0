"""Load a language model from a folder, or a repository of the Hugging Face Hub."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten

from xlstm_kernels.checkpoints.origins import convert_weights, create_model
from xlstm_kernels.checkpoints.parameters import require_parameters
from xlstm_kernels.checkpoints.quantization import quantize, quantize_as

_INDEX = "model.safetensors.index.json"
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
_FILES = ("*.json", "config.yaml", "*.safetensors", "tokenizer*", "*.txt", "*.jinja")
ModelT = TypeVar("ModelT", bound=nn.Module)


class CheckpointError(ValueError):
    """A checkpoint can't be loaded: the message names the file, and the weight if it is one."""


def load(
    path_or_repo: str | Path,
    *,
    dtype: mx.Dtype | None = None,
    bits: int | None = None,
    group_size: int = 64,
    lazy: bool = False,
    progress: bool | None = None,
    create: Callable[[Any], ModelT] = create_model,  # type: ignore[assignment]
) -> ModelT:
    """Load a model from its configuration and safetensors files, one layer after the other.

    A layer is read from its file, cast and quantized before the next one is read, so that the peak
    of memory is the loaded model and one layer of the file.

    Args:
        path_or_repo: a folder, or a repository `owner/name`, which needs huggingface_hub.
        dtype: of weights that aren't quantized, and of scales; None for that of the files.
        bits: quantizes linear layers and embeddings, except input and forget gates.
        group_size: weights that share a scale.
        lazy: whether to leave weights in their files until they are used.
        progress: whether to show a bar on stderr; None where stderr is a terminal.
        create: makes the model from its configuration.

    Returns:
        The model, in evaluation mode.

    Raises:
        CheckpointError: for a missing or unreadable file, weights that are missing, unexpected or
            misshapen, and a configuration that no model has.
        TypeError: for a dtype that is not MLX's.
    """
    if dtype is not None and not isinstance(dtype, mx.Dtype):
        raise TypeError(f"load: dtype must be one of MLX, such as mx.bfloat16, got {dtype!r}")
    folder = find_folder(path_or_repo)
    config = read_config(folder)
    if bits is not None and config.get("quantization"):
        raise CheckpointError(f"{folder}: the checkpoint is quantized already, got {bits = }")
    model = _with_weights(folder, config, create)
    if dtype is not None:
        model.set_dtype(dtype)
    if bits is not None:
        try:
            quantize(model, bits, group_size)
        except ValueError as error:
            raise CheckpointError(f"{folder}: {error}") from error
    model.eval()
    if not lazy:
        _evaluate(model, sys.stderr.isatty() if progress is None else progress)
    return model


def find_folder(path_or_repo: str | Path) -> Path:
    """Return the folder of a checkpoint; download it if it is a repository.

    Raise a CheckpointError for a folder that isn't there, or a repository that can't be downloaded.
    """
    folder = Path(path_or_repo)
    if folder.is_dir():
        return folder
    if folder.exists():
        raise CheckpointError(f"{folder}: must be a folder with config.json, got a file")
    if not _REPOSITORY.fullmatch(str(path_or_repo)):
        raise CheckpointError(f"{folder}: no such folder")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise CheckpointError(
            f"{path_or_repo}: no such folder; to download it, pip install huggingface_hub"
        ) from error
    try:
        return Path(snapshot_download(str(path_or_repo), allow_patterns=list(_FILES)))
    except Exception as error:  # networks, rights, names: of three packages
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CheckpointError(
            f"{path_or_repo}: no such folder, and the download failed: {reason}"
        ) from error


def read_config(folder: Path) -> dict[str, Any]:
    """Return the contents of `config.json`, or of xlstm's `config.yaml`.

    Raise a CheckpointError if there is neither, or if it holds no names and values.
    """
    path = folder / "config.json"
    if not path.exists() and (folder / "config.yaml").exists():
        path = folder / "config.yaml"
        config = _read_yaml(path)
    else:
        config = _read_json(path)
    if not isinstance(config, dict):
        raise CheckpointError(f"{path}: must be an object, got {type(config).__name__}")
    return config


def _with_weights(folder: Path, config: dict[str, Any], create: Callable[[Any], ModelT]) -> ModelT:
    weights, files = _read_weights(folder)
    if not config.get("quantization") and any(name.endswith(".scales") for name in weights):
        raise CheckpointError(
            f"{folder}: the weights are quantized: config.json must have "
            '"quantization" with group_size and bits'
        )
    try:
        settings, converted = convert_weights(weights, config)
        model = create(settings)
        if quantization := config.get("quantization"):
            quantize_as(model, converted, quantization)
            require_parameters(converted, model)
        else:
            _require_floating(converted)
    except (TypeError, ValueError) as error:
        named = (file for name, file in files.items() if repr(name) in str(error))
        raise CheckpointError(f"{next(named, folder)}: {error}") from error
    model.load_weights(list(converted.items()))
    return model


def _require_floating(weights: Mapping[str, mx.array]) -> None:
    """Refuse integers, such as those that other packages quantize to."""
    for name, weight in weights.items():
        if not mx.issubdtype(weight.dtype, mx.floating):
            raise TypeError(f"checkpoint: {name!r} must be floating, got {weight.dtype}")


def _read_weights(folder: Path) -> tuple[dict[str, mx.array], dict[str, Path]]:
    """Return the weights of all files, unevaluated, and the file of each."""
    index = folder / _INDEX
    listed = _read_index(index) if index.exists() else {}
    paths = [folder / name for name in sorted(set(listed.values()))]
    paths = paths or sorted(folder.glob("*.safetensors"))
    if not paths:
        raise CheckpointError(f"{folder}: no *.safetensors files")
    weights: dict[str, mx.array] = {}
    files: dict[str, Path] = {}
    for path in paths:
        if not path.exists():
            raise CheckpointError(f"{path}: missing, but listed in {_INDEX}")
        try:
            shard = mx.load(str(path))
        except RuntimeError as error:
            raise CheckpointError(f"{path}: not a readable safetensors file: {error}") from error
        assert isinstance(shard, dict)  # of the formats that `mx.load` reads, this one
        weights |= shard
        files |= dict.fromkeys(shard, path)
    for name, file in listed.items():
        if name not in weights:
            raise CheckpointError(f"{folder / file}: missing weight {name!r}, listed in {_INDEX}")
    return weights, files


def _read_index(path: Path) -> dict[str, str]:
    index = _read_json(path)
    listed = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(listed, dict) or not all(isinstance(file, str) for file in listed.values()):
        raise CheckpointError(f"{path}: must have a weight_map from weights to files")
    return listed


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: no such file") from error
    except ValueError as error:
        raise CheckpointError(f"{path}: invalid JSON: {error}") from error


def _read_yaml(path: Path) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise CheckpointError(f"{path}: to read it, pip install pyyaml") from error
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (ValueError, yaml.YAMLError) as error:
        first_line = str(error).splitlines()[0]
        raise CheckpointError(f"{path}: invalid YAML: {first_line}") from error


def _evaluate(model: nn.Module, progress: bool) -> None:
    """Evaluate layer by layer: what a layer is made from is freed before the next one."""
    from rich.console import Console
    from rich.progress import track

    layers = tree_flatten(model.leaf_modules(), is_leaf=nn.Module.is_module)
    console = Console(stderr=True)
    for _, layer in track(layers, "Loading", console=console, transient=True, disable=not progress):
        assert isinstance(layer, nn.Module)
        mx.eval(layer.parameters())
    # sLSTM cells and convolutions have parameters and layers.
    mx.eval(model.parameters())
