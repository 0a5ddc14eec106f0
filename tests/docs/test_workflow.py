"""The workflow that docs/scale.md shows, played step by step as runners would."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.docs.documents import environment, title
from tests.examples.programs import ROOT
from tests.examples.readme import blocks

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.docs
(TEXT,) = (
    block.text
    for block in blocks((ROOT / "docs" / "scale.md").read_text(encoding="utf-8"))
    if title(block).startswith(".github/")
)
JOBS: dict[str, Any] = yaml.safe_load(TEXT)["jobs"]
SHARDS: list[int] = JOBS["check"]["strategy"]["matrix"]["shard"]
PULL = "import mlx.core as mx\n\n\ndef share(x: mx.array):\n    return x / x.sum().item()\n"
PULL += "\n\nfor x in data:\n    share(x)\n"


class Runner:
    """A machine with a checkout; ``store`` is where artifacts go."""

    def __init__(self, folder: Path, store: Path, values: dict[str, str]) -> None:
        self.folder = folder
        self.summary = folder / "summary.md"
        self._store = store
        self._values = values
        (folder / "bin").mkdir(parents=True)
        self._environment = environment(folder / "bin") | {"GITHUB_STEP_SUMMARY": str(self.summary)}
        for name in ("a", "b", "c"):
            package = folder / "work" / "packages" / name
            package.mkdir(parents=True)
            for number in range(4):
                (package / f"m{number}.py").write_text(PULL)

    def play(self, job: dict[str, Any]) -> list[subprocess.CompletedProcess[str]]:
        """Run a job's steps, even after one has failed where it says so."""
        results: list[subprocess.CompletedProcess[str]] = []
        for step in job["steps"]:
            failed = any(result.returncode for result in results)
            if failed and step.get("if") != "${{ !cancelled() }}":
                continue
            if "run" in step and not step["run"].startswith("pip install"):
                results.append(self._run(step))
            elif "uses" in step:
                self._use(step["uses"].split("@")[0], step.get("with", {}))
        return results

    def _run(self, step: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder / "work",
            env=self._environment | {k: self._filled(v) for k, v in step.get("env", {}).items()},
            capture_output=True,
            text=True,
            check=False,
        )

    def _use(self, action: str, inputs: dict[str, Any]) -> None:
        work = self.folder / "work"
        if action == "actions/upload-artifact":
            artifact = self._store / self._filled(inputs["name"])
            artifact.mkdir(parents=True)
            for file in work.glob(inputs["path"]):
                shutil.copy(file, artifact)
        elif action == "actions/download-artifact":
            assert inputs["merge-multiple"]
            for file in self._store.glob(f"{inputs['pattern']}/*"):
                shutil.copy(file, work)

    def _filled(self, text: str) -> str:
        for name, value in self._values.items():
            text = text.replace(f"${{{{ {name} }}}}", value)
        assert "${{" not in text
        return text


def check(shard: int, tmp_path: Path, name: str, broken: str | None = None) -> int:
    values = {"matrix.shard": str(shard), "strategy.job-total": str(len(SHARDS))}
    runner = Runner(tmp_path / name, tmp_path / "store", values)
    if broken is not None:
        (runner.folder / "work" / "packages" / "a" / "m1.py").write_text(broken)
    (result,) = runner.play(JOBS["check"])
    return result.returncode


def test_the_workflow_of_the_document(tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert [check(shard, tmp_path, f"runner{shard}") for shard in SHARDS] == [0] * len(SHARDS)
    runner = Runner(tmp_path / "good", store, {})
    report, last = runner.play(JOBS["report"])
    assert (report.returncode, last.returncode) == (0, 1)
    assert last.stdout.count("::warning ") == 12
    assert "Found 12 warnings; 12 files checked." in runner.summary.read_text(encoding="utf-8")
    merged = json.loads((runner.folder / "work" / "findings.json").read_text(encoding="utf-8"))
    assert merged["run"]["shard"] is None
    assert (store / "report" / "findings.html").is_file()
    # A file that can't be checked fails its job, which hands over its findings all the same; and
    # another job dies before it has uploaded anything.
    held = {shard: (store / f"findings-{shard}" / f"findings-{shard}.json") for shard in SHARDS}
    wrong = next(shard for shard in SHARDS if "packages/a/m1.py" in held[shard].read_text())
    lost = next(shard for shard in SHARDS if shard != wrong)
    for name in (f"findings-{wrong}", f"findings-{lost}", "report"):
        shutil.rmtree(store / name)
    assert check(wrong, tmp_path, "wrong", "import mlx\ndef (:\n") == 2
    runner = Runner(tmp_path / "bad", store, {})
    report, last = runner.play(JOBS["report"])
    assert (report.returncode, last.returncode) == (0, 2)
    summary = runner.summary.read_text(encoding="utf-8")
    assert f"shard {lost} of {len(SHARDS)}" in summary
    assert "m1.py:2" in summary
