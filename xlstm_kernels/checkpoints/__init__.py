"""Checkpoints of other packages, as weights and configurations of the models in `nn`."""

from __future__ import annotations

from xlstm_kernels.checkpoints.origins import convert_weights, create_model

__all__ = ["convert_weights", "create_model"]
