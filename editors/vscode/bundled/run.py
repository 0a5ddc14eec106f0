"""Run the EmberCoach of the extension: `python -I run.py ARGUMENTS`; its packages are in `libs`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "libs"))

from embercoach.cli import main

if __name__ == "__main__":
    main()
