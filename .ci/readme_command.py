"""Print the command in the fenced block under one heading of a Markdown file.

Usage: python .ci/readme_command.py README.md "Test it"

The gate runs the README's command, so that the two can't differ. This uses only the standard
library, because the gate calls it before it installs anything.
"""

from __future__ import annotations

import sys
from pathlib import Path

_FENCES = ("```", "~~~")


def command_under(markdown: str, heading: str) -> str:
    """Return the text of the first fenced block between ``heading`` and the next heading.

    Args:
        markdown: The document.
        heading: The heading's text without its leading ``#``, compared without case.

    Raises:
        LookupError: The heading is missing, it has no fenced block, or the block is empty.
    """
    block: list[str] | None = None
    fence = ""
    inside = False
    for line in markdown.splitlines():
        stripped = line.strip()
        if fence:
            if stripped == fence:
                if block is not None:
                    return _not_empty("\n".join(block), heading)
                fence = ""
            elif block is not None:
                block.append(line)
        elif stripped.startswith(_FENCES):
            fence = stripped[: len(stripped) - len(stripped.lstrip(stripped[0]))]
            block = [] if inside else None
        elif line.startswith("#"):
            if inside:
                break
            inside = line.strip("# ").casefold() == heading.casefold()
    missing = "fenced code block under the heading" if inside else "heading"
    raise LookupError(f"no {missing} {heading!r}")


def _not_empty(command: str, heading: str) -> str:
    if not command.strip():
        raise LookupError(f"the fenced code block under the heading {heading!r} is empty")
    return command


def main(arguments: list[str]) -> int:
    """Print the command; return 2 with a line on stderr if there is none."""
    if len(arguments) != 2:
        print("usage: readme_command.py FILE HEADING", file=sys.stderr)
        return 2
    path, heading = arguments
    try:
        print(command_under(Path(path).read_text(encoding="utf-8"), heading))
    except (OSError, UnicodeDecodeError, LookupError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
