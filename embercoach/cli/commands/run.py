"""``embercoach run``: the command's options."""

from __future__ import annotations

from typing import Any

import click

from embercoach.cli.option_types import files


@click.command(
    "run",
    context_settings={"allow_interspersed_args": False},
    epilog="Exit code: the program's; with --sanitize 1 if it is 0 and there are findings; 2 if "
    "the program cannot be run. Requires the extra `cuda`.",
)
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=files)
@click.option(
    "--cuda", is_flag=True, required=True, help="Run Metal kernels on the NVIDIA GPU that MLX uses."
)
@click.option(
    "--claim-metal",
    is_flag=True,
    help="Let mx.metal.is_available() return True, for programs that use kernels only then.",
)
@click.option(
    "--sanitize",
    is_flag=True,
    help="Check kernels with NVIDIA's compute-sanitizer: bounds, races, barriers, unset memory.",
)
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Run a program whose Metal kernels run on an NVIDIA GPU.

    PROGRAM is `script.py ...`, `python ...`, `pytest ...`, or `-- -m module ...`, after all options
    of this command. `python` and `pytest` are those of the environment that embercoach is in.
    """
    from embercoach.cli.cuda_run import execute

    chosen = {name: options[name] for name in ("claim_metal", "sanitize")}
    ctx.exit(execute(options["program"], **chosen))
