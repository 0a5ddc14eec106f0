"""Checkpoints of other packages, as weights and configurations of the models in `nn`."""

from __future__ import annotations

from xlstm_kernels.checkpoints.loading import CheckpointError, load
from xlstm_kernels.checkpoints.origins import convert_weights, create_model
from xlstm_kernels.checkpoints.quantization import quantize

__all__ = ["CheckpointError", "convert_weights", "create_model", "load", "quantize"]
