"""Array code of the guides: scalars, operators, conditions, transforms and complex numbers."""

from __future__ import annotations

from tests.guides.case import case, mark

CASES = (
    case(
        "003 element pulled and sent back",
        "the value leaves the device and comes back as a new constant",
        flagged=mark("GRAPH-BREAK-001", "val = x[0].item()"),
        allowed="HOST-PULL-007",
    )("""
        def first() -> mx.array:
            x = mx.array([1, 2, 3])
            val = x[0].item()
            y = mx.array(val)
            return y
    """),
    case(
        "003 element pulled and sent back at once",
        "the same in one expression",
        flagged=mark("HOST-PULL-007", "mx.array(x[0].item())"),
        allowed="GRAPH-BREAK-001",
    )("""
        def first(x: mx.array) -> mx.array:
            return mx.array(x[0].item())
    """),
    case("003 element kept on the device", "an index gives an array, and nothing is evaluated")("""
        def first() -> mx.array:
            x = mx.array([1, 2, 3])
            return x[0]
    """),
    case(
        "v array used after a pull",
        "a pull destroys nothing: the array stays valid, and is not flagged again",
        noted=mark("GRAPH-BREAK-001", "x.sum().item()"),
    )("""
        def kept(x: mx.array) -> tuple[float, mx.array]:
            value = x.sum().item()
            return value, mx.exp(x)
    """),
    case(
        "003 operators with numbers",
        "MLX overloads them, numbers are weak, the graph is the same: notes of the house style",
        noted=mark("PYTHON-SCALAR-002", "x * 2 + 1"),
    )("""
        def affine(x: mx.array) -> mx.array:
            return x * 2 + 1
    """),
    case(
        "003 advice to use float32 constants",
        "where x is half precision, this is what promotes",
        noted=mark("DTYPE-004", "mx.multiply(x, mx.array(0.5, dtype=mx.float32))"),
    )("""
        def halved(x: mx.array) -> mx.array:
            return mx.multiply(x, mx.array(0.5, dtype=mx.float32))
    """),
    case(
        "v advice to use float32 constants, on a half",
        "the dtype is known here, and float32 comes out",
        flagged=mark("DTYPE-001", "mx.multiply(h, mx.array(0.5, dtype=mx.float32))"),
    )("""
        def halved(x: mx.array) -> mx.array:
            h = x.astype(mx.bfloat16)
            return mx.multiply(h, mx.array(0.5, dtype=mx.float32))
    """),
    case(
        "003 advice to replace operators by functions",
        "float32 constants again, bound to names",
        noted=mark("DTYPE-004", "mx.multiply(x, two)", "two = mx.array", "one = mx.array"),
    )("""
        def affine(x: mx.array) -> mx.array:
            two = mx.array(2.0, dtype=mx.float32)
            one = mx.array(1.0, dtype=mx.float32)
            return mx.add(mx.multiply(x, two), one)
    """),
    case(
        "003 advice to divide by a float32 array",
        "a float32 scalar whose value is not known promotes all the same",
        noted=mark("DTYPE-004", "mx.divide(x, n_mx)", "n_mx = mx.array"),
    )("""
        def mean_of(x: mx.array, n: int) -> mx.array:
            n_mx = mx.array(n, dtype=mx.float32)
            return mx.divide(x, n_mx)
    """),
    case("v constants of the array's dtype", "the form that keeps every dtype")("""
        def affine(x: mx.array) -> mx.array:
            two = mx.array(2.0, dtype=x.dtype)
            return mx.add(mx.multiply(x, two), mx.array(1.0, dtype=x.dtype))
    """),
    case(
        "v NumPy scalar on the left",
        "the true kernel of the float64 claim: NumPy takes over and evaluates",
        flagged=mark("DTYPE-003", "np.sqrt(2.0) * x"),
        needs="numpy",
    )("""
        import numpy as np
        def scaled(x: mx.array) -> mx.array:
            return np.sqrt(2.0) * x
    """),
    case(
        "003 condition on a maximum",
        "the comparison is lazy; the if evaluates it",
        noted=mark("GRAPH-BREAK-003", "if x.max() > threshold:"),
    )("""
        def clipped(x: mx.array, threshold) -> mx.array:
            if x.max() > threshold:
                return mx.zeros_like(x)
            return x
    """),
    case(
        "v comparison without a condition", "half of the claim: comparing alone converts nothing"
    )("""
        def above(x: mx.array, threshold: mx.array) -> mx.array:
            return x.max() > threshold
    """),
    case("003 mask in place of a condition", "stays on the device and keeps the dtype")("""
        def clipped(x: mx.array, threshold: float) -> mx.array:
            threshold_mx = mx.array(threshold, dtype=x.dtype)
            mask = mx.greater(x, threshold_mx)
            return mx.where(mask, x, mx.zeros_like(x))
    """),
    case(
        "003 float of an element",
        "waits for the value",
        noted=mark("GRAPH-BREAK-002", "float(x[0])"),
    )("""
        def first(x: mx.array) -> float:
            val = float(x[0])
            return val
    """),
    case(
        "002 pulls in a hot loop",
        "each of them stalls in every iteration",
        flagged=(
            mark("GRAPH-BREAK-002", "float(mx.linalg.norm(x))"),
            mark("GRAPH-BREAK-002", "int(mx.sum(x))"),
            mark("GRAPH-BREAK-001", "mx.max(x).item()"),
        ),
    )("""
        def norms(xs: list[mx.array]) -> list[float]:
            found = []
            for x in xs:
                found.append(float(mx.linalg.norm(x)))
                found.append(int(mx.sum(x)))
                found.append(mx.max(x).item())
            return found
    """),
    case("003 loop over channels", "a loop index is a Python number by right")("""
        def rows(x: mx.array, channels: int) -> list[mx.array]:
            found = []
            for i in range(channels):
                found.append(x[i])
            return found
    """),
    case(
        "003 scale from a shape",
        "a shape is known without evaluating, and an integer constant keeps the dtype",
    )("""
        def scaled(x: mx.array) -> mx.array:
            shape = x.shape
            scale = mx.array(shape[0])
            return x * scale
    """),
    case(
        "v root of the width",
        "a number is weak and as exact as mx.rsqrt of a typed constant",
        noted=mark("PYTHON-SCALAR-002", "q * (q.shape[-1] ** -0.5)"),
    )("""
        def scaled_queries(q: mx.array) -> mx.array:
            return q * (q.shape[-1] ** -0.5)
    """),
    case("v root of the width as an array", "right as well: the constant has the dtype of q")("""
        def scaled_queries(q: mx.array) -> mx.array:
            return q * mx.rsqrt(mx.array(q.shape[-1], dtype=q.dtype))
    """),
    case(
        "v lowest float32 as a half",
        "becomes minus infinity",
        flagged=mark("DTYPE-006", "mx.array(-3.4028235e38, dtype=mx.bfloat16)"),
    )("""
        def lowest() -> mx.array:
            return mx.array(-3.4028235e38, dtype=mx.bfloat16)
    """),
    case("v lowest of the dtype", "finite in every dtype")("""
        def lowest(x: mx.array) -> mx.array:
            return mx.array(mx.finfo(x.dtype).min, dtype=x.dtype)
    """),
    case("003 product of complex arrays", "multiplication and roots of complex arrays work")("""
        def product(a: mx.array, b: mx.array) -> mx.array:
            a_complex = a.astype(mx.complex64)
            b_complex = b.astype(mx.complex64)
            return mx.sqrt(mx.multiply(a_complex, b_complex))
    """),
    case(
        "v sigmoid of a complex array",
        "what complex64 does lack",
        flagged=mark("COMPLEX-001", "mx.sigmoid(mx.fft.rfft(x))"),
    )("""
        def gate(x: mx.array) -> mx.array:
            return mx.sigmoid(mx.fft.rfft(x))
    """),
    case("003 a transform by itself", "nothing to check: a single rfft has no counterpart")("""
        def spectrum(x: mx.array) -> mx.array:
            return mx.fft.rfft(x)
    """),
    case(
        "v norm on the forward transform only",
        "each call has its own norm, and the default of the inverse divides again",
        flagged=mark("FFT-NORM-001", "mx.fft.irfft(spectrum", "mx.fft.rfft(x, norm"),
    )("""
        def low_pass(x: mx.array, keep: mx.array) -> mx.array:
            spectrum = mx.fft.rfft(x, norm="forward")
            return mx.fft.irfft(spectrum * keep, n=x.shape[-1])
    """),
    case(
        "v NumPy's transform of an array",
        "keeps float32 by now, but leaves the device",
        noted=mark("HOST-PULL-003", "np.fft.rfft(x)"),
        needs="numpy",
    )("""
        import numpy as np
        def spectrum(x: mx.array):
            return np.fft.rfft(x)
    """),
    case(
        "v numbers that meet no array", "assignments and casts of host values are nobody's business"
    )("""
        class Config:
            rate: float = 0.1
        def steps(config: Config, x: mx.array) -> int:
            warmup = 3
            rate = float(config.rate)
            return int(warmup / rate) + x.ndim
    """),
    case("000 PyTorch on MPS", "tensors of another library are not judged", needs="torch")("""
        import torch
        def copied(tensor: torch.Tensor) -> torch.Tensor:
            host = tensor.cpu()
            if host.max() > 0:
                host = host * 0.5
            torch.mps.synchronize()
            return host + host.sum().item()
    """),
)
