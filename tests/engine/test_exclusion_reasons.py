"""The reason given for a path agrees with what a run does."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from embercoach.config import DEFAULT_EXCLUDE, Configurations, Settings
from embercoach.engine.check_run import run
from embercoach.engine.file_discovery import Reason, discover, skip_reason
from embercoach.kernel_builder import KernelBuilder

if TYPE_CHECKING:
    from pathlib import Path

MLX = "import mlx.core as mx\n"
FILES = {
    ".gitignore": "# ours\nbuilt/\n*.pyi\n!kept.pyi\n",
    "a.py": MLX,
    "kept.pyi": MLX,
    "stub.pyi": MLX,
    "text.txt": MLX,
    "built/b.py": MLX,
    "venv/c.py": MLX,
    "generated/deep/d.py": MLX,
    "generated/keep/e.py": MLX,
    "sub/.gitignore": "secret.py\n!f.pyi\n",
    "sub/secret.py": MLX,
    "sub/f.pyi": MLX,
    "sub/built/g.py": MLX,
    "folder.py/h.py": MLX,
    "sub/k.metal": "kernel void k() {}\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "link").symlink_to("sub")
    (tmp_path / "linked.py").symlink_to("a.py")
    (tmp_path / "nowhere.py").symlink_to("absent")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def settings_of(root: Path, **others: bool) -> Settings:
    exclude = (*DEFAULT_EXCLUDE, "generated/*", "!generated/keep")
    return Settings(root, exclude=exclude, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize("respect_gitignore", [True, False])
def test_every_file_is_judged_as_a_run_does(tree: Path, respect_gitignore: bool) -> None:
    settings = settings_of(tree, respect_gitignore=respect_gitignore)
    found = {str(f.path) for f, _ in discover([str(tree)], Configurations.fixed(settings)).files}
    assert len(found) > 4
    every = [path for path in tree.rglob("*") if path.is_file() and ".git/" not in str(path)]
    assert {
        str(p) for p in every if skip_reason(str(p), Configurations.fixed(settings)) is None
    } == found


@pytest.mark.parametrize(
    ("name", "why", "pattern", "file", "place"),
    [
        ("absent.py", "missing", "", "", ""),
        ("text.txt", "suffix", "", "", "text.txt"),
        ("built/b.py", "ignored", "built/", ".gitignore", "built"),
        ("sub/built/g.py", "ignored", "built/", ".gitignore", "sub/built"),
        ("sub/secret.py", "ignored", "secret.py", "sub/.gitignore", "sub/secret.py"),
        ("venv/c.py", "excluded", "venv", "", "venv"),
        ("generated/deep/d.py", "excluded", "generated/*", "", "generated/deep"),
        ("link/secret.py", "link", "", "", "link"),
        ("nowhere.py", "unreadable", "", "", "nowhere.py"),
        ("built", "ignored", "built/", ".gitignore", "built"),
        ("venv", "excluded", "venv", "", "venv"),
    ],
)
def test_reasons(tree: Path, name: str, why: str, pattern: str, file: str, place: str) -> None:
    def absolute(relative: str) -> str:
        return str(tree / relative) if relative else ""

    reason = skip_reason(str(tree / name), Configurations.fixed(settings_of(tree)))
    assert reason is not None
    assert (reason.scope is not None) == (why == "excluded")
    expected = Reason(why, pattern, absolute(file), absolute(place))  # type: ignore[arg-type]
    assert replace(reason, scope=None) == expected


@pytest.mark.parametrize(
    "name", ["a.py", "kept.pyi", "generated/keep/e.py", "linked.py", "sub", "folder.py"]
)
def test_what_is_checked_has_no_reason(tree: Path, name: str) -> None:
    assert skip_reason(str(tree / name), Configurations.fixed(settings_of(tree))) is None


def notebook(source: str, language: str = "python") -> str:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": source}
    metadata = {"language_info": {"name": language}}
    return json.dumps(
        {
            "cells": [cell | {"execution_count": None}],
            "metadata": metadata,
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("x.py", "import numpy\n", "irrelevant"),
        ("x.py", "import mlx\n# embercoach: skip-file\n", "skip-file"),
        ("x.py", "import mlx\n# embercoach: ignore-file[DTYPE]\n", None),
        ("x.py", "import mlx\n(", None),
        ("x.metal", "constant int x = 1;\n", "irrelevant"),
        ("x.mm", "int main() {}\n", "irrelevant"),
        ("x.ipynb", notebook("import mlx.core as mx\n"), None),
        ("x.ipynb", notebook("import numpy\n"), "irrelevant"),
        ("x.ipynb", notebook("import mlx.core\n# embercoach: skip-file\n"), "skip-file"),
        ("x.ipynb", notebook("using mlx\n", "julia"), "no-python"),
        ("x.ipynb", "{ mlx", None),
    ],
)
def test_what_the_text_says(tmp_path: Path, name: str, text: str, why: str | None) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    builder = KernelBuilder("pack.Wrapper", (("source", 0),))
    settings = Settings(tmp_path, kernel_builders=(builder,))
    reason = skip_reason(str(path), Configurations.fixed(settings))
    assert (reason and reason.why) == why
    # A run agrees.
    assert run([str(path)], settings, cache=False).files_skipped == (why is not None)
