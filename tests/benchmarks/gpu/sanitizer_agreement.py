"""Compute-sanitizer on the simulator's suite of injected bugs, on an NVIDIA GPU.

Run on a machine with MLX's CUDA backend and the CUDA toolkit:
``python -m tests.benchmarks.gpu.sanitizer_agreement``. The simulator finds every bug of the suite
at its line. This prints of which bugs, of kinds that both know, compute-sanitizer finds the kind,
and of which the line.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path

import click
import mlx.core as mx

import embercoach.cuda
from embercoach.cuda.sanitizer import MISALIGNED, TOOLS, findings_in, sanitizer_command
from tests.simulator.suite.case import Case
from tests.simulator.suite.judgement import launched
from tests.simulator.suite_cases import BUGS

#: Accesses of device memory that leave what MLX allocates (a power of two of bytes), and reads of
#: such memory before a write. Of others the tools know nothing: arrays of threads and threadgroups,
#: and the rest of an allocation.
SEEN_IN_MEMORY = {
    "gather_far_outside",
    "left_neighbour_of_the_first",
    "unsigned_index_wraps",
    "wide_batch_offset_in_32_bits",
    "choice_of_two_neighbours",
    "left_of_its_own_output",
    "matrix_stored_with_a_wide_stride",
    "index_from_another_lane",
    "broadcast_read_as_if_it_were_full",
    "accumulates_on_a_fresh_output",
    "atomics_on_a_fresh_output",
    "previous_step_of_a_recurrence_on_the_output",
}
#: Barriers that some threads reach while others wait at another one, or come again. Of threads that
#: have left CUDA says that they need not arrive.
SEEN_AT_BARRIERS = {
    "each_branch_has_a_barrier_of_its_own",
    "roles_in_a_switch",
    "skipped_by_continue",
}
PARTLY_SEEN = {
    "out-of-bounds": SEEN_IN_MEMORY,
    "uninitialized-read": SEEN_IN_MEMORY,
    "divergent-barrier": SEEN_AT_BARRIERS,
}
#: Seconds that a case may take: some never end, and some end the GPU's context.
PATIENCE = 60
MOST = 45


def chosen(most: int) -> list[tuple[Case, str]]:
    """Return cases with the tool that knows their kind, in turns from each tool's."""
    known = {**{kind: tool for tool, kind in TOOLS.items()}, MISALIGNED: "memcheck"}
    of_tools = defaultdict(list)
    for case in BUGS:
        kind, *others = {kind for mark in case.marks for kind in mark.kinds}
        tool = None if others else known.get(kind)
        if tool and case.name in PARTLY_SEEN.get(kind, {case.name}):
            of_tools[tool].append((case, tool))
    turns = zip_longest(*of_tools.values())
    return [pair for turn in turns for pair in turn if pair][:most]


def judged(case: Case, tool: str) -> str:
    """Run a case under its tool; say what was found of its bug."""
    with tempfile.TemporaryDirectory() as folder:
        record, notes = Path(folder) / "record.xml", Path(folder) / "notes"
        program = [sys.executable, "-m", "tests.benchmarks.gpu.sanitizer_agreement", case.name]
        line, variables = sanitizer_command(tool, program, record, notes)
        try:
            subprocess.run(
                line,
                env={**os.environ, **variables},
                capture_output=True,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "no end"
        if not record.exists():
            return "no record"
        kinds = {kind for mark in case.marks for kind in mark.kinds}
        found = [f for f in findings_in(tool, record, notes) if f.kind in kinds]
    places = {(mark.part, mark.line) for mark in case.marks}
    if any((f.part, f.line) in places for f in found):
        return "line"
    return "kind" if found else "missed"


def main(arguments: list[str] | None = None) -> None:
    """Judge the cases, or run the one that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", nargs="?", help="run this case, and judge nothing")
    parser.add_argument("--most", type=int, default=MOST, help="cases to judge")
    parser.add_argument("--jobs", type=int, default=4, help="processes at once")
    options = parser.parse_args(arguments)
    if options.case:
        embercoach.cuda.activate()
        (case,) = (case for case in BUGS if case.name == options.case)
        mx.eval(launched(case))
        return
    cases = chosen(options.most)
    with ThreadPoolExecutor(options.jobs) as pool:
        verdicts = list(pool.map(lambda pair: judged(*pair), cases))
    for (case, tool), verdict in zip(cases, verdicts, strict=True):
        click.echo(f"{tool:10} {verdict:10} {case.name}")
    good = sum(verdict in ("line", "kind") for verdict in verdicts)
    click.echo(f"{good} of {len(cases)} found, {verdicts.count('line')} at their line")


if __name__ == "__main__":
    main()
