"""``python -m embercoach``."""

from __future__ import annotations

from embercoach.cli import main

if __name__ == "__main__":
    main()
