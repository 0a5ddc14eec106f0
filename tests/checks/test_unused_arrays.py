"""UNUSED and PARAM: names whose values nothing reads, and defaults that raise."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes, pointed

UNUSED = {
    "the name has a word of the old one": (
        "def f(logits, mask):\n    masked_logits = logits * mask\n    return mx.softmax(logits)"
    ),
    "a branch ends with the update": (
        "def f(x, mask, flag):\n    if flag:\n        x = x - mx.mean(x)\n    return mask"
    ),
    "all layers get the same array": (
        "def f(layers, x, mask):\n    for layer in layers:\n        h = layer(mx.abs(x), mask)\n"
        "    return h"
    ),
}
USED = {
    "a reduction is no new version": (
        "def f(logits):\n    max_logits = mx.max(logits)\n    return mx.softmax(logits)"
    ),
    "the shape alone is taken": (
        "def f(x):\n    x_buffer = mx.zeros(x.shape)\n    return mx.abs(x)"
    ),
    "an update in place reads it": "def f(x):\n    y = mx.abs(x)\n    y += 1\n    return y",
    "the next iteration reads it": (
        "def f(x, n):\n    y = mx.abs(x)\n    for _ in range(n):\n        x = x + y\n"
        "        y = y * x\n    return x"
    ),
    "an inner function reads it": (
        "def f(x):\n    y = mx.abs(x)\n    g = lambda: y\n    y = y + 1\n    return g()"
    ),
    "it is deleted": "def f(x):\n    x_abs = mx.abs(x)\n    del x_abs\n    return mx.abs(x)",
    "a layer may stop the loop": (
        "def f(layers, x):\n    for layer in layers:\n        h = layer(mx.abs(x))\n"
        "        if layer.is_last:\n            break\n    return h"
    ),
    "what is made of numbers is left over": (
        "def f(x):\n    ids = mx.arange(4)\n    ids = ids[None]\n    return mx.abs(x)"
    ),
    "the old one is used before": ("def f(x):\n    y = x * 2\n    x_abs = mx.abs(x)\n    return y"),
}


@pytest.mark.parametrize("name", UNUSED)
def test_arrays_that_nothing_reads_are_unused(name: str) -> None:
    assert codes(UNUSED[name], "UNUSED") == ["UNUSED-001"]


@pytest.mark.parametrize("name", USED)
def test_arrays_that_may_be_read_are_left(name: str) -> None:
    assert codes(USED[name], "UNUSED") == []


def test_the_array_that_is_passed_instead_is_shown() -> None:
    program = (
        "def f(block, text, hidden, old_hidden):\n    hidden = mx.concatenate([text, hidden])\n"
        "    return block(hidden=old_hidden)"
    )
    assert pointed(program, "UNUSED") == [("UNUSED-001", "old_hidden")]


ATTEND = "def attend(x, mask=None, *, scale=1.0):\n    return x\n"
PARAMETERS = {
    "a loop overwrites it": (
        "def f(x, key):\n    for key in range(3):\n        x = x + key\n    return x",
        "PARAM-001",
    ),
    "both branches overwrite it": (
        (
            "def f(x, mask):\n    if x.shape[0] > 1:\n        mask = mx.abs(x)\n    else:\n"
            "        mask = None\n    return x, mask"
        ),
        "PARAM-001",
    ),
    "a keyword is left out": (
        f"{ATTEND}def f(x, scale):\n    return attend(x, None)",
        "PARAM-002",
    ),
    "a constant is passed": (
        f"{ATTEND}def f(x, scale=2.0):\n    return attend(x, scale=1.0)",
        "PARAM-002",
    ),
    "the attention of MLX has no mask": (
        (
            "def f(q, k, v, attention_mask=None):\n"
            "    return mx.fast.scaled_dot_product_attention(q, k, v, scale=1.0)"
        ),
        "PARAM-002",
    ),
}
READ = {
    "it is overwritten for None": (
        "def f(x, mask=None):\n    if mask is None:\n        mask = mx.abs(x)\n    return x * mask"
    ),
    "it is updated": "def f(x, offset):\n    offset += 1\n    return x + offset",
    "the new value is made of it": "def f(x, mask):\n    mask = mask[None]\n    return x * mask",
    "nothing reads the new value": "def f(x, mask):\n    mask = mx.abs(x)\n    return x",
    "it is passed by place": f"{ATTEND}def f(x, mask):\n    return attend(x, mask)",
    "it is read before a constant is passed": (
        f"{ATTEND}def f(x, scale):\n    return attend(x * scale, scale=1.0)"
    ),
    "it may be passed": f"{ATTEND}def f(x, mask, **kw):\n    return attend(x, **kw)",
    "a base has the parameter": (
        f"{ATTEND}class A:\n    def f(self, x, mask):\n        return x + mask\n"
        "class B(A):\n    def f(self, x, mask):\n        return attend(x)"
    ),
    "a decorator may read it": (
        f"{ATTEND}def placed(f):\n    return lambda x, mask: f(x + mask)\n"
        "@placed\ndef f(x, mask=None):\n    return attend(x)"
    ),
    "it is named as unused": f"{ATTEND}def f(x, _mask):\n    return attend(x)",
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_that_no_statement_sees_are_reported(name: str) -> None:
    program, code = PARAMETERS[name]
    assert codes(program, "PARAM") == [code]


@pytest.mark.parametrize("name", READ)
def test_parameters_that_are_read_are_left(name: str) -> None:
    assert codes(READ[name], "PARAM") == []


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return x + list(y)", 1),
        ("for one in y:\n    x = x + one\nreturn x", 1),
        ("return f(*y)", 1),
        ("return -y", 1),
        ("for i in range(3):\n    x = x * y\nreturn x", 1),
        ("return '%s' % y", 0),
        ("return not y", 0),
        ("return y.shape", 0),
        ("if len(x) == 3:\n    return x\nreturn x + y", 0),
        ("if x is not y:\n    pass\nreturn x + y", 0),
        ("y = g(y)\nreturn x + y", 0),
        ("return [x + y for _ in range(3)]", 1),
        ("def g():\n    return x + y\nreturn g", 0),
        ("raise NotImplementedError\nreturn x + y", 0),
    ],
)
def test_uses(body: str, found: int) -> None:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    program = f"def f(x, y=None):\n{lines}\n"
    assert codes(program, "PARAM-003") == ["PARAM-003"] * found


PRIVATE = "def _f(x, y=None):\n    return x + y\n"


@pytest.mark.parametrize(("call", "found"), [("_f(3, 4)", 0), ("_f(3)", 1), ("_f(3, *z)", 0)])
def test_calls_of_private_functions(call: str, found: int) -> None:
    assert codes(PRIVATE + call, "PARAM-003") == ["PARAM-003"] * found
