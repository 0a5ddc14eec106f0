"""One text of a ``.metal`` file: what it includes, and the kernels that its macros make.

The text keeps its layout: what macros make is written out as their definitions are, and macros
that make no kernel stay. ``ported_modules`` reads kernels from it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from embercoach.metal.library import MLX_NAMES, is_standard_header
from embercoach.metal.porting.entry_points import PortError
from embercoach.metal.preprocessor import Directive, Macro, directives, preprocess, read_macros
from embercoach.metal.program.lowering import evaluate
from embercoach.metal.program.texts import as_written
from embercoach.metal.program.types import NAMED
from embercoach.metal.program.written_names import names_of
from embercoach.metal.tokens import Token, tokens, tokens_of

if TYPE_CHECKING:
    #: Takes the name of a file and what it includes; returns the name and text of that, or None.
    Read = Callable[[str, str], tuple[str, str] | None]

_MAX_CHARACTERS = 1 << 20
_MAX_ROUNDS = 40
_MAX_INCLUDED = 200
#: Names that are in every version of MLX's preamble.
_OF_PREAMBLE = ("struct Limits", "elem_to_loc", "bfloat16_t")
#: MLX compiles for Metal 3.1 or later, which has bfloat.
_VERSIONS = ("310", "1000")


class FlatText(Struct, frozen=True):
    """A text made of several.

    Attributes:
        origins: the file and the line of each of its lines; the file is empty for the first one.
    """

    text: str
    origins: tuple[tuple[str, int], ...]

    def origin(self, line: int) -> tuple[str, int]:
        """Return the file and line that a line comes from, both counted from 1."""
        return self.origins[min(line, len(self.origins)) - 1]


class _Splice(NamedTuple):
    """Characters ``start`` to ``end`` of a text, and what replaces them."""

    start: int
    end: int
    new: FlatText | str


def flat_text(text: str, read: Read) -> FlatText:
    """Return a file with its includes, and with the kernels that its macros make.

    Raises:
        PortError: it is too large.
    """
    flat = _included(text, "", read, set())
    if "#" in text:
        flat = _decided(flat)
        for _ in range(_MAX_ROUNDS):
            splices = list(_Uses(flat.text).splices())
            if not splices:
                break
            flat = _spliced(flat, splices)
        flat = _spliced(flat, _unused(flat.text))
    return flat


def _spliced(flat: FlatText, splices: Sequence[_Splice]) -> FlatText:
    rows = [0, *accumulate(len(line) + 1 for line in flat.text.split("\n"))][:-1]
    pieces: list[str] = []
    origins = [flat.origins[0]]
    done = 0
    for splice in (*splices, _Splice(len(flat.text), len(flat.text), "")):
        row = bisect_right(rows, done) - 1
        between = flat.text[done : splice.start]
        origins += flat.origins[row + 1 : row + 1 + between.count("\n")]
        new = splice.new
        if isinstance(new, str):
            at = min(bisect_right(rows, splice.start), len(flat.origins)) - 1
            new = FlatText(new, (flat.origins[at],) * (new.count("\n") + 1))
        origins += new.origins[1:]
        pieces += (between, new.text)
        done = splice.end
    joined = "".join(pieces)
    if len(joined) > _MAX_CHARACTERS:
        raise PortError("macros and included files yield too much")
    return FlatText(joined, tuple(origins))


def _included(text: str, name: str, read: Read, seen: set[str]) -> FlatText:
    """Return a text with the files that it includes, each once."""
    flat = FlatText(text, tuple((name, row + 1) for row in range(text.count("\n") + 1)))
    splices = []
    found = tokens(text)
    for one in directives(found) if "include" in text or "import" in text else ():
        target = "".join(word.text for word in one.words)
        if one.name not in ("include", "import") or is_standard_header(target):
            continue
        file = read(name, target[1:-1]) if target.startswith('"') else None
        if file is None or len(seen) == _MAX_INCLUDED:
            continue
        new = FlatText("", ((name, 1),))
        if file[0] not in seen:
            seen.add(file[0])
            # A file that is a copy of what MLX puts in front of a kernel.
            is_preamble = all(name in file[1] for name in _OF_PREAMBLE)
            own = _beside_preamble(file[1], text) if is_preamble else file[1]
            new = _included(own.rstrip("\n"), file[0], read, seen)
        splices.append(_Splice(*_stretch(found, one), new))
    return _spliced(flat, splices)


def _beside_preamble(text: str, includer: str) -> str:
    """Return the parts of a copy of MLX's preamble that are not in it and that are used."""
    macros = read_macros(text)
    parsed = as_written(text, "file", macros.blanks)
    outer = [one for one in names_of(parsed, macros).declarations if one.depth == 0]
    parts: dict[str, str] = {}
    for part in parsed.tree.inner:
        place = parsed.place(part)
        for one in outer:
            is_plain = one.kind != "namespace" and part.kind not in ("preproc_if", "preproc_ifdef")
            if is_plain and place.start <= one.place.start < place.end:
                is_open = text[place.end : place.end + 1] == ";"
                parts[one.name] = text[place.start : place.end + is_open]
    for name in (*MLX_NAMES, *NAMED):
        parts.pop(name, None)
    kept: list[str] = []
    pending = [includer]
    while pending:
        for name in {token.text for token in tokens_of(pending.pop())} & parts.keys():
            kept.insert(0, parts.pop(name))
            pending.append(kept[0])
    return "\n".join(kept)


def _stretch(found: Sequence[Token], one: Directive) -> tuple[int, int]:
    """Return the stretch of a directive, without the end of its line."""
    return found[one.mark].start, found[one.end - 1].end


def _decided(flat: FlatText) -> FlatText:
    """Return a text without the conditions around kernels, and around macros that make some."""
    found = tokens(flat.text)
    known: dict[str, Macro] = {"__HAVE_BFLOAT__": _number("__HAVE_BFLOAT__", "1")}
    words = _makers([one for one in directives(found) if one.name == "define"]).keys() | {"kernel"}
    around: list[list[Directive]] = []
    splices: list[_Splice] = []
    for one in directives(found):
        if one.name in ("if", "ifdef", "ifndef"):
            around.append([one])
        elif one.name in ("elif", "else") and around:
            around[-1].append(one)
        elif one.name == "endif" and around:
            group = [*around.pop(), one]
            inside = found[group[0].end : one.mark]
            if any(token.kind == "name" and token.text in words for token in inside):
                splices += _without(found, group, known)
        elif one.name == "define" and one.macro is not None:
            known[one.macro.name] = one.macro
    outer: list[_Splice] = []
    for splice in sorted(splices, key=lambda one: (one.start, -one.end)):
        if not outer or splice.start >= outer[-1].end:
            outer.append(splice)
    return _spliced(flat, outer)


def _number(name: str, value: str) -> Macro:
    return Macro(name, None, False, (Token("number", value, 0, 0),))


def _without(
    found: Sequence[Token], group: Sequence[Directive], known: Mapping[str, Macro]
) -> Iterator[_Splice]:
    """Yield the removal of a condition and of what it excludes; nothing if it is undecided."""
    asked = "".join(
        f"#{one.name} {' '.join(word.text for word in one.words)}\n{at}\n"
        for at, one in enumerate(group[:-1])
    )
    answers = {
        preprocess(
            f"{asked}#endif\n",
            evaluate,
            {**known, "__METAL_VERSION__": _number("__METAL_VERSION__", version)},
            foreign=True,
        ).text.strip()
        for version in _VERSIONS
    }
    answer = answers.pop()
    if answers or not (answer == "" or answer.isdigit()):
        return
    for at, (one, after) in enumerate(pairwise(group)):
        start, end = _stretch(found, one)
        yield _Splice(start, end if str(at) == answer else found[after.mark].start, "")
    yield _Splice(*_stretch(found, group[-1]), "")


class _Maker(NamedTuple):
    """A macro that makes kernels or parts of their signatures, with its body as it is written."""

    macro: Macro
    body: tuple[Token, ...]


def _makers(defines: Sequence[Directive], found: Sequence[Token] = ()) -> dict[str, _Maker]:
    """Return the macros whose expansion has an attribute or an entry point."""
    macros = {one.macro.name: one for one in defines if one.macro is not None}
    made: dict[str, _Maker] = {}
    grown = True
    while grown:
        grown = False
        for name, one in macros.items():
            assert one.macro is not None
            if name not in made and (_has_mark(one.macro) or one.macro.names & made.keys()):
                made[name] = _Maker(one.macro, _written(found, one))
                grown = True
    return made


def _has_mark(macro: Macro) -> bool:
    words = [token.text for token in macro.body]
    return "kernel" in words or ("[", "[") in pairwise(words)


def _written(found: Sequence[Token], one: Directive) -> tuple[Token, ...]:
    """Return the tokens of a macro's body with the white space between them."""
    assert one.macro is not None
    if not one.macro.body or not found:
        return ()
    first = one.macro.body[0].start
    return tuple(token for token in found[one.mark : one.end] if token.start >= first)


class _Uses:
    """The uses of macros that make kernels, outside of bodies."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        found = list(directives(self._tokens))
        self._ends = {one.mark: one.end for one in found}
        self._makers = _makers([one for one in found if one.name == "define"], self._tokens)

    def splices(self) -> Iterator[_Splice]:
        """Yield each use with what it makes."""
        at = braces = 0
        while at < len(self._tokens) and self._makers:
            token = self._tokens[at]
            if at in self._ends:
                at = self._ends[at]
                continue
            braces += (token.text == "{") - (token.text == "}")
            maker = self._makers.get(token.text) if braces == 0 and token.kind == "name" else None
            at += 1
            if maker is None:
                continue
            if maker.macro.parameters is None:
                yield _Splice(token.start, token.end, _substituted(maker, {}))
                continue
            called = self._arguments(at)
            arguments = None if called is None else _bound(maker.macro, called[0])
            if called is not None and arguments is not None:
                at = called[1]
                end = self._tokens[at - 1].end
                yield _Splice(token.start, end, _substituted(maker, arguments))

    def _arguments(self, at: int) -> tuple[list[str], int] | None:
        """Return the arguments of a use as written, and the index after it."""
        while at < len(self._tokens) and self._tokens[at].kind in ("space", "newline"):
            at += 1
        if at == len(self._tokens) or self._tokens[at].text != "(":
            return None
        found, depth, start = list[str](), 0, self._tokens[at].end
        while at < len(self._tokens):
            token = self._tokens[at]
            at += 1
            depth += (token.text == "(") - (token.text == ")")
            if depth == 0 or (depth == 1 and token.text == ","):
                found.append(self._text[start : token.start].strip())
                start = token.end
            if depth == 0:
                return found, at
        return None


def _bound(macro: Macro, given: list[str]) -> dict[str, str] | None:
    """Return the arguments by parameter, None for an incorrect number."""
    names = macro.parameters or ()
    if macro.variadic:
        fixed = len(names) - 1
        given = [*given[:fixed], ", ".join(given[fixed:])]
    if not names and given == [""]:
        given = []
    return dict(zip(names, given, strict=True)) if len(names) == len(given) else None


def _substituted(maker: _Maker, arguments: Mapping[str, str]) -> str:
    """Return the body of a macro with its arguments put in, on as many lines as it is written."""
    pieces: list[str] = []
    quoted = pasted = False
    for token in maker.body:
        if token.kind == "space":
            if not pasted:
                *lines, last = token.text.split("\\\n")
                pieces.append("".join(f"{line.rstrip()}\n" for line in lines) + last)
            continue
        text = token.text
        if text == "##":
            while pieces and not pieces[-1].strip():
                pieces.pop()
            pasted = True
            continue
        if text == "#" and arguments:
            quoted = True
            continue
        if token.kind == "name" and text in arguments:
            text = arguments[text]
        if quoted:
            text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        if pasted and not text and pieces and pieces[-1] == ",":
            pieces.pop()
        pieces.append(text)
        quoted = pasted = False
    return "".join(pieces)


def _unused(text: str) -> list[_Splice]:
    """Return the removal of macros that made kernels, where nothing else names them."""
    found = tokens(text)
    defines = [one for one in directives(found) if one.name == "define" and one.macro is not None]
    makers = _makers(defines)
    bodies = {
        at for one in defines if one.words[0].text in makers for at in range(one.mark, one.end)
    }
    named = {token.text for at, token in enumerate(found) if at not in bodies}
    return [
        _Splice(*_stretch(found, one), "")
        for one in defines
        if one.words[0].text in makers and one.words[0].text not in named
    ]
