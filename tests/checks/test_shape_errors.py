"""SHAPE: shapes that raise, broadcast, or mix axes; each has a correct twin."""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING

import pytest

from embercoach.fixes.application import apply
from tests.checks.findings import IMPORTS, codes, findings
from tests.checks.test_through_files import flagged

if TYPE_CHECKING:
    from pathlib import Path

#: Where a statement fits; the sizes are those of ``x``.
FUNCTION = "def f(x: mx.array, y: mx.array, v: mx.array):\n    {unpacked}\n{body}"

NUMBERS = [
    ("mx.zeros((2, 3)) @ mx.zeros((4, 5))", "mx.zeros((2, 3)) @ mx.zeros((3, 5))"),
    ("mx.zeros((4, 6)).reshape(5, -1)", "mx.zeros((4, 6)).reshape(3, -1)"),
    ("mx.zeros((2, 3)).sum(axis=2)", "mx.zeros((2, 3)).sum(axis=-2)"),
    ("nn.Linear(8, 4)(mx.zeros((2, 16)))", "nn.Linear(16, 4)(mx.zeros((2, 16)))"),
    ("mx.stack([mx.zeros(3), mx.zeros(4)])", "mx.concatenate([mx.zeros(3), mx.zeros(4)])"),
    ("mx.einsum('ij,jk', mx.zeros((2, 3)), mx.zeros((4, 5)))", "mx.zeros((2, 3)).T"),
]


@pytest.mark.parametrize(("bad", "good"), NUMBERS)
def test_numbers(bad: str, good: str) -> None:
    assert codes(f"y = {bad}\n", "SHAPE") == ["SHAPE-001"]
    assert codes(f"y = {good}\n", "SHAPE") == []


UNPACKED = "B, S, D = x.shape"
ROWS = "B, S, E = x.shape; rows = mx.zeros((B, S, E, 4))"
BY_NAME = [
    ("001", UNPACKED, "return mx.concatenate([x, mx.zeros((B, S + 1, D))], axis=-1)"),
    ("002", UNPACKED, "return mx.concatenate([x, x[:, 1:]], axis=-1)"),
    ("", UNPACKED, "return mx.concatenate([x, x[:, 1:]], axis=1)"),
    ("001", "(S,) = x.shape", "return x @ mx.zeros((S + 1,))"),
    # ``x`` of size 1 is as long as the other.
    ("", "(S,) = x.shape", "return (mx.zeros(y.item()) + x) @ mx.zeros((S + 1,))"),
    ("002", "rows, columns = x.shape", "return x @ x"),
    ("", "rows, columns = x.shape", "return x @ x.T"),
    ("", "rows, columns = x.shape\n    assert rows == columns", "return x @ x"),
    ("", "rows, columns = x.shape", "m, n = y.shape\nreturn x @ y"),
    ("003", UNPACKED, "return x * y.reshape(B, S)"),
    ("", UNPACKED, "return x * y.reshape(B, S, 1)"),
    ("", UNPACKED, "return x * y.reshape(S, D)"),
    ("003", "n, d = x.shape", "return x - x.mean(axis=1)"),
    ("", "n, d = x.shape", "return x - x.mean(axis=0)"),
    ("003", "n, d = x.shape", "return x.max(axis=1, keepdims=True) - y.reshape(n)"),
    ("", "n, d = x.shape", "return y.reshape(n)[:, None] - y.reshape(n)"),
    ("003", "n, d = x.shape", "x -= x.sum(1)\nreturn x"),
    ("004", "B, H, S, D = x.shape", "return x.reshape(B, S, H * D)"),
    ("004", "B, H, S, D = x.shape", "return x.reshape(B, S, -1)"),
    ("004", "B, H, S, D = x.shape", "return (x * mx.ones((9, 1))[:S]).reshape(B, S, -1)"),
    ("004", "B, H, S, D = x.shape", "k, v = cache.update(x, x)\nreturn (x @ v).reshape(B, S, -1)"),
    ("", "B, H, S, D = x.shape", "return x.swapaxes(1, 2).reshape(B, S, -1)"),
    ("004", "B, C, H, W = x.shape", "return x.reshape(B, H, W, C)"),
    ("", "B, T, D = x.shape", "return x.reshape(B, T // 2, 2 * D)"),
    # The shapes have the same axes, in other places.
    ("003", "n = y.shape[0]", "return mx.zeros((n, x.shape[1])) * mx.zeros((n,))"),
    ("002", "n = y.shape[0]", "return mx.zeros((2, n)) @ mx.zeros((x.shape[1], n))"),
    ("", "n = y.shape[0]", "return mx.zeros((2, n)) @ mx.zeros((n, x.shape[1]))"),
    ("002", "n = y.shape[1]", "return nn.Conv1d(8, 4, 3)(mx.zeros((2, 8, n)))"),
    ("", "n = y.shape[1]", "return nn.Conv1d(8, 4, 3)(mx.zeros((2, 9, n)))"),
    ("001", "p = mx.softmax(x, -1)", "return mx.take_along_axis(p, mx.argmax(p, -1), -1)"),
    # The batch is 1.
    ("", "B, S, H, D = x.shape", "return x.reshape(1, S, -1)"),
    ("", UNPACKED, "return x.reshape(B * S, D)"),
    ("004", UNPACKED, "r = [x[:, :, 0] for _ in y]\nreturn mx.stack(r, -1).reshape(B, len(r), S)"),
    ("002", UNPACKED, "return mx.zeros((B, 1, S)) * mx.zeros((1, B, D))"),
    # The shift of relative positions.
    ("", UNPACKED, "return mx.zeros((B, S, y.item())).reshape(B, y.item(), S)"),
    ("004", "n, d = x.shape", "return mx.repeat(x, 4, axis=0).reshape(4, n, d)"),
    ("", "n, d = x.shape", "return mx.repeat(x, 4, axis=0).reshape(n, 4, d)"),
    ("003", "n, d = x.shape", "return x[..., mx.argsort(x, axis=-1)]"),
    ("", "(n,) = x.shape", "return x[..., mx.argsort(x, axis=-1)]"),
    ("003", UNPACKED, "return x * y.reshape(B, D)"),
    ("003", UNPACKED, "return x * v.reshape(D, 1)"),
    ("007", "B, T, D = x.shape", "return mx.softmax(x + y.reshape(B, T, 1), axis=-1)"),
    ("", "B, T, D = x.shape", "return mx.softmax(x - x.max(-1, keepdims=True), axis=-1)"),
    ("007", UNPACKED, "return mx.cumsum(mx.softmax(x, axis=-1), axis=0)"),
    ("007", UNPACKED, "return mx.argsort(mx.softmax(x, axis=1), axis=-1)"),
    ("", UNPACKED, "return mx.argsort(mx.softmax(x, axis=-1), axis=1)"),
    ("007", "p = mx.softmax(x, axis=-1)", "return p > p.min()"),
    ("", "p = mx.softmax(x, axis=-1)", "return p > p.min(axis=-1, keepdims=True)"),
    ("007", UNPACKED, "return nn.GRU(4, 5)(x.transpose(1, 0, 2))[-1]"),
    ("007", UNPACKED, "return nn.GRU(4, 5)(x)[-1]"),
    ("", UNPACKED, "return nn.GRU(4, 5)(x)[:, -1]"),
    ("007", ROWS, "return (mx.softmax(x, axis=1)[..., None] * rows).sum(axis=2)"),
    ("", ROWS, "return (mx.softmax(x, axis=1)[..., None] * rows).sum(axis=1)"),
    ("008", "B, H, S, D = v.shape", "return x @ mx.tile(v, (1, 3, 1, 1)).swapaxes(-1, -2)"),
    ("", "B, H, S, D = v.shape", "return x @ mx.repeat(v, 3, axis=1).swapaxes(-1, -2)"),
    ("007", UNPACKED, "return mx.softmax(nn.Linear(D, 1)(x), axis=-1)"),
    ("", UNPACKED, "return mx.softmax(nn.Linear(D, 1)(x), axis=1)"),
    (
        "007",
        "B, H, W, C = x.shape",
        "return nn.Conv2d(3, C, 3)(x).mean((2, 3), keepdims=True)",
    ),
    ("", "B, H, W, C = x.shape", "return nn.Conv2d(3, C, 3)(x).mean((1, 2), keepdims=True)"),
    ("008", UNPACKED, "return x.transpose(0, 1, 2)"),
    ("", UNPACKED, "return x.transpose(0, 2, 1)"),
    ("008", UNPACKED, "return mx.split(mx.zeros((B + S, D)), [B, S])"),
    ("", UNPACKED, "return mx.split(mx.zeros((3 * S, D)), [S, 2 * S])"),
    ("008", "lengths = y[1:] - y[:-1]", "return mx.split(x, lengths.tolist())"),
    ("", "cu_seqlens = mx.cumsum(y)", "return mx.split(x, cu_seqlens.tolist())"),
    ("003", "B, S = x.shape", "return mx.arange(S)[None] < mx.array([S] * B)"),
    ("", "B, S = x.shape", "return mx.arange(S)[None] < mx.array([S] * B)[:, None]"),
    ("002", "s = [0.5] * x.shape[0]", "return mx.array([s[0]] * len(s)).reshape(len(s), 1, 2)"),
    ("", "s = [0] * x.shape[0]\n    s.append(1)", "return mx.array(s) + mx.zeros(x.shape[0])"),
    ("005", UNPACKED, "return mx.softmax(x, axis=1) @ v"),
    ("", UNPACKED, "return mx.softmax(x, axis=-1) @ v"),
    ("", UNPACKED, "return mx.softmax(x, axis=1).swapaxes(1, 2) @ v"),
]


HEADS = """\
class Attention(nn.Module):
    def __init__(self, dim: int, heads: int, width: int):
        super().__init__()
        self.width = width
        self.out = nn.Linear({inner}, dim)

    def __call__(self, x: mx.array) -> mx.array:
        B, S = x.shape[:2]
        return self.out(x.reshape(B, S, {width}))
"""


def test_width_of_heads_is_a_product_by_convention() -> None:
    width = "self.out.weight.shape[0]"
    assert codes(HEADS.format(inner="heads * width", width=width), "SHAPE") == []
    assert codes(HEADS.format(inner="width", width=width), "SHAPE") == ["SHAPE-002"]


def test_arguments_for_one_layer_each_are_made_to_fit_by_callers() -> None:
    layers = "up, down = nn.Linear({}), nn.Linear({})"
    program = f"def f(x: mx.array, a: int, b: int, c: int):\n    {layers}\n    return down(up(x))"
    assert codes(program.format("8, a", "b, c"), "SHAPE") == []
    assert codes(program.format("b, a", "b, c"), "SHAPE") == ["SHAPE-002"]


@pytest.mark.parametrize(("number", "unpacked", "body"), BY_NAME)
def test_names(number: str, unpacked: str, body: str) -> None:
    program = FUNCTION.format(unpacked=unpacked, body=indent(body, "    "))
    assert codes(program, "SHAPE") == ([f"SHAPE-{number}"] if number else [])


CLOSURE = f"""
def f(x):
    rows = [x]
    def add(row):
        rows.append(row{" + row" * 40})
    {{}}(x)
    return mx.zeros((2, 2)) @ mx.zeros((len(rows), 3))
"""
PROGRAMS = {
    "a branch": (
        "SHAPE-001",
        """
        def f(x: mx.array, wide: bool):
            w = mx.zeros((3, 8)) if wide else mx.zeros((3, 8, 1)).squeeze(-1)
            if not wide:
                return mx.zeros((2, {})) @ w
            return mx.zeros((2, 3)) @ w
        """,
        ("8", "3"),
    ),
    "a function": (
        "SHAPE-001",
        """
        def project(x, w):
            return x @ w

        project(mx.zeros((2, 3)), mx.zeros(({}, 5)))
        """,
        ("4", "3"),
    ),
    "a layer": (
        "SHAPE-001",
        """
        class MLP(nn.Module):
            def __init__(self, dims, hidden):
                super().__init__()
                self.up = nn.Linear(dims, hidden)
                self.down = nn.Linear({}, dims)

            def __call__(self, x):
                return self.down(nn.gelu(self.up(x)))

        MLP(8, 32)(mx.zeros((2, 8)))
        """,
        ("dims", "hidden"),
    ),
    "an object that changes between equal calls": (
        "SHAPE-001",
        """
        class Box:
            def __init__(self):
                self.size = 2

        def row(box):
            return mx.zeros((box.size,))

        box = Box()
        row(box) @ mx.zeros((2, 3))
        box.size = {}
        row(box) @ mx.zeros((2, 3))
        """,
        ("5", "2"),
    ),
    "a number of another kind in an equal call": (
        "SHAPE-001",
        """
        def row(n):
            return mx.zeros((2,)) if isinstance(n, float) else mx.zeros((3,))

        row(1.0) @ mx.zeros((2, 3))
        row({}) @ mx.zeros((2, 3))
        """,
        ("1", "1.0"),
    ),
    "a model that a function is called with": (
        "SHAPE-001",
        """
        class Head(nn.Module):
            def __init__(self):
                super().__init__()
                self.out = nn.Linear(8, {})

            def __call__(self, x):
                return self.out(x)

        def loss(model, x: mx.array, y: mx.array):
            return nn.losses.mse_loss(model(x) @ mx.zeros((4, 2)), y)
        """,
        ("3", "4"),
    ),
    "a loop": (
        "SHAPE-001",
        """
        x = mx.zeros((2, 8))
        for layer in [nn.Linear(8, 16), nn.Linear({}, 4)]:
            x = layer(x)
        """,
        ("8", "16"),
    ),
    "a comprehension": (
        "SHAPE-001",
        "\ndef f(xs):\n    return [mx.zeros((2, {})) @ mx.zeros((3, 8)) for x in xs]\n",
        ("2", "3"),
    ),
    "a long inner function, which is not run": ("SHAPE-001", CLOSURE, ("print", "add")),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    code, program, (bad, good) = PROGRAMS[name]
    assert codes(program.format(bad), "SHAPE") == ([code] if code else [])
    assert codes(program.format(good), "SHAPE") == []


CORRELATED = """
def f(wide: bool):
    if wide:
        w = mx.zeros((3, 8))
    else:
        w = mx.zeros((5, 8))
    if not wide:
        return mx.zeros((2, 5)) @ w
    return mx.zeros((2, 3)) @ w
"""


def test_branches_on_one_condition() -> None:
    assert codes(CORRELATED, "SHAPE") == []


MODEL = """
import mlx.core as mx
import mlx.nn as nn

class Block(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.layer = nn.Linear(dims, dims)

    def __call__(self, x):
        return self.layer(x)

def broken():
    return mx.zeros(3) + mx.zeros(4)
"""
MAIN = """
import mlx.core as mx
from model import Block, broken

Block(64)(mx.zeros((2, SIZE)))
broken()
"""


@pytest.mark.parametrize(("size", "expected"), [("32", {("main.py", 5)}), ("64", set())])
def test_calls_of_other_files(tmp_path: Path, size: str, expected: set[tuple[str, int]]) -> None:
    """An operation that raises for any caller is reported in its file alone."""
    files = {"model.py": MODEL, "main.py": MAIN.replace("SIZE", size)}
    found = flagged(tmp_path, files, ("SHAPE",))
    assert {(name, line) for name, line, _ in found} == {("model.py", 14), *expected}


EXPECTED = [
    "try:\n    a @ a\nexcept ValueError:\n    pass",
    "import pytest\ndef test_product():\n    with pytest.raises(ValueError):\n        a @ a",
    "def square(x):\n    return x @ x\ntry:\n    square(a)\nexcept ValueError:\n    pass",
]


@pytest.mark.parametrize("program", EXPECTED)
def test_errors_that_are_handled(program: str) -> None:
    assert codes(f"a = mx.zeros((2, 3))\n{program}\n", "SHAPE") == []


REMEDIES = [
    ("x = mx.zeros((2, 3)) @ w", "Transpose the second factor: `w.T`"),
    ("x = mx.zeros((5, 2, 3)) @ mx.stack([w, w])[:1]", "`mx.stack([w, w])[:1].swapaxes(-1, -2)`"),
    ("x = w - w.mean(axis=1)", "Keep the axis: `w.mean(axis=1, keepdims=True)`"),
    ("x = w - mx.mean(w, 1,)", "Keep the axis: `mx.mean(w, 1, keepdims=True)`"),
    ("x = w * mx.ones(8)", "Insert an axis: `mx.ones(8)[..., None]`"),
    ("x = nn.losses.mse_loss(w[:, :1], w[:, 0])", "`w[:, :1].squeeze(-1)`"),
    ("x = nn.Linear(8, 4)(w)", "Create the layer for its input: `nn.Linear(3, 4)`"),
    ("x = nn.RMSNorm(8)(w)", "Create the layer for its input: `nn.RMSNorm(3)`"),
    ("x = nn.Conv1d(8, 4, 1)(w[None])", "Move the channels last: `w[None].transpose(0, 2, 1)`"),
    ("x = w[None].transpose(1, 2)", "to swap two, use `w[None].swapaxes(1, 2)`"),
    ("def f(y: mx.array): return y.transpose(1, 2)", "use `y.swapaxes(1, 2)`"),
    ("x = mx.concatenate([mx.load('x'), w[0, 0]])", "insert an axis, `w[0, 0][None]`"),
    ("x = mx.stack([w, w[0]])", "`w` has the shape (8, 3), and `w[0]` (3,)"),
    ("x = w.reshape(5, 5)", "Pass sizes with the product 24"),
    ("x = w.sum(axis=2)", "Name an axis from -2 to 1"),
    ("x = w + mx.zeros((3, 8))", "Transpose one of them: `mx.zeros((3, 8)).T`"),
    ("v = mx.zeros((8, 3))\nx = w + v.T", "Leave out the transposition: `v`"),
    ("x = w + mx.zeros((8, 4))", "Make 3 and 4 equal, or pass an array of another shape"),
    ("x = mx.pad(w, 1, mode='replicate')", "one of 'constant', 'edge', 'reflect', 'symmetric'"),
    ("x = mx.stack([w, w.T])", "`embercoach shapes program.py:4`"),
]


@pytest.mark.parametrize(("line", "expected"), REMEDIES)
def test_the_help_has_the_line_that_fits(line: str, expected: str) -> None:
    found = findings(f"w = mx.zeros((8, 3))\n{line}\n", "SHAPE")
    assert [expected in one.help for one in found] == [True], found


def test_axes_of_equal_sizes_are_each_moved() -> None:
    body = "    B, h, L = x.shape\n    return mx.zeros((B, h, L, L)).reshape(B, L, h * L)"
    (found,) = findings(FUNCTION.format(unpacked="pass", body=body), "SHAPE-004")
    assert "`mx.zeros((B, h, L, L)).transpose(0, 2, 1, 3)`" in found.help


FIXED = [
    "n, d = x.shape\n    return x - x.mean(axis=1)",
    "n, d = x.shape\n    return x / mx.linalg.norm(x, axis=-1,)",
    "B, S, D = x.shape\n    return mx.softmax(x, axis=-2) @ v",
    "B, S, D = x.shape\n    return mx.matmul(mx.softmax(x, 1), v)",
]


@pytest.mark.parametrize("body", FIXED)
def test_fixes_are_unsafe_and_remove_the_finding(body: str) -> None:
    program = FUNCTION.format(unpacked="pass", body=f"    {body}")
    (found,) = findings(program, "SHAPE")
    assert found.fix is not None
    assert not found.fix.safe
    fixed = apply(IMPORTS + program, [found.fix])[0]
    assert codes(fixed.removeprefix(IMPORTS), "SHAPE") == []


LONG = "a_name_of_more_than_forty_characters_for_{}"


def test_messages_of_long_names_are_short() -> None:
    first, second = LONG.format("batches"), LONG.format("sequences")
    program = FUNCTION.format(unpacked=f"{first}, {second} = x.shape", body="    return x @ x")
    (found,) = findings(program, "SHAPE")
    assert found.code == "SHAPE-002"
    assert len(found.message) <= 100


def test_the_calls_that_lead_to_it_are_related() -> None:
    program = """
    def inner(x):
        return x @ mx.zeros((4, 4))

    def outer(x):
        return inner(x)

    outer(mx.zeros((2, 3)))
    """
    (found,) = findings(program, "SHAPE-001")
    assert found.message == "`matmul`: inner sizes of (2, 3) and (4, 4) are 3 and 4"
    assert [step.line - found.line for step in found.related] == [3, 5]


def test_an_operand_with_another_finding_hides_nothing() -> None:
    program = "y = mx.ones([4, 4])[5] @ mx.zeros((3, 4))\n"
    assert codes(program, ("SHAPE", "INDEX-001")) == ["SHAPE-001", "INDEX-001"]


PATHS = [
    # A branch drops an axis that what follows takes.
    ("if y.item():\n    x = x[:, 0]\nreturn x.transpose(0, 2, 1)", ["SHAPE-001"]),
    ("if y.item():\n    x = x[:, :1]\nreturn x.transpose(0, 2, 1)", []),
    ("if y.item():\n    x = x[:, 0]\nreturn x.sum(axis=-1)", []),
]


@pytest.mark.parametrize(("body", "expected"), PATHS)
def test_branches_that_drop_an_axis(body: str, expected: list[str]) -> None:
    program = FUNCTION.format(unpacked=UNPACKED, body=indent(body, "    "))
    assert codes(program + "\n", "SHAPE") == expected


def test_a_setting_that_no_default_sets() -> None:
    program = (
        "class Inner(nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
        "        self.is_flat = config.is_flat\n"
        "    def __call__(self, x):\n        B, S, D = x.shape\n"
        "        if self.is_flat:\n            x = x.transpose(1, 2)\n        return x\n"
        "class Outer(nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
        "        self.layers = [Inner(config) for _ in range(config.number)]\n"
        "    def __call__(self, x):\n        for one in self.layers:\n            x = one(x)\n"
        "        return mx.exp(x)\n"
    )
    assert codes(program, "SHAPE") == ["SHAPE-001"]


def test_sizes_that_a_function_of_another_file_does_not_take(tmp_path: Path) -> None:
    files = {
        "noise.py": "import mlx.core as mx\ndef mix(x: mx.array, t: mx.array):\n    return x * t\n",
        "main.py": "import mlx.core as mx\nfrom noise import mix\ndef f(x: mx.array):\n"
        "    B, S, D = x.shape\n    return mix(x, mx.random.uniform(shape=(B,)))\n",
    }
    assert flagged(tmp_path, files, ("SHAPE",)) == {("main.py", 5, "SHAPE-003")}
