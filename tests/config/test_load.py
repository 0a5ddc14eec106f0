"""Configuration: found, checked, merged with the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from embercoach import rulebook
from embercoach.config import (
    DEFAULT_EXCLUDE,
    ConfigError,
    Configurations,
    Overrides,
    Settings,
    load,
)
from embercoach.config.patterns import PathPatterns
from embercoach.config.settings import SimulatorSettings
from embercoach.engine.checkouts import Plan

ALL = rulebook.static_codes()


def family(prefix: str) -> set[str]:
    return {code for code in ALL if code.startswith(prefix)}


def settings_for(path: Path, overrides: Overrides | None = None) -> Settings:
    (scope,) = load([str(path)], overrides)
    return scope.settings


def pyproject(folder: Path, body: str) -> Path:
    path = folder / "pyproject.toml"
    path.write_text(f"[project]\nname = 'x'\n\n[tool.embercoach]\n{body}", encoding="utf-8")
    return path


def test_without_a_file_the_defaults_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = settings_for(tmp_path)
    assert settings == Settings(root=tmp_path)
    assert settings.profile == "recommended"
    assert settings.enabled == ALL
    assert settings.exclude == DEFAULT_EXCLUDE
    assert settings.respect_gitignore
    assert not settings.show_notes


def test_every_key(tmp_path: Path) -> None:
    path = pyproject(
        tmp_path,
        """
profile = "ember"
select = ["GRAPH-BREAK", "HOST-PULL"]
extend-select = ["DTYPE-001"]
ignore = ["GRAPH-BREAK-008"]
exclude = ["vendored"]
extend-exclude = ["gen/**"]
show-notes = true
respect-gitignore = false

[tool.embercoach.per-file-ignores]
"tests/**" = ["HOST-PULL"]

[tool.embercoach.per-file-profiles]
"kernels/**" = "recommended"
""",
    )
    settings = settings_for(tmp_path)
    assert settings == Settings(
        root=tmp_path,
        source=path,
        profile="ember",
        enabled=frozenset(
            family("GRAPH-BREAK") - {"GRAPH-BREAK-008"} | family("HOST-PULL") | {"DTYPE-001"}
        ),
        per_file_ignores=(("tests/**", ("HOST-PULL",)),),
        per_file_profiles=(("kernels/**", "recommended"),),
        exclude=("vendored", "gen/**"),
        respect_gitignore=False,
        show_notes=True,
    )


def test_the_table_of_the_simulator(tmp_path: Path) -> None:
    assert settings_for(tmp_path).simulator == SimulatorSettings()
    pyproject(
        tmp_path,
        """
[tool.embercoach.simulator]
compiler = "/usr/bin/clang-20"
timeout = 2
memory = 0.5
checks = false
allow = ["same-value-write", "SIM-RACE-001"]
""",
    )
    allowed = Overrides(allow_compiler=True)
    assert settings_for(tmp_path, allowed).simulator == SimulatorSettings(
        compiler="/usr/bin/clang-20",
        timeout=2.0,
        memory=1 << 29,
        checks=False,
        allow=("same-value-write", "threadgroup-race"),
    )


def test_the_nearest_file_wins_and_a_bare_pyproject_does_not_count(tmp_path: Path) -> None:
    top = pyproject(tmp_path, 'profile = "ember"')
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text("[project]\nname = 'embercoach-user'\n")
    assert settings_for(inner).source == top
    (inner / "embercoach.toml").write_text("show-notes = true\n")
    settings = settings_for(inner)
    assert settings.source == inner / "embercoach.toml"
    assert settings.root == inner
    assert settings.profile == "recommended"
    # embercoach.toml goes before a pyproject.toml beside it.
    pyproject(inner, "show-notes = false")
    assert settings_for(inner).show_notes


def test_a_file_starts_the_search_in_its_folder(tmp_path: Path) -> None:
    source = tmp_path / "src" / "a.py"
    source.parent.mkdir()
    source.touch()
    path = pyproject(tmp_path, "")
    assert settings_for(source).source == path
    assert settings_for(tmp_path / "src" / "absent.py").source == path


def test_paths_of_two_projects_are_kept_apart(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        pyproject(tmp_path / name, f"show-notes = {'true' if name == 'two' else 'false'}")
    given = [str(tmp_path / p) for p in ("one/a.py", "two", "one/b.py")]
    scopes = Plan(given, Configurations()).given
    assert list(scopes.values()) == [[given[0], given[2]], [given[1]]]
    assert [scope.settings.show_notes for scope in scopes] == [False, True]
    assert [scope.settings for scope in load(given)] == [scope.settings for scope in scopes]


def test_a_named_file_and_isolation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pyproject(tmp_path, 'profile = "ember"')
    named = tmp_path / "elsewhere" / "strict.toml"
    named.parent.mkdir()
    named.write_text('select = ["DTYPE"]\n')
    (scope,) = load([str(tmp_path)], config=named)
    assert scope.settings.enabled == family("DTYPE")
    assert scope.settings.root == tmp_path
    assert scope.settings.profile == "recommended"
    (scope,) = load([str(tmp_path)], isolated=True)
    assert scope.settings.source is None
    assert scope.settings.profile == "recommended"


def test_the_command_line_overrides(tmp_path: Path) -> None:
    pyproject(
        tmp_path,
        'profile = "ember"\nselect = ["DTYPE"]\nignore = ["DTYPE-002"]\nexclude = ["a"]\n'
        'extend-exclude = ["b"]\nshow-notes = true\nrespect-gitignore = false\n'
        'per-file-profiles = {"x/**" = "ember"}\n',
    )
    assert settings_for(tmp_path, Overrides(extend_select=("FFT",))).enabled == (
        family("DTYPE") - {"DTYPE-002"} | family("FFT")
    )
    assert settings_for(tmp_path, Overrides(select=("GRAPH",))).enabled == family("GRAPH")
    assert settings_for(tmp_path, Overrides(ignore=("DTYPE-001",))).enabled == (
        family("DTYPE") - {"DTYPE-001", "DTYPE-002"}
    )
    settings = settings_for(
        tmp_path,
        Overrides(
            profile="recommended",
            exclude=("c",),
            extend_exclude=("d",),
            show_notes=False,
            respect_gitignore=True,
        ),
    )
    assert settings.profile == "recommended"
    assert settings.per_file_profiles == ()
    assert settings.exclude == ("c", "b", "d")
    assert not settings.show_notes
    assert settings.respect_gitignore


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("selct = []", 5, "unknown key 'selct' in [tool.embercoach]; did you mean 'select'?"),
        ("profile = 3", 5, "profile must be a string, got number"),
        ("extend-select = [1]", 5, "extend-select must hold only strings, got number"),
        ("respect-gitignore = 1", 5, "respect-gitignore must be true or false, got number"),
        ('extend-exclude = ["[z-a]"]', 5, "extend-exclude: invalid pattern '[z-a]': "),
        ('extend-exclude = ["!"]', 5, "extend-exclude: invalid pattern '!': "),
        ('extend-exclude = ["a["]', 5, "extend-exclude: 'a[' matches nothing"),
        ('per-file-ignores = ["x"]', 5,
         "per-file-ignores must be a table from patterns to lists of rules, got list"),
        ('[tool.embercoach.per-file-ignores]\n"a" = ["DTYPE"]\n"t/**" = "DTYPE"', 7,
         'per-file-ignores."t/**" must be a list of strings, got string'),
        ('per-file-ignores = { "t/**" = 3 }', 5,
         'per-file-ignores."t/**" must be a list of strings, got number'),
        ('select = ["SIM-UNINIT"]', 5, "allow = ['uninitialized-read', 'unwritten-output']"),
        ('select = ["SIM-UNINITT"]', 5, "select: unknown rule 'SIM-UNINITT'"),
        ("simulator = 1", 5, "simulator must be a table, got number"),
        ("[tool.embercoach.simulator]\ntimout = 3", 6,
         "simulator: unknown key 'timout'; did you mean 'timeout'?"),
        ("[tool.embercoach.simulator]\nqqq = 3", 6, "(known: compiler, timeout, memory, checks, "),
        ("[tool.embercoach.simulator]\ntimeout = true", 6,
         "simulator.timeout must be a number, got boolean"),
        ("[tool.embercoach.simulator]\nmemory = inf", 6, "above 0 and at most 1000000000, got inf"),
        ('[tool.embercoach.simulator]\nallow = ["threadgroup-rase"]', 6,
         "unknown kind of finding 'threadgroup-rase'; did you mean 'threadgroup-race'?"),
        ('[tool.embercoach.simulator]\nallow = ["DTYPE-001"]', 6,
         "unknown kind of finding 'DTYPE-001' (known: "),
        ('[tool.embercoach.simulator]\nallow = ["races"]', 6,
         "kind of finding 'races'; did you mean 'threadgroup-race' or 'device-race'?"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_line(
    body: str, line: int, words: str, tmp_path: Path
) -> None:
    path = pyproject(tmp_path, body)
    with pytest.raises(ConfigError) as caught:
        load([str(tmp_path)])
    assert str(caught.value).endswith(f" ({path}:{line})")
    assert words in str(caught.value)


def test_long_values_are_clipped(tmp_path: Path) -> None:
    path = pyproject(tmp_path, f"profile = '{'x' * 5_000}'\n")
    with pytest.raises(ConfigError) as caught:
        load([str(tmp_path)])
    assert "xxxx…" in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))


@pytest.mark.parametrize("name", ["embercoach.toml", "pyproject.toml"])
def test_a_link_to_a_configuration_outside_is_refused(name: str, tmp_path: Path) -> None:
    """What it says would be quoted, and it may be a secret."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    secret = "profile = 'hunter2'\n[tool.embercoach]\nprofile = 'hunter2'\n"
    (tmp_path / "secret").write_text(secret)
    (project / name).symlink_to("../secret")
    with pytest.raises(ConfigError, match="must be a regular file inside the project") as caught:
        load([str(project)])
    assert "hunter2" not in str(caught.value)
    (project / name).unlink()
    (project / "shared").write_text("show-notes = true\n[tool.embercoach]\nshow-notes = true\n")
    (project / name).symlink_to("shared")
    if name == "embercoach.toml":
        (project / "shared").write_text("show-notes = true\n")
    assert settings_for(project).show_notes


def test_a_place_in_the_current_folder_is_told_in_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyproject(tmp_path, "zzz = 1")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"^unknown key 'zzz' .* \(pyproject\.toml:5\)$"):
        load(["."])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[tool.embercoach\nprofile = 1", "not valid TOML: "),
        (b"[tool.embercoach]\nx = '\xff'", "not valid UTF-8: "),
        (b"tool.embercoach = 3", "tool.embercoach must be a table"),
        (b"a = " + b"[" * 20000 + b"# embercoach", "not valid TOML: "),
        (b"a" + b".a" * 20000 + b" = 1 # embercoach", "not valid TOML: keys have too many parts"),
    ],
)
def test_a_broken_file(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load([str(tmp_path)])
    assert str(caught.value).startswith(words)
    assert str(caught.value).endswith(f" ({path})")
    if b"profile" in content:
        assert "line 1" in str(caught.value)


def test_a_broken_file_of_others_is_left_to_them(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.black\n")
    assert settings_for(tmp_path).source is None


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(["."], config=tmp_path / "absent.toml")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(ConfigError, match=r"has no \[tool.embercoach\] table"):
        load(["."], config=tmp_path / "pyproject.toml")


@pytest.mark.parametrize(
    "overrides",
    [
        Overrides(select=("GRAPH-BRAKE",)),
        Overrides(extend_select=("NOPE",)),
        Overrides(ignore=("x",)),
        Overrides(profile="loud"),
        Overrides(exclude=(" ",)),
        Overrides(extend_exclude=("",)),
    ],
)
def test_a_mistake_on_the_command_line(overrides: Overrides, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^command line: "):
        load([str(tmp_path)], overrides)


@pytest.mark.parametrize(("pattern", "path", "expected"), [("a.py", "/elsewhere/a.py", True)])
def test_patterns(pattern: str, path: str, expected: bool) -> None:
    assert PathPatterns([pattern], Path("/p")).match_below(path) == expected
