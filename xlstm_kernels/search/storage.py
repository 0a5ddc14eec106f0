"""Files of indexes: safetensors with a format, a version, a kind and a metric as metadata.

A file is untrusted. Its header is read and compared with the size of the file before MLX reads it.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from xlstm_kernels.search.metric import Metric

if TYPE_CHECKING:
    from os import PathLike

    from xlstm_kernels.search.flat import FlatIndex
    from xlstm_kernels.search.ivf import IVFFlatIndex
    from xlstm_kernels.search.ivf_pq import IVFPQIndex

_FORMAT = "xlstm_kernels.search"
_VERSION = "1"
_LONGEST_HEADER = 2**16
_LONGEST_AXIS = 2**31 - 1
_SIZES = {"F32": 4, "I32": 4, "I64": 8, "U8": 1}
_TENSORS = {
    "flat": {"vectors": ("F32", 2)},
    "ivf_flat": {"vectors": ("F32", 2), "lists": ("I32", 1), "centroids": ("F32", 2)},
    "ivf_pq": {
        "codes": ("U8", 2),
        "lists": ("I32", 1),
        "centroids": ("F32", 2),
        "codebooks": ("F32", 3),
    },
}
# Of an index whose vectors have ids of the caller.
_IDS = {"ids": ("I64", 1)}
_NUMBER = re.compile("[0-9]{1,19}")
_SETTINGS = ("nprobe", "max_codes", "next_id")
_CODEWORDS = 256


def save(
    path: str | PathLike[str],
    kind: str,
    metric: Metric,
    arrays: dict[str, mx.array],
    settings: dict[str, int],
) -> None:
    """Write arrays, in row-major order, what kind of index they are, and its settings."""
    metadata = {"format": _FORMAT, "version": _VERSION, "kind": kind, "metric": metric.value}
    metadata |= {name: str(number) for name, number in settings.items()}
    with Path(path).open("wb") as file:  # MLX would append a suffix to the name
        mx.save_safetensors(file, arrays, metadata)


def load(path: str | PathLike[str]) -> FlatIndex | IVFFlatIndex | IVFPQIndex:
    """Read an index that `save` wrote.

    Raises:
        ValueError: for a file that is truncated, or of another format, version or layout.
        OSError: for one that cannot be read.
    """
    from xlstm_kernels.search.flat import FlatIndex
    from xlstm_kernels.search.ivf import IVFFlatIndex
    from xlstm_kernels.search.ivf_pq import IVFPQIndex

    kind, metric, shapes, settings = _checked(Path(path))
    arrays: Any = mx.load(str(path), format="safetensors")
    index: FlatIndex | IVFFlatIndex | IVFPQIndex
    if kind == "flat":
        index = FlatIndex(shapes["vectors"][1], metric)
        index.restore(arrays["vectors"])
    else:
        nlist, dimension = shapes["centroids"]
        if kind == "ivf_pq":
            index = IVFPQIndex(dimension, nlist, shapes["codes"][1], metric)
            index.restore_codebooks(arrays["codebooks"])
        else:
            index = IVFFlatIndex(dimension, nlist, metric)
        # Any number is a list, whatever the file says.
        lists, last = arrays["lists"], mx.array(nlist - 1, dtype=mx.int32)
        inside = mx.clip(lists, mx.zeros_like(last), last)
        index.restore(arrays["centroids"], arrays[index.rows], inside)
        index.nprobe = settings.get("nprobe", index.nprobe)
        index.max_codes = settings.get("max_codes")
    if "ids" in shapes:
        index.restore_ids(arrays["ids"], settings.get("next_id", index.ntotal))
    return index


def _checked(path: Path) -> tuple[str, Metric, dict[str, list[int]], dict[str, int]]:
    """The kind, metric, shapes and settings of a file; arrays are within the file's size."""

    def require(condition: object, problem: str) -> None:
        if not condition:
            raise ValueError(f"search.load: {path.name}: {problem}")

    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        require(size >= 8 and length <= min(size - 8, _LONGEST_HEADER), "no header of an index")
        text = file.read(length)
    try:
        header: Any = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    require(isinstance(header, dict), "no header of an index")
    metadata = header.pop("__metadata__", None)
    require(isinstance(metadata, dict) and metadata.get("format") == _FORMAT, "not an index")
    version = metadata.get("version")
    require(version == _VERSION, f"version must be {_VERSION}, got {version!r}")
    kind, metric = metadata.get("kind"), metadata.get("metric")
    require(kind in list(_TENSORS), f"unknown kind {kind!r}")
    require(metric in [m.value for m in Metric], f"unknown metric {metric!r}")
    expected = _TENSORS[kind] | (_IDS if "ids" in header else {})
    require(set(header) == set(expected), f"tensors must be {', '.join(expected)}")
    shapes, end = {}, 0
    for name, (dtype, ndim) in expected.items():
        shapes[name] = _shape(header[name], dtype, ndim, size - 8 - length)
        require(shapes[name] is not None, f"{name} does not fit the file")
        end = max(end, header[name]["data_offsets"][1])
    require(end == size - 8 - length, "the file is truncated or has more than its tensors")
    _require_agreement(shapes, require)
    settings = {name: metadata[name] for name in _SETTINGS if name in metadata}
    for name, text in settings.items():
        require(_NUMBER.fullmatch(str(text)), f"{name} must be a number, got {text!r}")
    numbers = {name: int(text) for name, text in settings.items()}
    return kind, Metric(metric), shapes, numbers  # type: ignore[return-value]


def _shape(entry: Any, dtype: str, ndim: int, room: int) -> list[int] | None:
    """The shape of a tensor, or None if the entry is not one of that dtype within the file."""
    if not isinstance(entry, dict) or entry.get("dtype") != dtype:
        return None
    shape, offsets = entry.get("shape"), entry.get("data_offsets")
    for numbers, count, most in ((shape, ndim, _LONGEST_AXIS), (offsets, 2, room)):
        if not isinstance(numbers, list) or len(numbers) != count:
            return None
        if any(type(number) is not int or not 0 <= number <= most for number in numbers):
            return None
    first, last = offsets  # type: ignore[misc]
    return shape if last - first == math.prod(shape or ()) * _SIZES[dtype] else None


def _require_agreement(shapes: dict[str, Any], require: Any) -> None:
    count, width = shapes.get("vectors") or shapes["codes"]
    require(width > 0, "vectors have no dimension")
    require(shapes.get("ids", [count]) == [count], "the shapes of vectors and ids do not agree")
    if "lists" in shapes:
        nlist, dimension = shapes["centroids"]
        if "codebooks" in shapes:
            whole = dimension > 0 and dimension % width == 0
            agree = whole and shapes["codebooks"] == [width, _CODEWORDS, dimension // width]
        else:
            agree = dimension == width
        agree = agree and shapes["lists"] == [count] and nlist > 0
        require(agree, "the shapes of vectors, lists and centroids do not agree")
