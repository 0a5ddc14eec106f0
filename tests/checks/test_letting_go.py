"""What was checked is let go of: a run over many files, or a server, would keep all their trees."""

from __future__ import annotations

import gc
from pathlib import Path

from embercoach.analysis.project.module import Module
from embercoach.checks import Project, check_source

SOURCE = """\
import mlx.core as mx

kernel = mx.fast.metal_kernel(
    name="k", input_names=["x"], output_names=["y"], source="y[0] = x[0];"
)


def double(x: mx.array) -> mx.array:
    return kernel(
        inputs=[x],
        grid=(1, 1, 1),
        threadgroup=(1, 1, 1),
        output_shapes=[(1,)],
        output_dtypes=[x.dtype],
    )[0] * mx.array(2.0)
"""


def test_few_modules_stay() -> None:
    project = Project()
    path = Path("/nowhere/file.py")
    for number in range(16):
        check_source(f"{SOURCE}# {number}\n", path, project)
    gc.collect()
    alive = [one for one in gc.get_objects() if isinstance(one, Module) and one.path == path]
    assert len(alive) <= 8  # some caches keep the last few
