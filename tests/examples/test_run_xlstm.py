"""The small xLSTM generates, and tells whether a token at a time gives what the whole gives."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.examples.programs import LANGUAGE, ROOT, TRAINING, XLSTM, check, findings, run

if TYPE_CHECKING:
    pass


def test_it_runs() -> None:
    result = run(XLSTM)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    sizes, generated, compared = result.stdout.splitlines()
    assert sizes == "816,920 parameters; blocks: mLSTMBlock, sLSTMBlock, mLSTMBlock, mLSTMBlock"
    tokens = re.fullmatch(r"read 44 tokens, generated 32: \[((\d+, ){7}\d+)\]", generated)
    assert tokens is not None
    assert len(set(tokens[1].split(", "))) > 1
    (error,) = re.findall(r"relative error (\d\.\de-\d\d)$", compared)
    assert 0 < float(error) < 5e-6


def test_it_obeys_its_options() -> None:
    outputs = [run(XLSTM, "--tokens", "3", "--prompt", "x", "--seed", seed) for seed in "112"]
    assert [one.returncode for one in outputs] == [0, 0, 0]
    first, again, other = (one.stdout for one in outputs)
    assert first == again != other
    assert "read 1 tokens, generated 3:" in first


@pytest.mark.parametrize("options", [("--prompt", ""), ("--tokens", "0")])
def test_it_refuses_to_do_nothing(options: tuple[str, ...]) -> None:
    result = run(XLSTM, *options)
    assert result.returncode == 2
    assert "there must be a prompt, and at least one token to generate" in result.stderr


def test_nothing_in_it_is_found() -> None:
    assert {one["severity"] for one in findings(XLSTM)} == {"note"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("profile", ["recommended", "ember"])
@pytest.mark.parametrize("path", [TRAINING, LANGUAGE])
def test_nothing_in_trainings_is_found(path: str, profile: str) -> None:
    """But for numbers that people read, each with its reason."""
    result = check("--profile", profile, path)
    assert result.returncode == 0, result.stdout
    source = (ROOT / path).read_text(encoding="utf-8")
    reasons = re.findall(r"# embercoach: ignore\[[A-Z-]+001\] (.+)$", source, re.MULTILINE)
    assert len(reasons) == source.count("embercoach: ignore") >= 3
