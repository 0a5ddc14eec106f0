"""Programs and configurations of the simulator's cases: kernels with one exact launch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from embercoach.metal.contract import Input, Output, TemplateArgument
from embercoach.metal.execution.events import Configuration, Trace
from embercoach.metal.execution.follow import follow
from embercoach.metal.program.lowering import SignatureNames, lower_body

if TYPE_CHECKING:
    from embercoach.metal.program.nodes import Program
    from tests.simulator.suite.case import Case


def program_of(case: Case) -> Program:
    """The case's kernel."""
    names = SignatureNames(
        _inputs(case),
        tuple(Output(name, out.dtype) for name, out in case.outputs.items()),
        tuple(TemplateArgument(name, value) for name, value in case.template),
        case.atomic_outputs,
    )
    return lower_body(case.source, case.header, names)


def configuration_of(case: Case) -> Configuration:
    """The case's launch."""
    threadgroup = tuple(min(t, g) for t, g in zip(case.threadgroup, case.grid, strict=True))
    return Configuration(
        threadgroup=threadgroup,
        assumed=frozenset(),
        groups=tuple(-(-g // t) for g, t in zip(case.grid, threadgroup, strict=True)),
        template=dict(case.template),
        inputs=_inputs(case),
        outputs=tuple(Output(name, out.dtype) for name, out in case.outputs.items()),
        output_sizes={name: math.prod(out.shape) for name, out in case.outputs.items()},
    )


_TRACES: dict[str, Trace] = {}


def traced(case: Case) -> Trace:
    """The case, followed."""
    if case.name not in _TRACES:
        _TRACES[case.name] = follow(program_of(case), configuration_of(case))
    return _TRACES[case.name]


def trace_of(
    source: str,
    threadgroup: tuple[int, int, int] = (64, 1, 1),
    groups: tuple[int | None, int | None, int | None] = (1, 1, 1),
    *,
    header: str = "",
    template: dict[str, int | str] | None = None,
) -> Trace:
    """A kernel with the inputs x and n (0-d) and the outputs y and z, followed."""
    inputs = Input("x", "float32", 1), Input("n", "int32", 0)
    outputs = Output("y", "float32"), Output("z", "float32")
    given = template or {}
    pairs = tuple(TemplateArgument(name, value) for name, value in given.items())
    program = lower_body(source, header, SignatureNames(inputs, outputs, pairs))
    return follow(program, Configuration(threadgroup, frozenset(), groups, given, inputs, outputs))


def _inputs(case: Case) -> tuple[Input, ...]:
    inputs = []
    for name, array in case.inputs.items():
        values = np.asarray(array.values)
        # What a view makes of it is not known here.
        ndim, size = (values.ndim, values.size) if array.view is None else (None, None)
        inputs.append(Input(name, array.dtype or _dtype(values), ndim, size))
    return tuple(inputs)


def _dtype(values: np.ndarray) -> str:
    name = values.dtype.name
    return {"float64": "float32", "int64": "int32", "bool": "bool_"}.get(name, name)
