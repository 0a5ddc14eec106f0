"""Odd texts: legal and illegal corners of the language that have tripped other tools."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.robustness.outcome import outcome_of

PATH = Path("/nowhere/program.py")
IMPORTS = "import mlx.core as mx\nimport mlx.nn as nn\n"
MARKS = {
    "nothing": "",
    "blanks": "   \n\t\n",
    "a comment": "# a",
    "a byte order mark": "\ufeffx = 1\n",
    "a null byte": "x = 1\x00\n",
    "a lone surrogate": "x = '\ud800'\n",
    "a form feed": "\x0cx = 1\n",
    "odd line ends": "x = 1\ry = 2\r\nz = 3\x0b\n",
    "an identifier of compatibility characters": "\ufb01 = 1\nx = \ufb01\n",
    "a long integer": f"x = {'9' * 5_000}\ny = f'{{x}}'\n",
    "a long hexadecimal integer": f"x = 0x{'f' * 5_000}\ny = f'{{x}}' + str(x)\nz = -x / 2\n",
    "a name too long for a file": f"import {'a' * 300}\nfrom .{'b' * 5_000} import c\n",
}
PROGRAMS = {
    "numbers, formats and long strings": """
        x = 1e999
        y = int(x)
        z = f'{x:d}'
        w = x % 0
        v = round(x)
        f'{1:9999999999}'
        '%9999999999d' % 1
        '{:9999999999}'.format(1)
        f'{1:.99999999f}'
        f'{1:s}'
        f'{1:{2}}'
        '%*d' % (3, 4)
        '%(a)s' % 1
        '{0} {}'.format(1)
        '%' % 1
        x = 'a' * 10**10
        y = 'ab'.replace('', x)
        z = x.join(x)
    """,
    "strange escapes and slices": """
        x = '\\N{nonsense}'
        y = '\\ud800'
        z = '\\U99999999'
        w = b'é'
        (1, 2)[::0]
        [1][0:2:0]
        'ab'[::0]
        ()[-1]
        [][0]
        {}['a']
        2 ** 10**9
        1 << 10**9
        0 ** -1
        1 << -1
        10 ** -400
        (-8) ** 0.5
        1 / 0
        1 // 0
        1 % 0
        1.0 % 0
        1j / 0
        1j // 1
        True % False
    """,
    "unary operators": """
        -True
        ~True
        -3j
        +'a'
        -'a'
        not 'a'
        ~2.5
    """,
    "arguments": """
        f(*a, **b)
        f(**a, *b)
        def g(a, a): pass
        g(1, 2, 3, a=4, b=5, *c, **d)
    """,
    "methods without self": """
        class A:
            def f(): self.x = 1
            def g(*a): a[0].x = 2
        A().f().g()
    """,
    "super anywhere": """
        super().x
        super(A, b).y
        class A:
            super().x
    """,
    "targets": """
        a.b.c = (d or e).f = g[0].h = i().j = 1
        del a.b, g[0], (k, l)
        for x.y in z: pass
    """,
    "type parameters": """
        type X[T] = list[T]
        def f[T: int](x: T) -> T: ...
        class A[T, *U]: ...
    """,
    "a class of itself": """
        class A(A): pass
        class A(A): pass
        A().x
        for i in A(): pass
    """,
    "classes in a ring": """
        class A(B): pass
        class B(A): pass
        class A(B): pass
        A()().x[0]
    """,
    "a property of itself": """
        class A:
            @property
            def x(self): return self.x
        A().x
    """,
    "an import of itself": """
        from program import *
        import program
        program.program.x
    """,
    "imports of nowhere": """
        from . import *
        from ...... import a
        import a.b.c.d as e
        from .a import (b)
    """,
    "kernels without arguments": """
        k = mx.fast.metal_kernel()
        k()
        k(1)(2)
        mx.fast.metal_kernel(*a)(**b)
    """,
    "kernels of nonsense": """
        k = mx.fast.metal_kernel(name=1, input_names=2, output_names=3, source=4, header=5)
        k(inputs=1, output_shapes=2, output_dtypes=3, grid=4, threadgroup=5, template=6)
    """,
}


@pytest.mark.parametrize("source", MARKS.values(), ids=MARKS)
def test_odd_marks(source: str) -> None:
    assert outcome_of(source, PATH) in ("checked", "refused")
    assert outcome_of(IMPORTS + source, PATH) in ("checked", "refused")


@pytest.mark.parametrize("source", PROGRAMS.values(), ids=PROGRAMS)
def test_odd_programs(source: str) -> None:
    assert outcome_of(dedent(source), PATH) in ("checked", "refused")
    assert outcome_of(IMPORTS + dedent(source), PATH) in ("checked", "refused")
