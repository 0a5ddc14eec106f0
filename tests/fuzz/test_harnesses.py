"""The harnesses themselves: seeds and mutations are useful, and faults are noticed and kept."""

from __future__ import annotations

import ast
from pathlib import Path
from random import Random

import pytest

from embercoach import checks
from embercoach.checks import FileReport
from embercoach.finding import Edit, Finding, Fix
from tests.fuzz import metal_source, python_source
from tests.fuzz.target import FaultError, Target
from tests.fuzz.targets import NAMES, load

#: Modules without which a target is known to have faults.
UNIT = b"kernel void f(device float* x [[buffer(0)]]) { x[0] = 1; }\n"


@pytest.mark.sampled(0)
@pytest.mark.parametrize("name", NAMES)
def test_mutated_seeds_have_no_fault(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path.cwd())  # a target changes it, and this changes it back
    target = load(name)
    seeds = list(target.inputs())
    assert len(seeds) >= 5
    for seed in seeds[:3]:
        target.execute(seed)
        mutated = target.mutate(seed, Random(1))
        assert target.mutate(seed, Random(1)) == mutated
        target.execute(mutated)


def test_many_mutations_of_python_parse() -> None:
    seeds, random = list(python_source.TARGET.inputs()), Random(1)
    parsed = 0
    for number in range(60):
        text = python_source.MUTATION(seeds[number], random).decode("utf-8", "replace")
        try:
            ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        parsed += 1
    assert parsed >= 20


def test_an_internal_error_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(source: str) -> FileReport:
        raise KeyError(source[:6])

    monkeypatch.setattr(checks, "check_metal", broken)
    with pytest.raises(FaultError, match="internal error while checking: KeyError"):
        metal_source.execute_unit(UNIT)


@pytest.mark.parametrize(
    ("finding", "fault"),
    [
        (Finding("KERNEL-RACE-001", 9, 1, 9, 2, "m", "h", "default"), "begins outside"),
        (Finding("KERNEL-RACE-001", 1, 1, 1, 99, "m", "h", "default"), "ends outside"),
        (Finding("KERNEL-RACE-001", 1, 5, 1, 2, "m", "h", "default"), "ends before"),
        (
            Finding(
                *("KERNEL-RACE-001", 1, 1, 1, 2, "m", "h", "default"),
                Fix("t", safe=True, edits=(Edit(0, 999, ""),)),
            ),
            "an edit outside",
        ),
        (
            Finding(
                *("KERNEL-RACE-001", 1, 1, 1, 2, "m", "h", "default"),
                Fix("Grow", safe=True, edits=(Edit(0, 0, " "),)),
            ),
            "don't settle",
        ),
    ],
)
def test_an_unsound_finding_is_a_fault(
    finding: Finding, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "check_metal", lambda _: FileReport((finding,), ()))
    with pytest.raises(FaultError, match=fault):
        metal_source.execute_unit(UNIT)


def test_faults_are_kept_once(tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    from tests.fuzz.session import Session

    session = Session(Target("t", lambda: (), lambda data, _: data, _fail), tmp_path)
    for data in (b"one", b"two", b"other"):
        session.run(data)
    kept = [path.read_bytes() for path in tmp_path.iterdir() if not path.suffix]
    assert sorted(kept) == [b"one", b"other"]
    reported = "".join(path.read_text() for path in tmp_path.glob("*.txt"))
    assert "raise FaultError" in reported


def _fail(data: bytes) -> None:
    raise FaultError("o" if data.startswith(b"other") else "short")


def test_a_hang_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("atheris")
    from tests.fuzz import session

    monkeypatch.setattr(session, "LIMIT", 0.1)
    target = Target("t", lambda: (), lambda data, _: data, _spin)
    session.Session(target, tmp_path).run(b"forever")
    (reported,) = tmp_path.glob("*.txt")
    assert reported.read_text().startswith("TooSlow")


def _spin(_: bytes) -> None:
    while True:
        pass
