"""Kernels that go through rows once: a simdgroup takes a row, a lane packs of it."""

from __future__ import annotations

import functools
import math

import mlx.core as mx

from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.mlstm.chunked.chunks import lane_pack
from xlstm_kernels.msl import PACKS

_ROWS = 8


def row_kernel(
    name: str,
    rows: tuple[str, ...],
    outputs: tuple[str, ...],
    each: str,
    *,
    reduced: str = "simd_sum",
    stored: bool = False,
    given: tuple[str, ...] = (),
    finish: str | None = None,
) -> Kernel:
    """A kernel over the rows of arrays (B, NH, NC, R, D).

    Args:
        name: of the kernel.
        rows: inputs of that shape, as they lie.
        outputs: numbers of each row, (B, NH, NC, R) float32.
        each: what is done with `left` elements from `column` on, as statements: they have the pack
            `<input>_pack` of each input, and their share of the row's number is `number`. The row
            is `step` of all.
        reduced: the function that makes one number of those of all lanes.
        stored: the first output is like the first input instead.
        given: inputs of a number for each row, contiguous, or of one for all.
        finish: what one lane makes of the row's number, as statements; None stores it, and with ""
            there is none.
    """
    pointers = "".join(
        f"""
    const auto {one}_row = {one} + place / chunks / heads * {one}_strides[0]
        + place / chunks % heads * {one}_strides[1] + place % chunks * {one}_strides[2]
        + row * {one}_strides[3];"""
        for one in rows
    )
    packs = "".join(
        f"""
        auto {one}_pack = xlstm_load<PACK>(
            {one}_row + column * {one}_strides[4], {one}_strides[4], left);"""
        for one in rows
    )
    finish = f"{outputs[-1]}[step] = number;" if finish is None else finish
    return Kernel(
        name=name,
        inputs=(*rows, *given),
        outputs=outputs,
        launch=functools.partial(_launch, stored, len(outputs) - stored),
        contiguous_inputs=False,
        header=PACKS,
        body=f"""
    const uint lane = thread_index_in_simdgroup;
    const uint heads = {rows[0]}_shape[1];
    const uint chunks = {rows[0]}_shape[2];
    const uint steps = {rows[0]}_shape[3];
    const uint width = {rows[0]}_shape[4];
    const uint row = thread_position_in_grid.y;
    const uint place = threadgroup_position_in_grid.z;
    if (row >= steps) {{
        return;
    }}
    const size_t step = static_cast<size_t>(place) * steps + row;{pointers}
    float number = 0.0f;
    for (uint column = lane * PACK; column < width; column += 32 * PACK) {{
        const uint left = metal::min(width - column, uint(PACK));{packs}
{each}
    }}
    number = {reduced}(number);
    if (lane == 0) {{
        {finish}
    }}
    """,
    )


def _launch(stored: bool, numbers: int, first: mx.array, *_others: mx.array) -> Launch:
    batch, heads, chunks, steps, width = first.shape
    return Launch(
        grid=(32, math.ceil(steps / _ROWS) * _ROWS, batch * heads * chunks),
        threadgroup=(32, _ROWS, 1),
        output_shapes=(*([first.shape] * stored), *([first.shape[:-1]] * numbers)),
        output_dtypes=(*([first.dtype] * stored), *([mx.float32] * numbers)),
        template=(("PACK", min(8, lane_pack(width))),),
    )
