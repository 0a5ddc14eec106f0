"""Fuzz targets, each in a process of its own: ``python -m tests.fuzz TARGET... --seconds 60``.

Needs atheris, which ``pip install -e ".[fuzz]"`` installs on Linux for Python 3.10 to 3.13.
"""

from __future__ import annotations

import os
import re
import resource
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import click

from tests.fuzz.targets import NAMES, load

_COUNT = re.compile(r"^#(\d+)\s", re.MULTILINE)
_DONE = re.compile(r"^Done (\d+) runs", re.MULTILINE)
#: Bytes of stack: native parsers recurse, and the linter gives them as much.
STACK = 512 << 20
#: What must be set before the interpreter starts: the order of sets, and the silence of warnings,
#: which Python has about what is linted.
ENVIRONMENT = {"PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore"}


@dataclass(frozen=True, slots=True)
class Limits:
    """When a target is done; None for never."""

    runs: int | None
    seconds: int | None
    seed: int

    def options(self) -> list[str]:
        """As libFuzzer takes them."""
        options = [f"-seed={self.seed}"]
        options += [] if self.runs is None else [f"-runs={self.runs}"]
        return options if self.seconds is None else [*options, f"-max_total_time={self.seconds}"]


@dataclass(frozen=True, slots=True)
class Job:
    """A target that is being fuzzed, and the log that its process writes."""

    target: str
    log: Path
    faults: Path
    before: frozenset[Path]
    started: float

    def result(self, status: int) -> tuple[int, list[Path]]:
        """The executions, and the inputs with faults; printed to standard output."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        counts = _DONE.findall(text) or _COUNT.findall(text) or ["0"]
        executions = int(counts[-1])
        found = sorted(inputs(self.faults, self.target) - self.before)
        rate = executions / max(time.monotonic() - self.started, 1e-9)
        click.echo(
            f"{self.target:<14}{executions:>9} executions{rate:>7.0f}/s  faults: {len(found)}"
        )
        if status and not found:
            click.echo(text[-3_000:], err=True)
            raise click.ClickException(f"{self.target}: the session ended with status {status}")
        return executions, found


def inputs(faults: Path, target: str) -> frozenset[Path]:
    """The inputs of a target that are kept for their faults."""
    return frozenset(path for path in faults.glob(f"{target}-*") if path.suffix != ".txt")


@click.command()
@click.argument("targets", nargs=-1, type=click.Choice(NAMES))
@click.option("--runs", type=click.IntRange(1), help="Executions of each target at most.")
@click.option("--seconds", type=click.IntRange(1), help="Seconds for each target at most.")
@click.option("--seed", type=click.IntRange(1), default=1, show_default=True, help="Random seed.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option(
    "--corpus",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    help="Folder that keeps inputs from one call to the next.",
)
@click.option(
    "--faults",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    default=Path("fuzz-faults"),
    show_default=True,
    help="Folder for an input and a traceback of each fault.",
)
@click.option(
    "--reproduce",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Run one input of the target, and fuzz nothing.",
)
def main(
    targets: tuple[str, ...],
    runs: int | None,
    seconds: int | None,
    seed: int,
    jobs: int,
    corpus: Path | None,
    faults: Path,
    reproduce: Path | None,
) -> None:
    """Fuzz TARGETS, all by default; exit with 1 if there is a fault."""
    if reproduce is not None:
        for name in targets:
            load(name).execute(reproduce.read_bytes())
        return
    if runs is None and seconds is None:
        raise click.UsageError("give --runs or --seconds")
    _restart_if_needed()
    from tests.fuzz.session import instrument

    instrument()
    with tempfile.TemporaryDirectory(prefix="embercoach-fuzz-") as folder:
        limits = Limits(runs, seconds, seed)
        found = _fuzz(targets or NAMES, limits, jobs, corpus or Path(folder), faults, Path(folder))
    for fault in found:
        click.echo(f"fault: {fault}", err=True)
    sys.exit(1 if found else 0)


def _restart_if_needed() -> None:
    """Start the interpreter anew with the environment and the stack that fuzzing needs."""
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    stack = STACK if hard == resource.RLIM_INFINITY else min(STACK, hard)
    if ENVIRONMENT.items() <= os.environ.items():
        return
    resource.setrlimit(resource.RLIMIT_STACK, (stack, hard))
    command = [sys.executable, "-m", "tests.fuzz", *sys.argv[1:]]
    os.execve(sys.executable, command, os.environ | ENVIRONMENT)


def _fuzz(
    targets: tuple[str, ...], limits: Limits, jobs: int, corpus: Path, faults: Path, logs: Path
) -> list[Path]:
    """Fuzz targets, some at a time; returns the inputs with faults."""
    waiting = list(targets)
    running: dict[int, Job] = {}
    executions, found = 0, []
    while waiting or running:
        while waiting and len(running) < jobs:
            name = waiting.pop(0)
            job = Job(name, logs / f"{name}.log", faults, inputs(faults, name), time.monotonic())
            running[_start(job, corpus / name, limits)] = job
        pid, status = os.wait()
        more, new = running.pop(pid).result(status)
        executions += more
        found += new
    click.echo(f"{executions} executions in all, seed {limits.seed}")
    return found


def _start(job: Job, corpus: Path, limits: Limits) -> int:
    """Fork a session; the number of its process."""
    pid = os.fork()
    if pid:
        return pid
    try:
        from tests.fuzz.session import fuzz

        log = os.open(job.log, os.O_WRONLY | os.O_CREAT)
        os.dup2(log, sys.stdout.fileno())
        os.dup2(log, sys.stderr.fileno())
        fuzz(load(job.target), corpus, job.faults, limits.options())
    except BaseException:  # noqa: BLE001  (the parent's code must not run here)
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
