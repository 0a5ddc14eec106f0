"""``embercoach simulate --profile``: text, JSON, the page, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from embercoach.cli.simulation import table
from embercoach.report.html.profile_page import (
    place_of,
    profile_facts,
    roofline,
    shown_columns,
    source_rows,
)
from tests.simulator.programs import python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulator is tested on Linux")

Simulate = Callable[..., subprocess.CompletedProcess[str]]
NAME = "<script>alert(1)</script>"
SCRIPT = f"""\
import mlx.core as mx

rows = mx.fast.metal_kernel(
    name="rows",
    input_names=["x"],
    output_names=["y"],
    source=\"\"\"
        uint i = thread_position_in_grid.x;
        float sum = 0.0f; // {NAME}
        for (uint k = 0; k < 64; ++k) {{
            sum += x[i * 64 + k];
        }}
        y[i] = sum;
    \"\"\",
)
for _ in range(3):
    (y,) = rows(
        inputs=[mx.ones((256, 64))],
        grid=(256, 1, 1),
        threadgroup=(64, 1, 1),
        output_shapes=[(256,)],
        output_dtypes=[mx.float32],
    )
    print("sum", y[0].item())
"""


@pytest.fixture
def simulate(tmp_path: Path) -> Simulate:
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return python(
            "-m", "embercoach", "simulate", *arguments, "--", "python", "script.py", cwd=tmp_path
        )

    return run


def test_text_names_the_bound_and_the_line(simulate: Simulate) -> None:
    result = simulate("--profile")
    assert result.returncode == 0, result.stderr
    out = result.stdout
    assert out.startswith("sum 64.0\n")
    assert "script.py:11:13: SIM-COST-001 note uncoalesced read of `x`" in out
    assert "kernel `rows`: 3 launches at script.py:17, grid (256, 1, 1)" in out
    assert "predicted for the M2 Max: " in out
    table = out.partition("predicted for")[2]
    (line,) = (line for line in table.splitlines() if line.endswith("sum += x[i * 64 + k];"))
    number, cells = line.split(" (body 5) ")
    share, issued, lanes, flops, asked, unit, moved, *_ = cells.split()
    assert (number.strip(), lanes, flops) == ("11", "32", f"{256 * 64:,}")
    assert int(share.rstrip("%")) > 50
    assert int(issued.replace(",", "")) >= 8 * 64 * 2
    assert (asked, unit, moved) == ("64", "KiB", "512")


def test_text_has_the_counts_of_the_launch(simulate: Simulate) -> None:
    out = simulate("--profile").stdout
    # 8 simdgroups read 64 times in 32 rows, and write 4 stretches of 32 bytes.
    assert "most at script.py:11 (body line 5)\n" in out
    assert (
        "device memory: 65 KiB in use, 65 KiB requested, 513 KiB moved by stretches of 32 bytes, "
        "1 MiB by 64, 2 MiB by 128\n"
    ) in out
    assert "operations: 16,384 on floats (16,384 float32)\n" in out
    assert "active lanes: 32 of 32, on average\n" in out
    assert "occupancy: 96 of 96 simdgroups a core, limited by threads, about " in out
    assert " registers by clang's estimate\n" in out
    assert "roofline: 0.246 operations for each byte, " in out
    assert "M2 Max: 400 GB/s, 13.6 TFLOP/s; from https://" in out


def test_columns_that_do_not_fit_are_left_out() -> None:
    work = {**WORK, "active_lanes": 32.0, "flops": 10**6, "barriers": 64, "atomics": 64}
    line = {"part": "body", "line": 1, "share": 1.0, "text": "sum += x[i];", **work}
    headers = {
        width: [str(c.header) for c in table({"lines": [line], "source_at": {}}, width).columns]
        for width in (60, 110)
    }
    assert headers == {
        60: ["line", "share", "issued", "lanes", "atomics", ""],
        110: ["line", "share", "issued", "lanes", "flops", "barriers", "atomics", ""],
    }


def test_notes_can_be_left_out(simulate: Simulate) -> None:
    assert "SIM-COST-001" not in simulate("--profile", "--no-notes").stdout


def test_json_has_the_form_of_its_schema(simulate: Simulate) -> None:
    result = simulate("--profile", "--gpu", "h200", "--output-format", "json")
    reported = json.loads(result.stdout)
    text = files("embercoach.report").joinpath("simulation.schema.json").read_text("utf-8")
    jsonschema.Draft202012Validator(json.loads(text)).validate(reported)
    (profile,) = reported["profiles"]
    assert (profile["gpu"], profile["launches"]) == ("H200", 3)
    assert profile["device_bytes"] == 4 * (256 * 64 + 256)
    assert profile["flops"] == 256 * 64
    assert profile["flops_by_kind"] == {"float32": 256 * 64}
    assert profile["bound_at"] == {"part": "body", "line": 5}
    assert profile["source_at"] == {"body": {"path": "script.py", "line": 7}}
    assert profile["device_bytes_requested"] == 4 * (256 * 64 + 256)
    # Each of 8 * 64 accesses touches 32 lines; each of 8 writes 4, 2 and 1.
    moved = [profile[f"device_bytes_moved{by}"] for by in ("", "_by_64", "_by_128")]
    assert moved == [size * (8 * 64 * 32 + 8 * 128 // size) for size in (32, 64, 128)]
    assert profile["gpu_sources"][0].startswith("https://www.nvidia.com/")
    for count in ("flops", "barriers", "device_bytes_moved", "atomics"):
        assert profile[count] == sum(line[count] for line in profile["lines"])
    assert profile["launched_at"] == {"path": "script.py", "line": 17}
    assert profile["busy_seconds"][profile["bound"]] == max(profile["busy_seconds"].values())
    assert profile["predicted_seconds"] >= max(profile["busy_seconds"].values())
    assert sum(line["share"] for line in profile["lines"]) == pytest.approx(1, abs=0.01)


class _Page(HTMLParser):
    """Start tags, and what is in `pre`."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.sources: list[str] = []
        self._in_source = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "pre":
            self._in_source = True
            self.sources.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_source = self._in_source and tag != "pre"

    def handle_data(self, data: str) -> None:
        if self._in_source:
            self.sources[-1] += data


def test_the_page_shows_sources_and_runs_nothing(simulate: Simulate, tmp_path: Path) -> None:
    result = simulate("--profile", "--output-format", "html", "-o", "profile.html")
    assert result.returncode == 0, result.stderr
    page = _Page((tmp_path / "profile.html").read_text(encoding="utf-8"))
    names = [tag for tag, _ in page.tags]
    assert "script" not in names
    assert names.count("circle") == 1
    assert not any("style" in attributes for _, attributes in page.tags)
    (policy,) = (a["content"] for _, a in page.tags if a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert any(NAME in source for source in page.sources)
    hottest = next(n for n, source in enumerate(page.sources) if "sum += x" in source)
    rows = [attributes["class"] for tag, attributes in page.tags if tag == "tr" and attributes]
    assert rows[hottest] in ("heat-7", "heat-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--profile", "--no-checks"), "--profile and --no-checks exclude each other"),
        (("--profile", "--compile-only"), "--profile and --compile-only exclude each other"),
        (("--gpu", "M1"), "--gpu needs --profile"),
        (("--profile", "--gpu", "M0"), "'M0' is not one of"),
        (("--output-format", "html"), "--output-format html needs --profile"),
    ],
)
def test_refusals(arguments: tuple[str, ...], message: str, simulate: Simulate) -> None:
    result = simulate(*arguments)
    assert result.returncode == 2
    assert message in result.stderr


#: Counts of a line without any work.
WORK = {
    "instructions": {},
    "active_lanes": None,
    "flops": 0,
    "flops_by_kind": {},
    "barriers": 0,
    "device_bytes_requested": 0,
    "device_bytes_moved": 0,
    "device_bytes_moved_by_64": 0,
    "device_bytes_moved_by_128": 0,
    "threadgroup_bytes_requested": 0,
    "threadgroup_cycles": 0,
    "bank_conflict_cycles": 0,
    "atomics": 0,
    "atomics_in_turn": 0,
}


def profile(**changes: object) -> dict[str, object]:
    return {
        "kernel": "k",
        "flops": 1000,
        "bound_at": None,
        "device_bytes": 100,
        "predicted_seconds": 1e-6,
        "gpu_bandwidth": 1e11,
        "gpu_flops": 2e12,
        "source": {"header": ["a", "b"], "body": ["c", "d"]},
        "source_at": {"body": {"path": "m.py", "line": 20}},
        "lines": [
            {"part": "header", "line": 2, "share": 0.75, **WORK},
            {"part": "body", "line": 1, "share": 0.005, **WORK},
        ],
        **changes,
    }


def test_the_roof_bends_where_bandwidth_and_operations_meet() -> None:
    plot = roofline([profile()])
    assert plot is not None
    left, corner, right = (tuple(map(float, point.split(","))) for point in plot.roof.split())
    assert left[0] < corner[0] < right[0]
    assert left[1] > corner[1] == right[1]
    (point,) = plot.points
    assert (point.intensity, point.speed) == (10, 1e9)


def test_without_a_published_clock_the_roof_is_the_memory_alone() -> None:
    plot = roofline([profile(gpu_flops=None)])
    assert plot is not None
    assert len(plot.roof.split()) == 2


@pytest.mark.parametrize("missing", ["flops", "device_bytes"])
def test_kernels_without_a_place_in_the_plot(missing: str) -> None:
    assert roofline([profile(**{missing: 0})]) is None


def test_lines_of_the_header_are_shown_where_they_cost() -> None:
    rows = source_rows(profile())
    assert [(row["place"], row["shade"]) for row in rows] == [
        ("header 2", 7),
        ("20 (body 1)", 0),
        ("21 (body 2)", 0),
    ]


def test_facts_name_what_the_launch_does() -> None:
    counted = {
        **profile(),
        **WORK,
        "instructions": {"matrix": 8, "special": 4, "float32": 3},
        "active_lanes": 16.0,
        "flops": 8200,
        "flops_by_kind": {"matrix": 8192, "special": 8},
        "device_bytes_requested": 4096,
        "device_bytes_moved": 2048,
        "device_bytes_moved_by_64": 4096,
        "device_bytes_moved_by_128": 8192,
        "threadgroup_bytes": 4096,
        "threadgroup_bytes_requested": 8192,
        "threadgroup_cycles": 2048,
        "bank_conflict_cycles": 1984,
        "barriers": 6,
        "atomics": 64,
        "atomics_in_turn": 32,
        "registers": None,
        "occupancy": {"simdgroups": 30, "most": 96, "limit": "threadgroup memory"},
    }
    assert dict(profile_facts(counted)) == {
        "device memory": "100 bytes in use, 4 KiB requested, 2 KiB moved by stretches of 32 bytes,"
        " 4 KiB by 64, 8 KiB by 128",
        "threadgroup memory": "4 KiB a threadgroup, 8 KiB requested in 2,048 cycles, 1,984 of them"
        " by bank conflicts",
        "operations": "8,200 on floats (8 of special functions, 8,192 of matrices), 8 matrix"
        " instructions, 4 special instructions",
        "active lanes": "16 of 32, on average",
        "synchronization": "6 barriers of simdgroups, 64 atomics, 32 in turn",
        "occupancy": "30 of 96 simdgroups a core, limited by threadgroup memory",
        "roofline": "82 operations for each byte, 8.2 GFLOP/s of the 2,000.0 that the GPU can"
        " reach there",
    }


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (None, ""),
        ({"part": "body", "line": 3}, "m.py:22 (body line 3)"),
        ({"part": "header", "line": 3}, "header line 3"),
        ({"part": "generated", "line": 0}, "generated code"),
    ],
)
def test_the_line_that_sets_the_bound(place: dict[str, object] | None, text: str) -> None:
    assert place_of(profile(bound_at=place)) == text


def test_columns_without_a_number_are_left_out() -> None:
    line = {"part": "body", "line": 1, "share": 1.0, **WORK, "barriers": 2}
    assert shown_columns({"lines": [line]}) == ["Instructions", "Barriers"]
