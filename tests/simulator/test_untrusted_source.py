"""Kernel texts that attack the compiler, or read files with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import mlx.core as mx
import pytest

import embercoach
from embercoach.simulator import SimulatorError, activate
from embercoach.simulator.build import toolchain
from embercoach.simulator.build.toolchain import Toolchain
from embercoach.simulator.model import BuiltKernel
from embercoach.simulator.reporting.compiler_errors import CompileError
from tests.simulator.evaluation import launch
from tests.simulator.test_objects import build
from tests.simulator.units import ends_soon

HIDDEN = "kernels include only the headers of Metal and MLX"
SECRET = "ember_secret_word"


def short() -> toolchain.Allowance:
    """An allowance that begins now."""
    return toolchain.Allowance.of(60)


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "secret.h"
    path.write_text(f"{SECRET}\n")
    return path


def _built(toolchain: Toolchain, cache: Path, header: str) -> BuiltKernel:
    return build(toolchain, cache, "y[0] = x[0];", f"{header}\n")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "header",
    [
        '#include "{absolute}"',
        "#include <{absolute}>",
        "#include <{dots}>",
        '#include "{name}"',
        '#include_next "{absolute}"',
        '#import "{absolute}"',
        '#define F "{absolute}"\n#include F',
        'const constant char a[] = {{\n#embed "{absolute}"\n}};',
        'const constant char a[] = {{\n#embed "{name}" limit(4)\n}};',
        '#pragma GCC dependency "{absolute}"',
        '_Pragma("GCC dependency \\"{absolute}\\"")',
        '# 1 "{folder}/x.h"\n#include "{name}"',
    ],
)
def test_file_outside_of_the_library_is_refused(
    toolchain: Toolchain, object_cache: Path, secret: Path, header: str
) -> None:
    text = header.format(
        absolute=secret,
        dots=f"{'../' * 30}{str(secret)[1:]}",
        name=secret.name,
        folder=secret.parent,
    )
    with pytest.raises(SimulatorError, match="file not found") as caught:
        _built(toolchain, object_cache, text)
    assert HIDDEN in str(caught.value) or not isinstance(caught.value, CompileError)
    assert SECRET not in str(caught.value)


def test_no_question_tells_whether_a_file_exists(
    toolchain: Toolchain, object_cache: Path, secret: Path
) -> None:
    questions = (
        f'__has_include("{secret}")',
        f"__has_include(<{secret}>)",
        f'__has_include("{secret.name}")',
        f'__has_include_next("{secret}")',
        f'__has_embed("{secret}")',
    )
    header = "".join(f"#if {asked}\n#error it exists\n#endif\n" for asked in questions)
    assert _built(toolchain, object_cache, header).object.is_file()


@pytest.mark.parametrize(
    "header",
    [
        'asm(".incbin \\"{absolute}\\"");',
        'asm(".include \\"{absolute}\\"");',
        'inline void f() {{ __asm__ volatile(".incbin \\"{absolute}\\""); }}',
        '#define A asm\nA("nop");',
    ],
)
def test_assembly_is_refused(
    toolchain: Toolchain, object_cache: Path, secret: Path, header: str
) -> None:
    with pytest.raises(CompileError, match=r"assembly is disabled|no inline assembly") as caught:
        _built(toolchain, object_cache, header.format(absolute=secret))
    assert SECRET not in str(caught.value)


def test_headers_of_metal_and_mlx_are_found_and_no_library_is_linked(
    toolchain: Toolchain, object_cache: Path, secret: Path
) -> None:
    header = (
        "#include <metal_stdlib>\n#include <simd/simd.h>\n"
        '#include "mlx/backend/metal/kernels/utils.h"\n'
        '#if !__has_include(<metal_math>)\n#error "no Metal library"\n#endif\n'
        f'#pragma comment(lib, "{secret}")'
    )
    assert _built(toolchain, object_cache, header).object.is_file()


BOMB = "#define A0 x x\n" + "".join(f"#define A{n} A{n - 1} A{n - 1}\n" for n in range(1, 31))
BOMBS = {
    "macro": f"{BOMB}constant int y = A30;",
    "template": "template <int N, int M> struct S { enum { v = S<N - 1, M * 2>::v +"
    " S<N - 1, M * 2 + 1>::v }; }; template <int M> struct S<0, M> { enum { v = 1 }; };"
    " constant int z = S<30, 1>::v;",
}


def _launch(header: str) -> None:
    inputs, outputs = {"x": mx.zeros((8,))}, {"y": ((1,), mx.float32)}
    launch("y[0] = x[0];", inputs, outputs, build={"header": header})


def test_time_bounds_a_tool() -> None:
    allowance = toolchain.Allowance(60, time.monotonic() + 0.1)
    with pytest.raises(SimulatorError, match="exceeds the timeout of 60 s"):
        toolchain.run_tool(["/bin/sleep", "9"], allowance=allowance)


@pytest.mark.exhaustive
@pytest.mark.parametrize("header", BOMBS.values(), ids=BOMBS)
def test_timeout_bounds_the_compiler(header: str) -> None:
    used = os.times().children_user
    with (
        activate(timeout=0.2),
        pytest.raises(SimulatorError, match=r"exceeds the timeout of 0\.2 s"),
    ):
        _launch(header)
    assert os.times().children_user - used < 4


@pytest.mark.exhaustive
def test_constants_end_by_themselves_or_by_the_timeout() -> None:
    header = (
        "constexpr long f(long n) { long s = 0; for (long i = 0; i < n; i++) s += i; return s; }\n"
        "static_assert(f(1l << 40) == 1);"
    )
    with activate(timeout=1), pytest.raises(SimulatorError, match=r"step limit|timeout"):
        _launch(header)


def test_diagnostics_are_bounded() -> None:
    done = toolchain.run_tool(
        ["/bin/sh", "-c", "yes error | head -c 2000000 >&2; exit 1"], allowance=short()
    )
    assert done.failed
    assert 100_000 < len(done.output) < 500_000


def test_objects_are_bounded(toolchain: Toolchain, object_cache: Path) -> None:
    body = "static const constant int a[1 << 26] = {1}; y[0] = a[uint(x[0])] + a[1];"
    with pytest.raises(SimulatorError, match="File size limit exceeded"):
        build(toolchain, object_cache, body)


_PROGRAM = """
    import sys
    sys.path.insert(0, sys.argv[1])
    from embercoach.simulator.build.toolchain import Allowance, run_tool
    command = ["/bin/sh", "-c", "echo $$ >&2; while :; do :; done"]
    run_tool(command, allowance=Allowance.of(60))
"""


def test_tool_ends_with_a_killed_caller(tmp_path: Path) -> None:
    root = Path(embercoach.__file__).parent.parent
    marker = tmp_path / "pid"
    text = textwrap.dedent(_PROGRAM).replace("echo $$ >&2", f"echo $$ >{marker}")
    with subprocess.Popen([sys.executable, "-c", text, str(root)]) as program:
        while not (marker.exists() and marker.read_text().strip()):
            assert program.poll() is None
            time.sleep(0.02)
        tool = int(marker.read_text())
        program.send_signal(signal.SIGKILL)
    assert ends_soon(tool)


def test_tool_gets_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "hidden")
    command = ["/bin/sh", "-c", "env >&2; pwd >&2; cat >&2; ulimit -c >&2"]
    done = toolchain.run_tool(command, "the text", allowance=short())
    assert "GITHUB_TOKEN" not in done.output
    assert "the text" in done.output
    assert f"PWD={Path.cwd()}" not in done.output


def test_tool_that_fails_silently_is_told() -> None:
    done = toolchain.run_tool(["/bin/sh", "-c", "exit 3"], allowance=short())
    assert (done.failed, done.output) == (True, "/bin/sh ended with code 3")
