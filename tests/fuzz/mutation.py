"""Mutations that keep an input near its language: of lines, tokens, trees of Python and JSON."""

from __future__ import annotations

import ast
import copy
import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tests.fuzz.target import Mutate

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
#: What editors, terminals and parsers stumble over.
_ODD = (
    *("\0", "\r", "\r\n", "\t", "\f", "\x0b", "\x1b[2J", "\x1c", "\x7f", "\x85", "\xa0", "\u2028"),
    *("\u202e", "\u200b", "\ufeff", "\ud800", "\U0001f600", "e\u0301", "\u0130"),
    *("\ufb01", "\u00b2"),
    *("\\", "\\\n", '"', "'", '"""', "'''", "#", "//", "/*", "*/", "`", "$", "?", "@", "%", "!"),
    *("(" * 30, "[" * 30, "{" * 30, "-" * 40, "~" * 40, "a." * 40, "1" * 5_000, "x" * 300),
)
_NUMBERS = (
    *("0", "-1", "1", "2", "31", "32", "33", "64", "255", "1024", "65535", "65536", "2147483647"),
    *("2147483648", "4294967295", "4294967296", "18446744073709551616", "1e308", "1e999", "1e-45"),
    *("0.5", "0x7fffffff", "0b1", "1_0", "1u", "1ul", "1.0h", "1.0f", "1j", "1" + "0" * 400),
)


def text_mutation(
    seeds: Callable[[], Sequence[str]],
    words: Sequence[str] = (),
    extra: Sequence[Callable[[str, Random], str]] = (),
) -> Mutate:
    """Mutate texts line by line and token by token, with material of the seeds.

    Args:
        seeds: texts to take lines and tokens of.
        words: tokens that are put in more often than others.
        extra: mutations of a language, as likely as all others together.
    """
    ways = (_lines_lost, _lines_moved, _indented, _token, _tokens_swapped, _odd, _number)

    def mutate(data: bytes, random: Random) -> bytes:
        text = data.decode("utf-8", "surrogateescape")
        for _ in range(random.choice((1, 1, 1, 2, 2, 4, 8))):
            if extra and random.random() < 0.5:
                text = random.choice(extra)(text, random)
            elif random.random() < 0.35:
                text = _spliced(text, random.choice(seeds()), random)
            elif words and random.random() < 0.3:
                text = _put(text, random.choice(words), random)
            else:
                text = random.choice(ways)(text, random)
        return text.encode("utf-8", "surrogatepass" if random.random() < 0.1 else "replace")

    return mutate


def _lines_lost(text: str, random: Random) -> str:
    lines = text.splitlines(keepends=True)
    at = random.randrange(len(lines) + 1)
    del lines[at : at + random.choice((1, 1, 2, 5))]
    return "".join(lines)


def _lines_moved(text: str, random: Random) -> str:
    lines = text.splitlines(keepends=True)
    at, to = random.randrange(len(lines) + 1), random.randrange(len(lines) + 1)
    moved = lines[at : at + random.choice((1, 1, 2, 5))]
    if random.random() < 0.5:
        del lines[at : at + len(moved)]
    lines[to:to] = moved * random.choice((1, 1, 1, 2, 9))
    return "".join(lines)


def _indented(text: str, random: Random) -> str:
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    at = random.randrange(len(lines))
    head = random.choice(
        ("if x:\n", "for i in range(3):\n", "def g(a):\n", "while 1:\n", "{\n", "")
    )
    many = random.choice((1, 2, len(lines)))
    lines[at : at + many] = [head, *("    " + line for line in lines[at : at + many])]
    return "".join(lines)


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def _token(text: str, random: Random) -> str:
    tokens = _tokens(text)
    if not tokens:
        return text
    at = random.randrange(len(tokens))
    other = random.choice(tokens)
    tokens[at : at + 1] = random.choice(([], [tokens[at]] * 2, [other], [tokens[at], other]))
    return "".join(tokens)


def _tokens_swapped(text: str, random: Random) -> str:
    tokens = _tokens(text)
    if not tokens:
        return text
    one, two = random.randrange(len(tokens)), random.randrange(len(tokens))
    tokens[one], tokens[two] = tokens[two], tokens[one]
    return "".join(tokens)


def _odd(text: str, random: Random) -> str:
    at = random.randrange(len(text) + 1)
    cut = random.choice((0, 0, 0, 1, 5, 40))
    return text[:at] + random.choice(_ODD) + text[at + cut :]


def _number(text: str, random: Random) -> str:
    numbers = list(re.finditer(r"\b\d[\w.]*", text))
    if not numbers:
        return _put(text, random.choice(_NUMBERS), random)
    found = random.choice(numbers)
    return text[: found.start()] + random.choice(_NUMBERS) + text[found.end() :]


def _put(text: str, word: str, random: Random) -> str:
    tokens = _tokens(text)
    at = random.randrange(len(tokens) + 1)
    tokens[at : at + random.choice((0, 1))] = [word]
    return "".join(tokens)


def _spliced(text: str, other: str, random: Random) -> str:
    """A few lines or tokens of another text put into this one."""
    if random.random() < 0.5:
        pieces, more = text.splitlines(keepends=True), other.splitlines(keepends=True)
    else:
        pieces, more = _tokens(text), _tokens(other)
    start, at = random.randrange(len(more) + 1), random.randrange(len(pieces) + 1)
    taken = more[start : start + random.choice((1, 2, 4, 8))]
    pieces[at : at + random.choice((0, 0, 1, len(taken)))] = taken
    return "".join(pieces)


# Python.


def grafting(seeds: Callable[[], Sequence[str]]) -> Callable[[str, Random], str]:
    """A mutation that puts statements and expressions of a seed into a program; it still parses."""

    def graft(text: str, random: Random) -> str:
        try:
            tree, other = ast.parse(text), ast.parse(random.choice(seeds()))
            kind = random.choice((ast.expr, ast.stmt))
            _put_nodes(tree, [n for n in ast.walk(other) if isinstance(n, kind)], kind, random)
            return ast.unparse(tree) + "\n"
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return text

    return graft


def _put_nodes(tree: ast.AST, donors: list[Any], kind: type[ast.AST], random: Random) -> None:
    places = [
        (node, field, at)
        for node in ast.walk(tree)
        for field, value in ast.iter_fields(node)
        for at, child in enumerate(value if isinstance(value, list) else [value])
        if isinstance(child, kind) and not isinstance(getattr(child, "ctx", None), ast.Store)
    ]
    donors = [n for n in donors if not isinstance(getattr(n, "ctx", None), ast.Store)]
    if not places or not donors:
        return
    donors += [getattr(node, field) for node, field, _ in places if random.random() < 0.05]
    for _ in range(random.choice((1, 1, 2, 4))):
        node, field, at = random.choice(places)
        donor = copy.deepcopy(random.choice(donors))
        value = getattr(node, field)
        if not isinstance(value, list):
            if isinstance(donor, kind):
                setattr(node, field, donor)
        elif isinstance(donor, kind) and at <= len(value):
            value[at : at + random.choice((0, 1) if kind is ast.stmt else (1,))] = [donor]


# JSON.

_ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 1.0, 1.5, 2**31, 2**63, 10**30, 1e308, float("inf")),
    *(float("nan"), "", "a", "\n", "\x1b[2J", "../../x", "/dev/zero", "\ud800", "\0", "\u202e"),
    *("<script>", "x" * 300, "%0A::error::", "]]>", "&amp;", "a\r\nb"),
    *([], {}, [[]], {"": 0}, [None]),
)


def json_mutation(
    good: Callable[[], Sequence[Any]], words: Sequence[str] = (), texts: Mutate | None = None
) -> Mutate:
    """Mutate JSON documents value by value, and now and then their text.

    Args:
        good: documents to take values of.
        words: keys and texts of the format.
        texts: mutates the texts in a document.
    """
    raw = text_mutation(
        lambda: ("{}", "[1, 2]", '"a"'), ('"', "{", "}", "[", "]", ":", ",", "null")
    )

    def mutate(data: bytes, random: Random) -> bytes:
        if random.random() < 0.1:
            return raw(data, random)
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            document = copy.deepcopy(random.choice(good()))
        for _ in range(random.choice((1, 1, 1, 2, 4))):
            document = _changed(document, random.choice(good()), words, texts, random)
        try:
            return json.dumps(document, ensure_ascii=random.random() < 0.7).encode(
                "utf-8", "surrogatepass"
            )
        except RecursionError:
            return data

    return mutate


def _spots(document: Any) -> list[tuple[Any, Any]]:
    """All values within a document, as containers and keys."""
    found: list[tuple[Any, Any]] = []
    pending = [document]
    while pending:
        container = pending.pop()
        keys = list(container) if isinstance(container, dict) else range(len(container))
        for key in keys:
            found.append((container, key))
            if isinstance(container[key], dict | list):
                pending.append(container[key])
    return found


def _changed(
    document: Any, other: Any, words: Sequence[str], texts: Mutate | None, random: Random
) -> Any:
    holder = [document]
    spots = _spots(holder)
    container, key = random.choice(spots)
    value = container[key]
    way = random.randrange(12)
    if isinstance(value, str) and texts is not None and random.random() < 0.7:
        changed = texts(value.encode("utf-8", "surrogatepass"), random)
        container[key] = changed.decode("utf-8", "surrogatepass")
    elif way == 0 and container is not holder:
        del container[key]
    elif way == 1:
        donor, name = random.choice(_spots([other]))
        container[key] = copy.deepcopy(donor[name])
    elif way == 2:
        donor, name = random.choice(spots)
        container[key] = copy.deepcopy(donor[name])
    elif way == 3 and isinstance(container, list):
        container[key:key] = [copy.deepcopy(value)] * random.choice((1, 2, 20))
    elif way == 3 and isinstance(container, dict):
        container[random.choice((*words, "", "x"))] = container.pop(key)
    elif way == 4 and words:
        container[key] = random.choice(words)
    elif way == 5 and isinstance(value, int | float):
        container[key] = value + random.choice((-1, 1, 10, -value, 2**32))
    elif way > 6:
        # Of the same type, so that a document stays one of its format.
        alike = [one for one in _ODD_VALUES if type(one) is type(value)]
        container[key] = copy.deepcopy(random.choice(alike or _ODD_VALUES))
    elif way == 6:
        for _ in range(random.choice((1, 2, 60))):
            value = [value] if random.random() < 0.5 else {"a": value}
        container[key] = value
    else:
        container[key] = copy.deepcopy(random.choice(_ODD_VALUES))
    return holder[0]
