"""Rehearse a release on a local index: `python .ci/rehearsal.py [--dist FOLDER]`.

Build the distributions, or take those of FOLDER; check them; upload them with twine to a pypiserver
on this machine; install the wheel, then the source distribution, from there with pip in a new
environment; run the command, also by uvx and pipx without an installation; and render the recipe
for conda. Needs the extra `release`. The dependencies come from the index that pip is configured
with.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
import venv
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
#: Where the index is served.
HOST = "127.0.0.1"
#: Seconds within which the index must answer.
START = 20
#: A program of README with an error, and the rule that reports it.
PROGRAM, RULE = "examples/train_classifier.py", "HOST-PULL-002"


def run(*command: str | Path, code: int = 0, **changed: str) -> str:
    """Run a command and return its output.

    Raises:
        SystemExit: The exit code differs from `code`.
    """
    words = [str(word) for word in command]
    print("$", *words, flush=True)
    done = subprocess.run(
        words, cwd=ROOT, env=os.environ | changed, capture_output=True, text=True, check=False
    )
    if done.returncode != code:
        sys.exit(f"{done.stdout}{done.stderr}exit code must be {code}, got {done.returncode}")
    return done.stdout


def tool(module: str, *arguments: str | Path, code: int = 0, **changed: str) -> str:
    """Run a module of this environment."""
    return run(sys.executable, "-m", module, *arguments, code=code, **changed)


def checked(dist: Path) -> tuple[Path, Path, str]:
    """Check the distributions of a folder; return the wheel, the source distribution, the version.

    Raises:
        SystemExit: There are not exactly one of each, or a check fails.
    """
    (wheel,), (source,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    tool("twine", "check", "--strict", wheel, source)
    tool("check_wheel_contents", wheel)
    return wheel, source, wheel.name.split("-")[1]


@contextmanager
def index(packages: Path) -> Iterator[str]:
    """Serve an empty package index without passwords on a free port; yield its address.

    Raises:
        SystemExit: It does not accept connections within `START` seconds.
    """
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    options = ["-i", HOST, "-p", str(port), "-P", ".", "-a", ".", "--disable-fallback"]
    server = subprocess.Popen([sys.executable, "-m", "pypiserver", "run", *options, str(packages)])
    try:
        end = time.monotonic() + START
        while not listens(port):
            if time.monotonic() > end:
                sys.exit(f"pypiserver must listen on port {port} within {START} s")
            time.sleep(0.1)
        yield f"http://{HOST}:{port}"
    finally:
        server.terminate()
        server.wait()


def listens(port: int) -> bool:
    """Return whether a server accepts connections on a port of this machine."""
    with socket.socket() as connection:
        return connection.connect_ex((HOST, port)) == 0


def requirements() -> list[str]:
    """Return what a build needs."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    requires: list[str] = settings["build-system"]["requires"]
    return requires


def tried(address: str, version: str, form: str, environment: Path) -> None:
    """Install a form of the release from an index into an environment, and run the command."""
    python, embercoach = environment / "bin" / "python", environment / "bin" / "embercoach"
    requirement = f"embercoach=={version}"
    # Without dependencies, so that pip looks for nothing else in the local index, and isolated, so
    # that it looks nowhere else for this: PyPI may have the version too.
    local = ("--isolated", "--index-url", f"{address}/simple/", "--no-deps", "--no-build-isolation")
    install = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*install, *local, "--force-reinstall", form, "embercoach", requirement)
    run(*install, requirement)
    run(python, "-m", "pip", "check")
    if version not in run(embercoach, "--version"):
        sys.exit(f"embercoach --version must print {version}")
    if RULE not in run(embercoach, "check", "--isolated", "--no-cache", PROGRAM, code=1):
        sys.exit(f"embercoach check {PROGRAM} must report {RULE}")


def run_uninstalled(address: str, wheel: Path, version: str, folder: Path) -> None:
    """Run the release as `uvx` and `pipx run` do, with their files in a folder."""
    check = ("embercoach", "check", "--isolated", "--no-cache", PROGRAM)
    # uv takes a package from this index if it has it, and what it needs from the default one.
    index = ("--index", f"{address}/simple/", "--from", f"embercoach=={version}")
    cache = str(folder / "uv")
    outputs = [
        tool("uv", "tool", "run", "--isolated", *index, *check, code=1, UV_CACHE_DIR=cache),
        tool("pipx", "run", "--spec", wheel, *check, code=1, PIPX_HOME=str(folder / "pipx")),
    ]
    if not all(RULE in output for output in outputs):
        sys.exit(f"uvx and pipx must report {RULE} in {PROGRAM}")


def render_recipe(version: str) -> None:
    """Render the recipe for conda.

    Raises:
        SystemExit: it is of another version.
        RattlerBuildError: it is invalid.
    """
    from rattler_build import Stage0Recipe, VariantConfig

    # conda-forge sets the lowest Python that it supports.
    variants = VariantConfig({"python_min": ["3.10"]})
    (rendered,) = Stage0Recipe.from_file(ROOT / ".conda" / "recipe.yaml").render(variants)
    if str(rendered.recipe.package.version) != version:
        sys.exit(f"version of .conda/recipe.yaml must be {version}")


def main(arguments: list[str]) -> int:
    """Rehearse; exit with the output of the first step that fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=Path, metavar="FOLDER", help="distributions that are built")
    given = parser.parse_args(arguments).dist
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dist = given.resolve() if given else folder / "dist"
        if given is None:
            tool("hatchling", "build", "-d", dist)
        wheel, source, version = checked(dist)
        (folder / "index").mkdir()
        with index(folder / "index") as address:
            upload = ["--repository-url", address, "-u", "nobody", "-p", "nothing"]
            tool("twine", "upload", "--disable-progress-bar", *upload, wheel, source)
            environment = folder / "environment"
            venv.create(environment, with_pip=True)
            tried(address, version, "--only-binary", environment)
            # The build's requirements, as the local index has none.
            python = environment / "bin" / "python"
            run(python, "-m", "pip", "install", "--quiet", *requirements())
            tried(address, version, "--no-binary", environment)
            run_uninstalled(address, wheel, version, folder)
    render_recipe(version)
    print(f"embercoach {version} can be released")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
