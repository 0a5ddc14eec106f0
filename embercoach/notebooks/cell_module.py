"""A notebook's code cells as one Python module, IPython's syntax replaced line for line."""

from __future__ import annotations

import ast
import io
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from tokenize import COMMENT, NEWLINE, OP, TokenError, generate_tokens

from msgspec import Struct

from embercoach.finding import Position  # noqa: TC001  (decoding evaluates it)
from embercoach.fixes.source_file import LineIndex
from embercoach.notebooks.notebook_document import Cell, NotebookDocument, read

#: A line that starts with one of these is IPython's: magics, shell, help, and its "autocall".
ESCAPES = frozenset("%!?,;/")
#: Cell magics that run the cell as Python, in the notebook's own names.
PYTHON_CELLS = frozenset({"capture", "debug", "ipytest", "memit", "prun", "time", "timeit"})
#: Line magics that run the rest of the line as Python, with their options that take a value.
PYTHON_LINES = {"lprun": "fmDTu", "memit": "rti", "prun": "lsTD", "time": "", "timeit": "nrp"}
#: Line magics that people write without "%", which IPython allows where it is not Python.
BARE = frozenset(
    (
        *("cat", "cd", "conda", "cp", "env", "ls", "man", "mamba", "matplotlib", "micromamba"),
        *("mkdir", "mv", "pip", "pwd", "reload_ext", "rm", "rmdir", "run", "set_env", "time"),
        *("timeit", "uv", "who", "whos"),
    )
)
#: A letter that no one names a variable: nothing is known of its value.
UNKNOWN = "\N{LATIN LETTER RETROFLEX CLICK}"
NOTHING = "0"


class Magic(Struct, frozen=True):
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


class Plain(Struct, frozen=True):
    """A cell as Python alone, of the same length, and what was left out of it."""

    text: str
    magics: tuple[Magic, ...] = ()


def plain(text: str) -> Plain | None:
    """Return a cell without what is not Python; None where all of it is in another language."""
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
        """Return the first row after the cell magics, None if the cell isn't Python."""
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
    """Return the column where the Python of a line magic starts; None where there is none."""
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


class CellTable(Struct, frozen=True, array_like=True):
    """The code cells in order: the number of each, and its first line in the module.

    Cells are counted as Jupyter's users count them: from 1, those of text among them.
    """

    numbers: tuple[Position, ...]
    first_lines: tuple[Position, ...]

    def place(self, line: int) -> tuple[int, int]:
        """Return the cell's number and the line in it, from 1, of a line of the module."""
        at = self._at(line)
        return self.numbers[at], line - self.first_lines[at] + 1

    def end(self, line: int, end_line: int, end_column: int) -> tuple[int, int]:
        """Where what starts in a line of the module ends in that line's cell: with it at last."""
        at = self._at(line)
        if self._at(end_line) == at:
            return end_line - self.first_lines[at] + 1, end_column
        return self.first_lines[at + 1] - self.first_lines[at] + 1, 1

    def lines(self, line: int) -> tuple[int, int | None]:
        """First and last line in the module of the cell of a line; the last cell is open."""
        at = self._at(line)
        last = self.first_lines[at + 1] - 1 if at + 1 < len(self.first_lines) else None
        return self.first_lines[at], last

    def line_of(self, cell: int, line: int) -> int:
        """Return the line of the module that a cell's line is; the inverse of :meth:`place`.

        Raises:
            ValueError: there is no such code cell.
        """
        return self.first_lines[self.numbers.index(cell)] + line - 1

    def _at(self, line: int) -> int:
        return max(bisect_right(self.first_lines, line) - 1, 0)


#: Before a cell that is indented as a whole, which IPython takes.
HEAD = "if True:\n"
#: What kernels of Python call their language.
_PYTHON = (None, "python", "python3", "ipython")

# A character between the quotes of a JSON string; halves of characters are refused before.
_CHARACTER = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|[^\\]", re.DOTALL)


class ModuleCell(Struct, frozen=True):
    """A code cell in the module.

    Attributes:
        cell: the cell in the file.
        start: where its text starts in the module; a line end of the module follows it.
        text: as it is written.
        magics: what of it is not in the module.
    """

    cell: Cell
    start: int
    text: str
    magics: tuple[Magic, ...]


class Notebook:
    """A notebook of Python.

    Attributes:
        file: the file's text, which is JSON.
        source: the module, without what IPython adds to Python.
        parts: the cells in it.
        table: the cells' lines in it.
    """

    def __init__(self, file: str, document: NotebookDocument) -> None:
        """Join the code cells; ``file`` is what ``document`` was read from."""
        self.file = file
        self.parts: list[ModuleCell] = []
        texts: list[str] = []
        start = 0
        for cell in document.cells:
            known = cell.language in _PYTHON and plain(cell.text)
            if known:
                head = HEAD if _is_indented(known.text) else ""
                self.parts.append(ModuleCell(cell, start + len(head), cell.text, known.magics))
                texts.append(f"{head}{known.text}\n")
                start += len(texts[-1])
        self.source = "".join(texts)
        self.index = LineIndex(self.source)
        self._starts = [part.start for part in self.parts]
        self.table = self._table(self.index, self._starts)
        self._lines: dict[int, LineIndex] = {}
        self._offsets: dict[int, list[int]] = {}
        self._file_index: LineIndex | None = None

    @property
    def escapes(self) -> bool:
        """Return whether the file escapes characters outside of ASCII."""
        return self.file.isascii() and not all(part.text.isascii() for part in self.parts)

    def part_at(self, offset: int) -> ModuleCell:
        """Return the cell that contains an offset of the module, its line end included."""
        return self.parts[max(bisect_right(self._starts, offset) - 1, 0)]

    def place(self, offset: int) -> tuple[int, int, int]:
        """Cell, line in it, and column of an offset of the module, from 1."""
        line, column = self.index.place(offset)
        return (*self.table.place(line), column)

    def _table(self, index: LineIndex, starts: Iterable[int]) -> CellTable:
        numbers = tuple(part.cell.number for part in self.parts)
        return CellTable(numbers, tuple(index.place(start)[0] for start in starts))

    def written(self) -> tuple[LineIndex, CellTable]:
        """Return the cells as they are written, one below the other, and their lines there."""
        texts = [f"{part.text}\n" for part in self.parts]
        starts = accumulate(map(len, texts[:-1]), initial=0)
        index = LineIndex("".join(texts))
        return index, self._table(index, starts)

    def holds(self, cell: int, line: int = 1) -> bool:
        """Return whether there is such a code cell with such a line."""
        return cell in self.table.numbers and line <= len(self.lines(cell).starts)

    def lines(self, cell: int) -> LineIndex:
        """Return a cell as it is written, with the line end that it has in the module.

        Raises:
            ValueError: there is no such code cell.
        """
        if cell not in self._lines:
            text = self.parts[self.table.numbers.index(cell)].text
            self._lines[cell] = LineIndex(f"{text}\n")
        return self._lines[cell]

    def place_in_file(self, cell: int, line: int, column: int) -> tuple[int, int]:
        """Line and column in the file of a place in a cell; those past its end mean the end.

        Raises:
            ValueError: there is no such code cell.
        """
        part = self.parts[self.table.numbers.index(cell)]
        offset = self.lines(cell).offset(line, column)
        if self._file_index is None:
            self._file_index = LineIndex(self.file)
        return self._file_index.place(self.offset_in_file(part, offset))

    def offset_in_file(self, part: ModuleCell, offset: int) -> int:
        """Return the offset in the file of a cell's character; the end for those past it."""
        number = part.cell.number
        if number not in self._offsets:
            self._offsets[number] = self._offsets_of(part.cell)
        offsets = self._offsets[number]
        return offsets[min(offset, len(offsets) - 1)]

    def _offsets_of(self, cell: Cell) -> list[int]:
        """Get where each character of a cell starts in the file, and the end of the last piece."""
        pieces = cell.pieces
        starts = [
            match.start()
            for piece in pieces
            for match in _CHARACTER.finditer(self.file, piece.start, piece.end)
        ]
        return [*starts, pieces[-1].end if pieces else cell.start]


def _is_indented(source: str) -> bool:
    """Return whether a cell starts indented: IPython removes that from all of its lines."""
    first = next((line for line in source.splitlines() if line.strip()), "")
    return first[:1] in (" ", "\t")


def parse(text: str) -> Notebook | None:
    """Return a notebook from its file's text; None where it has no cell of Python.

    Raises:
        NotebookError: it is not a notebook.
    """
    document = read(text)
    if document.language not in _PYTHON:
        return None
    notebook = Notebook(text, document)
    return notebook if notebook.parts else None
