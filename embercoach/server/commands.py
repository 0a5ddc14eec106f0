"""Commands of `workspace/executeCommand`, which extensions of editors call."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lsprotocol import types  # noqa: TC002  (pygls evaluates the annotations of handlers)

from embercoach.server.jobs import SignatureJob
from embercoach.server.wire import plain_position

if TYPE_CHECKING:
    from embercoach.server.service import Service

#: Arguments: a document's URI and a position.
KERNEL_SIGNATURE = "embercoach.server.kernelSignature"


def register(service: Service) -> None:
    """Register the commands at a server, which then announces them to the editor."""

    @service.command(KERNEL_SIGNATURE)
    async def _(uri: str, position: types.Position) -> str | None:
        """Return the signatures of the kernels at a position, in Markdown; None if there are none.

        Raises:
            JsonRpcException: the document is not open, or there is no result.
        """
        job = partial(SignatureJob, position=plain_position(position))
        found: str | None = await service.ask(uri, job)
        return found
