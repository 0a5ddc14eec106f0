"""Bounds for what messages quote of linted code, whose author may write anything."""

from __future__ import annotations

from functools import lru_cache

from embercoach.terminal_text import escaped

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
