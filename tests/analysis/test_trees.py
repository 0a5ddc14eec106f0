"""Walks over syntax trees, held to what libcst itself tells of them."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from embercoach.analysis.syntax.trees import children

HERE = Path(__file__)
#: What files of a project rarely hold.
SYNTAX = """
@decorated(x=1)
async def f[T: int, *Ts, **P](a: int, /, b=1, *args: T, c: str = "s", **kwargs) -> T:
    global g, h
    async with a as b, c:
        await d
    async for x, *y in z:
        yield x
    else:
        yield from y
    return lambda a, /, b, *, c=1, **d: (a if b else c)
@other
class C[T](Base, *bases, metaclass=Meta, **more):
    x: int = 1
    del x, y
try:
    raise E("a") from b
except (A, B) as error:
    pass
except C:
    pass
else:
    assert a, f"{b!r:>{width}} {c=}"
finally:
    x = y = -1 + not_a[1:2, ::3, ..., *z] @ b
try:
    a.b.c += 1; d <<= (e := 2)
except* G as group:
    pass
match a, b:
    case {"k": [1, *rest], **others} if rest: pass
    case Point(x=0, y=None) | -1 | (2) | "s" as bound: pass
    case [C.d, _]: pass
while not a < b <= c in d is not e and f or g: continue
with (open(a) as b, open(c)): {**a, "b": 1}, {1, *c}, [*d], "a" f"b" 'c'
print({a: b for a, b in c if d if e}, {a for a in b})
print([a async for a in b for c in a], (a for a in b))
from ..a.b import (c as d, e,)
from . import *
import a.b as c, d
type A[T] = list[T]
nonlocal_ = 1j, 0x1, ..., b"x"
"""
#: What libcst counts among a node's children and ``children`` leaves out.
SIGNS = (
    *(cst.BaseParenthesizableWhitespace, cst.EmptyLine, cst.TrailingWhitespace, cst.Newline),
    *(cst.Comment, cst.Comma, cst.Dot, cst.Semicolon, cst.Colon, cst.AssignEqual),
    *(cst.LeftParen, cst.RightParen, cst.LeftSquareBracket, cst.RightSquareBracket),
    *(cst.LeftCurlyBrace, cst.RightCurlyBrace, cst.BitOr, cst.Asynchronous),
    *(cst.ParamSlash, cst.ParamStar, cst.BaseUnaryOp, cst.BaseBinaryOp, cst.BaseAugOp),
    *(cst.BaseBooleanOp, cst.BaseCompOp),
)


def sources() -> dict[str, str]:
    """Every construct once, and files of this project."""
    paths = [HERE, *sorted((HERE.parents[2] / "embercoach").glob("*.py"))]
    return {"syntax": SYNTAX} | {path.name: path.read_text(encoding="utf-8") for path in paths}


@pytest.mark.parametrize(
    "source", [pytest.param(text, id=name) for name, text in sources().items()]
)
def test_children_are_those_of_libcst_without_its_signs(source: str) -> None:
    """In the same order: that of the text."""
    pending: list[cst.CSTNode] = [cst.parse_module(source)]
    while pending:
        node = pending.pop()
        expected = [child for child in node.children if not isinstance(child, SIGNS)]
        assert children(node) == expected, type(node)
        pending.extend(expected)
