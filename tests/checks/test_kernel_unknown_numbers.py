"""Kernels that numbers of run time are formatted into: they are followed, the numbers unknown."""

from __future__ import annotations

import pytest

from embercoach.metal.unknown_numbers import readable_names, with_names
from tests.checks.findings import codes

FLOW = ("KERNEL-RACE", "KERNEL-BARRIER", "KERNEL-BOUNDS", "KERNEL-SIMD", "KERNEL-MEMORY")


def kernel(body: str, group: str = "(128, 1, 1)") -> str:
    """A kernel that a function of two numbers makes and launches."""
    return (
        "def run(x, n: int, eps: float):\n"
        '    k = mx.fast.metal_kernel(name=f"k_{n}_{eps}", input_names=["x"], output_names=["y"],\n'
        f'        source=f"""\n{body}\n""")\n'
        f"    return k(inputs=[x], grid=(x.size, 1, 1), threadgroup={group},\n"
        "        output_shapes=[x.shape], output_dtypes=[mx.float32])\n"
    )


RACE = """
    threadgroup float part[128];
    uint lane = thread_index_in_threadgroup;
    part[lane] = x[lane] * {field};
    y[lane] = part[127 - lane];
"""


@pytest.mark.parametrize("field", ["{n}", "{eps}", "float({n})", "({n}) - 1", "{n} / 2 + {{n}}[0]"])
def test_followed(field: str) -> None:
    body = RACE.replace("{field}", field.replace("{{n}}[0]", "1"))
    assert codes(kernel(body), FLOW) == ["KERNEL-RACE-001"]


@pytest.mark.parametrize(
    "body",
    [
        # The index, the size and the guard depend on the number.
        "threadgroup float big[{n}][1024]; big[0][0] = x[0];",
        "const uint n = {n};" + RACE.replace("127 - lane", "lane + n - 1").replace("{field}", "n"),
        # Several numbers that may hang together, and numbers in larger tokens.
        RACE.replace("{field}", "{n} * {eps}"),
        RACE.replace("{field}", "{n}u"),
        RACE.replace("{field}", "1e-{n}"),
    ],
)
def test_silent(body: str) -> None:
    assert codes(kernel(body), FLOW) == []


@pytest.mark.parametrize("value", [4, 1])
def test_known_numbers_stay_known(value: int) -> None:
    program = kernel("float big[4]; big[{n}] = x[0]; y[0] = big[0];")
    assert codes(program.replace("{n}", str(value)), "KERNEL-BOUNDS") == (
        ["KERNEL-BOUNDS-001"] if value == 4 else []
    )


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("#define A 1\n#define B (1)\n", True),
        ("y[0] = 1 + 1;", False),
        ("#define A(1)\nuint b = 1;", False),
    ],
)
def test_texts(text: str, kept: bool) -> None:
    stretches = [(i, i + 1) for i, c in enumerate(text) if c == "1" and text[i - 1] != "#"]
    if text == "#1":
        stretches = [(1, 2)]
    found = with_names([(text, stretches)])
    assert (found is not None) == kept
    if found is not None:
        assert len(found[0]) == len(text)
        code, _, comment = found[0].partition("//")
        assert "1" not in code
        assert "1" in comment or not comment
        assert "{...}" in readable_names(found[0])
