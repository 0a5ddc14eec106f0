"""Count the tests that ran on Metal, write the count to the job's summary, and fail for none.

Usage: python .github/metal_count.py JUNIT_REPORT

Skipped tests do not count, so a run that skips everything fails.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from xml.etree import ElementTree as ET


def count(report: Path) -> tuple[int, int]:
    """Return how many tests of a JUnit report ran and how many were skipped.

    Raises:
        OSError: The report can't be read.
        xml.etree.ElementTree.ParseError: It is not XML.
    """
    cases = list(ET.parse(report).getroot().iter("testcase"))
    skipped = sum(case.find("skipped") is not None for case in cases)
    return len(cases) - skipped, skipped


def main(arguments: list[str]) -> int:
    """Print and summarize the count; return 1 if no test ran, 2 if the report can't be read."""
    if len(arguments) != 1:
        print("usage: metal_count.py JUNIT_REPORT", file=sys.stderr)
        return 2
    try:
        ran, skipped = count(Path(arguments[0]))
    except (OSError, ET.ParseError) as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 2
    line = f"{ran} tests ran on Metal, {skipped} were skipped"
    print(line)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(f"\n**{line}.**\n")
    if ran == 0:
        print("no test ran on Metal although its device works", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
