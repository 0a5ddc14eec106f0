"""The compiler of kernels and the runtime, and its runs: bounded in time, memory and output."""

from __future__ import annotations

import contextlib
import csv
import functools
import importlib.util
import json
import math
import os
import platform
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from msgspec import Struct

from embercoach.installation import install_command
from embercoach.simulator.model import SimulatorError

#: Seconds of wall time beyond those of CPU time, for a machine that is busy.
_GRACE = 10.0
_LONGEST = 1e6
_MEMORY = 4 << 30
_FILE = 256 << 20
_BLOCK = 512
#: Bytes of diagnostics that are read.
_OUTPUT = 256 << 10
_TEXT = "text"
# The shell limits itself, and the tool with it. The process in the background waits for the end of
# the pipe on standard input, which the caller's end brings, and ends the group.
_SCRIPT = """
ulimit -c 0
ulimit -f "$1"
ulimit -d "$2" 2>/dev/null
ulimit -S -t "$3"
ulimit -H -t "$4"
shift 4
exec 3<&0
{ read -r _ <&3; kill -9 0; } >/dev/null 2>&1 &
"$@" <text 3<&-
code=$?
exec 2>/dev/null
kill -9 $!
wait
exit $code
"""
#: What tools need of the environment. The rest stays away: it may hold secrets, or change results.
_VARIABLES = (
    *("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DEVELOPER_DIR", "SDKROOT"),
    *("XDG_CACHE_HOME", "ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"),
)


def environment() -> dict[str, str]:
    """Return the environment variables that processes of the simulator get."""
    return {name: os.environ[name] for name in _VARIABLES if name in os.environ}


class ToolResult(Struct, frozen=True):
    """The end of a tool.

    Attributes:
        failed: whether its exit code is not 0.
        output: its standard error, or how it ended where it was silent.
    """

    failed: bool
    output: str


class Allowance(Struct, frozen=True):
    """The time of the tools that build one object.

    Attributes:
        seconds: of CPU time, for each tool.
        end: of the wall time of all, as ``time.monotonic`` counts.
    """

    seconds: float
    end: float

    @classmethod
    def of(cls, seconds: float) -> Allowance:
        """Return an allowance that begins now."""
        return cls(seconds, time.monotonic() + seconds + _GRACE)


def run_tool(command: Sequence[str], text: str = "", *, allowance: Allowance) -> ToolResult:
    """Run a tool in an empty folder, with a text on its standard input.

    The tool's whole process group ends with it, and with this process.

    Args:
        command: the tool and its arguments; paths are absolute.
        text: standard input.
        allowance: of time.

    Raises:
        SimulatorError: it takes longer, or can't be started.
    """
    with TemporaryDirectory(prefix="embercoach-") as name:
        folder = Path(name)
        (folder / _TEXT).write_bytes(text.encode(errors="surrogatepass"))
        code, output = _run(command, folder, allowance)
    if code in (None, 128 + signal.SIGXCPU):  # as the shell reports it
        raise SimulatorError(
            f"compiling exceeds the timeout of {allowance.seconds:g} s: look for macros, templates "
            "or constants that expand without end"
        )
    return ToolResult(code != 0, output or f"{command[0]} ended {ending(code)}" * (code != 0))


def _run(command: Sequence[str], folder: Path, allowance: Allowance) -> tuple[int | None, str]:
    """Return the exit code, None after the wall time, and the first part of the standard error."""
    cpu = math.ceil(min(allowance.seconds, _LONGEST))
    limits = map(str, (_FILE // _BLOCK, _MEMORY >> 10, cpu, cpu + 1))
    reading, writing = os.pipe()
    ended, ends = os.pipe()
    with os.fdopen(reading), os.fdopen(writing), os.fdopen(ended), TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "sh", *limits, *command],
                stdin=reading,
                stdout=ends,
                stderr=said,
                cwd=folder,
                env=environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise SimulatorError(f"{command[0]} can't be run: {error}") from error
        finally:
            os.close(ends)
        try:
            in_time = _ends(ended, allowance.end)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        said.seek(0)
        return code if in_time else None, said.read(_OUTPUT).decode(errors="replace").strip()


def _ends(standard_output: int, deadline: float) -> bool:
    """Return whether a process closes its standard output in time; its output is dropped."""
    while select.select([standard_output], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if not os.read(standard_output, 1 << 16):
            return True
    return False


def ending(code: int | None) -> str:
    """Describe how a process ended, from its exit code."""
    if code is None:
        return "for an unknown reason"
    if code >= 0:
        return f"with code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"


def write_overlay(file: Path, folders: Iterable[Path]) -> tuple[str, ...]:
    """Write a file that hides all but some folders from clang, and return the option for it.

    Whatever a text includes, embeds or asks for with ``__has_include`` is searched there alone.
    """
    roots = [
        {"type": "directory-remap", "name": name, "external-contents": name}
        for name in map(str, folders)
    ]
    content = {"version": 0, "redirecting-with": "redirect-only", "roots": roots}
    file.write_text(json.dumps(content), encoding="utf-8")
    return ("-ivfsoverlay", str(file))


HINT = install_command("simulator")
#: Clang before 22 has no ``sycl_external``, which the Metal library needs.
OLDEST_CLANG = 22
#: The first one with that clang.
OLDEST_ZIG = (0, 17)

# Half and bfloat round after each operation, a literal without suffix is single, nothing is fused,
# and numbers keep their signs and infinities: what a Metal kernel computes with safe math.
# Later standards reserve words that Metal leaves to users: requires, concept.
_DIALECT = (
    "-std=c++17",
    "-ffreestanding",
    "-nostdinc",
    "-nostdinc++",
    "-fdeclspec",
    # An assembler includes files that no option keeps it from.
    "-fno-gnu-inline-asm",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fno-math-errno",
    "-ffp-contract=off",
    # A quotient by zero is unspecified in Metal, and undefined in C++: clang must not conclude from
    # a division that the divisor is not zero, which folds the guards after it.
    "-mllvm",
    "-dom-conditions-max-uses=0",
    "-fsigned-char",
    "-fvisibility=hidden",
    "-fPIC",
    "-Xclang",
    "-fsycl-is-device",
    "-Xclang",
    "-cl-single-precision-constant",
    "-Xclang",
    "-ffloat16-excess-precision=none",
    "-Xclang",
    "-fbfloat16-excess-precision=none",
)
_DIAGNOSTICS = (
    "-fno-color-diagnostics",
    "-fno-caret-diagnostics",
    "-fmessage-length=0",
    "-fno-crash-diagnostics",
    "-ferror-limit=20",
    "-Wno-everything",
    # For ``implicit_bfloats`` of diagnostics.
    "-Wimplicit-float-conversion",
)
_LINES = ("-gline-tables-only", "-fdebug-compilation-dir=.")
# Every access of at most 16 bytes calls the runtime: the pass skips wider ones, which only
# vectorizers make, and without the option a read in front of a write. Accesses of different lines
# stay apart.
_CALLING = (
    "-fno-vectorize",
    "-fno-slp-vectorize",
    *("-mllvm", "-tsan-instrument-read-before-write"),
    *("-mllvm", "-tsan-instrument-func-entry-exit=0"),
    *("-mllvm", "-simplifycfg-hoist-common=false"),
    *("-mllvm", "-simplifycfg-sink-common=false"),
    *("-mllvm", "-enable-tail-merge=false"),
)
_CHECKS = (
    "-O1",
    *_LINES,
    *_CALLING,
    "-fsanitize=thread,array-bounds,local-bounds",
    "-fsanitize=shift-exponent,float-cast-overflow",
    "-fsanitize-recover=local-bounds,shift-exponent",
    "-fsanitize-recover=float-cast-overflow",
    "-fno-sanitize-trap=all",
    # What moves or merges accesses: one that the kernel's author wrote in front of its condition is
    # to be checked there. Null is not an address that code may be taken not to use.
    "-fno-delete-null-pointer-checks",
    *("-mllvm", "-opt-disable=licm,instcombine"),
)
# A call for each access and block of instructions, and no checks: optimized as by a GPU's compiler,
# so that instructions that it would not execute do not count.
_COUNTED = (
    "-O2",
    *_LINES,
    *_CALLING,
    "-DEMBER_COUNTED",
    "-fsanitize=thread",
    "-fsanitize-coverage=trace-pc-guard,no-prune",
    # Of a GPU's compiler, which has 32-bit registers.
    *("-mllvm", "-indvars-widen-indvars=false"),
)
_PLAIN = ("-O2", *_LINES)
# For an NVIDIA GPU. Products and sums are fused, and loops unrolled as its own compiler does it, so
# that arrays which they index stay in registers.
_GPU = (
    "--target=nvptx64-nvidia-cuda",
    "-O3",
    "-fgnu-inline-asm",
    "-ffp-contract=fast",
    *("-mllvm", "-unroll-threshold=1200"),
    # Loops of few passes too, as of the threads of a threadgroup over a tile.
    *("-mllvm", "-unroll-max-upperbound=1"),
    # A load belongs where it was written: others are under way with it.
    *("-mllvm", "-instcombine-code-sinking=false"),
    # One address and offsets, as the code has it: a register for each address costs more.
    *("-mllvm", "-disable-lsr"),
)
_RUNTIME = (
    *("-std=c++20", "-O2", "-fPIC", "-g0", "-fno-exceptions", "-fno-rtti"),
    *("-fno-threadsafe-statics", "-fno-stack-protector", "-nostdinc++", "-fvisibility=hidden"),
)


class Host(Struct, frozen=True):
    """The machine that kernels are compiled for: this one.

    Attributes:
        system: ``linux`` or ``darwin``.
        machine: ``x86_64`` or ``aarch64``.
        wide: whether an x86-64 processor has AVX2 and F16C.
    """

    system: str
    machine: str
    wide: bool

    @property
    def triple(self) -> str:
        """For clang's ``--target``."""
        if self.system == "darwin":
            return f"{'arm64' if self.machine == 'aarch64' else self.machine}-apple-macosx11.0"
        return f"{self.machine}-unknown-linux-gnu"


class Toolchain(Struct, frozen=True):
    """A compiler and a linker.

    Attributes:
        compiler: the command that is clang, without arguments.
        linker: the command that links for this machine, with its target flags.
        identity: changes whenever the compiler does.
        includes: folders of the C library's headers; none where the compiler finds them itself.
        host: what it compiles for.
    """

    compiler: tuple[str, ...]
    linker: tuple[str, ...]
    identity: str
    includes: tuple[Path, ...]
    host: Host

    def kernel_flags(self, *, checks: bool, profile: bool = False) -> tuple[str, ...]:
        """Return the flags to compile a kernel, without headers and files."""
        mode = _COUNTED if profile else _CHECKS if checks else _PLAIN
        # A device has a host, which clang asks for the name of bfloat in symbols.
        aux = ("-Xclang", "-aux-triple", "-Xclang", self.host.triple)
        return (*self._target(), *aux, *_DIALECT, *_DIAGNOSTICS, *mode)

    def gpu_flags(
        self, architecture: str, features: Sequence[str], *, lines: bool = False
    ) -> tuple[str, ...]:
        """Return the flags to compile a kernel for an NVIDIA GPU.

        Args:
            architecture: such as ``sm_90``.
            features: more of clang's for this target, such as a version of PTX.
            lines: whether the code knows its lines.
        """
        more = (part for f in features for part in ("-Xclang", "-target-feature", "-Xclang", f))
        aux = ("-Xclang", "-aux-triple", "-Xclang", self.host.triple)
        debugging = _LINES if lines else ()
        march = f"-march={architecture}"
        return (*_DIALECT, *_DIAGNOSTICS, *_GPU, march, *aux, *more, *debugging)

    def runtime_flags(self) -> tuple[str, ...]:
        """Return the flags to compile the runtime, without files."""
        found = [part for folder in self.includes for part in ("-isystem", str(folder))]
        own = ("-nostdlibinc",) if found else ()
        return (*self._target(), *_RUNTIME, *_DIAGNOSTICS, *own, *found)

    def link_flags(self) -> tuple[str, ...]:
        """Return the flags to link a shared object that resolves symbols in the loading process."""
        if self.host.system == "darwin":
            # The compiler's driver links there. Tried as far as Linux can: it makes a library.
            return ("-shared", "-nostdlib", "-Wl,-undefined,dynamic_lookup")
        # A source may name libraries to link, with `#pragma comment(lib, ...)`: any file.
        options = ("-shared", "--no-dependent-libraries", "--build-id=none", "--hash-style=gnu")
        return (*options, "-z", "noexecstack")

    def _target(self) -> tuple[str, ...]:
        wide = ("-march=x86-64-v3",) if self.host.wide else ()
        return (f"--target={self.host.triple}", *wide)


def find_toolchain(compiler: str | None = None) -> Toolchain:
    """Return the toolchain to build kernels with.

    Args:
        compiler: name or path of a clang; None takes the one in the package ``ziglang``.

    Raises:
        SimulatorError: there is none, it is not clang or too old, or this machine is not
            supported.
    """
    return _zig(_host()) if compiler is None else _system(compiler, _host())


@functools.cache
def _host() -> Host:
    system = platform.system().lower()
    machine = platform.machine().lower()
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    if system not in ("linux", "darwin") or machine not in ("x86_64", "aarch64"):
        raise SimulatorError(
            f"kernels can be simulated on Linux and macOS, on x86-64 and arm64; not on {system} "
            f"{machine}"
        )
    return Host(system, machine, machine == "x86_64" and _is_wide(system))


def _is_wide(system: str) -> bool:
    """Return whether the processor converts half itself; every Mac that still gets updates does."""
    if system == "darwin":
        return True
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "").split()
    return {"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"} <= set(flags)


def _zig(host: Host) -> Toolchain:
    found = importlib.util.find_spec("ziglang")
    home = Path(found.origin).parent if found is not None and found.origin else None
    zig = None if home is None else home / "zig"
    if home is None or zig is None or not zig.is_file():
        raise SimulatorError(
            f"no compiler: the package ziglang is not installed. Install it with: {HINT}. Or name "
            'a clang: [tool.embercoach.simulator] compiler = "clang"'
        )
    version = metadata.version("ziglang")
    if tuple(int(part) for part in version.split(".")[:2] if part.isdecimal()) < OLDEST_ZIG:
        raise SimulatorError(
            f"ziglang {version} is too old; the simulator needs "
            f"{OLDEST_ZIG[0]}.{OLDEST_ZIG[1]} or newer: {HINT}"
        )
    libc = home / "lib" / "libc" / "include"
    family = "x86" if host.machine == "x86_64" else host.machine
    names = (
        (f"{family}-linux-gnu", "generic-glibc", f"{family}-linux-any", "any-linux-any")
        if host.system == "linux"
        else ("any-darwin-any",)
    )
    includes = (home / "lib" / "include", *(libc / name for name in names))
    linking = ("cc", "-target", f"{host.machine}-macos") if host.system == "darwin" else ("ld.lld",)
    return Toolchain(
        compiler=(str(zig), "clang"),
        linker=(str(zig), *linking),
        identity=f"ziglang {version} {_digest(zig) or _stamp(zig)}",
        includes=tuple(folder for folder in includes if folder.is_dir()),
        host=host,
    )


def _system(compiler: str, host: Host) -> Toolchain:
    found = shutil.which(compiler)
    if found is None:
        raise SimulatorError(f"no compiler {compiler!r}: name a clang, or run: {HINT}")
    path = str(Path(found).absolute())  # it runs in other folders
    version = _version(path, _stamp(Path(path)))
    number = version.partition("clang version ")[2].partition(".")[0]
    if not number.isdecimal() or "Apple" in version:
        raise SimulatorError(
            f"{path} is not LLVM's clang, but: {version.splitlines()[0] if version else 'silent'}. "
            f"Name one, or run: {HINT}"
        )
    if int(number) < OLDEST_CLANG:
        raise SimulatorError(
            f"{path} is clang {number}; the simulator needs {OLDEST_CLANG} or newer, such as the "
            f"one of: {HINT}"
        )
    return Toolchain((path,), _linker(path, host), f"{version} {_stamp(Path(path))}", (), host)


def _linker(path: str, host: Host) -> tuple[str, ...]:
    """Return the linker of a clang: itself on macOS, LLVM's linker on Linux."""
    if host.system == "darwin":
        return (path, f"--target={host.triple}")
    beside = Path(path).resolve().parent / "ld.lld"
    found = str(beside) if beside.is_file() else shutil.which("ld.lld")
    if found is None:
        raise SimulatorError(
            f"{path} has no ld.lld next to it, and none is on the PATH: install lld"
        )
    return (str(Path(found).absolute()),)


def _digest(zig: Path) -> str | None:
    """Get the digest and the size of the compiler in its wheel's list of files, None without one.

    The same wheel in another environment is the same compiler, so kernels compiled there are used.
    """
    record = metadata.distribution("ziglang").read_text("RECORD") or ""
    start = record.find(f"\nziglang/{zig.name},")
    listed = next(csv.reader([record[start + 1 :].partition("\n")[0]]), [])
    if start < 0 or len(listed) != 3 or not listed[1] or listed[2] != str(zig.stat().st_size):
        return None
    return f"{listed[1]} {listed[2]}"


def _stamp(path: Path) -> str:
    status = path.stat()
    return f"{path} {status.st_size} {status.st_mtime_ns}"


@functools.cache
def _version(path: str, stamp: str) -> str:
    """Return a compiler's version output; ``stamp`` changes when it is replaced."""
    try:
        asked = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
    except OSError as error:
        raise SimulatorError(f"{path} can't be run: {error}") from error
    return asked.stdout.strip()


def mlx_includes() -> Path | None:
    """Return the folder of the installed MLX's own Metal headers, None without one."""
    found = (
        importlib.util.find_spec("mlx") if "mlx" not in sys.modules else sys.modules["mlx"].__spec__
    )
    for place in (found.submodule_search_locations or ()) if found is not None else ():
        folder = Path(place) / "include"
        if (folder / "mlx" / "backend" / "metal" / "kernels" / "utils.h").is_file():
            return folder
    return None
