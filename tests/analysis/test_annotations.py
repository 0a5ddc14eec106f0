"""Annotations of parameters, results, variables: plain, quoted, unions, generics, aliases."""

from __future__ import annotations

import pytest

from tests.analysis.inference import all_revealed, revealed

TYPING = """
from typing import (
    Annotated, Any, Callable, ClassVar, Dict, Final, Generator, Iterable, Iterator, List, Literal,
    Mapping, Optional, Sequence, Set, Tuple, TypeAlias, TypeVar, Union,
)
import typing as t
import collections.abc as abc
import numpy.typing as npt
"""
CASES = {
    "'mx.array'": "array",
    "'Optional[mx.array]'": "None | array",
    "'mx.array | None'": "None | array",
    "Union[mx.array, Optional[int]]": "None | array | int",
    "Callable[[mx.array], mx.array]": "callable -> array",
    "Callable[..., int]": "callable -> int",
    "npt.NDArray[np.float32]": "numpy",
    "np.float32": "numpy scalar[float]",
    "'not an annotation'": "?",
    "'('": "?",
    "3": "?",
}


@pytest.mark.parametrize(("annotation", "expected"), CASES.items(), ids=CASES)
def test_a_parameter_annotated_so_holds(annotation: str, expected: str) -> None:
    assert revealed(f"{TYPING}\ndef f(x: {annotation}):\n    reveal(x)") == expected


@pytest.mark.parametrize(
    ("annotation", "expected"), [("mx.array", "array"), ("Optional['mx.array']", "None | array")]
)
def test_results_and_variables_are_annotated_alike(annotation: str, expected: str) -> None:
    assert revealed(f"{TYPING}\ndef f() -> {annotation}: ...\nreveal(f())") == expected
    assert revealed(f"{TYPING}\nx: {annotation}\nreveal(x)") == expected


def test_a_default_of_none_joins() -> None:
    assert revealed("def f(x: mx.array = None):\n    reveal(x)") == "None | array"
    assert revealed("def f(*, x: mx.array = None):\n    reveal(x)") == "None | array"


@pytest.mark.parametrize(
    ("alias", "expected"),
    [
        ("Arr = Optional[mx.array]", "None | array"),
        ("Arr = Union[mx.array, int]", "array | int"),
        ("Arr = mx.array | None", "None | array"),
        ("Arr = List[mx.array]", "list[array]"),
        ("type Arr = mx.array", "array"),
    ],
)
def test_an_alias_of_a_compound_type(alias: str, expected: str) -> None:
    assert revealed(f"{TYPING}\n{alias}\ndef f(x: Arr):\n    reveal(x)") in (expected, "?")


def test_a_class_of_the_file() -> None:
    source = "class A:\n    x: mx.array\ndef f(a: 'A', b: A):\n    reveal(a.x)\n    reveal(b)"
    assert all_revealed(source) == ["array", "A()"]


def test_a_declared_empty_list_holds_what_it_declares() -> None:
    assert revealed("def f():\n    xs: list[mx.array] = []\n    reveal(xs[0])") == "array"
