"""What the checks find in a case of the kernel suite, written out as a program that launches it."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx

from embercoach import rulebook
from embercoach.checks import Project, check_source
from tests.simulator.suite.case import Case
from tests.simulator.suite.judgement import input_array

#: The line of the program that the header starts on; the body follows.
HEADER_LINE = 3


class Verdict(NamedTuple):
    """A finding of the checks: part is ``body``, ``header`` or ``launch``, lines count from 1."""

    code: str
    part: str
    line: int


def verdicts(case: Case) -> tuple[Verdict, ...]:
    """Errors and warnings of the recommended rules for a case."""
    body_line = HEADER_LINE + case.header.count("\n") + 1
    launch_line = body_line + case.source.count("\n") + 1
    reported = []
    for finding in check_source(written_out(case), Path("case.py"), Project()).findings:
        severity = rulebook.rule(finding.code).severity_in("recommended", finding.context)
        if severity == "note" or not finding.code.startswith("KERNEL-"):
            continue
        starts = {"header": HEADER_LINE, "body": body_line, "launch": launch_line}
        part, first = max((p for p in starts.items() if p[1] <= finding.line), key=itemgetter(1))
        reported.append(Verdict(finding.code, part, finding.line - first + 1))
    return tuple(reported)


def written_out(case: Case) -> str:
    """A program that builds and launches the case's kernel; its inputs are zeros."""
    inputs = [_zeros(input_array(array)) for array in case.inputs.values()]
    template = ", ".join(f'("{name}", {_template(value)})' for name, value in case.template)
    dtypes = ", ".join(f"mx.{out.dtype}" for out in case.outputs.values())
    return f"""\
import mlx.core as mx

HEADER = r'''{case.header}'''
SOURCE = r'''{case.source}'''
kernel = mx.fast.metal_kernel(
    name={case.name!r},
    input_names={list(case.inputs)},
    output_names={list(case.outputs)},
    source=SOURCE,
    header=HEADER,
    ensure_row_contiguous={case.ensure_row_contiguous},
    atomic_outputs={case.atomic_outputs},
)
outputs = kernel(
    inputs=[{", ".join(inputs)}],
    template=[{template}],
    grid={case.grid},
    threadgroup={case.threadgroup},
    output_shapes={[out.shape for out in case.outputs.values()]},
    output_dtypes=[{dtypes}],
    init_value={case.init_value},
)
"""


def _zeros(array: mx.array) -> str:
    dtype = str(array.dtype).removeprefix("mlx.core.")
    return f"mx.zeros({array.shape}, dtype=mx.{dtype})"


def _template(value: int | bool | str) -> str:
    return f"mx.{value}" if isinstance(value, str) else repr(value)
