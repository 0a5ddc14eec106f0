"""What the tests of the norms of heads call, with which shapes, and what goes with x."""

from __future__ import annotations

import itertools

from xlstm_kernels.norm.multi_head_norm import multi_head_layer_norm, multi_head_rms_norm

NORMS = {"layer": multi_head_layer_norm, "rms": multi_head_rms_norm}
SHAPES = [
    (2, 3, 2, 130),
    (1, 1, 1, 1),
    (1, 1, 3, 2),
    (0, 2, 3, 4),
    (2, 0, 3, 4),
    (2, 3, 0, 4),
    (2, 3, 4, 0),
    (2, 5, 3, 7),
    (1, 2, 2, 512),
    (1, 1, 2, 4096),
]
#: More than threads hold in registers: what is left is read again.
WIDE = (1, 1, 2, 8200)
EXTRAS = ("weight", "bias", "gate")
COMBINATIONS = [names for count in range(4) for names in itertools.combinations(EXTRAS, count)]


def extra_shapes(shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    batch, length, heads, columns = shape
    flat = (heads * columns,)
    return {"weight": flat, "bias": flat, "gate": (batch, length, *flat)}


def widened(extras, wide):
    return {name: wide(array) for name, array in extras.items()}
