"""NAME: names without a value or with two, and imports of what is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embercoach.checks import Project, check_source
from tests.checks.findings import codes, findings, pointed

if TYPE_CHECKING:
    from pathlib import Path

UNDEFINED = [
    ("def f(x):\n    return mx.exp(y)", "y"),
    (
        "def f():\n    scores = []\n    return scores\ndef g():\n    scores.append(mx.ones(1))",
        "scores",
    ),
    ("class A:\n    size = 3\n    def f(self):\n        return mx.zeros(size)", "size"),
    ("def f(n):\n    [k for k in range(n)]\n    return k", "k"),
    ("def f(s):\n    return globals()[s], missing", "missing"),
    ("class A:\n    def f(self, x=1):\n        return [width for _ in x]", "width"),
    ("def f():\n    try:\n        return late(1)\n    except ValueError:\n        pass", "late"),
]


@pytest.mark.parametrize(("program", "name"), UNDEFINED)
def test_undefined_names_are_found_where_they_are_read(program: str, name: str) -> None:
    assert pointed(program, "NAME") == [("NAME-001", name)]


DEFINED = [
    "def f():\n    return later\nlater = 1",
    "def f():\n    global total\n    total = 1\ndef g():\n    return total",
    "def f(x: Unknown) -> Other:\n    y: Third = x\n    return y",
    "exec('a = 1')\ndef f():\n    return a",
    "globals()['a'] = 1\ndef f():\n    return a",
    "from os.path import *\ndef f():\n    return join",
    "print(top_level)\nclass A(Base):\n    size = top_level",
    "def f():\n    try:\n        return unicode\n    except NameError:\n        return str",
    "class A:\n    size = 3\n    total = size + 1\n    def f(self):\n        return __class__",
    "def f(n):\n    return [a + b for a in range(n) for b in range(a)], lambda q: q",
    "match mx.ones(1):\n    case [first, *rest]:\n        print(first, rest)",
    "if (n := 3) > 2:\n    print(n, __file__, __name__)",
]


@pytest.mark.parametrize("program", DEFINED)
def test_names_that_something_may_define_are_silent(program: str) -> None:
    assert codes(program, "NAME") == []


UNBOUND = [
    ("size = 3\ndef f():\n    size = size + 1\n    return size", "size"),
    ("def f():\n    count += 1\n    return count", "count"),
    ("import os\ndef f():\n    os.getcwd()\n    import os", "os"),
    ("def f(x):\n    a = [mx.exp(b) for _ in x]\n    b = x\n    return a, b", "b"),
    ("def f(x):\n    if x:\n        print(y)\n    for y in x:\n        pass", "y"),
]


@pytest.mark.parametrize(("program", "name"), UNBOUND)
def test_a_local_name_that_is_read_before_all_its_bindings_is_found(
    program: str, name: str
) -> None:
    assert pointed(program, "NAME") == [("NAME-002", name)]


BOUND = [
    "def f(x):\n    for i in x:\n        if i:\n            print(last)\n        last = i",
    "def f(x):\n    g = lambda: later\n    later = 3\n    return g",
    "def f(x):\n    def g():\n        return later\n    later = 3\n    return g",
    "def f(x):\n    return (mx.exp(b) for b in x), [b for b in x]\n    b = 3",
    "def f(x):\n    y = [b for a in x if (b := a)]\n    b = 3\n    return y, b",
    "def f():\n    found: list[A] = []\n    class A:\n        pass\n    return found, A",
    "def f(x):\n    with open(x) as file, file as again:\n        return again, file",
    "def f(x):\n    try:\n        pass\n    except OSError as error:\n        print(error)",
    "size = 3\ndef f():\n    global size\n    size = size + 1",
    "def f(size):\n    def g():\n        nonlocal size\n        size = size + 1\n    return g",
]


@pytest.mark.parametrize("program", BOUND)
def test_a_local_name_that_may_be_bound_is_silent(program: str) -> None:
    assert codes(program, "NAME") == []


def test_the_nearest_name_is_advised() -> None:
    (found,) = findings("def f(temperature):\n    return mx.exp(temprature)", "NAME")
    assert found.help == "Did you mean `temperature`?"


def imported(folder: Path, other: str, program: str) -> list[str]:
    (folder / "pyproject.toml").write_text("")
    (folder / "layers.py").write_text(other)
    source = f"import mlx.core as mx\n{program}\n"
    found = check_source(source, folder / "model.py", Project()).findings
    return [finding.message for finding in found if finding.code.startswith("NAME")]


def test_an_import_of_what_a_file_lacks_is_found(tmp_path: Path) -> None:
    other = "def attention(x):\n    return x\n"
    assert imported(tmp_path, other, "from layers import atention") == [
        "`layers.py` has no `atention` to import"
    ]


def test_an_attribute_that_an_imported_file_lacks_is_found(tmp_path: Path) -> None:
    other = "def attention(x):\n    return x\n"
    program = "import layers as l\n\ndef f(x):\n    return l.attention(x), l.atention(x)"
    assert imported(tmp_path, other, program) == ["`layers.py` has no `atention`"]


@pytest.mark.parametrize(
    ("other", "program"),
    [
        ("def attention(x): return x", "from layers import attention"),
        ("def __getattr__(name): return 1", "from layers import attention"),
        ("from missing import *", "from layers import attention"),
        (
            "import sys\nsetattr(sys.modules[__name__], 'attention', 1)",
            "from layers import attention",
        ),
        ("if print:\n    attention = 1", "from layers import attention"),
        ("a = 1", "try:\n    from layers import attention\nexcept ImportError:\n    pass"),
    ],
)
def test_imports_that_may_succeed_are_silent(tmp_path: Path, other: str, program: str) -> None:
    assert imported(tmp_path, other, program) == []


@pytest.mark.parametrize(
    ("program", "found"),
    [
        ("def f(x):\n    return x(layers=layers)", 1),
        ("def f(x, layers):\n    return x(layers=layers)", 0),
        ("def f(x):\n    def g(layers):\n        return x(layers=layers)\n    return g", 0),
        ("def f(x):\n    for layers in x:\n        x(layers=layers)", 0),
        ("def f(x):\n    return x(cache=layers), x(layers)", 0),
    ],
)
def test_a_module_that_is_passed_for_a_variable(tmp_path: Path, program: str, found: int) -> None:
    messages = imported(tmp_path, "a = 1", f"import layers\n{program}")
    assert messages == ["`layers` is an imported module here"] * found


#: Functions of a, b, and xs, after a line that makes the file one of MLX.
DOUBTFUL = [
    ("if a: y = 1", "mx.exp(y)"),
    ("if a: y = 1\nelse: z = 2", "mx.exp(y)"),
    ("if a: y = 1\nelif b: pass\nelse: y = 2", "mx.exp(y)"),
    ("if a is not None: y = a\nelif b is not None: y = b", "mx.exp(y)"),
    ("if isinstance(a, int): y = a\nelif isinstance(a, list): pass\nelse: y = b", "mx.exp(y)"),
    ("if a:\n    import mlx.nn as y", "y.relu(b)"),
    ("if a: y = 1\nif b: z = 1", "mx.exp(y)"),
    ("if a: y = 1", "y += 1"),
    ("if a: y = 1", "[y for x in y]"),
    ("if a:\n    y = 1\n    return y", "mx.exp(y)"),
    ("if a: y = 1\nelif b: raise ValueError(y)", "b"),
    ("for x in xs:\n    if a: y = x\n    mx.exp(y)", "b"),
    ("with b:\n    if a: y = 1", "mx.exp(y)"),
    ("if a:\n    if b: y = 1\nelse: y = 2", "mx.exp(y)"),
    ("if a: y = 1\ndef later(): return y", "mx.exp(y)"),
]


def program(body: str, last: str) -> str:
    lines = f"{body}\nreturn {last}" if "+=" not in last else f"{body}\n{last}\nreturn y"
    indented = "\n".join(f"    {line}" for line in lines.splitlines())
    return f"def f(a, b, xs):\n    mx.eval(xs)\n{indented}"


@pytest.mark.parametrize(("body", "last"), DOUBTFUL)
def test_a_read_in_any_case_of_what_a_branch_binds_is_found(body: str, last: str) -> None:
    assert pointed(program(body, last), "NAME-005") == [("NAME-005", "y")]


CERTAIN = [
    ("if a: y = 1\nelse: y = 2", "y"),
    ("if a: y = 1\nelse: raise ValueError", "y"),
    ("if a: y = 1\nelse: parser.error('no')", "y"),
    ("if a: y = 1\nelse: stop()", "y"),
    ("if a: y = 1\nelse: assert_never(a)", "y"),
    ("if a: y = 1\nelse: assert a in (1, 2)", "y"),
    ("if not a: return None\nif a: y = 1", "y"),
    ("assert a or b\nif a: y = 1\nelif b: y = 2", "y"),
    ("if a: y = 1\nif not a: y = 2", "y"),
    ("if a: y = 1\nif not a: return None", "y"),
    ("if a is None: y = 1\nelif a is not None: y = 2", "y"),
    ("if a == 1: y = 1\nelif a == 2: y = 2", "y"),
    ("if mx.metal.is_available(): y = 1\nelif mx.cuda.is_available(): y = 2", "y"),
    ("if a: y = 1", "y if a else b"),
    ("if a: y = 1", "a and y"),
    ("if a: y = 1", "[y for x in xs]"),
    ("if a: y = 1", "lambda: y"),
    ("found = False\nif a:\n    y = 1\n    found = True\nif found: b = y", "b"),
    ("use = a is None\nif use: y = 1\nif a is None: b = y", "b"),
    ("if a: y = 1\nassert a", "y"),
    ("if a: y = 1\ntry:\n    b = y\nexcept Exception: pass", "b"),
    ("for x in xs:\n    if x: y = 1", "y"),
    ("for i, x in xs:\n    if i == 0: y = x\n    else: y = y + x\n    b = y", "b"),
    ("for x in xs:\n    if self.first:\n        y = x\n        self.first = False\n    b = y", "b"),
    ("while True:\n    if a: y = 1\n    else: continue\n    b = y", "b"),
    ("try: y = 1\nexcept ValueError:\n    if a: y = 2", "y"),
    ("match a:\n    case 1: y = 1", "y"),
    ("if a:\n    with b: return 1\nelse: y = 2", "y"),
    ("if a:\n    match b:\n        case 1: return 1\n        case _: return 2\nelse: y = 2", "y"),
    ("if a:\n    while True: b = stop\nelse: y = 2", "y"),
    ("if a: global y\ny = 1", "y"),
    ("if (y := a): b = y", "y"),
    ("if a: y = 1\ndel y\ny = 2", "y"),
    ("if a: exec('y = 2')\nif b: y = 1", "y"),
    ("if a: y = 1\nclass C:\n    y = 2", "C"),
]


@pytest.mark.parametrize(("body", "last"), CERTAIN)
def test_reads_that_a_test_or_a_loop_decides_are_silent(body: str, last: str) -> None:
    ends = "\ndef stop():\n    raise SystemExit"
    assert codes(program(body, last) + ends, "NAME-005") == []


REPLACED = [
    "def f(x):\n    return mx.exp(x)\ndef g(x):\n    return f(x)\ndef f(x):\n    return mx.log(x)",
    "class f:\n    a = mx.exp\nclass f:\n    b = mx.exp",
    "class C:\n    def f(self):\n        return mx.exp\n    def f(self):\n        return self.f",
]


@pytest.mark.parametrize("program", REPLACED)
def test_definitions_that_another_replaces_are_found(program: str) -> None:
    assert pointed(program, "NAME-006") == [("NAME-006", "f")]


KEPT = [
    "def f(x):\n    return mx.exp(x)\ny = f(1)\ndef f(x):\n    return mx.log(x)",
    "def f(x):\n    return mx.exp(x)\ndef g(x, h=f):\n    return h(x)\ndef f(x):\n    return 1",
    "class f:\n    a = mx.exp\nclass g(f):\n    pass\nclass f:\n    b = mx.exp",
    "class f:\n    a = mx.exp\nclass f(f):\n    b = mx.exp",
    "def f(x):\n    return mx.exp(x)\n@register\ndef f(x):\n    return mx.log(x)",
    "@register\ndef f(x):\n    return mx.exp(x)\ndef f(x):\n    return mx.log(x)",
    "def f(x):\n    return mx.exp(x)\ndef f(x):\n    return mx.exp(x)",
    "if mx.exp:\n    def f(x):\n        return 1\nelse:\n    def f(x):\n        return 2",
    "def g(x):\n    def f():\n        return mx.exp\n    def f():\n        return x\n    return f",
]


@pytest.mark.parametrize("program", KEPT)
def test_definitions_that_are_used_or_alternatives_are_silent(program: str) -> None:
    assert codes(program, "NAME-006") == []
