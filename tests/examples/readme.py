"""README.md as the tests see it: fenced blocks by heading, and the output that it shows.

Run from the repository root as `python -m tests.examples.readme` to write what the command under
"Try it" prints today into the README.
"""

from __future__ import annotations

import functools
import re
import sys
from dataclasses import dataclass

from markdown_it import MarkdownIt

from tests.examples.programs import PLANTED, ROOT, check

README = ROOT / "README.md"
REGENERATE = "run `python -m tests.examples.readme` to show today's output"

# The findings that the README shows; the others are cut out.
SHOWN = ("DTYPE-002", "KERNEL-SIG-005", "HOST-PULL-002", "GRAPH-BREAK-003")
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


def regenerated(markdown: str) -> str:
    """The document with today's output."""
    old = block(markdown, "Try it", "text")
    lines = markdown.splitlines(keepends=True)
    return "".join([*lines[: old.start + 1], printed(), *lines[old.end - 1 :]])


def main() -> int:
    """Rewrite the README."""
    markdown = README.read_text(encoding="utf-8")
    README.write_text(regenerated(markdown), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
