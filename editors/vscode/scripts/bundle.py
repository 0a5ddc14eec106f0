"""Fill `bundled/libs` with EmberCoach and its dependencies: `python scripts/bundle.py [PLATFORM]`.

PLATFORM is one of `TARGETS` (default: linux-x64), as `vsce package --target` names it. Compiled
modules have the version of Python in their names, so that one folder serves all versions.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

EXTENSION = Path(__file__).resolve().parents[1]
LIBRARIES = EXTENSION / "bundled" / "libs"
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
#: The platforms of wheels that a target takes.
TARGETS = {
    "darwin-arm64": ("macosx_11_0_arm64", "macosx_12_0_arm64"),
    "darwin-x64": ("macosx_10_12_x86_64", "macosx_10_13_x86_64", "macosx_11_0_x86_64"),
    "linux-arm64": ("manylinux_2_17_aarch64", "manylinux2014_aarch64", "manylinux_2_28_aarch64"),
    "linux-x64": ("manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux_2_28_x86_64"),
    "win32-x64": ("win_amd64",),
}


def pip(*arguments: str) -> None:
    """Run pip of this interpreter."""
    subprocess.run([sys.executable, "-m", "pip", "-q", *arguments], check=True)


def main(target: str = "linux-x64") -> None:
    """Build EmberCoach's wheel, and install it for each Python into one folder.

    Raises:
        KeyError: the target is unknown.
        subprocess.CalledProcessError: pip fails.
    """
    platforms = [word for name in TARGETS[target] for word in ("--platform", name)]
    shutil.rmtree(LIBRARIES, ignore_errors=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pip("wheel", "--no-deps", "-w", name, str(EXTENSION.parents[1]))
        (wheel,) = folder.glob("embercoach-*.whl")
        for python in PYTHONS:
            libraries = folder / python
            version = ("--python-version", python, "--only-binary", ":all:")
            pip("install", "-t", str(libraries), *version, *platforms, f"{wheel}[server]")
            shutil.copytree(libraries, LIBRARIES, dirs_exist_ok=True)
    shutil.rmtree(LIBRARIES / "bin", ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
