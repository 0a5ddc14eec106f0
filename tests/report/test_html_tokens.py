"""Tokens of the sources in the HTML report, and the functions around its findings."""

from __future__ import annotations

import sys
import time

import pytest

from embercoach.fixes.source_file import LineIndex
from embercoach.report.html.sources import MOST_OF_NAME, Function, tokens

PYTHON = '''\
class Layer:  # one
    def first(self): return 1
    async def second(self, x="日本",
            y=0x2f):
        """Two
        lines."""
        def inner():
            pass

        return x.item()

def last(): return not 2
'''
METAL = """\
#include <metal_stdlib>
/* 日
本 */ kernel void scale(device float *x) { if (x[0] > 1.5f) return; } // end
"""


def colored(path: str, text: str) -> list[tuple[str, str]]:
    """The tokens of a text: kind and text of each, in order."""
    index = LineIndex(text)
    found = tokens(path, index)
    return [
        (kind, index.line(line)[start:end])
        for line in sorted(found.lines)
        for kind, start, end in found.lines[line]
    ]


def test_tokens_of_python() -> None:
    assert colored("model.py", PYTHON) == [
        ("k", "class"), ("d", "Layer"), ("c", "# one"),
        ("k", "def"), ("d", "first"), ("k", "return"), ("n", "1"),
        ("k", "async"), ("k", "def"), ("d", "second"), ("s", '"日本"'),
        ("n", "0x2f"),
        ("s", '        """Two'[8:]), ("s", '        lines."""'),
        ("k", "def"), ("d", "inner"), ("k", "pass"),
        ("k", "return"),
        ("k", "def"), ("d", "last"), ("k", "return"), ("k", "not"), ("n", "2"),
    ]  # fmt: skip


def test_tokens_of_metal() -> None:
    assert colored("scale.metal", METAL) == [
        ("k", "#include"), ("s", "<metal_stdlib>"),
        ("c", "/* 日"),
        ("c", "本 */"), ("k", "kernel"), ("k", "void"), ("k", "device"), ("k", "float"),
        ("k", "if"), ("n", "0"), ("n", "1.5f"), ("k", "return"),
        ("c", "// end"),
    ]  # fmt: skip


def test_metal_in_a_literal_has_tokens_of_metal() -> None:
    text = 'é = R"""\n    uint4 i = 1; // 日\n  out[i] = 2.0f;"""; x = 3\n'
    assert colored("model.py", text) == [
        ("s", 'R"""'),
        ("k", "uint4"), ("n", "1"), ("c", "// 日"),
        ("n", "2.0f"), ("s", '"""'), ("n", "3"),
    ]  # fmt: skip
    line = '("float t = 1.5;\\n"\n "if (t) { return; }", "return; ", "float")'
    assert colored("model.py", line) == [
        ("s", '"'), ("k", "float"), ("n", "1.5"), ("s", '"'),
        ("s", '"if (t) { return; }"'), ("s", '"return; "'), ("s", '"float"'),
    ]  # fmt: skip


def test_parts_of_f_strings_are_strings() -> None:
    found = colored("model.py", 'x = f"a{y}b"\n')
    assert {kind for kind, _ in found} == {"s"}
    whole = sys.version_info < (3, 12)
    assert "".join(text for _, text in found) == ('f"a{y}b"' if whole else 'f"ab"')


def test_columns_are_gaps_and_lengths() -> None:
    found = tokens("model.py", LineIndex("def f():  # é\r\n    return 1\r\n"))
    assert [found.encoded(line) for line in (1, 2, 3)] == ["0k3,1d1,5c3", "4k6,1n1", ""]


def test_functions_have_qualified_names_and_lines() -> None:
    found = sorted(tokens("model.py", LineIndex(PYTHON)).functions, key=lambda one: one.first)
    assert [(one.name, one.first, one.last) for one in found] == [
        ("Layer.first", 2, 2),
        ("Layer.second", 3, 11),
        ("Layer.second.inner", 7, 9),
        ("last", 12, 12),
    ]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("return (\n", ["k"]),
        ("return 1\n  x\n y = 2\n", ["k", "n"]),
        ("pass\n'''open", ["k"]),
        ("pass\n\ud800\x01 = $ ?", ["k"]),
        ("%pip install mlx\n!ls\n", []),
        ("", []),
    ],
)
def test_tokens_before_an_error_are_found(text: str, kinds: list[str]) -> None:
    found = [kind for kind, _ in colored("model.py", text)]
    assert found[: len(kinds)] == kinds


def test_a_definition_without_a_body_has_no_lines_below_it() -> None:
    text = "def f(): ...\nx = 1\nclass A: ...\ndef g():\n    y = 1\n"
    assert [(one.name, one.first, one.last) for one in tokens("a.py", LineIndex(text)).functions][
        :1
    ] == [("f", 1, 1)]
    assert Function("g", 4, 5) in tokens("a.py", LineIndex(text)).functions


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "\n" * 50_000),
        ("a.py", "'''\n" * 12_501),
        ("a.py", "(" * 25_000),
        ("a.py", "'float x;'\n" * 5_000),
        ("a.py", f"'''float {';' * 25_000}x{'; ' * 25_000}'''"),
        ("a.metal", "a b(" * 12_500),
        ("a.metal", "/*\n" * 12_500),
        ("a.metal", "x = " + "'é' + 1 + " * 12_500),
    ],
)
def test_hostile_texts_take_linear_time(path: str, text: str) -> None:
    start = time.process_time()
    tokens(path, LineIndex(text))
    assert time.process_time() - start < 2


def test_names_of_nested_functions_do_not_add_up() -> None:
    text = f"class {'a' * 100_000}:\n" + "    def f(): pass\n" * 100
    names = [one.name for one in tokens("a.py", LineIndex(text)).functions]
    assert len(names) == 100
    assert {len(name) for name in names} == {MOST_OF_NAME}
