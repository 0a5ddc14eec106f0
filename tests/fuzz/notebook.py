"""Jupyter notebooks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from tests.fuzz import python_source, seeds
from tests.fuzz.mutation import json_mutation
from tests.fuzz.soundness import examine
from tests.fuzz.target import Target

WORDS = (
    *("cells", "cell_type", "code", "markdown", "raw", "source", "metadata", "outputs", "id"),
    *("nbformat", "nbformat_minor", "kernelspec", "language_info", "name", "language", "python"),
    *(
        "%%time\n",
        "%load_ext a\n",
        "!ls\n",
        "x = !ls\n",
        "%%bash\n",
        "?x\n",
        "x?\n",
        "/f x\n",
        ";f x\n",
    ),
)


def _seeds() -> Iterator[bytes]:
    for text in seeds.notebooks()[::4]:
        yield text.encode("utf-8", "surrogatepass")


@cache
def _documents() -> tuple[Any, ...]:
    return tuple(json.loads(text) for text in seeds.notebooks()[::20])


def _execute(data: bytes) -> None:
    examine(data, "notebook.ipynb")


TARGET = Target(
    "notebook", _seeds, json_mutation(_documents, WORDS, python_source.MUTATION), _execute
)
