"""What stands at the top of a project, so that its files are told from those of others."""

from __future__ import annotations

PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg", ".git", "PKG-INFO")
