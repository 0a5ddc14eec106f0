"""Metal text in shapes that make slow algorithms show, for ``tests.benchmarks.growth``.

Each shape makes a text of about as many bytes as asked, and a name for its file. Those of ``FILES``
are whole ``.metal`` files, those of ``OBJECTIVE_C`` stand in a ``.mm`` file; ``BODIES`` make the
body of a kernel, which is in a ``.metal`` file and, a second time, in the ``source`` of an
``mx.fast.metal_kernel``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
_OPENING = (
    "kernel void k{0}(device float* x [[buffer(0)]], constant int& n [[buffer(1)]],\n"
    "    uint i [[thread_position_in_threadgroup]]) {{\n"
)
_PYTHON = """\
import mlx.core as mx

kernel = mx.fast.metal_kernel(
    name="shape", input_names=["a"], output_names=["x"], source=r'''
uint i = thread_position_in_threadgroup.x;
int n = a_shape[0];
{body}
''')


def run(a):
    return kernel(
        inputs=[a], grid=(a.shape[0], 1, 1), threadgroup=(64, 1, 1),
        output_shapes=[a.shape], output_dtypes=[mx.float32],
    )
"""


def _repeated(unit: str, size: int) -> str:
    """A text of about a size: a unit again and again, ``{0}`` in it the number of the copy."""
    if "{0}" not in unit:
        return unit * max(size // len(unit), 1)
    # A number takes about as many characters as the size's own less those of a unit.
    width = len(unit) - 3 * unit.count("{0}") + unit.count("{0}") * len(str(size // len(unit)))
    return "".join(unit.replace("{0}", str(n)) for n in range(max(size // width, 1)))


def _nested(opening: str, closing: str, inside: str, size: int) -> str:
    count = max(size // (len(opening) + len(closing)), 1)
    return opening * count + inside + closing * count


def _count(size: int, each: int) -> int:
    return max(size // each, 1)


def kernel(body: str, name: str = "") -> str:
    """An entry point with a body."""
    return _OPENING.format(name) + body + "\n}\n"


def _file(make: Callable[[int], str], size: int) -> tuple[str, str]:
    # Text without a brace is not read at all.
    return "shape.metal", HEAD + "int zero() { return 0; }\n" + make(size)


def _body(make: Callable[[int], str], size: int) -> tuple[str, str]:
    return "shape.metal", HEAD + kernel(make(size))


def _python(make: Callable[[int], str], size: int) -> tuple[str, str]:
    return "shape.py", _PYTHON.replace("{body}", make(size))


def _objective_c(make: Callable[[int], str], size: int) -> tuple[str, str]:
    return "shape.mm", f"#import <Metal/Metal.h>\nvoid f() {{\n{make(size)};\n}}\n"


# File scope


def _nested_if(size: int) -> str:
    return _nested("#if A\n", "#endif\n", "int x;\n", size) + kernel("x[i] = 0;")


def _nested_true_if(size: int) -> str:
    return _nested("#if 1\n", "#endif\n", "int x;\n", size) + kernel("x[i] = 0;")


def _long_macros(size: int) -> str:
    return f"#define A {'a' * (size // 2)}\n" + kernel(_repeated("A ", size // 2))


def _sequence_of_unknown_if(size: int) -> str:
    return _repeated("#if __METAL_VERSION__ > {0}\n#define A{0} 1\n#endif\n", size) + kernel(
        "x[i] = 0;"
    )


def _elifs(size: int) -> str:
    steps = _repeated("#elif __METAL_VERSION__ == {0}\nint a{0};\n", size)
    return f"#if __METAL_VERSION__ == 1\n{steps}#endif\n" + kernel("x[i] = 0;")


def _nested_unknown_if(size: int) -> str:
    return _nested("#if __METAL_VERSION__ > 9\n", "#endif\n", "int x;\n", size) + kernel(
        "x[i] = 0;"
    )


def _false_elifs(size: int) -> str:
    """Groups of groups, each undecided only at its own end."""
    return _nested("#if 0\n", "#elif __METAL_VERSION__\n#endif\n", "int x;\n", size)


def _kernels_with_loop(size: int) -> str:
    body = (
        "  threadgroup float s[32];\n"
        "  for (int q = 0; q < 100; ++q) { s[i % 32] = x[q + {0}]; x[i] = s[q % 32]; }"
    )
    return _repeated(kernel(body, "{0}"), size)


def _small_kernels(size: int) -> str:
    return _repeated(kernel("  x[i] = n + {0};", "{0}"), size)


def _calling_functions(size: int) -> str:
    calls = _repeated(
        "float f{0}(float v) {{ return f(v) + {0}; }}\n".replace("{{", "{").replace("}}", "}"), size
    )
    return "float f(float v) { return v; }\n" + calls + kernel("x[i] = f1(x[i]) + f2(x[i]);")


def _chain_of_functions(size: int) -> str:
    count = _count(size, 46)
    chain = "".join(f"float f{n + 1}(float v) {{ return f{n}(v) + 1; }}\n" for n in range(count))
    return "float f0(float v) { return v; }\n" + chain + kernel(f"x[i] = f{count}(x[i]);")


def _doubling_functions(size: int) -> str:
    count = _count(size, 52)
    chain = "".join(
        f"float f{n + 1}(float v) {{ return f{n}(v) + f{n}(v); }}\n" for n in range(count)
    )
    return "float f0(float v) { return v; }\n" + chain + kernel(f"x[i] = f{count}(x[i]);")


def _recursion(size: int) -> str:
    count = _count(size, 60)
    functions = "".join(
        f"float f{n}(float v) {{ return f{(n + 1) % count}(v) + f{(n * 7) % count}(v); }}\n"
        for n in range(count)
    )
    return functions + kernel("x[i] = f0(x[i]);")


def _overloads(size: int) -> str:
    count = _count(size, 60)
    return (
        "struct S {};\n"
        + "".join(f"struct S{n} {{}};\nfloat f(S{n} v) {{ return {n}; }}\n" for n in range(count))
        + kernel("x[i] = f(x[i]);" * 10)
    )


def _calls_of_overloads(size: int) -> str:
    half = size // 2
    overloads = _repeated("float f(device S{0}* v) { return {0}; }\n", half)
    return overloads + kernel(_repeated("x[i] = f(x);\n", half))


def _structs(size: int) -> str:
    structs = _repeated("struct S{0} { float a; int b[{0}]; };\n", size)
    return structs + kernel("S1 s; s.a = 1; x[i] = s.a;")


def _chain_of_structs(size: int) -> str:
    count = _count(size, 32)
    structs = "".join(f"struct S{n + 1} {{ S{n} a; S{n} b; }};\n" for n in range(count))
    return "struct S0 { float a; };\n" + structs + kernel(f"S{count} s; x[i] = 0;")


def _members(size: int) -> str:
    return (
        "struct S {\n"
        + _repeated("  float m{0};\n", size)
        + "};\n"
        + kernel("S s; s.m1 = 1; x[i] = s.m1;")
    )


def _parameters(size: int) -> str:
    many = _repeated("    device float* p{0} [[buffer({0})]],\n", size)
    return f"kernel void k(\n{many}    uint i [[thread_position_in_grid]]) {{ p1[i] = p2[i]; }}\n"


def _templates(size: int) -> str:
    return _repeated("template <typename T, int N{0}> T f{0}(T v) { return v + N{0}; }\n", size)


def _template_parameters(size: int) -> str:
    return f"template <{_repeated('int N{0}, ', size)}int M> int f(int v) {{ return v; }}\n"


def _namespaces(size: int) -> str:
    return _nested("namespace a {\n", "}\n", "int f() { return 1; }\n", size)


def _aliases(size: int) -> str:
    count = _count(size, 24)
    return (
        "using T0 = float;\n"
        + "".join(f"using T{n + 1} = T{n};\n" for n in range(count))
        + kernel(f"T{count} v = x[i]; x[i] = v;")
    )


def _constants(size: int) -> str:
    count = _count(size, 34)
    return (
        "constant int c0 = 1;\n"
        + "".join(f"constant int c{n + 1} = c{n} + 1;\n" for n in range(count))
        + kernel(f"x[i] = c{count};")
    )


def _defines(size: int) -> str:
    return _repeated("#define A{0} {0}\n", size) + kernel("x[i] = A1 + A2;")


def _uses_of_macros(size: int) -> str:
    return "#define A(v) ((v) + 1)\n" + kernel(_repeated("x[i] = A(A(A(i)));\n", size))


def _macro_bomb(size: int) -> str:
    count = _count(size, 24)
    bomb = "".join(f"#define A{n + 1} A{n} + A{n}\n" for n in range(count))
    return "#define A0 1\n" + bomb + kernel(f"x[i] = A{count};")


def _macro_bombs(size: int) -> str:
    bomb = "".join(f"#define A{n + 1} A{n} + A{n}\n" for n in range(30))
    return "#define A0 1\n" + bomb + kernel(_repeated("x[i] = A30;\n", size))


def _conditions_with_bombs(size: int) -> str:
    bomb = "".join(f"#define A{n + 1} A{n} + A{n}\n" for n in range(30))
    return "#define A0 1\n" + bomb + _repeated("#if A30\nint a;\n#endif\n", size)


def _macro_chain(size: int) -> str:
    count = _count(size, 20)
    chain = "".join(f"#define A{n + 1} A{n}\n" for n in range(count))
    return "#define A0 1\n" + chain + kernel(f"x[i] = A{count} + A{count};")


def _nested_macro_use(size: int) -> str:
    return "#define A(v) v v\n" + kernel(f"x[i] = {_nested('A(', ')', '1', size)};")


def _open_macro_use(size: int) -> str:
    return "#define A(v) v\n" + kernel(_repeated("x[i] = A(i;\n", size))


def _pastes(size: int) -> str:
    long = "##".join(["a"] * _count(size, 3))
    return f"#define A {long}\n" + kernel("x[i] = A;")


def _macro_arguments(size: int) -> str:
    return "#define A(...) f(__VA_ARGS__)\n" + kernel(f"x[i] = A({_repeated('i, ', size)}i);")


def _directives(size: int) -> str:
    return _repeated("#pragma a\n", size) + kernel("x[i] = 0;")


def _includes(size: int) -> str:
    return _repeated('#include "a{0}.h"\n', size) + kernel("x[i] = 0;")


def _marks(size: int) -> str:
    return _repeated("# ", size)


def _one_line_of_kernels(size: int) -> str:
    return _repeated(kernel("x[i] = 0;", "{0}").replace("\n", " "), size)


def _garbage(unit: str) -> Callable[[int], str]:
    return partial(_repeated, unit)


# Bodies


def _switch(size: int) -> str:
    cases = _repeated("  case {0}: x[i] = {0}; break;\n", size)
    return f"switch (n) {{\n{cases}}}"


def _else_ifs(size: int) -> str:
    return "if (n == 0) { x[i] = 0; }\n" + _repeated("else if (n == {0}) { x[i] = {0}; }\n", size)


def _barriers(size: int) -> str:
    step = (
        "x[i] = s[(i + 1) % 64];\nthreadgroup_barrier(mem_flags::mem_threadgroup);\n"
        "s[i % 64] = x[i];\nthreadgroup_barrier(mem_flags::mem_threadgroup);\n"
    )
    return "threadgroup float s[64];\n" + _repeated(step, size)


def _racing(size: int) -> str:
    return "threadgroup float s[64];\n" + _repeated("s[i % 64] = s[(i + {0}) % 64];\n", size)


def _racing_arrays(size: int) -> str:
    return _repeated(
        "threadgroup float s{0}[64];\ns{0}[i] = i;\nx[i] = s{0}[(i + 1) % 64];\n", size
    )


def _nested_loops(size: int) -> str:
    depth = min(_count(size, 60), 40)
    heads = "".join(f"for (int a{n} = 0; a{n} < 50; ++a{n}) {{\n" for n in range(depth))
    nest = heads + "x[i] += a0;\n" + "}\n" * depth
    return _repeated(nest, size)


def _deep_loops(size: int) -> str:
    return _nested("for (int a = 0; a < 9; ++a) {\n", "}\n", "x[i] += 1;\n", size)


def _loops(size: int) -> str:
    return _repeated("for (int a = 0; a < 64; ++a) { x[i] += a; }\n", size)


def _while_loops(size: int) -> str:
    return _repeated("while (x[i] > {0}) { x[i] -= 1; }\n", size)


def _conditions(size: int) -> str:
    return _repeated("if (x[i] > {0}) { x[i] = {0}; }\n", size)


def _returns(size: int) -> str:
    return _repeated("if (x[{0}] > {0}) return;\n", size) + "x[i] = 0;"


def _breaks(size: int) -> str:
    steps = _repeated("if (x[{0}] > a) break;\n", size)
    return f"for (int a = 0; a < n; ++a) {{\n{steps}}}"


def _branches_of_variables(size: int) -> str:
    half = size // 2
    variables = _repeated("float v{0} = x[{0}];\n", half)
    return variables + _repeated("if (x[i] > {0}) v1 = {0};\n", half) + "x[i] = v1;"


def _sum(size: int) -> str:
    return f"x[i] = {_repeated('x[i] + ', size)}1;"


def _product_of_unknowns(size: int) -> str:
    return f"x[i] = {_repeated('(x[{0}] * n) + ', size)}1;"


def _locals(size: int) -> str:
    return "int v0 = n;\n" + "".join(
        f"int v{n + 1} = v{n} * v{n} + i;\n" for n in range(_count(size, 30))
    )


def _conditional_chain(size: int) -> str:
    return f"x[i] = {_repeated('n == {0} ? {0} : ', size)}0;"


def _commas(size: int) -> str:
    return f"x[i] = ({_repeated('i, ', size)}i);"


def _assignments(size: int) -> str:
    return f"int a; {_repeated('a = ', size)}1;"


def _array(size: int) -> str:
    return f"int a[] = {{{_repeated('1, ', size)}1}}; x[i] = a[i];"


def _nested_array(size: int) -> str:
    return f"int a[] = {_nested('{', '}', '1', size)};"


def _digits(size: int) -> str:
    return f"x[i] = {'9' * size};"


def _hexadecimal(size: int) -> str:
    return f"x[i] = 0x{'f' * size};"


def _float_digits(size: int) -> str:
    return f"x[i] = 1.{'9' * size}e{'9' * (size // 2)}f;"


def _wide_numbers(size: int) -> str:
    return _repeated(f"x[i] += {'9' * 4301};\n", size)


def _powers(size: int) -> str:
    return "constexpr int a0 = 3;\n" + "".join(
        f"constexpr int a{n + 1} = a{n} * a{n};\n" for n in range(_count(size, 36))
    )


def _shifts(size: int) -> str:
    return f"x[i] = {_repeated('1 << (', size // 2)}9{')' * _count(size // 2, 6)};"


def _comment(size: int) -> str:
    return f"/*{'a ' * (size // 2)}*/ x[i] = 0;"


def _comments(size: int) -> str:
    return _repeated("/**/", size) + "x[i] = 0;"


def _line_comments(size: int) -> str:
    return _repeated("// {0}\n", size) + "x[i] = 0;"


def _open_comment(size: int) -> str:
    return _repeated("/*", size)


def _string(size: int) -> str:
    return f'constant char* s = "{"a" * size}";'


def _lambda(size: int) -> str:
    return f"auto f = {_nested('[&]() { return ', '; }()', '1', size)};"


def _calls_in_a_row(size: int) -> str:
    return f"x[i] = {_nested('metal::abs(', ')', 'i', size)};"


def _helpers_of_simd(size: int) -> str:
    return _repeated("x[i] += simd_sum(x[i] + {0});\n", size)


def _atomics(size: int) -> str:
    return _repeated(
        "atomic_fetch_add_explicit((device atomic_int*)x + {0}, 1, memory_order_relaxed);\n", size
    )


def _pointers(size: int) -> str:
    return f"x[i] = {'*' * size}x;"


def _pointer_types(size: int) -> str:
    return f"float {'*' * size}p;"


def _dimensions(size: int) -> str:
    return f"float a{_repeated('[2]', size)}; a[0] = 0;"


def _blocks(size: int) -> str:
    return _nested("{", "}", "x[i] = 0;", size)


def _nested_ifs(size: int) -> str:
    return _nested("if (n) {\n", "}\n", "x[i] = 0;\n", size)


def _scopes(size: int) -> str:
    return _nested("{ int a = 1; ", "}", "x[i] = a;", size)


def _shadowed(size: int) -> str:
    return _repeated("int a = n; x[i] = a;\n", size)


def _gotos(size: int) -> str:
    return _repeated("l{0}: x[i] = 0; ", size)


def _cases(size: int) -> str:
    return f"switch (n) {{\n{_repeated('case {0}: ', size)} x[i] = 0; }}"


def _switches(size: int) -> str:
    return _nested("switch (n) { case 1: ", "}", "x[i] = 0;", size)


def _do_loops(size: int) -> str:
    return _nested("do {\n", "} while (n);\n", "x[i] = 0;\n", size)


def _nested_in_body(opening: str, closing: str) -> Callable[[int], str]:
    def make(size: int) -> str:
        return f"x[i] = {_nested(opening, closing, 'i', size)};"

    return make


FILES: dict[str, Callable[[int], str]] = {
    "nested #if": _nested_if,
    "nested true #if": _nested_true_if,
    "long macros": _long_macros,
    "nested unknown #if": _nested_unknown_if,
    "unknown #if": _sequence_of_unknown_if,
    "#elif": _elifs,
    "undecided #elif": _false_elifs,
    "kernels with a loop": _kernels_with_loop,
    "small kernels": _small_kernels,
    "calling functions": _calling_functions,
    "chain of functions": _chain_of_functions,
    "doubling functions": _doubling_functions,
    "recursion": _recursion,
    "overloads": _overloads,
    "calls of overloads": _calls_of_overloads,
    "structs": _structs,
    "chain of structs": _chain_of_structs,
    "members": _members,
    "parameters": _parameters,
    "templates": _templates,
    "template parameters": _template_parameters,
    "namespaces": _namespaces,
    "aliases": _aliases,
    "constants": _constants,
    "defines": _defines,
    "uses of macros": _uses_of_macros,
    "macro bomb": _macro_bomb,
    "macro bombs": _macro_bombs,
    "conditions with macro bombs": _conditions_with_bombs,
    "macro chain": _macro_chain,
    "nested macro use": _nested_macro_use,
    "open macro use": _open_macro_use,
    "pastes": _pastes,
    "macro arguments": _macro_arguments,
    "directives": _directives,
    "includes": _includes,
    "marks": _marks,
    "one line of kernels": _one_line_of_kernels,
    "open templates": _garbage("f<"),
    "open braces": _garbage("{"),
    "closing braces": _garbage("}"),
    "open parentheses": _garbage("f(("),
    "brackets": _garbage("[["),
    "quotes": _garbage('"'),
    "backslashes": _garbage("\\\n"),
    "at signs": _garbage("@ "),
    "words": _garbage("kernel device "),
    "operators": _garbage("< > & * "),
    "colons": _garbage("::a"),
    "braces of structs": _garbage("struct {"),
    "open functions": _garbage("void f() { if (a"),
    "raw strings": _garbage('R"a('),
    "open comments": _garbage("/* "),
    "open comments of directives": _garbage("#define A /* "),
    "operators and braces": _garbage("!}"),
    "commas and parentheses": _garbage("a,)"),
    "attributes in a row": _garbage("[[a]] "),
    "escaped quotes": _garbage('"\\'),
    "escaped apostrophes": _garbage("'\\"),
    "statements of comparisons": _garbage("a<b;"),
    "control characters": _garbage("{\x00"),
    "emoji": _garbage("{\N{GRINNING FACE}}"),
    "defined": _garbage("#if defined(\n"),
    "templates of kernels": _garbage("template <typename T> kernel void k("),
}  # fmt: skip

BODIES: dict[str, Callable[[int], str]] = {
    "switch": _switch,
    "else if": _else_ifs,
    "barriers": _barriers,
    "races": _racing,
    "racing arrays": _racing_arrays,
    "nested loops": _nested_loops,
    "deep loops": _deep_loops,
    "loops": _loops,
    "while loops": _while_loops,
    "conditions": _conditions,
    "returns": _returns,
    "breaks": _breaks,
    "branches of variables": _branches_of_variables,
    "sum": _sum,
    "sum of unknowns": _product_of_unknowns,
    "locals": _locals,
    "conditional expressions": _conditional_chain,
    "commas": _commas,
    "assignments": _assignments,
    "array": _array,
    "nested array": _nested_array,
    "digits": _digits,
    "hexadecimal digits": _hexadecimal,
    "digits of a float": _float_digits,
    "wide numbers": _wide_numbers,
    "powers": _powers,
    "shifts": _shifts,
    "comment": _comment,
    "comments": _comments,
    "line comments": _line_comments,
    "open comment": _open_comment,
    "string": _string,
    "lambda": _lambda,
    "calls in calls": _calls_in_a_row,
    "SIMD sums": _helpers_of_simd,
    "atomics": _atomics,
    "pointers": _pointers,
    "types of pointers": _pointer_types,
    "dimensions": _dimensions,
    "blocks": _blocks,
    "nested if": _nested_ifs,
    "scopes": _scopes,
    "shadowed names": _shadowed,
    "labels": _gotos,
    "cases": _cases,
    "nested switch": _switches,
    "nested do": _do_loops,
    "parentheses": _nested_in_body("(", ")"),
    "open parentheses in a body": _nested_in_body("(", ""),
    "minus signs": _nested_in_body("- ", ""),
    "nots": _nested_in_body("!", ""),
    "casts": _nested_in_body("(int)", ""),
    "template arguments": _nested_in_body("f<", ">"),
    "indices": _nested_in_body("x[", "]"),
    "attributes": _nested_in_body("", ".y"),
    "comparisons": _nested_in_body("i < ", ""),
    "ands": _nested_in_body("i && ", ""),
    "vectors": _nested_in_body("float4(", ")"),
}

OBJECTIVE_C: dict[str, Callable[[int], str]] = {
    "nested messages": lambda size: _nested("[a ", " b]", "c", size),
    "nested arguments": lambda size: _nested("[a b:", "]", "c", size),
    "nested arrays": lambda size: _nested("@[", "]", "a", size),
    "nested dictionaries": lambda size: _nested("@{a:", "}", "a", size),
    "open casts": _garbage("-("),
    "messages": _garbage("[a b]; "),
    "imports in a line": _garbage("@import "),
}

SHAPES: dict[str, Callable[[int], tuple[str, str]]] = {
    **{f"metal: {name}": partial(_file, make) for name, make in FILES.items()},
    **{f"metal: {name}": partial(_body, make) for name, make in BODIES.items()},
    **{f"objective-c: {name}": partial(_objective_c, make) for name, make in OBJECTIVE_C.items()},
    **{f"kernel: {name}": partial(_python, make) for name, make in BODIES.items()},
}
