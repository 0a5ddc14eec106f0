"""Shapes in an editor: inlay hints where they are turned on, and hovers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lsprotocol import types

from embercoach.server.analysis import Analysis
from embercoach.server.jobs import CheckJob, CheckOutcome, ShapesJob
from embercoach.server.pool import ExpiredError
from embercoach.server.wire import Document
from tests.server.editor import Editor
from tests.server.test_service import CANCELLED, HOVER, MODIFIED, URI, Session

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = """\
import mlx.core as mx


def attend(x: mx.array, n: mx.array) -> mx.array:
    B, S, D = x.shape
    q = mx.zeros((B, S, 64), mx.bfloat16)
    \U00020000, y = mx.exp(q), mx.unknown(q)
    if n.item():
        q = foo(q)
    return q + \U00020000
"""
ON = {"shapes": {"inlayHints": True}}
WHOLE = types.Range(types.Position(0, 0), types.Position(1000, 0))


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    editor = Editor(tmp_path_factory.mktemp("project"), options=ON)
    yield editor
    assert editor.stop() == 0


def hints(editor: Editor, name: str, place: types.Range = WHOLE) -> list[tuple[int, int, object]]:
    params = types.InlayHintParams(types.TextDocumentIdentifier(editor.uri(name)), place)
    found = editor.wait(editor.client.text_document_inlay_hint_async(params)) or []
    assert all(one.kind == types.InlayHintKind.Type for one in found)
    return [(one.position.line, one.position.character, one.label) for one in found]


def test_hints_show_the_shapes_of_a_range_in_unsaved_text(editor: Editor) -> None:
    assert editor.server.inlay_hint_provider
    editor.open("hints.py", PROGRAM)
    expected = [(5, 5, ": bf16[B, S, 64]"), (6, 6, ": bf16[B, S, 64]")]
    assert hints(editor, "hints.py") == expected
    line = types.Range(types.Position(6, 0), types.Position(6, 40))
    assert hints(editor, "hints.py", line) == expected[1:]
    editor.change("hints.py", PROGRAM.replace("64", "32"))
    assert [label for *_, label in hints(editor, "hints.py")] == [": bf16[B, S, 32]"] * 2
    editor.change("hints.py", f"{PROGRAM}x = (\n")
    assert hints(editor, "hints.py") == []


def test_a_hover_shows_the_last_assignment_in_the_function(editor: Editor) -> None:
    editor.open("hover.py", PROGRAM)
    shape = "```python\n{}: bf16[B, S, 64]\n```\n\n{}"
    assert editor.hover("hover.py", 5, 4) == shape.format("q", "made at line 6")
    assert editor.hover("hover.py", 6, 4) == shape.format("\U00020000", "made at line 7")
    read = shape.format("q", "assigned at line 6, made at line 6")
    assert editor.hover("hover.py", 6, 19) == read
    assert editor.hover("hover.py", 8, 16) == read
    # The last assignment before it is of no array that is known.
    assert "bf16" not in (editor.hover("hover.py", 9, 11) or "")
    assert editor.hover("hover.py", 4, 14) is None


def test_a_hover_has_the_page_of_a_finding_too(editor: Editor) -> None:
    text = "import mlx.core as mx\n\nx = mx.zeros(3)\nfor _ in range(3):\n    print(x.tolist())\n"
    editor.open("both.py", text)
    shown = editor.hover("both.py", 4, 10)
    assert shown is not None
    assert shown.startswith(
        "```python\nx: f32[3]\n```\n\nassigned at line 3, made at line 3\n\n---"
    )
    assert "## Why it hurts" in shown


@pytest.mark.parametrize(
    "options", [None, {"shapes": {"inlayHints": "yes"}}, {"shapes": [True]}], ids=str
)
def test_hints_are_off_unless_turned_on(options: Any) -> None:
    session = Session({}, options)
    (answer,) = [one["result"] for one in session.messages if one.get("id") == 0]
    assert "inlayHintProvider" not in answer["capabilities"]
    assert len(session.service.options.mistakes) == (options is not None)


def test_shapes_are_inferred_once_for_a_text_and_not_again_over_the_deadline() -> None:
    def outcome(job: object) -> Any:
        if isinstance(job, ShapesJob):
            raise ExpiredError("no result")
        return CheckOutcome([], None) if isinstance(job, CheckJob) else None

    async def run() -> None:
        session = Session(options=ON)
        session.pool.outcome = outcome
        place = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}
        asked = {"textDocument": {"uri": URI}, "range": place}
        for identifier, method in enumerate(("inlayHint", "hover", "inlayHint"), 1):
            params = HOVER if method == "hover" else asked
            session.request(f"textDocument/{method}", params, identifier)
            await session.settle()
        assert [session.result(number) for number in (1, 2, 3)] == [[], None, []]
        assert sum(isinstance(job, ShapesJob) for job in session.pool.jobs) == 1
        logged = [one for one in session.messages if one.get("method") == "window/logMessage"]
        assert [one["params"]["message"] for one in logged] == [
            "EmberCoach: no shapes of a.py: no result"
        ]

    asyncio.run(run())


def test_a_cancelled_request_leaves_the_inference_and_a_new_text_ends_it() -> None:
    async def run() -> None:
        session = Session(options=ON)
        session.pool.is_slow = ShapesJob
        place = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}
        asked = {"textDocument": {"uri": URI}, "range": place}
        session.request("textDocument/inlayHint", asked, 1)
        await session.settle()
        session.send("$/cancelRequest", {"id": 1})
        session.request("textDocument/inlayHint", asked, 2)
        await session.settle()
        assert session.error(1) == CANCELLED
        assert [type(job) for job in session.pool.jobs] == [CheckJob, ShapesJob]
        session.change(2)
        await session.settle()
        assert session.error(2) == MODIFIED

    asyncio.run(run())


def test_a_page_waits_a_moment_for_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    page = {"contents": {"kind": "markdown", "value": "page"}}

    def outcome(job: object) -> Any:
        return CheckOutcome([], None) if isinstance(job, CheckJob) else page

    async def run() -> None:
        session = Session()
        session.pool.outcome = outcome
        session.pool.is_slow = ShapesJob
        session.request("textDocument/hover", HOVER, 1)
        await session.settle()
        await asyncio.sleep(0.05)
        assert session.result(1) == page

    monkeypatch.setattr("embercoach.server.requests.SHAPE_PATIENCE", 0.01)
    asyncio.run(run())


def test_many_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embercoach.server.analysis.MOST_NAMES", 3)
    document = Document(URI, Path("/folder/a.py"), 1, "import mlx.core as mx\nx = mx.ones(3)\n" * 9)
    assert len(Analysis("utf-16", ()).shaped_names(document)) == 3
