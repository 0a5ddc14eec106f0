"""Configuration files: settings with their origins, or one clear error with its place."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path

from embercoach.cli.entry import start
from embercoach.config import ConfigError, Overrides, load
from embercoach.config.patterns import PathPatterns
from embercoach.config.schema import KEYS, SIMULATOR_KEYS
from embercoach.engine.verdict import Judge
from tests.fuzz import seeds
from tests.fuzz.mutation import text_mutation
from tests.fuzz.soundness import sampled
from tests.fuzz.target import Target, require

HEADER = "[tool.embercoach]\n"
WORDS = (
    *(key.name for key in (*KEYS, *SIMULATOR_KEYS)),
    *(f"{key.name} = " for key in KEYS),
    *("[tool.embercoach]", "[simulator]", "[per-file-ignores]"),
    *("[kernel-builders.'a.B']", "\n[[a]]\n"),
    *("true", "false", "[]", "{}", "''", '"ember"', '["ALL"]', '["DTYPE-001"]', "{ value = 1 }"),
    *("1979-05-27", "07:32:00", "inf", "nan", "'**/[a-'", "'!x'", "'../../x'", "'/etc'", "'\\x00'"),
    *(" = ", ".", "[", "]", "{", "}", ",", '"', "'", '"""', "\n", "#"),
)


def _seeds() -> Iterator[str]:
    for text in seeds.configurations():
        yield text
        if "[tool." not in text and not text.lstrip().startswith("["):
            yield HEADER + text


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="embercoach-fuzz-")).resolve()
    (folder / "own").mkdir()
    (folder / "shared").mkdir()
    (folder / "own" / "a.py").touch()
    (folder / "shared" / "a.py").touch()
    os.chdir(folder)
    return folder


def _execute(data: bytes) -> None:
    shared = b"tool" in data
    name = "pyproject.toml" if shared else "embercoach.toml"
    folder = _folder() / ("shared" if shared else "own")
    (folder / name).write_bytes(data)
    path = str(folder / "a.py")
    try:
        (scope,) = load([path], Overrides())
    except ConfigError as error:
        _require_clear(error, data, folder / name)
        return
    settings = scope.settings
    PathPatterns(settings.exclude, settings.root).match_below(path)
    Judge(settings).rules_for(Path(path))
    if sampled(data, 32):
        out = StringIO()
        with redirect_stdout(out), redirect_stderr(StringIO()):
            code = start(["config", path, "--output-format", "json"])
        require(code == 0, "`config` refuses what `load` takes")
        (applied,) = json.loads(out.getvalue())["paths"]
        require(applied["path"] == path, "the settings are those of another path")


def _require_clear(error: ConfigError, data: bytes, file: Path) -> None:
    require(error.path == file, f"the error is in {error.path}")
    require(bool(error.message), "an error without words")
    if error.line is not None:
        lines = data.decode("utf-8-sig", "replace").replace("\r", "\n").count("\n") + 1
        require(1 <= error.line <= lines, f"line {error.line} of {lines}")


TARGET = Target(
    "configuration", _seeds, text_mutation(seeds.configurations, WORDS), _execute, largest=3_000
)
