"""Notebooks in the language server: diagnostics and edits of cells, as `check` reports the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from embercoach.cli.entry import start
from tests.notebooks.written import code, notebook, prose, written
from tests.server.editor import Editor, applied
from tests.server.open_notebook import OpenNotebook
from tests.server.raw import RawClient

TITLE = "# Title of `mx`"
IMPORTS = "%pip install mlx\nimport mlx.core as mx\nfiles = !ls"
HALF = "x = mx.ones((3, 3), dtype=mx.float16)\n'\U0001f525'; z = x * mx.array(0.5)\n"
PULL = "%%time\nfor i in range(3):\n    loss = mx.sum(x * i)\n    t = mx.full(2, loss.item())"
CELLS = (TITLE, IMPORTS, HALF, PULL)
EVERYWHERE = types.Range(types.Position(0, 0), types.Position(1000, 0))


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    editor = Editor(tmp_path_factory.mktemp("project"))
    yield editor
    assert editor.stop() == 0


def codes(found: list[list[types.Diagnostic]]) -> list[list[object]]:
    """The rules of each cell's findings, without notes."""
    hint = types.DiagnosticSeverity.Hint
    return [[one.code for one in cell if one.severity != hint] for cell in found]


def at(line: int, start: int, end: int) -> types.Range:
    return types.Range(types.Position(line, start), types.Position(line, end))


def test_cells_have_the_findings_that_check_reports(
    editor: Editor, capfd: pytest.CaptureFixture[str]
) -> None:
    opened = OpenNotebook(editor, "same.ipynb", *CELLS)
    found = opened.shown(0, 1, 2, 3)
    file = editor.folder / "same.ipynb"
    cells = [prose(TITLE), *(code(text) for text in CELLS[1:])]
    file.write_text(written(notebook(*cells)), encoding="utf-8")
    start(["check", "--no-cache", "--show-notes", "--output-format", "concise", str(file)])
    lines = [line for line in capfd.readouterr().out.splitlines() if line.startswith(str(file))]
    # In the editor columns count UTF-16, and the cell of line 2 has a character of two units.
    places = [
        f"{file}:cell {number}:{one.range.start.line + 1}:"
        f"{one.range.start.character + 1 - (number == 3)}: {one.code} "
        for number, cell in enumerate(found, 1)
        for one in cell
    ]
    assert codes(found) == [[], [], ["DTYPE-001"], ["GRAPH-BREAK-001"]]
    assert len(lines) == len(places)
    assert all(line.startswith(place) for line, place in zip(lines, places, strict=True))


def test_steps_of_a_finding_are_in_their_cells(editor: Editor) -> None:
    opened = OpenNotebook(editor, "steps.ipynb", *CELLS)
    (found,) = [one for one in opened.shown(3)[0] if one.code == "GRAPH-BREAK-001"]
    assert found.range == at(3, 19, 30)
    assert found.code_description is not None
    reported = found.related_information
    assert reported is not None
    assert {one.location.uri for one in reported} == {opened.cells[3]}
    assert "`loss` is assigned `mx.sum(x * i)`" in [one.message for one in reported]
    (half,) = OpenNotebook(editor, "half.ipynb", "import mlx.core as mx", *CELLS[2:]).shown(1)[0]
    assert half.code == "DTYPE-001"


def test_a_step_in_another_cell_has_the_place_of_that_cell(editor: Editor) -> None:
    define = "import mlx.core as mx\n\n\ndef f(x: mx.array):\n    y = mx.sum(x)\n    return y\n"
    use = "x = f(mx.ones((3,)))\nfor _ in range(9):\n    print(x.item(), f(x).item())\n"
    opened = OpenNotebook(editor, "flow.ipynb", define, use)
    (found,) = opened.shown(1)
    uris = {step.location.uri for one in found for step in one.related_information or ()}
    assert uris == {opened.cells[1]} or uris == set(opened.cells)
    for one in found:
        for step in one.related_information or ():
            lines = opened.texts[step.location.uri].splitlines()
            assert step.location.range.end.character <= len(lines[step.location.range.end.line])


def test_findings_follow_cells_that_are_typed_moved_and_closed(editor: Editor) -> None:
    opened = OpenNotebook(editor, "typed.ipynb", "import mlx.core as mx", *CELLS[2:])
    assert codes(opened.shown(0, 1, 2)) == [[], ["DTYPE-001"], ["GRAPH-BREAK-001"]]
    # The columns of the place count UTF-16.
    opened.type(1, at(1, 14, 27), "0.5")
    assert codes(opened.shown(0, 1, 2)) == [[], [], ["GRAPH-BREAK-001"]]
    opened.splice(1, 0, "\n", "x = [1]\n")
    assert codes(opened.shown(0, 1, 2, 3, 4)) == [[], [], [], [], ["GRAPH-BREAK-001"]]
    gone = opened.cells[4]
    opened.splice(4, 1)
    assert editor.next_of(gone).diagnostics == ()
    assert codes(opened.shown(0, 3)) == [[], []]
    opened.splice(4, 0, PULL)
    assert codes(opened.shown(4)) == [["GRAPH-BREAK-001"]]
    # The import comes last now: nothing is known of what the loop calls.
    opened.swap()
    assert codes(opened.shown(0, 3)) == [[], []]
    opened.splice(4, 1)
    assert codes(opened.shown(3)) == [[]]
    cells = list(opened.cells)
    opened.close()
    taken = [editor.next_of(*cells) for _ in cells]
    assert {params.uri for params in taken} == set(cells)
    assert {params.diagnostics for params in taken} == {()}


def edits(action: types.CodeAction) -> dict[str, types.CodeAction]:
    """A code action for each cell that it changes."""
    assert action.edit is not None
    assert action.edit.document_changes is not None
    found = {}
    for change in action.edit.document_changes:
        assert isinstance(change, types.TextDocumentEdit)
        edit = types.WorkspaceEdit(document_changes=[change])
        found[change.text_document.uri] = types.CodeAction(action.title, edit=edit)
    return found


IDLE = "y = 1  # embercoach: ignore[HOST-PULL-001]\n"


def test_quick_fixes_are_in_the_cell(editor: Editor) -> None:
    opened = OpenNotebook(editor, "fix.ipynb", "import mlx.core as mx", HALF, IDLE, IDLE)
    opened.shown(0, 1, 2, 3)
    uri = opened.cells[1]
    fix, suppression = (
        one for one in editor.actions_at(uri, at(1, 14, 14)) if one.kind == "quickfix"
    )
    (changed,) = edits(fix).items()
    assert changed[0] == uri
    assert applied(HALF, changed[1]) == HALF.replace("0.5)", "0.5, dtype=x.dtype)")
    (changed,) = edits(suppression).items()
    text = applied(HALF, changed[1])
    assert text == HALF.replace("0.5)", "0.5)  # embercoach: ignore[DTYPE-001]")
    assert editor.actions_at(opened.cells[0], EVERYWHERE, ["quickfix"]) == []


def test_fix_all_fixes_all_cells(editor: Editor) -> None:
    opened = OpenNotebook(editor, "all.ipynb", "import mlx.core as mx", IDLE, f"%time\n{IDLE}")
    opened.shown(0, 1, 2)
    (action,) = editor.actions_at(opened.cells[1], EVERYWHERE, ["source.fixAll"])
    assert action.edit is None
    changed = edits(editor.resolve(action))
    fixed = {uri: applied(opened.texts[uri], one) for uri, one in changed.items()}
    assert fixed == {opened.cells[1]: "y = 1\n", opened.cells[2]: "%time\ny = 1\n"}


def test_hover_explains_a_finding_of_a_cell(editor: Editor) -> None:
    opened = OpenNotebook(editor, "hover.ipynb", *CELLS)
    opened.shown(3)
    assert "# " in (editor.hover_at(opened.cells[3], types.Position(3, 21)) or "")
    assert editor.hover_at(opened.cells[3], types.Position(0, 1)) is None
    assert editor.hover_at(opened.cells[0], types.Position(0, 1)) is None


def test_a_syntax_error_is_in_its_cell(editor: Editor) -> None:
    opened = OpenNotebook(editor, "broken.ipynb", "import mlx", "x = 1", "\n\ndef f(:\n")
    first, second, third = opened.shown(0, 1, 2)
    assert (first, second) == ([], [])
    (error,) = third
    assert (error.code, error.range.start.line) == ("syntax-error", 2)


def test_what_is_wrong_with_the_notebook_is_in_its_first_cell(editor: Editor) -> None:
    opened = OpenNotebook(editor, "null.ipynb", "import mlx", "x = '\0'")
    first, second = opened.shown(0, 1)
    (error,) = first
    assert "null byte" in error.message
    assert second == []


def test_the_configuration_is_that_of_the_file(editor: Editor) -> None:
    folder = editor.folder / "set"
    folder.mkdir()
    file = folder / "embercoach.toml"
    file.write_text('[per-file-ignores]\n"a.ipynb" = ["GRAPH-BREAK"]\n')
    opened = OpenNotebook(editor, "set/a.ipynb", *CELLS)
    assert codes(opened.shown(2, 3)) == [["DTYPE-001"], []]
    file.write_text('ignore = ["DTYPE"]\n')
    opened.save()
    assert codes(opened.shown(2, 3)) == [[], ["GRAPH-BREAK-001"]]


def message(name: str, **changes: Any) -> dict[str, Any]:
    document = {"uri": f"file:///{name}", "version": 2}
    return {"notebookDocument": document, "change": {"cells": changes}}


NEW = {"kind": 2, "document": "cell:9"}


IMPOSSIBLE = [
    (message("none.ipynb"), "notebook is not open"),
    (message("a.ipynb", structure={"array": {"start": 2, "deleteCount": 1}}), "not in"),
    (
        message("a.ipynb", structure={"array": {"start": 0, "deleteCount": 0, "cells": [NEW]}}),
        "no text",
    ),
    (
        message(
            "a.ipynb",
            structure={
                "array": {"start": 0, "deleteCount": 0, "cells": [NEW | {"document": "cell:0"}]}
            },
        ),
        "twice",
    ),
    (
        message(
            "a.ipynb",
            structure={"array": {"start": 0, "deleteCount": 0}, "didClose": [{"uri": "cell:0"}]},
        ),
        "no text",
    ),
    (
        message(
            "a.ipynb", textContent=[{"document": {"uri": "cell:7", "version": 2}, "changes": []}]
        ),
        "no text",
    ),
    (
        message(
            "a.ipynb",
            textContent=[
                {
                    "document": {"uri": "cell:0", "version": 2},
                    "changes": [
                        {
                            "range": {
                                "start": {"line": 0, "character": 3},
                                "end": {"line": 0, "character": 1},
                            },
                            "text": "",
                        }
                    ],
                }
            ],
        ),
        "ends before",
    ),
]


def test_changes_that_are_impossible_are_ignored(tmp_path: Path) -> None:
    client = RawClient(tmp_path)
    cell = {"kind": 2, "document": "cell:0"}
    item = {"uri": "cell:0", "languageId": "python", "version": 1, "text": PULL}
    opened = {
        "uri": "file:///a.ipynb", "notebookType": "jupyter-notebook", "version": 1, "cells": [cell]
    }  # fmt: skip
    params_of_open = {"notebookDocument": opened, "cellTextDocuments": [item]}
    client.tell("notebookDocument/didOpen", params_of_open)
    for params, _ in IMPOSSIBLE:
        client.tell("notebookDocument/didChange", params)
    # The notebook is as it was: without an import it has no finding.
    assert client.published("cell:0") == []
    client.hover("cell:0", {"line": 0, "character": 0})
    assert len(client.logged) == len(IMPOSSIBLE)
    for said, (_, reason) in zip(client.logged, IMPOSSIBLE, strict=True):
        assert said.startswith("EmberCoach: ignored notebookDocument/didChange: ")
        assert reason in said
    exit_code, error = client.stop()
    assert (exit_code, "Traceback" in error) == (0, False)
