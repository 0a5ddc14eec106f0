"""Files of indexes: round trips, and files that are no index."""

from __future__ import annotations

import json

import mlx.core as mx
import numpy as np
import pytest

from xlstm_kernels.search import FlatIndex, IVFFlatIndex, load


@pytest.fixture
def vectors() -> mx.array:
    return mx.array(np.random.default_rng(0).standard_normal((90, 6)).astype(np.float32))


def flat(vectors: mx.array) -> FlatIndex:
    index = FlatIndex(6, "inner_product")
    index.add(vectors)
    return index


def inverted(vectors: mx.array) -> IVFFlatIndex:
    index = IVFFlatIndex(6, 5)
    index.train(vectors)
    index.add(vectors)
    return index


@pytest.mark.parametrize("make", [flat, inverted])
@pytest.mark.parametrize("count", [90, 0])
def test_a_loaded_index_finds_the_same(make, count, vectors, tmp_path):
    index = make(vectors) if count else FlatIndex(6)
    path = tmp_path / "index.safetensors"
    before = index.search(vectors[:7], 4)
    index.save(path)
    loaded = load(path)
    assert (type(loaded), loaded.metric, loaded.ntotal) == (type(index), index.metric, count)
    for actual, expected in zip(loaded.search(vectors[:7], 4), before, strict=True):
        assert actual.tolist() == expected.tolist()
    if count:
        loaded.add(vectors)
        assert loaded.ntotal == 2 * count


@pytest.fixture
def content(vectors, tmp_path) -> bytes:
    path = tmp_path / "index.safetensors"
    inverted(vectors).save(path)
    return path.read_bytes()


def edited(content: bytes, edit) -> bytes:
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    edit(header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def set_in(*path_and_value):
    *path, last, value = path_and_value

    def edit(header: dict) -> None:
        for name in path:
            header = header[name]
        header[last] = value

    return edit


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda _: b"", "no header"),
        (lambda c: c[:7], "no header"),
        (lambda c: c[:100], "no header"),
        (lambda c: b"\xff" * 8 + c[8:], "no header"),
        (lambda c: c[:8] + b"[" * 50 + c[58:], "no header"),
        (lambda c: c[:-1], "does not fit the file|truncated"),
        (lambda c: c + b"\0", "truncated or has more"),
        (lambda c: edited(c, lambda h: h.pop("__metadata__")), "not an index"),
        (lambda c: edited(c, set_in("__metadata__", "version", "2")), "version must be 1, got '2'"),
        (lambda c: edited(c, set_in("__metadata__", "kind", "pq")), "unknown kind"),
        (lambda c: edited(c, set_in("__metadata__", "metric", "cosine")), "unknown metric"),
        (lambda c: edited(c, lambda h: h.pop("lists")), "tensors must be"),
        (lambda c: edited(c, set_in("vectors", "shape", [2**40, 6])), "vectors does not fit"),
        (lambda c: edited(c, set_in("vectors", "shape", [6, 90])), "do not agree"),
        (lambda c: edited(c, set_in("vectors", "dtype", "F64")), "vectors does not fit"),
        (lambda c: edited(c, set_in("lists", "data_offsets", [0, "1"])), "lists does not fit"),
        (lambda c: edited(c, set_in("lists", 3)), "lists does not fit"),
    ],
)
def test_damaged_files_are_refused(damage, message, content, tmp_path):
    path = tmp_path / "damaged"
    path.write_bytes(damage(content))
    with pytest.raises(ValueError, match=message):
        load(path)


def test_lists_that_do_not_exist_are_clipped(vectors, tmp_path):
    """What the numbers of a file are is known on the device alone."""
    index = inverted(vectors)
    index._parts = [(vectors, mx.array(np.resize([-7, 2**31 - 1], 90).astype(np.int32)))]
    path = tmp_path / "index.safetensors"
    index.save(path)
    loaded = load(path)
    loaded.nprobe = 5
    _, ids = loaded.search(vectors, 1)
    assert ids.flatten().tolist() == list(range(90))
