"""Replace IPython syntax by plain Python of the same length, line for line.

Jupyter rewrites a cell before Python sees it. Here its magics and shell lines are replaced by
statements without effect, so that every other character stays where it was. Python that a magic
runs (``%time f(x)``) stays, too.
"""

from __future__ import annotations

import ast
import io
import warnings
from dataclasses import dataclass
from tokenize import COMMENT, NEWLINE, OP, TokenError, generate_tokens

from embercoach.fixes.source_file import LineIndex

#: A line that starts with one of these is IPython's: magics, shell, help, and its "autocall".
ESCAPES = frozenset("%!?,;/")
#: Cell magics that run the cell as Python, in the notebook's own names.
PYTHON_CELLS = frozenset({"capture", "debug", "ipytest", "memit", "prun", "time", "timeit"})
#: Line magics that run the rest of the line as Python, with their options that take a value.
PYTHON_LINES = {"lprun": "fmDTu", "memit": "rti", "prun": "lsTD", "time": "", "timeit": "nrp"}
#: Line magics that people write without "%", which IPython allows where it is not Python.
BARE = frozenset(
    {
        "cat",
        "cd",
        "conda",
        "cp",
        "env",
        "ls",
        "man",
        "mamba",
        "matplotlib",
        "micromamba",
        "mkdir",
        "mv",
        "pip",
        "pwd",
        "reload_ext",
        "rm",
        "rmdir",
        "run",
        "set_env",
        "time",
        "timeit",
        "uv",
        "who",
        "whos",
    }
)
#: A letter that no one names a variable: nothing is known of its value.
UNKNOWN = "\N{LATIN LETTER RETROFLEX CLICK}"
NOTHING = "0"


@dataclass(frozen=True, slots=True)
class Magic:
    """The IPython syntax of a cell, as offsets in its text.

    Attributes:
        start: the first character that is not Python.
        stop: where Python goes on, or the end.
        end: the end of the last line.
        opens: whether it is a cell magic, before which nothing may stand.
    """

    start: int
    stop: int
    end: int
    opens: bool = False


@dataclass(frozen=True, slots=True)
class Plain:
    """A cell as Python alone, of the same length, and what was left out of it."""

    text: str
    magics: tuple[Magic, ...] = ()


def plain(text: str) -> Plain | None:
    """A cell without what is not Python; None where all of it is in another language."""
    index = LineIndex(text)
    rows = range(1, len(index.starts) + 1)
    if not any(_suspicious(index.line(row)) for row in rows):
        return Plain(text)
    return _Cell(index).plain()


def _suspicious(line: str) -> bool:
    bare = line.strip()
    if not bare:
        return False
    assigns = "=" in bare and ("!" in bare or "%" in bare)
    return bare[0] in ESCAPES or bare[-1] == "?" or assigns or bare.split()[0] in BARE


class _Cell:
    """A cell in the making."""

    def __init__(self, index: LineIndex) -> None:
        self._index = index
        self._count = len(index.starts)
        self._parts = [index.line(row) for row in range(1, self._count + 1)]
        self._magics: list[Magic] = []

    def plain(self) -> Plain | None:
        row = self._head()
        if row is None:
            return None
        while row <= self._count:
            row = self._statement(row) + 1
        return Plain(self._text(), tuple(self._magics))

    def _head(self) -> int | None:
        """The first row after the cell magics, None if the cell isn't Python."""
        for row, line in enumerate(self._parts, 1):
            if not line.strip():
                continue
            if not line.startswith("%%"):
                return row
            words = line[2:].split()
            if len(words) == 1 and words[0].endswith("?"):
                return row  # asks for help alone
            if not words or words[0] not in PYTHON_CELLS:
                return None
            self._put(row, row, "", opens=True)
        return self._count + 1

    def _statement(self, row: int) -> int:
        """Look at the statement that starts in a row; the last row of it."""
        line = self._parts[row - 1]
        bare = line.strip()
        if not bare or bare[0] == "#":
            return row
        indent = len(line) - len(line.lstrip())
        if bare[0] in ESCAPES:
            return self._escaped(row, indent)
        if bare[-1] == "?" and _is_whole(bare.rstrip("?")):
            self._put(row, row, NOTHING, start=indent)
            return row
        if bare.split()[0] in BARE and not _is_python(bare):
            return self._escaped(row, indent)
        return self._python(row)

    def _escaped(self, row: int, indent: int) -> int:
        last = self._last_continued(row)
        line = self._parts[row - 1]
        payload = _payload(line, indent) if last == row else None
        if payload is None:
            self._put(row, last, NOTHING, start=indent)
        else:
            self._put(row, row, f"{NOTHING};", start=indent, stop=payload)
        return last

    def _python(self, row: int) -> int:
        """Read a statement of Python up to its end, or to a magic whose result it assigns."""
        depth = 0
        lines = _Lines(self._index, row)
        try:
            for item in generate_tokens(lines):
                if item.type == NEWLINE:
                    return row + item.start[0] - 1
                if item.type != OP:
                    continue
                depth += (item.string in "([{") - (item.string in ")]}")
                if item.string == "=" and not depth:
                    at = row + item.end[0] - 1
                    value = self._parts[at - 1][item.end[1] :]
                    if value.lstrip()[:1] in ("!", "%"):
                        start = len(self._parts[at - 1]) - len(value.lstrip())
                        end = self._last_continued(at)
                        self._put(at, end, UNKNOWN, start=start)
                        return end
        except (TokenError, SyntaxError):
            pass  # what is never closed: the parser reports it
        return lines.row - 1

    def _last_continued(self, row: int) -> int:
        while row < self._count and self._parts[row - 1].endswith("\\"):
            row += 1
        return row

    def _put(
        self,
        row: int,
        last: int,
        instead: str,
        *,
        start: int = 0,
        stop: int | None = None,
        opens: bool = False,
    ) -> None:
        """Write something else for the columns of a row, and nothing for the rows up to the last.

        Args:
            row: the first row.
            last: the last row.
            instead: what is written, filled up with spaces.
            start: the first column, from 0.
            stop: where Python goes on; None for nowhere.
            opens: whether it is a cell magic.
        """
        starts = self._index.starts
        line = self._parts[row - 1]
        end = len(line) if stop is None else stop
        self._parts[row - 1] = line[:start] + instead.ljust(end - start) + line[end:]
        begin = starts[row - 1]
        finish = starts[last - 1] + len(self._parts[last - 1])
        going_on = finish if stop is None else begin + stop
        self._magics.append(Magic(begin + start, going_on, finish, opens))
        for number in range(row + 1, last + 1):
            self._parts[number - 1] = " " * len(self._parts[number - 1])

    def _text(self) -> str:
        text, starts = self._index.text, self._index.starts
        ends = [*starts[1:], len(text)]
        rows = zip(self._parts, starts, ends, strict=True)
        return "".join(part + text[start + len(part) : end] for part, start, end in rows)


class _Lines:
    """Hands out a cell's lines from a row on; ``row`` is the next one."""

    def __init__(self, index: LineIndex, row: int) -> None:
        self._index = index
        self.row = row

    def __call__(self) -> str:
        if self.row > len(self._index.starts):
            return ""
        self.row += 1
        return f"{self._index.line(self.row - 1)}\n"


def _payload(line: str, indent: int) -> int | None:
    """The column where the Python of a line magic starts; None where there is none."""
    if line[indent] != "%" or line[indent : indent + 2] == "%%":
        return None
    words = line[indent + 1 :].split()
    name = words.pop(0) if words else ""
    if name not in PYTHON_LINES:
        return None
    at = line.index(name, indent) + len(name)
    while words and words[0].startswith("-"):
        option = words.pop(0)
        at = line.index(option, at) + len(option)
        # "-n 5", and "-n5".
        if len(option) == 2 and option[1] in PYTHON_LINES[name] and words:
            value = words.pop(0)
            at = line.index(value, at) + len(value)
    if not words:
        return None
    at = line.index(words[0], at)
    return at if _is_python(f"{NOTHING};{line[at:]}") else None


def _is_python(line: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(line)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _is_whole(line: str) -> bool:
    """Return whether a line ends outside of strings and comments."""
    try:
        return all(t.type != COMMENT for t in generate_tokens(io.StringIO(line).readline))
    except (TokenError, SyntaxError):
        return False
