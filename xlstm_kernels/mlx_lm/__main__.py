"""mlx-lm's commands for xLSTM models: `python -m xlstm_kernels.mlx_lm generate --model ...`."""

from __future__ import annotations

from mlx_lm.cli import main

from xlstm_kernels.mlx_lm import register

if __name__ == "__main__":
    register()
    main()
