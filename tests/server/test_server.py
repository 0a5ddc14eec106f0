"""The language server, as an editor sees it: a real client over standard input and output."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from embercoach import rulebook
from embercoach.cli.entry import start
from embercoach.installation import install_command
from embercoach.rulebook import page_url
from embercoach.server.editor import Positions
from tests.server.editor import Editor, applied

if TYPE_CHECKING:
    from collections.abc import Iterator

PULL = """\
import mlx.core as mx


def rows(x: mx.array) -> list:
    return x.tolist() * x


for x in data:
    rows(x)
"""
#: A fix that is not safe, and two that are.
FIXABLE = """\
import mlx.core as mx


def total(x: mx.array) -> mx.array:
    y = x * mx.array(2.0)  # \U0001f525
    return y  # embercoach: ignore[HOST-PULL-001]


def other(x: mx.array) -> mx.array:
    return x  # embercoach: ignore[HOST-PULL-001]
"""
#: What all safe fixes make of it.
FIXED = FIXABLE.replace("  # embercoach: ignore[HOST-PULL-001]", "")
KERNEL = '''\
import mlx.core as mx

_SCALE = mx.fast.metal_kernel(
    name="scale",
    input_names=["x"],
    output_names=["y"],
    source="""
        uint i = thread_position_in_grid.x;
        y[i] = x[i] * 2;
    """,
)


def scale(x: mx.array) -> mx.array:
    return _SCALE(
        inputs=[x],
        grid=(x.size, 1, 1),
        threadgroup=(256, 1, 1),
        output_shapes=[x.shape],
        output_dtypes=[mx.float16],
    )[0]
'''
EVERYWHERE = types.Range(types.Position(0, 0), types.Position(1000, 0))


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """One editor for all tests; each has files of its own names."""
    editor = Editor(tmp_path_factory.mktemp("project"))
    yield editor
    assert editor.stop() == 0


def codes(found: list[types.Diagnostic]) -> list[object]:
    return [one.code for one in found]


def spot(place: types.Range) -> tuple[int, int, int, int]:
    return (place.start.line, place.start.character, place.end.line, place.end.character)


def titles(actions: list[types.CodeAction]) -> list[str]:
    return [action.title for action in actions]


def test_a_text_that_is_opened_is_checked(editor: Editor) -> None:
    (found,) = editor.open("open.py", PULL)
    assert found.code == "HOST-PULL-001"
    assert found.source == "embercoach"
    assert found.severity == types.DiagnosticSeverity.Warning
    assert spot(found.range) == (4, 11, 4, 21)
    assert "synchronizes" in found.message
    assert found.code_description is not None
    assert found.code_description.href == page_url("HOST-PULL-001")
    assert found.data["rule"] == "HOST-PULL-001"


def test_a_finding_comes_with_where_its_array_came_from(editor: Editor) -> None:
    text = (
        "import mlx.core as mx\n\n\ndef f(xs: list[mx.array], n=0.0):\n    for x in xs:\n"
        "        y = mx.sum(x)\n        n += y.item()\n"
    )
    (found,) = [one for one in editor.open("flow.py", text) if one.code == "GRAPH-BREAK-001"]
    reported = found.related_information
    assert reported is not None
    assert [(spot(one.location.range), one.message) for one in reported] == [
        ((3, 6, 3, 8), "parameter `xs` of `f`, annotated `list[mx.array]`"),
        ((4, 13, 4, 15), "`x` iterates over `xs`"),
        ((5, 8, 5, 21), "`y` is assigned `mx.sum(x)`"),
        ((4, 13, 4, 15), "loop over `xs`"),
    ]
    assert {one.location.uri for one in reported} == {(editor.folder / "flow.py").as_uri()}


def test_findings_follow_what_is_typed_and_go_when_it_is_closed(editor: Editor) -> None:
    (editor.folder / "typed.py").write_text(PULL)
    assert codes(editor.open("typed.py", PULL)) == ["HOST-PULL-001"]
    # The file still says otherwise: the buffer counts.
    assert editor.change("typed.py", PULL.replace("x.tolist()", "x")) == []
    assert codes(editor.change("typed.py", PULL)) == ["HOST-PULL-001"]
    assert editor.close("typed.py") == []


def test_only_the_latest_of_many_versions_is_told(editor: Editor) -> None:
    editor.open("fast.py", PULL)
    for number in range(40):
        last = editor.type("fast.py", "\n" * (number + 1) + PULL)
    versions = []
    while not versions or versions[-1] != last:
        params = editor.next("fast.py")
        assert params.version is not None
        versions.append(params.version)
    assert params.diagnostics[0].range.start.line == 4 + 40
    assert versions == sorted(versions)
    assert len(versions) < 40


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("unit.metal", "kernel void f(device float* x [[buffer(0)]]) { x[0] = 1.0; }\n", None),
        ("notes.txt.py", "print('no such word')\n", None),
        ("skipped.py", "# embercoach: skip-file\n" + PULL, None),
        ("muted.py", PULL.replace("* x\n", "* x  # embercoach: ignore[HOST-PULL-001]\n"), None),
        (
            "idle.py",
            PULL.replace("x.tolist() * x", "x  # embercoach: ignore[HOST-PULL-001]"),
            "NOQA-001",
        ),
    ],
)
def test_it_says_what_check_says(
    editor: Editor, name: str, text: str, code: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    found = editor.open(name, text, "metal" if name.endswith(".metal") else "python")
    file = editor.folder / name
    file.write_text(text)
    start(["check", "--no-cache", "--show-notes", "--output-format", "concise", str(file)])
    lines = [line for line in capfd.readouterr().out.splitlines() if line.startswith(str(file))]
    assert len(lines) == len(found)
    assert all(str(one.code) in line for one, line in zip(found, lines, strict=True))
    if code is not None:
        assert codes(found) == [code]
        assert found[0].tags
        assert [*found[0].tags] == [types.DiagnosticTag.Unnecessary]


def test_metal_files_are_checked(editor: Editor) -> None:
    text = """\
kernel void f(device float* y [[buffer(0)]], uint i [[thread_position_in_threadgroup]]) {
    threadgroup float shared[64];
    shared[i] = 1.0f;
    y[i] = shared[63 - i];
}
"""
    assert "KERNEL-RACE-001" in codes(editor.open("race.metal", text, "metal"))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("import mlx\n\n\ndef f(:\n    pass\n", (3, 6, 3, 7)),
        ("import mlx\nx = (1,\n", (1, 4, 1, 7)),
        ("import mlx\nx = '\0'\n", (1, 5, 1, 7)),
        ("import mlx\nx = " + "(" * 400 + "\n", None),
    ],
)
def test_a_syntax_error_is_a_diagnostic(
    editor: Editor, text: str, place: tuple[int, int, int, int] | None
) -> None:
    (one,) = editor.open("broken.py", text)
    assert one.severity == types.DiagnosticSeverity.Error
    if place is not None:
        assert spot(one.range) == place
    assert codes(editor.change("broken.py", PULL)) == ["HOST-PULL-001"]
    editor.close("broken.py")


def test_columns_count_utf_16(editor: Editor) -> None:
    line = "    return '\U0001f525é', x.tolist()"
    text = PULL.replace("    return x.tolist() * x", line)
    (found,) = editor.open("fire.py", text)
    start = len(line[: line.index("x.")].encode("utf-16-le")) // 2
    assert spot(found.range) == (4, start, 4, start + 10)
    assert "tolist-call" in (editor.hover("fire.py", 4, start + 9) or "")
    assert "tolist-call" not in (editor.hover("fire.py", 4, start - 1) or "")
    (action,) = editor.actions("fire.py", found.range)
    assert applied(text, action) == text.replace(
        line, f"{line}  # embercoach: ignore[HOST-PULL-001]"
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
@given(
    text=st.text("a\u00e9\u4e2d\U0001f525\ud83d\n\r\f\u2028", max_size=12),
    offset=st.integers(0, 12),
)
def test_places_survive_every_encoding(encoding: str, text: str, offset: int) -> None:
    positions = Positions(text, encoding)
    line, column = positions.index.place(offset)
    column = min(column, len(positions.index.line(line)) + 1)
    position = positions.at(line, column)
    assert positions.place(position) == (line, column)
    before = positions.index.line(line)[: column - 1]
    codec, size = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}[
        encoding
    ]
    assert position["character"] == len(before.encode(codec, "surrogatepass")) / size


def test_hover_tells_of_the_rule(editor: Editor) -> None:
    editor.open("hover.py", PULL)
    assert editor.hover("hover.py", 4, 15) == rulebook.rule("HOST-PULL-001").page.rstrip()
    assert editor.hover("hover.py", 0, 3) is None


@pytest.mark.parametrize("line", [2, 8, 14])
def test_hover_tells_of_the_kernel(editor: Editor, line: int) -> None:
    editor.open("kernel.py", KERNEL)
    text = editor.hover("kernel.py", line, 5)
    assert text is not None
    assert "The kernel `scale`, launched in line 15, as MLX writes it:" in text
    assert "```metal\n[[kernel]] void custom_kernel_scale" in text
    editor.close("kernel.py")


def actions_of(editor: Editor, name: str, text: str) -> list[types.CodeAction]:
    editor.open(name, text)
    return editor.actions(name, EVERYWHERE)


def test_quick_fixes(editor: Editor) -> None:
    unsafe, safe, *others = actions_of(editor, "fixable.py", FIXABLE)
    assert unsafe.title == "DTYPE-004: Use the Python number (unsafe)"
    assert unsafe.kind == safe.kind == types.CodeActionKind.QuickFix
    assert unsafe.is_preferred is None
    assert applied(FIXABLE, unsafe) == FIXABLE.replace("mx.array(2.0)", "2.0")
    assert safe.is_preferred is True
    assert safe.diagnostics is not None
    assert safe.diagnostics[0].code == "NOQA-001"
    assert applied(FIXABLE, safe) == FIXABLE.replace("  # embercoach: ignore[HOST-PULL-001]", "", 1)
    assert titles(others) == [
        safe.title,
        "DTYPE-004: add a suppression comment",
        "EmberCoach: apply all safe fixes",
    ]
    assert applied(FIXABLE, others[1]) == FIXABLE.replace(
        "\U0001f525", "\U0001f525  # embercoach: ignore[DTYPE-004]"
    )


def test_quick_fixes_are_those_of_the_place_and_of_the_kind_asked_for(editor: Editor) -> None:
    editor.open("asked.py", FIXABLE)
    place = types.Range(types.Position(4, 14), types.Position(4, 14))
    kinds = [one.kind for one in editor.actions("asked.py", place, ["quickfix"])]
    assert kinds == [types.CodeActionKind.QuickFix] * 2
    (whole,) = editor.actions("asked.py", place, ["source.fixAll"])
    assert whole.kind == "source.fixAll.embercoach"
    assert editor.actions("asked.py", place, ["refactor"]) == []


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_fix_all_is_resolved_for_the_latest_text(editor: Editor, newline: str) -> None:
    name = f"all{len(newline)}.py"
    text = FIXABLE.replace("\n", newline)
    action = actions_of(editor, name, text)[-1]
    assert action.edit is None
    editor.type(name, f"{newline}{text}")
    fixed = editor.resolve(action)
    assert applied(f"{newline}{text}", fixed) == newline + FIXED.replace("\n", newline)


def test_the_configuration_counts_and_is_read_again(editor: Editor) -> None:
    folder = editor.folder / "configured"
    folder.mkdir()
    file = folder / "embercoach.toml"
    name = "configured/model.py"

    def configured(text: str) -> list[types.Diagnostic]:
        file.write_text(text)
        editor.configuration_changed("configured/embercoach.toml")
        return editor.published(name)

    assert editor.open(name, PULL)[0].severity == types.DiagnosticSeverity.Warning
    assert configured('profile = "ember"\n')[0].severity == types.DiagnosticSeverity.Error
    assert configured('ignore = ["HOST-PULL"]\n') == []
    assert configured('[per-file-ignores]\n"model.py" = ["HOST-PULL-001"]\n') == []
    assert len(configured('[per-file-ignores]\n"other.py" = ["HOST-PULL-001"]\n')) == 1
    assert configured('extend-exclude = ["model.py"]\n') == []
    # Saved, with no word from the editor of the file: seen at the next keystroke.
    file.write_text('profile = "ember"\nextend-exclude = []\n')
    assert editor.change(name, PULL)[0].severity == types.DiagnosticSeverity.Error
    assert "workspace/didChangeWatchedFiles" in editor.registered


def test_what_the_baseline_knows_is_passed_over(
    editor: Editor, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = editor.folder / "guarded"
    folder.mkdir()
    (folder / "embercoach.toml").write_text('baseline = "known.json"\n')
    (folder / "model.py").write_text(PULL)
    monkeypatch.chdir(folder)
    (missing, found) = editor.open("guarded/model.py", PULL)
    assert "known.json" in missing.message
    assert found.code == "HOST-PULL-001"
    assert start(["baseline", "update", "."]) == 0, capfd.readouterr().err
    assert editor.change("guarded/model.py", f"# moved\n{PULL}") == []
    (new,) = editor.change(
        "guarded/model.py",
        f"{PULL}\n\ndef more(y: mx.array):\n    y.item()\nwhile y:\n    more(y)\n",
    )
    assert new.code == "GRAPH-BREAK-001"


def test_a_mistake_in_the_configuration_is_told_and_the_last_good_one_stays(editor: Editor) -> None:
    (editor.folder / "mistaken").mkdir()
    file = editor.folder / "mistaken" / "embercoach.toml"
    file.write_text('profile = "ember"\n')
    editor.open("mistaken/model.py", PULL)
    file.write_text('\nprofile = "embers"\n')
    editor.save("mistaken/model.py")
    (kept,) = editor.published("mistaken/model.py")
    assert kept.severity == types.DiagnosticSeverity.Error
    (mistake,) = editor.next("mistaken/embercoach.toml").diagnostics
    assert mistake.range.start.line == 1
    assert "embers" in mistake.message
    assert any("embers" in message for message in editor.messages)
    file.write_text('profile = "recommended"\n')
    editor.save("mistaken/model.py")
    (found,) = editor.published("mistaken/model.py")
    assert found.severity == types.DiagnosticSeverity.Warning
    assert editor.next("mistaken/embercoach.toml").diagnostics == ()


def test_a_server_that_was_not_asked_to_shut_down_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "embercoach", "server"],
        input=b"",
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


def test_without_pygls_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("embercoach.cli.commands.server.find_spec", lambda name: None)
    assert start(["server"]) == 2
    reported = capfd.readouterr().err
    assert "requires lsprotocol and pygls" in reported
    assert install_command("server", sys.executable) in reported
