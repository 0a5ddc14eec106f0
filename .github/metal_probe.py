"""Report whether Metal works, computes incorrect results, or is missing on a machine.

Hosted macOS runners are virtual machines: some run custom Metal kernels, some return zeros from
them, and some have no device at all. So a small ``mx.fast.metal_kernel`` runs in a child process
(a broken device can abort the interpreter) and its result is checked on the host.

Usage: python .github/metal_probe.py [--require]

The case is printed, and in a GitHub workflow written to the step's output ``metal`` and the job's
summary. With ``--require`` the exit status is 1 unless the case is ``metal-works``. It is 2 if the
probe itself fails, for example without MLX: then the case is unknown.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

WORKS, BROKEN, NONE = "metal-works", "metal-broken", "no-metal"

_TIMEOUT_SECONDS = 120
_DEVICE, _COMPUTED = "device: ", "computed: "
_NO_DEVICE = 3

# Each of two threadgroups mirrors its values through threadgroup memory: a device that skips the
# launch, the barrier or the second group gives something else.
_GROUPS, _LANES = 2, 64
_EXPECTED = [group * _LANES + _LANES - lane for group in range(_GROUPS) for lane in range(_LANES)]
_BODY = """
    threadgroup float shared[64];
    uint lane = thread_position_in_threadgroup.x;
    uint place = thread_position_in_grid.x;
    shared[lane] = values[place];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    mirrored[place] = shared[63 - lane] + 1.0f;
"""


class Verdict(NamedTuple):
    """One of the three cases, and in words what was seen."""

    case: str
    reason: str


def run_kernel() -> int:
    """Print the device's name, run the kernel on it and print what it computed.

    Returns:
        The exit status: 0, or ``_NO_DEVICE`` where MLX says that there is no Metal device.
    """
    import mlx.core as mx

    if not mx.metal.is_available():
        print("MLX sees no Metal device", file=sys.stderr)
        return _NO_DEVICE
    try:
        device = mx.device_info(mx.gpu)["device_name"]
    except RuntimeError as error:  # MLX is built with Metal, the machine has no device
        print(error, file=sys.stderr)
        return _NO_DEVICE
    print(f"{_DEVICE}{device}", flush=True)
    # embercoach: ignore[KERNEL-CACHE-001] the process launches it once and ends
    mirror = mx.fast.metal_kernel(
        name="embercoach_metal_probe",
        input_names=["values"],
        output_names=["mirrored"],
        source=_BODY,
    )
    values = mx.arange(_GROUPS * _LANES, dtype=mx.float32)
    (mirrored,) = mirror(
        inputs=[values],
        grid=(_GROUPS * _LANES, 1, 1),
        threadgroup=(_LANES, 1, 1),
        output_shapes=[values.shape],
        output_dtypes=[values.dtype],
        stream=mx.gpu,
    )
    found = mirrored.tolist()  # embercoach: ignore[HOST-PULL-001] reading it is the purpose
    print(_COMPUTED + " ".join(f"{value:g}" for value in found), flush=True)
    return 0


def classify(stdout: str, stderr: str, status: int) -> Verdict:
    """Classify the output of a child that ran ``run_kernel``.

    Args:
        stdout: The device if there is one, then the values.
        stderr: The error of the runtime.
        status: The child's exit status; negative for the signal that ended it.

    Raises:
        RuntimeError: The child ended on a Python error before it reached a device.
    """
    lines = stdout.splitlines()
    devices = [line.removeprefix(_DEVICE) for line in lines if line.startswith(_DEVICE)]
    values = [line.removeprefix(_COMPUTED) for line in lines if line.startswith(_COMPUTED)]
    complaint = (stderr.strip().splitlines() or [f"it ended with status {status}"])[-1]
    if not devices:
        if status == _NO_DEVICE or status < 0:
            return Verdict(NONE, complaint)
        raise RuntimeError(complaint)
    if status != 0:
        return Verdict(BROKEN, f"{devices[0]}: the kernel failed: {complaint}")
    if values != [" ".join(map(str, _EXPECTED))]:
        got = " ".join(values)[:40]
        return Verdict(BROKEN, f"{devices[0]}: the kernel returned {got!r}..., not 64 63 62...")
    return Verdict(WORKS, f"{devices[0]}: a custom kernel computed the expected values")


def probe(timeout_seconds: float = _TIMEOUT_SECONDS) -> Verdict:
    """Run the kernel in a child process and classify it; a hang means that Metal is broken.

    Raises:
        RuntimeError: See ``classify``.
    """
    try:
        child = subprocess.run(
            [sys.executable, __file__, "--child"],
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Verdict(BROKEN, f"the kernel did not finish in {timeout_seconds:g} seconds")
    return classify(child.stdout, child.stderr, child.returncode)


def report(verdict: Verdict) -> None:
    """Print the verdict, and write it to the workflow's files if there are any."""
    print(f"{verdict.case}: {verdict.reason}")
    if output := os.environ.get("GITHUB_OUTPUT"):
        with Path(output).open("a", encoding="utf-8") as file:
            file.write(f"metal={verdict.case}\n")
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(f"### Metal: `{verdict.case}`\n\n{verdict.reason}\n")
            if verdict.case != WORKS:
                file.write("\nThe Metal tests did not run on this machine.\n")
    if verdict.case != WORKS and os.environ.get("GITHUB_ACTIONS"):
        print(f"::warning title=Metal tests did not run::{verdict.case}: {verdict.reason}")


def main() -> int:
    """Probe, report, and return the exit status."""
    parser = argparse.ArgumentParser(description="Report whether Metal works on this machine.")
    parser.add_argument("--require", action="store_true", help="fail unless Metal works")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return run_kernel()
    try:
        verdict = probe()
    except RuntimeError as error:
        print(f"the probe failed, so the state of Metal is unknown: {error}", file=sys.stderr)
        return 2
    report(verdict)
    return 1 if options.require and verdict.case != WORKS else 0


if __name__ == "__main__":
    sys.exit(main())
