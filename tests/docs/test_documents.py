"""The documentation is true: its commands run and print what it shows, its tables are right."""

from __future__ import annotations

import inspect
import re
import sys
from importlib.util import find_spec
from itertools import takewhile
from typing import TYPE_CHECKING

import click
import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

import xlstm_kernels
from embercoach import __version__, rulebook
from embercoach.cli.commands.check import FORMATS
from embercoach.cli.commands.trace import TraceCommand
from embercoach.cli.entry import group
from embercoach.config import load
from embercoach.rulebook import CONTEXTS
from tests.accuracy.test_accuracy import BARS
from tests.docs.documents import (
    DOCUMENTS,
    ELSEWHERE,
    NOT_RUN,
    OTHERS,
    READERS,
    Playground,
    agrees,
    bare,
    commands,
    installed,
    language,
    title,
)
from tests.examples.programs import PLANTED, ROOT, check
from tests.examples.readme import blocks
from xlstm_kernels.checkpoints.quantization import quantize

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = {path.name: path.read_text(encoding="utf-8") for path in DOCUMENTS}
BLOCKS = [(name, block) for name, text in TEXTS.items() for block in blocks(text)]
REGENERATE = "run `python -m tests.regenerate documents` to show today's output"


def played(path: Path) -> pytest.param:
    simulates = path.name in ("index.md", "simulator.md") and sys.platform != "linux"
    skip = pytest.mark.skipif(simulates, reason="the simulator is tested on Linux")
    needs_mlx_lm = path.name == "language-models.md" and not find_spec("mlx_lm")
    lacks = pytest.mark.skipif(needs_mlx_lm, reason="mlx-lm needs Python 3.11")
    return pytest.param(path, id=path.name, marks=[skip, lacks])


def titled(document: str, name: str) -> str:
    """The file of a name that a document tells to write."""
    (text,) = (one.text for where, one in BLOCKS if where == document and title(one) == name)
    return text


def rows(document: str, *header: str) -> list[list[str]]:
    """The rows of the tables with a header, as cells."""
    lines = TEXTS[document].splitlines()
    starts = [
        number + 2 for number, line in enumerate(lines) if line == f"| {' | '.join(header)} |"
    ]
    assert starts
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for start in starts
        for line in takewhile(lambda line: line.startswith("|"), lines[start:])
    ]


# --- commands and blocks -----------------------------------------------------------------------


@pytest.mark.docs
@pytest.mark.parametrize("path", [played(path) for path in DOCUMENTS])
def test_a_reader_gets_what_the_document_shows(path: Path, tmp_path: Path) -> None:
    for block, ran in Playground(tmp_path, path).play():
        for command, printed in ran:
            place = f"{path.name}:{block.start + 1}, {command.line!r}"
            shown = command.shown is None or agrees(command.shown, printed)
            assert shown, f"{place} prints\n{printed}\n{REGENERATE}"


def test_what_is_not_run_is_there() -> None:
    """The list of exceptions holds what it must and no more."""
    shell = [
        one
        for where, one in BLOCKS
        if language(one) in ("bash", "console") and (where, one.heading) not in ELSEWHERE
    ]
    lines = {bare(command.line) for one in shell for command in commands(one)}
    assert set(NOT_RUN) <= lines
    assert all(NOT_RUN.values())
    named = {(where, one.heading) for where, one in BLOCKS}
    assert named >= ELSEWHERE
    wanted = {one.name for line in lines for one in installed(line) or []}
    assert wanted == {"embercoach", *OTHERS}


def test_every_language_is_tested() -> None:
    known = {*READERS, "bash", "console"}
    unknown = {
        language(one)
        for where, one in BLOCKS
        if (where, one.heading) not in ELSEWHERE and language(one) not in known
    }
    assert unknown == set()


# --- words -------------------------------------------------------------------------------------


def options(command: click.Command, context: click.Context) -> set[str]:
    grouped = isinstance(command, click.Group | TraceCommand)
    inner = command.list_commands(context) if grouped else ()  # type: ignore[attr-defined]
    found = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    for name in inner:
        below = command.get_command(context, name)  # type: ignore[attr-defined]
        assert below is not None
        found |= options(below, context)
    return found


@pytest.mark.parametrize("document", sorted(set(TEXTS) - {"CONTRIBUTING.md"}))
def test_options_in_prose_exist(document: str) -> None:
    prose = re.sub(r"^```.*?^```$", "", TEXTS[document], flags=re.DOTALL | re.MULTILINE)
    known = options(group, click.Context(group)) | {"--embercoach-simulate", "--help"}
    known |= {"--trust-remote-code", "--grad-checkpoint"}  # of mlx-lm
    scripts = {
        "training.md": "examples/train_xlstm.py",
        "training-language-models.md": "examples/train_lm.py",
        "performance.md": "tests/benchmarks/gpu/__main__.py",
        "trace.md": "examples/train_and_sample/measure.py",
        "language-models.md": "xlstm_kernels/generate.py",
    }
    if document in scripts:
        known |= set(re.findall(r'"(--[a-z-]+)"', (ROOT / scripts[document]).read_text()))
    assert set(re.findall(r"`(--[a-z-]+)", prose)) <= known


@pytest.mark.parametrize("document", TEXTS)
def test_codes_exist(document: str) -> None:
    named = set(re.findall(r"\b[A-Z]+(?:-[A-Z]+)*-\d{3}\b", TEXTS[document]))
    made_up = {"DTYPE-099", "TEAM-EVAL-001"}  # of CONTRIBUTING and of own rules
    assert named <= rulebook.codes() | made_up


@pytest.mark.parametrize("document", TEXTS)
def test_the_version_is_this_one(document: str) -> None:
    assert set(re.findall(r"embercoach@v(\d+\.\d+\.\d+)", TEXTS[document])) <= {__version__}
    assert set(re.findall(r"rev: v(\d+\.\d+\.\d+)", TEXTS[document])) <= {__version__}


# --- tables ------------------------------------------------------------------------------------


def test_the_table_of_families_is_that_of_the_rules() -> None:
    families = {}
    for cell, about in rows("rules.md", "family", "what it reports"):
        name, target = re.fullmatch(r"\[`([A-Z-]+)`\]\((.+)\)", cell).groups()  # type: ignore[union-attr]
        assert target.startswith(f"../rules/{name}-")
        assert about
        assert name.lower() not in families
        families[name.lower()] = target
    wanted = {rule.family for rule in rulebook.rules().values()}
    assert set(families) == wanted, "write a row for each family in docs/rules.md"


def test_the_table_of_contexts_is_that_of_the_rules() -> None:
    table = rows("rules.md", "context", "the finding is", "`recommended`", "`ember`")
    contexts = [name.strip("`") for cell, *_ in table for name in cell.split(", ")]
    assert [*contexts, "default"] == list(CONTEXTS), "edit the table in docs/rules.md"


def test_the_table_of_formats_is_that_of_the_command() -> None:
    formats = [cell.strip("`") for cell, _ in rows("reports.md", "`--output-format`", "for")]
    assert sorted(formats) == sorted(FORMATS), "edit the table in docs/reports.md"


def test_the_exit_codes(tmp_path: Path) -> None:
    assert [cell for cell, _ in rows("reports.md", "exit code", "meaning")] == ["0", "1", "2"]
    (tmp_path / "broken.py").write_text("import mlx.core as mx\nx = (\n", encoding="utf-8")
    (tmp_path / "noted.py").write_text(
        "import mlx.core as mx\n\n\ndef f(x: mx.array):\n    return x * 0.5\n", encoding="utf-8"
    )
    assert check(str(tmp_path / "noted.py")).returncode == 0
    assert check(PLANTED).returncode == 1
    assert check(str(tmp_path)).returncode == 2
    assert check("--profil", "ember").returncode == 2


def test_the_bars_are_those_that_are_tested() -> None:
    table = rows("how-it-works.md", "what", "precision at least", "recall at least")
    assert [tuple(map(float, row[1:])) for row in table] == list(BARS.values())


@pytest.mark.parametrize(
    ("name", "dtype", "bits"),
    [
        ("float32", mx.float32, None),
        ("bfloat16", mx.bfloat16, None),
        ("8 bits, bfloat16", mx.bfloat16, 8),
        ("4 bits, bfloat16", mx.bfloat16, 4),
        ("4 bits, float32", mx.float32, 4),
    ],
)
def test_the_memory_of_xlstm_7b(name: str, dtype: mx.Dtype, bits: int | None) -> None:
    """Computed of shapes: none of the weights is evaluated."""
    model = xlstm_kernels.nn.xLSTM(xlstm_kernels.nn.xLSTMConfig())
    model.set_dtype(dtype)
    if bits is not None:
        quantize(model, bits, group_size=64)
    trees = (model.parameters(), model.init_cache(1))
    sizes = [sum(array.nbytes for _, array in tree_flatten(tree)) / 1e9 for tree in trees]
    header = ("precision", "weights", "a state", "measured, loaded", "measured peak, generating")
    table = {row[0]: row[1:3] for row in rows("language-models.md", *header)}
    assert table[name] == [f"{size:.2f}" for size in sizes]


def test_the_table_of_kernels_is_that_of_the_pack() -> None:
    table = rows("kernel-pack.md", "what", "function", "layouts")
    functions = [cell.strip("`") for _, cell, _ in table]
    operators = {
        name
        for name in xlstm_kernels.__all__
        if inspect.isfunction(value := getattr(xlstm_kernels, name))
        and "backend" in inspect.signature(value).parameters
    }
    assert len(functions) == len(set(functions))
    assert set(functions) == operators


# --- snippets ----------------------------------------------------------------------------------


def test_the_suppressions_suppress(tmp_path: Path) -> None:
    path = tmp_path / "logged.py"
    code = titled("configuration.md", "logged.py")
    path.write_text(re.sub(r"#.*", "", code), encoding="utf-8")
    result = check("--isolated", "--show-notes", "--output-format", "concise", str(path))
    assert re.findall(r" ([A-Z-]+-\d{3}) ", result.stdout) == ["GRAPH-BREAK-003", "GRAPH-BREAK-001"]


def test_the_configuration_is_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        titled("configuration.md", "pyproject.toml"), encoding="utf-8"
    )
    (scope,) = load([str(tmp_path)])
    assert scope.settings.source == tmp_path / "pyproject.toml"
    assert scope.settings.show_notes
    assert "GRAPH-BREAK-008" not in scope.settings.enabled
    assert "generated/" in scope.settings.exclude
    assert scope.settings.per_file_ignores == (("scripts/", ("HOST-PULL",)),)
    assert scope.settings.per_file_profiles == (("kernels/", "ember"),)
    assert scope.settings.severities == (("DTYPE-010", "error"),)
    assert scope.settings.simulator.timeout == 10
    assert scope.settings.simulator.allow == ("order-dependent",)
