"""The command line as Windows runs it: separators, line ends, encodings, new interpreters."""

from __future__ import annotations

import codecs
import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest

from tests.processes import run_python

SOURCE = """\
import mlx.core as mx
import numpy as np

counts = mx.array([1, 2], dtype=mx.int16)  # ä, 日本
length = mx.norm(counts)
scaled = "日本", counts * np.float32(0.5)
"""
NAME = "sub folder/ä.py"
RULE = "DTYPE-002"
#: Whose reports hold no character that one of these encodings lacks.
ENCODINGS = ("", "cp1252", "utf-8")


def embercoach(
    folder: Path, *arguments: str, encoding: str = ""
) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONUTF8", "GITHUB_ACTIONS")}
    environment |= {"PYTHONIOENCODING": encoding, "NO_COLOR": "1"}
    return run_python("-m", "embercoach", *arguments, cwd=folder, env=environment)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    file = tmp_path / NAME
    file.parent.mkdir()
    file.write_bytes(codecs.BOM_UTF8 + SOURCE.replace("\n", "\r\n").encode())
    (tmp_path / "embercoach.toml").write_bytes(b"")
    return tmp_path


def found(ran: subprocess.CompletedProcess[str]) -> dict[str, list[tuple[int, int]]]:
    """The places of each rule in a JSON report."""
    assert ran.returncode == 1, ran.stderr
    rows: dict[str, list[tuple[int, int]]] = {}
    for one in json.loads(ran.stdout)["findings"]:
        rows.setdefault(one["code"], []).append((one["line"], one["column"]))
    return rows


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_reports_are_valid_in_every_encoding(project: Path, encoding: str) -> None:
    def report(form: str) -> str:
        ran = embercoach(project, "check", "--output-format", form, ".", encoding=encoding)
        assert (ran.returncode, "Traceback" in ran.stderr) == (1, False), ran.stderr
        return ran.stdout

    (finding,) = [one for one in json.loads(report("json"))["findings"] if one["code"] == RULE]
    assert Path(finding["path"]) == Path(NAME)
    (result,) = [
        one for one in json.loads(report("sarif"))["runs"][0]["results"] if one["ruleId"] == RULE
    ]
    place = result["locations"][0]["physicalLocation"]
    assert unquote(place["artifactLocation"]["uri"]) == NAME
    case = ET.fromstring(report("junit")).find(".//testcase")
    assert case is not None
    assert Path(case.attrib["file"]) == Path(NAME)
    (entry,) = [one for one in json.loads(report("gitlab")) if one["check_name"] == RULE]
    assert entry["location"]["path"] == NAME
    assert RULE in report("text")
    assert RULE in report("github")


def test_line_ends_and_marks_move_nothing(project: Path) -> None:
    (project / "plain.py").write_bytes(SOURCE.encode())
    options = ("check", "--output-format", "json", "--show-notes")
    assert found(embercoach(project, *options, NAME)) == found(
        embercoach(project, *options, "plain.py")
    )


def test_fixes_keep_line_ends_and_the_mark(project: Path) -> None:
    ran = embercoach(project, "check", "--fix", "--unsafe-fixes", NAME)
    assert "Fixed 2 findings in 1 file." in ran.stdout, ran.stderr
    fixed = SOURCE.replace("mx.norm", "mx.linalg.norm")
    fixed = fixed.replace("np.float32(0.5)", "float(np.float32(0.5))").replace("\n", "\r\n")
    assert (project / NAME).read_bytes() == codecs.BOM_UTF8 + fixed.encode()


def test_processes_find_what_one_finds(project: Path) -> None:
    for number in range(4):
        (project / f"m{number}.py").write_bytes(SOURCE.encode())
    options = ("check", "--no-cache", "--output-format", "json", ".", "--jobs")
    one, two = (json.loads(embercoach(project, *options, jobs).stdout) for jobs in ("1", "2"))
    assert one["findings"] == two["findings"]
    assert len({finding["path"] for finding in two["findings"]}) == 5
    assert two["problems"] == []


def test_the_cache_gives_the_same_report(project: Path) -> None:
    options = ("check", "--output-format", "json", ".")
    first, second = (found(embercoach(project, *options)) for _ in range(2))
    assert first == second
    assert any((project / ".embercoach_cache").rglob("*"))


def test_a_baseline_has_slashes_and_is_found_again(project: Path) -> None:
    ran = embercoach(project, "baseline", "update", "--baseline", "known.json", ".")
    assert ran.returncode == 0, ran.stderr
    assert NAME in json.dumps(json.loads((project / "known.json").read_bytes()), ensure_ascii=False)
    assert embercoach(project, "check", "--baseline", "known.json", ".").returncode == 0


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ('exclude = ["sub folder/*.py"]', 0),
        ('exclude = ["/sub folder"]', 0),
        ('exclude = ["other/*.py"]', 1),
        ('per-file-ignores = { "sub folder/**" = ["DTYPE", "API"] }', 0),
    ],
)
def test_patterns_have_slashes(project: Path, setting: str, code: int) -> None:
    (project / "embercoach.toml").write_bytes(f"{setting}\r\n".encode())
    assert embercoach(project, "check", ".").returncode == code


def test_a_page_has_the_sources(project: Path) -> None:
    ran = embercoach(project, "report", ".", "--output-file", "report.html")
    assert ran.returncode in (0, 1), ran.stderr
    page = (project / "report.html").read_text(encoding="utf-8")
    assert RULE in page
    assert "日本" in page or r"\u65e5\u672c" in page


def test_absolute_paths_are_checked(project: Path) -> None:
    ran = embercoach(project, "check", "--output-format", "sarif", str(project / NAME))
    assert ran.returncode == 1, ran.stderr
    (result,) = [
        one for one in json.loads(ran.stdout)["runs"][0]["results"] if one["ruleId"] == RULE
    ]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert unquote(uri) == NAME


@pytest.mark.skipif(sys.platform != "win32", reason="elsewhere it simulates")
def test_the_simulator_refuses_windows(project: Path) -> None:
    (project / "launch.py").write_bytes(b"print(1)\n")
    ran = embercoach(project, "simulate", "launch.py")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.splitlines() == [
        "embercoach: the simulator needs Linux or macOS; Windows has WSL"
    ]
