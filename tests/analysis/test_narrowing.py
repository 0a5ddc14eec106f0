"""What tests of None, ``isinstance`` and early returns leave of a value."""

from __future__ import annotations

import pytest

from tests.analysis.inference import all_revealed, revealed

MAYBE = "x: mx.array | None"
MIXED = "x: mx.array | int"
CASES = {
    "is None": (MAYBE, "if x is None:\n    reveal(x)", "None"),
    "== None": (MAYBE, "if x == None:\n    reveal(x)", "None"),
    "continue": (MAYBE, "for i in y:\n    if x is None:\n        continue\n    reveal(x)", "array"),
    "and, of a long chain": (
        MAYBE,
        "y and x is not None and a and (b := y) and reveal(x)",
        "array",
    ),
    "or, of a long chain": (MAYBE, "y or x is None or a or reveal(x)", "array"),
    "and, then or": (MAYBE, "x is not None and y or reveal(x)", "None | array"),
    "after while": (MAYBE, "while x is not None:\n    x = None\nreveal(x)", "None"),
    "walrus": (MAYBE, "if (y := x) is not None:\n    reveal(y)", "array"),
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
}


@pytest.mark.parametrize(("parameter", "body", "expected"), CASES.values(), ids=CASES)
def test_a_test_leaves(parameter: str, body: str, expected: str) -> None:
    lines = "\n".join("    " + line for line in body.splitlines())
    assert revealed(f"class A: pass\ndef f({parameter}, y):\n{lines}") == expected


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
