"""Python files: checked, fixed, suppressed and reported."""

from __future__ import annotations

import keyword
from collections.abc import Iterator

from tests.fuzz import seeds
from tests.fuzz.mutation import grafting, text_mutation
from tests.fuzz.soundness import examine
from tests.fuzz.target import Target

WORDS = (
    *keyword.kwlist,
    *keyword.softkwlist,
    *("mx", "nn", "np", "x", "self", "mx.compile", "mx.eval(x)", "x.item()", "float(x)", "x.shape"),
    *("mx.grad(f)", "mx.vmap(f)", "mx.fast.metal_kernel(", "source=", "header=", "input_names="),
    *("grid=", "threadgroup=", "template=", "output_shapes=", "output_dtypes=", "mx.float16"),
    *("np.array(x)", "x.tolist()", "print(x)", "*args", "**kwargs", "lambda a: a", "@mx.compile"),
    *("# embercoach: ignore", "# noqa", "# embercoach: ignore[DTYPE-001]", "# type: ignore"),
    *(
        "\n",
        "\n    ",
        "\n\t",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "=",
        ".",
        ":=",
        "->",
        "f'{x=}'",
    ),
)


def _seeds() -> Iterator[bytes]:
    for program in seeds.python_programs()[::4]:  # mutations take from the others
        yield program.encode("utf-8", "surrogatepass")


def execute(data: bytes) -> None:
    """Check a Python file."""
    """Check a Python file."""
    examine(data, "program.py")


MUTATION = text_mutation(seeds.python_programs, WORDS, [grafting(seeds.python_programs)])
TARGET = Target(
    "python",
    _seeds,
    MUTATION,
    execute,
)
