"""The workflows, the action and the hooks are valid, pinned and least-privileged."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fuzz.targets import NAMES

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTION = ROOT / "action.yml"
DEPENDABOT = ROOT / ".github" / "dependabot.yml"
ISSUES = ROOT / ".github" / "ISSUE_TEMPLATE"
FORMS = sorted(ISSUES.glob("*.yml"))
#: The jobs that may write anything, and what.
WRITES = {
    "publish": {"id-token"},  # trusted publishing
    "announce": {"contents"},  # the release on GitHub
    "test": {"security-events"},  # calls ci.yml, whose job `action` has it
    "deploy": {"id-token", "pages"},
    "action": {"security-events"},  # code scanning
}
SCRIPTS = Path(sysconfig.get_path("scripts"))


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], cwd=ROOT, capture_output=True, text=True, check=False
    )


def named(path: Path) -> str:
    return path.name


def load(path: Path) -> dict[str, Any]:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def steps(document: dict[str, Any]) -> list[dict[str, Any]]:
    holders = document["jobs"].values() if "jobs" in document else [document["runs"]]
    return [step for holder in holders if "uses" not in holder for step in holder["steps"]]


def actions(document: dict[str, Any]) -> list[str]:
    """The actions of other repositories that a document uses."""
    return [step["uses"] for step in steps(document) if step.get("uses", "./") != "./"]


def test_every_platform_has_a_job() -> None:
    jobs = load(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    assert set(jobs) == {
        *("linux", "macos", "metal", "windows", "browser"),
        *("action", "fresh", "package", "image", "editors"),
    }


@pytest.mark.dev
@pytest.mark.parametrize(
    ("schema", "path"),
    [
        *(("vendor.github-workflows", path) for path in WORKFLOWS),
        ("vendor.github-actions", ACTION),
        ("vendor.dependabot", DEPENDABOT),
        ("vendor.citation-file-format", ROOT / "CITATION.cff"),
        ("vendor.github-issue-config", ISSUES / "config.yml"),
        *(("vendor.github-issue-forms", path) for path in FORMS if path.name != "config.yml"),
    ],
    ids=lambda value: named(value) if isinstance(value, Path) else value,
)
def test_schema(schema: str, path: Path) -> None:
    result = run(
        sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, path.relative_to(ROOT)
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.dev
def test_zizmor_finds_nothing() -> None:
    options = ("--offline", "--no-progress", "--persona=regular")
    result = run(SCRIPTS / "zizmor", *options, *WORKFLOWS, ACTION, DEPENDABOT)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "No findings to report" in result.stdout + result.stderr


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=named)
def test_actions_are_pinned_with_their_version(path: Path) -> None:
    """A tag moves, a commit does not; the comment lets people and Dependabot read the pin."""
    uses = actions(load(path))
    text = path.read_text(encoding="utf-8")
    pinned = re.findall(r"uses: (\S+@[0-9a-f]{40}) # v\d+\.\d+\.\d+$", text, re.MULTILINE)
    assert pinned == uses


@pytest.mark.parametrize("path", WORKFLOWS, ids=named)
def test_least_privilege(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {}
    assert "group" in workflow["concurrency"]
    for name, job in workflow["jobs"].items():
        written = {scope for scope, level in job["permissions"].items() if level != "read"}
        assert written == WRITES.get(name, set()), name
        # A job that calls a workflow takes no limit: that workflow's jobs have theirs.
        assert "uses" in job or job["timeout-minutes"] <= 30, name
    for step in steps(workflow):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=named)
def test_scripts_hold_no_template(path: Path) -> None:
    """Values reach a script through the environment, where they can't become code."""
    for step in steps(load(path)):
        assert "${{" not in step.get("run", "")


def test_every_fuzz_target_has_a_job() -> None:
    job = load(ROOT / ".github" / "workflows" / "fuzz.yml")["jobs"]["fuzz"]
    assert tuple(job["strategy"]["matrix"]["target"]) == NAMES


def test_metal_tests_run_only_where_metal_is_right() -> None:
    job = load(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["metal"]
    by_script = {step.get("run", "").split(" ")[-1]: step for step in job["steps"]}
    tests = next(step for step in job["steps"] if "pytest -m metal" in step.get("run", ""))
    count = by_script["metal-report.xml"]
    assert tests["if"] == "steps.probe.outputs.metal == 'metal-works'"
    assert "metal-works" in count["if"]
    assert tests["env"]["METAL_DEVICE_WRAPPER_TYPE"] == "1"
    assert "--junitxml=metal-report.xml" in tests["run"]


@pytest.mark.dev
@pytest.mark.parametrize(
    "command",
    [
        ("validate-manifest", ".pre-commit-hooks.yaml"),
        ("validate-config", ".pre-commit-config.yaml"),
    ],
)
def test_hooks_are_valid(command: tuple[str, str]) -> None:
    result = run(sys.executable, "-m", "pre_commit", *command)
    assert result.returncode == 0, result.stdout + result.stderr


def test_hooks() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert [hook["id"] for hook in hooks] == ["embercoach", "embercoach-fix"]
    for hook in hooks:
        assert hook["require_serial"], "the tool has a process pool of its own"
        assert hook["types_or"] == ["python", "jupyter", "metal", "objective-c", "objective-c++"]
        assert "--force-exclude" in hook["entry"], "pre-commit names files that config excludes"
        assert hook["args"] == ["--"], "pre-commit's names of files may begin with - or @"
