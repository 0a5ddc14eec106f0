"""The package's metadata agrees with itself, with the workflows, and with what a wheel holds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT: dict[str, Any] = SETTINGS["project"]
VERSIONS = [
    classifier.rsplit(" ", 1)[-1]
    for classifier in PROJECT["classifiers"]
    if re.search(r"Python :: 3\.\d+$", classifier)
]
PLATFORMS = [
    {"sys_platform": "linux", "platform_machine": "x86_64"},
    {"sys_platform": "linux", "platform_machine": "aarch64"},
    {"sys_platform": "darwin", "platform_machine": "arm64"},
]


def minor(version: str) -> int:
    return int(version.split(".")[1])


def test_versions_are_consecutive_and_within_the_requirement() -> None:
    allowed = SpecifierSet(PROJECT["requires-python"])
    assert [minor(version) for version in VERSIONS] == list(
        range(minor(VERSIONS[0]), minor(VERSIONS[-1]) + 1)
    )
    assert all(allowed.contains(version) for version in VERSIONS)
    assert not allowed.contains(f"3.{minor(VERSIONS[0]) - 1}")


def test_the_workflow_tests_the_oldest_and_the_newest_version() -> None:
    workflow = yaml.safe_load(
        (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    )
    tested = workflow["jobs"]["linux"]["strategy"]["matrix"]["python"]
    assert {VERSIONS[0], VERSIONS[-1]} <= set(tested) <= set(VERSIONS)


def test_the_changelog_has_the_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[(.+?)\]", changelog, re.MULTILINE)
    assert headings[:2] == ["Unreleased", PROJECT["version"]]


@pytest.mark.parametrize("line", PROJECT["dependencies"])
def test_dependencies_have_a_floor_and_no_ceiling(line: str) -> None:
    """A ceiling on a library keeps its users from new Pythons and from security fixes."""
    assert [specifier.operator for specifier in Requirement(line).specifier] == [">="]


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: "-".join(platform.values()))
def test_kernels_bring_one_mlx(platform: dict[str, str]) -> None:
    """Linux wheels need a back end by name; macOS wheels hold Metal."""
    requirements = map(Requirement, PROJECT["optional-dependencies"]["kernels"])
    chosen = [
        requirement
        for requirement in requirements
        if requirement.name == "mlx"
        and (requirement.marker is None or requirement.marker.evaluate(platform))
    ]
    assert [requirement.extras for requirement in chosen] == [
        {"cpu"} if platform["sys_platform"] == "linux" else set()
    ]


def test_extras() -> None:
    extras = PROJECT["optional-dependencies"]
    ours = {
        name: {
            extra
            for line in lines
            if Requirement(line).name == PROJECT["name"]
            for extra in Requirement(line).extras
        }
        for name, lines in extras.items()
    }
    users = {"kernels", "lm", "examples", "simulator", "cuda", "server", "docs", "watch"}
    assert set(extras) == users | {
        *("test", "dev", "browser", "fuzz", "oracles", "release", "torch", "all")
    }
    assert ours["test"] == {"server", "simulator", "watch"}
    assert ours["dev"] == {"docs", "examples", "test"}
    assert ours["all"] == {"dev", "lm"}
    names = {Requirement(line).name for line in extras["simulator"]}
    assert names == {"embercoach", "llvmlite", "platformdirs", "pyelftools", "ziglang"}
    assert ours["simulator"] == {"kernels"}
    # MLX for the CPU and for CUDA have files of the same names.
    assert ours["cuda"] == set()


def test_the_packages_under_test_are_those_that_the_tests_describe() -> None:
    from tests.simulator.packages.case import VERSIONS as DESCRIBED

    pinned = [
        Requirement(line) for line in PROJECT["optional-dependencies"]["test"] if "==" in line
    ]
    assert [f"{one.name}{one.specifier}" for one in pinned] == [f"mlx-lm=={DESCRIBED['mlx-lm']}"]
    assert f" mlx-vlm=={DESCRIBED['mlx-vlm']} mlx-audio==" in (ROOT / ".ci" / "run").read_text(
        encoding="utf-8"
    )
    manual = f"pip install --no-deps mlx-vlm=={DESCRIBED['mlx-vlm']} mlx-audio=="
    assert manual in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def build(source: Path, target: str, folder: Path) -> Path:
    """Build one distribution without touching the network."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)],
        cwd=source,
        check=True,
        capture_output=True,
    )
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source distribution."""
    archive = build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))
    folder = tmp_path_factory.mktemp("source")
    subprocess.run(["tar", "-xzf", str(archive), "-C", str(folder)], check=True)
    (top,) = folder.iterdir()
    return top


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as an installer builds it: from the source distribution."""
    return build(source, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.mark.sampled(0)
def test_the_source_distribution_is_complete(source: Path) -> None:
    top = {path.name for path in source.iterdir()}
    assert {"pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md"} <= top
    assert {"embercoach", "xlstm_kernels", "rules", "tests"} <= top
    assert not any(name.startswith(".venv") for name in top)


@pytest.mark.sampled(0)
def test_the_wheel_holds_both_packages_and_the_rules(wheel: Path) -> None:
    assert wheel.name == f"embercoach-{PROJECT['version']}-py3-none-any.whl"
    names = set(ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in names}
    assert tops == {"embercoach", "xlstm_kernels", f"embercoach-{PROJECT['version']}.dist-info"}
    pages = {f"embercoach/rules/{page.name}" for page in (ROOT / "rules").glob("*.md")}
    assert pages
    assert pages <= names
    sources = {
        path.relative_to(ROOT).as_posix()
        for package in ("embercoach", "xlstm_kernels")
        for path in (ROOT / package).rglob("*.py")
    }
    assert sources <= names
    assert {"embercoach/py.typed", "xlstm_kernels/py.typed"} <= names


def test_the_wheel_holds_what_kernels_are_compiled_with(wheel: Path) -> None:
    simulator = ROOT / "embercoach" / "simulator"
    sources = {
        path.relative_to(ROOT).as_posix()
        for suffix in ("*.h", "*.cpp", "*.S", "*.ld")
        for path in simulator.rglob(suffix)
    }
    assert "embercoach/simulator/runtime/interface.h" in sources
    assert sources <= set(ZipFile(wheel).namelist())


def test_the_wheel_holds_the_templates_of_reports(wheel: Path) -> None:
    templates = ROOT / "embercoach" / "report" / "html" / "templates"
    sources = {path.relative_to(ROOT).as_posix() for path in templates.iterdir()}
    assert "embercoach/report/html/templates/report.html" in sources
    assert sources <= set(ZipFile(wheel).namelist())


def test_the_wheel_tells_pytest_of_the_plugin(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("dist-info/entry_points.txt"))
        text = archive.read(name).decode()
    assert "[pytest11]\nembercoach = embercoach.simulator.pytest_plugin" in text
    assert (ROOT / "embercoach" / "simulator" / "pytest_plugin.py").is_file()


def test_the_command_starts() -> None:
    script = PROJECT["scripts"]["embercoach"]
    module, _, function = script.partition(":")
    result = subprocess.run(
        [sys.executable, "-c", f"from {module} import {function}; {function}()", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert PROJECT["version"] in result.stdout
