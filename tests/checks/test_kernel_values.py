"""KERNEL-ARGS-005 and 006: what is flagged, what is not, and where."""

from __future__ import annotations

import pytest

from tests.checks.findings import IMPORTS, codes, findings

FAMILY = "KERNEL-ARGS-00"


def launching(more: str, inputs: str = "[x]", dtypes: str = "[x.dtype]", before: str = "") -> str:
    return (
        "import numpy as np\n"
        'K = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"],\n'
        '    source="uint i = thread_position_in_grid.x; y[i] = x[i];")\n'
        "def launch(x: mx.array, n: int, eps: float, pairs: list, name: str):\n"
        f"    {before or 'pass'}\n"
        f"    return K(inputs={inputs}, grid=(n, 1, 1), threadgroup=(32, 1, 1),\n"
        f"        output_shapes=[x.shape], output_dtypes={dtypes}, {more})[0]\n"
    )


def underlined(program: str) -> tuple[str, str, str]:
    """Code, source text and message of the one finding."""
    (found,) = findings(program, FAMILY)
    line = (IMPORTS + program).split("\n")[found.line - 1]
    return found.code, line[found.column - 1 : found.end_column - 1], found.message


@pytest.mark.parametrize(
    ("template", "text", "words"),
    [
        ('[("N", "float")]', '"float"', "a string"),
        ('[("T", x.dtype), ("N", name)]', "name", "a string"),
        ('[("N", None)]', "None", "None"),
        ('[("N", np.int32(n))]', "np.int32(n)", "a NumPy scalar"),
        ('[("N", x)]', "x", "an array"),
        ('[("N", mx.array(3))]', "mx.array(3)", "an array"),
        ('[("N", (n, 2))]', "n, 2", "a tuple"),
        ('[("N", x.shape)]', "x.shape", "a shape"),
        ('[("N", 2147483648)]', "2147483648", "more than 32 bits"),
        ('[("N", -2147483649)]', "-2147483649", "more than 32 bits"),
        ('[("N",)]', '"N",', "got 1 part"),
        ('[("T", x.dtype, 1)]', '"T", x.dtype, 1', "got 3 parts"),
        ('("T", x.dtype)', '"T"', "must be a (name, value) pair"),
        ("[x.dtype]", "x.dtype", "must be a (name, value) pair"),
        ('{("N", 4)}', '{("N", 4)}', "a set"),
    ],
)
def test_template_arguments_that_mlx_refuses(template: str, text: str, words: str) -> None:
    code, shown, message = underlined(launching(f"template={template}"))
    assert (code, shown) == ("KERNEL-ARGS-005", text)
    assert words in message


@pytest.mark.parametrize(
    "template",
    [
        "None",
        '[("N", eps)]',
        '[("N", int(n / 2))]',
        '[("N", n // 2), *pairs]',
        '[("N", x.item())]',
    ],
)
def test_template_arguments_that_mlx_takes(template: str) -> None:
    assert codes(launching(f"template={template}"), FAMILY) == []


def test_template_of_a_name() -> None:
    text = launching("template=how", before='how = [("N", 1.5)]')
    assert underlined(text)[:2] == ("KERNEL-ARGS-005", "how")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"inputs": "[x.astype(mx.float64)]"}, "x.astype(mx.float64)"),
        ({"inputs": "[mx.zeros(4, dtype=mx.float64)]"}, "mx.zeros(4, dtype=mx.float64)"),
        ({"dtypes": "[mx.float64]"}, "mx.float64"),
        ({"more": "stream=mx.cpu"}, "mx.cpu"),
        ({"more": "stream=mx.default_stream(mx.cpu)"}, "mx.default_stream(mx.cpu)"),
        ({"more": "stream=s", "before": "s = mx.new_stream(mx.cpu)"}, "s"),
        ({"more": "stream=mx.Device(mx.cpu)"}, "mx.Device(mx.cpu)"),
    ],
)
def test_what_the_gpu_does_not_do(given: dict[str, str], text: str) -> None:
    assert underlined(launching(**{"more": "", **given}))[:2] == ("KERNEL-ARGS-006", text)


@pytest.mark.parametrize(
    "given",
    [
        {"inputs": "[np.float64(eps)]"},
    ],
)
def test_what_the_gpu_does(given: dict[str, str]) -> None:
    assert codes(launching(**{"more": "", **given}), FAMILY) == []


@pytest.mark.parametrize("more", ["stream=mx.cpu", 'template=[("N", 0.5)]'])
def test_tests_of_the_errors_are_none(more: str) -> None:
    """Also where the function that raises is defined before, for the test alone."""
    program = launching(more)
    test = (
        "import pytest\ndef test_it(x):\n    with pytest.raises(ValueError):\n        launch(x)\n"
    )
    assert codes(program + test, FAMILY) != []
    local = "\n".join(f"    {line}" for line in program.splitlines())
    raising = "\n    with pytest.raises(ValueError):\n        launch(x)\n"
    assert codes(f"import pytest\ndef test_it(x):\n{local}{raising}", FAMILY) == []
