"""Every format tells of the same findings: errors, warnings and notes, with a baseline or without.

The checks are the real ones, over a tree with all languages.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from selectolax.lexbor import LexborHTMLParser

from embercoach.cli.commands.check import FORMATS
from embercoach.report import forges
from tests.cli.test_formats import cells

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Ran

    Cli = Callable[..., Ran]

HEAD = "import mlx.core as mx\n\n\n"
PULLS = """\
def total_{0}(xs: list[mx.array]) -> float:
    found = 0.0
    for x in xs:
        y = x * mx.sum(x).item()
    for x in xs:
        z = x / mx.max(x).item()
    y = xs[0] * 2 + 1
    return mx.full((2,), y.max().item() + found)


for x in data:
    total_{0}(xs)


@mx.compile
def step_{0}(x: mx.array):
    return x if x.sum() > 0 else -x


"""
METAL = """\
#include <metal_stdlib>
using namespace metal;

kernel void turn{0}(device float* y [[buffer(0)]], uint i [[thread_position_in_threadgroup]]) {{
    threadgroup float shared[64];
    shared[i] = 1.0f;
    y[i] = shared[63 - i];
}}
"""
OBJECTIVE_C = """\
#import <Metal/Metal.h>
NSString *source{0} = @R"(
#include <metal_stdlib>
using namespace metal;
kernel void turn(device float* y [[buffer(0)]], uint i [[thread_position_in_threadgroup]]) {{
    threadgroup float shared[64];
    shared[i] = 1.0f;
    y[i] = shared[63 - i];
}}
)";
"""


def notebook(*sources: str) -> str:
    return json.dumps(
        {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {"language_info": {"name": "python"}},
            "cells": [
                {
                    "cell_type": "code",
                    "id": f"c{number}",
                    "metadata": {},
                    "outputs": [],
                    "execution_count": None,
                    "source": source.splitlines(keepends=True),
                }
                for number, source in enumerate(sources)
            ],
        },
        indent=1,
    )


def grow(folder: Path, number: int) -> None:
    """Add files of every language to a tree."""
    (folder / f"model_{number}.py").write_text(
        HEAD + "".join(PULLS.format(n) for n in range(number + 1))
    )
    (folder / f"turn_{number}.metal").write_text(METAL.format(number))
    (folder / f"host_{number}.mm").write_text(OBJECTIVE_C.format(number))
    (folder / f"try_{number}.ipynb").write_text(notebook(HEAD, PULLS.format(number)))


@pytest.fixture
def tree(project: Path) -> Path:
    """A folder whose findings a baseline knows in part; nothing of it is an error in parsing."""
    folder = project / "tree"
    (folder / "deep").mkdir(parents=True)
    for number in range(2):
        grow(folder, number)
    return folder


Reported = tuple[int, int, int]
LINE = re.compile(r"^\S+?:(?:cell \d+:)?\d+:\d+: [A-Z-]+-\d{3} (error|warning|note) ", re.MULTILINE)


GROUPED = re.compile(r"^  (?:cell \d+:)?\d+:\d+ +[A-Z-]+-\d{3} (error|warning|note) ", re.MULTILINE)


def of_names(names: list[str]) -> Reported:
    count = Counter(names)
    assert count.keys() <= {"error", "warning", "note"}
    return count["error"], count["warning"], count["note"]


def of_full(out: str) -> Reported:
    """A finding stands for those of its file that say the same."""
    names: list[str] = []
    for line in out.splitlines():
        if found := LINE.match(line):
            names.append(found[1])
        elif more := re.match(r" += and (\d+) more: ", line):
            names += [names[-1]] * int(more[1])
    return of_names(names)


def of_gitlab(out: str) -> Reported:
    names = {severity: name for name, severity in forges.SEVERITIES.items()}
    return of_names([names[entry["severity"]] for entry in json.loads(out)])


def of_junit(out: str) -> Reported:
    root = ET.fromstring(out)
    failed = [failure.attrib["type"] for failure in root.iter("failure")]
    skipped = ["note" for _ in root.iter("skipped")]
    assert int(root.attrib["tests"]) == len(failed) + len(skipped)
    assert int(root.attrib["failures"]) == len(failed)
    return of_names(failed + skipped)


def of_markdown(out: str) -> Reported:
    """The table counts by rule; by severity the sentence above it does."""
    (found,) = re.findall(r"^Found (.*?);", out, re.MULTILINE)
    counts = {noun: int(number) for number, noun in re.findall(r"(\d+) (\w+?)s?\b", found)}
    reported = tuple(counts.get(name, 0) for name in ("error", "warning", "note"))
    assert sum(int(row[3]) for row in cells(out)) == sum(reported)
    return reported[0], reported[1], reported[2]


def of_github(out: str) -> Reported:
    names = re.findall(r"^::(\w+) title=EmberCoach \(", out, re.MULTILINE)
    return of_names(["note" if name == "notice" else name for name in names])


def of_json(out: str) -> Reported:
    document = json.loads(out)
    reported = of_names([finding["severity"] for finding in document["findings"]])
    assert reported == tuple(document["summary"][f"{n}s"] for n in ("error", "warning", "note"))
    return reported


REPORTED: dict[str, Callable[[str], Reported]] = {
    "text": of_full,
    "full": of_full,
    "concise": lambda out: of_names(LINE.findall(out)),
    "grouped": lambda out: of_names(GROUPED.findall(out)),
    "json": of_json,
    "github": of_github,
    "gitlab": of_gitlab,
    "sarif": lambda out: of_names([r["level"] for r in json.loads(out)["runs"][0]["results"]]),
    "junit": of_junit,
    "markdown": of_markdown,
}
#: Formats for programs that sort themselves: notes are always in them.
COMPLETE = ("json", "sarif")


def of_page(text: str) -> Reported:
    """What the totals of an HTML report say, and its list holds."""
    page = LexborHTMLParser(text)
    totals = {
        node.attributes["data-total"]: int(node.text().replace(",", ""))
        for node in page.css("[data-total]")
    }
    data = json.loads(page.css_first("script#data").text())
    reported = of_names([data["severities"][row[6]] for row in data["findings"]])
    assert reported == tuple(totals[name] for name in ("error", "warning", "note"))
    return reported


@pytest.mark.parametrize("show_notes", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_every_format_counts_alike(
    embercoach: Cli, tree: Path, *, known: bool, show_notes: bool
) -> None:
    options = []
    if known:
        assert embercoach("baseline", "update", "--baseline", "known.json", "tree").code == 0
        options = ["--baseline", "known.json"]
        grow(tree / "deep", 3)
    assert REPORTED.keys() == set(FORMATS)
    ran = embercoach("check", "tree", *options, "--output-format", "json")
    errors, warnings, notes = of_json(ran.out)
    # Two of the trees' files are new beside the baseline, or none: there is something of each.
    assert (errors > 5, warnings > 5, notes > 5) == (True, True, True)
    flags = ["--show-notes"] if show_notes else []
    for form in FORMATS:
        ran = embercoach("check", "tree", *options, *flags, "--output-format", form)
        expected = (errors, warnings, notes if show_notes or form in COMPLETE else 0)
        assert (form, REPORTED[form](ran.out)) == (form, expected)
    assert embercoach("report", "tree", *options, "-q", "-o", "page.html").code == 0
    page = (tree.parent / "page.html").read_text(encoding="utf-8")
    assert of_page(page) == (errors, warnings, notes)
    # Saved and shown again, it is the same.
    embercoach("check", "tree", *options, "--output-format", "json", "-o", "saved.json")
    assert embercoach("report", "--from", "saved.json", "-q", "-o", "saved.html").code == 0
    saved = (tree.parent / "saved.html").read_text(encoding="utf-8")
    assert of_page(saved) == (errors, warnings, notes)
