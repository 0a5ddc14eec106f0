"""The texts of findings in the bad examples of rule pages, as the commands print them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from embercoach.testing.rule_pages import page_paths, read_page
from tests.processes import run_python

if TYPE_CHECKING:
    from collections.abc import Iterable

    from embercoach.testing.rule_pages import Block

#: Characters that a message and a help text have at most, and a message on average.
LONGEST, MEAN = 100, 65
LINT = ("--isolated", "--show-notes", "--no-cache", "--jobs", "1")
SIMULATE = ("--isolated", "--show-notes", "--timeout", "0.5", "--", "python")
SUFFIXES = {"python": ".py", "metal": ".metal", "objective-c++": ".mm"}


@dataclass(frozen=True, slots=True)
class Message:
    """A finding's texts."""

    code: str
    message: str
    help: str

    @property
    def remedy(self) -> str:
        """The first line of the help text; those of the simulator have details below."""
        return self.help.partition("\n")[0]


def messages(folder: Path) -> list[Message]:
    """The findings in the bad examples, which are written into a folder."""
    linted, simulated = folder / "linted", folder / "simulated"
    for path in page_paths():
        page = read_page(path)
        for block in page.blocks_of("Bad"):
            _write(block, linted if page.rule.kind is None else simulated)
    compiled = _programs(simulated, "SIM-COMPILE-*.py")
    launched = [path for path in _programs(simulated, "*.py") if path not in compiled]
    return [
        *_printed(folder, "check", *LINT, linted.name),
        *_printed(folder, "simulate", *SIMULATE, _program(folder / "launch.py", launched)),
        *_printed(
            folder,
            "simulate",
            "--compile-only",
            *SIMULATE,
            _program(folder / "compile.py", compiled),
        ),
    ]


def _write(block: Block, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    name = f"{block.path.stem}-{block.line}{SUFFIXES[block.language]}"
    (folder / name).write_text(block.code, encoding="utf-8")


def _programs(folder: Path, pattern: str) -> list[Path]:
    found = sorted(folder.glob(pattern))
    assert found
    return found


def _program(path: Path, parts: Iterable[Path]) -> str:
    """The name of a program that runs the parts."""
    runs = "".join(f"runpy.run_path({str(part)!r})\n" for part in parts)
    path.write_text(f"import runpy\n\n{runs}", encoding="utf-8")
    return path.name


def _printed(folder: Path, command: str, *arguments: str) -> list[Message]:
    command_line = ("embercoach", command, "--output-format", "json", *arguments)
    done = run_python("-m", *command_line, cwd=folder)
    assert done.returncode == 1, done.stderr
    return [
        Message(one["code"], one["message"], one["help"])
        for one in json.loads(done.stdout)["findings"]
    ]


def measured(found: Iterable[Message]) -> dict[str, int]:
    """The mean length, and how many messages and remedies are too long."""
    texts = list(found)
    lengths = [len(one.message) for one in texts]
    return {
        "mean": max(MEAN, math.ceil(sum(lengths) / len(lengths))),
        "over": sum(length > LONGEST for length in lengths),
        "help-over": sum(len(one.remedy) > LONGEST for one in texts),
    }


def described(found: list[Message]) -> str:
    """The figures and the longest texts, to print."""
    by_length = sorted(found, key=lambda one: -len(one.message))
    mean = sum(len(one.message) for one in by_length) / len(by_length)
    by_remedy = sorted(found, key=lambda one: -len(one.remedy))
    return "\n".join(
        [
            f"{len(by_length)} messages, mean {mean:.1f} characters; the longest:",
            *(f"  {len(one.message)} {one.code} {one.message}" for one in by_length[:5]),
            "the longest help texts:",
            *(f"  {len(one.remedy)} {one.code} {one.remedy}" for one in by_remedy[:5]),
        ]
    )
