"""Python files that cost an analyzer more than their size: by name, the file of a number of bytes.

Each has some findings, so that explaining them is measured too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Shape = Callable[[int], tuple[str, str]]

KERNEL = (
    "k = mx.fast.metal_kernel(name='k', input_names=['a'], output_names=['b'], "
    "source='b[0] = a[0];')\n"
)
TEXT = "k = mx.fast.metal_kernel(name='k', input_names=['a'], output_names=['b'], source=s)\n"
HEAD = "import mlx.core as mx\nx = mx.ones(3)\na = 1\n"
TAIL = "for k in range(3):\n    float(x)\n"
#: The characters themselves, in a piece where they stand for numbers.
AT, HASH = "\0", "\1"
#: Levels of indentation that Python allows.
DEEPEST = 95


def repeated(piece: str, *, head: str = HEAD, tail: str = TAIL) -> Shape:
    """A piece of text again and again; ``@`` in it is its number and ``#`` the next one."""

    def build(size: int) -> tuple[str, str]:
        parts, length, number = [], len(head) + len(tail), 0
        while length < size:
            text = piece.replace("@", str(number)).replace("#", str(number + 1))
            parts.append(text.replace(AT, "@").replace(HASH, "#"))
            length += len(parts[-1])
            number += 1
        return "shape.py", head + "".join(parts) + tail.replace("@", str(number))

    return build


def in_two_parts(first: str, second: str, opening: str, between: str, closing: str = "") -> Shape:
    """As many pieces of one kind as of another, all of the first kind before the others."""

    def build(size: int) -> tuple[str, str]:
        head, tail = HEAD + opening, closing + TAIL
        room = size - len(head) - len(between) - len(tail)
        pieces: list[tuple[str, str]] = []
        while room > 0:
            number = str(len(pieces))
            pieces.append((first.replace("@", number), second.replace("@", number)))
            room -= len(pieces[-1][0]) + len(pieces[-1][1])
        firsts, seconds = ("".join(part) for part in zip(*pieces, strict=True))
        return "shape.py", f"{head}{firsts}{between}{seconds}{tail}"

    return build


def on_one_line(piece: str, opening: str, closing: str) -> Shape:
    """A piece of text again and again in one statement."""
    return repeated(piece, head=HEAD + opening, tail=closing + "\n" + TAIL)


def nested(header: str, body: str, levels: int = DEEPEST, footer: str = "") -> Shape:
    """Blocks in blocks, and as many such towers as fit."""

    def tower(number: int) -> str:
        lines = [
            " " * level + line.replace("@", f"{number}_{level}")
            for level in range(levels)
            for line in header.split("\n")
        ]
        feet = [" " * level + footer for level in range(levels - 1, -1, -1)] if footer else []
        return "\n".join([*lines, " " * levels + body, *feet]) + "\n"

    def build(size: int) -> tuple[str, str]:
        count = max(1, size // len(tower(0)))
        return "shape.py", HEAD + "".join(map(tower, range(count))) + TAIL

    return build


def brackets(opening: str, closing: str, levels: int = 90) -> Shape:
    """Expressions in brackets in brackets."""
    return repeated(f"y@ = {opening * levels}x{closing * levels}\n")


def chained(piece: str, levels: int = 1000) -> Shape:
    """Chains of operators or attributes, as long as the parser takes."""
    return repeated(f"y@ = x{piece * levels}\n")


SHAPES: dict[str, Shape] = {
    # The issue's own rows.
    "ifs on one name": repeated("if a == @: x = x + @\n"),
    "ifs on one name, in a function": repeated(
        "    if a == @: x = x + @\n",
        head=HEAD + "def f(a, x):\n",
        tail="    return float(x)\nf(1, x)\n",
    ),
    "chain of functions": repeated(
        "def f@(x):\n    return f#(x)\n", tail="def f@(x):\n    return float(x)\nf0(x)\n" + TAIL
    ),
    "chain of functions without a caller": repeated(
        "def f@(x):\n    return f#(x)\n", tail="def f@(x):\n    return x\n"
    ),
    "list of arrays": on_one_line("mx.ones(1), ", "y = [", "]"),
    # Statements.
    "nested ifs": nested("if a > i@:", "x = x + 1"),
    "nested fors": nested("for i@ in x:", "x = x + 1"),
    "nested whiles": nested("while a:", "x = x + 1"),
    "nested tries": nested("try:", "x = x + 1", 19, "finally: x = x + 2"),
    "nested tries with handlers": nested("try:", "x = x + 1", 90, "except E as e: x = x + 2"),
    "nested withs": nested("with a as b@:", "x = x + 1", 19),
    "nested functions": nested("def f@(x):", "return float(x)"),
    "nested classes": nested("class A@:", "y = x + 1"),
    "elifs": repeated("elif a == @:\n    x = x + @\n", head=HEAD + "if a:\n    x = 1\n"),
    "match": repeated("    case @: x = x + @\n", head=HEAD + "match a:\n"),
    "match of tuples": repeated("    case (p@, q@): x = x + p@\n", head=HEAD + "match a:\n"),
    "handlers": in_two_parts("    y@ = x\n", "except E@: z = x\n", "try:\n", ""),
    "nested finally": nested("try: x = x + 1\nfinally:", "x = x + 2", 19),
    "nested loops with else": nested("for i@ in x:", "if a: continue", 90, "else: x = x + 2"),
    "withs": repeated("with a as b@: x = x + b@\n"),
    "tries": repeated("try: x = x + 1\nexcept E as e@: x = e@\nfinally: y = x\n"),
    "fors": repeated("for i@ in range(3): x = x + i@\n"),
    "fors in a function": repeated(
        "    for i@ in range(3): x = x + i@\n", head=HEAD + "def f(x):\n", tail="    return x\n"
    ),
    "whiles with breaks": repeated("while a:\n    if x.sum() > @: break\n    x = x + 1\n"),
    "loop of breaks": repeated(
        "    if x.sum() > @: break\n    x = x + @\n", head=HEAD + "for i in range(9):\n"
    ),
    "loop of loops": repeated(
        "    for j@ in x:\n        x = x + j@\n", head=HEAD + "for i in range(9):\n"
    ),
    "pulls in a loop": repeated("    float(x + @)\n", head=HEAD + "for i in range(9):\n"),
    "assignments to one name": repeated("x = x + @\n"),
    "assignments to one attribute": repeated("a.b = x + @\n"),
    "many names": repeated("y@ = x + @\n"),
    "chain of names": repeated("y# = y@ + 1\n", head=HEAD + "y0 = x\n"),
    "swaps": repeated("x, y@ = y@, x + 1\n"),
    "chained targets": on_one_line("y@ = ", "", "x"),
    "deletions": repeated("y@ = x\ndel y@\n"),
    "attributes of many names": repeated("y@ = x\ny@.z = x\n"),
    "items": repeated("d['k@'] = x\n", head=HEAD + "d = {}\n"),
    "appends": repeated("d.append(x + @)\n", head=HEAD + "d = []\n"),
    "globals": repeated("def f@():\n    global g@\n    g@ = x\n    return float(g@)\n"),
    "nonlocals": repeated(
        "    y@ = x\n    def f@():\n        nonlocal y@\n        y@ = float(y@)\n",
        head=HEAD + "def f():\n",
        tail="f()\n",
    ),
    "walruses": repeated("if (y@ := x + @).sum() > 1: float(y@)\n"),
    "walruses in one expression": on_one_line(" + (y@ := x + @)", "y = x", ""),
    "evaluated names": repeated("y@ = x + @\nmx.eval(y@)\nfloat(y@)\n"),
    "evaluated in the background": repeated("y@ = x + @\nmx.async_eval(y@)\n"),
    "narrowed names": repeated("if isinstance(x.y@, mx.array): x = x + x.y@\n"),
    "type comments": repeated(f"y@ = x {HASH} type: mx.array\nfloat(y@)\n"),
    # Functions and classes.
    "functions": repeated("def f@(x):\n    return float(x)\n"),
    "callers of one function": repeated(
        "def g@(x):\n    return f(x)\n", head=HEAD + "def f(y):\n    return float(y)\n"
    ),
    "calls of a wide function": in_two_parts("p@, ", "f(x)\n", "def f(", "*a): return p0\n"),
    "class attributes": repeated("    a@ = x\n", head=HEAD + "class C:\n"),
    "calls of one function": repeated("f(x, @)\n", head=HEAD + "def f(x, i):\n    return x + i\n"),
    "calls with strings": repeated("f('@')\n", head=HEAD + "def f(s):\n    return s\n"),
    "mutual recursion": repeated(
        "def f@(x):\n    return f#(x) + f0(x)\n", tail="def f@(x):\n    return f0(x)\nf0(x)\n"
    ),
    "compiled functions": repeated(
        "def f@(x):\n    return f#(x) + float(x)\nf@ = mx.compile(f@)\n"
    ),
    "decorated functions": repeated(f"{AT}mx.compile\ndef f@(x):\n    return f#(x) + float(x)\n"),
    "decorators": repeated(f"{AT}mx.compile\n", tail="def f(x):\n    return float(x)\n"),
    "lambdas": repeated("f# = lambda x: f@(x) + 1\n", head=HEAD + "f0 = float\n"),
    "defaults": on_one_line("p@=x, ", "def f(", "): pass"),
    "parameters": on_one_line("p@, ", "def f(", "): return p0"),
    "arguments": on_one_line("x, ", "y = f(", ")"),
    "keyword arguments": on_one_line("p@=x, ", "y = f(", ")"),
    "chain of classes": repeated(
        "class C#(C@):\n    def f@(self):\n        self.a@ = x\n        return self.a0\n",
        head=HEAD + "class C0: pass\n",
        tail="c = C@()\nfloat(c.f0())\n",
    ),
    "diamonds": repeated(
        "class A#(A@, B@): pass\nclass B#(A@, B@): pass\n",
        head=HEAD + "class A0: pass\nclass B0: pass\n",
        tail="A@().f()\n",
    ),
    "methods": repeated(
        "    def f@(self):\n        self.y@ = self.f#()\n        return self.y@\n",
        head=HEAD + "class C:\n",
        tail="C().f0()\n",
    ),
    "methods that set one attribute": repeated(
        "    def f@(self):\n        self.y = self.y + @\n        return float(self.y)\n",
        head=HEAD + "class C:\n    def __init__(self):\n        self.y = x\n",
    ),
    "layers": repeated(
        "        self.l@ = nn.Linear(3, 3)\n",
        head=HEAD + "import mlx.nn as nn\nclass C(nn.Module):\n    def __init__(self):\n",
        tail="    def __call__(self, x):\n        return float(self.l0(x))\n",
    ),
    # Imports.
    "star imports": repeated("from m@ import *\n"),
    "imports": repeated("import m@\n"),
    "imports of one module": repeated("from m import a@\n"),
    "relative imports": repeated("from .m@ import a\n"),
    # Expressions.
    "brackets": brackets("(", ")"),
    "nested lists": brackets("[", "]"),
    "nested tuples": brackets("(", ",)"),
    "nested dicts": brackets("{'k': ", "}"),
    "nested calls": brackets("f(", ")"),
    "nested sums": brackets("mx.sum(", ")"),
    "nested subscripts": brackets("x[", "]"),
    "nested comprehensions": brackets("[", " for i in x]", 40),
    "nested lambdas": brackets("(lambda: ", ")"),
    "nested conditions": brackets("(x if x > 0 else ", ")"),
    "unpacked tuples": repeated(f"{'(' * 90}y@{',)' * 90} = x\n"),
    "attributes in a row": chained(".b"),
    "methods in a row": chained(".sum()"),
    "subscripts in a row": chained("[0]"),
    "calls in a row": chained("()"),
    "sums": chained(" + x"),
    "sums of numbers": chained(" + 1"),
    "comparisons": chained(" < 1"),
    "ands": chained(" and x"),
    "ands of walruses": repeated("y@ = x" + " and (z := x)" * 900 + "\n"),
    "ands of tests": in_two_parts(
        "x@: mx.array | None, ", " and x@ is not None", "def f(", "a):\n    if a", ": float(a)\n"
    ),
    "conditions in a row": repeated("y@ = " + "1 if x else " * 900 + "2\n"),
    "concatenated strings": chained(" + 'a'"),
    "adjacent strings": repeated("y@ = " + "'a' " * 900 + "\n"),
    "dict": on_one_line("'k@': x, ", "y = {", "}"),
    "dict of numbers": on_one_line("@: x, ", "y = {", "}"),
    "tuple": on_one_line("x, ", "y = (", ")"),
    "set of strings": on_one_line("'k@', ", "y = {", "}"),
    "list of numbers": on_one_line("@, ", "y = [", "]"),
    "list of lists": on_one_line("[x, x], ", "y = [", "]"),
    "f-string": on_one_line("{x}", 'y = f"', '"'),
    "f-strings": repeated('s = f"{s}{x}"\n', head=HEAD + "s = ''\n"),
    "comprehension of clauses": on_one_line(" for i@ in x if i@ > 0", "y = [x", "]"),
    "slices": on_one_line("0:1, ", "y = x[", "]"),
    "one line": on_one_line("x = x + @; ", "", ""),
    "one string": on_one_line("aaaaaaaaaa", "y = '", "'"),
    "one comment": on_one_line("x = mx.array ", "# ", ""),
    "one number": on_one_line("9", "y = ", ""),
    "powers": repeated("y@ = 10 ** 100000\nz@ = 'a' * 10 ** 9\nw@ = [x] * 10 ** 9\n"),
    "parsed numbers": repeated('y@ = int("9" * 5000)\nz@ = 9 << 99999\n'),
    # Kernels.
    "kernels": repeated(
        "k@ = mx.fast.metal_kernel(name='k@', input_names=['a'], output_names=['b'], "
        "source='b[0] = a[0];')\n"
    ),
    "launches": repeated(
        "k(inputs=[x], grid=(@, 1, 1), threadgroup=(1, 1, 1), output_shapes=[(1,)], "
        "output_dtypes=[mx.float32])\n",
        head=HEAD + KERNEL,
    ),
    "kernel text in lines": repeated(
        "s += 'b[0] = a[@];'\n",
        head=HEAD + "s = ''\n",
        tail=TEXT,
    ),
    "kernel text by cases": repeated(
        "if a == @: s += 'b[0] = a[@];'\n",
        head=HEAD + "s = ''\n",
        tail=TEXT,
    ),
    "kernel names in a list": repeated(
        "names.append('a@')\n",
        head=HEAD + "names = []\n",
        tail=KERNEL.replace("['a']", "names"),
    ),
    "functions that launch": repeated(
        "def f@(x, n):\n    return f#(x, n + 1)\n",
        head=HEAD + KERNEL,
        tail="def f@(x, n):\n    return k(inputs=[x], grid=(n, 1, 1), threadgroup=(1, 1, 1), "
        "output_shapes=[(1,)], output_dtypes=[mx.float32])\nf0(x, 1)\n",
    ),
    # What checking shares with other parts.
    "suppressions": repeated(f"y@ = float(x)  {HASH} noqa: HOST-@\n"),
    "directives": repeated(f"y@ = float(x)  {HASH} embercoach: ignore[X-@]\n"),
    "findings": repeated("for i@ in range(3): float(x)\n"),
}
