"""Dtype promotion, every pair of dtypes and every kind of number, compared with the MLX at hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import pytest

from embercoach.analysis.values import promotion
from tests.analysis.inference import all_revealed

mx = pytest.importorskip("mlx.core")

DTYPES = sorted(promotion.DTYPES)
PAIRS = list(itertools.product(DTYPES, DTYPES))
NUMBERS = {"bool": True, "int": 3, "float": 0.5, "complex": 1j}
OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>", "<", "==")
FORMS = (
    *("-{x}", "~{x}", "abs({x})", "{x}[0]", "{x}[None, :1]", "{x}.T", "{x} == {x}", "{x}.dtype"),
    *("{x}[0].item()", "{x}.tolist()[0]", "{x}.sum()", "{x}.mean()", "{x}.max()", "{x}.var()"),
    *("{x}.argmax()", "{x}.any()", "{x}.cumsum()", "{x}.square()", "{x}.sqrt()", "{x}.exp()"),
    *("{x}.abs()", "{x}.round()", "{x}.reshape(-1)", "{x}.astype(mx.int8)", "mx.softmax({x})"),
    *("mx.sigmoid({x})", "mx.sort({x})", "mx.argsort({x})", "mx.floor({x})", "mx.array({x})"),
    *("mx.zeros_like({x})", "mx.stack([{x}, {x}])", "mx.where({x} == {x}, {x}, 0)"),
    *("mx.maximum({x}, 1)", "mx.maximum({x}, 1.5)", "mx.clip({x}, 0, 1)"),
)


@pytest.fixture(autouse=True, scope="module")
def on_the_cpu() -> Iterator[None]:
    device = mx.default_device()
    mx.set_default_device(mx.cpu)  # float64 exists there alone
    yield
    mx.set_default_device(device)


def ones(dtype: str) -> str:
    return f"mx.ones((2,), mx.{dtype if dtype != 'bool' else 'bool_'})"


def name_of(dtype: object) -> str:
    return str(dtype).removeprefix("mlx.core.").rstrip("_")


def run(expression: str) -> str | None:
    """What MLX makes of an expression, in the notation of ``inference``; None if it raises."""
    try:
        value = eval(expression, {"mx": mx})
        if isinstance(value, mx.array):
            mx.eval(value)
    except (ValueError, RuntimeError, TypeError):
        return None
    if isinstance(value, mx.array):
        return f"array[{name_of(value.dtype)}]"
    return f"dtype[{name_of(value)}]" if isinstance(value, mx.Dtype) else type(value).__name__


def disagreements(expressions: Iterable[str]) -> dict[str, tuple[str | None, str]]:
    """Where inference says otherwise than MLX: (MLX, inference) by expression."""
    runnable = {e: result for e in expressions if (result := run(e)) is not None}
    assert runnable
    inferred = all_revealed("\n".join(f"reveal({expression})" for expression in runnable))
    return {
        expression: (expected, found)
        for (expression, expected), found in zip(runnable.items(), inferred, strict=True)
        if expected != found
    }


def test_every_dtype_is_known() -> None:
    dtypes = {name for name in dir(mx) if isinstance(getattr(mx, name), mx.Dtype)}
    assert {name.rstrip("_") for name in dtypes} == promotion.DTYPES


def test_promotion_of_arrays() -> None:
    table = {(a, b): f"array[{promotion.promote(a, b)}]" for a, b in PAIRS}
    assert table == {(a, b): run(f"{ones(a)} + {ones(b)}") for a, b in PAIRS}


@pytest.mark.parametrize("kind", NUMBERS)
def test_promotion_of_an_array_and_a_number(kind: str) -> None:
    number = NUMBERS[kind]
    table = {d: f"array[{promotion.promote_weak(d, kind)}]" for d in DTYPES}  # type: ignore[arg-type]
    assert table == {d: run(f"{ones(d)} + {number!r}") for d in DTYPES}
    assert table == {d: run(f"{number!r} + {ones(d)}") for d in DTYPES}
    assert promotion.dtype_of_number(kind) == name_of(mx.array(number).dtype)  # type: ignore[arg-type]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("symbol", OPERATORS)
def test_an_operator_between_arrays(symbol: str) -> None:
    assert not disagreements(f"{ones(a)} {symbol} {ones(b)}" for a, b in PAIRS)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("symbol", [s for s in OPERATORS if s != "@"])
def test_an_operator_with_a_number(symbol: str) -> None:
    numbers = list(map(repr, NUMBERS.values()))
    assert not disagreements(
        text
        for dtype, number in itertools.product(DTYPES, numbers)
        for text in (f"{ones(dtype)} {symbol} {number}", f"{number} {symbol} {ones(dtype)}")
    )


@pytest.mark.parametrize("form", FORMS)
def test_methods_and_functions(form: str) -> None:
    assert not disagreements(form.format(x=ones(dtype)) for dtype in DTYPES)


def test_functions_of_numbers() -> None:
    names = ("sqrt", "rsqrt", "log", "exp", "sin")
    assert not disagreements(f"mx.{name}({number})" for name in names for number in (2, 0.5))
