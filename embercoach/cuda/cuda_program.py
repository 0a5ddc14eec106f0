"""The child of ``embercoach run --cuda``, and the start of ``pytest --embercoach-cuda``."""

from __future__ import annotations

import os
import sys

from embercoach.installation import install_command
from embercoach.terminal_text import log_line
from embercoach.user_program import FAILED, run

#: The variable in which `embercoach run` says that MLX shall claim to have Metal.
CLAIM_VARIABLE = "EMBERCOACH_CUDA_CLAIM_METAL"


def start() -> str | None:
    """Activate CUDA for the rest of the process; say why it can't be, None if it is."""
    try:
        from embercoach.cuda import CudaError, activate
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed: {install_command('cuda')}"
    except ImportError as error:
        return f"MLX for CUDA cannot be loaded: {error}. It needs NVIDIA's driver"
    try:
        activate(claim_metal=os.environ.pop(CLAIM_VARIABLE, "") == "1")
    except CudaError as error:
        return str(error)
    return None


def main(form: str, target: str, arguments: list[str]) -> int:
    """Run a script, a module or a piece of code as ``python`` does.

    Args:
        form: one of ``user_program.FORMS``.
        target: the script's path, the module's name, or the code.
        arguments: of the program.

    Returns:
        The exit code, as the interpreter would give it.
    """
    problem = start()
    if problem is not None:
        print(log_line(f"embercoach: {problem}"), file=sys.stderr)  # noqa: T201
        return FAILED
    return run(form, target, arguments)
