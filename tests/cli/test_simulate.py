"""``embercoach simulate``: what it runs, how, what it tells, and its exit codes."""

from __future__ import annotations

import copy
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from sarif_pydantic import Sarif

from embercoach import rulebook
from embercoach.report import sarif
from tests.cli.conftest import Ran
from tests.simulator.programs import KERNELS, ROOT, kernels_in, python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulator is tested on Linux")

Cli = Callable[..., Ran]
Simulate = Callable[..., subprocess.CompletedProcess[str]]
LINES = KERNELS.splitlines()
RACE = next(n for n, line in enumerate(LINES, 1) if "// RACE" in line)
SCRIPT = """\
import sys
from kernels import double, launch, length, turn

if __name__ == "__main__":
    chosen = {"turn": turn, "length": length, "double": double}
    for name in sys.argv[1].split(","):
        launch(chosen[name])
    print("program", sys.argv[0], sys.path[0])
    sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
"""


@pytest.fixture
def simulate(tmp_path: Path) -> Simulate:
    kernels_in(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")

    def run(*arguments: str, fresh: bool = False) -> subprocess.CompletedProcess[str]:
        return python("-m", "embercoach", "simulate", *arguments, cwd=tmp_path, fresh=fresh)

    return run


def in_json(*arguments: str, simulate: Simulate) -> dict[str, Any]:
    result = simulate("--output-format", "json", *arguments)
    assert result.stdout, result.stderr
    reported = json.loads(result.stdout)
    validator = jsonschema.Draft202012Validator(schema())
    validator.check_schema(schema())
    validator.validate(reported)
    assert "program script.py" not in result.stdout
    assert reported["summary"]["exit_code"] == result.returncode
    return reported  # type: ignore[no-any-return]


def schema() -> dict[str, Any]:
    text = files("embercoach.report").joinpath("simulation.schema.json").read_text("utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


# --- what is told ------------------------------------------------------------------------------


def test_a_finding_is_shown_in_the_python_file(simulate: Simulate) -> None:
    result = simulate("--", "python", "script.py", "turn,double,double")
    assert result.returncode == 1, result.stderr
    out = result.stdout
    assert out.startswith("program script.py ")
    column = LINES[RACE - 1].index("tile[t]") + 1
    assert f"\nkernels.py:{RACE}:{column}: SIM-RACE-001 error data race on " in out
    assert f"{RACE} | {LINES[RACE - 1]}\n" in out
    assert re.search(r"launched at kernels\.py:\d+", out)
    assert re.search(r"^ turn +1 +\d+\.\d{3} +1 +0$", out, re.MULTILINE)
    assert re.search(r"^ double +2 +\d+\.\d{3} +0 +0$", out, re.MULTILINE)
    last = out.splitlines()[-1]
    assert re.fullmatch(r"Found 1 finding; 3 launches of 2 kernels in \d+\.\d\d s\.", last)


def test_kernels_of_one_name_are_told_apart(simulate: Simulate, tmp_path: Path) -> None:
    (tmp_path / "same.py").write_text(SAME_NAME, encoding="utf-8")
    out = simulate("--", "python", "same.py").stdout
    rows = re.findall(r"^ (f\S*(?:, \S+ ?\S*)*) +(\d+) +\d+\.\d{3} +(\d) +0$", out, re.MULTILINE)
    assert rows == [
        ("f, at same.py:4, source 1", "2", "0"),
        ("f, at same.py:4, source 2", "1", "1"),
        ("f, at same.py:17", "1", "0"),
    ]
    assert "\nFound 1 finding; 4 launches of 3 kernels in " in out


SAME_NAME = """\
import mlx.core as mx

def made(source):
    kernel = mx.fast.metal_kernel(name="f", input_names=["x"], output_names=["y"], source=source)
    return kernel

def launch(kernel):
    kernel(inputs=[mx.arange(8.0)], grid=(8, 1, 1), threadgroup=(8, 1, 1), output_shapes=[(8,)],
           output_dtypes=[mx.float32])

START = "uint i = thread_position_in_grid.x; "
launch(made(START + "y[i] = x[i];"))
launch(made(START + "y[i] = x[i];"))
launch(made(START + "y[i] = x[i + 1];"))

names = {"input_names": ["x"], "output_names": ["y"]}
launch(mx.fast.metal_kernel(name="f", source=START + "y[i] = 0;", **names))
"""


def test_notes_are_counted_or_listed(simulate: Simulate) -> None:
    result = simulate("--", "python", "script.py", "length")
    assert result.returncode == 0
    assert "All clear; 1 launch of 1 kernel" in result.stdout
    assert "1 note not shown (--show-notes)." in result.stdout
    assert "SIM-BENIGN-001" not in result.stdout
    result = simulate("--show-notes", "--", "python", "script.py", "length")
    assert "SIM-BENIGN-001 note benign race on `" in result.stdout


def test_a_program_without_kernels(simulate: Simulate) -> None:
    result = simulate("--", "python", "-c", "print('hello')")
    assert (result.returncode, result.stderr) == (0, "")
    told = result.stdout.removeprefix("hello\n-c print('hello') launched no kernel.\n")
    assert told.startswith("Kernels that need `sys.platform == 'darwin'` are skipped here")


def test_json(simulate: Simulate) -> None:
    reported = in_json("--", "python", "script.py", "turn,length", simulate=simulate)
    race, note = reported["findings"]
    assert race | {"message": "", "help": "", "column": 0, "end_column": 0} == {
        "path": "kernels.py",
        "line": RACE,
        "column": 0,
        "end_line": RACE,
        "end_column": 0,
        "code": "SIM-RACE-001",
        "kind": "threadgroup-race",
        "severity": "error",
        "message": "",
        "help": "",
        "kernel": "turn",
        "part": "body",
        "kernel_line": 6,
        "excerpt": LINES[RACE - 1].strip(),
        "thread": race["thread"],
        "count": race["count"],
        "launched_at": {"path": "kernels.py", "line": race["launched_at"]["line"]},
    }
    assert LINES[RACE - 1][race["column"] - 1 : race["end_column"] - 1] == race["excerpt"]
    assert (note["code"], note["severity"]) == ("SIM-BENIGN-001", "note")
    assert [(k["name"], k["launches"], k["findings"], k["notes"]) for k in reported["kernels"]] == [
        ("turn", 1, 1, 0),
        ("length", 1, 0, 1),
    ]
    assert reported["summary"] | {"seconds": 0} == {
        "errors": 1,
        "warnings": 0,
        "notes": 1,
        "allowed": 0,
        "kernels": 2,
        "launches": 2,
        "seconds": 0,
        "compiled_only": False,
        "exit_code": 1,
    }
    validator = jsonschema.Draft202012Validator(schema())
    for damage in (
        lambda d: d.pop("kernels"),
        lambda d: d.update(version=2),
        lambda d: d["findings"][0].update(extra=1),
        lambda d: d["findings"][0].update(kind="rase"),
        lambda d: d["findings"][0].update(thread=[1, 2]),
        lambda d: d["findings"][0].pop("launched_at"),
        lambda d: d["summary"].pop("launches"),
    ):
        document = copy.deepcopy(reported)
        damage(document)
        assert not validator.is_valid(document)


def test_a_report_in_a_file(simulate: Simulate, tmp_path: Path) -> None:
    options = ("--output-format", "json", "-o", "report.json")
    result = simulate(*options, "--", "python", "script.py", "turn")
    assert result.returncode == 1
    assert result.stdout.startswith("program script.py")
    assert json.loads((tmp_path / "report.json").read_text())["summary"]["errors"] == 1
    result = simulate("-o", "no/such/folder", "--", "python", "script.py", "turn")
    assert result.returncode == 2
    assert "cannot write no/such/folder" in result.stderr


def test_the_schema_knows_every_kind() -> None:
    assert schema()["$defs"]["finding"]["properties"]["kind"]["enum"] == sorted(rulebook.kinds())


def test_sarif(simulate: Simulate) -> None:
    result = simulate("--output-format", "sarif", "--", "python", "script.py", "turn")
    log = json.loads(result.stdout)
    standard = ROOT.parent / "shared" / "schemas" / "sarif-2.1.0.json"
    if standard.exists():
        jsonschema.Draft7Validator(json.loads(standard.read_text("utf-8"))).validate(log)
    (run,) = Sarif.model_validate(log).runs
    assert run.results is not None
    assert [one.rule_id for one in run.results] == ["SIM-RACE-001"]
    (raw,) = log["runs"]
    rules = raw["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["SIM-RACE-001"]
    (found,) = raw["results"]
    assert rules[found["ruleIndex"]]["id"] == "SIM-RACE-001"
    assert rules[found["ruleIndex"]]["help"]["markdown"] == rulebook.rule("SIM-RACE-001").page
    place = found["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "kernels.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"]["startLine"] == RACE
    assert sarif.FINGERPRINT in found["partialFingerprints"]
    assert raw["invocations"][0]["exitCode"] == result.returncode == 1


# --- what is run -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [
        ["python", "script.py", "turn"],
        ["python", "-m", "script", "turn"],
        ["-m", "script", "turn"],
        ["script.py", "turn"],
        ["python3", "-u", "-X", "dev", "-Wignore", "script.py", "turn"],
        [sys.executable, "script.py", "turn"],
        ["python", "-c", "import script; script.launch(script.turn)"],
        ["pytest", "-q", "test_it.py"],
        ["python", "-m", "pytest", "-q", "test_it.py"],
        [str(Path(sys.executable).with_name("pytest")), "-q", "test_it.py"],
    ],
    ids=" ".join,
)
@pytest.mark.sampled(4)
def test_programs(program: list[str], simulate: Simulate, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import os, sys\nsys.path.insert(0, os.getcwd())\n"
        "from kernels import launch, turn\n\n\ndef test_it():\n    launch(turn)\n"
    )
    if program[0].endswith("/pytest") and not Path(program[0]).exists():
        pytest.skip("pytest has no script here")
    reported = in_json("--", *program, simulate=simulate)
    assert [finding["code"] for finding in reported["findings"]] == ["SIM-RACE-001"]
    assert reported["summary"]["exit_code"] == 1


def test_a_program_is_run_as_python_runs_it(simulate: Simulate, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "asking.py").write_text(
        "import sys\n"
        "print(__name__, __file__, sys.argv, sys.path[0], sys.modules['__main__'].__dict__ is "
        "globals())\nprint([m for m in sys.modules if m.startswith('embercoach.cli')])\n"
        "import pickle\nclass A: pass\nassert type(pickle.loads(pickle.dumps(A()))) is A\n"
    )
    command = ("sub/asking.py", "--flag", "-x")
    reported = simulate("--", "python", *command, fresh=True).stdout.splitlines()
    plain = python(*command, cwd=tmp_path, fresh=True).stdout.splitlines()
    assert reported[:2] == plain
    assert "[]" in reported[1]


def test_the_simulator_is_active_before_anything_is_imported(
    simulate: Simulate, tmp_path: Path
) -> None:
    (tmp_path / "early.py").write_text(
        "import mlx.core as mx\nassert mx.metal.is_available()\nassert 'numpy' not in ()\n"
    )
    assert simulate("--", "python", "early.py").returncode == 0


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (["ls", "-l"], "or `-- -m module`, got 'ls'"),
        (["kernels"], "or `-- -m module`, got 'kernels'"),
        (["python"], "`python` requires a script"),
        (["python", "-m"], "`python -m` requires an argument"),
        (["python", "none.py"], "script 'none.py' not found"),
        (["none.py"], "script 'none.py' not found"),
        (["python", "--version"], "cannot run `python --version`"),
        (["python2.7", "script.py"], "Python must be 3."),
        (["/no/python", "script.py"], "interpreter '/no/python' not found"),
        (["/no/pytest", "tests"], "interpreter '/no/python' of '/no/pytest' not found"),
        ([], "Missing argument 'PROGRAM...'"),
    ],
    ids=str,
)
def test_what_can_not_be_run(
    program: list[str], words: str, embercoach: Cli, project: Path
) -> None:
    (project / "script.py").write_text(SCRIPT)
    ran = embercoach("simulate", "--", *program)
    assert ran.code == 2
    assert words in " ".join(ran.err.split())


def test_an_interpreter_without_embercoach(embercoach: Cli, project: Path) -> None:
    (project / "script.py").write_text(SCRIPT)
    bare = project / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    bare.chmod(0o755)
    ran = embercoach("simulate", "--", str(bare), "script.py")
    assert ran.code == 2
    assert "has no embercoach; install it with" in " ".join(ran.err.split())


# --- exit codes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "program", "code"),
    [
        ([], ["script.py", "double"], 0),
        ([], ["script.py", "turn"], 1),
        ([], ["script.py", "double", "7"], 7),
        ([], ["script.py", "turn", "7"], 7),
        (["--exit-zero"], ["script.py", "turn"], 0),
        (["--exit-zero"], ["script.py", "turn", "7"], 7),
        (["--no-checks"], ["script.py", "turn"], 0),
        ([], ["-c", "raise SystemExit('no')"], 1),
        ([], ["-c", "raise SystemExit"], 0),
    ],
)
@pytest.mark.sampled(4)
def test_exit_codes(options: list[str], program: list[str], code: int, simulate: Simulate) -> None:
    assert simulate(*options, "--", "python", *program).returncode == code


def test_an_exception_is_shown_from_the_users_frame_on(simulate: Simulate, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "from kernels import launch, turn\n\n\ndef f():\n    launch(turn)\n    raise KeyError(3)\n"
        "\n\nf()\n"
    )
    result = simulate("--", "python", "bad.py")
    assert result.returncode == 1
    assert "SIM-RACE-001" in result.stdout
    lines = result.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].strip().startswith("File ")
    assert 'bad.py", line 9' in lines[1]
    assert lines[-1] == "KeyError: 3"
    assert "runner.py" not in result.stderr
    assert "runpy" not in result.stderr


def test_a_program_that_leaves_no_time(simulate: Simulate) -> None:
    result = simulate("--", "python", "-c", "import os; os._exit(0)")
    assert result.returncode == 2
    assert "ended without a report" in result.stderr
    result = simulate("--", "python", "-c", "import os; os._exit(9)")
    assert (result.returncode, "(exit code 9;" in result.stderr) == (9, True)
    kill = f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})"
    result = simulate("--", "python", "-c", kill)
    assert (result.returncode, "(signal 9;" in result.stderr) == (137, True)


def test_forks_leave_the_record_alone(simulate: Simulate, tmp_path: Path) -> None:
    (tmp_path / "forks.py").write_text(
        "import os, sys\nfrom kernels import launch, turn\n\nlaunch(turn)\n"
        "child = os.fork()\nif not child:\n    sys.exit(0)\nos.waitpid(child, 0)\n"
    )
    reported = in_json("--", "python", "forks.py", simulate=simulate)
    assert reported["summary"]["errors"] == 1


def test_what_is_handed_down_is_for_the_program_alone(simulate: Simulate) -> None:
    code = "import os; print([name for name in os.environ if 'EMBERCOACH' in name])"
    assert simulate("--", "python", "-c", code).stdout.startswith("[]\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupts(tmp_path: Path, number: signal.Signals) -> None:
    # One long sleep might begin just after the signal has come, and miss it.
    program = "print(1, flush=True); import time; [time.sleep(0.05) for _ in range(1000)]"
    code = (
        # A shell starts background jobs with the signal ignored.
        "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"sys.argv[1:] = ['simulate', '--', 'python', '-c', '{program}']\n"
        "from embercoach.cli import main\nmain()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n"
    # A terminal interrupts all of its processes; a runner of CI ends ours.
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "launched no kernel" in out


# --- settings ----------------------------------------------------------------------------------


def test_the_configuration_counts(simulate: Simulate, tmp_path: Path) -> None:
    settings = tmp_path / "embercoach.toml"
    settings.write_text("[simulator]\nallow = ['threadgroup-race']\n")
    reported = in_json("--", "python", "script.py", "turn", simulate=simulate)
    assert (reported["findings"], reported["summary"]["allowed"]) == ([], 1)
    assert simulate("--isolated", "--", "python", "script.py", "turn").returncode == 1
    settings.write_text("[simulator]\ntimeout = 'long'\n")
    result = simulate("--", "python", "script.py", "turn")
    assert result.returncode == 2
    wrong = "simulator.timeout must be a number, got string (embercoach.toml:2)"
    assert wrong in result.stderr
    settings.write_text("[simulator]\ncompiler = 'no-such-clang'\n")
    result = simulate("--compile-only", "--", "python", "-c", "pass")
    assert result.returncode == 0
    assert "simulator.compiler is ignored without --allow-compiler" in result.stderr
    result = simulate("--allow-compiler", "--", "python", "script.py", "turn")
    assert result.returncode == 2
    assert result.stderr.startswith("embercoach: no compiler 'no-such-clang'")
    assert "Traceback" not in result.stderr


def test_the_timeout(simulate: Simulate, tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(
        "import mlx.core as mx\nfrom kernels import launch\n"
        'endless = mx.fast.metal_kernel(name="endless", input_names=["x"], output_names=["y"], '
        'source="""\n    float v = x[0];\n    while (v > 0.0f) { v = v * 2.0f - v; }\n'
        '    y[thread_position_in_grid.x] = v;\n""")\nlaunch(endless)\nprint("went on")\n'
    )
    result = simulate("--timeout", "0.5", "--", "python", "endless.py")
    assert result.returncode == 1, result.stderr
    assert "went on" in result.stdout
    assert "SIM-TIMEOUT-001 error kernel timed out" in result.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--isolated", "--config", "x.toml"], "--config and --isolated exclude each other"),
        (["--compile-only", "--no-checks"], "--compile-only and --no-checks exclude each other"),
        (["--timeout", "0"], "0.0 is not in the range x>0"),
        (["--output-format", "github"], "'github' is not one of 'text', 'json', 'sarif'"),
        (["--timout", "3"], "Did you mean '--timeout'?"),
    ],
)
def test_mistakes_of_usage(options: list[str], words: str, embercoach: Cli) -> None:
    ran = embercoach("simulate", *options, "--", "python", "-c", "0")
    assert ran.code == 2
    assert words in " ".join(ran.err.split())


# --- compiling ---------------------------------------------------------------------------------

BROKEN = '''\
import mlx.core as mx
from kernels import double, launch

unknown = mx.fast.metal_kernel(
    name="unknown",
    input_names=["x"],
    output_names=["y"],
    source="""
        uint i = thread_position_in_grid.x;
        y[i] = x[i] * factr;
    """,
)
device_only = mx.fast.metal_kernel(
    name="device_only",
    input_names=["x"],
    output_names=["y"],
    source="""
        const device float* row = x;
        y[thread_position_in_grid.x] = row[thread_position_in_grid.x];
    """,
)
assert launch(unknown).tolist() == [0.0] * 64
assert launch(device_only).tolist() == [0.0] * 64
launch(device_only)
launch(double)
'''


def test_compile_only(simulate: Simulate, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    reported = in_json("--compile-only", "--", "python", "broken.py", simulate=simulate)
    found = {finding["kernel"]: finding for finding in reported["findings"]}
    assert set(found) == {"unknown", "device_only"}
    lines = BROKEN.splitlines()
    unknown, small = found["unknown"], found["device_only"]
    assert (unknown["code"], unknown["severity"]) == ("SIM-COMPILE-001", "error")
    assert "factr" in unknown["message"]
    assert "factr" in lines[unknown["line"] - 1]
    assert (small["code"], small["severity"]) == ("SIM-COMPILE-002", "warning")
    assert small["message"] == "kernel does not compile if `x` has fewer than 8 elements"
    assert "const device float* row = x;" in lines[small["line"] - 1]
    assert reported["summary"]["compiled_only"]
    assert reported["summary"]["exit_code"] == 1


CAUGHT = """
import mlx.core as mx

kernel = mx.fast.metal_kernel(
    name="typo", input_names=["x"], output_names=["y"],
    source="uint i = thread_position_in_grid.x; y[i] = undeclared;",
)
x = mx.ones(64)
try:
    kernel(inputs=[x], grid=(64, 1, 1), threadgroup=(32, 1, 1), output_shapes=[(64,)],
           output_dtypes=[mx.float32])
except Exception:
    print("fallback")
"""


def test_a_kernel_that_does_not_compile_is_found_where_the_program_goes_on(
    simulate: Simulate, tmp_path: Path
) -> None:
    (tmp_path / "caught.py").write_text(CAUGHT)
    reported = in_json("--", "python", "caught.py", simulate=simulate)
    (found,) = reported["findings"]
    assert (found["code"], found["kernel"]) == ("SIM-COMPILE-001", "typo")
    assert "undeclared" in found["message"]
    assert reported["summary"]["exit_code"] == 1


def test_the_trace_of_a_kernel_that_does_not_compile_has_the_users_frames(
    simulate: Simulate, tmp_path: Path
) -> None:
    (tmp_path / "typo.py").write_text(CAUGHT.replace("except Exception", "except KeyError"))
    result = simulate("--", "python", "typo.py")
    first, frame, *_, last = result.stderr.splitlines()
    assert first == "Traceback (most recent call last):"
    assert frame.endswith('typo.py", line 10, in <module>')
    assert last == "CompileError: kernel 'typo' does not compile: 1 error"
    assert result.stderr.count("File ") == 1
    assert "SIM-COMPILE-001" in result.stdout


def test_compile_only_in_text(simulate: Simulate) -> None:
    result = simulate("--compile-only", "--", "python", "script.py", "turn,double")
    assert result.returncode == 0, result.stdout
    # A race is no matter of compiling; each kernel has a launch and its variant for few elements.
    assert re.search(r"^ double +2 +0 +0$", result.stdout, re.MULTILINE)
    assert "All clear; 4 variants of 2 kernels compiled, none run." in result.stdout
