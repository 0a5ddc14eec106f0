"""``embercoach server``: the language server, for editors to start."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec

import click

from embercoach.cli import shared_options
from embercoach.cli.entry import CLEAN, FOUND, UserError
from embercoach.installation import install_command

#: What the extra ``server`` brings.
NEEDED = ("lsprotocol", "pygls")


@click.command("server")
@click.option("--stdio", is_flag=True, help="Use standard input and output (the only transport).")
@click.option(
    "--deadline",
    type=click.IntRange(1, 3600),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="Limit of CPU time for the analysis of a document.",
)
@shared_options.plugins
@click.pass_context
def command(ctx: click.Context, stdio: bool, deadline: int) -> None:
    """Serve the Language Server Protocol on standard input and output.

    Started by editors: diagnostics while typing, rule pages and kernel signatures on hover, quick
    fixes. Requires the extra `server`.
    """
    del stdio  # many editors pass it to any server
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        interpreter = shlex.quote(sys.executable)
        raise UserError(
            f"the language server requires {' and '.join(missing)}; "
            f"install with: {install_command('server', interpreter)}"
        )
    from embercoach.server.pool import Pool

    # The worker loads the analysis while this process loads the protocol.
    try:
        pool = Pool(deadline)
    except OSError as error:
        raise click.ClickException(f"cannot start a process: {error.strerror or error}") from error
    from embercoach.server.service import serve

    ctx.exit(CLEAN if serve(pool) else FOUND)
