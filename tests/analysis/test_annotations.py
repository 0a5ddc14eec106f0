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
    "mx.array": "array",
    "'mx.array'": "array",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "complex": "complex",
    "str": "str",
    "bytes": "bytes",
    "None": "None",
    "mx.Dtype": "dtype",
    "Optional[mx.array]": "None | array",
    "'Optional[mx.array]'": "None | array",
    "Optional['mx.array']": "None | array",
    "t.Optional[mx.array]": "None | array",
    "mx.array | None": "None | array",
    "None | mx.array": "None | array",
    "'mx.array | None'": "None | array",
    "mx.array | int | None": "None | array | int",
    "Union[mx.array, float]": "array | float",
    "Union[mx.array, Optional[int]]": "None | array | int",
    "Union[mx.array]": "array",
    "list[mx.array]": "list[array]",
    "List[mx.array]": "list[array]",
    "List['mx.array']": "list[array]",
    "list": "list[?]",
    "Sequence[mx.array]": "iterator[array]",
    "abc.Iterable[mx.array]": "iterator[array]",
    "Iterator[mx.array]": "iterator[array]",
    "Generator[mx.array, None, None]": "iterator[array]",
    "set[int]": "set[int]",
    "tuple[mx.array, int]": "tuple(array, int)",
    "Tuple[mx.array, ...]": "tuple[array]",
    "tuple": "tuple[?]",
    "dict[str, mx.array]": "dict[array]",
    "Dict[str, Any]": "dict[?]",
    "Mapping[str, mx.array]": "dict[array]",
    "dict[str, list[mx.array]]": "dict[list[array]]",
    "Annotated[mx.array, 'bhld']": "array",
    "Final[int]": "int",
    "Callable[[mx.array], mx.array]": "callable -> array",
    "Callable[..., int]": "callable -> int",
    "np.ndarray": "numpy",
    "npt.NDArray[np.float32]": "numpy",
    "np.float32": "numpy scalar[float]",
    "torch.Tensor": "torch",
    "nn.Module": "mlx.nn.Module()",
    "nn.Linear": "mlx.nn.Linear()",
    "Any": "?",
    "object": "?",
    "Undefined": "?",
    "'not an annotation'": "?",
    "'('": "?",
    "T": "?",
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


def test_star_parameters_are_annotated_by_item() -> None:
    source = "def f(*xs: mx.array, **ys: mx.array):\n    reveal(xs)\n    reveal(ys)"
    assert all_revealed(source) == ["tuple[array]", "dict[array]"]


@pytest.mark.parametrize(
    "alias",
    [
        "Arr = mx.array",
        "from mlx.core import array as Arr",
        "import typing as t\nif t.TYPE_CHECKING:\n    from mlx.core import array as Arr",
        pytest.param("Arr: 'TypeAlias' = mx.array", id="TypeAlias"),
    ],
)
def test_an_alias_of_the_array_class(alias: str) -> None:
    assert revealed(f"{alias}\ndef f(x: Arr):\n    reveal(x)") == "array"


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


def test_a_class_below_in_the_file() -> None:
    source = "def f(a: 'A'):\n    reveal(a.x)\nclass A:\n    x: mx.array"
    assert revealed(source) == "array"


def test_future_annotations_change_nothing() -> None:
    source = "def f(x: mx.array | None):\n    reveal(x)"
    assert (
        revealed(source, prelude="from __future__ import annotations\nimport mlx.core as mx\n")
        == "None | array"
    )


def test_an_annotation_goes_before_callers() -> None:
    assert revealed("def f(x: int):\n    reveal(x)\nf(mx.ones(2))") == "int"


def test_a_caller_in_the_file_does_not_fix_the_dtype_of_an_annotated_parameter() -> None:
    # Callers elsewhere may pass any array.
    assert revealed("def f(x: mx.array):\n    reveal(x)\nf(mx.ones(2, mx.float16))") == "array"


@pytest.mark.parametrize(
    "program",
    [
        "def _f(x: mx.array):\n    reveal(x)\n_f(mx.ones(2, mx.float16))",
        "def g():\n    def f(x: mx.array):\n        reveal(x)\n    f(mx.ones(2, mx.float16))",
        (
            "def f(x: mx.array):\n    reveal(x)\nif __name__ == '__main__':\n"
            "    f(mx.ones(2, mx.float16))"
        ),
    ],
)
def test_callers_fix_the_dtype_where_all_are_in_sight(program: str) -> None:
    assert revealed(program) == "array[float16]"


def test_a_declared_empty_list_holds_what_it_declares() -> None:
    assert revealed("def f():\n    xs: list[mx.array] = []\n    reveal(xs[0])") == "array"
