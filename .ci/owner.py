"""Replace the repository's owner in all tracked files: `python .ci/owner.py NAME`.

The owner of today is in `pyproject.toml`, in the address of the repository.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: How files name the repository: its address, its action, and its site.
FORMS = ("github.com/{}/embercoach", "uses: {}/embercoach@", "https://{}.github.io/embercoach")


def owner(root: Path) -> str:
    """Return the owner in the address of the repository."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return urlsplit(settings["project"]["urls"]["Repository"]).path.split("/")[1]


def replaced(text: str, old: str, new: str) -> str:
    """Return a text with the new owner in all addresses of the repository."""
    for form in FORMS:
        text = text.replace(form.format(old), form.format(new))
    return text


def main(arguments: list[str]) -> int:
    """Write the files of the checkout in the current folder that name the owner, and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", metavar="NAME", help="the user or the organization on GitHub")
    new, root = parser.parse_args(arguments).name, Path.cwd()
    old = owner(root)
    listed = subprocess.run(["git", "grep", "-lzI", "embercoach"], capture_output=True, check=True)
    for name in listed.stdout.decode().rstrip("\0").split("\0"):
        before = (root / name).read_bytes()
        after = replaced(before.decode(), old, new).encode()
        if after != before:
            (root / name).write_bytes(after)
            print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
