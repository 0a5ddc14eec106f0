"""Compiling without running: a launch's own text, its variants, and clang's errors at the lines."""

from __future__ import annotations

import sys
from typing import Any

import mlx.core as mx
import pytest

from embercoach.simulator.session.compiling import compiling, families, key
from tests.simulator.evaluation import launch

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the simulator is tested on Linux")


def words(names: list[str], **arguments: Any) -> list[tuple[str, list[str]]]:
    return [
        (family.together.words, [variant.words for variant in family.each])
        for family in families(names, arguments)
    ]


def test_single_numbers_become_scalars_and_the_other_way_round() -> None:
    (family,) = families(["a"], {"inputs": [mx.zeros((4, 4))]})
    (made,) = family.together.arguments["inputs"]
    assert (made.shape, made.dtype) == ((1, 1), mx.float32)
    assert words(["a"], inputs=[mx.zeros((1,))]) == [
        ("if `a` has no dimensions", ["if `a` has no dimensions"])
    ]
    assert words(["a"], inputs=[mx.array(1.0)]) == [
        ("if `a` has one dimension", ["if `a` has one dimension"])
    ]
    # A body that indexes an array can't be meant for a scalar.
    assert words(["a"], inputs=[mx.zeros((1, 1))]) == []


def test_other_dtypes_where_the_template_names_one() -> None:
    x, scale, index = mx.zeros((2,)), mx.zeros((2,), mx.float16), mx.zeros((2,), mx.int32)
    given = {"inputs": [x, scale, index], "output_dtypes": [mx.float32, mx.int32]}
    assert words(["x", "s", "i"], **given) == []
    template = [("T", mx.float32), ("I", mx.int32), ("N", 4)]
    found = list(families(["x", "s", "i"], {**given, "template": template}))
    assert [family.together.words for family in found] == [
        "with float16 for float32",
        "with bfloat16 for float32",
    ]
    half = found[0].together.arguments
    assert [value.dtype for value in half["inputs"]] == [mx.float16, mx.float16, mx.int32]
    assert half["template"] == [("T", mx.float16), ("I", mx.int32), ("N", 4)]
    assert half["output_dtypes"] == [mx.float16, mx.int32]
    assert given["output_dtypes"] == [mx.float32, mx.int32]


@pytest.mark.parametrize("arguments", [{}, {"inputs": None}, {"inputs": mx.zeros((8,))}])
def test_odd_arguments_have_no_variants(arguments: dict[str, Any]) -> None:
    assert list(families(["x"], arguments)) == []


def test_a_key_is_what_variants_depend_on() -> None:
    def of(x: mx.array, **more: Any) -> str:
        return key({"inputs": [x, 2], **more})

    x = mx.zeros((8, 2))
    assert of(x) == of(mx.ones((9, 9)))
    others = [mx.zeros((2, 2)), mx.zeros((8,)), x.astype(mx.float16)]
    assert len({of(one) for one in (x, *others)}) == 4
    assert of(x) != of(x, template=[("T", mx.float32)])


def kernel(body: str, header: str = "", **more: Any) -> Any:
    return mx.fast.metal_kernel(
        name="k", input_names=["x"], output_names=["y"], source=body, header=header, **more
    )


def call(made: Any, x: mx.array | float | None = None, **more: Any) -> list[mx.array]:
    defaults = {
        "inputs": [mx.zeros((16,)) if x is None else x],
        "output_shapes": [(16,)],
        "output_dtypes": [mx.float32],
    }
    outputs = made(grid=(16, 1, 1), threadgroup=(16, 1, 1), **{**defaults, **more})
    assert isinstance(outputs, list)
    return outputs


@ON_LINUX
def test_an_error_in_the_body_and_in_the_header() -> None:
    with compiling() as recorder:
        (y,) = call(kernel("uint i = thread_position_in_grid.x;\ny[i] = nothing;"))
        assert y.tolist() == [0.0] * 16
        call(kernel("y[0] = twice(x[0]);", "\nfloat twice(float v) {\n  return v + w;\n}\n"))
    body, header = recorder.findings
    assert (body.kind, body.part, body.line) == ("does-not-compile", "body", 2)
    assert "nothing" in body.message
    assert body.launched_at is not None
    assert body.launched_at[0] == __file__
    assert (header.part, header.line, header.excerpt) == ("header", 3, "return v + w;")


@ON_LINUX
def test_nothing_is_run() -> None:
    with compiling() as recorder:
        (y,) = call(kernel("while (true) { y[0] += x[0]; }"))
        assert y.tolist() == [0.0] * 16
    assert recorder.findings == []
    assert len(recorder.launches) == 2  # as launched, and small


@ON_LINUX
def test_which_input_it_is() -> None:
    body = "const device float* p = b;\ny[0] = a[0] + p[0];"
    with compiling() as recorder:
        launch(body, dict.fromkeys("ab", mx.zeros((16,))), {"y": ((1,), mx.float32)})
    (found,) = recorder.findings
    assert (found.kind, found.line) == ("variant-does-not-compile", 1)
    assert found.message == "kernel does not compile if `b` has fewer than 8 elements"
    assert "constant float" in found.details[0]


@ON_LINUX
def test_a_scalar_and_a_dtype() -> None:
    with compiling() as recorder:
        call(kernel("y[0] = x[0];"), mx.zeros((1,)))
        call(kernel("T v = x[0];\ny[0] = metal::min(v, 1.0h);"), template=[("T", mx.float16)])
    assert ["no dimensions" in found.message for found in recorder.findings][:1] == [True]
    dtypes = [found.message for found in recorder.findings[1:]]
    assert set(dtypes) <= {
        f"kernel does not compile with {new} for float16" for new in ("float32", "bfloat16")
    }
    assert dtypes


@ON_LINUX
def test_variants_are_tried_once() -> None:
    with compiling() as recorder:
        made = kernel("y[thread_position_in_grid.x] = x[0];")
        for _ in range(3):
            call(made)
    assert len(recorder.launches) == 4


@ON_LINUX
def test_mistakes_in_the_arguments_stay_those_of_mlx() -> None:
    with compiling(), pytest.raises(ValueError, match="Expected `inputs` to have size 1"):
        call(kernel("y[0] = x[0];"), inputs=[])
