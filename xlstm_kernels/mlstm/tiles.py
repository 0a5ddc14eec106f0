"""Products within chunks: the kernel that outputs and gradients of the chunkwise mLSTM share.

All have one shape. With the weight P of a row r and a column c of a chunk (see `gates`), a state M
of the chunk and the vector w beside it,

    out_r = sum_c ((x_r . y_c) + b) P_rc z_c + e_r (x_r M + b_r w)

where x, y and z are rows of the inputs times a factor of their step, c runs over the steps up to r
or from r on, and e_r is the weight of the row in the state. `Tiles` says what is what.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Factor(Enum):
    """What the rows of an input are multiplied by, in Metal; zero leaves a row out, NaN or not."""

    QUERY = "metal::isfinite(least_normaliser[step]) ? root : 0.0f"
    KEY = "admitted[step] > -INFINITY ? 1.0f : 0.0f"
    COTANGENT = "inverse[step]"


@dataclass(frozen=True, slots=True)
class Tiles:
    """What one kernel of this shape computes.

    Attributes:
        name: of the kernel.
        rows: factor of x.
        columns: factor of y.
        sums: factor of z.
        past: columns are the steps up to the row's; else those from the row's on.
        carried: whether there is a state at all. Rows that look back read the state before the
            chunk, by exp(G); rows that look ahead that behind it, by their weight in it.
        transposed: whether the state lies as (columns of x, columns of z) or the other way round.
        bias: whose step b belongs to: "row", "column", or "" for none.
        vector: whether w is added; times b of the row, or times one.
        normaliser: divide by max(|sum of the weights + e_r x_r w|, floor) + eps; the sum is an
            output too.
        scaled: multiply the result by 1 / sqrt(DK).
        dotted: give each row's dot products with a further input, by column tiles: of the result
            but for the row's own step, and of what that adds.
    """

    name: str
    rows: Factor
    columns: Factor
    sums: Factor
    past: bool
    carried: bool = True
    transposed: bool = False
    bias: str = ""
    vector: bool = False
    normaliser: bool = False
    scaled: bool = False
    dotted: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the kernel's inputs."""
        cotangent = Factor.COTANGENT in {self.rows, self.columns, self.sums}
        return (
            *("row_input", "column_input", "summed_input", "chunk_size"),
            *("prefix", "prefix_rest", "admitted", "least_normaliser"),
            *(("inverse",) if cotangent else ()),
            *(("bias",) if self.bias else ()),
            *(("states",) if self.carried else ()),
            *(("vectors",) if self.carried and (self.vector or self.normaliser) else ()),
            *(("epsilon",) if self.normaliser else ()),
            *(("dotted_input",) if self.dotted else ()),
        )
