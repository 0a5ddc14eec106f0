"""Messages are short: at most 100 characters, and 65 on average; help texts take at most 100."""

from __future__ import annotations

import sys

import pytest

from tests.report.messages import MEAN, Message, described, measured, messages


@pytest.mark.sampled(0)
@pytest.mark.skipif(sys.platform != "linux", reason="the simulator is tested on Linux")
def test_messages_are_short(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = messages(tmp_path_factory.mktemp("messages"))
    assert measured(found) == {"mean": MEAN, "over": 0, "help-over": 0}, described(found)


def test_long_texts_are_counted() -> None:
    found = [
        Message("A-001", "m" * 101, "h" * 100),
        Message("A-002", "m" * 100, f"{'h' * 101}\nwhere"),
        Message("A-003", "m" * 102, f"h\n{'where' * 30}"),
    ]
    assert measured(found) == {"mean": 101, "over": 2, "help-over": 1}
    assert measured([Message("A-001", "m", "h")])["mean"] == 65
