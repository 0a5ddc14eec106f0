"""Kernels that memory bounds move little more than they have to."""

from __future__ import annotations

import sys

import pytest

from tests.benchmarks.traffic import BAR, ENTRIES, Entry, device_bytes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulator is tested on Linux")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
@pytest.mark.sampled(3)
def test_bytes_are_within_the_bar(entry: Entry) -> None:
    counted = device_bytes(entry)
    # Fewer are impossible: then the minimum would be wrong.
    assert entry.minimum <= counted <= BAR * entry.minimum
