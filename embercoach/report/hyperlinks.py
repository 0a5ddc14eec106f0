"""Which terminals show hyperlinks (OSC 8); others would print the escape sequence.

The variables are those that ruff and npm's `supports-hyperlinks` read.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping

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
