"""Only the environment and the command line name plugins; no linted tree can."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from embercoach.plugins.discovery import find, site_folders
from tests.cli.conftest import Ran
from tests.plugins.packages import Package, declare
from tests.processes import run_python

Cli = Callable[..., Ran]
#: A module that shows that it was run.
PLANTED = "from pathlib import Path\nPath(__file__).with_name('was-run').touch()\nRULES = None\n"
SOURCE = "import mlx.core as mx\n\n\ndef f(x: mx.array) -> None:\n    mx.eval(x)\n"


def planted(folder: Path, module: str = "rules_of_mallory") -> Path:
    """A folder with a hostile plugin, and a file to lint."""
    (folder / f"{module}.py").write_text(PLANTED, encoding="utf-8")
    declare(folder, module)
    (folder / "step.py").write_text(SOURCE, encoding="utf-8")
    return folder


def lint(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m embercoach`` in a folder, which Python puts on ``sys.path``."""
    command = ("-m", "embercoach", "check", "--no-cache", *options)
    return run_python(*command, cwd=folder, env=os.environ | environment)


def test_the_current_folder_names_no_plugin(tmp_path: Path) -> None:
    done = lint(planted(tmp_path), ".")
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "was-run").exists()


def test_the_same_folder_is_loaded_from_if_the_command_line_says_so(tmp_path: Path) -> None:
    done = lint(planted(tmp_path), "--rules-from", ".")
    assert (tmp_path / "was-run").exists()
    assert done.returncode == 2
    expected = "plugin rules_of_mallory: entry point must name a RuleSet, got NoneType"
    assert expected in done.stderr


def test_pythonpath_names_no_plugin(tmp_path: Path) -> None:
    done = lint(planted(tmp_path), PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize("key", ["rules-from", "plugins", "no-plugins"])
def test_a_configuration_names_no_plugin(key: str, tmp_path: Path) -> None:
    (planted(tmp_path) / "embercoach.toml").write_text(f'{key} = ["."]\n', encoding="utf-8")
    done = lint(tmp_path)
    assert done.returncode == 2
    assert f"'{key}'" in done.stderr
    assert not (tmp_path / "was-run").exists()


def test_a_module_in_the_current_folder_replaces_no_plugin(tmp_path: Path) -> None:
    folder = Package("rules_of_acme").write(tmp_path / "installed")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "rules_of_acme.py").write_text(PLANTED, encoding="utf-8")
    (tree / "step.py").write_text(SOURCE, encoding="utf-8")
    done = lint(tree, "--rules-from", str(folder))
    assert "ACME-EVAL-001" in done.stdout
    assert not (tree / "was-run").exists()


def test_folders_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["", str(Path.cwd()), *sys.path])
    folders = site_folders()
    assert folders
    assert {Path(folder).name for folder in folders} <= {"site-packages", "dist-packages"}
    assert str(Path.cwd()) not in folders


def test_of_a_distribution_the_first_is_found(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second", "missing")]
    declare(folders[0], "rules_of_acme", "2.0")
    declare(folders[1], "rules_of_acme", "1.0")
    declare(folders[1], "rules_of_other", "1.0")
    found = [(one.name, one.version) for one in find(map(str, folders))]
    assert found == [("rules_of_acme", "2.0"), ("rules_of_other", "1.0")]


def test_a_folder_without_a_plugin_is_an_error(embercoach: Cli, project: Path) -> None:
    ran = embercoach("check", "--rules-from", str(project))
    assert ran.code == 2
    assert f"no installed package in {project} has an entry point of embercoach.rules" in ran.err


def test_nothing_is_imported_to_find_that_there_are_none(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from embercoach.plugins.loading import PluginRequest, load, loaded\n"
        "load(PluginRequest())\n"
        "print(loaded(), 'importlib.metadata' in sys.modules, 'libcst' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code]
        if sys.version_info >= (3, 11)
        else [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "() False False\n"
