"""The integers of sizes: what is computed with symbols holds for the numbers they stand for."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from embercoach.analysis.shapes import size_integers as sizes
from embercoach.analysis.shapes.size_integers import ANY_INT, Comparison, Integer, compare

SYMBOLS = {name: sizes.SizeSymbol(name) for name in ("a", "b", "c", "D", "part")}
#: The text of a quotient times its divisor is the whole.
SYMBOLS["part"].quotient = (SYMBOLS["D"], 3)
OPERATORS: dict[type[ast.operator], Callable[[Integer, Integer], Integer]] = {
    ast.Add: sizes.add,
    ast.Sub: sizes.subtract,
    ast.Mult: sizes.multiply,
    ast.FloorDiv: sizes.floor_divide,
    ast.Mod: sizes.modulo,
}
FUNCTIONS: dict[str, Callable[..., Integer]] = {
    "min": lambda a, b: sizes.least((a, b)),
    "max": lambda a, b: sizes.greatest((a, b)),
    "ceil": sizes.ceil_divide,
}
TEMPLATES = [f"({{}} {sign} {{}})" for sign in ("+", "-", "*", "//", "%")]
TEMPLATES += [f"{name}({{}}, {{}})" for name in FUNCTIONS]
LEAVES = st.one_of(st.sampled_from(list(SYMBOLS)), st.integers(-6, 6).map("({})".format))
OPERATIONS = st.sampled_from(TEMPLATES)
EXPRESSIONS = st.recursive(
    LEAVES, lambda part: st.builds(str.format, OPERATIONS, part, part), max_leaves=6
)
Values = dict[str, int]


def integer(text: str) -> Integer:
    """The integer of an expression."""
    return _integer(ast.parse(text, mode="eval").body)


def _integer(node: ast.expr) -> Integer:
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](_integer(node.left), _integer(node.right))
    if isinstance(node, ast.Call):
        return FUNCTIONS[ast.unparse(node.func)](*map(_integer, node.args))
    if isinstance(node, ast.Name):
        return sizes.of_atom(SYMBOLS[node.id])
    number: int = ast.literal_eval(node)
    return number


def value(text: str, values: Values) -> int | None:
    """Python's value of an expression; None where it divides by zero."""
    try:
        return int(eval(text, {"ceil": lambda a, b: -(-a // b)}, dict(values)))
    except ZeroDivisionError:
        return None


def put(number: Integer, values: Values) -> Integer:
    """The integer for these numbers of its symbols."""
    return sizes.substituted(number, {SYMBOLS[name]: n for name, n in values.items()})


def assignments(first: int) -> st.SearchStrategy[list[Values]]:
    numbers = {name: st.integers(first, 9) for name in SYMBOLS}
    drawn = st.fixed_dictionaries(numbers).map(lambda v: {**v, "D": 3 * v["part"]})
    return st.lists(drawn, min_size=4, max_size=8)


@given(EXPRESSIONS, assignments(-9))
def test_an_expression_has_the_value_of_python(text: str, drawn: list[Values]) -> None:
    number = integer(text)
    assume(number is not ANY_INT)
    for values in drawn:
        expected = value(text, values)
        assert expected is None or put(number, values) == expected


@given(EXPRESSIONS, assignments(-9))
def test_its_text_has_the_value_of_the_integer(text: str, drawn: list[Values]) -> None:
    number = integer(text)
    assume(isinstance(number, sizes.SizeExpr))
    for values in drawn:
        found = value(repr(number), values)
        assert found is None or put(number, values) in (found, ANY_INT), repr(number)


@given(EXPRESSIONS, EXPRESSIONS, st.booleans(), st.data())
def test_a_comparison_holds_for_all_sizes(
    left: str, right: str, near: bool, data: st.DataObject
) -> None:
    right = f"({left} + {right})" if near else right
    found = compare(integer(left), integer(right))
    assume(found is not Comparison.POSSIBLE)
    for values in data.draw(assignments(1 if found is Comparison.DEGENERATE else 0)):
        a, b = value(left, values), value(right, values)
        assert None in (a, b) or (a == b) is (found is Comparison.EQUAL)


@given(EXPRESSIONS, EXPRESSIONS, st.booleans(), assignments(0))
def test_an_exact_quotient_leaves_no_rest(
    dividend: str, divisor: str, times: bool, drawn: list[Values]
) -> None:
    a, b = integer(dividend), integer(divisor)
    product = sizes.multiply(a, b)
    found = sizes.exact_quotient(product if times else a, b)
    if times and ANY_INT not in (a, b, product) and b != 0:
        assert found == a
    elif found is not None:
        for values in drawn:
            whole, part, quotient = put(a, values), put(b, values), put(found, values)
            assert ANY_INT in (whole, part) or whole == sizes.multiply(part, quotient)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("2 * a + 1", "2 * b", Comparison.DIFFERENT),
        ("a + b", "a", Comparison.DEGENERATE),
        ("(a * 3 + b) // 3", "a + b // 3", Comparison.EQUAL),
        ("a // 2 // 3", "a // 6", Comparison.EQUAL),
        ("a * b // (c * b)", "a // c", Comparison.EQUAL),
        ("3 * a // (6 * b)", "a // (2 * b)", Comparison.EQUAL),
        ("max(a + b, b + a - 1)", "a + b", Comparison.EQUAL),
        ("(a * c + b * c) // (a + b)", "c", Comparison.EQUAL),
    ],
)
def test_comparisons(left: str, right: str, expected: Comparison) -> None:
    assert compare(integer(left), integer(right)) is expected


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("b + a * 2 - 1", "2 * a + b - 1"),
        ("part * 3 * a", "a * D"),
        ("ceil(a, 4)", "-((-a) // 4)"),
        ("c * (a // (b + 1))", "c * (a // (b + 1))"),
    ],
)
def test_texts(text: str, printed: str) -> None:
    assert repr(integer(text)) == printed
