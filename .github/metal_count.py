"""Count the tests that really ran on Metal, tell the job's summary, and fail where it is none.

Usage: python .github/metal_count.py JUNIT_REPORT

A skipped test is not one that ran, so a run that skips everything fails here.
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
    """Print and summarise the count; 1 where no test ran, 2 where the report can't be read."""
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
        print("no test ran on Metal though its device works: nothing was shown", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
