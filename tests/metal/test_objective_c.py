"""Objective-C++ as a C++ tree: messages, literals, blocks and methods, each at its place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embercoach.metal.objective_c import ObjectiveC, embedded_units, parse

KERNEL = (
    "kernel void f(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = 0; }"
)


def inside(statement: str) -> ObjectiveC:
    return parse(f"void f() {{\n  {statement}\n}}\n")


def pieces(file: ObjectiveC) -> list[tuple[str, list[str]]]:
    """Selectors and arguments, as they were written."""
    data = file.parsed.data
    return [
        (m.selector, [data[start:end].decode() for start, end in m.arguments])
        for m in file.messages
    ]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("[e set:a ? b : c to:d[i] with:f(1, 2)];",
         [("set:to:with:", ["a ? b : c", "d[i]", "f(1, 2)"])]),
        ("[(id<MTLDevice>)device newCommandQueue];", [("newCommandQueue", [])]),
        ("[cb addCompletedHandler:^(id<MTLCommandBuffer> c) { [c status]; }];",
         [("addCompletedHandler:", ["^(id<MTLCommandBuffer> c) { [c status]; }"]), ("status", [])]),
        ("dispatch_sync(queue, ^() { [e endEncoding]; });", [("endEncoding", [])]),
        ("b = [self.device newBufferWithBytes:p.data_ptr<float>() length:n];",
         [("newBufferWithBytes:length:", ["p.data_ptr<float>()", "n"])]),
    ],
)  # fmt: skip
def test_messages(statement: str, expected: list[tuple[str, list[str]]]) -> None:
    file = inside(statement)
    assert pieces(file) == expected
    assert file.parsed.faults == ()


@pytest.mark.parametrize("statement", ["y = x[(int)i];", "[[maybe_unused]] int n = 0;"])
def test_what_is_no_message(statement: str) -> None:
    assert inside(statement).messages == ()


@pytest.mark.parametrize(
    "text",
    [
        "#import <Metal/Metal.h>\n@class Foo;\n@protocol Bar;\n",
        "@interface Foo : NSObject\n@property (nonatomic) id device;\n- (void)go;\n@end\n",
        "@implementation Foo\n- (void)go:(int)n to:(int)m {\n  [self stop];\n}\n@end\n",
        "void f() {\n  @autoreleasepool {\n    g(@(1), @[@1, @2], @YES);\n  }\n}\n",
        "void f() {\n  @try { g(); } @catch (NSException* e) { h(e); } @finally { i(); }\n}\n",
        "void f() {\n  for (id x in xs) { g(x); }\n}\n",
        "void f() {\n  g(@[], @{}, @{ @1 : @2, key : a ? b : c, [k l] : m });\n}\n",
        "void f(id x) {\n  @synchronized(x) { g(); }\n}\n",
        "void f() {\n  void* p = (__bridge void*)x;\n  SEL s = @selector(a:b:);\n}\n",
        "void f(void (^done)(int)) {\n  done(1);\n}\n",
        "void f() {\n  if (@available(macOS 13, *)) { g(); }\n}\n",
    ],
)
def test_the_rest_of_the_language(text: str) -> None:
    assert parse(text).parsed.faults == ()


def test_methods_are_functions() -> None:
    file = parse("@implementation Foo\n- (int)sum:(int)n of:(int)m {\n  return n + m;\n}\n@end\n")
    assert list(file.parsed.of_kinds("function_definition")) != []


@settings(max_examples=60)
@given(st.text(alphabet='[]{}():;@^"\\ \nab,.<>=#/*', max_size=60))
def test_whatever_is_written_places_stay_true(text: str) -> None:
    file = parse(text)
    assert file.parsed.expanded.text == text
    for message in file.messages:
        assert text.encode()[message.start : message.start + 1] == b"["
        assert text.encode()[message.end - 1 : message.end] == b"]"


@pytest.mark.parametrize(
    ("literal", "found"),
    [
        (f'R"METAL(\n// "quoted"\n{KERNEL}\n)METAL"', 1),
        (f'"#include <metal_stdlib>\\n"\n  "{KERNEL}\\n"', 1),
        (f'HEADER "{KERNEL}"', 0),
        ('"a kernel of truth"', 0),
        ('"kernel void f(global float* x) { x[0] = 0; }"', 0),  # OpenCL
        ('"float half_of(float x) { return x / 2; }"', 0),
    ],
)
def test_embedded_text(literal: str, found: int) -> None:
    assert len(list(embedded_units(parse(f"auto source = {literal};\n")))) == found


def test_places_in_embedded_text() -> None:
    source = f'auto s = "// \\u00e9\\n"\n         @"{KERNEL}";\n'
    (unit,) = embedded_units(parse(source))
    at = unit.text.text.index("x[i]")
    assert source[unit.offsets[at] :].startswith("x[i] = 0")
    assert unit.text.text.startswith("// é\n")


def test_nested_collections_are_expressions() -> None:
    text = "void f() { id a = " + "@{x ? y : z : @[" * 50 + "[b c]" + "]}" * 50 + "; }"
    found = parse(text)
    assert [message.selector for message in found.messages] == ["c"]
    assert found.parsed.faults == ()
