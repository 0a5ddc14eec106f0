"""``embercoach trace``: what it counts, where, and what it leaves as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from embercoach.trace.trace_recorder import is_of_program
from tests.processes import run_python

mx = pytest.importorskip("mlx.core")
ROOT = Path(__file__).parents[2]
PROGRAM = """\
import sys
import mlx.core as mx
import numpy as np
from mlx.core import eval as evaluate


@mx.compile
def loss(x, scale):
    return (x * scale).sum()


def step(x, scale):
    value = loss(x, scale)
    if value > 1e9:
        raise ValueError
    return value.item()


x = mx.arange(64, dtype=mx.float32).reshape(8, 8)
total = sum(step(x, 2.0) for _ in range(3))
total += step(x[:4], 2.0)
total += step(x[:4], 3.0)
y = mx.exp(x)
mx.eval(y, x)
evaluate(y + 1)
mx.async_eval(y + 2)
mx.synchronize()
print(y[0, 0], f"{y[0, 1]:.2f}")
host = np.array(y), y.tolist(), float(y[0, 0]), int(x[0, 1]), bool(x[0, 0])
[10, 20, 30][mx.array(1)]
print(total, host[0].sum())
sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
"""
LINES = PROGRAM.splitlines()


def line(text: str) -> int:
    (number,) = (n for n, one in enumerate(LINES, 1) if text in one)
    return number


def trace(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "embercoach", "trace", *arguments, cwd=folder)


def traced(folder: Path, *program: str) -> dict[str, Any]:
    result = trace(folder, "--output-format", "json", "--", *program)
    assert result.stdout, result.stderr
    document = json.loads(result.stdout)
    text = files("embercoach.report").joinpath("trace.schema.json").read_text("utf-8")
    jsonschema.Draft202012Validator(json.loads(text)).validate(document)
    assert document["summary"]["exit_code"] == result.returncode
    return document  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("traced")
    (made / "train.py").write_text(PROGRAM, encoding="utf-8")
    return made


def test_every_event_is_counted_at_its_line_and_none_else(folder: Path) -> None:
    document = traced(folder, "python", "train.py")
    found = {
        (site["line"], site["kind"], site["operation"], site["function"]): site["count"]
        for site in document["sites"]
    }
    host, text = line("host = "), line("print(y[0, 0]")
    assert found == {
        (line("value = loss"), "compile", "mx.compile of loss", "step"): found[
            line("value = loss"), "compile", "mx.compile of loss", "step"
        ],
        (line("value = loss"), "retrace", "mx.compile of loss", "step"): 2,
        (line("if value"), "truth", "bool", "step"): 5,
        (line("return value.item"), "item", "array.item", "step"): 5,
        (line("mx.eval(y, x)"), "eval", "mx.eval", "<module>"): 1,
        (line("evaluate(y + 1)"), "eval", "mx.eval", "<module>"): 1,
        (line("mx.async_eval"), "async-eval", "mx.async_eval", "<module>"): 1,
        (line("mx.synchronize"), "synchronize", "mx.synchronize", "<module>"): 1,
        (text, "text", "repr", "<module>"): 1,
        (text, "text", "format", "<module>"): 1,
        (host, "numpy", "np.array", "<module>"): 1,
        (host, "tolist", "array.tolist", "<module>"): 1,
        (host, "number", "float", "<module>"): 1,
        (host, "number", "int", "<module>"): 1,
        (host, "truth", "bool", "<module>"): 1,
        (line("[10, 20, 30]"), "number", "index", "<module>"): 1,
    }
    assert {site["path"] for site in document["sites"]} == {"train.py"}
    (copied,) = (site for site in document["sites"] if site["operation"] == "array.tolist")
    assert copied["bytes"] == 4 * 64
    assert copied["text"] == LINES[host - 1]
    assert document["summary"]["peak_bytes"] >= 4 * 64


def test_a_retrace_names_the_argument_that_changed(folder: Path) -> None:
    sites = traced(folder, "python", "train.py")["sites"]
    (retrace,) = (site for site in sites if site["kind"] == "retrace")
    assert retrace["details"] == [
        "argument x: float32 of shape (8, 8), then float32 of shape (4, 8)",
        "argument scale: 2.0, then 3.0",
    ]
    assert not retrace["waits"]


def test_the_program_prints_and_exits_as_without_a_trace(folder: Path) -> None:
    command = [sys.executable, "train.py", "3"]
    plain = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    result = trace(folder, "--", "python", "train.py", "3")
    assert plain.returncode == result.returncode == 3
    assert result.stdout.startswith(plain.stdout)


def test_text_lists_the_lines_and_what_was_traced_again(folder: Path) -> None:
    out = trace(folder, "--lines", "3", "--", "python", "train.py").stdout
    assert f"train.py:{line('value = loss')}: mx.compile of loss was traced again 2 times:" in out
    assert "  argument scale: 2.0, then 3.0\n" in out
    assert "13 more lines (--lines).\nWaited " in out


THREADS = """\
import threading
import mlx.core as mx


def work():
    mx.ones((2,)).tolist()


made = [threading.Thread(target=work) for _ in range(3)]
made.append(threading.Thread(target=mx.ones((2,)).tolist))
[thread.start() for thread in made]
[thread.join() for thread in made]
"""
DISABLED = """\
import mlx.core as mx

mx.disable_compile()
f = mx.compile(lambda x: x + 1)
f(mx.array(1)), f(mx.array(1))
"""


@pytest.mark.parametrize(
    ("program", "code", "kinds"),
    [
        ("import mlx.core as mx\nmx.array(1).item()\nraise ValueError('mine')\n", 1, ["item"]),
        ("import mlx.core as mx\nmx.array([1, 2]).item()\n", 1, ["item"]),
        ("print('no array')\n", 0, []),
        # Of a thread without a line of the program, threading's own line is named.
        (THREADS, 0, ["tolist", "tolist"]),
        (DISABLED, 0, []),
    ],
)
def test_programs_that_end_in_other_ways(
    program: str, code: int, kinds: list[str], tmp_path: Path
) -> None:
    (tmp_path / "other.py").write_text(program, encoding="utf-8")
    document = traced(tmp_path, "python", "other.py")
    assert document["summary"]["exit_code"] == code
    assert [site["kind"] for site in document["sites"]] == kinds


def test_a_program_that_leaves_no_record(tmp_path: Path) -> None:
    (tmp_path / "gone.py").write_text("import os\nos._exit(0)\n", encoding="utf-8")
    result = trace(tmp_path, "--", "python", "gone.py")
    assert result.returncode == 2
    assert "gone.py ended without a report (exit code 0; os._exit skips it)" in result.stderr


def test_tests_and_modules_can_be_traced(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        "import mlx.core as mx\n\n\ndef test_one():\n    assert mx.array(1).item() == 1\n",
        encoding="utf-8",
    )
    for program in (["pytest", "-q", "test_one.py"], ["-m", "pytest", "-q", "test_one.py"]):
        (site,) = traced(tmp_path, *program)["sites"]
        assert (Path(site["path"]).name, site["line"], site["count"]) == ("test_one.py", 5, 1)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (ROOT / "embercoach_train" / "train.py", True),
        (ROOT / "embercoach" / "trace" / "instruments.py", False),
        (Path(sysconfig.get_path("purelib")) / "mlx_lm" / "generate.py", True),
        (Path(mx.__file__).parent / "nn" / "losses.py", False),
        (Path(sysconfig.get_path("stdlib")) / "functools.py", False),
    ],
)
def test_files_of_the_program(file: Path, expected: bool) -> None:
    assert is_of_program(str(file)) == expected


def test_everything_is_put_back() -> None:
    program = (
        "import mlx.core as mx, numpy as np\n"
        "from embercoach.trace.instruments import Instruments\n"
        "from embercoach.trace.trace_recorder import Recorder\n"
        "names = ('eval', 'compile', 'synchronize', 'save')\n"
        "before = [getattr(mx, n) for n in names] + [mx.array.item, mx.array.__bool__, np.array]\n"
        "made = Instruments(Recorder())\n"
        "made.install()\n"
        "assert mx.array.item is not before[4]\n"
        "made.remove()\n"
        "after = [getattr(mx, n) for n in names] + [mx.array.item, mx.array.__bool__, np.array]\n"
        "assert before == after\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_a_timeline_has_each_event_and_the_memory_after_it(folder: Path) -> None:
    result = trace(folder, "--output-format", "perfetto", "--", "python", "train.py")
    events = json.loads(result.stdout)["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    (once,) = (event for event in spans if event["name"] == f"mx.eval train.py:{line('mx.eval(')}")
    assert once["cat"] == "eval"
    assert once["dur"] > 0
    assert sum(event["name"].startswith("array.item") for event in spans) == 5
    ends = [event["ts"] + event["dur"] for event in spans]
    assert ends == sorted(ends)
    memory = [event["args"]["arrays"] for event in events if event["ph"] == "C"]
    assert len(memory) == len(spans)
    assert max(memory) >= 4 * 64


def test_graph_sizes_and_promotions_are_recorded(tmp_path: Path) -> None:
    code = """\
import mlx.core as mx
narrow, wide = mx.ones((4, 4), dtype=mx.bfloat16), mx.ones((4,))
for _ in range(3):
    y = narrow * wide
    z = mx.where(narrow > 0, narrow, wide)
    same = narrow * 2.0 + narrow + 1
    mx.eval(y, [z, {"same": same}])
half = narrow + narrow.astype(mx.float16)
narrow -= wide
narrow -= wide * 1.0 + 1
deep = wide
for _ in range(200_000):
    deep = -deep
deep[0].item()
"""
    (tmp_path / "promoted.py").write_text(code, encoding="utf-8")
    sites = {
        site["line"]: site
        for site in traced(tmp_path, "python", "promoted.py")["sites"]
        if site["kind"] != "compile"
    }
    assert [(sites[n]["kind"], sites[n]["count"]) for n in (4, 5)] == [("promotion", 3)] * 2
    assert sites[4]["details"] == ["bfloat16 with float32"]
    assert sites[4]["bytes"] == 3 * 4 * 16
    assert 6 not in sites
    assert sites[7]["operations"] >= 5
    assert 0 < sites[7]["first_seconds"] <= sites[7]["seconds"]
    assert sites[8]["details"] == ["float16 with bfloat16"]
    assert (sites[9]["details"], sites[9]["bytes"]) == (["bfloat16 with float32"], 4 * 16)
    assert 10 not in sites
    assert sites[14]["operations"] > 200_000


COMPILED = """\
import threading

import mlx.core as mx
from mlx import nn

calls = 0


@mx.compile
def square(x):
    global calls
    calls += 1
    return x * x


x = mx.ones(4)
gradient = mx.value_and_grad(lambda x: square(x).sum())
for _ in range(3):
    gradient(x)
mx.vmap(square)(mx.ones((2, 4)))
mx.jvp(square, [x], [x])
outer = mx.compile(lambda x: square(x) + 1)
outer(x)
inside = calls
square(x)
square(x)
square(mx.ones(5))
def target():
    square(x)


thread = threading.Thread(target=target)
thread.start()
thread.join()
state = [mx.ones(3)]
sums = mx.compile(lambda x: state[0].sum() + x, inputs=state)
for size in (3, 3, 5):
    state[0] = mx.ones(size)
    sums(x)
layer = nn.Linear(4, 4)
train = nn.value_and_grad(layer, lambda layer, x: nn.silu(layer(x)).sum())
for _ in range(3):
    mx.eval(train(layer, x))
assert (inside, calls) == (6, 9)
"""


def test_traces_inside_of_transformations_are_not_counted(tmp_path: Path) -> None:
    (tmp_path / "compiled.py").write_text(COMPILED, encoding="utf-8")
    document = traced(tmp_path, "python", "compiled.py")
    assert document["summary"]["exit_code"] == 0
    lines = COMPILED.splitlines()
    found = {
        (lines[site["line"] - 1].strip(), site["kind"]): (site["count"], site["details"])
        for site in document["sites"]
        if site["kind"] in ("compile", "retrace")
    }
    assert found == {
        ("outer(x)", "compile"): (1, []),
        ("square(x)", "compile"): (1, []),
        ("square(mx.ones(5))", "retrace"): (
            1,
            ["argument x: float32 of shape (4,), then float32 of shape (5,)"],
        ),
        ("square(x)", "retrace"): (1, ["another thread"]),
        ("sums(x)", "compile"): (1, []),
        ("sums(x)", "retrace"): (
            1,
            ["captured state[0]: float32 of shape (3,), then float32 of shape (5,)"],
        ),
    }


def test_growth_of_the_cache_is_what_raised_its_largest_size(tmp_path: Path) -> None:
    code = """\
import mlx.core as mx

mx.set_default_device(mx.cpu)
for _ in range(3):
    mx.eval(mx.zeros((1 << 20,)) + 1)
mx.clear_cache()
mx.eval(mx.zeros((1 << 22,)) + 1)
mx.ones(1).item()
"""
    (tmp_path / "cache.py").write_text(code, encoding="utf-8")
    sites = traced(tmp_path, "python", "cache.py")["sites"]
    grown = {site["line"]: site["cache_bytes"] for site in sites}
    assert grown[5] >= 1 << 22
    assert grown[7] >= (1 << 24) - grown[5]
    assert sum(grown.values()) < 1 << 25
    text = trace(tmp_path, "--", "python", "cache.py").stdout
    assert "MLX's cache of freed memory grew to " in text


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 added sys.monitoring")
def test_findings_at_lines_that_did_not_run_are_not_reached(tmp_path: Path) -> None:
    (tmp_path / "values.py").write_text(
        "def value(x):\n    return x.item()\n\n\ndef never(x):\n    return x.item()\n", "utf-8"
    )
    (tmp_path / "main.py").write_text(
        "import mlx.core as mx\n"
        "import values\n"
        "x = mx.ones(1)\n"
        "if x.shape[0] > 1:\n"
        "    print(\n"
        "        x.tolist(),\n"
        "    )\n"
        "print(values.value(x))\n",
        "utf-8",
    )
    document = traced(tmp_path, "python", "main.py")
    states = {(one["path"], one["line"]): one["state"] for one in document["findings"]}
    assert states.pop(("main.py", 6)) == "not-reached"
    assert (
        document["summary"]["not_reached"] == sum(s == "not-reached" for s in states.values()) + 1
    )


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 added sys.monitoring")
def test_a_program_that_frees_all_tools_of_monitoring_is_traced(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(
        "import sys\n"
        "import mlx.core as mx\n"
        "for tool in range(6):\n"
        "    if sys.monitoring.get_tool(tool):\n"
        "        sys.monitoring.free_tool_id(tool)\n"
        "def value(x):\n"
        "    return x.item()\n"
        "print(value(mx.ones(1)))\n",
        "utf-8",
    )
    document = traced(tmp_path, "python", "main.py")
    assert document["summary"]["exit_code"] == 0
    assert [site["line"] for site in document["sites"]] == [7]


def test_files_that_a_program_names_as_its_source_are_shown_only_if_they_are_pythons(
    tmp_path: Path,
) -> None:
    own, other = ["tool", "own.py"], [".env", "tokens.txt", "/etc/passwd", "/dev/zero", "pipe"]
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link.py").symlink_to("tokens.txt")
    for name in (".env", "tokens.txt", "own.py", "tool"):
        first = "#!/usr/bin/env python\n" if name == "tool" else "\n"
        (tmp_path / name).write_text(f"{first}secret of {name}\nmlx\n", "utf-8")
    names = [*own, *other, "link.py", "absent.py"]
    (tmp_path / "main.py").write_text(
        "import mlx.core as mx\n"
        f"for name in {names!r}:\n"
        "    exec(compile('\\nmx.ones(1).item()', name, 'exec'))\n"
        "def of_null(): return mx.ones(1).item()\n"
        "of_null.__code__ = of_null.__code__.replace(co_filename='a\\0.py')\n"
        "of_null()\n",
        "utf-8",
    )
    document = traced(tmp_path, "python", "main.py")
    texts = {site["path"]: site["text"] for site in document["sites"]}
    assert texts == {
        **dict.fromkeys([*names, "a\0.py"], ""),
        **{name: f"secret of {name}" for name in own},
    }
    page = tmp_path / "t.html"
    arguments = ("--output-format", "html", "-o", str(page), "--", "python", "main.py")
    assert trace(tmp_path, *arguments).returncode == 0
    shown = page.read_text("utf-8")
    assert "secret of own.py" in shown
    assert "secret of .env" not in shown
    assert "secret of tokens.txt" not in shown


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_a_program_that_removes_the_current_folder_has_a_report(tmp_path: Path, form: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "main.py").write_text(
        "import os, shutil\nimport mlx.core as mx\nmx.ones(1).item()\nshutil.rmtree(os.getcwd())\n",
        "utf-8",
    )
    report = tmp_path / "report"
    arguments = ("--output-format", form, "-o", str(report), "--", "python", "main.py")
    result = trace(project, *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    assert "array.item" in report.read_text("utf-8")
