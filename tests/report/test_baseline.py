"""The baseline's file: its form, its fingerprints, and what is no baseline."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embercoach.finding import Finding
from embercoach.report import baseline_file, sarif
from embercoach.report.baseline_file import Baseline, BaselineEntry, BaselineError
from embercoach.report.outcome import SourceTexts

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from embercoach.report.outcome import Outcome

SCHEMA: dict[str, Any] = json.loads(
    files("embercoach.report").joinpath("baseline.schema.json").read_text("utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
REUSED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

TEXTS = st.sampled_from(["", "a", "src/\udc80 é|.py", "DTYPE-001"]) | st.text(max_size=6)
SCALARS = st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | TEXTS
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)
ENTRIES = st.fixed_dictionaries(
    {"path": TEXTS, "code": TEXTS, "fingerprint": TEXTS | SCALARS}, optional={"more": SCALARS}
)
#: Documents that are nearly baselines, baselines among them.
NEAR = st.fixed_dictionaries(
    {
        "kind": st.just(baseline_file.KIND) | SCALARS,
        "version": st.just(1) | st.just(1.0) | SCALARS,
        "findings": st.lists(ENTRIES | JSON, max_size=3) | JSON,
    },
    optional={"more": JSON},
)


def entries(
    source: str, *lines: int, path: str = "a.py", folder: Path
) -> tuple[BaselineEntry, ...]:
    found = [
        Finding("DTYPE-001", n, 1, n, 2, "m", "", "default", path=path, severity="error")
        for n in lines
    ]
    return baseline_file.entries_of(found, SourceTexts({path: source}), folder / "baseline.json")


def test_the_file(
    outcome: Outcome,
    sources: SourceTexts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    snapshot: SnapshotAssertion,
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "known.json"
    found = baseline_file.entries_of(outcome.findings, sources, file)
    baseline_file.write(Baseline(file, frozenset(found)))
    text = file.read_text(encoding="utf-8")
    assert text == snapshot
    VALIDATOR.validate(json.loads(text))
    assert baseline_file.read(file) == Baseline(file, frozenset(found))
    # The order of findings does not show in the file, and its fingerprints are those of SARIF.
    baseline_file.write(Baseline(file, frozenset(reversed(found))))
    assert file.read_text(encoding="utf-8") == text
    log = sarif.document(outcome, sources, profile="recommended", exit_code=1)
    assert [entry.fingerprint for entry in found] == [
        result["partialFingerprints"][sarif.FINGERPRINT] for result in log["runs"][0]["results"]
    ]


def test_an_empty_file(tmp_path: Path) -> None:
    empty = Baseline(tmp_path / "known.json")
    baseline_file.write(empty)
    assert baseline_file.read(empty.file) == empty
    VALIDATOR.validate(json.loads(empty.file.read_text(encoding="utf-8")))


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_entries_survive_moved_lines_and_other_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = entries("x = f()\ny = 1\nx = f()\n", 1, 3, folder=tmp_path)
    after = entries("# new\n\nif a:\n    x = f()\n\tx =  f()\ny = 1\n", 4, 5, folder=tmp_path)
    assert before == after
    assert len(set(before)) == 2
    (other,) = entries("x = g()\n", 1, folder=tmp_path)
    assert other not in before
    (tmp_path / "src").mkdir()
    source = "x = f()\n"
    below = entries(source, 1, path="src/a.py", folder=tmp_path)
    absolute = entries(source, 1, path=str(tmp_path / "src" / "a.py"), folder=tmp_path)
    monkeypatch.chdir(tmp_path / "src")
    assert entries(source, 1, path="a.py", folder=tmp_path) == below == absolute
    assert entries(source, 1, path="../b.py", folder=tmp_path)[0].path == "b.py"
    assert below[0].path == "src/a.py"


def refused(file: Path) -> str | None:
    try:
        baseline_file.read(file)
    except BaselineError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not valid JSON: "),
        (b"\xff\xfe\xfa", "not valid JSON: "),
        (b"[" * 100_000, "not valid JSON: nested too deeply"),
        (b"9" * 10_000, "not a baseline of EmberCoach|not valid JSON"),
        (b"[]", "not a baseline of EmberCoach"),
        (b'{"version": 1, "findings": []}', "not a baseline of EmberCoach: its \"kind\" is not"),
        (b'{"kind": "embercoach-baseline", "findings": []}', '"version" must be 1'),
        (b'{"kind": "embercoach-baseline", "version": true}', '"version" must be 1'),
        (b'{"kind": "embercoach-baseline", "version": NaN}', '"version" must be 1'),
        (b'{"kind": "embercoach-baseline", "version": 2, "more": 1}',
         "of version 2, and this EmberCoach knows 1: update it"),
        (b'{"kind": "embercoach-baseline", "version": 1}', 'missing required field `findings`'),
        (b'{"kind": "embercoach-baseline", "version": 1, "findings": {}}', "at `$.findings`"),
        (b'{"kind": "embercoach-baseline", "version": 1, "findings": [{"path": "a"}]}',
         'missing required field `code` - at `$.findings[0]`'),
        (b'{"kind": "embercoach-baseline", "version": 1, "findings": [], "more": 1}',
         'unknown field `more`'),
        (b'{"kind": "embercoach-baseline", "version": 1, "findings": [], "\\ud800": 1}',
         'surrogates not allowed'),
    ],
)  # fmt: skip
def test_what_is_no_baseline(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "known.json").write_bytes(content)
    reported = refused(tmp_path / "known.json")
    assert reported is not None
    assert reported.startswith(f"{tmp_path / 'known.json'}: ")
    assert any(word in reported for word in words.split("|"))
    assert "\n" not in reported


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    absent = tmp_path / "absent.json"
    assert refused(absent) == (
        f"{absent}: there is no such baseline; "
        f"`embercoach baseline update --baseline {absent}` writes it"
    )
    assert refused(tmp_path) == f"{tmp_path}: cannot be read: Is a directory"
    assert "null" in str(refused(tmp_path / "a\0b"))
    for file in (tmp_path, tmp_path / "no" / "folder.json", tmp_path / "a\0b"):
        with pytest.raises(BaselineError, match="cannot be written: "):
            baseline_file.write(Baseline(file))


@REUSED
@given(content=st.binary(max_size=60) | JSON.map(lambda data: json.dumps(data).encode()))
def test_any_file_is_read_or_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "known.json").write_bytes(content)
    assert refused(tmp_path / "known.json") is not None


@REUSED
@given(document=NEAR)
def test_what_is_read_is_what_the_schema_allows(document: Any, tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    assert (refused(file) is None) == VALIDATOR.is_valid(document)


@REUSED
@given(
    found=st.frozensets(
        st.builds(BaselineEntry, *[st.text(min_size=1, max_size=8)] * 3), max_size=4
    )
)
def test_what_is_written_is_read(found: frozenset[BaselineEntry], tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    baseline_file.write(Baseline(file, found))
    assert baseline_file.read(file).entries == found
    VALIDATOR.validate(json.loads(file.read_text(encoding="utf-8")))
