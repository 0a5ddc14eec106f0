"""What tests of None, ``isinstance`` and early returns leave of a value."""

from __future__ import annotations

import pytest

from tests.analysis.inference import all_revealed, revealed

MAYBE = "x: mx.array | None"
MIXED = "x: mx.array | int"
CASES = {
    "is not None": (MAYBE, "if x is not None:\n    reveal(x)", "array"),
    "is None": (MAYBE, "if x is None:\n    reveal(x)", "None"),
    "is None, else": (MAYBE, "if x is None:\n    pass\nelse:\n    reveal(x)", "array"),
    "not is None": (MAYBE, "if not x is None:\n    reveal(x)", "array"),
    "== None": (MAYBE, "if x == None:\n    reveal(x)", "None"),
    "replaced": (MAYBE, "if x is None:\n    x = mx.ones(2)\nreveal(x)", "array"),
    "early return": (MAYBE, "if x is None:\n    return\nreveal(x)", "array"),
    "early raise": (MAYBE, "if x is None:\n    raise ValueError\nreveal(x)", "array"),
    "continue": (MAYBE, "for i in y:\n    if x is None:\n        continue\n    reveal(x)", "array"),
    "and": (MAYBE, "if x is not None and y:\n    reveal(x)", "array"),
    "and, on its right": (MAYBE, "x is not None and reveal(x)", "array"),
    "and, else": (MAYBE, "if x is not None and y:\n    pass\nelse:\n    reveal(x)", "None | array"),
    "or, returned": (MAYBE, "if x is None or y:\n    return\nreveal(x)", "array"),
    "or, on its right": (MAYBE, "x is None or reveal(x)", "array"),
    "and, of a long chain": (
        MAYBE,
        "y and x is not None and a and (b := y) and reveal(x)",
        "array",
    ),
    "and, after a long chain": (MAYBE, "y and x is not None and a\nreveal(x)", "None | array"),
    "or, of a long chain": (MAYBE, "y or x is None or a or reveal(x)", "array"),
    "and, then or": (MAYBE, "x is not None and y or reveal(x)", "None | array"),
    "and, returned": (MAYBE, "if x is None and y:\n    return\nreveal(x)", "None | array"),
    "ternary": (MAYBE, "y = reveal(x) if x is not None else 3", "array"),
    "ternary's other branch": (MAYBE, "y = 3 if x is None else reveal(x)", "array"),
    "while": (MAYBE, "while x is not None:\n    reveal(x)\n    x = y", "? | array"),
    "after while": (MAYBE, "while x is not None:\n    x = None\nreveal(x)", "None"),
    "assert": (MAYBE, "assert x is not None\nreveal(x)", "array"),
    "truth": (MAYBE, "if x:\n    reveal(x)", "array"),
    "walrus": (MAYBE, "if (y := x) is not None:\n    reveal(y)", "array"),
    "of an attribute": (
        "a",
        "if a.x is None:\n    a.x = mx.ones(2)\nreveal(a.x)",
        "? | array[float32]",
    ),
    "isinstance": (MIXED, "if isinstance(x, mx.array):\n    reveal(x)", "array"),
    "isinstance, else": (
        MIXED,
        "if isinstance(x, mx.array):\n    pass\nelse:\n    reveal(x)",
        "int",
    ),
    "not isinstance": (MIXED, "if not isinstance(x, mx.array):\n    reveal(x)", "int"),
    "isinstance, returned": (MIXED, "if isinstance(x, int):\n    return\nreveal(x)", "array"),
    "isinstance of a tuple": (
        "x: mx.array | int | str",
        "if isinstance(x, (int, mx.array)):\n    reveal(x)",
        "array | int",
    ),
    "isinstance of a union": (
        "x: mx.array | int | str",
        "if isinstance(x, int | mx.array):\n    reveal(x)",
        "array | int",
    ),
    "isinstance of the unknown": ("x", "if isinstance(x, mx.array):\n    reveal(x)", "array"),
    "isinstance of the unknown, else": (
        "x",
        "if isinstance(x, mx.array):\n    pass\nelse:\n    reveal(x)",
        "?",
    ),
    "isinstance, asserted": (MIXED, "assert isinstance(x, mx.array)\nreveal(x)", "array"),
    "isinstance in and": (MIXED, "isinstance(x, mx.array) and reveal(x)", "array"),
    "isinstance of an instance": (
        "x: 'A'",
        "if isinstance(x, A):\n    reveal(x)",
        "A()",
    ),
    "isinstance of ndarray": (
        "x: mx.array | np.ndarray",
        "if isinstance(x, np.ndarray):\n    reveal(x)",
        "numpy",
    ),
    "isinstance of a tensor": (
        "x: mx.array | torch.Tensor",
        "if not isinstance(x, torch.Tensor):\n    reveal(x)",
        "array",
    ),
    "isinstance of bool and int": (
        "x: mx.array | bool",
        "if isinstance(x, int):\n    reveal(x)",
        "bool",
    ),
    "isinstance of a list": (
        "x: mx.array | list[mx.array]",
        "if isinstance(x, list):\n    reveal(x)",
        "list[array]",
    ),
    "isinstance of what the annotation denies": (
        "x: mx.array",
        "if isinstance(x, list):\n    pass\nelse:\n    reveal(x)",
        "array",
    ),
    "array denied": ("x: mx.array", "if not isinstance(x, mx.array):\n    reveal(x)", "?"),
    "unknown function": (MIXED, "if check(x):\n    reveal(x)", "array | int"),
}


@pytest.mark.parametrize(("parameter", "body", "expected"), CASES.values(), ids=CASES)
def test_a_test_leaves(parameter: str, body: str, expected: str) -> None:
    lines = "\n".join("    " + line for line in body.splitlines())
    assert revealed(f"class A: pass\ndef f({parameter}, y):\n{lines}") == expected


def test_narrowing_ends_with_an_assignment() -> None:
    source = """
        def f(x: mx.array | None, y: mx.array | None):
            if x is not None:
                x = y
                reveal(x)
    """
    assert revealed(source) == "None | array"


def test_an_attribute_path_is_narrowed_until_its_owner_changes() -> None:
    source = """
        class A:
            x: mx.array | None
        def f(a: A, b: A):
            if a.x is not None:
                reveal(a.x)
                a = b
                reveal(a.x)
    """
    assert all_revealed(source) == ["array", "None | array"]


def test_nothing_is_narrowed_by_a_test_of_something_else() -> None:
    source = """
        def f(x: mx.array | None, y: mx.array | None):
            if y is not None:
                reveal(x)
    """
    assert revealed(source) == "None | array"
