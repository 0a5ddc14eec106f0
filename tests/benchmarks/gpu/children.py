"""Child processes that print lines: they start together, and the parent reads them in turn."""

from __future__ import annotations

import asyncio
import json
import time
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.gpu.check import report

#: The line of a child that waits for one on its standard input.
READY = "ready"
#: Bytes of the longest line.
LONGEST_LINE = 2**20


@dataclass(frozen=True, slots=True)
class Child:
    """A running process, with the name that messages give it."""

    name: str
    process: Process

    async def lines(self, seconds: float) -> AsyncIterator[str]:
        """Yield its lines until it is ready or ends, errors included.

        Report an exit status that is not 0. Kill it when all this takes longer than `seconds`.
        """
        if self.process.returncode is not None:
            return
        until = time.monotonic() + seconds
        try:
            while line := await asyncio.wait_for(
                self.process.stdout.readline(), until - time.monotonic()
            ):
                text = line.decode(errors="replace").rstrip()
                if text == READY:
                    return
                yield text
            status = await asyncio.wait_for(self.process.wait(), until - time.monotonic())
        except asyncio.TimeoutError:
            self.process.kill()
            await self.process.wait()
            report(f"{self.name}: stopped after {seconds:g} s")
        else:
            if status:
                report(f"{self.name}: exit status {status}")

    async def records(self, seconds: float) -> AsyncIterator[dict[str, Any]]:
        """Yield those of its `lines` that are objects of JSON, and report the others."""
        async for text in self.lines(seconds):
            if text.startswith('{"'):  # xlstm prints dictionaries
                yield json.loads(text)
            else:
                report(text)

    async def compiled(self, seconds: float) -> None:
        """Report its lines until it is ready or ends."""
        async for text in self.lines(seconds):
            report(text)

    async def send(self, line: str) -> None:
        """Write a line to its standard input, unless it has ended."""
        with suppress(ConnectionError):
            self.process.stdin.write(f"{line}\n".encode())
            await self.process.stdin.drain()


Start = Callable[..., Awaitable[Child]]


@asynccontextmanager
async def children() -> AsyncIterator[Start]:
    """Give a function that starts a child from a name and a command; at the end, kill all."""
    processes: list[Process] = []

    async def start(name: str, *command: str) -> Child:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=STDOUT, limit=LONGEST_LINE
        )
        processes.append(process)
        return Child(name, process)

    try:
        yield start
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
        await asyncio.gather(*(process.wait() for process in processes))
