"""Comprehensions, generators, lambdas over sequences."""

from __future__ import annotations

import pytest

from tests.analysis.inference import revealed

CASES = {
    "list": ("[mx.ones(2) for _ in range(3)]", "list[array[float32]]"),
    "of an array": ("[x.shape for x in mx.ones((2, 3))]", "list[shape(int 3)]"),
    "set": ("{mx.ones(2).item() for k in 'ab'}", "set[float]"),
    "dict": ("{k: mx.ones(2) for k in 'ab'}", "dict[array[float32]]"),
    "generator": ("(x for x in mx.ones(2))", "iterator[array[float32]]"),
    "tuple of a generator": ("tuple(x for x in mx.ones(2))", "tuple[array[float32]]"),
    "two clauses": ("[a for b in [[mx.ones(2)]] for a in b]", "list[array[float32]]"),
    "nested": ("[[a for a in b] for b in [mx.ones((2, 2))]]", "list[list[array[float32]]]"),
    "filtered by None": (
        "[x for x in [None, mx.ones(2)] if x is not None]",
        "list[array[float32]]",
    ),
    "filtered by kind": (
        "[x for x in [3, mx.ones(2)] if isinstance(x, mx.array)]",
        "list[array[float32]]",
    ),
    "unpacked": ("[b for a, b in [(1, mx.ones(2))]]", "list[array[float32]]"),
    "map": ("list(map(lambda x: x + 1, [mx.ones(2)]))", "list[array[float32]]"),
    "map of a library function": ("list(map(mx.exp, [mx.ones(2)]))", "list[array[float32]]"),
    "map of two": ("list(map(lambda a, b: a * b, mx.ones(2), [1]))", "list[array[float32]]"),
    "filter": ("list(filter(None, [mx.ones(2)]))", "list[array[float32]]"),
    "sorted": ("sorted([mx.ones(2)])", "list[array[float32]]"),
    "reversed": ("list(reversed([mx.ones(2)]))", "list[array[float32]]"),
    "next": ("next(iter([mx.ones(2)]))", "array[float32]"),
    "next with a default": ("next(iter([mx.ones(2)]), None)", "None | array[float32]"),
    "sum": ("sum([mx.ones(2)])", "array[float32]"),
    "sum of numbers": ("sum([1, 2.0])", "float"),
    "max": ("max(mx.ones(2), mx.ones(2))", "array[float32]"),
    "await in a comprehension": ("[await x for x in [mx.ones(2)]]", "list[array[float32]]"),
}


@pytest.mark.parametrize(("expression", "expected"), CASES.values(), ids=CASES)
def test_a_comprehension_holds(expression: str, expected: str) -> None:
    if "await" in expression:
        assert revealed(f"async def f():\n    reveal({expression})") == expected
    else:
        assert revealed(f"reveal({expression})") == expected


def test_a_generator_function_yields_its_items() -> None:
    source = "def f(x):\n    yield x * 2\nfor y in f(mx.ones(2)):\n    reveal(y)"
    assert revealed(source) == "array[float32]"


def test_yield_from_passes_items_on() -> None:
    source = """
        def f():
            yield mx.ones(2)
        def g():
            yield from f()
        for y in g():
            reveal(y)
    """
    assert revealed(source) == "array[float32]"


def test_a_comprehension_counts_as_a_loop() -> None:
    from embercoach.analysis.facts.facts import CallFact
    from tests.analysis.inference import facts_of

    source = "def f(xs: list[mx.array]):\n    return [x.item() for x in xs]"
    (fact,) = facts_of(source, CallFact)
    assert fact.place.loops == 1
    assert fact.place.loop_names == {"x"}
