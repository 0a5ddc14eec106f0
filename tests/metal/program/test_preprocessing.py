from __future__ import annotations

import pytest

from embercoach.metal.program.lowering import lower_body
from tests.metal.program.rendering import NAMES, body_lines


def _first(text: str, header: str = "") -> str:
    return body_lines(lower_body(text, header, NAMES))[-1]


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("#define ADD(a, b) a b\nADD((1, 2), + 3);", "((1:int , 2:int):int + 3:int):int"),
        ("#define CAT(a, b) a##b\nCAT(x, 1);", "x1"),
        ("#define CAT(a, b) a##b\n#define ONE 1\nCAT(x, ONE);", "xONE"),
        ("#define F(x) x\nF;", "F"),
        ("#define V(f, ...) g(f, ##__VA_ARGS__)\nV(1);", "g(1:int):?"),
        ("#define V(f, ...) g(f, __VA_ARGS__)\nV(1, 2, 3);", "g(1:int, 2:int, 3:int):?"),
        ("#define V(rest...) g(rest)\nV(1, 2);", "g(1:int, 2:int):?"),
        ("#define N 1\n#undef N\nN;", "N"),
    ],
)
def test_macros(text: str, last: str) -> None:
    assert _first(text) == last


@pytest.mark.parametrize(
    ("condition", "chosen"),
    [
        ("#if SIZE > 16 && defined(SIZE)", "1"),
        ("#if SIZE == 3 || !defined SIZE", "2"),
        ("#if defined(MISSING)", "2"),
        ("#ifdef SIZE", "1"),
        ("#if (SIZE / 5) % 4 == 2", "1"),
        ("#if 0 && __METAL_VERSION__", "2"),
        ("#if HALF(SIZE) == 16", "1"),
    ],
)
def test_conditions(condition: str, chosen: str) -> None:
    macros = "#define SIZE 32\n#define HALF(n) (n / 2)\n"
    assert _first(f"{macros}{condition}\n1;\n#else\n2;\n#endif") == f"{chosen}:int"


def test_branches_in_turn_and_nested() -> None:
    text = """
    #if A == 1
    1;
    #elif A == 2
    #ifdef B
    20;
    #else
    2;
    #endif
    #else
    3;
    #endif
    """
    assert _first(text, "#define A 2\n") == "2:int"
    assert _first(text, "#define A 2\n#define B\n") == "20:int"
    assert _first(text, "#define A 1\n") == "1:int"
    assert _first(text) == "3:int"


@pytest.mark.parametrize(
    "condition",
    ["#if __METAL_VERSION__ >= 310", "#ifdef __FAST_MATH__", "#if 0\n#elif TARGET_OS_OSX"],
)
def test_an_unknown_condition_is_a_problem(condition: str) -> None:
    program = lower_body(f"1;\n{condition}\n2;\n#endif\n3;", "", NAMES)
    assert body_lines(program)[::2] == ["1:int", "3:int"]
    (problem,) = program.problems
    assert problem.spot.place.line == 2
    assert program.body is not None
    assert program.body.statements[1] is problem


def test_a_condition_on_what_an_include_may_define_is_unknown() -> None:
    text = "#ifdef FLAG\n1;\n#endif"
    assert not lower_body(text, "#include <metal_stdlib>\n").problems
    assert lower_body(text, '#include "mine.h"\n').problems


def test_what_an_unknown_branch_defines_is_unknown() -> None:
    header = "#define N 1\n#if __METAL_VERSION__ > 300\n#define N 2\n#endif\n"
    assert _first("N;", header) != "1:int"


def test_pragmas_are_nothing() -> None:
    program = lower_body('#pragma unroll\nfor (;;) break;\n_Pragma("unroll") for (;;) break;')
    assert not program.problems
    assert body_lines(program).count("  break") == 2


@pytest.mark.parametrize(
    "text",
    [
        "#define F(a) a\nF(1, 2);",
        "#define F(a) a\nF(1",
        "#define F(a, b) a ## b\nF(+, 1);",
        "#if 1\n1;",
        "#else\n#endif",
        "#error no\n",
        "#define A B B\n" + "\n".join(f"#define {chr(66 + i)} {chr(67 + i)} {chr(67 + i)}"
                                     for i in range(20)) + "\nA;",
        "#define F(x) x\n" + "F(" * 100 + "1" + ")" * 100 + ";",
    ],
)  # fmt: skip
def test_wrong_uses_are_problems(text: str) -> None:
    assert lower_body(text).problems
