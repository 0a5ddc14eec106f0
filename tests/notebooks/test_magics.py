"""What IPython adds to Python gives way, and nothing else moves."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embercoach.notebooks.cell_module import UNKNOWN, plain


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("x = 1 % 2\ny = x != 1\n", "x = 1 % 2\ny = x != 1\n"),
        ("%pip install mlx\nx = 1", "0               \nx = 1"),
        ("!ls 'a\nx = 1", "0     \nx = 1"),
        ("!!ls", "0   "),
        ("?x", "0 "),
        ("mx.array?\nmx.array??", "0        \n0         "),
        (",f a b", "0     "),
        ("if a:\n    !ls\n    b()", "if a:\n    0  \n    b()"),
        ("!ls \\\n   -l\nx = 1", "0    \n     \nx = 1"),
        ("files = !ls", f"files = {UNKNOWN}  "),
        ("a, b = %sql select", f"a, b = {UNKNOWN}          "),
        ("x: list = !ls", f"x: list = {UNKNOWN}  "),
        ("f(a=1)\nf(\n    b='!',\n)", "f(a=1)\nf(\n    b='!',\n)"),
        ("%time y = f(x)", "0;    y = f(x)"),
        ("    %time y = f(x)  # why", "    0;    y = f(x)  # why"),
        ("%timeit -n 5 -r3 -q f(x)", "0;" + " " * 18 + "f(x)"),
        ("%prun -l 5 -s time f(x)", "0;" + " " * 17 + "f(x)"),
        ("%memit f(x)", "0;     f(x)"),
        ("%time", "0    "),
        ("%timeit -n 5", "0           "),
        # No line can hold a statement with a body behind another statement.
        ("%timeit for i in x: f(i)", "0" + " " * 23),
        ("%time f(", "0       "),
        ("%%time\nx = 1", "      \nx = 1"),
        (
            "\n%%capture out\n%%timeit\n%time x = 1",
            "\n" + " " * 13 + "\n" + " " * 8 + "\n0;    x = 1",
        ),
        ("%%time?", "0      "),
        ("pip install mlx", "0              "),
        ("pip = 1\npip", "pip = 1\npip"),
        ("ls -l", "ls -l"),
        ("# %time\n'%time'\n", "# %time\n'%time'\n"),
        ('"""\n%time x\n!ls\n"""\n', '"""\n%time x\n!ls\n"""\n'),
        ("x = (1\n% 2)", "x = (1\n% 2)"),
        ("x = 'why?'\ny = 1  # why?", "x = 'why?'\ny = 1  # why?"),
        ("x = {\n'a': 1,", "x = {\n'a': 1,"),
        ("a\r\n!ls\r\nb", "a\r\n0  \r\nb"),
    ],
)
def test_what_python_gets_to_see(cell: str, expected: str) -> None:
    found = plain(cell)
    assert found is not None
    assert found.text == expected


@pytest.mark.parametrize(
    "cell",
    ["%%bash\nls", "\n\n%%html\n<a>", "%%", "%%time\n%%writefile a.py\nx = 1", "%%python\nx"],
)
def test_cells_of_other_languages(cell: str) -> None:
    assert plain(cell) is None


LINES = st.sampled_from(
    [
        "x = 1",
        "!ls it's",
        "%pip install x",
        "y = !ls",
        "z = %pwd",
        "%time f(x)",
        "%%time",
        "obj?",
        "for i in x:",
        "    !echo {i}",
        "    %timeit -n 5 g(i)",
        "f(",
        ")",
        '"""',
        "'what?'",
        "",
        "x = \\",
        "% 2",
        "# why?",
        "%%bash",
        "   ",
        "await f()",
        "!cat \\",
        "x = {'a': 1,",
        "}",
        "'open",
        "\x0c",
        "é = '😀'",
        "?",
        "%",
        "!",
        "pip install x",
        "\tpass",
    ]
)


@given(lines=st.lists(LINES | st.text(max_size=8), max_size=8), end=st.sampled_from(["\n", "\r\n"]))
def test_nothing_else_moves(lines: list[str], end: str) -> None:
    cell = end.join(lines)
    found = plain(cell)
    if found is None:
        return
    assert len(found.text) == len(cell)
    left_out = {at for magic in found.magics for at in range(magic.start, magic.stop)}
    for at, (before, after) in enumerate(zip(cell, found.text, strict=True)):
        assert before == after or (at in left_out and before not in "\r\n")


@given(
    lines=st.lists(st.sampled_from(["x = 1", "!ls", "y = !ls 'a", "%time f(x)", "%pip a", "x?"]))
)
def test_what_is_left_is_python(lines: list[str]) -> None:
    found = plain("\n".join(lines))
    assert found is not None
    ast.parse(found.text)
