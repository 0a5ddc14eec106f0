"""Commands of the language server, as the extension of an editor calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pygls.exceptions import JsonRpcInvalidParams

from embercoach.server.requests import KERNEL_SIGNATURE
from tests.server.editor import Editor
from tests.server.test_server import KERNEL

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    editor = Editor(tmp_path_factory.mktemp("project"))
    yield editor
    assert editor.stop() == 0


def at(line: int) -> dict[str, int]:
    return {"line": line, "character": 4}


def test_the_server_announces_its_commands(editor: Editor) -> None:
    provider = editor.server.execute_command_provider
    assert provider is not None
    assert list(provider.commands) == [KERNEL_SIGNATURE]


def test_the_signature_of_a_kernel_in_a_text_that_is_not_saved(editor: Editor) -> None:
    editor.open("kernel.py", KERNEL.replace("scale", "twice"))
    found = editor.command(KERNEL_SIGNATURE, editor.uri("kernel.py"), at(7))
    assert "void custom_kernel_twice_" in found
    assert "device float16_t* y [[buffer(" in found
    assert editor.command(KERNEL_SIGNATURE, editor.uri("kernel.py"), at(0)) is None


@pytest.mark.parametrize(
    "arguments",
    [
        ["file:///not/open.py", {"line": 0, "character": 0}],
        ["kernel.py", {"line": "0", "character": 0}],
        [3, {"line": 0, "character": 0}],
        ["file:///not/open.py", None],
    ],
)
def test_malformed_arguments_are_an_error(editor: Editor, arguments: list[Any]) -> None:
    with pytest.raises(JsonRpcInvalidParams):
        editor.command(KERNEL_SIGNATURE, *arguments)
