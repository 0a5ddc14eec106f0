"""Comprehensions, generators, lambdas over sequences."""

from __future__ import annotations

import pytest

from tests.analysis.inference import revealed

CASES = {
    "set": ("{mx.ones(2).item() for k in 'ab'}", "set[float]"),
    "map": ("list(map(lambda x: x + 1, [mx.ones(2)]))", "list[array[float32]]"),
    "map of a library function": ("list(map(mx.exp, [mx.ones(2)]))", "list[array[float32]]"),
    "map of two": ("list(map(lambda a, b: a * b, mx.ones(2), [1]))", "list[array[float32]]"),
    "filter": ("list(filter(None, [mx.ones(2)]))", "list[array[float32]]"),
    "reversed": ("list(reversed([mx.ones(2)]))", "list[array[float32]]"),
    "next": ("next(iter([mx.ones(2)]))", "array[float32]"),
    "next with a default": ("next(iter([mx.ones(2)]), None)", "None | array[float32]"),
    "max": ("max(mx.ones(2), mx.ones(2))", "array[float32]"),
    "await in a comprehension": ("[await x for x in [mx.ones(2)]]", "list[array[float32]]"),
}


@pytest.mark.parametrize(("expression", "expected"), CASES.values(), ids=CASES)
def test_a_comprehension_holds(expression: str, expected: str) -> None:
    if "await" in expression:
        assert revealed(f"async def f():\n    reveal({expression})") == expected
    else:
        assert revealed(f"reveal({expression})") == expected


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
    from embercoach.analysis.values.facts import CallFact
    from tests.analysis.inference import facts_of

    source = "def f(xs: list[mx.array]):\n    return [x.item() for x in xs]"
    (fact,) = facts_of(source, CallFact)
    assert fact.place.loops == 1
    assert fact.place.loop_names == {"x"}
