"""Compiled kernels run as the user: what somebody else may have put into the cache is not used."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from embercoach.simulator.build.object_cache import GRACE, ObjectCache
from embercoach.simulator.model import SimulatorError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the simulator needs Unix")


@pytest.fixture
def cache(tmp_path: Path) -> ObjectCache:
    cache = ObjectCache(tmp_path / "cache", most_bytes=10)
    with cache.making() as made:
        (made / "kernel.so").write_bytes(b"code")
        cache.put("key", made, {})
    assert cache.get("key") is not None
    return cache


def link_entry(folder: Path) -> None:
    folder.symlink_to(folder.rename(folder.parents[1] / "elsewhere"))


def link_object(folder: Path) -> None:
    code = (folder / "kernel.so").rename(folder.parents[1] / "elsewhere")
    (folder / "kernel.so").symlink_to(code)


def pipe_facts(folder: Path) -> None:
    (folder / "entry.json").unlink()
    os.mkfifo(folder / "entry.json")


def pipe_object(folder: Path) -> None:
    (folder / "kernel.so").unlink()
    os.mkfifo(folder / "kernel.so")


def nest(folder: Path) -> None:
    (folder / "entry.json").write_bytes(b"[" * 100_000)


@pytest.mark.parametrize("change", [link_entry, link_object, pipe_facts, pipe_object, nest])
def test_odd_entries_are_misses(cache: ObjectCache, change: object) -> None:
    change(cache.root / "key")  # type: ignore[operator]
    assert cache.get("key") is None


def test_a_linked_entry_is_not_swept(cache: ObjectCache, tmp_path: Path) -> None:
    link_entry(cache.root / "key")
    then = time.time() - 2 * GRACE
    os.utime(tmp_path / "elsewhere" / "entry.json", (then, then))
    cache.sweep()
    assert (cache.root / "key").is_symlink()
    assert (tmp_path / "elsewhere" / "kernel.so").exists()


def test_a_cache_of_another_user_is_refused(
    cache: ObjectCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert cache.get("key") is None
    with pytest.raises(SimulatorError, match="another user"), cache.making():
        pass
