"""Dictionaries in the arguments of kernels: those of ``**kw``, known ones and unknown ones."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes, findings

FACTORY = """
def make(name, source, {parameters}**kw):
    return mx.fast.metal_kernel(
        name=name, input_names=["x"], output_names=["y"], source=source, **kw)
"""
USE = """
def use(x: mx.array):
    return K(inputs=[x], grid=(64, 1, 1), threadgroup=(64, 1, 1),
        output_shapes=[(1,)], output_dtypes=[mx.float32])[0]
"""
#: A body that writes past its array, in threadgroups of 64 threads and not of 32.
OUTSIDE = "threadgroup float s[32]; s[thread_index_in_threadgroup] = 0; y[0] = s[0];"


def made(call: str, before: str = "", parameters: str = "") -> str:
    return f"{FACTORY.format(parameters=parameters)}{before}\nK = {call}\n{USE}"


@pytest.mark.parametrize(
    "program",
    [
        made('make("k", "y[0] = z;", header="constant float w = 1;")'),
        made('make("k", "y[0] = z;", **KW)', before="KW = dict(header='')"),
        made('make("k", **KW)', before='KW = {"source": "y[0] = z;"}'),
        made('make("k", **{**KW, "header": ""})', before='KW = {"source": "y[0] = z;"}'),
    ],
)
def test_what_a_factory_passes_on(program: str) -> None:
    assert codes(program, "KERNEL-SIG-005") == ["KERNEL-SIG-005"]


@pytest.mark.parametrize(
    "program",
    [
        made('make("k", "y[0] = z;", header="constant float z = 1;")'),
        made('make("k", ("" if flag else "float z = 1; ") + "y[0] = z;")'),  # never with the flag
        made('make("k", "y[0] = z;", **KW)', before="from elsewhere import KW"),
        made('make("k", "y[0] = z;", **KW)', before="KW = dict(header='constant float z = 1;')"),
        made('make("k", "y[0] = z;", **KW)', before="KW = {}\nif flag: KW['header'] = unknown()"),
        made('make("k", "y[0] = z;", **KW)', before="KW = {}\nfill(KW)"),
        made('make("k", "y[0] = z;", **KW)', before="KW = {}\nOTHER = KW\nOTHER.update(a)"),
        made('make("k", "y[0] = z;", **KW)', before="KW = dict(**unknown())"),
        made('make("k", "y[0] = z;", **KW)', before="KW = dict(unknown())"),
        made('make("k", "y[0] = z;", **KW)', before="KW = {}\nKW.setdefault('header', more())"),
        made('make("k", "y[0] = z;", **KW)', before="KW = {}\nKW |= more()"),
        made('make("k", "y[0] = z;", **KW)', before="KW = {}\nfor key in keys: KW[key] = 'a'"),
        made('make("k", "y[0] = z;", **CFG.kw)', before="class CFG:\n    kw = {}\nset_up(CFG)"),
    ],
)
def test_what_may_declare_the_name(program: str) -> None:
    assert codes(program, "KERNEL-SIG-005") == []


def test_what_functions_change_is_unknown() -> None:
    changing = "KW = {}\ndef set_up(header):\n    KW['header'] = header\n"
    program = f"def launch(header):\n    set_up(header)\n    return {{}}\n{changing}"
    inside = 'def build():\n    return make("k", "y[0] = z;", **KW)'
    assert codes(made("build()", f"{program}{inside}"), "KERNEL-SIG-005") == []


LAUNCH = """
K = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"], source="{source}")
LAUNCH = dict(grid=(4096, 1, 1), threadgroup=(64, 1, 1), output_dtypes=[mx.float32])

def launch(x: mx.array, n: int, flag: bool, **more):
    {before}
    return K(inputs=[x], {arguments})
"""


def launched(arguments: str, before: str = "pass", source: str = OUTSIDE) -> str:
    return LAUNCH.format(source=source, arguments=arguments, before=before)


@pytest.mark.parametrize(
    ("arguments", "before"),
    [
        ("**LAUNCH, **dict(output_shapes=[(1,)])", "pass"),
        ("**{**LAUNCH, 'output_shapes': [(1,)]}", "pass"),
        ("**dict(LAUNCH, output_shapes=[(1,)])", "pass"),
        ("**kw", "kw = dict(LAUNCH); kw.update(output_shapes=[(1,)])"),
        ("output_shapes=[(1,)], **kw", "kw = {**LAUNCH, 'a': 1}; kw.pop('a')"),
    ],
)
def test_known_launches(arguments: str, before: str) -> None:
    assert codes(launched(arguments, before), "KERNEL-BOUNDS") == ["KERNEL-BOUNDS-001"]
    assert codes(launched(arguments, before), "KERNEL-ARGS") == []


@pytest.mark.parametrize(
    ("arguments", "before"),
    [
        ("**kw", "kw = dict(LAUNCH); kw.update(more)"),
        ("**kw", "kw = dict(LAUNCH); complete(kw)"),
    ],
)
def test_arguments_may_be_among_unknown_ones(arguments: str, before: str) -> None:
    assert codes(launched(arguments, before), "KERNEL-ARGS") == []


def test_what_one_branch_adds_is_not_certain() -> None:
    before = "kw = dict(LAUNCH)\n    if flag: kw['output_shapes'] = [(1,)]"
    assert codes(launched("**kw", before), "KERNEL-ARGS") == []
    either = "kw = dict(a=1) if flag else {}"
    assert codes(launched("output_shapes=[(1,)], **LAUNCH, **kw", either), "KERNEL-ARGS") == []


def test_where_a_wrong_entry_is_told() -> None:
    program = launched("output_shapes=[(1,)], **dict(LAUNCH, bound=3)")
    (found,) = findings(program, "KERNEL-ARGS")
    assert "has no parameter `bound`" in found.message
    line = ("import mlx.core as mx\nimport mlx.nn as nn\n" + program.lstrip("\n")).split("\n")
    assert line[found.line - 1][found.column - 1 : found.end_column - 1] == "3"
