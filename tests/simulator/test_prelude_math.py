"""Scalar types and math of the Metal library, against NumPy and Python's integers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.simulator.evaluation import bfloat_bits, evaluate, from_bfloat_bits, tabulate

RANDOM = np.random.default_rng(20)
WIDE = np.concatenate([RANDOM.normal(0, 3, 40), [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-6, 30.0]])
WIDE = WIDE.astype(np.float32)
UNIT = np.concatenate([RANDOM.uniform(-1, 1, 45), [0.0, 1.0, -1.0]]).astype(np.float32)
POSITIVE = np.concatenate([RANDOM.uniform(0, 20, 45), [1.0, 1e-30, 1e30]]).astype(np.float32)

UNARY = {
    "acos": (np.arccos, UNIT),
    "acosh": (np.arccosh, POSITIVE + 2),
    "asin": (np.arcsin, UNIT),
    "asinh": (np.arcsinh, WIDE),
    "atan": (np.arctan, WIDE),
    "atanh": (np.arctanh, UNIT * np.float32(0.9)),
    "ceil": (np.ceil, WIDE),
    "cos": (np.cos, WIDE),
    "cosh": (np.cosh, WIDE),
    "cospi": (lambda x: np.cos(np.pi * np.remainder(x, 2)), WIDE),
    "exp": (np.exp, WIDE),
    "exp2": (np.exp2, WIDE),
    "exp10": (lambda x: 10.0**x, WIDE),
    "fabs": (np.fabs, WIDE),
    "abs": (np.fabs, WIDE),
    "floor": (np.floor, WIDE),
    "fract": (lambda x: x - np.floor(x), WIDE),
    "log": (np.log, POSITIVE),
    "log2": (np.log2, POSITIVE),
    "log10": (np.log10, POSITIVE),
    "rint": (np.rint, WIDE),
    "round": (lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), WIDE),
    "rsqrt": (lambda x: 1 / np.sqrt(x), POSITIVE),
    "saturate": (lambda x: np.clip(x, 0, 1), WIDE),
    "sign": (np.sign, WIDE),
    "sin": (np.sin, WIDE),
    "sinh": (np.sinh, WIDE),
    "sinpi": (lambda x: np.sin(np.pi * np.remainder(x, 2)), WIDE),
    "sqrt": (np.sqrt, POSITIVE),
    "tan": (np.tan, WIDE),
    "tanh": (np.tanh, WIDE),
    "tanpi": (lambda x: np.tan(np.pi * np.remainder(x, 1)), UNIT * np.float32(0.4)),
    "trunc": (np.trunc, WIDE),
}
SPACES = ("metal::", "metal::precise::", "metal::fast::")


def _grouped() -> dict[bytes, list[str]]:
    groups: dict[bytes, list[str]] = {}
    for name, (_, domain) in UNARY.items():
        groups.setdefault(domain.tobytes(), []).append(name)
    return groups


def _exactly(name: str, domain: np.ndarray) -> np.ndarray:
    return np.asarray(UNARY[name][0](domain.astype(np.float64)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("space", SPACES)
def test_functions_of_one_float(space: str) -> None:
    for raw, names in _grouped().items():
        domain = np.frombuffer(raw, np.float32)
        table = tabulate([f"{space}{name}(x)" for name in names], {"xs": domain}, np.float32)
        for name in names:
            np.testing.assert_allclose(
                table[f"{space}{name}(x)"],
                _exactly(name, domain),
                rtol=3e-6,
                atol=3e-7,
                err_msg=name,
            )


def test_functions_of_vectors_work_by_component() -> None:
    for raw, names in _grouped().items():
        domain = np.frombuffer(raw, np.float32)
        calls = {f"{name}(float3(x, x * 0.5f, x)).y": name for name in names}
        halves = {f"{name}(half4(half(x), 1.0h, 1.0h, half(x))).w": name for name in names}
        table = tabulate([*calls, *halves], {"xs": domain}, np.float32)
        for call, name in calls.items():
            wanted = _exactly(name, domain * np.float32(0.5))
            np.testing.assert_allclose(table[call], wanted, rtol=3e-6, atol=3e-7, err_msg=call)
        with np.errstate(all="ignore"):
            narrow = domain.astype(np.float16)
            for call, name in halves.items():
                wanted = _exactly(name, narrow.astype(np.float32)).astype(np.float16)
                got = table[call].astype(np.float16)
                np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=1e-6, err_msg=call)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("space", SPACES)
def test_functions_of_several_floats(space: str) -> None:
    x, y = RANDOM.normal(0, 3, (2, 32)).astype(np.float32)
    z = np.abs(x)
    wanted = {
        "atan2(x, y)": np.arctan2(x, y),
        "copysign(x, y)": np.copysign(x, y),
        "divide(x, y)": x / y,
        "fdim(x, y)": np.maximum(x - y, 0),
        "fmax(x, y)": np.fmax(x, y),
        "fmin(x, y)": np.fmin(x, y),
        "max(x, y)": np.fmax(x, y),
        "min(x, y)": np.fmin(x, y),
        "fmax(x, NAN)": x,
        "fmod(x, y)": np.fmod(x, y),
        "pow(z, y)": np.power(z.astype(np.float64), y),
        "powr(z, y)": np.power(z.astype(np.float64), y),
        "fma(x, y, z)": (x.astype(np.float64) * y + z).astype(np.float32),
        "max3(x, y, z)": np.max([x, y, z], axis=0),
        "min3(x, y, z)": np.min([x, y, z], axis=0),
        "median3(x, y, z)": np.median([x, y, z], axis=0),
        "fmedian3(x, y, z)": np.median([x, y, z], axis=0),
        "clamp(x, -1.0f, 2.0f)": np.clip(x, -1, 2),
        "mix(x, y, 0.25f)": x + (y - x) * np.float32(0.25),
        "step(x, y)": (y >= x).astype(np.float32),
        "smoothstep(-3.0f, 3.0f, x)": (t := np.clip((x + 3) / 6, 0, 1)) * t * (3 - 2 * t),
        "ldexp(x, 3)": x * 8,
        "nextafter(x, y)": np.nextafter(x, y),
    }
    table = tabulate([space + call for call in wanted], {"xs": x, "ys": y, "zs": z}, np.float32)
    for call, value in wanted.items():
        np.testing.assert_allclose(table[space + call], value, rtol=2e-6, atol=1e-7, err_msg=call)


def test_functions_that_write_to_a_reference() -> None:
    x = WIDE
    body = """
    uint i = thread_position_in_grid.x;
    float c; float s = sincos(x[i], c);
    int e; float m = frexp(x[i], e);
    float w; float f = modf(x[i], w);
    float pc; float ps = metal::precise::sincos(x[i], pc);
    float3 vc; float3 vs = sincos(float3(x[i]), vc);
    float values[] = {s, c, m, float(e), f, w, ps, pc, vs.z, vc.z, float(ilogb(x[i]))};
    for (int k = 0; k < 11; ++k) out[i * 11 + k] = values[k];
    """
    out = evaluate(body, {"x": x}, {"out": ((len(x), 11), np.float32)}, threads=len(x))["out"]
    mantissa, exponent = np.frexp(x)
    part, whole = np.modf(x)
    sine, cosine = np.sin(x), np.cos(x)
    with np.errstate(divide="ignore"):
        log = np.where(x == 0, -(2.0**31), np.floor(np.log2(np.abs(x))))
    wanted = [sine, cosine, mantissa, exponent, part, whole, sine, cosine, sine, cosine, log]
    np.testing.assert_allclose(out, np.stack(wanted, 1), rtol=2e-6, atol=1e-7)


def test_turns_are_exact_at_quarters() -> None:
    x = np.array([0, 0.5, 1, 1.5, 2, -0.5, 100000.5, 7], np.float32)
    table = tabulate(["sinpi(x)", "cospi(x)"], {"xs": x}, np.float32)
    assert table["sinpi(x)"].tolist() == [0, 1, 0, -1, 0, -1, 1, 0]
    assert table["cospi(x)"].tolist() == [1, 0, -1, 0, 1, 0, 0, -1]


def test_every_half_widens_to_its_float() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    body = """
    uint i = thread_position_in_grid.x;
    out[2 * i] = as_type<uint>(float(as_type<half>(x[i])));
    out[2 * i + 1] = as_type<uint>(ember::value_of_half(x[i]));
    """
    got = evaluate(body, {"x": bits}, {"out": ((65536, 2), np.uint32)}, threads=65536)["out"]
    wanted = bits.view(np.float16).astype(np.float32)
    for column in (0, 1):
        values = got[:, column].copy()
        numbers = ~np.isnan(wanted)
        assert np.array_equal(values[numbers], wanted.view(np.uint32)[numbers])
        assert np.isnan(values.view(np.float32)[~numbers]).all()


def test_floats_narrow_as_they_should() -> None:
    raw = RANDOM.integers(0, 2**32, 20000, dtype=np.uint32)
    near = RANDOM.uniform(-70000, 70000, 20000).astype(np.float32).view(np.uint32)
    small = (RANDOM.uniform(-1, 1, 20000) * 2.0**-14).astype(np.float32).view(np.uint32)
    halves = np.arange(0, 0x7C00, 3, dtype=np.uint16).view(np.float16).astype(np.float32)
    following = np.nextafter(halves, np.float32(np.inf))
    ties = ((halves + following) / 2).astype(np.float32).view(np.uint32)
    bits = np.concatenate([raw, near, small, ties, halves.view(np.uint32)])
    bits = bits[~np.isnan(bits.view(np.float32))]
    body = """
    uint i = thread_position_in_grid.x;
    float value = as_type<float>(x[i]);
    out[4 * i] = as_type<ushort>(half(value));
    out[4 * i + 1] = (ember::narrowed<5, 10>(value));
    out[4 * i + 2] = as_type<ushort>(bfloat(value));
    out[4 * i + 3] = (ember::narrowed<8, 7>(value));
    """
    count = len(bits)
    got = evaluate(body, {"x": bits}, {"out": ((count, 4), np.uint16)}, threads=count)["out"]
    values = bits.view(np.float32)
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float16).view(np.uint16)
    for column, wanted in enumerate([narrow, narrow, bfloat_bits(values), bfloat_bits(values)]):
        assert np.array_equal(got[:, column], wanted), column


def test_each_operation_of_a_narrow_type_rounds() -> None:
    a, b, c = RANDOM.normal(0, 2, (3, 256)).astype(np.float16)
    assert np.array_equal(
        tabulate(["a * b + c"], {"as": a, "bs": b, "cs": c}, np.float16)["a * b + c"], a * b + c
    )
    x, y, z = (bfloat_bits(v.astype(np.float32)) for v in (a, b, c))
    call = "as_type<ushort>(as_type<bfloat>(x) * as_type<bfloat>(y) + as_type<bfloat>(z))"
    got = tabulate([call], {"xs": x, "ys": y, "zs": z}, np.uint16)[call]
    product = from_bfloat_bits(bfloat_bits(from_bfloat_bits(x) * from_bfloat_bits(y)))
    assert np.array_equal(got, bfloat_bits(product + from_bfloat_bits(z)))


def test_literals_and_types_of_expressions() -> None:
    checks = [
        "is_same_v<decltype(1.0), float>",
        "is_same_v<decltype(1.0h), half>",
        "is_same_v<decltype(2_h), half>",
        "is_same_v<decltype(1.5_bf), bfloat>",
        "is_same_v<decltype(half(1) * half(2)), half>",
        "is_same_v<decltype(half(1) * 2.0f), float>",
        "is_same_v<decltype(bfloat(1) * bfloat(2)), bfloat>",
        "is_same_v<decltype(bfloat(1) * 2.0f), float>",
        "is_same_v<decltype(exp(half(1))), half>",
        "is_same_v<decltype(exp(bfloat(1))), bfloat>",
        "is_same_v<decltype(precise::exp(half(1))), float>",
        "is_same_v<decltype(max(bfloat(1), 2.0f)), float>",
        "is_same_v<decltype(float4(1) < float4(2)), bool4>",
        "is_same_v<decltype(abs(-3)), int>",
        "is_same_v<decltype(absdiff(1, 2)), uint>",
        "is_same_v<size_t, ulong>",
        "is_same_v<uint8_t, uchar> && is_same_v<int64_t, long>",
        "sizeof(float3) == 16 && sizeof(packed_float3) == 12 && alignof(half4) == 8",
        "sizeof(bool4) == 4 && sizeof(float4x4) == 64 && sizeof(atomic_uint) == 4",
        "1.0h + 2.0h == 3.0h && HALF_MAX == 65504.0h && float(1.0_bf) == 1.0f",
        "numeric_limits<half>::max() == HALF_MAX && numeric_limits<int>::min() == INT_MIN",
        "numeric_limits<bfloat>::infinity() > BFLT_MAX",
        "isnan(numeric_limits<float>::quiet_NaN())",
        "is_floating_point_v<bfloat> && is_integral_v<uchar> && !is_signed_v<uint>",
    ]
    body = "\n".join(f"out[{n}] = {check};" for n, check in enumerate(checks))
    got = evaluate(body, {"x": np.zeros(8)}, {"out": ((len(checks),), bool)})["out"]
    assert [check for check, holds in zip(checks, got, strict=True) if not holds] == []


INTEGERS = {
    "char": np.int8,
    "uchar": np.uint8,
    "ushort": np.uint16,
    "short": np.int16,
    "int": np.int32,
    "uint": np.uint32,
    "ulong": np.uint64,
    "long": np.int64,
}


def _wrapped(value: int, dtype: type) -> int:
    info = np.iinfo(dtype)
    value &= (1 << info.bits) - 1
    return value - (1 << info.bits) if info.min < 0 and value >> (info.bits - 1) else value


def _held(value: int, dtype: type) -> int:
    info = np.iinfo(dtype)
    return min(max(value, int(info.min)), int(info.max))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", INTEGERS)
def test_integer_functions(name: str) -> None:
    dtype = INTEGERS[name]
    info = np.iinfo(dtype)
    bits = info.bits
    edge = [info.min, info.max, info.max - 1, 0, 1, 2, info.max // 2, 5]
    grid = [(a, b, c) for a in edge for b in edge for c in edge[:4]]
    drawn = RANDOM.integers(info.min, info.max, (40, 3), dtype=dtype, endpoint=True).tolist()
    rows = [tuple(int(v) for v in row) for row in (*grid, *drawn)]
    x, y, z = (np.array(column, dtype) for column in zip(*rows, strict=True))
    mask = (1 << bits) - 1

    def rotated(a: int, by: int) -> int:
        n = by & (bits - 1)
        a &= mask
        return _wrapped((a << n | a >> (bits - n)) & mask, dtype)

    def field(a: int) -> int:
        cut = (a & mask) >> 2 & 31
        return cut - 32 if info.min < 0 and cut & 16 else cut

    wanted = {
        "addsat(x, y)": lambda a, b, c: _held(a + b, dtype),
        "subsat(x, y)": lambda a, b, c: _held(a - b, dtype),
        "hadd(x, y)": lambda a, b, c: (a + b) >> 1,
        "rhadd(x, y)": lambda a, b, c: (a + b + 1) >> 1,
        "mulhi(x, y)": lambda a, b, c: a * b >> bits,
        "madhi(x, y, z)": lambda a, b, c: _wrapped((a * b >> bits) + c, dtype),
        "madsat(x, y, z)": lambda a, b, c: _held(a * b + c, dtype),
        "max(x, y)": lambda a, b, c: max(a, b),
        "min(x, y)": lambda a, b, c: min(a, b),
        "max3(x, y, z)": max,
        "min3(x, y, z)": min,
        "median3(x, y, z)": lambda a, b, c: sorted((a, b, c))[1],
        "clamp(x, min(y, z), max(y, z))": lambda a, b, c: sorted((a, b, c))[1],
        "popcount(x)": lambda a, b, c: (a & mask).bit_count(),
        "clz(x)": lambda a, b, c: bits - (a & mask).bit_length(),
        "ctz(x)": lambda a, b, c: (a & -a).bit_length() - 1 if a else bits,
        "reverse_bits(x)": lambda a, b, c: _wrapped(
            int(format(a & mask, f"0{bits}b")[::-1], 2), dtype
        ),
        "rotate(x, y)": lambda a, b, c: rotated(a, b),
        "abs(x)": lambda a, b, c: _wrapped(abs(a), dtype),
        "absdiff(x, y)": lambda a, b, c: _wrapped(abs(a - b), dtype),
        "extract_bits(x, 2u, 5u)": lambda a, b, c: field(a),
        "insert_bits(x, y, 2u, 5u)": lambda a, b, c: _wrapped(
            a & mask & ~(31 << 2) | (b & 31) << 2, dtype
        ),
        "select(x, y, x > z)": lambda a, b, c: b if a > c else a,
        f"max({name}3(x), {name}3(y)).z": lambda a, b, c: max(a, b),
        f"popcount({name}2(x)).y": lambda a, b, c: (a & mask).bit_count(),
    }
    table = tabulate(list(wanted), {"xs": x, "ys": y, "zs": z}, dtype)
    for call, function in wanted.items():
        assert table[call].tolist() == [function(*row) for row in rows], call


def test_products_of_24_bits() -> None:
    x = np.array([3, -4, 8388607, -8388608, 100, 0, 77, -1], np.int32)
    table = tabulate(["mul24(x, 5)", "mad24(x, 5, 7)"], {"xs": x}, np.int32)
    assert table["mul24(x, 5)"].tolist() == (x * 5).tolist()
    assert table["mad24(x, 5, 7)"].tolist() == (x * 5 + 7).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_tests_of_floats(dtype: str) -> None:
    x = np.array([0, -0.0, 1, -3, np.inf, -np.inf, np.nan, 1e-7], dtype)
    tiny = float(np.finfo(dtype).tiny)
    wanted = {
        "isnan(x)": np.isnan(x),
        "isinf(x)": np.isinf(x),
        "isfinite(x)": np.isfinite(x),
        "signbit(x)": np.signbit(x),
        "isnormal(x)": np.isfinite(x) & (np.abs(x.astype(np.float64)) >= tiny),
        "isordered(x, x)": ~np.isnan(x),
        "isunordered(x, x)": np.isnan(x),
        "any(isnan(vec<decltype(x), 2>(x)))": np.isnan(x),
        "all(isfinite(vec<decltype(x), 3>(x)))": np.isfinite(x),
    }
    table = tabulate(list(wanted), {"xs": x}, bool)
    for call, value in wanted.items():
        # The sign of NaN is the machine's.
        keep = ~np.isnan(x) if call.startswith("signbit") else np.ones(8, bool)
        assert table[call][keep].tolist() == value[keep].tolist(), call


def test_constants_have_their_values() -> None:
    constants = {"M_PI_F": math.pi, "M_E_F": math.e, "M_LN2_F": math.log(2), "M_SQRT2_F": 2**0.5}
    body = "\n".join(f"out[{n}] = {name};" for n, name in enumerate(constants))
    got = evaluate(body, {"x": np.zeros(8)}, {"out": ((4,), np.float32)})["out"]
    np.testing.assert_allclose(got, list(constants.values()), rtol=1e-7)
