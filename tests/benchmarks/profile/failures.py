"""Why predictions fail, by case."""

from __future__ import annotations

from collections.abc import Mapping

_ALONE = "One simdgroup a threadgroup: 140 cycles for each dependent step; the cause is not known."
_SERIAL = "The address of a read depends on the read before; the model overlaps reads."
_ORDERED = (
    "Reads of an iteration wait for its reductions and writes; the model overlaps more of them."
)
REASONS: Mapping[str, str] = {
    "integer64": "Constants were fitted to counts that took 32-bit indices for 64-bit integers.",
    **dict.fromkeys((f"solve_triangular_{s}" for s in ("1024x16", "64x64", "8x128")), _ALONE),
    **dict.fromkeys(("pointer_chase_cache", "pointer_chase_memory"), _SERIAL),
    **dict.fromkeys(
        ("lm_gated_delta_64_narrow", "mlstm_chunkwise_chunk_rows", "softmax_16x65536"), _ORDERED
    ),
    "lm_wkv7": "Each step needs the sums of the step before; the model overlaps more of its reads.",
    "rsqrt_chain": "Probably more instructions for a reciprocal square root than the one counted.",
    "rms_norm_256": "One round of threadgroups: start and first read are not overlapped.",
    "vlm_one_bit": "Few simdgroups, each with a long chain of dependent bit operations.",
    "soft_cap_256": "One round of threadgroups: start and first read are not overlapped.",
    "gather_in_cache": "Scattered reads of 4 bytes cost half of what whole lines cost.",
}
