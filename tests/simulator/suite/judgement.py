"""Runs a case in the simulator and says where what came of it is not what it should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from embercoach.simulator import KernelFinding, activate
from tests.simulator.suite.case import NOTES, Array, Case

#: Seconds after which a kernel that should end is taken not to, and one that should not.
PATIENCE, SHORT_PATIENCE = 60.0, 0.4


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a case gave: findings and notes, and its outputs as NumPy arrays."""

    findings: tuple[KernelFinding, ...]
    notes: tuple[KernelFinding, ...]
    outputs: tuple[np.ndarray, ...]


def run(case: Case, *, profile: bool = False) -> Outcome:
    """Build and launch the case's kernel as its author would; a profiled launch is not checked."""
    endless = any("timeout" in mark.kinds for mark in case.marks)
    timeout = SHORT_PATIENCE if endless else PATIENCE
    with activate(timeout=timeout, profile=profile) as recorder:
        arrays = tuple(_numpy(output) for output in launched(case))
    return Outcome(tuple(recorder.findings), tuple(recorder.notes), arrays)


def launched(case: Case) -> list[mx.array]:
    """Build and launch the case's kernel wherever kernels run now; return the outputs."""
    # embercoach: ignore[KERNEL-CACHE-001] once a case is what a test wants
    kernel = mx.fast.metal_kernel(
        name=case.name,
        input_names=list(case.inputs),
        output_names=list(case.outputs),
        source=case.source,
        header=case.header,
        ensure_row_contiguous=case.ensure_row_contiguous,
        atomic_outputs=case.atomic_outputs,
    )
    outputs: list[mx.array] = kernel(
        inputs=[input_array(array) for array in case.inputs.values()],
        template=[(name, _value(value)) for name, value in case.template],
        grid=case.grid,
        threadgroup=case.threadgroup,
        output_shapes=[out.shape for out in case.outputs.values()],
        output_dtypes=[getattr(mx, out.dtype) for out in case.outputs.values()],
        init_value=case.init_value,
    )
    return outputs


def complaints(case: Case, outcome: Outcome) -> list[str]:
    """What was missed, what was found that is not there, and which values are wrong."""
    found = (*outcome.findings, *outcome.notes)
    missed = [
        f"missed {'|'.join(sorted(kinds))} at {_places(case, kinds)}"
        for kinds in dict.fromkeys(mark.kinds for mark in case.marks)
        if not any(finding.kind in kinds and _stands_at(finding, case, kinds) for finding in found)
    ]
    false = [
        f"false {finding.kind} at {finding.part} {finding.line}: {finding.excerpt}"
        f" ({finding.message})"
        for finding in outcome.findings
        if finding.kind not in case.also and not _is_marked(finding, case)
    ]
    return missed + false + _differences(case, outcome.outputs)


def is_bug(case: Case) -> bool:
    """Whether an error is to be found in the case."""
    return any(not mark.kinds <= NOTES for mark in case.marks)


def _is_marked(finding: KernelFinding, case: Case) -> bool:
    kinds = {mark.kinds for mark in case.marks if finding.kind in mark.kinds}
    return any(_stands_at(finding, case, each) for each in kinds)


def _stands_at(finding: KernelFinding, case: Case, kinds: frozenset[str]) -> bool:
    if finding.line is None:
        return finding.kind in case.lineless
    places = {(mark.part, mark.line) for mark in case.marks if mark.kinds == kinds}
    return (finding.part, finding.line) in places


def _places(case: Case, kinds: frozenset[str]) -> str:
    return ", ".join(f"{m.part} {m.line}" for m in case.marks if m.kinds == kinds)


def _differences(case: Case, outputs: Sequence[np.ndarray]) -> list[str]:
    if case.expected is None:
        return []
    pairs = zip(case.outputs, outputs, case.expected, strict=True)
    reported = (_difference(case, name, output, expected) for name, output, expected in pairs)
    return [difference for difference in reported if difference]


def _difference(case: Case, name: str, output: np.ndarray, expected: np.ndarray) -> str:
    close = {"rtol": case.close, "atol": case.close / 10, "err_msg": name}
    try:
        np.testing.assert_allclose(output.reshape(-1), np.asarray(expected).reshape(-1), **close)
    except AssertionError as error:
        return f"wrong values: {' '.join(str(error).split())}"
    return ""


def input_array(array: Array) -> mx.array:
    """The array that a case passes."""
    values = np.asarray(array.values)
    made = mx.array(values)
    if array.dtype:
        made = made.astype(getattr(mx, array.dtype))
    return array.view(made) if array.view else made


def _value(value: int | bool | str) -> Any:
    return getattr(mx, value) if isinstance(value, str) else value


def _numpy(output: mx.array) -> np.ndarray:
    plain = output.astype(mx.float32) if output.dtype == mx.bfloat16 else output
    return np.array(plain)  # embercoach: ignore[HOST-PULL-002] to be judged by NumPy
