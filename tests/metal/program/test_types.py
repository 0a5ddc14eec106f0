from __future__ import annotations

import pytest

from embercoach.metal.program import types
from embercoach.metal.program.library_types import constant_type, result_type
from embercoach.metal.program.types import NAMED, UNKNOWN, Type
from tests.metal.program.rendering import shown_type

FLOAT_POINTER = Type("float", pointer=True, space="device")


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("1", 1, "int"),
        ("0", 0, "int"),
        ("017", 15, "int"),
        ("0b101", 5, "int"),
        ("1'000", 1000, "int"),
        ("2147483647", 2147483647, "int"),
        ("2147483648", 2147483648, "long"),
        ("0x80000000", 0x80000000, "uint"),
        ("0xffffffffff", 0xFFFFFFFFFF, "long"),
        ("0x1F", 31, "int"),
        ("1u", 1, "uint"),
        ("1L", 1, "long"),
        ("1ul", 1, "ulong"),
        ("3ull", 3, "ulong"),
        ("4294967296u", 1 << 32, "ulong"),
        ("0.5", 0.5, "float"),
        (".5f", 0.5, "float"),
        ("1e5", 1e5, "float"),
        ("1.h", 1.0, "half"),
        ("2.0bf", 2.0, "bfloat"),
        ("0x1p4", 16.0, "float"),
        ("0.5l", 0.5, "double"),
    ],
)
def test_literals(text: str, value: float, kind: str) -> None:
    assert types.literal(text) == (value, Type(kind))


@pytest.mark.parametrize("text", ["", "1x", "0x", "1.2.3", "e", "_", "08"])
def test_what_is_no_literal(text: str) -> None:
    assert types.literal(text) is None


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ("int", "int", "int"),
        ("int", "uint", "uint"),
        ("uint", "long", "long"),
        ("long", "ulong", "ulong"),
        ("uchar", "ushort", "int"),
        ("bool", "bool", "int"),
        ("half", "half", "half"),
        ("half", "int", "half"),
        ("half", "float", "float"),
        ("bfloat", "float", "float"),
        ("bfloat", "half", "?"),
        ("bfloat", "uint", "bfloat"),
        ("float4", "float", "float4"),
        ("half4", "float", "half4"),
        ("int", "uint2", "uint2"),
        ("float4", "float4", "float4"),
        ("float4", "float2", "?"),
        ("short2", "short2", "short2"),
    ],
)
def test_arithmetic(left: str, right: str, result: str) -> None:
    assert shown_type(types.binary("+", NAMED[left], NAMED[right])) == result
    assert shown_type(types.binary("*", NAMED[right], NAMED[left])) == result


@pytest.mark.parametrize(
    ("operator", "left", "right", "result"),
    [
        ("<", Type("half"), Type("float"), "bool"),
        ("==", Type("float", 4), Type("float", 4), "bool4"),
        ("<<", Type("uchar"), Type("ulong"), "int"),
        (">>", Type("uint"), Type("int"), "uint"),
        (",", Type("int"), Type("half"), "half"),
        ("+", FLOAT_POINTER, Type("uint"), "device float*"),
        ("+", Type("int"), FLOAT_POINTER, "device float*"),
        ("-", FLOAT_POINTER, FLOAT_POINTER, "long"),
        ("*", FLOAT_POINTER, Type("int"), "?"),
        ("+", FLOAT_POINTER, Type("float"), "?"),
        (
            "+",
            Type("float", space="threadgroup", dimensions=(8,)),
            Type("int"),
            "threadgroup float*",
        ),
        ("+", Type("T"), Type("T"), "?"),
        ("+", UNKNOWN, Type("int"), "?"),
    ],
)
def test_operations(operator: str, left: Type, right: Type, result: str) -> None:
    assert shown_type(types.binary(operator, left, right)) == result


@pytest.mark.parametrize(
    ("kind", "element"),
    [
        (FLOAT_POINTER, "device float"),
        (Type("half", 4, space="thread"), "thread half"),
        (Type("float", space="threadgroup", dimensions=(2, 3)), "threadgroup float[3]"),
        (Type("float", pointer=True, space="thread", dimensions=(2,)), "thread float*"),
        (Type("float4x3"), "float3"),
        (Type("simdgroup_float8x8"), "?"),
        (Type("float"), "?"),
    ],
)
def test_elements(kind: Type, element: str) -> None:
    assert shown_type(types.element(kind)) == element


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        (Type("float"), 4),
        (Type("float", 3), 16),
        (Type("float", 3, packed=True), 12),
        (Type("half", 4), 8),
        (FLOAT_POINTER, 8),
        (Type("float", dimensions=(4, 8)), 128),
        (Type("float", dimensions=(None,)), None),
        (Type("T"), None),
    ],
)
def test_sizes(kind: Type, size: int | None) -> None:
    assert types.size_of(kind) == size


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("exp", ["half"], "half"),
        ("exp", ["int"], "?"),
        ("simd_sum", ["uchar"], "uchar"),
        ("simd_shuffle_down", ["float", "ushort"], "float"),
        ("simd_any", ["bool"], "bool"),
        ("max", ["float", "float"], "float"),
        ("max", ["float", "int"], "?"),
        ("clamp", ["float4", "float", "float"], "float4"),
        ("fma", ["half", "half", "half"], "half"),
        ("select", ["half", "half", "bool"], "half"),
        ("dot", ["half3", "half3"], "half"),
        ("isnan", ["float2"], "bool2"),
        ("popcount", ["uint"], "uint"),
        ("threadgroup_barrier", ["int"], "void"),
        ("unpack_unorm4x8_to_float", ["uint"], "float4"),
        ("nobody_knows", ["float"], "?"),
    ],
)
def test_results_of_the_library(name: str, arguments: list[str], result: str) -> None:
    assert shown_type(result_type(name, [NAMED[a] for a in arguments])) == result


def test_atomic_functions_give_what_is_stored() -> None:
    address = Type("atomic_uint", pointer=True, space="device")
    assert result_type("atomic_fetch_add_explicit", [address, Type("int")]) == Type("uint")
    assert result_type("atomic_load_explicit", [FLOAT_POINTER]) == UNKNOWN


@pytest.mark.parametrize(
    ("name", "kind"),
    [("M_PI_F", "float"), ("M_PI_H", "half"), ("FLT_MAX", "float"), ("FLT_DIG", "int"),
     ("HALF_MAX", "half"), ("INFINITY", "float"), ("UINT_MAX", "uint"), ("mine", "?")],
)  # fmt: skip
def test_constants_of_the_library(name: str, kind: str) -> None:
    assert shown_type(constant_type(name)) == kind
