"""Known strings: their text, and the way back to the literals that they were made of."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from embercoach.analysis import strings
from embercoach.analysis.project import Project
from embercoach.analysis.values import Str, Value


def value_of(program: str, name: str = "S") -> Value:
    module = Project().open(Path("program.py"), dedent(program))
    module.run()
    return module.frame.names[name]


KNOWN = {
    "literal": 'S = "a"',
    "escapes": r'S = "a\tb\x41\N{BULLET}\\"',
    "raw": r'S = r"a\tb"',
    "implicit": 'S = "a" "b"',
    "sum": 'T = "a"\nS = T + "b"',
    "added": 'S = "a"\nS += "b"',
    "f-string": 'N = 4\nS = f"n = {N}; {{}}\\n"',
    "raw f-string": 'N = 4\nS = rf"\\d{N}{{"',
    "f-string of a string": 'T = "a\\n"\nS = f"{T}-{T}"',
    "format specification": 'N = 4\nS = f"{N:03d}"',
    "dedent": 'import textwrap\nS = textwrap.dedent("""\n    a\n      b\n""")',
    "dedent of an f-string": 'from textwrap import dedent\nN = 4\nS = dedent(f"""\n  a{N}\n  b""")',
    "strip": 'S = "  a  ".strip()',
    "strip characters": 'S = "--a".lstrip("-")',
    "replace": 'T = "new"\nS = "an OLD, OLD word".replace("OLD", T)',
    "format": 'S = "{} {name} {{}}".format("a", name=3)',
    "join": 'S = "\\n".join(["a", "b"])',
    "str of a number": 'N = 4\nS = "a" + str(N)',
}


@pytest.mark.parametrize("program", KNOWN.values(), ids=KNOWN)
def test_known_strings_are_what_python_makes_of_them(program: str) -> None:
    names: dict[str, str] = {}
    exec(dedent(program), names)
    value = value_of(program)
    assert isinstance(value, Str)
    assert value.text == names["S"]


@pytest.mark.parametrize("program", KNOWN.values(), ids=KNOWN)
def test_letters_point_at_themselves_in_their_literals(program: str) -> None:
    value = value_of(program)
    assert isinstance(value, Str)
    folded = strings.fold(value)
    assert folded is not None
    assert folded.text.text == value.text
    for offset, letter in enumerate(folded.text.text):
        position = folded.text.position(offset)
        if position is not None and letter.isascii() and letter.isalpha():
            source = folded.literals[position[0]].node.value
            assert source[position[1]] in (letter, "\\", "O", "{")


UNKNOWN = {
    "a parameter": 'def f(a): return f"{a}"\nS = f(input())',
    "a file": 'S = open("a").read()',
    "a conversion": 'S = f"{3!r}"',
    "one of two": 'import sys\nS = "a" if sys.argv else "b"',
    "a format with an unknown value": 'S = "{}".format(input())',
    "a format that looks into its value": 'S = "{0.a}".format("b")',
    "an unknown part": 'S = "".join(["a", input()])',
    "an unknown number of parts": 'S = "".join(x for x in input())',
    "other methods": 'S = "a".upper()',
    "slices": 'S = "abc"[1:]',
}


@pytest.mark.parametrize("program", UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_not_known_is_not_guessed(program: str) -> None:
    value = value_of(program)
    assert not isinstance(value, Str) or value.text is None


def test_a_literal_that_python_refuses_is_unknown() -> None:
    assert value_of(r'S = "\x4"') == Str()


def test_literals_know_their_statement() -> None:
    value = value_of('T = (\n    "a"\n)\nS = T + "b"')
    assert isinstance(value, Str)
    statements = [p.literal.statement for p in value.pieces or () if p.literal]
    assert len(statements) == 2
    assert statements[0] is not statements[1]
