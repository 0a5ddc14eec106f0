"""The run of ``embercoach simulate``: settings, process, report, exit code."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from embercoach.cli import codes
from embercoach.cli.config_warnings import warn
from embercoach.cli.flow import UserError
from embercoach.cli.output import deliver
from embercoach.cli.programs import program_of
from embercoach.cli.run_program import SIGNALLED, run_program
from embercoach.cli.simulate.simulated import Simulated, render
from embercoach.config import ConfigError, Overrides, load
from embercoach.config.load import compiler_allowed
from embercoach.report.styled import print_text
from embercoach.simulator.profile.gpus import DEFAULT
from embercoach.simulator.session.options import VARIABLE, Options
from embercoach.simulator.session.record import read

if TYPE_CHECKING:
    from embercoach.cli.programs import ProgramCommand
    from embercoach.config import Settings

#: pytest's exit code for an invalid command line, which it reports itself.
PYTEST_USAGE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationRequest:
    """The command line of ``simulate``."""

    program: tuple[str, ...]
    no_checks: bool
    compile_only: bool
    timeout: float | None
    allow_compiler: bool
    output_format: str
    output_file: Path | None
    show_notes: bool | None
    config: Path | None
    isolated: bool
    exit_zero: bool
    profile: bool
    gpu: str | None

    @property
    def profiled_gpu(self) -> str | None:
        """The GPU for which launches are profiled; None to check them."""
        return (self.gpu or DEFAULT) if self.profile else None


def execute(request: SimulationRequest) -> int:
    """Run the program and return the exit code."""
    program = program_of(request.program)
    settings = _settings(request)
    with tempfile.TemporaryDirectory(prefix="embercoach-") as folder:
        record_file = Path(folder) / "record.json"
        options = Options(
            settings.simulator, request.compile_only, str(record_file), request.profiled_gpu
        )
        environment = {**os.environ, VARIABLE: options.to_json()}
        code = run_program(program, environment, quiet=_wants_stdout(request))
        record = read(record_file)
    if record is None:
        return _without_record(program, code)
    simulated = Simulated(
        record=record,
        program=program.shown,
        compiled_only=request.compile_only,
        show_notes=settings.show_notes or (request.profile and request.show_notes is None),
        in_short=program.is_pytest,
        profile=settings.profile,
        exit_code=_exit_code(code, found=record.faults, exit_zero=request.exit_zero),
        rules_url=settings.rules_url,
    )
    deliver(lambda stream: render(simulated, request.output_format, stream), request.output_file)
    return simulated.exit_code


def _without_record(program: ProgramCommand, code: int) -> int:
    """Print why there is no report, unless the program has done so."""
    if code not in (codes.INCOMPLETE, codes.INTERRUPTED, PYTEST_USAGE):
        how = f"signal {code - SIGNALLED}" if code > SIGNALLED else f"exit code {code}"
        print_text(
            f"embercoach: {program.shown} ended without a report ({how}; os._exit skips it)",
            sys.stderr,
        )
    return code or codes.INCOMPLETE


def _settings(request: SimulationRequest) -> Settings:
    try:
        allowed = request.allow_compiler or compiler_allowed()
        overrides = Overrides(show_notes=request.show_notes, allow_compiler=allowed)
        (scope,) = load(["."], overrides, config=request.config, isolated=request.isolated)
    except ConfigError as error:
        raise UserError(str(error)) from error
    warn(scope.warnings)
    simulator = scope.settings.simulator
    if request.no_checks:
        simulator = replace(simulator, checks=False)
    if request.timeout is not None:
        simulator = replace(simulator, timeout=request.timeout)
    return replace(scope.settings, simulator=simulator)


def _wants_stdout(request: SimulationRequest) -> bool:
    """Return whether standard output is for the report alone."""
    return request.output_format != "text" and request.output_file is None


def _exit_code(code: int, *, found: int, exit_zero: bool) -> int:
    if code:
        return code
    return codes.FOUND if found and not exit_zero else codes.CLEAN
