"""Metal text in shapes that make slow algorithms show, for `tests/robustness/test_metal_growth.py`.

Each shape makes a text of about as many bytes as asked. Those of ``FILES`` are whole ``.metal``
files, those of ``BODIES`` the bodies of kernels. ``{0}`` in a repeated text is the number of the
copy, ``{1}`` the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

Shape = Callable[[int], str]

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
_OPENING = (
    "kernel void k{0}(device float* x [[buffer(0)]], constant int& n [[buffer(1)]],\n"
    "    uint i [[thread_position_in_threadgroup]]) {{\n"
)


def kernel(body: str, name: str = "") -> str:
    """An entry point with a body."""
    return _OPENING.format(name) + body + "\n}\n"


def _numbered(unit: str, n: int) -> str:
    return unit.replace("{0}", str(n)).replace("{1}", str(n + 1))


def _repeated(unit: str, size: int) -> str:
    """A text of about a size: a unit again and again."""
    if "{0}" not in unit:
        return unit * max(size // len(unit), 1)
    # A number takes about as many characters as the size's own less those of a unit.
    width = len(unit) - 3 * unit.count("{0}") + unit.count("{0}") * len(str(size // len(unit)))
    return "".join(unit.replace("{0}", str(n)) for n in range(max(size // width, 1)))


def many(unit: str, before: str = "", after: str = "", share: float = 1) -> Shape:
    """A unit again and again between two texts, in this share of the size."""
    return lambda size: before + _repeated(unit, int(size * share)) + after


def nested(opening: str, closing: str, inside: str, before: str = "", after: str = "") -> Shape:
    """Brackets in brackets."""

    def make(size: int) -> str:
        count = max(size // (len(opening) + len(closing)), 1)
        return before + opening * count + inside + closing * count + after

    return make


def chain(each: int, first: str, unit: str, last: str) -> Shape:
    """Units that use the one before; ``{0}`` of the last text is their number."""

    def make(size: int) -> str:
        count = max(size // each, 1)
        links = "".join(_numbered(unit, n) for n in range(count))
        return first + links + last.replace("{0}", str(count))

    return make


def _recursion(size: int) -> str:
    count = max(size // 60, 1)
    functions = "".join(
        f"float f{n}(float v) {{ return f{(n + 1) % count}(v) + f{(n * 7) % count}(v); }}\n"
        for n in range(count)
    )
    return functions + kernel("x[i] = f0(x[i]);")


def _nested_loops(size: int) -> str:
    depth = min(max(size // 60, 1), 40)
    heads = "".join(f"for (int a{n} = 0; a{n} < 50; ++a{n}) {{\n" for n in range(depth))
    return _repeated(heads + "x[i] += a0;\n" + "}\n" * depth, size)


_ZERO = kernel("x[i] = 0;")
_BOMB = "#define A0 1\n" + "".join(_numbered("#define A{1} A{0} + A{0}\n", n) for n in range(30))
_LOOP = (
    "  threadgroup float s[32];\n"
    "  for (int q = 0; q < 100; ++q) { s[i % 32] = x[q + {0}]; x[i] = s[q % 32]; }"
)
_STEP = (
    "x[i] = s[(i + 1) % 64];\nthreadgroup_barrier(mem_flags::mem_threadgroup);\n"
    "s[i % 64] = x[i];\nthreadgroup_barrier(mem_flags::mem_threadgroup);\n"
)
_FUNCTION = "float f0(float v) { return v; }\n"
_SUM = kernel("x[i] = f1(x[i]) + f2(x[i]);")

FILES: dict[str, Shape] = {
    "nested #if": nested("#if A\n", "#endif\n", "int x;\n", after=_ZERO),
    "nested true #if": nested("#if 1\n", "#endif\n", "int x;\n", after=_ZERO),
    "long macros": lambda size: (
        f"#define A {'a' * (size // 2)}\n" + kernel(_repeated("A ", size // 2))
    ),
    "nested unknown #if": nested(
        "#if __METAL_VERSION__ > 9\n", "#endif\n", "int x;\n", after=_ZERO
    ),
    "unknown #if": many("#if __METAL_VERSION__ > {0}\n#define A{0} 1\n#endif\n", after=_ZERO),
    "#elif": many(
        "#elif __METAL_VERSION__ == {0}\nint a{0};\n",
        "#if __METAL_VERSION__ == 1\n",
        "#endif\n" + _ZERO,
    ),
    "undecided #elif": nested("#if 0\n", "#elif __METAL_VERSION__\n#endif\n", "int x;\n"),
    "kernels with a loop": many(kernel(_LOOP, "{0}")),
    "small kernels": many(kernel("  x[i] = n + {0};", "{0}")),
    "calling functions": many(
        "float f{0}(float v) { return f(v) + {0}; }\n", "float f(float v) { return v; }\n", _SUM
    ),
    "chain of functions": chain(
        46, _FUNCTION, "float f{1}(float v) { return f{0}(v) + 1; }\n", kernel("x[i] = f{0}(x[i]);")
    ),
    "doubling functions": chain(
        52,
        _FUNCTION,
        "float f{1}(float v) { return f{0}(v) + f{0}(v); }\n",
        kernel("x[i] = f{0}(x[i]);"),
    ),
    "recursion": _recursion,
    "overloads": chain(
        60,
        "struct S {};\n",
        "struct S{0} {};\nfloat f(S{0} v) { return {0}; }\n",
        kernel("x[i] = f(x[i]);" * 10),
    ),
    "calls of overloads": lambda size: (
        _repeated("float f(device S{0}* v) { return {0}; }\n", size // 2)
        + kernel(_repeated("x[i] = f(x);\n", size // 2))
    ),
    "structs": many(
        "struct S{0} { float a; int b[{0}]; };\n", after=kernel("S1 s; s.a = 1; x[i] = s.a;")
    ),
    "chain of structs": chain(
        32,
        "struct S0 { float a; };\n",
        "struct S{1} { S{0} a; S{0} b; };\n",
        kernel("S{0} s; x[i] = 0;"),
    ),
    "members": many(
        "  float m{0};\n", "struct S {\n", "};\n" + kernel("S s; s.m1 = 1; x[i] = s.m1;")
    ),
    "parameters": many(
        "    device float* p{0} [[buffer({0})]],\n",
        "kernel void k(\n",
        "    uint i [[thread_position_in_grid]]) { p1[i] = p2[i]; }\n",
    ),
    "templates": many("template <typename T, int N{0}> T f{0}(T v) { return v + N{0}; }\n"),
    "template parameters": many("int N{0}, ", "template <", "int M> int f(int v) { return v; }\n"),
    "namespaces": nested("namespace a {\n", "}\n", "int f() { return 1; }\n"),
    "aliases": chain(
        24, "using T0 = float;\n", "using T{1} = T{0};\n", kernel("T{0} v = x[i]; x[i] = v;")
    ),
    "constants": chain(
        34, "constant int c0 = 1;\n", "constant int c{1} = c{0} + 1;\n", kernel("x[i] = c{0};")
    ),
    "defines": many("#define A{0} {0}\n", after=kernel("x[i] = A1 + A2;")),
    "uses of macros": lambda size: (
        "#define A(v) ((v) + 1)\n" + kernel(_repeated("x[i] = A(A(A(i)));\n", size))
    ),
    "macro bomb": chain(24, "#define A0 1\n", "#define A{1} A{0} + A{0}\n", kernel("x[i] = A{0};")),
    "macro bombs": lambda size: _BOMB + kernel(_repeated("x[i] = A30;\n", size)),
    "conditions with macro bombs": many("#if A30\nint a;\n#endif\n", _BOMB),
    "macro chain": chain(
        20, "#define A0 1\n", "#define A{1} A{0}\n", kernel("x[i] = A{0} + A{0};")
    ),
    "nested macro use": nested(
        "A(", ")", "1", "#define A(v) v v\n" + _OPENING.format("") + "x[i] = ", ";\n}\n"
    ),
    "open macro use": lambda size: "#define A(v) v\n" + kernel(_repeated("x[i] = A(i;\n", size)),
    "pastes": lambda size: (
        f"#define A {'##'.join('a' * max(size // 3, 1))}\n" + kernel("x[i] = A;")
    ),
    "macro arguments": many(
        "i, ", "#define A(...) f(__VA_ARGS__)\n" + _OPENING.format("") + "x[i] = A(", "i);\n}\n"
    ),
    "directives": many("#pragma a\n", after=_ZERO),
    "includes": many('#include "a{0}.h"\n', after=_ZERO),
    "marks": many("# "),
    "one line of kernels": many(kernel("x[i] = 0;", "{0}").replace("\n", " ")),
    "open templates": many("f<"),
    "open braces": many("{"),
    "closing braces": many("}"),
    "open parentheses": many("f(("),
    "brackets": many("[["),
    "quotes": many('"'),
    "backslashes": many("\\\n"),
    "at signs": many("@ "),
    "words": many("kernel device "),
    "operators": many("< > & * "),
    "colons": many("::a"),
    "braces of structs": many("struct {"),
    "open functions": many("void f() { if (a"),
    "raw strings": many('R"a('),
    "open comments": many("/* "),
    "open comments of directives": many("#define A /* "),
    "operators and braces": many("!}"),
    "commas and parentheses": many("a,)"),
    "attributes in a row": many("[[a]] "),
    "escaped quotes": many('"\\'),
    "escaped apostrophes": many("'\\"),
    "statements of comparisons": many("a<b;"),
    "control characters": many("{\x00"),
    "emoji": many("{\N{GRINNING FACE}}"),
    "defined": many("#if defined(\n"),
    "templates of kernels": many("template <typename T> kernel void k("),
}

BODIES: dict[str, Shape] = {
    "switch": many("  case {0}: x[i] = {0}; break;\n", "switch (n) {\n", "}"),
    "else if": many("else if (n == {0}) { x[i] = {0}; }\n", "if (n == 0) { x[i] = 0; }\n"),
    "barriers": many(_STEP, "threadgroup float s[64];\n"),
    "races": many("s[i % 64] = s[(i + {0}) % 64];\n", "threadgroup float s[64];\n"),
    "racing arrays": many(
        "threadgroup float s{0}[64];\ns{0}[i] = i;\nx[i] = s{0}[(i + 1) % 64];\n"
    ),
    "nested loops": _nested_loops,
    "deep loops": nested("for (int a = 0; a < 9; ++a) {\n", "}\n", "x[i] += 1;\n"),
    "loops": many("for (int a = 0; a < 64; ++a) { x[i] += a; }\n"),
    "while loops": many("while (x[i] > {0}) { x[i] -= 1; }\n"),
    "conditions": many("if (x[i] > {0}) { x[i] = {0}; }\n"),
    "returns": many("if (x[{0}] > {0}) return;\n", after="x[i] = 0;"),
    "breaks": many("if (x[{0}] > a) break;\n", "for (int a = 0; a < n; ++a) {\n", "}"),
    "branches of variables": lambda size: (
        _repeated("float v{0} = x[{0}];\n", size // 2)
        + _repeated("if (x[i] > {0}) v1 = {0};\n", size // 2)
        + "x[i] = v1;"
    ),
    "sum": many("x[i] + ", "x[i] = ", "1;"),
    "sum of unknowns": many("(x[{0}] * n) + ", "x[i] = ", "1;"),
    "locals": chain(30, "int v0 = n;\n", "int v{1} = v{0} * v{0} + i;\n", ""),
    "conditional expressions": many("n == {0} ? {0} : ", "x[i] = ", "0;"),
    "commas": many("i, ", "x[i] = (", "i);"),
    "assignments": many("a = ", "int a; ", "1;"),
    "array": many("1, ", "int a[] = {", "1}; x[i] = a[i];"),
    "nested array": nested("{", "}", "1", "int a[] = ", ";"),
    "digits": many("9", "x[i] = ", ";"),
    "hexadecimal digits": many("f", "x[i] = 0x", ";"),
    "digits of a float": lambda size: f"x[i] = 1.{'9' * size}e{'9' * (size // 2)}f;",
    "wide numbers": many(f"x[i] += {'9' * 4301};\n"),
    "powers": chain(36, "constexpr int a0 = 3;\n", "constexpr int a{1} = a{0} * a{0};\n", ""),
    "shifts": lambda size: (
        f"x[i] = {_repeated('1 << (', size // 2)}9{')' * max(size // 2 // 6, 1)};"
    ),
    "comment": many("a ", "/*", "*/ x[i] = 0;"),
    "comments": many("/**/", after="x[i] = 0;"),
    "line comments": many("// {0}\n", after="x[i] = 0;"),
    "open comment": many("/*"),
    "string": many("a", 'constant char* s = "', '";'),
    "lambda": nested("[&]() { return ", "; }()", "1", "auto f = ", ";"),
    "calls in calls": nested("metal::abs(", ")", "i", "x[i] = ", ";"),
    "SIMD sums": many("x[i] += simd_sum(x[i] + {0});\n"),
    "atomics": many(
        "atomic_fetch_add_explicit((device atomic_int*)x + {0}, 1, memory_order_relaxed);\n"
    ),
    "pointers": many("*", "x[i] = ", "x;"),
    "types of pointers": many("*", "float ", "p;"),
    "dimensions": many("[2]", "float a", "; a[0] = 0;"),
    "blocks": nested("{", "}", "x[i] = 0;"),
    "nested if": nested("if (n) {\n", "}\n", "x[i] = 0;\n"),
    "scopes": nested("{ int a = 1; ", "}", "x[i] = a;"),
    "shadowed names": many("int a = n; x[i] = a;\n"),
    "labels": many("l{0}: x[i] = 0; "),
    "cases": many("case {0}: ", "switch (n) {\n", " x[i] = 0; }"),
    "nested switch": nested("switch (n) { case 1: ", "}", "x[i] = 0;"),
    "nested do": nested("do {\n", "} while (n);\n", "x[i] = 0;\n"),
    "parentheses": nested("(", ")", "i", "x[i] = ", ";"),
    "open parentheses in a body": nested("(", "", "i", "x[i] = ", ";"),
    "minus signs": nested("- ", "", "i", "x[i] = ", ";"),
    "nots": nested("!", "", "i", "x[i] = ", ";"),
    "casts": nested("(int)", "", "i", "x[i] = ", ";"),
    "template arguments": nested("f<", ">", "i", "x[i] = ", ";"),
    "indices": nested("x[", "]", "i", "x[i] = ", ";"),
    "attributes": nested("", ".y", "i", "x[i] = ", ";"),
    "comparisons": nested("i < ", "", "i", "x[i] = ", ";"),
    "ands": nested("i && ", "", "i", "x[i] = ", ";"),
    "vectors": nested("float4(", ")", "i", "x[i] = ", ";"),
}


def _file(make: Shape, size: int) -> tuple[str, str]:
    # Text without a brace is not read at all.
    return "shape.metal", HEAD + "int zero() { return 0; }\n" + make(size)


def _body(make: Shape, size: int) -> tuple[str, str]:
    return "shape.metal", HEAD + kernel(make(size))


SHAPES: dict[str, Callable[[int], tuple[str, str]]] = {
    **{f"metal: {name}": partial(_file, make) for name, make in FILES.items()},
    **{f"metal: {name}": partial(_body, make) for name, make in BODIES.items()},
}
