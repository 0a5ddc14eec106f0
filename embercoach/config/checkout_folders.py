"""Which checkout a path belongs to: the folder that a report counts by."""

from __future__ import annotations

from pathlib import Path

from embercoach.config.configuration_files import folder_of
from embercoach.project_files import CHECKOUT_FOLDERS, OWN_FILE, PROJECT_FILES

#: What stands at the top of a checkout.
MARKS = (*PROJECT_FILES, *CHECKOUT_FOLDERS, OWN_FILE)


class Checkouts:
    """Finds the tops of checkouts; each folder is looked at once."""

    def __init__(self) -> None:
        self._marked: dict[Path, bool] = {}

    def of(self, path: str) -> Path:
        """The nearest folder at or above a path that looks like a top, absolute.

        Where there is none it is the folder itself, so that unpacked packages count each by itself,
        and for a file the current folder if it lies there.
        """
        folder = folder_of(path)
        for candidate in (folder, *folder.parents):
            if self._is_marked(candidate):
                return candidate
        here = Path.cwd()
        is_file = Path(path).is_file()
        return here if is_file and folder.is_relative_to(here) else folder

    def _is_marked(self, folder: Path) -> bool:
        marked = self._marked.get(folder)
        if marked is None:
            marked = self._marked[folder] = any((folder / name).exists() for name in MARKS)
        return marked
