"""Run fuzz targets, each in processes of its own: ``python -m tests.fuzz TARGET... --seconds 60``.

Needs atheris, which ``pip install -e ".[fuzz]"`` installs on Linux for Python 3.10 to 3.13.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from tests.fuzz.targets import NAMES, load

ROOT = Path(__file__).parents[2]
_COUNT = re.compile(r"^#(\d+)\s", re.MULTILINE)
_DONE = re.compile(r"^Done (\d+) runs", re.MULTILINE)
#: Native crashes of a target after which it is given up.
MOST_CRASHES = 10


@dataclass(frozen=True, slots=True)
class Result:
    """What came of fuzzing one target."""

    target: str
    executions: int
    seconds: float
    faults: tuple[Path, ...]

    def __str__(self) -> str:
        rate = self.executions / max(self.seconds, 1e-9)
        count = len(self.faults)
        faults = f"{count} fault{'' if count == 1 else 's'}"
        return f"{self.target:<14} {self.executions:>9} executions {rate:>7.0f}/s  {faults}"


@click.command()
@click.argument("targets", nargs=-1, type=click.Choice(NAMES))
@click.option("--runs", type=click.IntRange(1), help="Executions of each target at most.")
@click.option("--seconds", type=click.IntRange(1), help="Seconds for each target at most.")
@click.option("--seed", type=click.IntRange(1), default=1, show_default=True, help="Random seed.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option(
    "--corpus",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder that keeps inputs from one call to the next.",
)
@click.option(
    "--faults",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("fuzz-faults"),
    show_default=True,
    help="Folder for an input and a traceback of each fault.",
)
@click.option("--reproduce", type=click.Path(path_type=Path, exists=True), help="Run one input.")
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
    with (
        tempfile.TemporaryDirectory(prefix="embercoach-fuzz-") as folder,
        ThreadPoolExecutor(jobs) as pool,
    ):
        fuzz = partial(
            fuzz_target,
            corpus=corpus or Path(folder),
            faults=faults,
            runs=runs,
            seconds=seconds,
            seed=seed,
        )
        results = []
        for result in pool.map(fuzz, targets or NAMES):
            results.append(result)
            click.echo(result)
    click.echo(f"{sum(result.executions for result in results)} executions in all.")
    found = [fault for result in results for fault in result.faults]
    for fault in found:
        click.echo(f"fault: {fault}", err=True)
    sys.exit(1 if found else 0)


def fuzz_target(
    name: str, *, corpus: Path, faults: Path, runs: int | None, seconds: int | None, seed: int
) -> Result:
    """Fuzz one target until its executions or seconds are used up, whatever crashes."""
    started = time.monotonic()
    faults = faults.absolute()
    before = set(_inputs(faults, name))
    executions = 0
    for attempt in range(MOST_CRASHES):
        limits = []
        if runs is not None:
            limits.append(f"-runs={runs - executions}")
        if seconds is not None:
            limits.append(f"-max_total_time={max(1, int(seconds - time.monotonic() + started))}")
        code, log = _session(name, corpus / name, faults, [f"-seed={seed + attempt}", *limits])
        counts = _DONE.findall(log) or _COUNT.findall(log)
        executions += int(counts[-1]) if counts else 0
        if code == 0:
            break
        if not set(_inputs(faults, name)) - before:
            raise click.ClickException(f"{name}: the session ended with {code}:\n{log[-3_000:]}")
        # A crash of native code: on with the rest.
        if (runs is not None and executions >= runs) or (
            seconds is not None and time.monotonic() - started >= seconds
        ):
            break
    found = tuple(sorted(set(_inputs(faults, name)) - before))
    return Result(name, executions, time.monotonic() - started, found)


def _inputs(faults: Path, name: str) -> Iterator[Path]:
    for path in faults.glob(f"{name}-*"):
        if path.suffix != ".txt":
            yield path


def _session(name: str, corpus: Path, faults: Path, options: list[str]) -> tuple[int, str]:
    command = [sys.executable, "-m", "tests.fuzz.session", name, str(corpus), str(faults), "--"]
    # The order of sets must be the same each time; what is linted makes Python warn.
    environment = os.environ | {"PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [*command, *options],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    return done.returncode, done.stderr


if __name__ == "__main__":
    main()
