"""FFT-NORM: what is flagged, what is not, and where."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tests.checks.findings import codes

MISMATCH, DOUBLE, LENGTH = "FFT-NORM-001", "FFT-NORM-002", "FFT-NORM-003"


def function(body: str, parameters: str = "x: mx.array, keep: mx.array, size: int") -> str:
    return f"def work({parameters}):\n" + indent(dedent(body).strip(), "    ")


@pytest.mark.parametrize(
    "body",
    [
        'return mx.fft.ifft(mx.fft.fft(x), None, -1, "ortho")',
        'return mx.fft.ifft2(mx.fft.fft2(x, norm="ortho"))',
        'return mx.fft.ifft(keep * mx.fft.fft(x), norm="forward")',
        'return mx.fft.ifft(mx.multiply(mx.fft.fft(x), keep), norm="forward")',
        'return mx.fft.ifft(mx.conj(mx.fft.fft(x)), norm="forward")',
        'return mx.fft.ifft(mx.fft.fft(x)[1:3, :], norm="forward")',
        'return mx.fft.ifft2(mx.fft.fft2(x)[0, :, :], norm="forward")',
        """
        spectrum = mx.fft.fft(x)
        spectrum[..., size:] = 0
        return mx.fft.ifft(spectrum, norm="forward")
        """,
        """
        spectrum = mx.fft.fft(x)
        spectrum *= keep
        return mx.fft.ifft(spectrum[:, None], norm="forward")
        """,
        """
        signal = mx.fft.rfft(x, n=size)
        response = mx.fft.rfft(keep, n=size)
        return mx.fft.irfft(signal * response, n=size, norm="forward")
        """,
    ],
)
def test_mismatched_norms(body: str) -> None:
    assert codes(function(body), "FFT-NORM") == [MISMATCH]


@pytest.mark.parametrize(
    "body",
    [
        'return mx.fft.ifft(mx.fft.fft(x, **size), norm="forward")',
        # What is left of a spectrum.
        'return mx.fft.ifft(mx.fft.fft(x)[..., ::2], norm="forward")',
        'return mx.fft.ifft(mx.fft.fft(x, axis=1)[0, :], axis=1, norm="forward")',
        # Scaled by hand, before or after, by a number or by what may be one.
        'return mx.divide(mx.fft.ifft(mx.fft.fft(x), norm="forward"), size)',
        'return 0.125 * mx.fft.ifft(mx.fft.fft(x), norm="forward").real',
        """
        spectrum = mx.fft.fft(x)
        spectrum[...] /= size
        return mx.fft.ifft(spectrum, norm="forward")
        """,
        """
        spectrum = mx.fft.fft(x)
        spectrum[:] = spectrum / size
        return mx.fft.ifft(spectrum, norm="forward")
        """,
        """
        y = mx.fft.ifft(mx.fft.fft(x), norm="forward")
        y[...] /= size
        return y
        """,
        # A biased autocorrelation: both factors carry the root of 1 / n.
        """
        spectrum = mx.fft.rfft(x, n=size, norm="ortho")
        return mx.fft.irfft(spectrum * mx.conj(spectrum), n=size)
        """,
    ],
)
def test_no_mismatched_norms(body: str) -> None:
    assert codes(function(body), MISMATCH) == []


@pytest.mark.parametrize(
    "body",
    [
        "return mx.fft.ifft(mx.fft.fft(x)) / x.size",
        "return mx.fft.ifft(mx.fft.fft(x)) / len(x)",
        "return x.shape[-1] * mx.fft.ifft(mx.fft.fft(x * keep))",
        "return mx.divide(mx.fft.ifft(mx.fft.fft(x)), x.shape[-1])",
        "return mx.fft.irfft(mx.fft.rfft(x), n=512) / 512",
        "return mx.fft.irfft(mx.fft.rfft(x, 512) * (1 / 512), 512)",
        "return mx.fft.ifft(mx.fft.fft(x, size)) * mx.array(1 / size, dtype=x.dtype)",
        """
        batch, heads, length = x.shape
        return mx.fft.ifft(mx.fft.fft(x)) / length
        """,
        """
        *_, length = x.shape
        scale = 1.0 / length
        back = mx.fft.irfft(mx.fft.rfft(x), n=length)
        return scale * back.reshape(-1)
        """,
        """
        (length,) = x.shape
        return mx.fft.ifft(mx.fft.fft(x, axis=0), axis=0) / float(length)
        """,
        """
        back = mx.fft.ifft(mx.fft.fft(x))
        back[...] /= x.shape[-1]
        return back
        """,
        """
        height, width = x.shape
        return mx.fft.ifft2(mx.fft.fft2(x)) / (height * width)
        """,
        """
        n = mx.array(x.shape[-1], dtype=mx.float32)
        return mx.fft.ifft(mx.fft.fft(x)) / n.astype(x.dtype)
        """,
        # A convolution as CUDA code does it, whose inverse does not scale.
        """
        length = x.shape[-1]
        response = mx.fft.rfft(keep, n=2 * length) / (2*length)
        return mx.fft.irfft(mx.fft.rfft(x, n=2 * length) * response[None, :], n=2 * length)
        """,
        """
        product = mx.fft.rfft(x, n=size) * mx.fft.rfft(keep, n=size)
        return mx.fft.irfft(product, n=size) * (1 / size)
        """,
    ],
)
def test_double_scaling(body: str) -> None:
    assert codes(function(body), "FFT-NORM") == [DOUBLE]


@pytest.mark.parametrize(
    "body",
    [
        "return mx.fft.ifft(mx.fft.fft(x)) / keep.shape[-1]",
        "return mx.fft.ifft(mx.fft.fft(x) / x.shape[-1]) * x.shape[-1]",
        "return mx.fft.irfft(mx.fft.rfft(x), n=size) * size / x.shape[-1]",
        "return mx.fft.irfft(mx.fft.rfft(x) / x.shape[-1], n=size)",
        "return mx.fft.irfft(mx.fft.rfft(x, n=size), n=size) / x.shape[-1]",
        "return mx.fft.irfft(mx.fft.rfft(x, n=512), n=512) / 256",
        # Biased correlations.
        """
        spectrum = mx.fft.rfft(x, n=size)
        return mx.fft.irfft(spectrum * mx.conj(spectrum), n=size) / size
        """,
        """
        spectrum = mx.fft.rfft(x, n=size)
        return mx.fft.irfft(mx.fft.rfft(keep, n=size).conj() * spectrum / size, n=size)
        """,
        # The influence of a particle mesh is made for transforms that do not scale.
        """
        (batch, length) = x.shape
        return mx.fft.ifft(mx.fft.fft(x)) / batch
        """,
        """
        batch, *_ = x.shape
        return mx.fft.ifft(mx.fft.fft(x)) / batch
        """,
    ],
)
def test_no_double_scaling(body: str) -> None:
    assert codes(function(body), DOUBLE) == []


@pytest.mark.parametrize(
    "body",
    [
        "return mx.fft.irfft(mx.fft.rfft(x) * keep, axis=-1)",
    ],
)
def test_irfft_length(body: str) -> None:
    assert codes(function(body), "FFT-NORM") == [LENGTH]


@pytest.mark.parametrize(
    "body",
    [
        "return mx.fft.irfft(mx.fft.rfft(x, n=size))",
        "return mx.fft.irfft(mx.fft.rfft(mx.zeros((3, 512))))",
        "return mx.fft.irfftn(mx.fft.rfftn(x, s=[7, 8]))",
        "return mx.fft.irfft(mx.fft.rfft(x)[..., :size])",
    ],
)
def test_no_irfft_length(body: str) -> None:
    assert codes(function(body), LENGTH) == []
