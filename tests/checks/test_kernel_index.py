"""KERNEL-INDEX: unsigned numbers below 0, and kernels that unknown numbers are formatted into."""

from __future__ import annotations

import pytest

from embercoach.checks import check_metal
from embercoach.metal.unknown_numbers import readable_names, with_names
from tests.checks.findings import codes, findings, launched, messages

CODE = "KERNEL-INDEX-001"
I = "uint i = thread_position_in_grid.x; "  # noqa: E741


WRAPS = {
    I + "if (i >= x_shape[0]) return; y[i] = x[i - 1];": "is -1",
    I + "auto row = x + i * W; y[i] = row[i - 1];": "is -1",
    I + "do { y[i] = x[i - 1]; } while (false);": "is -1",
    "uint3 at = thread_position_in_grid; y[at.x] = x[at.x - 1u];": "is -1",
    "uint r = thread_position_in_grid.y, w = x_shape[1]; y[r] = x[(r - 1) * w];": "below 0",
    "for (uint k = 0; k < x_shape[0]; ++k) y[k] = x[k - 1];": "is -1",
}


@pytest.mark.parametrize("body", WRAPS)
def test_the_first_thread_reads_in_front(body: str) -> None:
    (message,) = messages(launched(body, template="('W', 16)"), CODE)
    assert WRAPS[body] in message


@pytest.mark.parametrize(
    "body",
    [
        I + "if (i > 0) y[i] = x[i - 1];",
        I + "if (i == 0) return; y[i] = x[i - 1];",
        I + "if (i < 1) { y[i] = 0; } else { y[i] = x[i - 1]; }",
        I + "if (i < 1) { y[i] = 0; return; } y[i] = x[i - 1];",
        I + "y[i] = i && x[i - 1] > 0 ? 1 : 0;",
        I + "y[i] = !i || x[i - 1] > 0 ? 1 : 0;",
        I + "uint left = i - 1; if (left < x_shape[0]) y[i] = x[left];",
        I + "uint left = max(i, 1u) - 1; y[i] = x[left];",
        I + "y[i] = x[i - (i > 0)];",
        I + "if (x[i] > 0) y[i] = x[i - 1];",
        I + "if (simd_any(i > 0)) y[i] = x[i - 1];",
        I + "switch (n) { case 1: y[i] = x[i - 1]; }",
        I + "float own[4] = {0}; y[i] = own[i + 1] - x[i];",
        "for (uint k = 0; k < x_shape[0]; ++k) { if (k == 0) continue; y[k] = x[k - 1]; }",
    ],
)
def test_guarded_indices(body: str) -> None:
    assert messages(launched(body, template="('W', 16)"), CODE) == []


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        ("for (uint k = n - 1; k >= 0; --k) y[k] = x[k];", "always true: the loop never ends"),
        ("uint k = n; while (k >= 0) { k -= 1; y[k] = 1; }", "always true: the loop never ends"),
        (I + "uint d = i - n; if (d < 0) d = 0; y[d] = 1;", "always false: below 0"),
        (I + "if (0 > i - 3) return; y[i] = 1;", "always false"),
        (I + "y[i] = x[i + 3 - 1 >= 0 ? i - 5 : 0];", "always true"),
        ("ulong k = ulong(n) - 1; if (k >= 0) y[k] = 1;", "unsigned `ulong`"),
    ],
)
def test_comparisons_without_a_choice(body: str, reported: str) -> None:
    (message,) = messages(launched(body, template="('W', 16)"), CODE)
    assert reported in message


@pytest.mark.parametrize(
    "body",
    [
        "for (uint k = n - 1; k >= 0 && k < n; --k) y[k] = x[k];",
        I + "if (i - 1 >= 0 && i - 1 < n) y[i] = 1;",
    ],
)
def test_comparisons_with_a_choice(body: str) -> None:
    assert messages(launched(body, template="('W', 16)"), CODE) == []


def test_files_are_read_as_bodies_are() -> None:
    text = (
        "#include <metal_stdlib>\nusing namespace metal;\n"
        "kernel void f(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],\n"
        "              constant uint& n [[buffer(2)]], uint i [[thread_position_in_grid]]) {\n"
        "  if (i >= n) return;\n"
        "  y[i] = x[i] - x[i - 1];\n"
        "  for (uint k = n - 1; k >= 0; --k) y[k] += i > 0 ? x[i - 1] : 0;\n"
        "}\n"
    )
    found = check_metal(text).findings
    assert sorted((f.line, f.column) for f in found if f.code == CODE) == [(6, 19), (7, 24)]


@pytest.mark.parametrize("call", ["min(i)", "max()", "min(i, n, 3u)"])
def test_calls_with_too_few_or_too_many_arguments(call: str) -> None:
    body = f"threadgroup float t[32]; {I}t[i] = 1; y[i] = t[31 - {call}];"
    assert findings(launched(body), CODE) == []


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
        "float big[4]; big[{n}] = 1; y[0] = big[0];",
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


@pytest.mark.parametrize(
    ("start", "step", "found"),
    [
        ("thread_position_in_grid.x", "threads_per_threadgroup.x", 1),
        ("int(thread_position_in_grid.x)", "int(threads_per_threadgroup.x)", 1),
        ("thread_position_in_threadgroup.x", "threads_per_grid.x", 1),
        ("thread_position_in_grid.x", "threads_per_grid.x", 0),
        ("thread_position_in_threadgroup.x", "threads_per_threadgroup.x", 0),
        ("thread_position_in_grid.y", "threads_per_threadgroup.x", 0),
        ("thread_position_in_grid.x + 1", "threads_per_threadgroup.x", 0),
    ],
)
def test_steps_of_loops_over_positions(start: str, step: str, found: int) -> None:
    body = f"for (uint i = {start}; i < 64; i += {step}) y[i] = x[i];"
    one_group = launched(body)
    several = one_group.replace("grid=(32, 1, 1)", "grid=(64, 64, 1)")
    assert codes(several, "KERNEL-INDEX-002") == ["KERNEL-INDEX-002"] * found
    assert codes(one_group, "KERNEL-INDEX-002") == []
