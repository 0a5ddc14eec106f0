"""Diagnostics that an editor asks for: of a document, and of the files of a workspace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from embercoach.cli.entry import start
from embercoach.server.workspace_reports import LOOK_AGAIN
from tests.notebooks.written import notebook, written
from tests.server.editor import Editor
from tests.server.open_notebook import OpenNotebook
from tests.server.test_server import PULL
from tests.server.test_service import Session

CODE = "HOST-PULL-001"
FINE = PULL.replace("x.tolist()", "x")
#: Seconds in which an answer would come, if there were one.
SILENCE = 0.6


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    editor = Editor(tmp_path_factory.mktemp("empty"), pulls=True)
    yield editor
    # An answer that waits does not keep it.
    editor.start(editor.client.workspace_diagnostic_async(asked({})))
    assert editor.stop() == 0


@pytest.fixture
def editor(started: Editor, tmp_path: Path) -> Iterator[Editor]:
    """One editor for all tests, which opens a folder for each."""
    folder = types.WorkspaceFolder(tmp_path.as_uri(), "project")
    change = started.client.workspace_did_change_workspace_folders
    change(types.DidChangeWorkspaceFoldersParams(types.WorkspaceFoldersChangeEvent([folder], [])))
    started.folder = tmp_path
    started.refreshes = 0
    yield started
    change(types.DidChangeWorkspaceFoldersParams(types.WorkspaceFoldersChangeEvent([], [folder])))


def write(editor: Editor, **files: str) -> None:
    for name, text in files.items():
        editor.folder.joinpath(f"{name}.py").write_text(text, encoding="utf-8")


def document(editor: Editor, uri: str, previous: str | None = None) -> Any:
    identifier = types.TextDocumentIdentifier(uri)
    params = types.DocumentDiagnosticParams(identifier, previous_result_id=previous)
    return editor.wait(editor.client.text_document_diagnostic_async(params))


Known = dict[str, str]


def asked(previous: Known, **tokens: str) -> types.WorkspaceDiagnosticParams:
    ids = [types.PreviousResultId(uri, value) for uri, value in previous.items()]
    return types.WorkspaceDiagnosticParams(ids, **tokens)


def workspace(editor: Editor, previous: Known, **tokens: str) -> dict[str, Any]:
    """The reports of a workspace by the names of files."""
    params = asked(previous, **tokens)
    answer = editor.wait(editor.client.workspace_diagnostic_async(params))
    return by_name(answer.items)


def by_name(items: Any) -> dict[str, Any]:
    return {item.uri.rpartition("/")[2]: item for item in items}


def known(reports: dict[str, Any]) -> Known:
    return {one.uri: one.result_id for one in reports.values() if one.result_id}


def codes(report: Any) -> list[object]:
    return [one.code for one in report.items]


def changed(editor: Editor, name: str) -> None:
    editor.configuration_changed(name)


def test_a_document_is_reported_once(editor: Editor) -> None:
    options = editor.server.diagnostic_provider
    assert isinstance(options, types.DiagnosticOptions)
    assert options.workspace_diagnostics
    assert options.inter_file_dependencies
    editor.begin("a.py", PULL)
    uri = editor.uri("a.py")
    first = document(editor, uri)
    assert (first.kind, codes(first)) == ("full", [CODE])
    again = document(editor, uri, first.result_id)
    assert (again.kind, again.result_id) == ("unchanged", first.result_id)
    editor.type("a.py", FINE)
    fine = document(editor, uri, first.result_id)
    assert (fine.kind, codes(fine)) == ("full", [])
    # Nothing was published, before or after.
    editor.pause(SILENCE)
    assert editor.is_silent


@pytest.mark.parametrize(
    ("options", "pulls", "workspace", "mistakes"),
    [
        (None, True, True, ()),
        ({"pullDiagnostics": False}, False, False, ()),
        ({"workspaceDiagnostics": False, "other": 1}, True, False, ()),
        (
            {"workspaceDiagnostics": "no"},
            True,
            True,
            ("initializationOptions.workspaceDiagnostics must be true or false, got str",),
        ),
        ([1], True, True, ()),
    ],
)
def test_the_user_may_turn_pulls_off(
    options: Any, pulls: bool, workspace: bool, mistakes: tuple[str, ...]
) -> None:
    session = Session({"textDocument": {"diagnostic": {}}}, options)
    (answer,) = [one["result"] for one in session.messages if one.get("id") == 0]
    provider = answer["capabilities"].get("diagnosticProvider")
    assert (provider is not None) == pulls
    assert bool(provider and provider["workspaceDiagnostics"]) == workspace
    assert session.service.editor.pulls == pulls
    logged = [one["params"]["message"] for one in session.messages if "params" in one]
    assert logged == [f"EmberCoach: {one}" for one in mistakes]


def test_pulls_that_are_off_are_published(tmp_path: Path) -> None:
    editor = Editor(tmp_path, pulls=True, options={"pullDiagnostics": False})
    assert [one.code for one in editor.open("a.py", PULL)] == [CODE]
    assert editor.stop() == 0


def test_cells_are_published_and_reported_empty(editor: Editor) -> None:
    """Some editors ask for cells, some do not: none shows a finding twice."""
    opened = OpenNotebook(editor, "a.ipynb", PULL)
    assert [[one.code for one in cell] for cell in opened.shown(0)] == [[CODE]]
    assert codes(document(editor, opened.cells[0])) == []
    assert codes(workspace(editor, {}).get("a.ipynb", document(editor, opened.cells[0]))) == []


def test_a_notebook_that_opens_has_its_findings_in_cells_alone(editor: Editor) -> None:
    (editor.folder / "n.ipynb").write_text(written(notebook(PULL)))
    reports = workspace(editor, {})
    assert codes(reports["n.ipynb"]) == [CODE]
    params = asked(known(reports))
    waiting = editor.start(editor.client.workspace_diagnostic_async(params))
    editor.pause(0.5)
    opened = OpenNotebook(editor, "n.ipynb", PULL)
    assert [[one.code for one in cell] for cell in opened.shown(0)] == [[CODE]]
    answer = editor.wait(asyncio.wait_for(waiting, LOOK_AGAIN / 2))
    assert codes(by_name(answer.items)["n.ipynb"]) == []
    opened.close()
    assert codes(workspace(editor, known(by_name(answer.items)))["n.ipynb"]) == [CODE]


def test_a_report_of_what_is_no_file_is_outdated(editor: Editor) -> None:
    """So asks the command of an editor, which an empty workspace must not keep waiting."""
    write(editor, a=FINE)
    workspace(editor, {})
    (editor.folder / "a.py").unlink()
    params = asked({editor.folder.as_uri(): ""})
    waiting = editor.start(editor.client.workspace_diagnostic_async(params))
    answer = editor.wait(asyncio.wait_for(waiting, LOOK_AGAIN / 2))
    assert [codes(one) for one in answer.items] == [[]]


def test_the_editor_is_asked_to_ask_again(editor: Editor) -> None:
    editor.begin("a.py", PULL)
    first = document(editor, editor.uri("a.py"))
    (editor.folder / "embercoach.toml").write_text('ignore = ["HOST-PULL"]\n')
    changed(editor, "embercoach.toml")
    assert codes(document(editor, editor.uri("a.py"), first.result_id)) == []
    assert editor.refreshes == 1


def test_a_workspace_has_the_files_that_check_finds(
    editor: Editor, capfd: pytest.CaptureFixture[str]
) -> None:
    write(editor, a=PULL, fine=FINE, excluded=PULL, broken="import mlx\ndef f(:\n")
    (editor.folder / "build").mkdir()
    (editor.folder / "build" / "c.py").write_text(PULL)
    (editor.folder / ".gitignore").write_text("build\n")
    (editor.folder / ".git").mkdir()
    (editor.folder / "embercoach.toml").write_text('extend-exclude = ["excluded.py"]\n')
    file = written(notebook("import mlx.core as mx", "y = 1  # embercoach: ignore[DTYPE-001]"))
    (editor.folder / "n.ipynb").write_text(file)
    reports = workspace(editor, {})
    assert sorted(reports) == ["a.py", "broken.py", "fine.py", "n.ipynb"]
    assert {name: codes(one) for name, one in reports.items()} == {
        "a.py": [CODE], "broken.py": ["syntax-error"], "fine.py": [], "n.ipynb": ["NOQA-001"],
    }  # fmt: skip
    assert {one.version for one in reports.values()} == {None}
    place = reports["n.ipynb"].items[0].range.start
    assert file.splitlines()[place.line][place.character :].startswith("# embercoach")
    start(["check", "--no-cache", "--output-format", "concise", str(editor.folder)])
    lines = capfd.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith(str(editor.folder))]) == 3


def test_only_what_changed_is_reported_again(editor: Editor) -> None:
    write(
        editor,
        a=PULL,
        b=FINE,
        c=PULL,
        user="import mlx.core as mx\nfrom maker import make\nmake().tolist()\n",
        maker="def make(): return 1\n",
    )
    first = workspace(editor, {})
    write(editor, b=PULL, maker="import mlx.core as mx\ndef make(): return mx.ones((1,))\n")
    (editor.folder / "c.py").unlink()
    changed(editor, "b.py")
    second = workspace(editor, known(first))
    kinds = {name: one.kind for name, one in second.items()}
    assert kinds["a.py"] == "unchanged"
    assert (kinds["b.py"], codes(second["b.py"])) == ("full", [CODE])
    assert (kinds["c.py"], codes(second["c.py"])) == ("full", [])
    # The file itself is the same; the file that it imports is not.
    assert kinds["user.py"] == "full"
    assert second["a.py"].result_id == first["a.py"].result_id


def test_a_configuration_that_changes_is_a_change(editor: Editor) -> None:
    write(editor, a=PULL, b=PULL)
    first = workspace(editor, {})
    (editor.folder / "embercoach.toml").write_text('[per-file-ignores]\n"a.py" = ["HOST-PULL"]\n')
    changed(editor, "embercoach.toml")
    second = workspace(editor, known(first))
    assert {name: one.kind for name, one in second.items()} == {"a.py": "full", "b.py": "unchanged"}
    assert codes(second["a.py"]) == []


def test_an_answer_without_news_waits_for_a_change(editor: Editor) -> None:
    write(editor, a=PULL)
    first = workspace(editor, {})
    waiting = editor.start(editor.client.workspace_diagnostic_async(asked(known(first))))
    editor.pause(SILENCE)
    assert not waiting.done()
    # A change of no consequence is none.
    changed(editor, "a.py")
    editor.pause(SILENCE)
    assert not waiting.done()
    # Others are answered.
    editor.begin("b.py", PULL)
    assert codes(document(editor, editor.uri("b.py"))) == [CODE]
    write(editor, a=FINE)
    changed(editor, "a.py")
    assert codes(by_name(editor.wait(waiting).items)["a.py"]) == []


def test_an_answer_that_waits_is_cancelled(editor: Editor) -> None:
    write(editor, a=PULL)
    first = workspace(editor, {})
    waiting = editor.start(editor.client.workspace_diagnostic_async(asked(known(first))))
    editor.pause(SILENCE)
    (identifier,) = editor.client.protocol._request_futures
    editor.client.cancel_request(types.CancelParams(identifier))
    with pytest.raises(Exception, match="cancel"):
        editor.wait(waiting)
    assert codes(workspace(editor, {})["a.py"]) == [CODE]


def test_an_open_document_is_reported_as_it_is_typed(editor: Editor) -> None:
    write(editor, a=FINE, b=FINE)
    editor.begin("a.py", FINE)
    editor.type("a.py", PULL)
    reports = workspace(editor, {})
    assert (codes(reports["a.py"]), reports["a.py"].version) == ([CODE], 2)
    assert (codes(reports["b.py"]), reports["b.py"].version) == ([], None)


def test_results_come_in_parts_with_progress(editor: Editor) -> None:
    write(editor, **{f"a{number:02}": PULL for number in range(40)})
    reports = workspace(editor, {}, partial_result_token="part", work_done_token="work")
    assert reports == {}
    parts = [value for token, value in editor.progress if token == "part"]
    names = [item["uri"].rpartition("/")[2] for part in parts for item in part["items"]]
    assert len(parts) == 3
    assert names == [f"a{number:02}.py" for number in range(40)]
    work = [value for token, value in editor.progress if token == "work"]
    assert [one["kind"] for one in work] == ["begin", "report", "report", "end"]
    assert work[1]["percentage"] == 40


def test_a_file_that_cannot_be_read_is_reported(editor: Editor) -> None:
    write(editor, a=PULL)
    (editor.folder / "b.py").write_bytes(b"import mlx\n\xff\n")
    reports = workspace(editor, {})
    (error,) = reports["b.py"].items
    assert "byte 0xff" in error.message
    assert error.range.start.line == 1


def test_files_above_the_limit_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from embercoach.server import jobs
    from embercoach.server.analysis import Analysis

    monkeypatch.setattr(jobs, "MOST_FILES", 2)
    for name in "cab":
        (tmp_path / f"{name}.py").write_text(FINE)
    listing = jobs.ListFiles((tmp_path,))(Analysis("utf-16", (tmp_path,)))
    assert [file.path.name for file in listing.files] == ["a.py", "b.py"]
    assert listing.omitted == 1
