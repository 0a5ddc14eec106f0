"""mlx-lm's commands for xLSTM models: `python -m xlstm_kernels.mlx_lm generate --model ...`."""

from __future__ import annotations

import sys

from xlstm_kernels.mlx_lm import register


def run() -> None:
    """Run the command that the process was started with; exit with 2 without mlx-lm."""
    try:
        from mlx_lm.cli import main
    except ImportError as error:
        sys.stderr.write(f"Error: mlx-lm is needed: pip install 'embercoach[lm]' ({error})\n")
        raise SystemExit(2) from error
    register()
    main()


if __name__ == "__main__":
    run()
