"""The container image and the conda recipe agree with pyproject.toml."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pathspec
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.examples.programs import ROOT
from tests.repository.test_package import PROJECT, SETTINGS

RECIPE: dict[str, Any] = yaml.safe_load((ROOT / ".conda" / "recipe.yaml").read_text("utf-8"))
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def requirements(lines: list[str]) -> dict[str, str]:
    """The versions of distributions by their names, without their markers."""
    parsed = [Requirement(line.replace(" ", "", 1)) for line in lines]
    return {canonicalize_name(one.name): str(one.specifier) for one in parsed}


def packages(section: str) -> dict[str, str]:
    """The recipe's requirements of a section, but for Python and pip."""
    lines = [line for line in RECIPE["requirements"][section] if line.split()[0] not in _TOOLS]
    return requirements(lines)


_TOOLS = ("python", "pip")


def test_the_recipe_needs_what_the_project_needs() -> None:
    assert packages("run") == requirements([line.split(";")[0] for line in PROJECT["dependencies"]])
    assert packages("host") == requirements(SETTINGS["build-system"]["requires"])


def test_the_recipe_is_of_this_version() -> None:
    assert RECIPE["context"]["version"] == PROJECT["version"]
    assert RECIPE["about"]["license"] == PROJECT["license"]
    (command,) = RECIPE["build"]["python"]["entry_points"]
    name, target = command.split(" = ")
    assert PROJECT["scripts"] == {name: target}


def test_the_image_is_built_from_the_package_alone() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    # As for Docker, the last line that matches decides.
    ignored = pathspec.PathSpec.from_lines("gitignore", lines)
    command = ["git", "ls-files"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    kept = {
        path.split("/")[0] for path in ignored.match_files(listed.stdout.split("\n"), negate=True)
    }
    wheel = SETTINGS["tool"]["hatch"]["build"]["targets"]["wheel"]
    built = {*wheel["packages"], *wheel["force-include"]}
    assert kept - {""} == {"LICENSE", "README.md", "pyproject.toml"} | built
    assert ignored.match_file("embercoach/__pycache__/entry.pyc")
    assert ignored.match_file(".git/config")


def test_the_images_run_the_command_as_an_unprivileged_user() -> None:
    stages = re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE)
    assert stages == ["source", "source-simulator", "runtime", "simulator", "linter"]
    runtime = DOCKERFILE.partition(" AS runtime")[2].partition("FROM")[0]
    assert re.search(r"^USER 1000$", runtime, re.MULTILINE)
    assert 'ENTRYPOINT ["embercoach"]' in runtime


@pytest.mark.parametrize("extra", ["server", "simulator"])
def test_the_images_install_extras_that_exist(extra: str) -> None:
    assert f'".[{extra}]"' in DOCKERFILE
    assert extra in PROJECT["optional-dependencies"]
