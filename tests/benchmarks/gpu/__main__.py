"""The kernel pack on a GPU: ``python -m tests.benchmarks.gpu --check``.

Needs Python, NumPy and MLX alone. On a machine without a GPU, ``--backend native`` checks the
operations of MLX and the script.
"""

from __future__ import annotations

import argparse
import os
import sys

from tests.benchmarks.gpu.cases import GROUPS
from tests.benchmarks.gpu.check import DTYPES, check
from xlstm_kernels import executors


def main() -> int:
    """Run what the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gpu", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with float64 definitions")
    parser.add_argument("--backend", choices=executors.names(), default=executors.resolve(None))
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--group", choices=GROUPS, action="append", help="one or more; default all")
    parser.add_argument("--jobs", type=int, default=max(1, min(10, (os.cpu_count() or 1) // 2)))
    options = parser.parse_args()
    if not options.check:
        parser.error("nothing to do: give --check")
    return check(options.backend, options.dtype, options.group or list(GROUPS), options.jobs) > 0


if __name__ == "__main__":
    sys.exit(main())
