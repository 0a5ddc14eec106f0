"""A hook of MkDocs: publish the report of a package from PyPI as ``sample-report/``.

The report contains sources of the package, so that its licence is published with it. pip takes the
package from its index, by version and digest; it is read, and never installed or run.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

PACKAGE, VERSION = "mlx-lm", "0.32.2"
DIGEST = "sha256:5c0991248cfff5872503d74f466d2532dd8cb7fb3670cb9be7a06d7305dadc04"
FOLDER = "mlx_lm"
LICENCE = f"{FOLDER}-{VERSION}.dist-info/licenses/LICENSE"
#: The addresses in the site.
REPORT_URI = "sample-report/index.html"
LICENCE_URI = "sample-report/LICENSE.txt"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the report and the licence of the package."""
    report, licence = sample()
    files.append(File.generated(config, REPORT_URI, content=report))
    files.append(File.generated(config, LICENCE_URI, content=licence))
    return files


@functools.cache
def sample() -> tuple[str, str]:
    """Return the report of the package, and the text of its licence.

    Raises:
        PluginError: pip or the report failed.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _unpack(folder)
        output = folder / "report.html"
        command = ["-m", "embercoach", "report", "--isolated", "--no-cache", "--no-plugins", "-q"]
        _run(*command, "-o", str(output), FOLDER, cwd=folder)
        return output.read_text(encoding="utf-8"), (folder / LICENCE).read_text(encoding="utf-8")


def _unpack(folder: Path) -> None:
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{PACKAGE}=={VERSION} --hash={DIGEST}\n", encoding="utf-8")
    command = ["-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    _run(*command, "--require-hashes", "-r", requirements.name, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)


def _run(*arguments: str, cwd: Path) -> None:
    """Run Python in a folder; its output is shown only if it fails."""
    ran = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise PluginError(f"no sample report of {PACKAGE} {VERSION}:\n{ran.stderr}")
