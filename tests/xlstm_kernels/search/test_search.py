"""Indexes of vectors and their files against exact neighbors in NumPy; integers have ties."""

from __future__ import annotations

import json
import math

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.search.oracle import nearest
from xlstm_kernels.search import FlatIndex, IVFFlatIndex, IVFPQIndex, load, top_k

# --- flat --------------------------------------------------------------------------------------


METRICS = pytest.mark.parametrize("metric", ["l2", "inner_product"])


def integers(shape: tuple[int, ...], seed: int, most: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).integers(-most, most, shape).astype(np.float32)


def require_nearest(found, vectors, queries, k, metric, allowed=None) -> None:
    distances, ids = nearest(vectors, queries, k, metric, allowed)
    np.testing.assert_array_equal(np.array(found[0]), distances)
    np.testing.assert_array_equal(np.array(found[1]), ids)


def flat(vectors: np.ndarray, metric: str = "l2") -> FlatIndex:
    index = FlatIndex(vectors.shape[1], metric)
    index.add(mx.array(vectors))
    return index


def inverted(vectors: np.ndarray, nlist: int = 5, metric: str = "l2") -> IVFFlatIndex:
    """A trained index without vectors."""
    index = IVFFlatIndex(vectors.shape[1], nlist, metric)
    index.train(mx.array(vectors))
    return index


@METRICS
def test_flat_search_is_exact(metric, device):
    vectors, queries = integers((200, 7), 1), integers((5, 7), 2)
    queries[3, 2] = np.nan
    vectors[17, 0] = np.nan
    index = FlatIndex(7, metric)
    for part in (vectors[:1], vectors[1:50], vectors[50:]):
        index.add(mx.array(part))
    assert index.ntotal == 200
    require_nearest(
        index.search(mx.array(queries), 11, backend=device), vectors, queries, 11, metric
    )


@METRICS
def test_all_lists_are_the_exact_search(metric, device):
    """Also after parts that are added between searches."""
    vectors, queries = integers((150, 5), 3), integers((4, 5), 4)
    index = inverted(vectors, 6, metric)
    index.nprobe = 6
    for count in (40, 150):
        index.add(mx.array(vectors[index.ntotal : count]))
        found = index.search(mx.array(queries), 9, backend=device)
        require_nearest(found, vectors[:count], queries, 9, metric)


def test_only_the_nearest_lists_are_read(device):
    vectors, queries = integers((150, 5), 5), integers((6, 5), 6)
    index = inverted(vectors, 8)
    index.add(mx.array(vectors))
    index.nprobe, index.max_codes = 2, 150
    centroids = np.array(index._centroids)
    _, lists = nearest(centroids, vectors, 1, "l2")
    _, probes = nearest(centroids, queries, 2, "l2")
    allowed = (lists[None, :, :] == probes[:, None, :]).any(axis=2)
    assert 0 < allowed.mean() < 0.6
    found = index.search(mx.array(queries), 7, backend=device)
    require_nearest(found, vectors, queries, 7, "l2", allowed)


def test_max_codes_bounds_what_a_query_reads(device):
    """All vectors are in one list: of its pages of 32 only the first ones are read."""
    vectors = np.tile(integers((1, 4), 7), (200, 1))
    index = IVFFlatIndex(4, 2)
    index.restore(mx.array([[0.0] * 4, [99.0] * 4]), mx.array(vectors), mx.zeros((200,), mx.int32))
    index.max_codes = 40
    _, ids = index.search(mx.array(vectors[:1]), 100, backend=device)
    assert ids.tolist() == [[*range(96), -1, -1, -1, -1]]
    index.max_codes = index.ntotal
    _, ids = index.search(mx.array(vectors[:1]), 100, backend=device)
    assert ids.tolist() == [list(range(100))]


def test_flat_distances_do_not_cancel(device):
    """Vectors far from the origin: |x|^2 - 2 q.x would lose all digits of the distance."""
    vectors = np.float32(1000) + integers((60, 4), 8) / np.float32(64)
    distances, _ = flat(vectors).search(mx.array(vectors[:3]), 1, backend=device)
    assert distances.tolist() == [[0.0]] * 3


@pytest.mark.parametrize("make", [FlatIndex, lambda d: inverted(integers((20, d), 10), 3)])
def test_an_empty_index_finds_nothing(make):
    index = make(4)
    distances, ids = index.search(mx.zeros((2, 4)), 3)
    assert distances.tolist() == [[math.inf] * 3] * 2
    assert ids.tolist() == [[-1] * 3] * 2
    index.add(mx.zeros((5, 4)))
    assert [array.shape for array in index.search(mx.zeros((0, 4)), 3)] == [(0, 3), (0, 3)]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: FlatIndex(0), ValueError, "dimension must be at least 1"),
        (lambda: FlatIndex(4, "angle"), ValueError, "one of \\['l2', .*got 'angle'"),
        (lambda: FlatIndex(4).add(mx.zeros((2, 5))), ValueError, r"shape \(N, 4\)"),
        (lambda: FlatIndex(4).search(np.zeros((2, 4)), 1), TypeError, "float32 array, got ndarray"),
        (lambda: IVFFlatIndex(4, 2).add(mx.zeros((2, 4))), ValueError, "not trained"),
        (lambda: IVFFlatIndex(4, 2).train(mx.zeros((1, 4))), ValueError, "2 lists need"),
        (lambda: IVFFlatIndex(4, 2).save("unused"), ValueError, "not trained"),
        (lambda: IVFPQIndex(6, 2, 4), ValueError, "dimension must be a multiple of 4, got 6"),
        (lambda: IVFPQIndex(6, 2, 0), ValueError, "m must be at least 1"),
        (lambda: IVFPQIndex(6, 2, 2).add(mx.zeros((2, 6))), ValueError, "not trained"),
        (lambda: IVFPQIndex(6, 2, 2).save("unused"), ValueError, "not trained"),
        (lambda: IVFPQIndex(6, 2, 2).train(mx.zeros((255, 6))), ValueError, "256 codewords need"),
        (lambda: IVFPQIndex(6, 2, 2).train(mx.zeros((300, 5))), ValueError, r"shape \(N, 6\)"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_nprobe_is_checked():
    index = inverted(integers((20, 4), 11), 3)
    for index.nprobe in (0, 1025):
        with pytest.raises(ValueError, match="nprobe must be at"):
            index.search(mx.zeros((1, 4)), 1)


# --- pq ----------------------------------------------------------------------------------------


def quantized(nlist: int, m: int, width: int, metric: str) -> IVFPQIndex:
    """An index of given centroids and codewords, all integers."""
    index = IVFPQIndex(m * width, nlist, m, metric)
    index.restore_codebooks(mx.array(integers((m, 256, width), 1)))
    centroids = mx.array(integers((nlist, m * width), 2, 9))
    index.restore(centroids, mx.zeros((0, m), dtype=mx.uint8), mx.zeros((0,), dtype=mx.int32))
    return index


def decoded(index: IVFPQIndex, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The vectors that codes stand for, and their lists, (N, 1)."""
    centroids, codebooks = np.array(index._centroids), np.array(index._codebooks)
    _, lists = nearest(centroids, vectors, 1, index.metric.value)
    whole = centroids[lists[:, 0]]
    parts = np.split(vectors - whole, index.m, axis=1)
    chosen = [
        book[nearest(book, part, 1, "l2")[1][:, 0]]
        for book, part in zip(codebooks, parts, strict=True)
    ]
    return whole + np.concatenate(chosen, axis=1), lists


@METRICS
@pytest.mark.parametrize(("m", "width"), [(3, 2), (40, 1)], ids=["threadgroup", "device"])
def test_search_is_exact_among_decoded_vectors(metric, m, width, device):
    """With tables in threadgroup memory, and too many for it; also after parts added later."""
    index = quantized(6, m, width, metric)
    vectors, queries = integers((150, m * width), 3, 9), integers((4, m * width), 4, 9)
    queries[2, 1] = np.nan
    whole, lists = decoded(index, vectors)
    centroids = np.array(index._centroids)
    for nprobe, count in ((2, 70), (6, 150)):
        index.add(mx.array(vectors[index.ntotal : count]))
        index.nprobe, index.max_codes = nprobe, 150
        _, probes = nearest(centroids, queries, nprobe, metric)
        allowed = (lists[None, :count] == probes[:, None]).any(axis=2)
        found = index.search(mx.array(queries), 9, backend=device)
        require_nearest(found, whole[:count], queries, 9, metric, allowed)


def test_trained_codewords_approximate_vectors():
    generator = np.random.default_rng(6)
    vectors = generator.standard_normal((1000, 8)).astype(np.float32)
    index = IVFPQIndex(8, 8, 4, nprobe=8)
    index.train(mx.array(vectors), max_points_per_centroid=4)
    assert index.is_trained
    index.add(mx.array(vectors))
    distances, ids = index.search(mx.array(vectors[:100]), 10)
    assert np.mean(np.array(ids) == np.arange(100)[:, None]) * 10 > 0.95
    assert np.array(distances)[:, 0].mean() < 0.2


def test_codebooks_of_a_file_must_fit(tmp_path):
    index = quantized(4, 3, 2, "l2")
    index.restore_codebooks(mx.zeros((3, 256, 1)))
    index.save(tmp_path / "index.safetensors")
    with pytest.raises(ValueError, match="do not agree"):
        load(tmp_path / "index.safetensors")


# --- storage -----------------------------------------------------------------------------------


@pytest.fixture
def vectors() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((90, 6)).astype(np.float32)


def filled(vectors: np.ndarray) -> IVFFlatIndex:
    index = inverted(vectors)
    index.add(mx.array(vectors))
    return index


@METRICS
@pytest.mark.parametrize("kind", ["flat", "ivf", "pq"])
@pytest.mark.parametrize("count", [90, 0])
def test_a_loaded_index_finds_the_same(kind, metric, count, vectors, tmp_path):
    index, path, queries = of_kind(kind, metric), tmp_path / "a.safetensors", mx.array(vectors[:7])
    index.add(mx.array(vectors[:count]))
    before = index.search(queries, 4)
    index.save(path)
    loaded = load(path)
    assert (type(loaded), loaded.metric, loaded.ntotal) == (type(index), index.metric, count)
    if isinstance(index, IVFPQIndex):
        assert (loaded.m, loaded.nlist) == (3, 4)
    for actual, expected in zip(loaded.search(queries, 4), before, strict=True):
        assert actual.tolist() == expected.tolist()
    loaded.add(queries)
    assert loaded.ntotal == count + 7


def test_a_file_keeps_the_name_of_the_file(vectors, tmp_path):
    flat(vectors).save(tmp_path / "vectors.index")
    assert [path.name for path in tmp_path.iterdir()] == ["vectors.index"]
    assert load(tmp_path / "vectors.index").ntotal == vectors.shape[0]


@pytest.fixture
def content(vectors, tmp_path) -> bytes:
    path = tmp_path / "index.safetensors"
    filled(vectors).save(path)
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
        (lambda c: edited(c, set_in("__metadata__", "metric", "angle")), "unknown metric"),
        (lambda c: edited(c, set_in("__metadata__", "nprobe", "-1")), "nprobe must be a number"),
        (lambda c: edited(c, set_in("__metadata__", "max_codes", [1])), "max_codes must be a num"),
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
    index = filled(vectors)
    vectors = mx.array(vectors)
    index._parts = [(vectors, mx.array(np.resize([-7, 2**31 - 1], 90).astype(np.int32)))]
    path = tmp_path / "index.safetensors"
    index.save(path)
    loaded = load(path)
    loaded.nprobe = 5
    _, ids = loaded.search(vectors, 1)
    assert ids.flatten().tolist() == list(range(90))


def test_a_file_keeps_the_bounds_of_a_search(vectors, tmp_path):
    index = filled(vectors)
    index.nprobe, index.max_codes = 3, 64
    path = tmp_path / "index.safetensors"
    index.save(path)
    loaded = load(path)
    assert (loaded.nprobe, loaded.max_codes) == (3, 64)
    index.nprobe = 0
    with pytest.raises(ValueError, match=r"IVFFlatIndex\.save: nprobe must be at least 1"):
        index.save(path)


def test_files_without_bounds_have_the_defaults(content, tmp_path):
    path = tmp_path / "older"
    path.write_bytes(edited(content, lambda header: header["__metadata__"].pop("nprobe")))
    loaded = load(path)
    assert (loaded.nprobe, loaded.max_codes) == (1, None)


# --- ids ---------------------------------------------------------------------------------------


def of_kind(kind: str, metric: str = "l2") -> FlatIndex | IVFFlatIndex | IVFPQIndex:
    """An index of six dimensions, whose lists are all read."""
    if kind == "flat":
        return FlatIndex(6, metric)
    index = quantized(4, 3, 2, metric) if kind == "pq" else IVFFlatIndex(6, 4, metric)
    if kind == "ivf":
        index.train(mx.array(integers((40, 6), 21)))
    index.nprobe = 4
    return index


KINDS = pytest.mark.parametrize("kind", ["flat", "ivf", "pq"])


@KINDS
def test_ids_of_the_caller_and_removal(kind, device, tmp_path):
    """Ids stay with their vectors through removals, a file, and parts that are added later."""
    index, vectors = of_kind(kind), integers((60, 6), 22)
    index.add(mx.array(vectors[:20]))
    own = np.arange(2**40, 2**40 + 20)[::-1].copy()
    index.add_with_ids(mx.array(vectors[20:40]), mx.array(own))
    index.search(mx.array(vectors[:1]), 1, backend=device)  # makes pages
    assert index.remove_ids(mx.array([3, 999, 5, 3], dtype=mx.int32)) == 2
    assert index.remove_ids(mx.array(own[:1])) == 1
    assert index.remove_ids(mx.array(own[:1])) == 0
    index.save(tmp_path / "index.safetensors")
    index = load(tmp_path / "index.safetensors")
    index.add(mx.array(vectors[40:]))
    assert index.ntotal == 57
    labels = np.concatenate([np.arange(20), own, 2**40 + 20 + np.arange(20)])
    stays = ~np.isin(np.arange(60), [3, 5, 20])
    whole = decoded(index, vectors)[0] if kind == "pq" else vectors
    queries = integers((5, 6), 23)
    distances, places = nearest(whole[stays], queries, 60, "l2")
    found = index.search(mx.array(queries), 60, backend=device)
    assert found[1].dtype == mx.int64
    np.testing.assert_array_equal(np.array(found[0]), distances)
    expected = np.where(places < 0, -1, labels[stays][places])
    np.testing.assert_array_equal(np.array(found[1]), expected)


@KINDS
def test_all_vectors_can_be_removed(kind):
    index = of_kind(kind)
    index.add_with_ids(mx.ones((3, 6)), mx.array([7, 7, 8]))
    assert index.remove_ids(mx.array([8, 7])) == 3
    assert (index.ntotal, index.search(mx.zeros((1, 6)), 1)[1].tolist()) == (0, [[-1]])
    index.add(mx.ones((1, 6)))
    assert index.search(mx.zeros((1, 6)), 2)[1].tolist() == [[9, -1]]


def test_the_greatest_id_is_that_of_int64(tmp_path):
    index = FlatIndex(6)
    index.add_with_ids(mx.ones((1, 6)), mx.array([2**63 - 1], dtype=mx.int64))
    index.save(tmp_path / "index.safetensors")
    loaded = load(tmp_path / "index.safetensors")
    assert loaded.search(mx.zeros((1, 6)), 1)[1].tolist() == [[2**63 - 1]]
    with pytest.raises(ValueError, match=r"no greater ids are left; use add_with_ids\(\)"):
        loaded.add(mx.ones((1, 6)))


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([1, 2], TypeError, "ids must be an array of integers, got list"),
        (mx.zeros((2,)), TypeError, "ids must be an array of integers, got .*float32"),
        (mx.array([[1, 2]]), ValueError, r"ids must have shape \(N,\), got \(1, 2\)"),
        (mx.array([1]), ValueError, r"ids must have shape \(2,\), one a vector; got \(1,\)"),
        (mx.array([4, -1]), ValueError, "add_with_ids: ids must not be negative, got -1"),
    ],
)
def test_ids_must_be_integers_one_a_vector(ids, error, message):
    index = FlatIndex(6)
    with pytest.raises(error, match=message):
        index.add_with_ids(mx.zeros((2, 6)), ids)
    assert index.ntotal == 0


# --- cosine ------------------------------------------------------------------------------------


@KINDS
def test_cosine(kind, device, tmp_path):
    """Lengths do not matter, nor do they overflow; the cosine of zero is zero."""
    generator = np.random.default_rng(24)
    vectors = generator.standard_normal((300, 6)).astype(np.float32)
    queries = generator.standard_normal((5, 6)).astype(np.float32)
    wide = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (vectors, queries)]
    vectors *= np.float32(10.0) ** generator.integers(-18, 37, (300, 1))
    vectors[7], wide[0][7] = 0, 0
    index = IVFPQIndex(6, 4, 3, "cosine") if kind == "pq" else of_kind(kind, "cosine")
    if kind != "flat":
        index.train(mx.array(vectors))
        index.nprobe = 4
    index.add(mx.array(vectors))
    index.save(tmp_path / "index.safetensors")
    loaded = load(tmp_path / "index.safetensors")
    assert loaded.metric.value == "cosine"
    cosines, ids = nearest(*wide, 9, "inner_product")
    for searched in (index, loaded):
        found = searched.search(mx.array(queries), 9, backend=device)
        if kind == "pq":  # of the decoded vectors
            np.testing.assert_allclose(np.array(found[0]), cosines, atol=0.1)
        else:
            np.testing.assert_array_equal(np.array(found[1]), ids)
            np.testing.assert_allclose(np.array(found[0]), cosines, atol=3e-7)


# --- top k -------------------------------------------------------------------------------------


def smallest(keys: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    keys = np.where(np.isnan(keys), np.inf, keys)
    keys = np.pad(keys, [(0, 0), (0, max(k - keys.shape[1], 0))], constant_values=np.inf)
    order = np.argsort(keys, axis=1, kind="stable")[:, :k]
    chosen = np.take_along_axis(keys, order, axis=1)
    return chosen, np.where(np.isposinf(chosen), -1, order)


def require_smallest(keys: np.ndarray, k: int, device: str) -> None:
    values, ids = top_k(mx.array(keys), k, backend=device)
    expected, expected_ids = smallest(keys, k)
    np.testing.assert_array_equal(np.array(values), expected)
    np.testing.assert_array_equal(np.array(ids), expected_ids)


@pytest.mark.parametrize(("k", "columns"), [(1, 1), (10, 5), (10, 1500), (33, 200), (70, 3)])
def test_order_with_many_ties(k, columns, device):
    """Integers: the lowest id of equal ones."""
    keys = np.random.default_rng(k).integers(-9, 9, (3, columns)).astype(np.float32)
    keys[0, 0] = -0.0
    require_smallest(keys, k, device)


def test_special_values_are_ordered_or_left_out(device):
    keys = np.random.default_rng(1).standard_normal((4, 700)).astype(np.float32)
    keys[0, ::2], keys[1, :], keys[2, 3:6], keys[3, 2:] = np.nan, np.nan, -np.inf, np.inf
    require_smallest(keys, 8, device)


def test_given_ids(device):
    keys = mx.array([[2.0, 1.0, 1.0, 0.0, 1.0]])
    ids = mx.array([[9, 7, 3, -1, 5]], dtype=mx.int32)
    values, chosen = top_k(keys, 4, ids=ids, backend=device)
    assert values.tolist() == [[1, 1, 1, 2]]
    assert chosen.tolist() == [[3, 5, 7, 9]]


@pytest.mark.parametrize("shape", [(0, 5), (2, 0)])
def test_empty(shape, device):
    values, ids = top_k(mx.zeros(shape), 2, backend=device)
    assert values.tolist() == [[math.inf] * 2] * shape[0]
    assert ids.tolist() == [[-1] * 2] * shape[0]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((mx.zeros((2, 3), dtype=mx.float16), 1), TypeError, "keys must be a .*float32 array"),
        ((mx.zeros((3,)), 1), ValueError, "must have shape"),
        ((mx.zeros((2, 3)), 0), ValueError, "k must be at least 1"),
        ((mx.zeros((2, 3)), 1025), ValueError, "k must be at most 1024"),
        ((mx.zeros((2, 3)), True), TypeError, "k must be an int"),
    ],
)
def test_top_k_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        top_k(*arguments)


def test_ids_must_fit():
    with pytest.raises(TypeError, match="ids must be an int32 array"):
        top_k(mx.zeros((2, 3)), 1, ids=mx.zeros((2, 3)))
    with pytest.raises(ValueError, match="ids must have shape"):
        top_k(mx.zeros((2, 3)), 1, ids=mx.zeros((2, 2), dtype=mx.int32))
