"""What README shows of the examples is true. tests/docs plays the rest of it, as all documents."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from embercoach import rulebook
from tests.examples.programs import PLANTED, RACE, ROOT, check, findings
from tests.examples.readme import (
    README,
    REGENERATE,
    SIMULATOR,
    block,
    printed,
    simulated,
    without_times,
)
from tests.simulator.suite_cases import BUGS, CLEAN

TEXT = README.read_text(encoding="utf-8")
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the simulator is tested on Linux")


# --- the commands and what they print ----------------------------------------------------------


def test_the_first_command_lints_the_example() -> None:
    install, _, lint = block(TEXT, "Try it", "bash").text.strip().partition(" && ")
    assert shlex.split(install)[-3:] == ["pip", "install", "."]
    assert shlex.split(lint) == ["embercoach", "check", PLANTED]


@ON_LINUX
def test_the_simulator_is_shown_at_work() -> None:
    install, simulate = block(TEXT, SIMULATOR, "bash").text.splitlines()
    assert shlex.split(install) == ["python", "-m", "pip", "install", "embercoach[simulator]"]
    assert shlex.split(simulate) == ["embercoach", "simulate", "--", "python", RACE]
    shown = block(TEXT, SIMULATOR, "text").text
    assert without_times(shown) == without_times(simulated()), REGENERATE
    assert "SIM-RACE-001" in shown
    assert shown.startswith(("correct\n", "incorrect\n"))


def test_the_shown_output_is_what_the_command_prints() -> None:
    assert block(TEXT, "Try it", "text").text == printed(), REGENERATE


# --- the figures -------------------------------------------------------------------------------


def figure(words: str) -> list[int]:
    """The whole numbers in the result of the row of the figures that contains the words."""
    (row,) = re.findall(rf"^\|[^|]*{words}[^|]*\| ([^|]+) \|$", TEXT, re.MULTILINE)
    return [int(number) for number in re.findall(r"\d+", row)]


def test_the_number_of_rules() -> None:
    assert figure("whose evidence runs") == [len(rulebook.codes())], REGENERATE


def test_the_number_of_problems_in_the_example() -> None:
    found = findings(PLANTED)
    assert figure("problems of the example")[0] == sum(one["severity"] != "note" for one in found)


def test_the_numbers_of_the_suite_of_kernels() -> None:
    assert figure("injected kernel bugs") == [len(BUGS), len(BUGS)]
    assert figure("correct kernels") == [0, len(CLEAN)]


def test_the_number_of_operators() -> None:
    page = (ROOT / "docs" / "kernel-pack.md").read_text(encoding="utf-8")
    table = page.partition("| what | function | layouts |\n")[2].partition("\n\n")[0]
    operators = re.findall(r"^\| .+ \| `\w+` \| .+ \|$", table, re.MULTILINE)
    assert f"has [{len(operators)} operators]" in TEXT


# --- the snippets ------------------------------------------------------------------------------


def test_the_kernel_example_is_clean(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "kernel-pack.md").read_text(encoding="utf-8")
    path = tmp_path / "pack.py"
    path.write_text(block(page, "The kernel pack", "python").text, encoding="utf-8")
    result = check("--isolated", str(path))
    assert result.returncode == 0, result.stdout
