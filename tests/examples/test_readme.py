"""README.md tells the truth: its output, its tables, its snippets, its links."""

from __future__ import annotations

import inspect
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

import xlstm_kernels
from embercoach import rulebook
from embercoach.cli.entry import group
from embercoach.config import load
from tests.accuracy.test_accuracy import BARS
from tests.examples.programs import PLANTED, RACE, ROOT, check
from tests.examples.readme import (
    README,
    REGENERATE,
    SHOWN,
    SIMULATOR,
    TRY,
    Block,
    block,
    blocks,
    excerpt,
    printed,
    regenerated,
    simulated,
    without_times,
)

TEXT = README.read_text(encoding="utf-8")
BLOCKS = blocks(TEXT)
COMMANDS = (TRY, "Test it")
#: Headings whose commands install something, or run an example of this repository.
ELSEWHERE = (*COMMANDS, SIMULATOR)
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the simulator is tested on Linux")


def of_language(language: str) -> list[Block]:
    return [one for one in BLOCKS if one.language == language]


def rows(*header: str) -> list[list[str]]:
    """The rows of the table with a header, as cells."""
    lines = TEXT.splitlines()
    start = lines.index(f"| {' | '.join(header)} |") + 2
    table = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return table


# --- the commands and what they print ----------------------------------------------------------


@pytest.mark.parametrize("heading", COMMANDS)
def test_a_command_is_one_line_right_below_its_heading(heading: str) -> None:
    assert re.search(rf"^## {heading}\n\n```bash\n.+\n```\n", TEXT, re.MULTILINE)


def test_the_first_command_lints_the_example() -> None:
    install, _, lint = block(TEXT, "Try it", "bash").text.strip().partition(" && ")
    assert shlex.split(install)[-3:] == ["pip", "install", "."]
    assert shlex.split(lint) == ["embercoach", "check", PLANTED]


@ON_LINUX
def test_the_simulator_is_shown_at_work() -> None:
    install, simulate = block(TEXT, SIMULATOR, "bash").text.splitlines()
    assert shlex.split(install) == ["python", "-m", "pip", "install", "embercoach[simulator]"]
    assert shlex.split(simulate) == ["embercoach", "simulate", "--", "python", RACE]
    shown = block(TEXT, SIMULATOR, "text").text
    assert without_times(shown) == without_times(simulated()), REGENERATE
    assert "SIM-RACE-001" in shown
    assert shown.startswith(("right\n", "wrong\n"))


def test_times_are_left_out_of_the_comparison() -> None:
    shown = " row_softmax  1  0.012  1  0\nFound 1 fault; 1 launch in 1.25 s.\n"
    told = " row_softmax  1  SECONDS  1  0\nFound 1 fault; 1 launch in SECONDS s.\n"
    assert without_times(shown) == told


def test_the_shown_output_is_what_the_command_prints() -> None:
    assert block(TEXT, "Try it", "text").text == printed(), REGENERATE


def test_the_shown_findings_are_there_to_be_shown() -> None:
    shown = block(TEXT, "Try it", "text").text
    assert [code for code in SHOWN if f" {code} " not in shown] == []


def test_the_excerpt_marks_what_is_left_out() -> None:
    one, two = "a.py:1:1: DTYPE-002 error one\n   |", "a.py:2:1: DTYPE-001 warning two\n   |"
    assert excerpt(f"{two}\n\n{two}\n\n{one}\n\n{two}\n\nFound 4.\n1 fixable.\n") == (
        f"...\n\n{one}\n\n...\n\nFound 4.\n1 fixable.\n"
    )


def test_regenerating_changes_nothing_but_the_output() -> None:
    shown = block(TEXT, "Try it", "text").text
    assert regenerated(TEXT.replace(shown, "old\n"), {TRY: shown}) == TEXT


def options(command: click.Command) -> set[str]:
    return {
        name
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("-")
    }


def test_the_options_exist() -> None:
    context = click.Context(group)
    commands = [group.get_command(context, name) for name in group.list_commands(context)]
    known = set().union(*(options(one) for one in (group, *commands) if one is not None))
    shell = [one.text for one in of_language("bash") if one.heading not in ELSEWHERE]
    prose = re.sub(r"^```.*?^```$", "", TEXT, flags=re.DOTALL | re.MULTILINE)
    named = set(re.findall(r"(?<!\S)(--[a-z-]+)", "\n".join(shell)))
    named |= set(re.findall(r"`(--[a-z-]+)`", prose))
    assert len(named) > 5
    assert named <= known


def test_the_usage_lines_run(tmp_path: Path) -> None:
    """Each command line starts, on an empty project; none is a mistake of usage."""
    (tmp_path / "src").mkdir()
    (tmp_path / "kernels.py").write_text("\n" * 20)
    lines = "".join(one.text for one in of_language("bash") if one.heading not in ELSEWHERE)
    commands = [shlex.split(line, comments=True) for line in lines.splitlines()]
    assert len(commands) > 5
    for program, *arguments in commands:
        assert program == "embercoach"
        result = subprocess.run(
            [sys.executable, "-m", "embercoach", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
    assert (tmp_path / "embercoach.sarif").is_file()


# --- the tables --------------------------------------------------------------------------------


def test_the_table_of_families_is_that_of_the_rules() -> None:
    families = {}
    for cell, about in rows("family", "what it is about"):
        name, target = re.fullmatch(r"\[`([A-Z-]+)`\]\((.+)\)", cell).groups()  # type: ignore[union-attr]
        assert target.startswith(f"rules/{name}-")
        assert about
        families[name.lower()] = target
    assert set(families) == {rule.family for rule in rulebook.rules().values()}


def test_the_exit_codes(tmp_path: Path) -> None:
    assert [cell for cell, _ in rows("exit code", "meaning")] == ["0", "1", "2"]
    (tmp_path / "broken.py").write_text("import mlx.core as mx\nx = (\n", encoding="utf-8")
    (tmp_path / "noted.py").write_text(
        "import mlx.core as mx\n\n\ndef f(x: mx.array):\n    return x * 0.5\n", encoding="utf-8"
    )
    assert check(str(tmp_path / "noted.py")).returncode == 0
    assert check(PLANTED).returncode == 1
    assert check(str(tmp_path)).returncode == 2
    assert check("--profil", "ember").returncode == 2


def test_the_bars_are_those_that_are_tested() -> None:
    table = rows("what", "precision at least", "recall at least")
    assert [tuple(map(float, row[1:])) for row in table] == list(BARS.values())


def test_the_table_of_kernels_is_that_of_the_pack() -> None:
    table = rows("what", "function", "layouts", "backends")
    functions = [cell.strip("`") for _, cell, _, _ in table]
    operators = {
        name
        for name in xlstm_kernels.__all__
        if inspect.isfunction(value := getattr(xlstm_kernels, name))
        and "backend" in inspect.signature(value).parameters
    }
    assert len(functions) == len(set(functions))
    assert set(functions) == operators
    assert {backends for *_, backends in table} == {"Metal, MLX"}


# --- the snippets ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "snippet",
    [
        pytest.param(one, id=one.heading, marks=ON_LINUX if one.heading == SIMULATOR else ())
        for one in of_language("python")
    ],
)
def test_python_runs(snippet: Block) -> None:
    exec(compile(snippet.text, f"README.md, {snippet.heading}", "exec"), {"__name__": "readme"})


def test_the_suppressions_suppress(tmp_path: Path) -> None:
    code = block(TEXT, "Suppressions", "python").text
    path = tmp_path / "logged.py"
    path.write_text(code, encoding="utf-8")
    result = check("--isolated", "--show-notes", str(path))
    assert result.returncode == 0, result.stdout
    assert "2 suppressed" in result.stdout
    bare = re.sub(r"#.*", "", code)
    path.write_text(bare, encoding="utf-8")
    result = check("--isolated", "--output-format", "concise", str(path))
    assert re.findall(r" ([A-Z-]+-\d{3}) ", result.stdout) == ["GRAPH-BREAK-003", "GRAPH-BREAK-001"]


def test_the_kernel_example_is_clean(tmp_path: Path) -> None:
    path = tmp_path / "pack.py"
    path.write_text(block(TEXT, "The kernel pack", "python").text, encoding="utf-8")
    result = check("--isolated", str(path))
    assert result.returncode == 0, result.stdout


def test_the_number_made_an_array_is_found(tmp_path: Path) -> None:
    """The line that the README marks, and no other."""
    code = block(TEXT, "Profiles", "python").text
    path = tmp_path / "weak.py"
    path.write_text(code, encoding="utf-8")
    result = check("--isolated", "--select", "DTYPE", "--output-format", "concise", str(path))
    (marked,) = (n for n, line in enumerate(code.splitlines(), 1) if "# DTYPE-001" in line)
    assert re.findall(r":(\d+):\d+: (\S+) ", result.stdout) == [(str(marked), "DTYPE-001")]


def test_the_configuration_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        block(TEXT, "Configuration", "toml").text, encoding="utf-8"
    )
    (scope,) = load([str(tmp_path)])
    assert scope.settings.source == tmp_path / "pyproject.toml"
    assert scope.settings.show_notes
    assert "GRAPH-BREAK-008" not in scope.settings.enabled
    assert "generated/" in scope.settings.exclude
    assert scope.settings.per_file_ignores == (("scripts/", ("HOST-PULL",)),)
    assert scope.settings.per_file_profiles == (("kernels/", "ember"),)
    assert scope.settings.simulator.timeout == 10
    assert scope.settings.simulator.allow == ("order-dependent",)


def test_the_folders_of_the_configuration_match(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        block(TEXT, "Configuration", "toml").text, encoding="utf-8"
    )
    code = "import mlx.core as mx\n\n\ndef f(x: mx.array):\n    return x.tolist(), x * 0.5\n"
    for folder in ("scripts", "kernels", "generated", "src"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text(code, encoding="utf-8")
    result = check("--output-format", "concise", str(tmp_path))
    found = re.findall(r"/(\w+)/a\.py:\S+ (\S+) (\w+) ", result.stdout)
    assert sorted(found) == [
        ("kernels", "HOST-PULL-001", "error"),
        ("kernels", "PYTHON-SCALAR-002", "error"),
        ("scripts", "PYTHON-SCALAR-002", "note"),
        ("src", "HOST-PULL-001", "warning"),
        ("src", "PYTHON-SCALAR-002", "note"),
    ]


def test_the_hook_exists() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    snippet = block(TEXT, "pre-commit", "yaml").text
    (repository,) = yaml.safe_load(snippet)["repos"]
    named = {hook["id"] for hook in repository["hooks"]} | {"embercoach-fix"}
    assert "embercoach-fix" in snippet
    assert named == {hook["id"] for hook in hooks}


def test_the_workflow_is_valid_and_knows_the_inputs(tmp_path: Path) -> None:
    snippet = block(TEXT, "GitHub Action", "yaml").text
    workflow = tmp_path / "lint.yml"
    workflow.write_text(snippet, encoding="utf-8")
    command = ["-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    result = subprocess.run(
        [sys.executable, *command, str(workflow)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    *_, ours = yaml.safe_load(snippet)["jobs"]["embercoach"]["steps"]
    assert set(ours["with"]) <= set(action["inputs"])


def test_the_version_is_this_one() -> None:
    from embercoach import __version__

    assert set(re.findall(r"\bv(\d+\.\d+\.\d+)", TEXT)) == {__version__}


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\((?!https?:)(.+?)\)", TEXT))))
def test_the_links_lead_somewhere(target: str) -> None:
    if target.startswith("#"):
        headings = re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
        assert target[1:] in {heading.lower().replace(" ", "-") for heading in headings}
    else:
        assert (ROOT / target).exists()


def test_the_codes_exist() -> None:
    named = set(re.findall(r"\b[A-Z]+(?:-[A-Z]+)*-\d{3}\b", TEXT))
    assert named <= rulebook.codes()
