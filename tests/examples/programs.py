"""The examples as programs: run, imported, and linted."""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[2]
PLANTED = "examples/train_classifier.py"
FIXED = "examples/train_classifier_fixed.py"
RACE = "examples/softmax_race.py"
XLSTM = "examples/run_xlstm.py"
TRAINING = "examples/train_xlstm.py"
LANGUAGE = "examples/train_lm.py"
BEFORE = "examples/train_and_sample/before.py"
AFTER = "examples/train_and_sample/after.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the repository, as a reader of the README would."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``embercoach check``, of this checkout, with the repository's configuration."""
    return run("-m", "embercoach", "check", "--no-cache", *arguments)


@functools.cache
def findings(path: str, *arguments: str) -> list[dict[str, Any]]:
    """All findings in a file, notes among them."""
    result = check("--output-format", "json", *arguments, path)
    assert result.stderr == ""
    found = json.loads(result.stdout)["findings"]
    assert isinstance(found, list)
    return found


def imported(path: str) -> ModuleType:
    """An example as a module, without running its ``main``."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their annotations up
    spec.loader.exec_module(module)
    return module
