"""Run unit tests of another project, unmodified, on simulated kernels.

``python -m tests.simulator.packages.upstream FOLDER MODULE.CLASS.TEST...`` prints as JSON how each
test went and what was found in the kernels that it launched.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import unittest

from embercoach import simulator


def run(folder: str, names: list[str]) -> dict[str, dict[str, object]]:
    """Outcome and findings of each test of the folder's modules."""
    sys.path.insert(0, folder)
    results: dict[str, dict[str, object]] = {}
    with simulator.activate() as recorder:
        for name in names:
            before = len(recorder.launches)
            suite = unittest.defaultTestLoader.loadTestsFromName(name)
            result = unittest.TestResult()
            suite.run(result)
            launches = recorder.launches[before:]
            results[name] = {
                "ran": result.testsRun,
                "skipped": [reason for _, reason in result.skipped],
                "failed": [text for _, text in (*result.failures, *result.errors)],
                "launches": len(launches),
                "findings": sorted(
                    {
                        (finding.kernel, finding.kind, finding.line)
                        for launch in launches
                        for finding in launch.findings
                    }
                ),
            }
    return results


if __name__ == "__main__":
    with contextlib.redirect_stdout(io.StringIO()):
        outcome = run(sys.argv[1], sys.argv[2:])
    json.dump(outcome, sys.stdout)
