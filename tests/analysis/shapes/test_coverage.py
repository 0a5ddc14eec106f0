"""Which functions and layers of MLX the table of transfer functions has."""

from __future__ import annotations

import pytest

from embercoach.analysis import mlx_api
from embercoach.analysis.shapes.table import LAYER_CALLS, LAYERS, TRANSFERS

oracle = pytest.importorskip("tests.analysis.shapes.oracle")

#: What returns arrays, but has no entry, and why.
LEFT_OUT = {
    "mlx.core.array.__imatmul__": "`x @= y` is asked of mlx.core.matmul",
    "mlx.core.from_dlpack": "the array is of another library",
    "mlx.core.gather_qqmm": "it needs words that no CPU quantizes",
    "mlx.core.load": "what a file has is not known",
    "mlx.core.jvp": "it calls a function of the program",
    "mlx.core.vjp": "it calls a function of the program",
    "mlx.nn.QuantizedAllToShardedLinear": "its sizes depend on the group of machines",
    "mlx.nn.QuantizedShardedToAllLinear": "its sizes depend on the group of machines",
    "mlx.nn.Sequential": "it calls layers of the program",
    "mlx.nn.utils.clip_grad_norm_sharded": "it needs a group of machines",
}


def with_arrays() -> list[str]:
    """Functions, members of arrays and layers that return arrays, by the names of users."""
    found = set()
    for name in mlx_api.names():
        entry = mlx_api.lookup(name)
        if entry is None or entry.name != name:
            continue
        owner = name.rpartition(".")[0]
        returns = entry.returns
        if entry.kind == "class" and mlx_api.is_layer(name):
            returns = entry.call_returns or ""
        elif entry.kind != "function" and owner != "mlx.core.array":
            continue
        if "array" in returns and name.startswith(("mlx.core.", "mlx.nn.")):
            found.add(name)
    return sorted(name for name in found if name.count(".") < 4)


def has_entry(name: str) -> bool:
    return name in TRANSFERS or (name in LAYERS and name in LAYER_CALLS)


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    oracle.load()


def test_what_returns_arrays_has_an_entry_or_a_reason() -> None:
    missing = {name for name in with_arrays() if not has_entry(name)}
    assert missing <= LEFT_OUT.keys(), sorted(missing - LEFT_OUT.keys())


def test_nine_of_ten_have_an_entry() -> None:
    names = with_arrays()
    assert len(names) > 400
    assert sum(map(has_entry, names)) >= 0.9 * len(names)


def test_entries_are_of_mlx() -> None:
    unknown = {
        name
        for name in (*TRANSFERS, *LAYERS)
        if name.startswith("mlx.") and mlx_api.lookup(name) is None
    }
    assert not unknown
