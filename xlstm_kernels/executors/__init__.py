"""Where kernels run. Each executor joins the registry under the name that `backend=` takes."""

from __future__ import annotations

from xlstm_kernels.executors.cuda import CudaExecutor
from xlstm_kernels.executors.metal import MetalExecutor, generated_source
from xlstm_kernels.executors.placement import StreamLike, on_stream
from xlstm_kernels.executors.registry import (
    NATIVE,
    Executor,
    choose,
    default_backend,
    named,
    names,
    register,
    resolve,
    unregister,
)

__all__ = [
    "NATIVE",
    "CudaExecutor",
    "Executor",
    "MetalExecutor",
    "StreamLike",
    "choose",
    "default_backend",
    "generated_source",
    "named",
    "names",
    "on_stream",
    "register",
    "resolve",
    "unregister",
]

register(MetalExecutor())
register(CudaExecutor())
