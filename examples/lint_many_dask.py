"""Lint many checkouts on a Dask cluster, and merge the findings into the report of one run.

    pip install "embercoach[examples]"
    python examples/lint_many_dask.py -o findings.json CHECKOUT...
    python examples/lint_many_dask.py --scheduler tcp://head:8786 -o findings.json CHECKOUT...
    embercoach report --from findings.json

Every checkout, or every shard of one, is a task, and runs `embercoach check`. The workers need
EmberCoach, and find the checkouts at the same paths as this machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from dask.distributed import Client, LocalCluster, as_completed


def lint(folder: str, checkout: str, shard: str) -> tuple[bytes, str]:
    """Return the findings in a shard of a checkout as JSON, or an error; runs on a worker."""
    command = [sys.executable, "-m", "embercoach", "check", "--output-format", "json", "--jobs=1"]
    ran = subprocess.run(
        [*command, "--shard", shard, "--", checkout], cwd=folder, capture_output=True, check=False
    )
    # 1 means findings, 2 an incomplete run, whose report lists the problems.
    return ran.stdout, "" if ran.stdout else f"{checkout}: {ran.stderr.decode().strip()}"


def connect(scheduler: str | None) -> Client:
    """Connect to a cluster, or create one of this machine's cores: threads that run processes."""
    if scheduler is not None:
        return Client(scheduler)
    cluster = LocalCluster(
        n_workers=1,
        threads_per_worker=os.cpu_count() or 1,
        processes=False,
        dashboard_address=None,
    )
    return Client(cluster)


def merge(reports: list[bytes], output: Path) -> int:
    """Merge the reports into one, and return the exit code of one run over all checkouts."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{number}.json") for number in range(len(reports))]
        for file, report in zip(files, reports, strict=True):
            file.write_bytes(report)
        command = [sys.executable, "-m", "embercoach", "merge", "-o", output, *files]
        return subprocess.run(command, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description="Lint many checkouts on a Dask cluster.")
    parser.add_argument("checkouts", nargs="+", metavar="CHECKOUT")
    parser.add_argument("-o", "--output", type=Path, default=Path("findings.json"))
    parser.add_argument("--scheduler", help="address of a cluster (default: one of this machine)")
    parser.add_argument("--shards", type=int, default=1, help="tasks for each checkout")
    options = parser.parse_args()
    shards = [f"{number}/{options.shards}" for number in range(1, options.shards + 1)]
    reports, failed = [], False
    with connect(options.scheduler) as client:
        tasks = [
            client.submit(lint, str(Path.cwd()), checkout, shard, pure=False)
            for checkout in options.checkouts
            for shard in shards
        ]
        for done in as_completed(tasks):
            report, trouble = done.result()
            if trouble:
                print(trouble, file=sys.stderr)
                failed = True
            else:
                reports.append(report)
    if not reports:
        return 2
    code = merge(reports, options.output)
    return 2 if failed else code


if __name__ == "__main__":
    sys.exit(main())
