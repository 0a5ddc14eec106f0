"""KERNEL-SIG-010: line breaks that Python makes of escapes in a kernel's comments and strings."""

from __future__ import annotations

import pytest

from tests.checks.findings import findings, pointed

CODE = "KERNEL-SIG-010"


def escapes(program: str) -> list[str]:
    """The source text of each finding."""
    return [text for _, text in pointed(program, CODE)]


def kernel(source: str, before: str = "", header: str = '""') -> str:
    """A kernel of texts that are given as Python expressions."""
    return (
        f'{before}\nK = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"],\n'
        f"    header={header}, source={source})\n"
    )


def body(*lines: str, prefix: str = "") -> str:
    """A literal of several lines."""
    return "\n".join(
        (f'{prefix}"""', "uint i = thread_position_in_grid.x;", *lines, 'y[i] = x[i];\n"""')
    )


@pytest.mark.parametrize(
    "line",
    [
        r'// printf("at %u\n", i);',
        r'    // printf("at %u\n", i);',
        r'uint k = 0; // printf("at %u\n", k);',
        r'// printf("at %u\x0a", i);',
        r'// printf("at %u\012", i);',
        r"// prints a \n in the middle",
        r'#define ONE 1 // "\n" ends it',
        r'// printf("done\n");',
        r'/* one */ // printf("done\n");',
    ],
)
@pytest.mark.parametrize("prefix", ["", "f"])
def test_comments(line: str, prefix: str) -> None:
    escape = next(e for e in (r"\n", r"\x0a", r"\012") if e in line)
    assert escapes(kernel(body(line, prefix=prefix))) == [escape]
    assert escapes(kernel("S", f"S = {body(line, prefix=prefix)}")) == [escape]


def test_two_breaks_in_a_comment_are_one_finding() -> None:
    assert escapes(kernel(body(r'// printf("a\n b\n", i);'))) == [r"\n"]


def test_strings() -> None:
    assert escapes(kernel(body(r'constant char* s = "a\n";'))) == [r"\n"]


def test_one_line_with_half_a_string() -> None:
    assert escapes(kernel(r"""'// printf("x\n", x);\ny[0] = x[0];'""")) == [r"\n"]


def test_message() -> None:
    (found,) = findings(kernel(body(r'// printf("at %u\n", i);')), CODE)
    assert found.message == r"`\n` ends the `//` comment: `" + '", i);` becomes code'


@pytest.mark.parametrize(
    "line",
    [
        # Meant as two lines: what follows is code.
        r"// the first\n uint k = 0;",
        # Not compiled.
        '#if 0\n// printf("at %u\\n", i);\n#endif',
    ],
)
def test_near_misses(line: str) -> None:
    assert escapes(kernel(body(line))) == []


def test_unknown_text_may_close_the_string() -> None:
    program = kernel(body(r"// {a}\n {b}", prefix="f"))
    assert escapes(f"def make(a, b):\n    {program.strip()}") == []
