"""Lists, tuples, dicts, sets, strings, comprehensions, and what goes through iterators."""

from __future__ import annotations

import pytest

from embercoach.analysis.values.facts import CallFact
from tests.analysis.inference import facts_of, revealed

ARRAY = "array[float32]"
EXPRESSIONS = {
    # Lists and tuples: ``x`` is [array, 3].
    "x[:1]": f"list({ARRAY})",
    "x[1:]": "list(int 3)",
    "x[:-1]": f"list({ARRAY})",
    "x[::-1]": f"list(int 3, {ARRAY})",
    "x[i:]": f"list[{ARRAY} | int 3]",
    "2 * x": f"list[{ARRAY} | int 3]",
    "len(x)": "int",
    "x.copy()": f"list({ARRAY}, int 3)",
    "x.index(3)": "int",
    "(*x, 4)": f"tuple({ARRAY}, int 3, int 4)",
    # Dicts: ``d`` is {"a": array, "b": 3}.
    "d[k]": f"{ARRAY} | int 3",
    "d.pop('a')": ARRAY,
    "d.setdefault('b', 4)": "int",
    "{**d, 'c': 1}": f"{{'a': {ARRAY}, 'b': int 3, 'c': int 1}}",
    "{**d, 'a': 1}['a']": "int 1",
    "dict(zip('ab', [mx.ones(2)]))[k]": ARRAY,
    "dict([('a', mx.ones(2))])['a']": ARRAY,
    "{1: mx.ones(2)}[1]": ARRAY,
    # Comprehensions and iterators
    "{mx.ones(2).item() for k in 'ab'}": "set[float]",
    "list(map(lambda x: x + 1, [mx.ones(2)]))": f"list[{ARRAY}]",
    "list(map(mx.exp, [mx.ones(2)]))": f"list[{ARRAY}]",
    "list(map(lambda a, b: a * b, mx.ones(2), [1]))": f"list[{ARRAY}]",
    "list(filter(None, [mx.ones(2)]))": f"list[{ARRAY}]",
    "list(reversed([mx.ones(2)]))": f"list[{ARRAY}]",
    "next(iter([mx.ones(2)]))": ARRAY,
    "next(iter([mx.ones(2)]), None)": f"None | {ARRAY}",
    "max(mx.ones(2), mx.ones(2))": ARRAY,
    "[await x for x in [mx.ones(2)]]": f"list[{ARRAY}]",
    "list(zip(*[[mx.ones(2)]]))": f"list[tuple[{ARRAY}]]",
    "{1, 2}": "set(int 1, int 2)",
    # Text
    "'a' 'b'": "'ab'",
    "'a %s' % 3": "'a 3'",
    "'abc'[0]": "str",
    "'a b'.split()": "list[str]",
    "'a'.encode()": "bytes",
    "b'a'": "bytes",
    "'a'.startswith('b')": "bool",
    # Numbers
    "2 ** -1": "float",
    "1 / 0": "float",
    "int(3.5)": "int 3",
    "float(3)": "float 3.0",
    "round(3.5)": "int",
    "abs(-3)": "int",
    "1 < 2": "bool",
}


@pytest.mark.parametrize(("expression", "expected"), EXPRESSIONS.items(), ids=EXPRESSIONS)
def test_an_expression_holds(expression: str, expected: str) -> None:
    source = f"""
        x = [mx.ones(2), 3]
        d = {{"a": mx.ones(2), "b": 3}}
        async def f(i, k, n, s: str, c):
            reveal({expression})
    """
    assert revealed(source) == expected


GROWING = {
    "item in a loop": ("d = {}\nfor i in range(3):\n    d[i] = mx.ones(2)\nreveal(d[0])", ARRAY),
    "deque": (
        "from collections import deque\nx = deque([mx.ones(2)], maxlen=3)\nreveal(x[0])",
        ARRAY,
    ),
    "extended list": ("x = []\nx.extend([mx.ones(2)])\nreveal(x[0])", ARRAY),
}


@pytest.mark.parametrize(("source", "expected"), GROWING.values(), ids=GROWING)
def test_a_container_that_grows_holds(source: str, expected: str) -> None:
    assert revealed(source) == expected


@pytest.mark.parametrize(
    "change",
    [
        "x.insert(0, 'a')",
        "x.sort()",
        "x.pop(0)",
        "x.remove(3)",
        "x.clear()",
        "del x[0]",
    ],
)
def test_a_changed_list_forgets_which_item_stands_where(change: str) -> None:
    source = f"x = [3, mx.ones(2)]\n{change}\nreveal(x[0])"
    assert revealed(source) != "int 3"


@pytest.mark.parametrize("change", ["d.update({'a': mx.ones(2)})", "d.update(a=mx.ones(2))"])
def test_an_updated_dict_forgets_what_its_keys_held(change: str) -> None:
    assert revealed(f"d = {{'a': 3}}\n{change}\nreveal(d['a'])") != "int 3"


@pytest.mark.parametrize("wrapped", ["x = [x, x]", "x = (x, 1)", "x = {'a': x, 'b': x}"])
def test_deep_nesting_is_cut_short(wrapped: str) -> None:
    # Values compare and hash by content: an unbounded one would take exponential time.
    source = "x = 1\n" + f"{wrapped}\n" * 60 + "if c:\n    x = None\nreveal(x)"
    assert revealed(source)


def test_a_string_that_doubles_is_cut_short() -> None:
    assert revealed("s = 'a'\n" + "s = s + s\n" * 60 + "reveal(s)") == "str"


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
    source = "def f(xs: list[mx.array]):\n    return [x.item() for x in xs]"
    (fact,) = facts_of(source, CallFact)
    assert fact.place.loops == 1
    assert fact.place.loop_names == {"x"}
