"""The language server with addresses as editors on Windows send them."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types

from tests.server.editor import Editor

TEXT = "import mlx.core as mx\r\n\r\nx = mx.norm(mx.ones((2,)))  # 日本\r\n"


class QuotedColons(Editor):
    """An editor that quotes the colon of a drive, as VS Code does."""

    def uri(self, name: str) -> str:
        scheme, rest = super().uri(name).split(":", 1)
        return f"{scheme}:{rest.replace(':', '%3A')}"


@pytest.mark.parametrize(
    "editor", [pytest.param(Editor, marks=pytest.mark.exhaustive), QuotedColons]
)
def test_findings_and_fixes_have_the_editors_address(tmp_path: Path, editor: type[Editor]) -> None:
    (tmp_path / "a b.py").write_bytes(TEXT.encode())
    one = editor(tmp_path)
    (found,) = one.open("a b.py", TEXT)
    assert (found.code, found.range.start.line) == ("API-001", 2)
    (action, *_) = [a for a in one.actions("a b.py", found.range) if a.kind == "quickfix"]
    assert action.edit is not None
    (change,) = action.edit.document_changes or ()
    assert isinstance(change, types.TextDocumentEdit)
    assert change.text_document.uri == one.uri("a b.py")
    assert one.change("a b.py", TEXT.replace("mx.norm", "mx.linalg.norm")) == []
    assert one.stop() == 0
