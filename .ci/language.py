"""Lint the project's own texts: report words that `.ci/language.toml` excludes.

Usage: python .ci/language.py [PATH...]

Paths are files and folders of a checkout, by default all that the repository tracks but tests. Of
Python, comments, docstrings and literals of several words are texts; of Markdown, what is neither
code nor a link's address; of schemas, keys and values; of other languages, comments and literals.
Code in backticks is skipped everywhere.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tokenize
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from pygments import lexers
from pygments.token import Comment, Literal, Name, Text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from markdown_it.token import Token
    from pygments.lexer import Lexer
    from pygments.token import _TokenType

HERE = Path(__file__).parent
ROOT = HERE.parent
TERMS = HERE / "language.toml"
#: Code in a text: no phrase runs across it.
CODE = "\0"
#: Files that hold the excluded words as data, and other people's text.
NOT_OURS = {"language.toml", "LICENSE"}
#: The characters on either side of a word in which a phrase that allows it may begin and end.
LONGEST_PHRASE = 80


@dataclass(frozen=True)
class Term:
    """The phrases that allow an excluded word, and the replacement."""

    allowed: re.Pattern[str]
    instead: str


@dataclass(frozen=True, order=True)
class Hit:
    """An excluded word at its place; the path is relative to the folder of the checkout."""

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r}: write {self.instead}"


@dataclass(frozen=True)
class Language:
    """All excluded words as one pattern, a group for each term, and the terms."""

    words: re.Pattern[str]
    terms: tuple[Term, ...]


def _phrases(alternatives: Iterable[str]) -> re.Pattern[str]:
    spaced = "|".join(alternatives).replace(" ", r"\s+")
    return re.compile(rf"(?<![\w$.-])(?:{spaced})(?![\w-])", re.IGNORECASE)


@cache
def excluded() -> Language:
    """Return the terms of `language.toml`."""
    table = tomllib.loads(TERMS.read_text(encoding="utf-8"))
    quoted = [re.escape(phrase).replace(r"\ ", " ") for phrase in table["quotations"]["phrases"]]
    entries = table["term"]
    return Language(
        _phrases(f"({entry['words']})" for entry in entries),
        tuple(
            Term(_phrases([*entry.get("except", ()), *quoted]), entry["instead"])
            for entry in entries
        ),
    )


def words(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the excluded words of a text: offset, word, and the replacement."""
    for found in excluded().words.finditer(text):
        start, end = found.span()
        first = max(0, start - LONGEST_PHRASE)
        term = excluded().terms[(found.lastindex or 1) - 1]
        around = term.allowed.finditer(text[first : end + LONGEST_PHRASE])
        if not any(
            first + one.start() <= start and end <= first + one.end() for one in around if one[0]
        ):
            yield start, " ".join(found[0].split()), term.instead


# --- Python ------------------------------------------------------------------------------------

#: Tokens of f-strings from Python 3.12 on; older ones read each as a string.
F_STRING_START = getattr(tokenize, "FSTRING_START", -1)
F_STRING_END = getattr(tokenize, "FSTRING_END", -1)
BETWEEN_STATEMENTS = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
NO_CODE = {tokenize.NL, tokenize.COMMENT}
QUOTES = re.compile(r"([A-Za-z]*)(\"\"\"|'''|\"|')")


class Kind(Enum):
    """The texts of a Python file; a docstring is a literal that is a whole statement."""

    COMMENT = 1
    DOCSTRING = 2
    LITERAL = 3


def python_text(source: str) -> tuple[str, list[tuple[int, str]]]:
    """Return the source with all but its texts masked, at the same offsets; and openings.

    An opening is the line and the word of a docstring that begins with "What" or "Whether".
    """
    starts = [0, *accumulate(map(len, source.splitlines(keepends=True)))]
    parts, openings, last = [], [], 0
    for kind, place, end in _texts_of(source):
        start, stop = (starts[row - 1] + column for row, column in (place, end))
        text = source[start:stop]
        shown = " " + text[1:] if kind is Kind.COMMENT else _literal(text, kind)
        first = shown.split(maxsplit=1)[:1]
        if kind is Kind.DOCSTRING and first and first[0] in ("What", "Whether"):
            openings.append((place[0], first[0]))
        parts += [_masked(source[last:start]), shown]
        last = stop
    return "".join([*parts, _masked(source[last:])]), openings


def _masked(text: str) -> str:
    return re.sub(r"\S", CODE, text)


def _texts_of(source: str) -> Iterator[tuple[Kind, tuple[int, int], tuple[int, int]]]:
    """Comments and string literals; an f-string is one, whatever Python makes of its parts."""
    depth, start, is_statement = 0, (0, 0), True
    kind = Kind.LITERAL
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if not depth:
            kind = Kind.DOCSTRING if is_statement else Kind.LITERAL
        if token.type == F_STRING_START:
            start = start if depth else token.start
            depth += 1
        elif token.type == F_STRING_END:
            depth -= 1
            if not depth:
                yield kind, start, token.end
        elif token.type == tokenize.STRING and not depth:
            yield kind, token.start, token.end
        elif token.type == tokenize.COMMENT:
            yield Kind.COMMENT, token.start, token.end
        if token.type not in NO_CODE:
            is_statement = token.type in BETWEEN_STATEMENTS


def _literal(text: str, kind: Kind) -> str:
    """Return a literal without quotes, escapes and fields; masked if it is not a text."""
    opening = QUOTES.match(text)
    if opening is None:
        raise ValueError(f"not a string literal: {text[:60]!r}")
    prefix, quote = opening[1].lower(), opening[2]
    inner = text[opening.end() : -len(quote)]
    is_message = len(quote) == 1 and " " in inner.strip() and not set(prefix) & {"r", "b"}
    if kind is Kind.LITERAL and not is_message:
        return _masked(text)
    if "f" in prefix:
        inner = _without_fields(inner)
    inner = re.sub(r"\\[^\n]", "  ", inner)
    return " " * opening.end() + inner + " " * len(quote)


def _without_fields(text: str) -> str:
    shown, depth = [], 0
    for char in text.replace("{{", "  ").replace("}}", "  "):
        depth += char == "{"
        shown.append(CODE if depth and not char.isspace() else char)
        depth -= char == "}" and depth > 0
    return "".join(shown)


# --- other languages ---------------------------------------------------------------------------


def markdown_texts(source: str) -> Iterator[tuple[int, str]]:
    """The prose of a page, by block: its first line and its text."""
    for token in MarkdownIt().enable("table").parse(source):
        if token.type == "inline" and token.map:
            yield token.map[0] + 1, "".join(map(_inline, token.children or ()))


def _inline(token: Token) -> str:
    if token.type in ("softbreak", "hardbreak"):
        return "\n"
    return token.content if token.type in ("text", "image") else CODE * len(token.content)


def lexed_text(lexer: Lexer, kept: Iterable[_TokenType] = ()) -> Callable[[str], str]:
    """Mask everything but comments and literals of several words, and the tokens ``kept``."""
    always = tuple(kept)

    def text(source: str) -> str:
        shown = []
        for _, kind, value in lexer.get_tokens_unprocessed(source):
            shown.append(_shown(kind, value))
        return "".join(shown)

    def _shown(kind: _TokenType, value: str) -> str:
        if kind in Comment and kind not in Comment.Preproc and kind not in Comment.PreprocFile:
            return re.sub(
                r"^\s*(?:/[/*]+|#+|\*+)", lambda mark: " " * len(mark[0]), value, flags=re.MULTILINE
            )
        is_text = any(kind in one for one in always) or (kind in Literal and " " in value.strip())
        if is_text:
            return value.replace('"', " ") if kind in Literal else value
        return _masked(value)

    return text


YAML_TEXT = (Literal, Name.Constant)
LEXED: dict[str, Callable[[str], str]] = {
    ".cpp": lexed_text(lexers.CppLexer()),
    ".css": lexed_text(lexers.CssLexer()),
    ".h": lexed_text(lexers.CppLexer()),
    ".html": lexed_text(lexers.HtmlDjangoLexer(), [Text]),
    ".js": lexed_text(lexers.JavascriptLexer()),
    ".schema.json": lexed_text(lexers.JsonLexer(), [Name.Tag, Literal]),
    ".sh": lexed_text(lexers.BashLexer()),
    ".toml": lexed_text(lexers.TOMLLexer()),
    ".yaml": lexed_text(lexers.YamlLexer(), YAML_TEXT),
    ".yml": lexed_text(lexers.YamlLexer(), YAML_TEXT),
}


def language(path: Path, source: str) -> str:
    """The suffix that names a file's language; empty for what holds no text."""
    if path.name.endswith(".schema.json"):
        return ".schema.json"
    if not path.suffix:
        if source.startswith("#!"):
            return ".sh" if "sh" in source.split("\n", 1)[0] else ""
        return ".h" if path.parent.name == "prelude" else ""
    return path.suffix


# --- files -------------------------------------------------------------------------------------


def hits_in(path: Path, name: str) -> Iterator[Hit]:
    """The excluded words of a file, whose hits have the name; none in a picture."""
    if path.suffix == ".png":
        return
    source = path.read_text(encoding="utf-8")
    kind = language(path, source)
    fragments: Iterable[tuple[int, str]] = ()
    if kind == ".py":
        text, openings = python_text(source)
        fragments = [(1, text)]
        for line, word in openings:
            yield Hit(name, line, f"{word} ...", "an imperative or a noun phrase as the docstring")
    elif kind == ".md":
        fragments = markdown_texts(source)
    elif kind in LEXED:
        fragments = [(1, LEXED[kind](source))]
    for first, text in fragments:
        prose = re.sub(r"(`+)[^`\0]+?\1", lambda code: _masked(code[0]), text)
        for offset, word, instead in words(prose):
            yield Hit(name, first + prose.count("\n", 0, offset), word, instead)


def tracked(root: Path) -> list[str]:
    """The files of a checkout that hold our texts, new ones included; tests are not among them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = {name for name in listed.split("\0") if name and not name.startswith("tests/")}
    ours = {name for name in names if name.rpartition("/")[2] not in NOT_OURS}
    return sorted(name for name in ours if (root / name).is_file())


def all_hits(root: Path = ROOT) -> list[Hit]:
    """The excluded words of a checkout, by file and line."""
    return sorted(hit for name in tracked(root) for hit in hits_in(root / name, name))


def files_of(paths: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """The files of given paths, with the names to report them by."""
    for path in paths:
        if path.is_file():
            yield path, path.as_posix()
        elif path.is_dir():
            yield from ((path / name, (path / name).as_posix()) for name in tracked(path))
        else:
            raise FileNotFoundError(f"no such file or folder: {path}")


def main(arguments: list[str] | None = None) -> int:
    """Print excluded words; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    paths = parser.parse_args(arguments).paths
    if paths:
        hits = sorted(hit for path, name in files_of(paths) for hit in hits_in(path, name))
    else:
        hits = all_hits()
    for hit in hits:
        print(hit)
    print(f"{len(hits)} excluded words", file=sys.stderr)
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
