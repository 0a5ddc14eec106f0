"""A plugin's rules are rules like EmberCoach's own, for every command and setting."""

from __future__ import annotations

import json
import multiprocessing
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embercoach.config import Settings
from embercoach.engine.check_run import run
from embercoach.plugins.loading import PluginRequest, load, register
from tests.cli.conftest import Ran
from tests.plugins.packages import EVAL, Package, page
from tests.server.raw import RawClient

Cli = Callable[..., Ran]
CODE = "ACME-EVAL-001"
SOURCE = """\
import mlx.core as mx


def train_step(x: mx.array) -> None:
    mx.eval(x)


def report(x: mx.array) -> None:
    mx.eval(x)
"""
RAISING = """
@on_call("{prefix}-EVAL-001", of=("mlx.core.eval",))
def eval_outside(call):
    yield Report(call, "first", "Help")
    raise ValueError("no\\x1b[31m luck")
"""


@pytest.fixture
def installed(project: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    (project / "step.py").write_text(SOURCE, encoding="utf-8")
    return str(Package("rules_of_acme").write(tmp_path_factory.mktemp("installed")))


def found(ran: Ran) -> list[tuple[str, int, str]]:
    findings = json.loads(ran.out)["findings"]
    return [(one["code"], one["line"], one["severity"]) for one in findings]


def check(embercoach: Cli, folder: str, *options: str) -> Any:
    return embercoach("check", "--rules-from", folder, "--output-format", "json", *options)


def test_its_findings_are_listed(embercoach: Cli, installed: str) -> None:
    ran = check(embercoach, installed)
    assert (ran.code, found(ran)) == (1, [(CODE, 9, "warning")])
    assert found(check(embercoach, installed, "--profile", "ember")) == [(CODE, 9, "error")]


def test_without_the_option_nothing_is_loaded(embercoach: Cli, installed: str) -> None:
    del installed
    ran = embercoach("check", "--output-format", "json")
    assert (ran.code, found(ran)) == (0, [])
    assert embercoach("explain", CODE).code == 2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--select", "ACME"), [(CODE, 9, "warning")]),
        (("--select", "HOST-PULL"), []),
        (("--ignore", CODE), []),
    ],
)
def test_it_is_selected_by_code_and_prefix(
    options: tuple[str, ...], expected: list[tuple[str, int, str]], embercoach: Cli, installed: str
) -> None:
    assert found(check(embercoach, installed, *options)) == expected


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ('ignore = ["ACME"]', []),
        ('severity = {"ACME-EVAL" = "error"}', [(CODE, 9, "error")]),
        ('per-file-ignores = {"step.py" = ["ACME-EVAL-001"]}', []),
    ],
)
def test_a_configuration_names_it(
    setting: str, expected: list[tuple[str, int, str]], embercoach: Cli, installed: str
) -> None:
    Path("embercoach.toml").write_text(setting + "\n", encoding="utf-8")
    assert found(check(embercoach, installed)) == expected
    refused = embercoach("check", "--no-plugins")
    assert refused.code == 2
    assert "unknown rule 'ACME" in refused.err


def test_a_comment_suppresses_it(embercoach: Cli, installed: str) -> None:
    ignored = "mx.eval(x)  # embercoach: ignore[ACME-EVAL-001]"
    Path("step.py").write_text(SOURCE.replace("mx.eval(x)", ignored), encoding="utf-8")
    assert [code for code, *_ in found(check(embercoach, installed))] == ["NOQA-001"]


def test_its_page_is_explained_listed_and_in_sarif(embercoach: Cli, installed: str) -> None:
    explained = embercoach("explain", "--rules-from", installed, "rule-acme-eval-001")
    assert "Text of ACME-EVAL-001." in explained.out
    listed = embercoach("rules", "--rules-from", installed, "acme-eval")
    assert "Summary of ACME-EVAL-001" in listed.out
    ran = embercoach("check", "--rules-from", installed, "--output-format", "sarif")
    (run,) = json.loads(ran.out)["runs"]
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == CODE
    report = embercoach("report", "--rules-from", installed, "-o", "report.html", "step.py")
    assert report.code == 0
    assert "Text of ACME-EVAL-001." in Path("report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("color", ["", "1"])
def test_a_page_cannot_control_the_terminal(
    embercoach: Cli, installed: str, monkeypatch: pytest.MonkeyPatch, color: str
) -> None:
    monkeypatch.setenv("FORCE_COLOR", color)
    path = Path(installed) / "rules_of_acme_pages" / f"{CODE}.md"
    path.write_text(page(CODE).replace("Text of", "\x1b]0;Text\x07\n::error::of"), encoding="utf-8")
    out = embercoach("explain", "--rules-from", installed, CODE).out
    assert r"\x1b]0;Text\x07 ::error::of" in re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert "\x1b]" not in out


def test_plugins_are_listed_with_version_and_rules(embercoach: Cli, installed: str) -> None:
    ran = embercoach("rules", "--rules-from", installed, "--plugins")
    assert ran.out.startswith("rules_of_acme 1.0: ACME-EVAL-001 (")
    as_json = embercoach("rules", "--rules-from", installed, "--plugins", "--output-format", "json")
    (row,) = json.loads(as_json.out)
    assert (row["name"], row["version"], row["rules"]) == ("rules_of_acme", "1.0", [CODE])
    assert embercoach("rules", "--plugins", "--no-plugins").out == ""


def test_a_check_that_raises_costs_no_other_finding(
    embercoach: Cli, project: Path, tmp_path: Path
) -> None:
    folder = str(Package("rules_of_raising", RAISING).write(tmp_path / "installed"))
    pull = "\n\ndef pull(x: mx.array) -> float:\n    return x.item()\n"
    (project / "step.py").write_text(SOURCE + pull, encoding="utf-8")
    ran = check(embercoach, folder, "step.py")
    assert ran.code == 2
    assert {CODE, "GRAPH-BREAK-001"} <= {code for code, *_ in found(ran)}
    (problem,) = json.loads(ran.out)["problems"]
    message = problem["message"]
    assert "plugin rules_of_raising: check `eval_outside` of ACME-EVAL-001 raised" in message
    assert "ValueError: no\\x1b[31m luck (rules_of_raising.py:" in message
    assert cached(folder) == 0  # another run may give another result


@pytest.mark.parametrize(
    ("yielded", "error"),
    [
        ("None", "TypeError: must yield Report, got NoneType"),
        ("Report(None, 'a', 'B')", "TypeError: Report.at must be of the fact, got NoneType"),
        ("Report(call, None, 'B')", "TypeError: message, help, title and text must be strings"),
        ("Report(call, 'a', 'B', 'mx')", "TypeError: Report.fix must be Replacement, got str"),
        ("[][0]", "IndexError: list index out of range"),
        ("exit(3)", "SystemExit: 3"),
    ],
)
def test_what_no_check_may_yield_is_a_problem(
    yielded: str, error: str, embercoach: Cli, project: Path, tmp_path: Path
) -> None:
    checks = EVAL.replace(
        'Report(call, "mx.eval outside of train_step", "Evaluate once a step")', yielded
    )
    module = f"rules_of_{abs(hash(yielded))}"
    folder = str(Package(module, checks).write(tmp_path / "installed"))
    (project / "step.py").write_text(SOURCE, encoding="utf-8")
    ran = check(embercoach, folder, "step.py", "--no-cache")
    assert ran.code == 2
    assert error in json.loads(ran.out)["problems"][0]["message"]


def cached(folder: str) -> int:
    """How many files a run takes from the cache."""
    load(PluginRequest(installed=False, folders=(folder,)))
    return run(["step.py"], Settings(root=Path.cwd())).cached


def test_a_changed_plugin_makes_cached_results_invalid(
    installed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(installed)
    counts = [cached(installed), cached(installed)]

    def changed() -> None:
        """Run in what would be a new process."""
        register([])
        monkeypatch.delitem(sys.modules, "rules_of_acme")
        counts.append(cached(installed))

    (folder / "rules_of_acme_pages" / f"{CODE}.md").write_text(
        page(CODE).replace("Text", "More"), "utf-8"
    )
    changed()
    source = folder / "rules_of_acme.py"
    source.write_text(source.read_text(encoding="utf-8") + "\nX = 1\n", encoding="utf-8")
    changed()
    info = folder / "rules_of_acme-1.0.dist-info" / "METADATA"
    info.write_text(info.read_text("utf-8").replace("1.0", "1.1"), encoding="utf-8")
    changed()
    changed()
    assert counts == [0, 1, 0, 0, 0, 1]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_run_it(
    method: str, embercoach: Cli, installed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = multiprocessing.get_context(method)
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: context)
    for number in range(24):
        Path(f"step_{number}.py").write_text(SOURCE, encoding="utf-8")
    assert len(found(check(embercoach, installed, "--jobs", "2"))) == 25


def test_an_editor_gets_its_findings(installed: str, project: Path) -> None:
    client = RawClient(project, "--rules-from", installed)
    diagnostics = client.published(client.open("step.py", SOURCE))
    assert [one["code"] for one in diagnostics] == [CODE]
    assert diagnostics[0]["codeDescription"]["href"].endswith(f"rules_of_acme_pages/{CODE}.md")
    client.stop()
