from __future__ import annotations

import pytest

from embercoach.metal.library import constant_type, result_type
from embercoach.metal.program import types
from embercoach.metal.program.types import NAMED, Type
from tests.metal.program.rendering import shown_type

FLOAT_POINTER = Type("float", pointer=True, space="device")


@pytest.mark.parametrize("text", ["", "1x", "0x", "1.2.3", "e", "_", "08"])
def test_what_is_no_literal(text: str) -> None:
    assert types.literal(text) is None


@pytest.mark.parametrize(
    ("left", "right", "result"), [("long", "ulong", "ulong"), ("bfloat", "half", "?")]
)
def test_arithmetic(left: str, right: str, result: str) -> None:
    assert shown_type(types.binary("+", NAMED[left], NAMED[right])) == result
    assert shown_type(types.binary("*", NAMED[right], NAMED[left])) == result


@pytest.mark.parametrize(
    ("operator", "left", "right", "result"), [("-", FLOAT_POINTER, FLOAT_POINTER, "long")]
)
def test_operations(operator: str, left: Type, right: Type, result: str) -> None:
    assert shown_type(types.binary(operator, left, right)) == result


@pytest.mark.parametrize(
    ("name", "arguments", "result"), [("unpack_unorm4x8_to_float", ["uint"], "float4")]
)
def test_results_of_the_library(name: str, arguments: list[str], result: str) -> None:
    assert shown_type(result_type(name, [NAMED[a] for a in arguments])) == result


@pytest.mark.parametrize(
    ("name", "kind"),
    [("M_PI_F", "float"), ("M_PI_H", "half"), ("FLT_MAX", "float"), ("FLT_DIG", "int"),
     ("HALF_MAX", "half"), ("INFINITY", "float"), ("UINT_MAX", "uint"), ("mine", "?")],
)  # fmt: skip
def test_constants_of_the_library(name: str, kind: str) -> None:
    assert shown_type(constant_type(name)) == kind
