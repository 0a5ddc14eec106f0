"""The linter finds the planted waits, a trace confirms them, and the repaired program has fewer."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.examples.programs import AFTER, BEFORE, ROOT, findings, imported

PROBLEMS = [
    ("x = x + self.out(mixed.swapaxes(1, 2).flatten(2)) * mx.array(0.5)", "DTYPE-001"),
    (
        "return x + self.narrow(nn.silu(self.wide(self.norms[1](x)))) * mx.array(0.5), (k, v)",
        "DTYPE-001",
    ),
    ("hits = mx.array(np.argmax(np.array(logits), axis=-1) == np.array(y))", "HOST-PULL-002"),
    ("hits = mx.array(np.argmax(np.array(logits), axis=-1) == np.array(y))", "HOST-PULL-002"),
    ("token, cache = decode(token, cache, places <= position, position)", "COMPILE-004"),
]
#: A read that the program needs: the repair reads less often.
PRINTED = 'print(f"step {step}: loss {loss.item():.4f}, accuracy {mx.mean(hits).item():.3f}")'


def test_every_planted_problem_is_found_and_none_after_the_repair() -> None:
    lines = (ROOT / BEFORE).read_text(encoding="utf-8").splitlines()
    loud = [
        (lines[one["line"] - 1].strip(), one["code"])
        for one in findings(BEFORE)
        if one["severity"] != "note"
    ]
    assert loud == PROBLEMS
    assert [one for one in findings(AFTER) if one["severity"] != "note"] == []


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Traces and results of both programs, and their comparison, with its exit code."""
    folder = tmp_path_factory.mktemp("traces")
    embercoach = [sys.executable, "-m", "embercoach", "trace"]
    made: dict[str, Any] = {}
    for name, path in (("before", BEFORE), ("after", AFTER)):
        trace, result = folder / f"{name}.json", folder / f"{name}.result.json"
        command = [*embercoach, "--output-format", "json", "-o", str(trace), "--", "python", path]
        subprocess.run([*command, "--json", str(result)], cwd=ROOT, check=True, capture_output=True)
        made[name] = json.loads(result.read_text(encoding="utf-8"))
    options = ["--renamed", BEFORE, AFTER, "--output-format", "json"]
    compared = subprocess.run(
        [*embercoach, "compare", *options, *(str(folder / f"{n}.json") for n in made)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    return {**made, "comparison": json.loads(compared.stdout), "code": compared.returncode}


@pytest.mark.exhaustive
def test_the_repair_keeps_the_values(traces: dict[str, Any]) -> None:
    """The loss within 1 %, since one program leaves bfloat16; the same tokens."""
    before, after = traces["before"], traces["after"]
    assert after["loss"] == pytest.approx(before["loss"], rel=0.01)
    assert after["loss"] < 1.5
    assert before["tokens"] == after["tokens"]
    assert len(after["tokens"]) == imported(AFTER).SIZES["small"].sampled


@pytest.mark.exhaustive
def test_the_trace_confirms_the_findings_and_the_repair(traces: dict[str, Any]) -> None:
    comparison = traces["comparison"]
    size = imported(BEFORE).SIZES["small"]
    found = {
        (site["text"], site["operation"]): (site["before"]["count"], site["after"]["count"])
        for site in comparison["sites"]
        if site["waits"]
    }
    numpy, shown = PROBLEMS[2][0], PRINTED
    assert found == {
        (numpy, "np.array"): (2 * size.steps, 0),
        (shown, "array.item"): (2 * size.steps, 2 * size.steps // 20),
        ("if token.item() == END:", "array.item"): (size.sampled, 0),
    }
    (retrace,) = (
        site
        for site in comparison["sites"]
        if (site["kind"], site["operation"]) == ("retrace", "mx.compile of Model.decode")
    )
    assert (retrace["before"]["count"], retrace["after"]["count"]) == (size.sampled - 1, 0)
    assert retrace["before"]["details"][0] == "argument position: 0, then 1"
    assert comparison["after"]["events"] < comparison["before"]["events"]
    assert traces["code"] == 0
