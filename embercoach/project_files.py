"""Files and folders at the root of a project, which mark its boundary."""

from __future__ import annotations

import os

CHECKOUT_FOLDERS = (".git", ".hg")
PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg", ".git", "PKG-INFO")
OWN_FILE = "embercoach.toml"


def boundary(folder: str) -> str | None:
    """The folder that a file may read other files in, from the file's own folder.

    It is the top of the checkout; outside of checkouts the nearest folder up with a project file,
    or else with our configuration. None where nothing marks it. It depends on the files alone and
    on no argument of a run, so that a cached result holds for all runs.
    """
    tiers = (CHECKOUT_FOLDERS, PROJECT_FILES, (OWN_FILE,))
    return next(filter(None, (_nearest(folder, names) for names in tiers)), None)


def _nearest(folder: str, names: tuple[str, ...]) -> str | None:
    while True:
        if any(os.path.lexists(os.path.join(folder, name)) for name in names):  # noqa: PTH118
            return folder
        above = os.path.dirname(folder)  # noqa: PTH120
        if above == folder:
            return None
        folder = above
