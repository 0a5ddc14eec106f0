"""Attributes of instances: set in ``__init__`` and other methods, inherited, declared, computed."""

from __future__ import annotations

import pytest

from tests.analysis.inference import all_revealed, revealed

CASES = {
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


def test_an_unknown_attribute_is_unknown() -> None:
    assert revealed("class A: pass\nreveal(A().x)") == "?"
    assert revealed("reveal(something.x)") == "?"
    assert revealed("class A(Base): pass\nreveal(A().x)") == "?"


@pytest.mark.parametrize(
    "source",
    [
        "class A: pass\nclass A(A): pass\nreveal(A().x)",
        "class A(B): pass\nclass B(A): pass\nclass A(B): pass\nreveal(A().x)",
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


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("self.indirect()", "array[float32] | int 3"),
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
