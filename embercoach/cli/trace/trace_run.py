"""The run of ``embercoach trace``: process, report, exit code."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from embercoach.cli import codes
from embercoach.cli.output import deliver
from embercoach.cli.programs import TRACE, program_of
from embercoach.cli.run_program import SIGNALLED, run_program
from embercoach.cli.trace.static_check import checked_trace, configurations_here
from embercoach.cli.trace.traced import Traced, render
from embercoach.report.styled import print_text
from embercoach.trace.trace_record import read
from embercoach.trace.trace_runner import TIMELINE, VARIABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """The command line of ``trace``."""

    program: tuple[str, ...]
    output_format: str
    output_file: Path | None
    lines: int
    no_check: bool


def execute(request: TraceRequest) -> int:
    """Run the program and return its exit code."""
    program = program_of(request.program, TRACE)
    configurations = None if request.no_check else configurations_here()
    with tempfile.TemporaryDirectory(prefix="embercoach-") as folder:
        record_file = Path(folder) / "record.json"
        environment = {**os.environ, VARIABLE: str(record_file)}
        if request.output_format == "perfetto":
            environment[TIMELINE] = "1"
        quiet = request.output_format != "text" and request.output_file is None
        code = run_program(program, environment, quiet=quiet)
        record = read(record_file)
    if record is None:
        if code not in (codes.INCOMPLETE, codes.INTERRUPTED):
            how = f"signal {code - SIGNALLED}" if code > SIGNALLED else f"exit code {code}"
            message = f"{program.shown} ended without a report ({how}; os._exit skips it)"
            print_text(f"embercoach: {message}", sys.stderr)
        return code or codes.INCOMPLETE
    checked = None if configurations is None else checked_trace(record, configurations)
    traced = Traced(record, program.shown, request.lines, code, checked)
    deliver(lambda stream: render(traced, request.output_format, stream), request.output_file)
    return code
