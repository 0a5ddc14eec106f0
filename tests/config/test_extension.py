"""The keys ``extend`` and ``required-version``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from embercoach.config import ConfigError, Overrides, Settings, load
from embercoach.config.extension import MOST_FILES
from embercoach.config.settings import DEFAULT_EXCLUDE
from tests.config.test_load import family


@pytest.fixture(autouse=True)
def _checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"[tool.embercoach]\n{text}" if path.name == "pyproject.toml" else text)


def settings(path: str = "inner", overrides: Overrides | None = None) -> Settings:
    (scope,) = load([path], overrides)
    return scope.settings


def error(path: str = "inner") -> str:
    with pytest.raises(ConfigError) as caught:
        load([path])
    return str(caught.value)


def test_keys_of_the_file_replace_those_of_its_base(tmp_path: Path) -> None:
    write(
        "pyproject.toml",
        "profile = 'ember'\nshow-notes = true\nexclude = ['a']\nmax-file-size = 3\n"
        "per-file-ignores = { 'x' = ['DTYPE'] }\nseverity = { NN = 'note' }\n"
        "simulator = { timeout = 3, memory = 1 }\n",
    )
    write(
        "inner/embercoach.toml",
        "extend = '../pyproject.toml'\nshow-notes = false\nper-file-ignores = { 'y' = ['NN'] }\n"
        "simulator = { timeout = 5 }\n",
    )
    found = settings()
    assert found.root == tmp_path / "inner"
    assert found.source == tmp_path / "inner" / "embercoach.toml"
    assert (found.profile, found.show_notes, found.max_file_size) == ("ember", False, 3)
    assert found.per_file_ignores == (("y", ("NN",)),)
    assert found.severities == (("NN", "note"),)
    assert (found.simulator.timeout, found.simulator.memory) == (5, 1 << 30)
    assert found.exclude == ("a",)
    assert settings(".").show_notes


@pytest.mark.parametrize(
    ("base", "own", "enabled"),
    [
        ("select = ['DTYPE']", "ignore = ['DTYPE-001']", family("DTYPE") - {"DTYPE-001"}),
        ("ignore = ['DTYPE']", "select = ['DTYPE', 'NN']", family("DTYPE") | family("NN")),
        ("select = ['DTYPE']", "extend-select = ['NN']", family("DTYPE") | family("NN")),
    ],
)
def test_selections_build_on_each_other(base: str, own: str, enabled: set[str]) -> None:
    write("base.toml", base)
    write("inner/embercoach.toml", f"extend = '../base.toml'\n{own}\n")
    assert settings().enabled == enabled
    assert settings("inner", Overrides(select=("FFT",))).enabled == family("FFT")


def test_a_chain(tmp_path: Path) -> None:
    write("a.toml", "extend-exclude = ['one']\nprofile = 'ember'\n")
    write("b.toml", "extend = 'a.toml'\nextend-exclude = ['two']\n")
    write("inner/embercoach.toml", "extend = '../b.toml'\nextend-exclude = ['three']\n")
    found = settings()
    assert found.exclude == (*DEFAULT_EXCLUDE, "one", "two", "three")
    assert found.profile == "ember"
    for number in range(MOST_FILES):
        write(f"{number}.toml", f"extend = '{number + 1}.toml'\n")
    write("inner/embercoach.toml", "extend = '../0.toml'\n")
    assert f"extend must chain at most {MOST_FILES} files, got " in error()
    write("inner/embercoach.toml", "extend = '../1.toml'\n")
    write(f"{MOST_FILES - 1}.toml", "")
    assert settings().root == tmp_path / "inner"


def test_a_baseline_is_not_inherited() -> None:
    write("base.toml", "baseline = 'known.json'\n")
    write("inner/embercoach.toml", "extend = '../base.toml'\n")
    assert settings().baseline is None


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("absent.toml", "extend must be an existing file, got 'absent.toml'"),
        ("../inner", "extend must be a .toml file, got '../inner'"),
        ("", "extend must be a string, got an empty one"),
        ("embercoach.toml", "extend must not form a cycle, got 'embercoach.toml'"),
        ("../inner/embercoach.toml", "extend must not form a cycle"),
        ("../link.toml", "extend must be a file inside the project, got "),
        ("../.git/x.toml", "extend must be a file inside the project, got "),
        ("../folder.toml", "extend must be an existing file, got "),
    ],
)
def test_a_mistake_in_extend(named: str, said: str, tmp_path: Path) -> None:
    outside = tmp_path.parent / "outside.toml"
    outside.write_text("profile = 'hunter2'\n")
    Path("link.toml").symlink_to(outside)
    Path(".git/x.toml").touch()
    Path("folder.toml").mkdir()
    write("inner/embercoach.toml", f"\nextend = '{named}'\n")
    found = error()
    assert found.startswith(said)
    assert found.endswith(" (inner/embercoach.toml:2)")
    assert "hunter2" not in found


def test_outside_of_a_checkout_the_project_is_the_nearest_marked_folder() -> None:
    os.rmdir(".git")  # noqa: PTH106
    write("base.toml", "")
    write("inner/pyproject.toml", "extend = '../base.toml'\n")
    assert "inside the project" in error()


def test_a_cycle_of_two_files() -> None:
    write("base.toml", "extend = 'inner/embercoach.toml'\n")
    write("inner/embercoach.toml", "extend = '../base.toml'\n")
    assert error() == ("extend must not form a cycle, got 'inner/embercoach.toml' (base.toml:1)")


def test_mistakes_in_the_base_name_the_base() -> None:
    write("inner/embercoach.toml", "extend = '../pyproject.toml'\n")
    write("pyproject.toml", "profile = 3\n")
    assert error() == "profile must be a string, got number (pyproject.toml:2)"
    Path("pyproject.toml").write_text("[project]\n")
    assert error() == "configuration has no [tool.embercoach] table (pyproject.toml)"
    Path("pyproject.toml").write_text("[project\n")
    assert "not valid TOML" in error()


@pytest.mark.parametrize(
    ("required", "met"), [("==0.5.*", True), ("~=0.4", True), ("!=0.5.0", False), ("<=0.4", False)]
)
def test_the_required_version(required: str, met: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embercoach.__version__", "0.5.0")
    write("inner/embercoach.toml", f"required-version = '{required}'\n")
    if met:
        assert settings().source is not None
    else:
        assert error() == (
            f"required-version must match EmberCoach 0.5.0, got '{required}' "
            "(inner/embercoach.toml:1)"
        )


def test_a_preview_meets_a_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embercoach.__version__", "0.5.0rc1")
    write("inner/embercoach.toml", "required-version = '>=0.1'\n")
    assert settings().source is not None


def test_the_version_comes_before_keys_of_later_versions() -> None:
    write("inner/embercoach.toml", "new-key = 3\nrequired-version = '>=999'\n")
    assert error().startswith("required-version must match EmberCoach ")
    write("base.toml", "required-version = '>=999'\n")
    write("inner/embercoach.toml", "extend = '../base.toml'\n")
    assert error().endswith(", got '>=999' (base.toml:1)")


@pytest.mark.parametrize("value", ["3", "''", "'latest'", "'>=one'", "'>='", f"'>={'1' * 5000}'"])
def test_a_mistake_in_the_required_version(value: str) -> None:
    write("inner/embercoach.toml", f"\nrequired-version = {value}\n")
    found = error()
    assert found.startswith("required-version must be a ")
    assert found.endswith(" (inner/embercoach.toml:2)")
