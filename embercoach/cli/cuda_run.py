"""The run of ``embercoach run --cuda``, as it is or under NVIDIA's compute-sanitizer."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from embercoach.cli.entry import CLEAN, FOUND, INCOMPLETE, UserError
from embercoach.cli.programs import CUDA, program_of, run_command
from embercoach.installation import install_command
from embercoach.report.styled import print_text

if TYPE_CHECKING:
    from embercoach.simulator.model import KernelFinding


def execute(words: tuple[str, ...], *, claim_metal: bool, sanitize: bool) -> int:
    """Run a program on CUDA.

    Args:
        words: the program's command line.
        claim_metal: whether MLX claims to have Metal.
        sanitize: whether it runs once under each tool of compute-sanitizer.

    Returns:
        The exit code.

    Raises:
        UserError: the program, or compute-sanitizer, can't be started.
    """
    program = program_of(words, CUDA)
    variables = {"EMBERCOACH_CUDA_CLAIM_METAL": "1"} if claim_metal else {}
    if not sanitize:
        return run_command(program.command, variables)
    return _sanitized(program.command, variables)


def _sanitized(command: Sequence[str], variables: Mapping[str, str]) -> int:
    try:
        from embercoach.cuda import CudaError
        from embercoach.cuda.sanitizer import TOOLS, findings_in, sanitizer_command
        from embercoach.simulator.reporting.messages import report
    except ModuleNotFoundError as error:
        raise UserError(f"--sanitize needs {error.name}: {install_command('cuda')}") from error
    status = CLEAN
    found: list[KernelFinding] = []
    with tempfile.TemporaryDirectory(prefix="embercoach-") as folder:
        for tool in TOOLS:
            log, notes = Path(folder) / f"{tool}.log", Path(folder) / f"{tool}.jsonl"
            try:
                line, settings = sanitizer_command(tool, command, log, notes)
                code = run_command(line, {**variables, **settings})
                status = status or code
                if not log.exists():
                    message = f"embercoach: {tool} of compute-sanitizer wrote no report"
                    print_text(message, sys.stderr)
                    return status or INCOMPLETE
                found += findings_in(tool, log, notes)
            except CudaError as error:
                raise UserError(str(error)) from error
    for finding in found:
        for text in (*report(finding).splitlines(), ""):
            print_text(text, sys.stdout)
    count = len(found)
    print_text(
        f"Found {count} finding{'' if count == 1 else 's'} with compute-sanitizer.", sys.stdout
    )
    return status or (FOUND if found else CLEAN)
