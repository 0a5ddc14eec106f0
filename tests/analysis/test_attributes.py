"""Attributes of instances: set in ``__init__`` and other methods, inherited, declared, computed."""

from __future__ import annotations

import pytest

from tests.analysis.inference import all_revealed, revealed

CASES = {
    "in __init__": """
        class A:
            def __init__(self):
                self.x = mx.ones(2)
            def f(self):
                reveal(self.x)
    """,
    "in __init__, further down": """
        class A:
            def f(self):
                reveal(self.x)
            def __init__(self):
                self.x = mx.ones(2)
    """,
    "from a caller": """
        class A:
            def __init__(self, x):
                self.x = x
            def f(self):
                reveal(self.x)
        A(mx.ones(2))
    """,
    "in another method": """
        class A:
            def setup(self):
                self.x = mx.ones(2)
            def f(self):
                reveal(self.x)
    """,
    "unpacked": """
        class A:
            def __init__(self):
                self.y, (self.x, z) = 1, (mx.ones(2), 3)
            def f(self):
                reveal(self.x)
    """,
    "under another name than self": """
        class A:
            def __init__(this):
                this.x = mx.ones(2)
            def f(me):
                reveal(me.x)
    """,
    "inside with, if, for, try": """
        class A:
            def __init__(self, c):
                with c:
                    if c:
                        for i in c:
                            try:
                                self.x = mx.ones(2)
                            finally:
                                pass
            def f(self):
                reveal(self.x)
    """,
    "class variable": """
        class A:
            x = mx.ones(2)
            def f(self):
                reveal(self.x)
    """,
    "class variable from the class": "class A:\n    x = mx.ones(2)\nreveal(A.x)",
    "inherited": """
        class B:
            def __init__(self):
                self.x = mx.ones(2)
        class A(B):
            def f(self):
                reveal(self.x)
    """,
    "inherited from a base's base": """
        class C:
            def __init__(self):
                self.x = mx.ones(2)
        class B(C): pass
        class A(B):
            def f(self):
                reveal(self.x)
    """,
    "overridden": """
        class B:
            x = 3
        class A(B):
            x = mx.ones(2)
            def f(self):
                reveal(self.x)
    """,
    "property": """
        class A:
            @property
            def x(self):
                return mx.ones(2)
        reveal(A().x)
    """,
    "cached property": """
        from functools import cached_property
        class A:
            @cached_property
            def x(self):
                return mx.ones(2)
        reveal(A().x)
    """,
    "property with a setter": """
        class A:
            @property
            def x(self):
                return mx.ones(2)
            @x.setter
            def x(self, value):
                self._x = value
        reveal(A().x)
    """,
    "of an instance in an attribute": """
        class A:
            def __init__(self):
                self.b = B()
        class B:
            def __init__(self):
                self.x = mx.ones(2)
        reveal(A().b.x)
    """,
    "in a list of instances": """
        class B:
            def __init__(self):
                self.x = mx.ones(2)
        class A:
            def __init__(self):
                self.bs = [B() for _ in range(3)]
            def f(self):
                for b in self.bs:
                    reveal(b.x)
    """,
    "set from outside": """
        class A:
            def f(self):
                reveal(self.x)
        A().x = mx.ones(2)
    """,
    "getattr": """
        class A:
            x = mx.ones(2)
        reveal(getattr(A(), "x"))
    """,
    "__getitem__": """
        class A:
            def __getitem__(self, i):
                return mx.ones(2)
        reveal(A()[0])
    """,
    "__iter__": """
        class A:
            def __iter__(self):
                yield mx.ones(2)
        for x in A():
            reveal(x)
    """,
    "__call__": """
        class A:
            def __call__(self, x):
                return x
        reveal(A()(mx.ones(2)))
    """,
    "super's method": """
        class B:
            def f(self):
                return mx.ones(2)
        class A(B):
            def f(self):
                reveal(super().f())
    """,
}


@pytest.mark.parametrize("source", CASES.values(), ids=CASES)
def test_an_attribute_holds_an_array(source: str) -> None:
    assert revealed(source) == "array[float32]"


def test_every_method_counts() -> None:
    source = """
        class A:
            def __init__(self):
                self.x = None
            def setup(self):
                self.x = mx.ones(2)
            def f(self):
                reveal(self.x)
    """
    assert revealed(source) == "None | array[float32]"


def test_an_attribute_in_place_is_an_assignment() -> None:
    source = """
        class A:
            def __init__(self):
                self.n = 0
            def add(self, x: mx.array):
                self.n += x.sum()
            def f(self):
                reveal(self.n)
    """
    assert revealed(source) == "array | int 0"


@pytest.mark.parametrize(
    ("declared", "expected"), [("mx.array", "array"), ("int", "int"), ("'mx.array'", "array")]
)
def test_a_declared_field(declared: str, expected: str) -> None:
    source = f"""
        from dataclasses import dataclass
        @dataclass
        class A:
            x: {declared}
        def f(a: A):
            reveal(a.x)
    """
    assert revealed(source) == expected


def test_a_named_tuple_has_fields() -> None:
    source = """
        from typing import NamedTuple
        class P(NamedTuple):
            x: mx.array
            n: int
        p = P(mx.ones(2), 3)
        reveal(p.x)
        reveal(p.n)
    """
    assert all_revealed(source) == ["array", "int"]


def test_a_narrowed_attribute_ends_with_the_branch() -> None:
    source = """
        class A:
            def __init__(self):
                self.x = None
            def setup(self):
                self.x = mx.ones(2)
            def f(self):
                if self.x is not None:
                    reveal(self.x)
                reveal(self.x)
    """
    assert all_revealed(source) == ["array[float32]", "None | array[float32]"]


def test_an_attribute_assigned_here_is_known_here() -> None:
    source = """
        class A:
            def __init__(self):
                self.x = None
            def f(self):
                self.x = mx.ones(2)
                reveal(self.x)
    """
    assert revealed(source) == "array[float32]"


def test_an_unknown_attribute_is_unknown() -> None:
    assert revealed("class A: pass\nreveal(A().x)") == "?"
    assert revealed("reveal(something.x)") == "?"
    assert revealed("class A(Base): pass\nreveal(A().x)") == "?"


@pytest.mark.parametrize(
    "source",
    [
        "class A: pass\nclass A(A): pass\nreveal(A().x)",
        "class A(B): pass\nclass B(A): pass\nclass A(B): pass\nreveal(A().x)",
        (
            "class A:\n    def __init__(self):\n        self.x = self.y\n        self.y = self.x\n"
            "reveal(A().x)"
        ),
        "class A:\n    @property\n    def x(self):\n        return self.x\nreveal(A().x)",
        "class A:\n    def __getitem__(self, i):\n        return self[i]\nreveal(A()[0])",
    ],
)
def test_cycles_end_unknown(source: str) -> None:
    assert revealed(source) == "?"


def test_a_static_method_takes_no_instance_and_a_class_method_the_class() -> None:
    source = """
        class A:
            @staticmethod
            def f(x):
                reveal(x)
            @classmethod
            def g(cls, x):
                reveal(cls)
                reveal(x)
        A.f(mx.ones(2))
        A.g(3)
    """
    assert all_revealed(source) == ["array[float32]", "class A", "int"]


def test_a_class_variable_and_what_methods_assign_are_both_possible() -> None:
    source = """
        class A:
            n = 0
            def f(self):
                reveal(self.n)
            def g(self):
                self.n = mx.ones(2)
    """
    assert revealed(source) == "array[float32] | int 0"


def test_what_a_method_appends_is_in_the_list() -> None:
    source = """
        class A:
            def __init__(self):
                self.xs = []
            def add(self, x: mx.array):
                self.xs.append(x)
            def f(self):
                reveal(self.xs[0])
    """
    assert revealed(source) == "array"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("self.setup()", "array[float32] | int 3"),
        ("self.indirect()", "array[float32] | int 3"),
        ("self.inherited()", "array[float32] | int 3"),
        ("self.other()", "int 3"),
        ("B().setup()", "int 3"),
    ],
)
def test_a_call_of_a_method_may_assign_attributes(call: str, expected: str) -> None:
    source = f"""
        class A:
            def inherited(self):
                self.x = mx.ones(2)
            def other(self):
                self.y = mx.ones(2)
        class B(A):
            def setup(self):
                self.x = mx.ones(2)
            def indirect(self):
                self.setup()
            def f(self):
                self.x = 3
                {call}
                reveal(self.x)
    """
    assert revealed(source) == expected
