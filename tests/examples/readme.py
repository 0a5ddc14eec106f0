"""README.md as the tests see it: fenced blocks by heading, and the output that it shows."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

from embercoach import rulebook
from tests.examples.programs import PLANTED, RACE, ROOT, check

if TYPE_CHECKING:
    from collections.abc import Mapping

README = ROOT / "README.md"
REGENERATE = "run `python -m tests.regenerate readme` to show today's output"

TRY, SIMULATOR = "Try it", "Run kernels without a Mac"
#: The rules whose findings the README shows; the others are cut out.
SHOWN = ("HOST-PULL-002",)
CUT = "..."


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: the heading it stands under, its language, its text, its lines from 0."""

    heading: str
    language: str
    text: str
    start: int
    end: int


def blocks(markdown: str) -> list[Block]:
    """The fenced blocks of a document, in order."""
    heading = ""
    found = []
    tokens = MarkdownIt().parse(markdown)
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            heading = tokens[number + 1].content
        elif token.type == "fence":
            assert token.map is not None
            found.append(Block(heading, token.info.strip(), token.content, *token.map))
    return found


def block(markdown: str, heading: str, language: str) -> Block:
    """The only block of a language under a heading."""
    (found,) = (b for b in blocks(markdown) if (b.heading, b.language) == (heading, language))
    return found


def excerpt(output: str) -> str:
    """The output with only the findings of ``SHOWN``; a line of dots for each gap."""
    *findings, summary = re.split(r"\n\n(?=\S)", output.rstrip("\n"))
    parts: list[str] = []
    for finding in findings:
        code = finding.split()[1]
        if code in SHOWN:
            parts.append(finding)
        elif not parts or parts[-1] != CUT:
            parts.append(CUT)
    return "\n\n".join([*parts, summary]) + "\n"


@functools.cache
def printed() -> str:
    """What the command of the README prints, in this checkout."""
    result = check(PLANTED)
    assert result.stderr == ""
    return excerpt(result.stdout)


@functools.cache
def simulated() -> str:
    """What the simulator prints of the example with the race, in this checkout."""
    command = [sys.executable, "-m", "embercoach", "simulate", "--", "python", RACE]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def without_times(output: str) -> str:
    """The output without its seconds, which differ from run to run."""
    return re.sub(r"\d+\.\d{2,3}\b", "SECONDS", output)


def regenerated(markdown: str, outputs: Mapping[str, str]) -> str:
    """The document with the outputs of today under their headings."""
    for heading, output in outputs.items():
        old = block(markdown, heading, "text")
        lines = markdown.splitlines(keepends=True)
        markdown = "".join([*lines[: old.start + 1], output, *lines[old.end - 1 :]])
    return markdown


def regenerate() -> None:
    """Write what the commands print today, and the number of rules, into the README."""
    markdown = README.read_text(encoding="utf-8")
    rules = len(rulebook.codes())
    markdown = re.sub(
        r"^(\| rules, .+ \| )\d+( \|)$", rf"\g<1>{rules}\g<2>", markdown, flags=re.MULTILINE
    )
    outputs = {TRY: printed(), SIMULATOR: simulated()}
    README.write_text(regenerated(markdown, outputs), encoding="utf-8")
