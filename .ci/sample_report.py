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
        subprocess.CalledProcessError: pip or the report failed; stderr has the reason.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _unpack(folder)
        output = folder / "report.html"
        command = ["-m", "embercoach", "report", "--isolated", "--no-cache", "-q"]
        subprocess.run(
            [sys.executable, *command, "-o", str(output), FOLDER], cwd=folder, check=True
        )
        return output.read_text(encoding="utf-8"), (folder / LICENCE).read_text(encoding="utf-8")


def _unpack(folder: Path) -> None:
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{PACKAGE}=={VERSION} --hash={DIGEST}\n", encoding="utf-8")
    command = ["-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    subprocess.run(
        [sys.executable, *command, "--require-hashes", "-r", str(requirements), "-d", str(folder)],
        check=True,
    )
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
