"""Whatever a kernel does, the process that launched it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import embercoach
from embercoach.simulator import child_process as module
from embercoach.simulator.build.toolchain import Toolchain
from embercoach.simulator.child_process import Process
from embercoach.simulator.model import Buffer, Limits, RawFinding, SimulatorError
from tests.simulator.units import Bench, begun, ends_soon, given, wanted, works

X = np.arange(64, dtype=np.int32)
SOON = Limits(seconds=0.1)
#: Seconds within which anything ends, on a busy machine too.
PATIENCE = 25
# A function without lines, as those of the Metal library are.
BACKGROUND = """
volatile int go = 1;
RAW int wait_for(int value) { while (go == value); return value; }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("units")


@pytest.fixture(autouse=True)
def others() -> Iterator[set[int]]:
    """The children of other tests; none of these must leave one."""
    before = _children()
    yield before
    assert _children() <= before


@pytest.fixture
def bench(toolchain: Toolchain, folder: Path) -> Iterator[Bench]:
    process = Process(toolchain)
    yield Bench(toolchain, process, folder)
    process.close()


def _children() -> set[int]:
    """Processes that this one has and that are not its business any more, zombies as well."""
    listed = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    if not listed.exists():
        return set()
    mine = set()
    for pid in map(int, listed.read_text().split()):
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
        if not arguments or b"simulator/child.py" in arguments:
            mine.add(pid)
    return mine


def _only(findings: tuple[RawFinding, ...]) -> RawFinding:
    (finding,) = findings
    return finding


@pytest.mark.sampled(8)
@pytest.mark.parametrize("checks", [True, False], ids=["checked", "unchecked"])
@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("y[i] = 1;\nwhile (go)\n;\ny[i] = 2;", {2, 3}),
        ("y[i] = 1;\nwhile (atomic_load(y) < 9)\n;", {2, 3}),
        ("if (t)\nwhile (go) ember_simdgroup_barrier(0);\nelse for (;;) y[i] = 2 * go;", {2, 3}),
        ("y[i] = 1;\nwhile (wait_for(go))\n;", {2, 3}),
    ],
    ids=["plain", "atomic", "barriers", "library"],
)
def test_endless_loop_is_a_timeout(
    bench: Bench, body: str, line: set[int], *, checks: bool
) -> None:
    start = time.monotonic()
    buffers = (begun("y", X),)
    result = bench.run(body, *buffers, header=BACKGROUND, limits=SOON, checks=checks)
    finding = next(f for f in result.findings if f.kind == "timeout")
    assert time.monotonic() - start < PATIENCE
    assert finding.at.line in line
    assert finding.at.thread is not None
    assert works(bench)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("checks", [True, False], ids=["checked", "unchecked"])
@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("*(volatile int*)(0x10 + go) = 1;", "address 0x11"),
        ("*(volatile int*)(ulong(go) << 60) = 1;", ""),
        ("__builtin_trap();", "illegal instruction"),
        ("((void (*)())(ulong)(go * 64))(); y[i] = 2;", "address 0x40"),
    ],
    ids=["null", "no address", "trap", "call"],
)
def test_invalid_pointer_is_a_crash(
    bench: Bench, statement: str, what: str, *, checks: bool
) -> None:
    body = f"y[i] = 1;\nif (i == 7)\n{statement}"
    result = bench.run(body, wanted("y", 64), header=BACKGROUND, checks=checks)
    finding = _only(result.findings)
    assert (finding.kind, finding.at.line, finding.at.thread) == ("crash", 3, (7, 0, 0))
    assert what in finding.detail
    assert works(bench)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("checks", [True, False], ids=["checked", "unchecked"])
@pytest.mark.parametrize(
    ("header", "statement"),
    [
        (
            """
            volatile int go = 1;
            #line 40 "kernel.metal"
            __attribute__((noinline)) int deeper(int n) {
              volatile int a[64]; a[n % 64] = n; return go ? deeper(n + 1) + a[5] : 0;
            }
            """,
            "y[i] = deeper(i);",
        ),
        ("volatile int go = 1;", "volatile int a[1 << 20]; a[go] = 1; y[i] = a[1];"),
        ("volatile int go = 1;", "volatile int a[1 << 25]; a[go] = 1; y[i] = a[1];"),
    ],
    ids=["recursion", "array", "large array"],
)
def test_stack_overflow_is_a_crash(
    bench: Bench, header: str, statement: str, *, checks: bool
) -> None:
    body = f"\n{statement}"
    finding = _only(bench.run(body, wanted("y", 64), header=header, checks=checks).findings)
    assert finding.kind == "crash"
    assert "stack" in finding.detail
    assert finding.at.line in (2, 40, 41)
    assert works(bench)


def test_division_by_zero_gives_a_number(bench: Bench) -> None:
    body = "int d = x[i]; y[i] = 100 / d + 100 % d + (int)((ulong)(i + 7) / (ulong)(uint)d);"
    x = np.where(X % 3 == 0, 0, X).astype(np.int32)
    result = bench.run(body, given("x", x), wanted("y", 64))
    assert [finding.detail for finding in result.findings] == ["integer division by zero"]
    rest = x[x != 0]
    expected = 100 // rest + 100 % rest + (X[x != 0] + 7) // rest
    np.testing.assert_array_equal(result.outputs[0].view(np.int32)[x != 0], expected)


def test_writes_all_over_the_address_space_go_nowhere(bench: Bench) -> None:
    body = "for (long k = -7; k < 8; k++) y[i + k * (1l << 30)] = 1;"
    result = bench.run(body, wanted("y", 64), grid=4, threadgroup=4)
    assert "out-of-bounds" in {finding.kind for finding in result.findings}
    assert works(bench)
    unchecked = bench.run(body, wanted("y", 64), grid=4, threadgroup=4, checks=False)
    assert unchecked.findings == ()


def test_scratch_of_one_launch_is_not_seen_by_the_next(bench: Bench) -> None:
    spot = "y[i] = 0; if (i == 0) y[1 << 20] = 7;"
    assert bench.run(spot, wanted("y", 64), checks=False).findings == ()
    body = "y[i] = y[1 << 20];"
    result = bench.run(body, wanted("y", 64), checks=False)
    assert not result.outputs[0].any()


def test_four_gigabytes_are_refused_at_once(bench: Bench) -> None:
    output = Buffer("y", 0, "output", np.empty(4 << 30, np.uint8), 4, initialized=False)
    start = time.monotonic()
    with pytest.raises(SimulatorError, match=r"4,294,967,296 bytes; the limit is 2,147,483,648"):
        bench.run("y[i] = 1;", output)
    assert time.monotonic() - start < PATIENCE
    assert works(bench)


def test_records_that_take_too_much_are_refused(bench: Bench) -> None:
    output = Buffer("y", 0, "output", np.empty(1 << 20, np.uint8), 1, initialized=False)
    limits = Limits(bytes=2 << 20)
    with pytest.raises(SimulatorError, match="records"):
        bench.run("y[i] = 1;", output, limits=limits)
    small = bench.run("y[i] = 1;", output, limits=limits, checks=False)
    assert small.outputs[0][:64].all()


@pytest.mark.parametrize(
    ("grid", "threadgroup"),
    [((0, 1, 1), (1, 1, 1)), ((9, 1, 1), (0, 1, 1)), ((64, 64, 1), (64, 32, 1))],
)
def test_impossible_geometry_is_refused(
    bench: Bench, grid: tuple[int, int, int], threadgroup: tuple[int, int, int]
) -> None:
    with pytest.raises(SimulatorError, match="can't be launched"):
        bench.run("y[i] = 1;", wanted("y", 64), grid=grid, threadgroup=threadgroup)


def test_object_that_is_none_is_an_error(bench: Bench) -> None:
    header = 'extern "C" int nowhere_at_all(int);'
    with pytest.raises(SimulatorError, match="nowhere_at_all"):
        bench.run("y[i] = nowhere_at_all(i);", wanted("y", 64), header=header)
    assert works(bench)


def _pid(others: set[int]) -> int:
    (pid,) = _children() - others
    return pid


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_killed_child_is_a_crash_and_is_replaced(bench: Bench, others: set[int]) -> None:
    assert works(bench)
    first = _pid(others)
    body = "while (go) ;"
    bench.build(body, {"y": begun("y", X)}, header=BACKGROUND)  # which takes longer than the timer
    threading.Timer(0.3, os.kill, (first, signal.SIGKILL)).start()
    result = bench.run(body, begun("y", X), header=BACKGROUND, limits=Limits(seconds=5))
    finding = _only(result.findings)
    assert (finding.kind, finding.detail) == ("crash", "its process ended by SIGKILL")
    assert works(bench)
    assert _pid(others) != first


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_child_that_does_not_answer_is_a_timeout(
    bench: Bench, others: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert works(bench)
    monkeypatch.setattr(module, "_GRACE", 0.5)
    os.kill(_pid(others), signal.SIGSTOP)
    finding = _only(bench.run("y[i] = 1;", wanted("y", 64), limits=SOON).findings)
    assert (finding.kind, finding.at.line) == ("timeout", None)
    assert works(bench)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_child_that_died_between_launches_is_replaced(bench: Bench, others: set[int]) -> None:
    assert works(bench)
    os.kill(_pid(others), signal.SIGKILL)
    time.sleep(0.1)
    assert works(bench)


def test_fork_gets_a_child_of_its_own(bench: Bench) -> None:
    assert works(bench)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if works(bench) else 2
            bench.process.close()
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert works(bench)


_PROGRAM = """
    import sys
    sys.path.insert(0, sys.argv[1])
    import signal

    # A shell starts background jobs with the signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import numpy as np
    from pathlib import Path
    from embercoach.simulator.model import Limits
    from embercoach.simulator.child_process import Process
    from embercoach.simulator.build.toolchain import find_toolchain
    from tests.simulator.units import Bench, begun, works

    toolchain = find_toolchain()
    bench = Bench(toolchain, Process(toolchain), Path(sys.argv[2]))
    x = np.arange(64, dtype=np.int32)
    assert works(bench)
    print(bench.process._child._process.pid, flush=True)
    {rest}
"""


def _program(rest: str, folder: Path) -> subprocess.Popen[str]:
    text = textwrap.dedent(_PROGRAM).replace("{rest}", rest)
    root = Path(embercoach.__file__).parent.parent
    return subprocess.Popen(
        [sys.executable, "-c", text, str(root), str(folder)], stdout=subprocess.PIPE, text=True
    )


@contextmanager
def _running(rest: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A program whose child works, which must be gone when the program is."""
    with _program(rest, folder) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        yield program
    assert ends_soon(pid)


def _endless(seconds: float) -> str:
    header, body = repr(BACKGROUND), repr("while (go) ;")
    return f"bench.run({body}, begun('y', x), header={header}, limits=Limits(seconds={seconds}))"


@pytest.mark.parametrize(
    "rest", ["import os; os._exit(0)", pytest.param("", marks=pytest.mark.exhaustive)]
)
def test_child_ends_with_its_parent(bench: Bench, folder: Path, rest: str) -> None:
    assert works(bench)  # compiles the unit
    with _running(rest, folder) as program:
        assert program.wait(PATIENCE) == 0


def test_child_ends_though_its_parent_is_killed_in_a_launch(bench: Bench, folder: Path) -> None:
    assert works(bench)
    with _running(_endless(30), folder) as program:
        time.sleep(0.1)
        program.kill()
        program.wait(PATIENCE)


def test_interrupt_ends_the_launch_and_the_child(bench: Bench, folder: Path) -> None:
    assert works(bench)
    with _running(_endless(30), folder) as program:
        time.sleep(0.1)
        start = time.monotonic()
        program.send_signal(signal.SIGINT)
        program.wait(PATIENCE)
        assert time.monotonic() - start < PATIENCE
