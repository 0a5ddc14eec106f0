"""Draw a terminal with the commands of `SESSION` and their output, as an SVG.

`docs/images/terminal.svg` is that picture; `python -m tests.regenerate terminal` writes it.
"""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "terminal.svg"
WIDTH = 112
#: Commands, and how many of the last lines of their output are shown.
SESSION = (
    ("embercoach check examples/attention.py", None),
    ("embercoach shapes examples/attention.py", 9),
)
#: As rich fills it, without a font from the network.
FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
    font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
    font-size: {char_height}px; line-height: {line_height}px;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def picture() -> str:
    """Return the picture of the session in the repository's folder."""
    console = Console(
        file=io.StringIO(), record=True, width=WIDTH, force_terminal=True, color_system="truecolor"
    )
    for command, shown in SESSION:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        lines = _output(command).splitlines()
        console.print(Text.from_ansi("\n".join(lines if shown is None else lines[-shown:])))
        console.print()
    return console.export_svg(title="EmberCoach", unique_id="terminal", code_format=FORMAT)


def _output(command: str) -> str:
    """Return the colored output of a command, whose exit status is 1 where it has findings."""
    words = [sys.executable, "-m", *shlex.split(command)]
    environment = {
        **os.environ,
        "FORCE_COLOR": "1",
        "COLUMNS": str(WIDTH),
        "TERM": "xterm-256color",
    }
    environment.pop("NO_COLOR", None)
    ran = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=False
    )
    if ran.returncode not in (0, 1):
        raise RuntimeError(f"{command}: {ran.stderr}")
    return ran.stdout
