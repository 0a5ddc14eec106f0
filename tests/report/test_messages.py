"""Messages are short: at most 100 characters, and 65 on average; help texts take at most 100."""

from __future__ import annotations

import sys

import pytest

from tests.examples.programs import imported
from tests.report.messages import Message, described, measured, messages

language = imported(".ci/language.py")


@pytest.mark.sampled(0)
@pytest.mark.skipif(sys.platform != "linux", reason="the simulator is tested on Linux")
def test_messages_are_no_longer_than_before(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = messages(tmp_path_factory.mktemp("messages"))
    differences = language.differences(measured(found), language.allowed_counts()["messages"])
    assert differences == {}, described(found)


def test_long_texts_are_counted() -> None:
    found = [
        Message("A-001", "m" * 101, "h" * 100),
        Message("A-002", "m" * 100, f"{'h' * 101}\nwhere"),
        Message("A-003", "m" * 102, f"h\n{'where' * 30}"),
    ]
    assert measured(found) == {"mean": 101, "over": 2, "help-over": 1}
    assert measured([Message("A-001", "m", "h")])["mean"] == 65
