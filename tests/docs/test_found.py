"""docs/found.md: the linter reports the places it lists, and its scripts print what it shows."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest

from embercoach import rulebook
from tests.docs.documents import FOUND
from tests.examples.programs import check
from tests.examples.readme import blocks

TEXT = FOUND.read_text(encoding="utf-8")
#: Those of the table that may be installed: the first by the test extra.
INSTALLED = ("mlx-lm", pytest.param("mlx-vlm", marks=pytest.mark.corpus))


@dataclass(frozen=True, slots=True)
class Place:
    """A row of the table."""

    package: str
    version: str
    path: str
    line: int
    code: str
    section: str


@dataclass(frozen=True, slots=True)
class Script:
    """A script, and the output that the page shows below it."""

    section: str
    text: str
    output: str


def places() -> list[Place]:
    row = re.compile(
        r"\| (\S+) \| (\S+) \| `(\S+):(\d+)` \| \[([A-Z]+[-\w]+)\]\(.*\) \| \[(.+)\]\("
    )
    found = [row.match(line) for line in TEXT.splitlines() if line.startswith("| mlx")]
    assert all(found)
    return [
        Place(one[1], one[2], one[3], int(one[4]), one[5], one[6])
        for one in found
        if one is not None
    ]


def scripts() -> list[Script]:
    shown = [one for one in blocks(TEXT) if one.language in ("python", "text")]
    pairs = zip(shown[::2], shown[1::2], strict=True)
    return [Script(script.heading, script.text, output.text) for script, output in pairs]


def installed(package: str, version: str) -> bool:
    try:
        return metadata.version(package) == version
    except metadata.PackageNotFoundError:
        return False


def test_each_place_has_a_rule_and_each_section_a_script() -> None:
    assert {one.code for one in places()} <= set(rulebook.codes())
    sections = [one.section for one in scripts()]
    assert sections == list(dict.fromkeys(one.section for one in places()))


@pytest.mark.parametrize("package", INSTALLED)
def test_the_linter_reports_each_place(package: str) -> None:
    listed = [one for one in places() if one.package == package]
    if not installed(package, listed[0].version):
        pytest.skip(f"{package} {listed[0].version} is not installed")
    spec = importlib.util.find_spec(package.replace("-", "_"))
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parents[1]
    result = check(
        *("--isolated", "--select", ",".join(sorted({one.code for one in listed}))),
        *("--output-format", "concise"),
        *sorted({str(folder / one.path) for one in listed}),
    )
    assert result.returncode == 1, result.stderr
    reported = {
        (Path(found[1]).name, int(found[2]), found[3])
        for found in re.finditer(r"^(\S+\.py):(\d+):\d+: (\S+) ", result.stdout, re.MULTILINE)
    }
    assert {(Path(one.path).name, one.line, one.code) for one in listed} <= reported


def cases() -> list[object]:
    """Each script; the test extra doesn't install mlx-vlm."""
    marks = {True: [pytest.mark.corpus], False: []}
    return [
        pytest.param(one, id=one.section, marks=marks["mlx_vlm" in one.text]) for one in scripts()
    ]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("script", cases())
def test_a_script_prints_what_the_page_shows(script: Script) -> None:
    (package, version), *_ = {
        (one.package, one.version) for one in places() if one.section == script.section
    }
    if f"import {package.replace('-', '_')}" in script.text and not installed(package, version):
        pytest.skip(f"{package} {version} is not installed")
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(script.text, f"{FOUND.name}: {script.section}", "exec"), {})
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    assert printed.getvalue() == script.output
