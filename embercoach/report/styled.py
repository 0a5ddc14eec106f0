"""Styled text: spans with a style name, printed plain or, on a terminal, through rich."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TextIO

from embercoach.rulebook import page_url
from embercoach.terminal_text import command_marks, escape_at, escaped, log_line, log_lines

if TYPE_CHECKING:
    from rich.style import Style

#: Text and the name of its style; "" is plain.
Span = tuple[str, str]
Line = list[Span]

STYLES = {
    "error": "bold red",
    "warning": "bold yellow",
    "note": "bold blue",
    "path": "bold",
    "code": "bold",
    "gutter": "blue",
    "help": "cyan",
    "good": "green",
    "faint": "dim",
    "head": "bold",
}
#: Width of excerpts where there is no terminal to ask.
WIDTH = 100

#: Turns links on or off, whatever the terminal is.
FORCE = "FORCE_HYPERLINK"
_PROGRAMS = frozenset(
    ("Hyper", "WarpTerminal", "WezTerm", "ghostty", "iTerm.app", "rio", "terminology", "vscode")
)
_TERMINALS = frozenset(("alacritty", "foot", "xterm-ghostty", "xterm-kitty"))
#: Set by terminals of the same names.
_VARIABLES = ("DOMTERM", "KONSOLE_VERSION", "WT_SESSION")
#: Earlier versions of GNOME's terminal library crash on some links.
_LEAST_VTE = 5000


def wants_color(stream: TextIO) -> bool:
    """Return whether to style output: on terminals without NO_COLOR, or with FORCE_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def width_of(stream: TextIO) -> int:
    """Return the columns to fill."""
    if not stream.isatty():
        return WIDTH
    import shutil

    return max(shutil.get_terminal_size((WIDTH, 24)).columns, 40)


def wraps(stream: TextIO) -> bool:
    """Return whether long lines are wrapped: on terminals that are not dumb."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def wrapped(line: Line, prefix: int, width: int) -> Iterator[Line]:
    """Break a line at spaces; its continuation is indented under the text after a prefix.

    Args:
        line: the spans to break.
        prefix: how many spans come before the text and are not broken.
        width: columns of the terminal; a prefix of more than half of it indents by four columns.
    """
    shown = harmless(line)
    used = _columns(plain(shown[:prefix]))
    indent = used if used <= width // 2 else 4
    starts = []  # where in the text a line begins
    for word in re.finditer(r" *[^ ]+| +\Z", plain(shown[prefix:])):
        size = _columns(word[0])
        if used + size > width and used > indent:
            starts.append(word.start())
            used, size = indent, _columns(word[0].lstrip(" "))
        used += size
    current, at = shown[:prefix], 0
    for text, style in shown[prefix:]:
        first = 0
        while starts and starts[0] < at + len(text):
            start = starts.pop(0) - at
            yield [*current, (text[first:start], style)]
            current = [(" " * indent, "")]
            first = len(text) - len(text[start:].lstrip(" "))
        current.append((text[first:], style))
        at += len(text)
    yield current


def _columns(text: str) -> int:
    if text.isascii():
        return len(text)  # without the time that rich takes to import
    from rich.cells import cell_len

    return cell_len(text)


def plain(line: Line) -> str:
    """Return a line's text."""
    return "".join(text for text, _ in line)


def print_lines(
    lines: Iterable[Line], stream: TextIO, *, color: bool | None = None, rules_url: str = ""
) -> None:
    """Write lines to a stream, styled if it wants colors (or as ``color`` says).

    Every text for people is written here: nothing in it controls a terminal, or is a command
    for a CI runner. Codes of rules are links if the terminal shows them.

    Args:
        lines: the spans of each.
        stream: where to write.
        color: whether to style; None for what the stream wants.
        rules_url: the setting; empty for no links.
    """
    if not (wants_color(stream) if color is None else color):
        stream.write(log_lines([plain(line) for line in lines]))
        return
    from rich.console import Console
    from rich.text import Text

    # The styles need no more. By itself, rich takes a dumb terminal, as CI has, for one without.
    console = Console(
        file=stream, force_terminal=True, color_system="standard", highlight=False, soft_wrap=True
    )
    linked = rules_url if wants_links(stream) else ""
    for line in lines:
        spans = [(text, _styled(text, style, linked)) for text, style in harmless(line)]
        console.print(Text.assemble(*spans), soft_wrap=True)


def _styled(text: str, style: str, rules_url: str) -> Style | str:
    """Return the style of a span; that of a rule's code with a link to its page."""
    plain_style = STYLES.get(style, "")
    url = page_url(text.strip(), rules_url) if style == "code" else None
    if url is None:
        return plain_style
    from rich.style import Style

    return Style.parse(plain_style) + Style(link=url)


def print_text(text: str, stream: TextIO) -> None:
    """Write a text as one plain line."""
    print_lines([[(text, "")]], stream, color=False)


def print_diff(diff: str, stream: TextIO) -> None:
    """Write a unified diff; a line with nothing to escape is as it was, so that patches apply."""
    for line in diff.split("\n")[:-1]:
        end = "\r\n" if line.endswith("\r") else "\n"
        stream.write(log_line(line.removesuffix("\r"), keep_tabs=True) + end)


def harmless(line: Line) -> Line:
    """Return a line whose spans together are what ``log_line`` makes of its text."""
    shown = [(escaped(text), style) for text, style in line]
    marks = command_marks(plain(shown))
    if not marks:
        return shown
    safe: Line = []
    offset = 0
    for text, style in shown:
        safe.append((escape_at(text, marks, offset), style))
        offset += len(text)
    return safe


def wants_links(stream: TextIO) -> bool:
    """Return whether to write hyperlinks, in output that is styled."""
    forced = os.environ.get(FORCE)
    if forced:
        return forced != "0"
    return stream.isatty() and _takes_links(os.environ)


def _takes_links(environment: Mapping[str, str]) -> bool:
    term = environment.get("TERM", "")
    if term == "dumb" or environment.get("CI") or environment.get("TMUX") or "STY" in environment:
        return False  # tmux and screen hide which terminal shows them
    vte = environment.get("VTE_VERSION", "")
    return (
        environment.get("TERM_PROGRAM") in _PROGRAMS
        or term in _TERMINALS
        or any(environment.get(name) for name in _VARIABLES)
        or (vte.isdecimal() and int(vte[:9]) >= _LEAST_VTE)
    )
