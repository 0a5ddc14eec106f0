from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embercoach.simulator.build.toolchain import Toolchain, find_toolchain
from embercoach.simulator.child_process import Process
from tests.simulator.units import Bench


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    return find_toolchain()


@pytest.fixture(scope="session")
def object_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled objects of this session's tests alone."""
    return tmp_path_factory.mktemp("objects")


@pytest.fixture(scope="module")
def bench(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    process = Process(toolchain)
    yield Bench(toolchain, process, tmp_path_factory.mktemp("units"))
    process.close()
