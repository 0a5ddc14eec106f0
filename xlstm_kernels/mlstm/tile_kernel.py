"""The kernel of `tiles`: its names and its launch; the text is in `tile_body`."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.mlstm.tile_body import tile_body
from xlstm_kernels.msl import PAIRS, STAGING

if TYPE_CHECKING:
    from xlstm_kernels.mlstm.tiles import Tiles

_ROWS = 32
_COLUMNS = 64
_THREADS = 128


def tile_kernel(tiles: Tiles) -> Kernel:
    """The kernel of `tiles`.

    Its inputs are `tiles.inputs`: q, k (B, NH, S, W), v and `primal` (B, NH, S, V) through their
    strides; the rest contiguous: gates, inverse and bias (B, NH, S),
    states (B, NH, NC or more, W, V) or (B, NH, NC or more, V, W), vectors (B, NH, as many, V), or W
    where they belong to the normaliser. Its call takes `chunk_size` as a setting too.
    """
    return Kernel(
        name=tiles.name,
        inputs=tiles.inputs,
        outputs=(
            "result",
            *(("row_sums",) if tiles.normaliser else ()),
            *(("row_dots", "own_dots") if tiles.dotted else ()),
        ),
        launch=functools.partial(_launch, tiles),
        contiguous_inputs=False,
        header=PAIRS + STAGING,
        body=tile_body(tiles),
    )


def _launch(
    tiles: Tiles, q: mx.array, k: mx.array, v: mx.array, *others: mx.array, chunk_size: int
) -> Launch:
    """A threadgroup for 32 rows and 64 columns of the result."""
    batch, heads, steps, _ = q.shape
    columns = math.ceil(v.shape[-1] / _COLUMNS)
    row_tiles = math.ceil(steps / chunk_size) * math.ceil(chunk_size / _ROWS)
    shapes: list[tuple[int, ...]] = [(batch, heads, steps, v.shape[-1])]
    if tiles.normaliser:
        shapes.append((batch, heads, steps))
    if tiles.dotted:
        shapes += [(columns, batch, heads, steps)] * 2
    return Launch(
        grid=(columns * _THREADS, row_tiles, batch * heads),
        threadgroup=(_THREADS, 1, 1),
        output_shapes=tuple(shapes),
        output_dtypes=(v.dtype, *(mx.float32 for _ in shapes[1:])),
        template=(("T", v.dtype),),
    )
