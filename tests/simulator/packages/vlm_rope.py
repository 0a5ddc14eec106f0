"""mlx_vlm.models.rope_utils: rotations over several axes, inside ``mx.compile``."""

from __future__ import annotations

from types import ModuleType

import mlx.core as mx

from .case import Data, Outcome, kernel_cases, table

MODULE = "mlx_vlm.models.rope_utils"
SECTIONS = (4, 2, 2)


def _heads(data: Data) -> tuple[mx.array, mx.array]:
    return data.normal(2, 3, 4, 24), data.normal(2, 1, 4, 24)


@kernel_cases(
    MODULE,
    "mrope_apply_{pairing}_16_{ndim}d",
    table(
        "name             dtype     style         pairing     ndim",
        "chunked-3d       float32   chunked       half_split  3",
        "interleaved-2d   float32   interleaved   half_split  2",
        "split-select-3d  bfloat16  split_select  even_odd    3",
        "split-select-2d  float16   split_select  even_odd    2",
    ),
)
def positions(m: ModuleType, dtype: str, style: str, pairing: str, ndim: int) -> Outcome:
    data = Data(dtype, 30)
    q, k = _heads(data)
    embedding = m.MRoPERotaryEmbedding(16, mrope_section=SECTIONS, style=style)
    assert embedding.pairing == pairing
    shape = (3, 2, 4) if ndim == 3 else (2, 4)
    at = data.integers(0, 50, *shape, dtype=mx.int32)
    want = m._mrope_apply(
        q, k, at, embedding.inv_freq, embedding.position_selector, embedding.pairing
    )
    return Outcome(embedding.apply_rotary(q, k, at), want)


@kernel_cases(
    MODULE,
    "rotary_apply_{pairing}_half_sectioned_16_4d",
    {
        "half-split": {"dtype": "float32", "pairing": "half_split"},
        "even-odd": {"dtype": "bfloat16", "pairing": "even_odd"},
    },
)
def sections(m: ModuleType, dtype: str, pairing: str) -> Outcome:
    data = Data(dtype, 31)
    q, k = _heads(data)
    cos, sin = data.uniform(3, 2, 4, 16, low=-1.0), data.uniform(3, 2, 4, 16, low=-1.0)
    got = m.apply_multimodal_rotary_pos_emb(
        q, k, cos, sin, mrope_section=SECTIONS, style=f"sectioned_{pairing}"
    )
    want = m._precomputed_rotary(
        q, k, cos, sin, pairing=pairing, cos_layout="half", sectioned=True, mrope_section=SECTIONS
    )
    return Outcome(got, want)


@kernel_cases(
    MODULE,
    "rotary_apply_even_odd_{layout}_preselected_16_3d",
    {
        "half": {"dtype": "float32", "layout": "half"},
        "full": {"dtype": "float32", "layout": "full"},
        "half-float16": {"dtype": "float16", "layout": "half"},
    },
)
def even_odd(m: ModuleType, dtype: str, layout: str) -> Outcome:
    data = Data(dtype, 32)
    q, k = _heads(data)
    cos, sin = data.uniform(2, 4, 16, low=-1.0), data.uniform(2, 4, 16, low=-1.0)
    got = m.apply_rotary_pos_emb_even_odd(q, k, cos, sin, cos_layout=layout)
    want = m._precomputed_rotary(
        q, k, cos, sin, pairing="even_odd", cos_layout=layout, sectioned=False, mrope_section=None
    )
    return Outcome(got, want)


@kernel_cases(
    MODULE, "rotary_apply_even_odd_half_preselected_16_3d", {"float32": {"dtype": "float32"}}
)
def even_odd_gradient(m: ModuleType, dtype: str) -> Outcome:
    """``mx.vjp`` through a compiled ``mx.custom_function`` whose forward is the kernel."""
    data = Data(dtype, 33)
    q, k = _heads(data)
    cos, sin = data.uniform(2, 4, 16, low=-1.0), data.uniform(2, 4, 16, low=-1.0)
    cotangents = list(_heads(data))

    def fast(q: mx.array, k: mx.array) -> list[mx.array]:
        return list(m.apply_rotary_pos_emb_even_odd(q, k, cos, sin, cos_layout="half"))

    def slow(q: mx.array, k: mx.array) -> list[mx.array]:
        switches = {"cos_layout": "half", "sectioned": False, "mrope_section": None}
        return list(m._precomputed_rotary(q, k, cos, sin, pairing="even_odd", **switches))

    got = mx.vjp(fast, [q, k], cotangents)[1]
    return Outcome(got, mx.vjp(slow, [q, k], cotangents)[1])
