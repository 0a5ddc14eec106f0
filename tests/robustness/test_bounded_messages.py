"""Messages stay short and visible whatever they quote of linted code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from embercoach.engine.cache import restored, stored
from embercoach.engine.inspection import Inspector
from embercoach.terminal_text import MOST_QUOTED, MOST_SAID, MOST_SHOWN, bounded, in_file, quoted

LONG = "a" * 5_000
CONTROL = "\x1b[2J\r\n\u202e\u200b\x9b"
KERNEL = """\
import mlx.core as mx

kernel = mx.fast.metal_kernel(
    name={name!r},
    input_names=["inp", {input_name!r}],
    output_names=["out"],
    source={source!r},
    header={header!r},
)


def f(x):
    return kernel(
        inputs=[x, x],
        template=[({template!r}, mx.float32)],
        grid=(1, 1, 1),
        threadgroup=(1, 1, 1),
        output_shapes=[(1,)],
        output_dtypes=[mx.float32],
    )
"""
GOOD = {"name": "k", "input_name": "b", "source": "out[0] = inp[0];", "header": "", "template": "T"}
SOURCES = {
    "undeclared": f"out[0] = {LONG};",
    "foreign": f"std::{LONG}<int> x; out[0] = inp[0];",
    "unused declarations": f"int {LONG}; out[{LONG}] = inp[{LONG} * 3];",
    "control characters": f"out[0] = inp[0]; // {CONTROL}\n#error {CONTROL}{LONG}",
    "calls": f"out[0] = {LONG}(inp[0]);",
    "backquotes": f"out[0] = `{LONG}` + `{CONTROL}`;",
}


def messages(name: str, source: str) -> list[str]:
    """All that is said of a file, which a cache would take back."""
    inspection = Inspector().inspect(source.encode(), Path("/nowhere") / name)
    assert inspection.kind in ("checked", "broken")
    kept = restored(inspection.kind, inspection.digest, stored(inspection))
    assert kept == replace(inspection, dependencies=())
    if inspection.problem is not None:
        return [inspection.problem.message]
    found = inspection.findings
    steps = [step.message for one in found for step in (*one.flow, *one.related)]
    return [text for one in found for text in (one.message, one.help)] + steps


def assert_bounded(texts: list[str]) -> None:
    for text in texts:
        assert len(text) <= MOST_SAID
        assert text.isprintable()
        assert "a" * 2 * MOST_QUOTED + "a" not in text


@pytest.mark.parametrize("value", [LONG, LONG + "-", CONTROL, CONTROL + LONG, "`" + LONG])
@pytest.mark.parametrize("key", ["name", "input_name", "template"])
def test_names_of_a_kernel(key: str, value: str) -> None:
    assert_bounded(messages("a.py", KERNEL.format(**GOOD | {key: value})))


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("key", ["source", "header"])
def test_texts_of_a_kernel(key: str, source: str) -> None:
    assert_bounded(messages("a.py", KERNEL.format(**GOOD | {key: source})))


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_metal_files(source: str) -> None:
    text = f"[[kernel]] void {LONG}(device float* out [[buffer(0)]]) {{\n{source}\n}}\n"
    assert_bounded(messages("a.metal", f"#include <metal_stdlib>\n{text}"))


PYTHON = {
    "an attribute": f"import mlx.core as mx\nx = mx.ones(2)\nfor i in x: print(x.{LONG}.item())",
    "a function": f"import mlx.core as mx\n@mx.compile\ndef {LONG}(x: mx.array):\n    x.item()",
    "a suppression": f"import mlx.core as mx  # embercoach: ignore[{'A' * 5_000}-001]",
    "an encoding": f"# coding: {'x' * 5_000}\nimport mlx",
    "a syntax error": f"import mlx\n{LONG} = = 1",
    "half a character": "# coding: utf-7\nimport mlx\n+2AA-",
}


@pytest.mark.parametrize("source", PYTHON.values(), ids=PYTHON)
def test_python(source: str) -> None:
    assert_bounded(messages("a.py", source))


LONG_NAME = "n" * 300
SHARED_BY_THREADS = f"""
threadgroup float {LONG_NAME}[64];
uint i = thread_position_in_threadgroup.x;
{LONG_NAME}[i] = inp[i];
threadgroup_barrier(mem_flags::mem_none);
out[i] = {LONG_NAME}[63 - i] + {LONG_NAME}[i + 1];
out[0] += std::{LONG_NAME}(inp[i]);
"""


def test_messages_about_kernels_stay_short_with_long_names() -> None:
    sizes = {"source": SHARED_BY_THREADS, "input_name": LONG_NAME, "template": LONG_NAME}
    launched = KERNEL.format(**GOOD | sizes).replace("(1, 1, 1)", "(64, 1, 1)")
    inspection = Inspector().inspect(launched.encode(), Path("/nowhere/a.py"))
    found = {one.code: one.message for one in inspection.findings}
    assert {"KERNEL-BOUNDS-001", "KERNEL-BARRIER-002", "KERNEL-MSL-001"} <= found.keys()
    assert all(len(message) <= MOST_SHOWN for message in found.values()), found


# The functions themselves.


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("", ""),
        ("a" * 60, "a" * 60),
        ("a" * 61, "a" * 59 + "…"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\u202e\ud800", "\\u202e\\ud800"),
        ("é漢", "é漢"),
        ("\0" * 60, "\\x00" * 14 + "\\x0…"),
    ],
)
def test_a_quoted_value(value: str, shown: str) -> None:
    assert quoted(value) == shown
    assert json.dumps(shown)


def test_quotes_of_a_message_over_100_characters_are_clipped_to_24() -> None:
    names, words = f"`{'a' * 25}` and `{'b' * 24}`", "more of it " * 10
    assert bounded(f"{names}: {words}") == f"`{'a' * 23}…` and `{'b' * 24}`: {words}"
    assert len(bounded("many words " * 1_000)) == MOST_SAID


@pytest.mark.parametrize(
    ("function", "file", "effect", "expected"),
    [
        ("f", "a.py", " reads", "`f()` in a.py reads"),
        ("f" * 17, "preference.py", " x" * 20, f"`{'f' * 15}…()` in preference.py{' x' * 20}"),
        ("f" * 16, "preference.py", " x" * 22, f"`{'f' * 16}()` in …eference.py{' x' * 22}"),
    ],
)
def test_names_of_another_file_show_that_they_are_cut(
    function: str, file: str, effect: str, expected: str
) -> None:
    shown = in_file(function, file, effect)
    assert shown == expected
    assert len(shown) <= 80
