"""The examples as programs: run, imported, and linted."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import json
import os
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from embercoach.cli.entry import group

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

ROOT = Path(__file__).parents[2]
PLANTED = "examples/train_classifier.py"
FIXED = "examples/train_classifier_fixed.py"
RACE = "examples/softmax_race.py"
ATTENTION = "examples/attention.py"
XLSTM = "examples/run_xlstm.py"
TRAINING = "examples/train_xlstm.py"
LANGUAGE = "examples/train_lm.py"
BEFORE = "examples/train_and_sample/before.py"
AFTER = "examples/train_and_sample/after.py"


@dataclass(frozen=True, slots=True)
class Ran:
    returncode: int
    stdout: str
    stderr: str


@contextlib.contextmanager
def in_repository(*words: str) -> Iterator[None]:
    """Change to the repository's folder, and set the words of the command line."""
    folder, before = Path.cwd(), sys.argv
    os.chdir(ROOT)
    sys.argv = list(words)
    try:
        yield
    finally:
        os.chdir(folder)
        sys.argv = before


def run(path: str, *arguments: str) -> Ran:
    """Run an example in this process, as a reader of the README would."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        in_repository(path, *arguments),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as stopped:
            code = stopped.code or 0
    return Ran(int(code), out.getvalue(), err.getvalue())


def check(*arguments: str) -> Ran:
    """Run ``embercoach check`` in this process, with the repository's configuration."""
    with in_repository():
        result = CliRunner().invoke(group, ["check", "--no-cache", *arguments])
    return Ran(result.exit_code, result.stdout, result.stderr)


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
