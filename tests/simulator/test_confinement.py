"""Kernels that attack the process that they run in, and what is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from embercoach.simulator import child_process
from embercoach.simulator import child_process as process_module
from embercoach.simulator.answers import AskedBuffer, MalformedError, Request, read_answer
from embercoach.simulator.build.toolchain import Toolchain
from embercoach.simulator.child_process import Process
from embercoach.simulator.model import Limits, RawFinding
from tests.simulator.units import Bench, ends_soon, is_running, wanted, works

X = np.arange(64, dtype=np.int32)
SYSTEM = """
    extern "C" int fork(); extern "C" int open(const char*, int, ...); extern "C" int setsid();
    extern "C" long write(int, const void*, unsigned long); extern "C" unsigned sleep(unsigned);
    extern "C" void* malloc(unsigned long); extern "C" int ftruncate(int, long);
"""
linux = pytest.mark.skipif(sys.platform != "linux", reason="a limit that only Linux has")


def _attack(bench: Bench, statement: str, **more: Any) -> tuple[np.ndarray, tuple[RawFinding, ...]]:
    """What a launch gives whose first thread attacks, and whose output is its number plus 5."""
    body = f"y[i] = i + 5; if (i == 0) {{ {statement} }}"
    more = {"limits": Limits(seconds=5), "checks": False, **more}
    result = bench.run(body, wanted("y", 64), header=SYSTEM, **more)
    return result.outputs[0].view(np.int32), result.findings


@pytest.mark.parametrize("checks", [True, False], ids=["checked", "unchecked"])
def test_fork_in_a_body_shifts_no_answer(bench: Bench, *, checks: bool) -> None:
    statement = "if (fork() == 0) setsid(); for (int k = 0; k < 50; k++) fork();"
    values, findings = _attack(bench, statement, checks=checks)
    assert findings == ()
    np.testing.assert_array_equal(values, X + 5)
    assert works(bench)
    if sys.platform == "linux":
        values, _ = _attack(bench, "y[1] = fork();", grid=1, threadgroup=1, checks=checks)
        assert values[1] == -1


@pytest.fixture
def permissive(
    toolchain: Toolchain, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    """A process that may start others, as where a system has no filters and the user is root."""
    text = child_process._CHILD.read_text(encoding="utf-8")
    changed = text.replace("        _refuse_processes()\n", "")
    (tmp_path / "child.py").write_text(changed, encoding="utf-8")
    monkeypatch.setattr(child_process, "_CHILD", tmp_path / "child.py")
    monkeypatch.setattr(child_process, "_limits", lambda memory: "CORE=0")
    process = Process(toolchain)
    yield Bench(toolchain, process, bench.folder)
    process.close()


def test_copies_of_the_process_answer_nothing_and_end_with_it(permissive: Bench) -> None:
    values, findings = _attack(permissive, "fork();", checks=False)
    assert findings == ()
    np.testing.assert_array_equal(values, X + 5)
    for _ in range(2):
        assert works(permissive)
    statement = "int copy = fork(); if (copy == 0) for (;;) sleep(60); y[1] = copy;"
    values, findings = _attack(permissive, statement, grid=1, threadgroup=1)
    assert findings == ()
    assert is_running(int(values[1]))
    permissive.process.close()
    assert ends_soon(int(values[1]))


@linux
def test_memory_beyond_the_limit_is_refused(bench: Bench) -> None:
    block = 64 << 20
    statement = f"""
        int taken = 0;
        for (; taken < 1000; taken++) {{
            char* block = (char*)malloc({block});
            if (!block) break;
            for (long k = 0; k < {block}; k += 1 << 20) block[k] = 1;
        }}
        y[1] = taken;
    """
    values, findings = _attack(bench, statement, grid=1, threadgroup=1)
    assert findings == ()
    assert 0 < values[1] * block < 2 << 30
    values, findings = _attack(bench, f"for (;;) *(volatile int*)malloc({block}) = 1;")
    assert [finding.kind for finding in findings] == ["crash"]
    assert works(bench)


def test_launch_of_large_buffers_gets_the_memory_that_it_needs(bench: Bench) -> None:
    assert works(bench)
    result = bench.run("y[i] = 7;", wanted("y", 5 << 20), grid=64)
    assert {finding.kind for finding in result.findings} == {"unwritten-output"}
    assert (result.outputs[0].view(np.int32)[:64] == 7).all()
    assert works(bench)


def test_files_of_a_kernel_are_small(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "file"
    flags = os.O_WRONLY | os.O_CREAT
    statement = f"""
        int file = open("{path}", {flags}, 0600);
        for (int k = 0; k < 300; k++) write(file, (const void*)y, 64 << 10);
    """
    _attack(bench, statement, limits=Limits(seconds=5))
    assert path.stat().st_size <= 1 << 20
    assert works(bench)


def _framed(message: str) -> str:
    """C++ that writes a message into every pipe."""
    data = len(message).to_bytes(4, "little") + message.encode()
    numbers = ", ".join(map(str, data))
    return f"""
        static const unsigned char said[] = {{{numbers}}};
        for (int file = 3; file < 64; file++) write(file, said, sizeof said);
    """


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "message",
    [
        "[]",
        "[" * 5000,
        '{"is": "result", "request": 1000000, "nonce": ""}',
        '{"is": "result", "request": null}',
    ],
    ids=["list", "deep", "future", "null"],
)
def test_forged_answer_is_a_crash_of_its_launch(bench: Bench, message: str) -> None:
    _, findings = _attack(bench, _framed(message))
    (finding,) = findings
    assert (finding.kind, finding.detail) == ("crash", "its process sent a malformed answer")
    assert works(bench)


def test_buffers_cut_by_a_kernel_are_a_crash_of_its_launch(bench: Bench) -> None:
    statement = "for (int file = 3; file < 64; file++) ftruncate(file, 0);"
    _, findings = _attack(bench, statement)
    assert {finding.kind for finding in findings} == {"crash"}
    assert works(bench)


def test_questions_without_end_are_a_crash_or_a_timeout(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "_GRACE", 0.5)
    _, findings = _attack(bench, f"for (;;) {{ {_framed('{}')} }}", limits=Limits(seconds=0.5))
    assert {finding.kind for finding in findings} <= {"crash", "timeout"}
    assert findings
    assert works(bench)


def test_late_answer_is_dropped(bench: Bench) -> None:
    values, findings = _attack(bench, _framed('{"is": "result", "request": 0, "nonce": ""}'))
    assert findings == ()
    np.testing.assert_array_equal(values, X + 5)
    assert works(bench)


_RUN = {"seconds": 0.5, "accesses": 3, "ended": True, "cut": 0, "traffic": [[1, 2]], "findings": []}
_FINDING = {
    **dict.fromkeys(("kind", "reason", "pc", "other_pc", "barrier_pc", "address", "size"), 0),
    **dict.fromkeys(("access", "other_access", "has_thread", "has_other", "value_size"), 0),
    **dict.fromkeys(("line", "column", "count", "place", "offset"), 0),
    "thread": [0, 0, 0],
    "threadgroup": [0, 0, 0],
    "other_thread": [0, 0, 0],
    "other_threadgroup": [0, 0, 0],
    "detail": [0, 0],
    "text": "",
    "value": "00",
    "other_value": "",
}
_DIFFERENCE = {
    **dict.fromkeys(("slot", "different", "unwritten", "first_different", "first_unwritten"), 0),
    "pc": 0,
    "before": "00",
    "now": "01",
}


def _result() -> dict[str, Any]:
    run = {**_RUN, "findings": [dict(_FINDING)]}
    return {"is": "result", "lockstep": False, "runs": [run], "differences": [dict(_DIFFERENCE)]}


_REQUEST = Request(
    object="kernel.so",
    entry=0,
    image=(0, 1),
    text=(0, 1),
    writable=(0, 1),
    arrays=(),
    checked=True,
    profiled=False,
    seconds=1.0,
    body=(1, 2),
    buffers=(AskedBuffer(0, 1, True, 4, 4, 0, None, result=0),),
    grid=(1, 1, 1),
    threadgroup=(1, 1, 1),
)
_PROFILING = replace(_REQUEST, profiled=True)


def test_valid_result_passes() -> None:
    read_answer(_result(), _REQUEST)


def _in_finding(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda result: result["runs"][0]["findings"][0].update(fields)


@pytest.mark.parametrize(
    "change",
    [
        lambda result: result.update({"is": "ready"}),
        lambda result: result.update({"is": ["result"]}),
        lambda result: result.update(runs=[]),
        lambda result: result.update(runs={}),
        lambda result: result.pop("differences"),
        lambda result: result["runs"][0].update(seconds=float("nan")),
        lambda result: result["runs"][0].update(traffic=[]),
        lambda result: result["runs"][0].update(findings=[None]),
        lambda result: result["runs"][0].update(findings=[_FINDING] * 2000),
        lambda result: result["differences"][0].update(slot=1, different=1),
        lambda result: result["differences"][0].update(different=1, before="0"),
        lambda result: result["differences"][0].update(by_pattern=3),
        _in_finding(kind=99),
        _in_finding(kind=-1),
        _in_finding(reason=1.5),
        _in_finding(place=64),
        _in_finding(thread=[0, 0]),
        _in_finding(line=10**30),
        _in_finding(count=True),
        _in_finding(value="xy"),
        _in_finding(text="x" * 5000),
    ],
)
def test_malformed_result_is_refused(change: Callable[[dict[str, Any]], None]) -> None:
    result = _result()
    change(result)
    with pytest.raises(MalformedError):
        read_answer(result, _REQUEST)


_SITE = {
    "pc": 16,
    "place": 0,
    "width": 4,
    "access": 1,
    "issued": 2,
    "lanes": 64,
    "sectors": 8,
    "lines64": 4,
    "lines128": 2,
    "bank_cycles": 0,
    "contention": 0,
    "first": 0,
}
_PROFILE = {
    "simdgroups": 2,
    "buffers": [[256, 0, 256, 0]],
    "sites": [_SITE],
    "blocks": [[0, 2, 64]],
}


def _profiled(**fields: Any) -> dict[str, Any]:
    result = _result()
    result["runs"][0]["profile"] = {**_PROFILE, **fields}
    return result


def test_valid_profile_passes() -> None:
    read_answer(_profiled(), _PROFILING)


@pytest.mark.parametrize(
    "fields",
    [
        {"simdgroups": -1},
        {"buffers": []},
        {"buffers": [[1, 2, 3]]},
        {"sites": [list(_SITE.values())]},
        {"sites": [{"pc": 16}]},
        {"sites": [_SITE | {"place": -1}]},
        {"sites": [_SITE | {"place": 64}]},
        {"sites": [_SITE | {"issued": 2**70}]},
        {"sites": [_SITE] * (1 << 15)},
        {"blocks": [[0, 1]]},
        {"blocks": [[0, -1, 1]]},
        {"blocks": {}},
    ],
)
def test_malformed_profile_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(MalformedError):
        read_answer(_profiled(**fields), _PROFILING)


def test_a_profile_that_was_asked_for_must_be_there() -> None:
    with pytest.raises(MalformedError):
        read_answer(_result(), _PROFILING)


@linux
def test_process_gets_no_secrets_and_no_files(
    toolchain: Toolchain, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    with Path(__file__).open("rb") as file:
        os.set_inheritable(file.fileno(), True)
        process = Process(toolchain)
        own = Bench(toolchain, process, bench.folder)
        assert works(own)
    assert process._child is not None
    pid = process._child._process.pid
    assert b"GITHUB_TOKEN" not in Path(f"/proc/{pid}/environ").read_bytes()
    opened = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}
    assert __file__ not in opened
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    process.close()


# The system's own limits let these start processes, as on a Mac.
_PROGRAM = """
    import os, subprocess, sys, time
    sys.path.append(sys.argv[1])
    import child
    child._refuse_processes = lambda: None
    child.confine(int(sys.argv[2]), "CORE=0")
    grandchild = subprocess.Popen(["sleep", "60"])
    print(grandchild.pid, flush=True)
    if sys.argv[3] == "stays":
        time.sleep(60)
"""


@pytest.mark.parametrize("way", ["stays", "ends"])
def test_what_a_process_started_ends_with_the_caller_or_with_it(way: str) -> None:
    watched, lifeline = os.pipe()
    folder = Path(child_process.__file__).parent
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_PROGRAM), str(folder), str(watched), way],
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=(watched,),
        start_new_session=True,
    ) as process:
        os.close(watched)
        assert process.stdout is not None
        grandchild = int(process.stdout.readline())
        assert way == "ends" or is_running(grandchild)
        if way == "stays":
            os.close(lifeline)
            assert process.wait(2) == -signal.SIGKILL
    assert ends_soon(grandchild)
    if way == "ends":
        os.close(lifeline)
