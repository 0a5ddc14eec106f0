"""A session of one editor, on standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
from typing import TYPE_CHECKING

from pygls.io_ import StdoutWriter

from embercoach.server.protocol import quiet_expected_errors
from embercoach.server.service import Service

if TYPE_CHECKING:
    from embercoach.server.pool import Pool


def serve(pool: Pool) -> bool:
    """Serve one editor on standard input and output, until it says that it is done.

    Returns:
        Whether it asked for a shutdown before it left.
    """
    # Whatever else is printed must not come between messages.
    messages = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    quiet_expected_errors()
    # The command turned it off; this process lives long, and lets go of texts in cycles.
    gc.freeze()
    gc.enable()
    service = Service(pool)
    service.protocol.set_writer(StdoutWriter(messages))
    try:
        with contextlib.suppress(SystemExit, KeyboardInterrupt, OSError):  # the editor has gone
            asyncio.run(service.listen(sys.stdin.buffer))
    finally:
        pool.end()
    return service.is_done
