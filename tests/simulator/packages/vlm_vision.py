"""mlx_vlm's kernels on pictures, activations and masks."""

from __future__ import annotations

from types import ModuleType

import mlx.core as mx
import numpy as np

from .case import Data, Flaw, Outcome, dtypes, kernel_cases

PICTURES = "mlx_vlm.models.kernels"


@kernel_cases(
    PICTURES,
    "nearest_interpolation",
    {
        "up": {"dtype": "float32", "size": (10, 13)},
        "down": {"dtype": "float32", "size": (3, 2)},
        "float16": {"dtype": "float16", "size": (10, 13)},
    },
    tolerance=0.0,
)
def nearest(m: ModuleType, dtype: str, size: tuple[int, int]) -> Outcome:
    x = Data(dtype, 20).normal(2, 3, 5, 7)
    return Outcome([m.nearest_interpolate(x, size=size)], [m._nearest_interpolate_mlx(x, *size)])


@kernel_cases(
    PICTURES,
    "bicubic_interpolation_antialias",
    {
        "up": {"size": (9, 11), "align_corners": False, "antialias": False},
        "corners": {"size": (9, 11), "align_corners": True, "antialias": False},
        "antialias": {"size": (3, 4), "align_corners": False, "antialias": True},
    },
    tolerance=1e-4,
)
def bicubic(m: ModuleType, size: tuple[int, int], align_corners: bool, antialias: bool) -> Outcome:
    x = Data(seed=21).normal(1, 2, 6, 7)
    switches = {"align_corners": align_corners, "antialias": antialias}
    got = m.bicubic_interpolate(x, size=size, **switches)
    return Outcome([got], [m._bicubic_interpolate_mlx(x, *size, **switches)])


@kernel_cases(PICTURES, "grid_sample", dtypes("float32", "float16", reach=0.7))
# The four neighbours are read before the kernel asks whether they exist.
@kernel_cases(
    PICTURES,
    "grid_sample",
    {f"border-{name}": {"dtype": name, "reach": 1.0} for name in ("float32", "bfloat16")},
    flaws=[
        Flaw("out-of-bounds", 38 + row, f"T I_{corner} = x[base_idx + {at}];")
        for row, (corner, at) in enumerate(
            (corner, f"iy_{corner} * h_stride + ix_{corner} * w_stride")
            for corner in ("nw", "ne", "sw", "se")
        )
    ],
)
def grid_sample(m: ModuleType, dtype: str, reach: float) -> Outcome:
    """Samples on a grid of 3 by 3 points from ``-reach`` to ``reach``."""
    x = Data(dtype, 22).normal(1, 6, 8, 2)
    steps = np.linspace(-reach, reach, 3, dtype=np.float32)
    points = mx.array(np.stack(np.meshgrid(steps, steps), axis=-1)[None])
    return Outcome([m.grid_sample(x, points)], [m._grid_sample_mlx(x, points).astype(x.dtype)])


@kernel_cases(PICTURES, "separable_interpolate", dtypes("float32", "float16"), tolerance=2e-5)
def separable(m: ModuleType, dtype: str) -> Outcome:
    data = Data(dtype, 23)
    x = data.normal(2, 6, 5, 3)
    taps = (
        data.integers(0, 6, 4, 3, dtype=mx.int32),
        data.uniform(4, 3, dtype=mx.float32),
        data.integers(0, 5, 7, 2, dtype=mx.int32),
        data.uniform(7, 2, dtype=mx.float32),
    )
    got = m.separable_interpolate(x, *taps)
    want = m._separable_interpolate_mlx(x.astype(mx.float32), *taps)
    return Outcome([got], [want])


@kernel_cases(
    "mlx_vlm.models.deepseek_v41.fakequant",
    "deepseek_v41_fp8_roundtrip",
    dtypes("float32", "float16", "bfloat16"),
    tolerance=0.0,
)
def fp8_roundtrip(m: ModuleType, dtype: str) -> Outcome:
    x = Data(dtype, 24).normal(3, 5, 64, scale=3.0)
    with mx.stream(mx.cpu):
        blocks = x.astype(mx.float32).reshape(3, 5, 2, 32)
        amax = mx.maximum(mx.max(mx.abs(blocks), axis=-1, keepdims=True), 1e-4)
        scale = m._ue8m0_scale(amax, m.FP8_MAX_INV)
        clipped = mx.clip(blocks / scale, -m.FP8_MAX, m.FP8_MAX)
        want = (mx.from_fp8(mx.to_fp8(clipped), mx.float32) * scale).reshape(x.shape)
    return Outcome([m.fake_quant_fp8_ue8m0(x)], [want.astype(x.dtype)])


@kernel_cases(
    "mlx_vlm.structured",
    "mlx_vlm_llguidance_mask",
    dtypes("float32", "float16", "bfloat16"),
    tolerance=0.0,
)
def grammar_mask(m: ModuleType, dtype: str) -> Outcome:
    data = Data(dtype, 25)
    logits = data.normal(2, 77)
    words = data.integers(-(2**31), 2**31, 2, 3, dtype=mx.int32)
    bits = (words[:, :, None] >> mx.arange(32)) & 1
    allowed = bits.reshape(2, 96)[:, :77].astype(mx.bool_)
    want = mx.where(allowed, logits, mx.array(-float("inf"), dtype=logits.dtype))
    return Outcome([m._apply_llguidance_mask(logits, words)], [want])


YUV = {
    "scalar": {"width": 6, "colorspace": 1, "format": "yuv420p"},
    "neon": {"width": 16, "colorspace": 5, "format": "yuv420p"},
    "full-range": {"width": 6, "colorspace": 2, "format": "yuvj420p"},
}


@kernel_cases(
    "mlx_vlm.models.embedding_gemma2._video_kernel",
    "embedding_gemma2_yuv_to_rgb",
    YUV,
    tolerance=0.0,
)
def yuv_to_rgb(m: ModuleType, width: int, colorspace: int, format: str) -> Outcome:  # noqa: A002
    """Against the definition of limited and full range in floating point, 4 of 255 apart."""
    rng = np.random.default_rng(26)
    luma = rng.integers(16, 236, (4, width), dtype=np.uint8)
    chroma = [rng.integers(64, 192, (2, width // 2), dtype=np.uint8) for _ in "uv"]
    meta = {
        "colorspace": colorspace,
        "format": format,
        "depth": 8,
        "log2_chroma_w": 1,
        "log2_chroma_h": 1,
    }
    got = m.yuv_to_rgb([luma, *chroma], meta)
    red_v, blue_u, green_u, green_v = (c / 65536 for c in m.COEFFICIENTS[colorspace])
    full = format.startswith("yuvj")
    y = luma.astype(np.float64) if full else (luma - 16.0) * 255 / 219
    u, v = (np.kron(c.astype(np.float64) - 128, np.ones((2, 2))) for c in chroma)
    shrink = 224 / 255 if full else 1.0
    rgb = [y + shrink * red_v * v, 0 * y, y + shrink * blue_u * u]
    rgb[1] = y - shrink * (green_u * u + green_v * v)
    want = np.clip(np.stack(rgb, axis=-1), 0, 255)
    away = mx.abs(got.astype(mx.float32) - mx.array(want.astype(np.float32)))
    return Outcome([away > 4], [mx.zeros(away.shape, dtype=mx.bool_)])
