"""``embercoach trace compare``: matching, states, exit codes, formats, refused files."""

from __future__ import annotations

import json
from importlib.resources import files
from io import StringIO
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins
from msgspec.structs import replace

from embercoach.cli.commands.trace import command
from embercoach.cli.entry import start
from embercoach.cli.trace.trace_comparison import (
    SavedSite,
    SavedSummary,
    SavedTrace,
    compare,
    document,
    render,
    saved_trace,
)
from embercoach.report.html.saved import SavedReportError

if TYPE_CHECKING:
    from pathlib import Path

SUMMARY = SavedSummary(
    program="train.py",
    exit_code=0,
    seconds=2.0,
    waited_seconds=1.0,
    events=7,
    device="Device(gpu, 0)",
    mlx="0.32.4",
    peak_bytes=1024,
)
ITEM = SavedSite(
    path="train.py",
    line=12,
    function="main.<locals>.step",
    kind="item",
    operation="array.item",
    text="loss.item()",
    waits=True,
    count=4,
    seconds=0.5,
    bytes=16,
    details=(),
)
EVAL = replace(
    ITEM, line=9, kind="eval", operation="mx.eval", text="mx.eval(loss)", bytes=0, seconds=0.25
)
RETRACE = replace(
    ITEM,
    line=7,
    kind="retrace",
    operation="mx.compile of loss",
    text="loss(x, 1.0)",
    waits=False,
    bytes=0,
    details=("argument 1: 1.0, then 2.0", "argument 1: 2.0, then 3.0"),
)


def trace(*sites: SavedSite, **summary: Any) -> SavedTrace:
    return SavedTrace(sites, replace(SUMMARY, **summary))


def encoded(saved: SavedTrace) -> bytes:
    sites = [{**to_builtins(site), "most_seconds": 0.1, "added_later": []} for site in saved.sites]
    return json.dumps(
        {"version": 1, "sites": sites, "summary": to_builtins(saved.summary), "findings": []}
    ).encode()


def states(before: SavedTrace, after: SavedTrace, **renamed: str) -> list[tuple[str, str, bool]]:
    compared = compare(before, after, renamed).differing
    return [(site.key.kind, site.state, site.is_worse) for site in compared]


NAMES = st.sampled_from(("a", "b"))
SITES = st.builds(
    SavedSite,
    path=st.sampled_from(("a.py", "/venv/lib/site-packages/b.py")),
    line=st.integers(0, 3),
    function=NAMES,
    kind=st.sampled_from(("item", "retrace", "of a later release")),
    operation=NAMES,
    text=NAMES,
    waits=st.just(True),
    count=st.integers(1, 3),
    seconds=st.integers(0, 8).map(float),
    bytes=st.integers(0, 3),
    details=st.lists(NAMES, max_size=2).map(tuple),
)
TRACES = st.lists(SITES, max_size=6).map(lambda sites: trace(*sites))


@given(TRACES, TRACES)
def test_swapping_the_traces_changes_the_signs(before: SavedTrace, after: SavedTrace) -> None:
    there = {site.key: site for site in compare(before, after).sites}
    back = {site.key: site for site in compare(after, before).sites}
    assert there.keys() == back.keys()
    swapped = {"new": "gone", "gone": "new"}
    for key, site in there.items():
        other = back[key]
        assert (site.before, site.after) == (other.after, other.before)
        assert site.count_change == -other.count_change
        assert site.bytes_change == -other.bytes_change
        assert site.seconds_change == -other.seconds_change
        assert other.state == swapped.get(site.state, site.state)


@given(TRACES)
def test_what_was_saved_is_read(saved: SavedTrace) -> None:
    assert saved_trace(encoded(saved)) == saved


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ((ITEM, EVAL), []),
        ((replace(ITEM, line=99), EVAL), []),
        ((replace(ITEM, seconds=50.0), EVAL), []),
        # Python 3.10 names a function without those that it is in.
        ((replace(ITEM, function="step"), EVAL), []),
        # The same line twice in a function is one site.
        ((replace(ITEM, count=1, bytes=4), replace(ITEM, line=3, count=3, bytes=12), EVAL), []),
        ((ITEM,), [("eval", "gone", False)]),
        ((ITEM, EVAL, RETRACE), [("retrace", "new", True)]),
        ((replace(ITEM, count=5), EVAL), [("item", "changed", True)]),
        ((replace(ITEM, count=3, bytes=12), EVAL), [("item", "changed", False)]),
        ((replace(ITEM, count=3, bytes=17), EVAL), [("item", "changed", True)]),
        ((replace(ITEM, path="other.py"), EVAL), [("item", "new", True), ("item", "gone", False)]),
        (
            (replace(ITEM, text="value.item()"), EVAL),
            [("item", "new", True), ("item", "gone", False)],
        ),
    ],
)
def test_sites_match_by_name_and_text(
    after: tuple[SavedSite, ...], expected: list[tuple[str, str, bool]]
) -> None:
    assert states(trace(ITEM, EVAL), trace(*after)) == expected


def test_a_compiled_function_matches_by_its_name() -> None:
    assert states(trace(RETRACE), trace(replace(RETRACE, text="loss(x, scale)"))) == []
    renamed = trace(replace(RETRACE, operation="mx.compile of error"))
    assert [state for _, state, _ in states(trace(RETRACE), renamed)] == ["new", "gone"]


def test_a_renamed_file_and_packages_of_other_machines_match() -> None:
    here = replace(ITEM, path="/home/me/.venv/lib/python3.12/site-packages/mlx_lm/generate.py")
    there = replace(here, path="/opt/lib/python3.13/site-packages/mlx_lm/generate.py")
    assert states(trace(here), trace(there)) == []
    renamed = trace(replace(ITEM, path="after.py"))
    assert states(trace(ITEM), renamed, **{"train.py": "after.py"}) == []


def test_a_program_that_fails_only_after_is_worse() -> None:
    failed = trace(exit_code=1)
    assert compare(trace(ITEM), failed).is_worse
    assert not compare(failed, failed).is_worse
    assert not compare(failed, trace()).is_worse


BEFORE = trace(ITEM, EVAL, RETRACE)
AFTER = trace(
    replace(ITEM, line=14, count=1, bytes=4, seconds=0.125),
    replace(RETRACE, count=5, details=("argument 1: 1.0, then 2.0", "argument 1: 2.0, then 4.0")),
    seconds=1.0,
    waited_seconds=0.125,
    events=6,
    mlx="0.33.0",
)


def test_text_has_the_worse_sites_first_and_the_totals() -> None:
    stream = StringIO()
    render(compare(BEFORE, AFTER), "text", 2, stream)
    lines = [" ".join(line.split()) for line in stream.getvalue().splitlines()]
    assert lines[0] == "count waited bytes event place"
    assert lines[2:6] == [
        "changed before 4 mx.compile of loss again train.py:7",
        "after 5 loss(x, 1.0)",
        "changed before 4 500 ms 16 bytes array.item train.py:14",
        "after 1 125 ms 4 bytes loss.item()",
    ]
    assert lines[lines.index("") + 1 :] == [
        "train.py:7: mx.compile of loss was traced again 4 -> 5 times:",
        "argument 1: 1.0, then 2.0",
        "- argument 1: 2.0, then 3.0",
        "+ argument 1: 2.0, then 4.0",
        "1 more lines (--lines).",
        "The MLX differs: 0.32.4 before, 0.33.0 after.",
        "Waited 1 s -> 125 ms (0.12 times) of 2 s -> 1 s (0.50 times); 7 -> 6 events.",
        "1 worse of 3 sites: 0 new, 1 gone, 2 changed, 0 unchanged.",
    ]


def test_json_is_of_the_published_form() -> None:
    text = files("embercoach.report").joinpath("trace-comparison.schema.json").read_text("utf-8")
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    made = json.loads(json.dumps(document(compare(BEFORE, AFTER))))
    jsonschema.Draft202012Validator(schema).validate(made)
    assert made["summary"] == {
        "worse": True,
        "new": 0,
        "gone": 1,
        "changed": 2,
        "unchanged": 0,
        "seconds_ratio": 0.5,
        "waited_ratio": 0.125,
    }
    assert made["before"] == to_builtins(BEFORE.summary)
    assert made["sites"][1] == {
        "path": "train.py",
        "function": "step",
        "kind": "item",
        "operation": "array.item",
        "text": "loss.item()",
        "waits": True,
        "state": "changed",
        "worse": False,
        "before": {"lines": [12], "count": 4, "seconds": 0.5, "bytes": 16, "details": []},
        "after": {"lines": [14], "count": 1, "seconds": 0.125, "bytes": 4, "details": []},
    }
    empty = document(compare(trace(seconds=0.0), trace()))
    assert empty["summary"]["seconds_ratio"] is None


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "before.json").write_bytes(encoded(BEFORE))
    (tmp_path / "after.json").write_bytes(encoded(AFTER))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("before.json", "before.json"), 0),
        (("before.json", "after.json"), 1),
        (("--renamed", "train.py", "fit.py", "before.json", "before.json"), 1),
        (("--renamed", "./train.py", "./train.py", "before.json", "before.json"), 0),
        (("--renamed", "./train.py", "fit.py", "before.json", "before.json"), 1),
        (("before.json", "absent.json"), 2),
        (("before.json",), 2),
        (("before.json", "."), 2),
    ],
)
def test_the_exit_code(saved: Path, arguments: tuple[str, ...], code: int) -> None:
    assert start(["trace", "compare", *arguments]) == code


def test_compare_is_a_command_only_as_the_first_argument(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (saved / "compare.py").write_text("raise SystemExit(7)\n", encoding="utf-8")
    assert start(["trace", "--", "python", "compare.py"]) == 7
    assert start(["trace", "--", "compare", "before.json"]) == 2
    assert "program must be `script.py`" in capsys.readouterr().err
    shown = CliRunner().invoke(command, ["--help"]).output
    assert "embercoach trace compare BEFORE.json AFTER.json" in shown


def changed(**members: Any) -> bytes:
    data = json.loads(encoded(BEFORE))
    data["sites"][0].update(members)
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "is nested too deep"),
        (b"[]", "must be an object"),
        (b'{"version": 2}', "must have version 1, got 2; trace the program again"),
        (
            b'{"version": 1}',
            "of `trace --output-format json`: object missing required field `sites`",
        ),
        (changed(count=0), "expected `int` >= 1 - at `$.sites[0].count`"),
        (changed(count=True), "expected `int`, got `bool` - at `$.sites[0].count`"),
        (changed(bytes=2**60), "expected `int` <= 9007199254740992 - at"),
        (changed(seconds=-1), "expected `float` >= 0.0 - at `$.sites[0].seconds`"),
        (
            changed(seconds=0.5).replace(b"0.5", b"1e999"),
            "expected `float` <= 9007199254740992.0",
        ),
        (changed(seconds=0.5).replace(b"0.5", b"NaN"), "invalid number NaN"),
        (changed(details=[1]), "expected `str`, got `int` - at `$.sites[0].details[0]`"),
        (changed(path=None), "expected `str`, got `null` - at `$.sites[0].path`"),
    ],
)
def test_reports_of_another_form_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(SavedReportError) as caught:
        saved_trace(data)
    assert message in str(caught.value)


def test_nothing_in_a_report_controls_the_terminal() -> None:
    odd = "\x1b[31m\n::error::\u202e[bold]"
    site = replace(RETRACE, path=odd, operation=odd, text=odd, details=(odd,))
    stream = StringIO()
    render(compare(trace(), trace(site, mlx=odd, device=odd)), "text", 9, stream)
    text = stream.getvalue()
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())
    assert "[bold]" in text.replace("\n", "")
