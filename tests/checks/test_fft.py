"""FFT-NORM: what is flagged, what is not, and where."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tests.checks.findings import IMPORTS, codes, findings

FIRST_LINE = IMPORTS.count("\n") + 1
MISMATCH, DOUBLE, LENGTH = "FFT-NORM-001", "FFT-NORM-002", "FFT-NORM-003"


def function(body: str, parameters: str = "x: mx.array, keep: mx.array, size: int") -> str:
    return f"def work({parameters}):\n" + indent(dedent(body).strip(), "    ")


@pytest.mark.parametrize(
    "body",
    [
        'return mx.fft.ifft(mx.fft.fft(x), norm="forward")',
        'return mx.fft.ifft(mx.fft.fft(x), None, -1, "ortho")',
        'return mx.fft.ifft(mx.fft.fft(x, norm="forward"), norm="backward")',
        'return mx.fft.irfft(mx.fft.rfft(x, n=size, norm="ortho"), n=size)',
        'return mx.fft.ifft2(mx.fft.fft2(x, norm="ortho"))',
        'return mx.fft.irfftn(mx.fft.rfftn(x), s=x.shape, norm="forward")',
        'return mx.fft.ifft(mx.fft.fft(x, axis=1), axis=1, norm="ortho")',
        'return mx.fft.ifft(keep * mx.fft.fft(x), norm="forward")',
        'return mx.fft.ifft(mx.multiply(mx.fft.fft(x), keep), norm="forward")',
        'return mx.fft.ifft(mx.conj(mx.fft.fft(x)), norm="forward")',
        'return mx.fft.ifft(mx.fft.fft(x)[1:3, :], norm="forward")',
        'return mx.fft.ifft2(mx.fft.fft2(x)[0, :, :], norm="forward")',
        'return mx.fft.ifft(mx.fft.ifftshift(mx.fft.fftshift(mx.fft.fft(x)) * keep), norm="ortho")',
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
        'return mx.fft.ifft(mx.fft.fft(x, norm="ortho"), norm="ortho")',
        'return mx.fft.ifft(mx.fft.fft(x, norm="backward"))',
        "return mx.fft.ifft(mx.fft.fft(x, norm=size), norm=keep)",
        'return mx.fft.ifft(keep, norm="forward")',
        'return mx.fft.ifft(mx.abs(mx.fft.fft(x)), norm="forward")',
        'return mx.fft.ifft(mx.fft.fft(x, **size), norm="forward")',
        # What is left of a spectrum.
        'return mx.fft.ifft(mx.fft.fft(x)[:, 1:3], norm="forward")',
        'return mx.fft.ifft(mx.fft.fft(x)[..., ::2], norm="forward")',
        'return mx.fft.ifft(mx.fft.fft(x)[0], norm="forward")',
        'return mx.fft.ifft(mx.fft.fft(x, axis=1)[0, :], axis=1, norm="forward")',
        'return mx.fft.ifft2(mx.fft.fft2(x)[1:3, :], norm="forward")',
        # Other axes: one of two transforms.
        'return mx.fft.ifft(mx.fft.fft(x, axis=0), axis=1, norm="forward")',
        'return mx.fft.ifft(mx.fft.fft2(x), norm="ortho")',
        # Scaled by hand, before or after, by a number or by what may be one.
        'return mx.fft.ifft(mx.fft.fft(x) / size, norm="forward")',
        'return mx.fft.ifft(mx.fft.fft(x / x.shape[-1]), norm="forward")',
        'return mx.fft.ifft(mx.fft.fft(x), norm="forward") / x.shape[-1]',
        'return mx.divide(mx.fft.ifft(mx.fft.fft(x), norm="forward"), size)',
        'return 0.125 * mx.fft.ifft(mx.fft.fft(x), norm="forward").real',
        'return mx.fft.ifft(mx.fft.fft(x) * mx.array(0.5), norm="forward")',
        'return mx.fft.ifft(mx.fft.fft(x) * unknown(size), norm="forward")',
        'return mx.fft.ifft(mx.fft.fft(x) / keep, norm="forward")',
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
        # The kernel's spectrum comes from elsewhere, and may have been scaled there.
        """
        kernel = load(size).astype(mx.complex64)
        return mx.fft.irfft(mx.fft.rfft(x, n=size) * kernel, n=size, norm="forward")
        """,
        # Equal norms, though the product is off by the root of n.
        """
        signal = mx.fft.fft(x, norm="ortho")
        return mx.fft.ifft(signal * mx.fft.fft(keep, norm="ortho"), norm="ortho")
        """,
        # Norms that make up for each other.
        """
        signal = mx.fft.fft(x, norm="ortho")
        return mx.fft.ifft(signal * mx.fft.fft(keep, norm="ortho"), norm="forward")
        """,
        # A biased autocorrelation: both factors carry the root of 1 / n.
        """
        spectrum = mx.fft.rfft(x, n=size, norm="ortho")
        return mx.fft.irfft(spectrum * mx.conj(spectrum), n=size)
        """,
        # On the paths of a branch the norms differ.
        """
        if size > 3:
            spectrum = mx.fft.fft(x, norm="ortho")
        else:
            spectrum = mx.fft.fft(x)
        return mx.fft.ifft(spectrum, norm="ortho")
        """,
        # Another function made it.
        """
        def forward(x: mx.array):
            return mx.fft.fft(x)
        return mx.fft.ifft(forward(x), norm="ortho")
        """,
    ],
)
def test_no_mismatched_norms(body: str) -> None:
    assert codes(function(body), MISMATCH) == []


@pytest.mark.parametrize(
    ("there", "back", "factor"),
    [
        ("backward", "forward", "scaled by n"),
        ("backward", "ortho", "scaled by sqrt(n)"),
        ("ortho", "backward", "scaled by 1 / sqrt(n)"),
        ("forward", "backward", "scaled by 1 / n"),
    ],
)
def test_the_factor_is_told(there: str, back: str, factor: str) -> None:
    body = f'return mx.fft.ifft(mx.fft.fft(x, norm="{there}"), norm="{back}")'
    (finding,) = findings(function(body), MISMATCH)
    assert finding.message.startswith(f"signal {factor}: ")
    assert (finding.line, finding.column) == (FIRST_LINE + 1, 12)


@pytest.mark.parametrize(
    "body",
    [
        "return mx.fft.ifft(mx.fft.fft(x)) / x.shape[-1]",
        "return mx.fft.ifft(mx.fft.fft(x)).real * (1 / x.shape[-1])",
        "return mx.fft.ifft(mx.fft.fft(x)) / x.size",
        "return mx.fft.ifft(mx.fft.fft(x)) / len(x)",
        "return x.shape[-1] * mx.fft.ifft(mx.fft.fft(x * keep))",
        "return mx.divide(mx.fft.ifft(mx.fft.fft(x)), x.shape[-1])",
        "return mx.fft.ifft(mx.fft.fft(x) / x.shape[-1])",
        "return mx.fft.irfft(mx.fft.rfft(x, n=size) * keep, n=size)[..., :5] / size",
        "return mx.fft.irfft(mx.fft.rfft(x, n=512), n=512) / 512",
        "return mx.fft.irfft(mx.fft.rfft(x), n=512) / 512",
        "return mx.fft.irfft(mx.fft.rfft(x, 512) * (1 / 512), 512)",
        "return mx.fft.ifft(mx.fft.fft(x, size)) * mx.array(1 / size, dtype=x.dtype)",
        "return mx.fft.irfft(mx.fft.rfft(x), n=x.shape[-1]) / x.shape[-1]",
        "return mx.fft.ifft(mx.fft.fft(x, axis=0), axis=0) / x.shape[0]",
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
        back = mx.fft.ifft(mx.fft.fft(x + keep))
        back /= back.shape[-1]
        return back
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
        signal = mx.fft.rfft(x, n=size)
        response = mx.fft.rfft(keep, n=size) / size
        return mx.fft.irfft(signal * response, n=size)[..., :10]
        """,
        """
        length = x.shape[-1]
        response = mx.fft.rfft(keep, n=2 * length) / (2*length)
        return mx.fft.irfft(mx.fft.rfft(x, n=2 * length) * response[None, :], n=2 * length)
        """,
        """
        product = mx.fft.rfft(x, n=size) * mx.fft.rfft(keep, n=size)
        return mx.fft.irfft(product, n=size) * (1 / size)
        """,
        """
        for _ in range(size):
            x = mx.fft.ifft(mx.fft.fft(x)).real / x.shape[-1]
        return x
        """,
    ],
)
def test_double_scaling(body: str) -> None:
    assert codes(function(body), "FFT-NORM") == [DOUBLE]


@pytest.mark.parametrize(
    "body",
    [
        "return mx.abs(mx.fft.fft(x)) / x.shape[-1]",
        "return mx.fft.ifft(mx.fft.fft(x)) / size",
        "return mx.fft.ifft(mx.fft.fft(x)) / x.shape[0]",
        "return mx.fft.ifft(mx.fft.fft(x)) / keep.shape[-1]",
        "return mx.fft.ifft(mx.fft.fft(x)) * 0.5",
        "return mx.fft.ifft(keep) / keep.shape[-1]",
        "return mx.fft.ifft(mx.fft.fft(x)).sum(-1) / x.shape[-1]",
        'return mx.fft.ifft(mx.fft.fft(x), norm="forward") / x.shape[-1]',
        'return mx.fft.ifft(mx.fft.fft(x, norm="forward") * x.shape[-1])',
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
        "return mx.fft.ifftn(mx.fft.fftn(x) * keep) * x.size",
        """
        (batch, length) = x.shape
        return mx.fft.ifft(mx.fft.fft(x)) / batch
        """,
        """
        batch, *_ = x.shape
        return mx.fft.ifft(mx.fft.fft(x)) / batch
        """,
        """
        length = x.shape[-1]
        if size:
            length = size
        return mx.fft.ifft(mx.fft.fft(x)) / length
        """,
        """
        def length(x: mx.array):
            return x.shape[-1]
        return mx.fft.ifft(mx.fft.fft(x)) / length(keep)
        """,
    ],
)
def test_no_double_scaling(body: str) -> None:
    assert codes(function(body), DOUBLE) == []


def test_double_scaling_is_told_where_the_scaling_is() -> None:
    program = function("back = mx.fft.ifft(mx.fft.fft(x))\nreturn back / x.shape[-1]")
    (finding,) = findings(program, DOUBLE)
    assert (finding.line, finding.column) == (FIRST_LINE + 2, 12)
    assert "divided" in finding.message
    program = function("return mx.fft.ifft(mx.fft.fft(x)) * x.shape[-1]")
    (finding,) = findings(program, DOUBLE)
    assert "multiplied" in finding.message


@pytest.mark.parametrize(
    "body",
    [
        "return mx.fft.irfft(mx.fft.rfft(x))",
        "return mx.fft.irfft(mx.fft.rfft(x) * keep, axis=-1)",
        "return mx.fft.irfft(mx.fft.rfft(x), None)",
        "return mx.fft.irfft(mx.fft.rfft(x, n=x.shape[-1]))",
        "return mx.fft.irfft(mx.fft.rfft(x, n=7))",
        "return mx.fft.irfft(mx.fft.rfft(x) / unknown(size))",
        "return mx.fft.irfft2(mx.fft.rfft2(x))",
        "return mx.fft.irfftn(mx.fft.rfftn(x, s=[8, 7]))",
    ],
)
def test_irfft_length(body: str) -> None:
    assert codes(function(body), "FFT-NORM") == [LENGTH]


@pytest.mark.parametrize(
    "body",
    [
        "return mx.fft.irfft(mx.fft.rfft(x), n=x.shape[-1])",
        "return mx.fft.irfft(mx.fft.rfft(x), x.shape[-1])",
        "return mx.fft.irfft(mx.fft.rfft(x, n=512))",
        "return mx.fft.irfft(mx.fft.rfft(x, n=2 * x.shape[-1]))",
        "return mx.fft.irfft(mx.fft.rfft(x, n=size))",
        "return mx.fft.irfftn(mx.fft.rfftn(x, s=[7, 8]))",
        "return mx.fft.irfft2(mx.fft.rfft2(x), s=(4, 7))",
        "return mx.fft.irfft(keep)",
        "return mx.fft.irfft(mx.fft.rfft(x)[..., :size])",
        "return mx.fft.irfft(mx.fft.fft(x))",
        "return mx.fft.ifft(mx.fft.fft(x))",
        "return mx.fft.ifft(mx.fft.rfft(x))",
    ],
)
def test_no_irfft_length(body: str) -> None:
    assert codes(function(body), LENGTH) == []


def test_spectra_are_followed_where_nothing_is_annotated() -> None:
    program = """
    from mlx.core import fft

    class Filter(nn.Module):
        def __call__(self, x):
            spectrum = fft.rfft(x, axis=1)
            return fft.irfft(spectrum * self.weight, axis=1)
    """
    assert codes(program, "FFT-NORM") == [LENGTH]


def test_attributes_do_not_carry_lengths_to_other_methods() -> None:
    program = """
    class Filter(nn.Module):
        def __init__(self, x: mx.array):
            super().__init__()
            self.size = x.shape[-1]

        def __call__(self, x: mx.array):
            return mx.fft.ifft(mx.fft.fft(x)) / self.size
    """
    assert codes(program, "FFT-NORM") == []
