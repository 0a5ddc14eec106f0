"""Reading notebooks: what is in them, and what is said of files that are none."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embercoach.fixes.source_file import LineIndex
from embercoach.notebooks.cell_module import parse
from embercoach.notebooks.notebook_document import NotebookError, read
from tests.notebooks.written import code, notebook, prose, written


def test_cells_are_counted_with_those_of_text() -> None:
    document = read(written(notebook(prose("# One"), "x = 1\n", prose("Two"), "y = x")))
    assert [(cell.number, cell.text) for cell in document.cells] == [(2, "x = 1\n"), (4, "y = x")]
    assert document.language == "python"


@pytest.mark.parametrize(
    ("metadata", "checked"),
    [
        ({}, True),
        ({"kernelspec": {"language": "python"}}, True),
        ({"kernelspec": {"name": "python3"}, "language_info": 3}, True),
        ({"kernelspec": {"language": "julia"}}, False),
        ({"language_info": {"name": "R"}}, False),
        # The kernel that ran last counts.
        ({"kernelspec": {"language": "julia"}, "language_info": {"name": "Python"}}, True),
    ],
)
def test_only_notebooks_of_python_are_checked(metadata: dict[str, Any], checked: bool) -> None:
    found = parse(written(notebook("x = 1", metadata=metadata)))
    assert (found is not None) == checked


def test_cells_of_other_languages_are_left_out() -> None:
    data = notebook(
        "%%bash\nls",
        code("select 1", metadata={"vscode": {"languageId": "sql"}}),
        code("x = 1", metadata={"vscode": {"languageId": "python"}}),
    )
    found = parse(written(data))
    assert found is not None
    assert found.source == "x = 1\n"
    assert found.table.place(1) == (3, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1:1: not a notebook: not valid JSON: Expecting value"),
        ('{\n "cells": [\n<<<<<<< ours\n', "3:1: not a notebook: not valid JSON: Expecting value"),
        ("[]", "1:1: not a notebook: it holds no JSON object"),
        ("{}", '1:1: not a notebook: "nbformat" is missing'),
        ('{"nbformat": 4}', '1:1: not a notebook: "cells" is missing'),
        ('{"nbformat": true}', '1:14: not a notebook: "nbformat" must be a whole number'),
        (
            '{\n"nbformat": 3, "worksheets": []}',
            (
                "2:13: not a notebook: format 3 is out of use; "
                "`jupyter nbconvert --to notebook --inplace FILE` brings it up to date"
            ),
        ),
        ('{"nbformat": 5}', "1:14: not a notebook: format 5 is not known; EmberCoach reads 4"),
        ('{"nbformat": 4, "cells": 1}', '1:26: not a notebook: "cells" must be a list'),
        ('{"nbformat": 4, "cells": [1]}', "1:27: not a notebook: cell 1 must be an object"),
        (
            '{"nbformat": 4, "cells": [{}]}',
            '1:27: not a notebook: cell 1 must have a text "cell_type"',
        ),
        (
            '{"nbformat": 4, "cells": [{"cell_type": "code", "source": 1}]}',
            '1:27: not a notebook: "source" of cell 1 must be a text or a list of texts',
        ),
        (
            '{"nbformat": 4, "cells": [{"cell_type": "code", "source": ["", 1]}]}',
            '1:64: not a notebook: "source" of cell 1 must hold texts alone',
        ),
        (
            '{"nbformat": 4, "cells": [{"cell_type": "code", "source": "\\ud800"}]}',
            "1:60: not a notebook: cell 1 holds half a character",
        ),
        (
            '{"nbformat": 4, "cells": [{"cell_type": "code", "source": "\\u0000"}]}',
            "1:60: not a notebook: cell 1 holds a null byte",
        ),
        ("[" * 100_000, "1:1: not a notebook: nested too deep"),
    ],
)
def test_what_is_no_notebook(text: str, said: str) -> None:
    with pytest.raises(NotebookError) as caught:
        read(text)
    assert str(caught.value) == said


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "nbformat": st.just(4) | JSON,
        "cells": st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "cell_type": st.just("code") | JSON,
                    "source": st.text() | st.lists(st.text()) | JSON,
                    "metadata": JSON,
                },
            )
            | JSON,
            max_size=3,
        )
        | JSON,
        "metadata": st.dictionaries(st.sampled_from(["kernelspec", "language_info"]), JSON) | JSON,
    },
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=MEMBERS, indent=st.sampled_from([None, 1]))
def test_any_json_is_read_or_refused(data: Any, indent: int | None) -> None:
    with suppress(NotebookError):
        parse(json.dumps(data, indent=indent))


ODD = st.text(
    st.sampled_from(list('ab"\\/\t\n\r\x01\x7fé\u2028\U0001f600')) | st.characters(codec="utf-8"),
    max_size=12,
).map(lambda text: text.replace("\0", ""))


@given(
    given=st.lists(st.lists(ODD, max_size=3) | ODD, min_size=1, max_size=3),
    indent=st.sampled_from([None, 1, 4]),
    escaped=st.booleans(),
)
def test_places_in_the_file(
    given: list[list[str] | str], indent: int | None, escaped: bool
) -> None:
    """What stands before a place in a string of the JSON is what stands before it in the cell."""
    cells = [code("", source=source, outputs=[{"text": '"\\'}]) for source in given]
    cells.append(code("x = 1"))  # without it, a cell `%%` makes a notebook of another language
    text = json.dumps(notebook(*cells), indent=indent, ensure_ascii=escaped)
    found = parse(text)
    assert found is not None
    index = LineIndex(text)
    for part in found.parts:
        offset = 0
        for piece in part.cell.pieces:
            for count in range(len(piece.text)):
                at = found.offset_in_file(part, offset + count)
                assert json.loads(f'"{text[piece.start : at]}"') == piece.text[:count]
                place = found.lines(part.cell.number).place(offset + count)
                assert found.place_in_file(part.cell.number, *place) == index.place(at)
            offset += len(piece.text)
        if part.cell.pieces:
            assert found.offset_in_file(part, offset) == part.cell.pieces[-1].end


@pytest.mark.parametrize(
    "written_as",
    [
        "# \\ud83d\\ude00 x",
        "# \\uD83D\\uDE00\\uD83D\\uDE00 x",
        "# \\\\ud83d\\\\ude00 x",
        '# \N{GRINNING FACE}\\"\\/ x',
    ],
)
def test_a_pair_of_surrogates_is_one_character(written_as: str) -> None:
    text = json.dumps(notebook(code("HERE"))).replace("HERE", written_as)
    found = parse(text)
    assert found is not None
    (part,) = found.parts
    assert text[found.offset_in_file(part, part.text.index(" x")) :].startswith(' x"')


def test_a_line_has_its_own_line_in_the_file() -> None:
    text = written(notebook(prose("#"), "x = 1\n\nif x:\n    y = 'é'\n"))
    found = parse(text)
    assert found is not None
    line, column = found.place_in_file(2, 4, 5)
    assert text.splitlines()[line - 1][column - 1 :] == "y = 'é'\\n\""
