"""Exit codes."""

from __future__ import annotations

CLEAN = 0
FOUND = 1
#: Something was not checked, or the command line or configuration is invalid.
INCOMPLETE = 2
INTERRUPTED = 130
