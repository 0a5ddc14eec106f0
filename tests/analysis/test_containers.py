"""Lists, tuples, dicts, sets, strings, and what goes through zip and enumerate."""

from __future__ import annotations

import pytest

from tests.analysis.inference import revealed

ARRAY = "array[float32]"
EXPRESSIONS = {
    # Lists and tuples: ``x`` is [array, 3].
    "x[0]": ARRAY,
    "x[1]": "int 3",
    "x[-1]": "int 3",
    "x[-2]": ARRAY,
    "x[9]": f"{ARRAY} | int 3",
    "x[i]": f"{ARRAY} | int 3",
    "x[True]": f"{ARRAY} | int 3",
    "x[:1]": f"list({ARRAY})",
    "x[1:]": "list(int 3)",
    "x[:-1]": f"list({ARRAY})",
    "x[::-1]": f"list(int 3, {ARRAY})",
    "x[i:]": f"list[{ARRAY} | int 3]",
    "x + [None]": f"list({ARRAY}, int 3, None)",
    "x * 2": f"list({ARRAY}, int 3, {ARRAY}, int 3)",
    "2 * x": f"list[{ARRAY} | int 3]",
    "x * n": f"list[{ARRAY} | int 3]",
    "len(x)": "int",
    "x.copy()": f"list({ARRAY}, int 3)",
    "x.index(3)": "int",
    "tuple(x)": f"tuple({ARRAY}, int 3)",
    "list(x)": f"list({ARRAY}, int 3)",
    "(*x, 4)": f"tuple({ARRAY}, int 3, int 4)",
    "[*mx.ones(2), 3]": f"list[{ARRAY} | int 3]",
    "(mx.ones(2),) + (3,)": f"tuple({ARRAY}, int 3)",
    "[]": "list()",
    "()": "tuple()",
    "[mx.ones(2)][0]": ARRAY,
    "[[mx.ones(2)]][0][0]": ARRAY,
    # Dicts: ``d`` is {"a": array, "b": 3}.
    "d['a']": ARRAY,
    "d['b']": "int 3",
    "d[k]": f"{ARRAY} | int 3",
    "d.get('a')": f"None | {ARRAY}",
    "d.get('b', 1)": "int",
    "d.get('z', 1)": f"{ARRAY} | int",
    "d.pop('a')": ARRAY,
    "d.setdefault('b', 4)": "int",
    "list(d.values())": f"list[{ARRAY} | int 3]",
    "list(d.keys())": "list[str]",
    "list(d)": "list[str]",
    "{**d, 'c': 1}": f"{{'a': {ARRAY}, 'b': int 3, 'c': int 1}}",
    "{**d, 'a': 1}['a']": "int 1",
    "dict(d)['a']": ARRAY,
    "dict(x=mx.ones(2))['x']": ARRAY,
    "dict(zip('ab', [mx.ones(2)]))[k]": ARRAY,
    "dict([('a', mx.ones(2))])['a']": ARRAY,
    "{1: mx.ones(2)}[1]": ARRAY,
    "dict.fromkeys('ab')": "?",
    # Iterators
    "list(zip([mx.ones(2)], 'a'))": f"list[tuple({ARRAY}, str)]",
    "list(enumerate(mx.ones(2)))": f"list[tuple(int, {ARRAY})]",
    "list(enumerate([1], start=1))[0][1]": "int 1",
    "list(zip(*[[mx.ones(2)]]))": f"list[tuple[{ARRAY}]]",
    "list(d.items())": f"list[tuple(str, {ARRAY} | int 3)]",
    "list(range(3))": "list[int]",
    "max([mx.ones(2)])": ARRAY,
    "{1, 2}": "set(int 1, int 2)",
    "set([mx.ones(2)])": f"set({ARRAY})",
    # Text
    "'a' 'b'": "'ab'",
    "'a' + 'b'": "'ab'",
    "'a' + s": "str",
    "f'{1}a{s}'": "str",
    "f'{1}a'": "'1a'",
    "f'{{'": "'{'",
    "r'\\n'": "'\\\\n'",
    "'\\n'": "'\\n'",
    "'''a'''": "'a'",
    "''": "''",
    "''''''": "''",
    "'a' * 3": "'aaa'",
    "'a %s' % 3": "'a 3'",
    "'abc'[0]": "str",
    "'a b'.split()": "list[str]",
    "'a'.join(['b'])": "'b'",
    "'a'.encode()": "bytes",
    "b'a'": "bytes",
    "'a'.startswith('b')": "bool",
    "str(mx.ones(2))": "str",
    # Numbers
    "1_000": "int 1000",
    "0x10": "int 16",
    "0o17": "int 15",
    "0b11": "int 3",
    "1e3": "float 1000.0",
    "1_0.5e-1_0": "float 1.05e-09",
    "3j": "complex 3j",
    "-3": "int -3",
    "--3": "int 3",
    "True + 1": "int 2",
    "1 + 2 * 3": "int 7",
    "7 / 2": "float 3.5",
    "7 // 2": "int 3",
    "7 % 4": "int 3",
    "2 ** -1": "float",
    "1 / 0": "float",
    "1.0 + 2": "float 3.0",
    "1 + 2j": "complex (1+2j)",
    "1 if c else 2": "int",
    "int(3.5)": "int 3",
    "int('3')": "int",
    "int(float('nan'))": "int",
    "float(3)": "float 3.0",
    "round(3.5)": "int",
    "abs(-3)": "int",
    "1 < 2": "bool",
    "not 3": "bool",
    "3 is None": "bool",
}


@pytest.mark.parametrize(("expression", "expected"), EXPRESSIONS.items(), ids=EXPRESSIONS)
def test_an_expression_holds(expression: str, expected: str) -> None:
    source = f"""
        x = [mx.ones(2), 3]
        d = {{"a": mx.ones(2), "b": 3}}
        def f(i, k, n, s: str, c):
            reveal({expression})
    """
    assert revealed(source) == expected


GROWING = {
    "append": ("x = []\nx.append(mx.ones(2))\nreveal(x[0])", ARRAY),
    "append in a loop": (
        "x = []\nfor i in range(3):\n    x.append(mx.ones(2))\nreveal(x)",
        f"list[{ARRAY}]",
    ),
    "append to an attribute": (
        "class A: pass\na = A()\na.x = []\na.x.append(mx.ones(2))\nreveal(a.x[0])",
        ARRAY,
    ),
    "append another kind": ("x = [3]\nx.append(mx.ones(2))\nreveal(x[i])", f"{ARRAY} | int 3"),
    "item in a loop": ("d = {}\nfor i in range(3):\n    d[i] = mx.ones(2)\nreveal(d[0])", ARRAY),
    "dict of lists": (
        "d = {'a': []}\nd['a'] = d['a'] + [mx.ones(2)]\nreveal(d['a'][0])",
        ARRAY,
    ),
    "in place": ("x = [3]\nx += [mx.ones(2)]\nreveal(x[1])", ARRAY),
    "defaultdict": (
        "from collections import defaultdict\nd = defaultdict(list)\nreveal(d['a'])",
        "?",
    ),
    "deque": (
        "from collections import deque\nx = deque([mx.ones(2)], maxlen=3)\nreveal(x[0])",
        ARRAY,
    ),
}


@pytest.mark.parametrize(("source", "expected"), GROWING.values(), ids=GROWING)
def test_a_container_that_grows_holds(source: str, expected: str) -> None:
    assert revealed(source) == expected


@pytest.mark.parametrize(
    "change",
    [
        "x.insert(0, 'a')",
        "x.reverse()",
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


def test_an_extended_list_holds_the_new_items() -> None:
    assert revealed("x = []\nx.extend([mx.ones(2)])\nreveal(x[0])") == ARRAY


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
