"""Layers as `mlx.nn` has them, with the constructors of NX-AI's."""

from __future__ import annotations

from xlstm_kernels.nn.block_stack import xLSTMBlock, xLSTMBlockStack, xLSTMLMModel
from xlstm_kernels.nn.block_stack_config import xLSTMBlockStackConfig, xLSTMLMModelConfig
from xlstm_kernels.nn.blocks import mLSTMBlock, sLSTMBlock
from xlstm_kernels.nn.causal_conv import CausalConv1d
from xlstm_kernels.nn.config import mLSTMLayerConfig, sLSTMLayerConfig, xLSTMConfig
from xlstm_kernels.nn.feed_forward import FeedForward
from xlstm_kernels.nn.mlstm_layer import mLSTMLayer
from xlstm_kernels.nn.model import xLSTM, xLSTMBackbone
from xlstm_kernels.nn.normalization import MultiHeadLayerNorm, MultiHeadRMSNorm, RMSNorm
from xlstm_kernels.nn.slstm_layer import HeadwiseLinear, sLSTMCell, sLSTMLayer, sLSTMState
from xlstm_kernels.nn.up_projection_mlstm import UpProjectionMLSTMLayer, UpProjectionMLSTMState

__all__ = [
    "CausalConv1d",
    "FeedForward",
    "HeadwiseLinear",
    "MultiHeadLayerNorm",
    "MultiHeadRMSNorm",
    "RMSNorm",
    "UpProjectionMLSTMLayer",
    "UpProjectionMLSTMState",
    "mLSTMBlock",
    "mLSTMLayer",
    "mLSTMLayerConfig",
    "sLSTMBlock",
    "sLSTMCell",
    "sLSTMLayer",
    "sLSTMLayerConfig",
    "sLSTMState",
    "xLSTM",
    "xLSTMBackbone",
    "xLSTMBlock",
    "xLSTMBlockStack",
    "xLSTMBlockStackConfig",
    "xLSTMConfig",
    "xLSTMLMModel",
    "xLSTMLMModelConfig",
]
