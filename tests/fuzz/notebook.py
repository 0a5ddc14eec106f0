"""Jupyter notebooks."""

from __future__ import annotations

import json
from functools import cache, partial
from typing import Any

from tests.fuzz import python_source, seeds
from tests.fuzz.mutation import json_mutation
from tests.fuzz.soundness import examine
from tests.fuzz.target import Target

WORDS = (
    *("cells", "cell_type", "code", "markdown", "raw", "source", "metadata", "outputs", "id"),
    *("nbformat", "nbformat_minor", "kernelspec", "language_info", "name", "language", "python"),
    *("%%time\n", "%load_ext a\n", "!ls\n", "x = !ls\n", "%%bash\n", "?x\n", "x?\n"),
    *("/f x\n", ";f x\n"),
)


@cache
def _documents() -> tuple[Any, ...]:
    return tuple(json.loads(text) for text in seeds.notebooks()[::20])


TARGET = Target(
    "notebook",
    lambda: seeds.notebooks()[::4],
    json_mutation(_documents, WORDS, python_source.MUTATION),
    partial(examine, name="notebook.ipynb"),
)
