"""The tile kernel that computes outputs and gradients of the chunkwise mLSTM.

All of them have one form. With the weight P of a row r and a column c of a chunk (see `gates`), a
state M of the chunk and its vector w,

    out_r = sum_c ((q_r . k_c) + b) P_rc v_c + e_r (q_r M + b_r w)

where q, k and v are rows of the inputs times a factor of their step, c runs over the steps up to r
or from r on, and e_r is the weight of the row in the state. The names are those of the outputs'
kernel; a gradient's kernel gets other arrays in these places, as `chunk_gradients` passes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Factor(Enum):
    """Factor of an input's rows, in Metal; zero leaves a row out, even if it has NaN."""

    QUERY = "metal::isfinite(least_normaliser[step]) ? root : 0.0f"
    KEY = "admitted[step] > -INFINITY ? 1.0f : 0.0f"
    COTANGENT = "inverse[step]"


@dataclass(frozen=True, slots=True)
class Tiles:
    """Parameters of one kernel of this form.

    Attributes:
        name: of the kernel.
        rows: factor of q.
        columns: factor of k.
        sums: factor of v.
        past: columns are the steps up to the row's; else those from the row's on.
        carried: whether there is a state at all. With `past`, rows read the state before the
            chunk, by exp(G); else the one after it, by their weight in it.
        transposed: whether the state has shape (width of v, width of q), not the reverse.
        bias: whose step b belongs to: "row", "column", or "" for none.
        vector: whether w is added; times b of the row, or times one.
        normaliser: divide by max(|sum of the weights + e_r q_r w|, floor) + eps; the sum is an
            output too.
        scaled: multiply the result by 1 / sqrt(DK).
        dotted: also return each row's dot products with the input `primal`, by column tiles: of
            the result without the row's own step, and of the own step's part.
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
            *("q", "k", "v", "chunk_size"),
            *("prefix", "prefix_rest", "admitted", "least_normaliser"),
            *(("inverse",) if cotangent else ()),
            *(("bias",) if self.bias else ()),
            *(("states",) if self.carried else ()),
            *(("vectors",) if self.carried and (self.vector or self.normaliser) else ()),
            *(("epsilon",) if self.normaliser else ()),
            *(("primal",) if self.dotted else ()),
        )
