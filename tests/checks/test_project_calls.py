"""CALL and ATTR: what the project's functions refuse, and what its classes lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embercoach.checks import Project, check_source
from tests.checks.findings import codes, messages

if TYPE_CHECKING:
    from pathlib import Path

REFUSED = {
    "mx.compile takes what the function takes": (
        "def f(x):\n    return x\nstep = mx.compile(f)\nstep(mx.ones(2), 3)",
        "`step()` takes at most 1 positional arguments, got 2",
    ),
    "a keyword is given by place too": (
        "def f(x, *, y=0):\n    return x\nf(mx.ones(2), x=3)",
        "`f()` gets the argument `x` twice",
    ),
    "named tuples have a constructor": (
        "from typing import NamedTuple\nclass P(NamedTuple):\n    x: int\n    y: int = 0\nP(y=1)",
        "`P()` misses the argument `x`",
    ),
    "fields of the base come first": (
        (
            "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\n"
            "@dataclass\nclass B(A):\n    y: int\nB(1, 2, 3)"
        ),
        "`B()` takes at most 2 positional arguments, got 3",
    ),
    "a module without a constructor takes nothing": (
        "class M(nn.Module):\n    def __call__(self, x):\n        return x\nM(4)",
        "`M()` takes no positional arguments, got 1",
    ),
    "super is the base": (
        (
            "class A(nn.Module):\n    def __call__(self, x):\n        return x\n"
            "class B(A):\n    def __call__(self, x):\n        return super().__call__(x, 1)"
        ),
        "`__call__()` takes at most 1 positional arguments, got 2",
    ),
}
ACCEPTED = {
    "partial has passed some": (
        "from functools import partial\ndef f(x, y):\n    return x\n"
        "g = partial(f, y=1)\ng(mx.ones(2))"
    ),
    "one of two functions": (
        "def f(flag):\n    if flag:\n        def g(x):\n            return x\n    else:\n"
        "        def g(x, y):\n            return x\n    return mx.grad(g)(1.0, 2.0)"
    ),
    "an unknown decorator": ("from lib import adds\n@adds\ndef f(x):\n    return x\nf(1, 2)"),
    "a body is left to subclasses": (
        "class A:\n    def f(self, x):\n        raise NotImplementedError\n"
        "    def g(self):\n        return self.f(1, 2)"
    ),
    "a function that a class takes as a method": (
        "def f(model, x):\n    return x\n"
        "class A:\n    f = f\n    def g(self):\n        return self.f(1)"
    ),
    "a base with a constructor that is not known": (
        "from lib import Base\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass A(Base):\n    x: int\nA(1, 2)"
    ),
    "keyword-only fields": (
        "from dataclasses import dataclass\n@dataclass(kw_only=True)\nclass A:\n    x: int\nA(1)"
    ),
    "the call is an attempt": (
        "def f(x):\n    return x\ntry:\n    f(1, 2)\nexcept TypeError:\n    pass"
    ),
    "a method is replaced": (
        "class A:\n    def f(self, x):\n        return x\nA.f = lambda self, x, y: x\nA().f(1, 2)"
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_that_raise_are_refused(name: str) -> None:
    program, message = REFUSED[name]
    assert messages(program, "CALL-001") == [message]


@pytest.mark.parametrize("name", ACCEPTED)
def test_calls_that_may_be_accepted_are_left(name: str) -> None:
    assert codes(ACCEPTED[name], "CALL-001") == []


def test_functions_of_other_files_are_compared(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text("import mlx.core as mx\ndef norm(x, eps):\n    return x\n")
    source = (
        "import mlx.core as mx\nimport layers\nfrom layers import norm\n"
        "a = norm(mx.ones(2))\nb = layers.norm(mx.ones(2), 1, 2)\n"
    )
    found = check_source(source, tmp_path / "main.py", Project()).findings
    assert [one.line for one in found if one.code == "CALL-001"] == [4, 5]


CLASS = (
    "class A(nn.Module):\n    def __init__(self):\n"
    "        super().__init__()\n        self.proj = 1\n"
)
MISSING = {
    "a method": "    def f(self, x):\n        return self.g(x)",
    "in a nested function": "    def f(self):\n        return [lambda: self.bias]",
    "of an object made here": "a = A()\na.weights",
    "of a parameter that fits": (
        "    def f(self):\n        return 1\n    scale = 2\n"
        "def g(a: A):\n    return a.f() + a.scale + a.shift"
    ),
}
PRESENT = {
    "of modules": "    def f(self):\n        return self.parameters(), self.training, self.items()",
    "by a function of elsewhere": (
        "        configure(self)\n    def f(self):\n        return self.bias"
    ),
    "set by another function": "def g(a):\n    a.bias = 1\ndef f():\n    return A().bias",
    "set in a nested function": (
        "    def f(self):\n        def g():\n            self.bias = 1\n        g()\n"
        "        return self.bias"
    ),
    "asked for": ("    def f(self):\n        return self.bias if hasattr(self, 'bias') else None"),
    "of a subclass": ("    def f(self):\n        return self.bias\nclass B(A):\n    bias = 1"),
    "of a parameter with another class's attributes": (
        "def g(a: A):\n    return a.width + a.height + a.proj"
    ),
    "of a parameter that gets another class": (
        "    scale = 2\n    def f(self):\n        return self.scale\n"
        "def g(a: A):\n    return a.f() + a.scale + a.shift\ndef h(b):\n    return g(b.part)"
    ),
    "of a decorated class": (
        "from lib import adds\n@adds\nclass B(A):\n    def f(self):\n        return self.bias"
    ),
    "of a mixin": "class B:\n    def f(self):\n        return self.bias",
    "of a base that is not known": (
        "from lib import Base\nclass B(Base):\n    def f(self):\n        return self.bias"
    ),
    "passed to what may set it": "def g():\n    a = A()\n    prepare(a)\n    return a.bias",
}


@pytest.mark.parametrize("name", MISSING)
def test_attributes_that_no_class_has_are_missing(name: str) -> None:
    assert codes(CLASS + MISSING[name], "ATTR-001") == ["ATTR-001"]


@pytest.mark.parametrize("name", PRESENT)
def test_attributes_that_may_be_set_are_left(name: str) -> None:
    assert codes(CLASS + PRESENT[name], "ATTR-001") == []


def test_files_of_the_package_may_set_an_attribute(tmp_path: Path) -> None:
    """The wrapper imports the class, and not the other way around."""
    package = tmp_path / "model"
    package.mkdir()
    (package / "__init__.py").write_text("from .wrapper import Wrapper\n")
    (package / "wrapper.py").write_text(
        "from .language import Language\nclass Wrapper:\n    def __init__(self):\n"
        "        self.language = Language()\n        self.language.head = 1\n"
    )
    source = (
        "import mlx.nn as nn\nclass Language(nn.Module):\n    layers = 1\n    rows: int = 2\n"
        "    def __call__(self, x):\n"
        "        return self.head(x), self.tail(x)\n"
    )
    (package / "language.py").write_text(source)
    found = check_source(source, package / "language.py", Project()).findings
    assert [one.message for one in found] == ["`Language` has no attribute `tail`"]


@pytest.mark.parametrize(
    ("call", "count"),
    [
        ("grid(config.width, config.height)", 1),
        ("grid(width=sizes['height'], height=sizes['width'])", 1),
        ("grid(int(w / 2), h // 2)", 1),
        ("nn.Linear(output_dims, input_dims)", 1),
        ("three(c1, a1, b1)", 1),
        ("grid(h, w)", 0),
        ("grid(width, width)", 0),
        ("grid(*sizes)", 0),
        ("plain(y, x)", 0),
    ],
)
def test_names_in_another_order_are_reported(call: str, count: int) -> None:
    program = (
        "def grid(height, width):\n    return height\ndef plain(x, y):\n    return x\n"
        f"def three(a1, b1, c1):\n    return a1\ndef f(config, sizes):\n    return {call}"
    )
    assert codes(program, "CALL-002") == ["CALL-002"] * count


PURE = "class A:\n    def f(self, x):\n        BODY\ndef g(a: A, x):\n    a.f(x)\n    return x"


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("return mx.abs(x).reshape(-1)", 1),
        ("return self.h(x)\n    def h(self, x):\n        return x + 1", 1),
        ("return self.h(x)\n    @staticmethod\n    def h(x):\n        return (x + 1).abs()", 1),
        ("return self.h(x)\n    @unknown\n    def h(self, x):\n        return x + 1", 0),
        ("return None", 0),
        ("self.y = x\n        return x + 1", 0),
        ("mx.eval(x)\n        return x + 1", 0),
        ("print(x)\n        return x + 1", 0),
        ("return x + 1 if x.size else self.unknown(x)", 0),
        ("yield x + 1", 0),
        ("return x + 1\nclass B(A):\n    def f(self, x):\n        self.y = x", 0),
    ],
)
def test_discarded_results_of_functions_without_effects_are_reported(body: str, count: int) -> None:
    assert codes(PURE.replace("BODY", body), "API-010") == ["API-010"] * count


UNEVEN = "def f(x, flag=False):\n    if TEST:\n        return FIRST\n    return x, mx.abs(x)\n"


@pytest.mark.parametrize(
    ("test", "first", "call", "count"),
    [
        ("x.size", "x, x, x", "a, b = f(x)", 1),
        ("x.size", "None", "a, b = f(x)", 0),
        ("x.size", "mx.abs(x)", "a, b = f(x)", 1),
        ("x.size", "x", "a, b = f(x)", 0),  # which may be a pair
        ("flag", "x, x, x", "a, b = f(x)", 0),
        ("x.size", "x, x, x", "a = f(x)", 0),
        ("x.size", "x, x, x", "a, b, c, d = f(x)", 0),
    ],
)
def test_results_are_counted_where_they_are_unpacked(
    test: str, first: str, call: str, count: int
) -> None:
    function = UNEVEN.replace("TEST", test).replace("FIRST", first)
    program = f"{function}def g(x):\n    {call}\n    return a"
    assert codes(program, "CALL-003") == ["CALL-003"] * count


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("x = []\n    x.size = 1", ["a `list` has no attribute `size`"]),
        ("x = {'a': 1}\n    return x.a", ["a `dict` has no attribute `a`"]),
        ("x = 'a'\n    return x.push(1)", ["a `str` has no attribute `push`"]),
        ("x = []\n    a.make = lambda: x\n    x.size = 1", ["a `list` has no attribute `size`"]),
        ("x = (1, 2)\n    x.count(1)", []),
        ("x = ''\n    x = x or made()\n    x.size", []),
        ("x = 0\n    x += made()\n    x.astype", []),
        ("x = []\n    for x in made():\n        x.size", []),
        ("x = []\n    if isinstance(a, list) and hasattr(x, 'size'):\n        x.size", []),
        ("x = []\n    return lambda x: x.size", []),
        ("global x\n    x = []\n    x.size", []),
    ],
)
def test_attributes_of_literals(lines: str, found: list[str]) -> None:
    assert messages(f"def f(a):\n    {lines}", "ATTR-001") == found


def test_folders_of_a_package_without_init(tmp_path: Path) -> None:
    package = tmp_path / "engine"
    folder = package / "kit" / "parts"
    folder.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (folder / "loading.py").write_text("def load(path, logger):\n    return path\n")
    source = "from engine.kit.parts.loading import load\nload(1, prefix=2)\n"
    found = check_source(source, folder / "vision.py", Project()).findings
    assert [finding.code for finding in found] == ["CALL-001"]


def test_quantizing_a_layer_sets_no_attributes() -> None:
    program = "class M(nn.Module):\n    def __init__(self, path):\n        super().__init__()\n"
    program += "        nn.quantize(self)\n        print(self.path)"
    assert codes(program, "ATTR-001") == ["ATTR-001"]
    assert codes(program.replace("nn.quantize", "prepare"), "ATTR-001") == []
