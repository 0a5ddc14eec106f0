"""Files whose names and texts attack terminals and CI logs, through every command."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import unicodedata
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from embercoach.cli.commands.check import FORMATS
from embercoach.cli.entry import start
from embercoach.terminal_text import escaped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Ran

    Cli = Callable[..., Ran]

FOLDER = "\n::error::d\x1b[31m"
NAME = os.fsdecode("##[error]x\udcff\u202e`|<b>@me, %.py".encode(errors="surrogateescape"))
NOTEBOOK = "::warning::x\r.ipynb"
#: Names, literals and text of a kernel, as escapes and as the characters themselves.
SOURCE = """\
import mlx.core as mx

KERNEL = mx.fast.metal_kernel(
    name="k\\x1b[31m\\n::error::x\\n##[error]x\\u202e\\u2028",
    input_names=["a\\x1b[2J\\n::stop-commands::x", "b\\x9b"],
    output_names=["out"],
    source="out[i\x1b] = inp\x07; // \u202e::error::x",
)


def f(x: mx.array) -> float:
\ty = x * mx.array(0.5)  # \x1b]0;title\x07 ##[error]x
    ::error::x
"""
SOURCE = SOURCE.replace("    ::error::x\n", "\treturn mx.sum(x + 1e-7).item()\n")


@pytest.fixture
def hostile(project: Path) -> Path:
    (project / FOLDER).mkdir()
    (project / FOLDER / NAME).write_text(SOURCE, encoding="utf-8")
    cell = {
        "cell_type": "code",
        "source": "import mlx.core as mx\nmx.sum(mx.ones(3)).item() # \x1b",
    }
    cell |= {"metadata": {}, "outputs": [], "execution_count": None}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (project / NOTEBOOK).write_text(json.dumps(notebook), encoding="utf-8")
    (project / "broken\x1b.py").write_text("import mlx.core\nx = '\x1b\n", encoding="utf-8")
    return project


def assert_inert(written: str, *, tabs: bool = False, commands: bool = False) -> None:
    odd = {c for c in written if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert odd <= {"\n", *("\t" * tabs)}
    for line in written.split("\n"):
        if not commands:
            assert not line.lstrip().startswith("::")
            assert not re.search(r"##\w*\[", line)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("to_file", [False, True])
def test_check_in_every_format(form: str, to_file: bool, embercoach: Cli, hostile: Path) -> None:
    where = ("-o", "report") if to_file else ()
    ran = embercoach("check", "--show-notes", "--output-format", form, *where, ".")
    assert ran.code == 2  # a file can't be parsed
    assert ran.err == ""
    written = (hostile / "report").read_text(encoding="utf-8") if to_file else ran.out
    assert_inert(written, commands=form == "github")
    if form in ("json", "gitlab", "sarif"):
        assert "KERNEL-NAME-001" in json.dumps(json.loads(written))
    elif form == "junit":
        assert ET.fromstring(written).find(".//failure") is not None
    elif form == "github":
        assert all(re.match("::(error|warning|notice) ", line) for line in written.splitlines())
    assert "KERNEL-NAME-001" in written


COMMANDS = (
    ("check", "--statistics", "."),
    ("check", "--show-files", "."),
    ("check", "--show-settings", FOLDER, "broken\x1b.py"),
    ("check", "absent\n::error::x\x1b"),
    ("check", "--config", "absent\n::error::x\x1b", "."),
    ("check", "--baseline", "absent\n::error::x\x1b", "."),
    ("check", "--select", "X\n::error::x\x1b", "."),
    ("check", "--no\n::error::x\x1b", "."),
    ("check", "-o", "no/folder\n::error::x\x1b", "."),
    ("check", "@absent\n::error::x\x1b"),
    ("\n::error::x\x1b",),
    ("config", FOLDER, f"{FOLDER}/{NAME}"),
    ("config", "--output-format", "json", f"{FOLDER}/{NAME}"),
    ("explain", f"{FOLDER}/{NAME}:7"),
    ("explain", f"{FOLDER}/{NAME}:999"),
    ("explain", "--output-format", "json", f"{FOLDER}/{NAME}:7"),
    ("shapes", f"{FOLDER}/{NAME}"),
    ("shapes", f"{FOLDER}/{NAME}:12"),
    ("shapes", "broken\x1b.py"),
    ("explain", "X\n::error::x\x1b"),
    ("rules", "x\n::error::x\x1b"),
    ("report", "-o", "\n::error::x\x1b.html", "."),
    ("report", "--from", "absent\n::error::x\x1b"),
    ("merge", f"{FOLDER}/{NAME}"),
    ("baseline", "update", "--baseline", "\n::error::x\x1b.json"),
    ("simulate", "--", "python\n::error::x\x1b"),
    ("simulate", "--", "python", "absent\n::error::x\x1b.py"),
)


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda words: ascii(" ".join(words)))
def test_other_commands(arguments: tuple[str, ...], embercoach: Cli, hostile: Path) -> None:
    ran = embercoach(*arguments)
    assert "internal error" not in ran.err
    assert ran.out or ran.err
    assert_inert(ran.out)
    assert_inert(ran.err)


def test_a_diff_shows_tabs_and_escapes(embercoach: Cli, hostile: Path) -> None:
    ran = embercoach("check", "--diff", "--unsafe-fixes", "--profile", "ember", FOLDER)
    assert f"+++ {escaped(f'{FOLDER}/{NAME}')}\n" in ran.out.replace("#\\x23", "##")
    assert "\n+\t" in ran.out
    assert "\\x1b]0;title\\x07 #\\x23[error]x" in ran.out
    assert_inert(ran.out, tabs=True)
    assert_inert(ran.err)


def test_standard_input_with_a_hostile_name(embercoach: Cli, project: Path) -> None:
    ran = embercoach("-", "--stdin-filename", NAME, stdin=SOURCE.encode())
    assert ran.code == 1
    assert_inert(ran.out)


@pytest.mark.parametrize("configuration", ["'\\u001b\\n::error::x'", '"\\u001b\\n::error::x" = 1'])
def test_a_mistake_in_the_configuration(configuration: str, embercoach: Cli, project: Path) -> None:
    wrong = f"profile = {configuration}" if configuration[0] == "'" else configuration
    (project / "embercoach.toml").write_text(wrong.replace("'", '"'), encoding="utf-8")
    ran = embercoach(".")
    assert ran.code == 2
    assert "\\x1b" in ran.err
    assert_inert(ran.err)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("color", [False, True])
def test_any_encoding_of_the_terminal(
    encoding: str, color: bool, hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if color:
        monkeypatch.setenv("FORCE_COLOR", "1")
    data = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(data, encoding=encoding))
    assert start(["."]) == 2
    sys.stdout.flush()
    written = re.sub(r"\x1b\[[0-9;]*m", "" if color else "?", data.getvalue().decode(encoding))
    assert_inert(written)
    assert "KERNEL-NAME-001" in written


@pytest.mark.parametrize("in_short", [False, True])
def test_what_is_told_of_a_simulated_program(in_short: bool) -> None:
    """Kernels and files are the program's to name; a name may even be folded in the table."""
    pytest.importorskip("numpy")
    from embercoach.cli.simulation import Simulated, render
    from embercoach.simulator.model import KernelFinding
    from embercoach.simulator.session.record import KernelRow, Record

    names = (FOLDER, "::error::x", "x" * 64 + "::error::x" * 9, NAME)
    findings = tuple(
        (
            KernelFinding(
                "out-of-bounds", name, "body", 1, None, f"{name}. {name}", name, (name, 1)
            ),
            None,
        )
        for name in names
    )
    record = Record(tuple(KernelRow(name, 1, 0.5, 1) for name in names), findings, 0)
    simulated = Simulated(
        record=record,
        program=FOLDER,
        compiled_only=False,
        show_notes=True,
        in_short=in_short,
        profile="ember",
        exit_code=1,
    )
    for form in ("text", "json", "sarif"):
        stream = io.StringIO()
        render(simulated, form, stream)
        assert_inert(stream.getvalue())


def test_an_error_of_the_command_line_takes_no_line_of_its_own(
    project: Path, embercoach: Cli
) -> None:
    """Not even where click removes the colour that a key sets."""
    key = r'"x\u001b[0m\nAll clear; 12 files checked.\nhttp"'
    (project / "embercoach.toml").write_text(f"{key} = 1\n")
    ran = embercoach("check", ".")
    assert ran.code == 2
    assert "\nAll clear" not in ran.err
    assert "All clear" in ran.err
