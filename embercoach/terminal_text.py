"""Untrusted text made harmless for terminals and CI logs: the one definition of both.

Names, literals, paths and messages come from what is linted. A terminal acts on control
characters in them, and a CI runner acts on lines that look like its own commands.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, ParamSpec

_P = ParamSpec("_P")

#: Categories of characters that control a terminal, reorder a line, end it or can't be seen:
#: C0 and C1 controls, formats (bidirectional overrides, zero-width characters, tags), halves of
#: surrogate pairs (bytes of file names that are not UTF-8), line and paragraph separators.
#: Zero-width joiners of emoji are among them: two names must not look alike and differ.
_DECEPTIVE = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
#: What GitHub's runner takes for a command: two colons at a line's start, which it trims, and
#: `##[` anywhere; Azure's and TeamCity's are `##vso[` and `##teamcity[`. The group is the
#: character without which it is none.
_COMMAND = re.compile(r"\A\s*(?P<colon>:)(?=:)|#(?P<hash>#)(?=\w*\[)")
_COMMAND_IN_JSON = re.compile(r"#(?=#\w*\[)")
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def is_deceptive(character: str) -> bool:
    """Return whether a character must be escaped for a terminal."""
    # Noncharacters, of which XML and HTML take some for an error; the category is that of
    # letters which a later Unicode has, and those are to be seen.
    noncharacter = ord(character) & 0xFFFE == 0xFFFE or "\ufdd0" <= character <= "\ufdef"
    return noncharacter or unicodedata.category(character) in _DECEPTIVE


class _Escapes(dict[int, str]):
    """The table of ``str.translate``; each entry is computed at its first use."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = shown = escape(character) if is_deceptive(character) else character
        return shown


def escape(character: str) -> str:
    r"""A character as Python's literals write it: ``\x1b``, ``\u202e``."""
    code = ord(character)
    long = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    return _SHORT.get(character) or (long if code < 0x10000 else f"\\U{code:08x}")


_ESCAPES = _Escapes()
_ESCAPES_BUT_TABS = _Escapes({ord("\t"): "\t"})


def escaped(text: str, *, keep_tabs: bool = False) -> str:
    """A text in one line, with deceptive characters as escapes."""
    if text.isprintable():
        return text
    return text.translate(_ESCAPES_BUT_TABS if keep_tabs else _ESCAPES)


def log_line(text: str, *, keep_tabs: bool = False) -> str:
    """A text as one line for a terminal or a log: escaped, and no command of a CI runner."""
    return without_commands(escaped(text, keep_tabs=keep_tabs))


def log_lines(texts: Iterable[str]) -> str:
    """Texts as lines for a terminal or a log, each with its line end."""
    return "".join([f"{log_line(text)}\n" for text in texts])


def without_commands(line: str) -> str:
    """A line that no CI runner takes for a command."""
    marks = command_marks(line)
    return escape_at(line, marks) if marks else line


def command_marks(line: str) -> frozenset[int]:
    """The characters of a line to escape so that no CI runner takes it for a command."""
    if "::" not in line and "##" not in line:
        return frozenset()
    return frozenset(found.start(found.lastgroup or 0) for found in _COMMAND.finditer(line))


def escape_at(text: str, marks: frozenset[int], offset: int = 0) -> str:
    """A text with the marked characters escaped; marks count from ``offset`` before it."""
    return "".join(
        f"\\x{ord(character):02x}" if offset + number in marks else character
        for number, character in enumerate(text)
    )


def json_text(data: Any) -> str:
    """Data as JSON in ASCII, indented, in which no CI runner finds a command."""
    return _COMMAND_IN_JSON.sub(r"\\u0023", json.dumps(data, indent=2))


def json_renderer(document: Callable[_P, Any], end: str = "") -> Callable[_P, str]:
    """A function that writes what ``document`` returns as JSON."""

    def render(*args: _P.args, **options: _P.kwargs) -> str:
        return json_text(document(*args, **options)) + end

    return render


#: Characters of a value that a message quotes at most.
MOST_QUOTED = 60
#: The same for code that a help proposes.
MOST_PROPOSED = 120
#: Characters of a message above which its quoted values are clipped to ``LEAST_QUOTED``.
MOST_SHOWN = 100
LEAST_QUOTED = 24
#: Characters of a message at most, whatever it quotes.
MOST_SAID = 400
#: Characters of a message that is one line, and of a function's name in it.
MOST_IN_LINE = 80
MOST_OF_NAME = 16


def quoted(value: str, most: int = MOST_QUOTED) -> str:
    r"""A value as messages quote it: visible and short.

    Characters that control a terminal, reorder or hide text become escapes such as ``\x1b``.
    """
    # An escape takes several characters: no more of the value than could be shown is looked at.
    text = escaped(value[: most + 1])
    return text if len(text) <= most else f"{text[: most - 1]}…"


def in_file(function: str, file: str, effect: str) -> str:
    """A message about a function of another file: a line in which both names may be cut."""
    start = f"`{quoted(function, MOST_OF_NAME)}()` in "
    most = MOST_IN_LINE - len(start) - len(effect)
    end = escaped(file[-most - 1 :])
    return f"{start}{end if len(end) <= most else f'…{end[1 - most :]}'}{effect}"


@lru_cache(maxsize=1024)
def bounded(message: str, most: int = MOST_QUOTED, whole: int = MOST_SAID) -> str:
    """A message in which nothing between backquotes is long, no word is, nor is the whole.

    Checks write values as they are; this is where the message leaves them.
    """
    if len(message) <= most and message.isprintable():
        return message
    text = _clipped(message, most)
    if len(text) > MOST_SHOWN and most == MOST_QUOTED:
        text = _clipped(message, LEAST_QUOTED, most)
    return quoted(text, whole)


def _clipped(message: str, most_code: int, most_word: int | None = None) -> str:
    parts = message.split("`")
    parts[1::2] = [quoted(part, most_code) for part in parts[1::2]]
    # A value may hold backquotes.
    most = most_word or most_code
    parts[::2] = [" ".join([quoted(word, most) for word in part.split(" ")]) for part in parts[::2]]
    return "`".join(parts)
