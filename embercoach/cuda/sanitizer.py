"""Runs a program under NVIDIA's compute-sanitizer, and reads what it finds at Metal lines."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree as ET

from msgspec import Struct, json

from embercoach.cuda.launch_entry import CudaError
from embercoach.simulator.model import KernelFinding, SourceMap
from embercoach.simulator.reporting.messages import KernelLine

if TYPE_CHECKING:
    from embercoach.simulator.session.record import CapturedDefinition

#: Each tool of compute-sanitizer, and the kind of what it finds. Its initcheck sees device memory
#: alone.
TOOLS = {
    "memcheck": "out-of-bounds",
    "racecheck": "threadgroup-race",
    "synccheck": "divergent-barrier",
    "initcheck": "uninitialized-read",
}
#: What memcheck finds besides.
MISALIGNED = "misaligned-access"
_OPTIONS = {
    # After a fault the program goes on; without its context MLX would wait for ever.
    "memcheck": ("--destroy-on-device-error", "kernel", "--padding", "4096"),
    "racecheck": ("--racecheck-report", "all"),
}
_HELP = {
    "out-of-bounds": "Compare the index with the size before the access",
    "threadgroup-race": "Put `threadgroup_barrier(mem_flags::mem_threadgroup)` between them",
    "divergent-barrier": "Let all threads of the threadgroup reach the barrier",
    "uninitialized-read": "Write the element before it is read, or pass `init_value=0`",
    MISALIGNED: "Access memory at a multiple of the type's size",
}

#: The file to which kernels that are built write where their lines come from.
LINES_VARIABLE = "EMBERCOACH_CUDA_LINES"


class KernelNote(Struct, frozen=True):
    """A kernel that was built, and where its lines come from.

    Attributes:
        function: the launched function.
        kernel: the name that the user gave.
        lines: the map of the generated source.
        body: of the kernel.
        header: of the kernel.
        launched_at: file and line of the call.
    """

    function: str
    kernel: str
    lines: SourceMap
    body: str
    header: str
    launched_at: tuple[str, int] | None


def assembled(ptx: bytes, architecture: str) -> bytes:
    """Assemble PTX with the lines that it names, which MLX does not ask the driver for.

    Raises:
        CudaError: there is no assembler, or it fails.
    """
    assembler = shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas")
    if assembler is None:
        raise CudaError("--sanitize needs ptxas of the CUDA toolkit on the PATH")
    with tempfile.TemporaryDirectory(prefix="embercoach-") as folder:
        source, target = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_bytes(ptx)
        command = [assembler, "-lineinfo", f"-arch={architecture}", "-o", str(target), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CudaError(f"ptxas failed: {done.stderr.strip()[:400]}")
        return target.read_bytes()


def note_kernel(
    file: Path,
    function: str,
    definition: CapturedDefinition,
    lines: SourceMap,
    launched_at: tuple[str, int] | None,
) -> None:
    """Add a kernel to the notes of a run."""
    note = KernelNote(
        function, definition.name, lines, definition.body, definition.header, launched_at
    )
    with file.open("ab") as stream:
        stream.write(json.encode(note) + b"\n")


def sanitizer_command(
    tool: str, command: Sequence[str], record: Path, notes: Path
) -> tuple[list[str], dict[str, str]]:
    """Return the command line that runs a program under a tool, and variables for it.

    Args:
        tool: one of `TOOLS`.
        command: the program's command line.
        record: a file for what it finds.
        notes: a file for the kernels that the program builds.

    Raises:
        CudaError: compute-sanitizer is not installed.
    """
    found = shutil.which("compute-sanitizer") or shutil.which(
        "/usr/local/cuda/bin/compute-sanitizer"
    )
    if found is None:
        raise CudaError("--sanitize needs compute-sanitizer of the CUDA toolkit on the PATH")
    options = ["--tool", tool, "--xml", "--save", str(record), "--show-backtrace", "no"]
    # What a kernel does is reported when somebody waits for it, and MLX may leave before.
    options += ["--force-blocking-launches"]
    options += _OPTIONS.get(tool, ())
    # In a graph, which MLX launches kernels in otherwise, racecheck sees none of them.
    variables = {LINES_VARIABLE: str(notes), "MLX_USE_CUDA_GRAPHS": "0"}
    return [found, *options, *command], variables


class _Access(NamedTuple):
    """One of the places of a record.

    Attributes:
        function: the launched function.
        line: of the generated source.
        what: the kind of access, "" where the record has none.
    """

    function: str
    line: int
    what: str


def findings_in(tool: str, record: Path, notes: Path) -> Iterator[KernelFinding]:
    """Yield each finding of a record once, at the lines of the kernels' text.

    Args:
        tool: one of `TOOLS`.
        record: the file that the tool wrote.
        notes: the file of the kernels.

    Raises:
        CudaError: the record is not of the form of compute-sanitizer 2025.
    """
    kernels = {note.function: note for note in _read_notes(notes)}
    seen: dict[KernelFinding, int] = {}
    try:
        tree = ET.parse(record)
    except ET.ParseError as error:
        raise CudaError(f"compute-sanitizer's record can't be read: {error}") from error
    for entry in tree.iter("record"):
        accesses = list(_accesses(entry))
        if accesses and accesses[0].function in kernels:
            found = _finding(tool, entry, accesses, kernels[accesses[0].function])
            seen[found] = seen.get(found, 0) + 1
    yield from seen


def _read_notes(file: Path) -> Iterator[KernelNote]:
    if file.exists():
        for line in file.read_bytes().splitlines():
            yield json.decode(line, type=KernelNote)


def _accesses(entry: ET.Element) -> Iterator[_Access]:
    for parent in entry.iter():
        where = parent.find("where")
        if where is not None and (line := where.findtext("line", "")).isdecimal():
            what = parent.findtext("access") or ""
            yield _Access(where.findtext("func", ""), int(line), what.lower())


def _line_of(access: _Access, kernel: KernelNote) -> KernelLine:
    part, line = kernel.lines.place(access.line)
    lines = (kernel.header if part == "header" else kernel.body).splitlines()
    excerpt = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return KernelLine(kernel.kernel, part, line, excerpt, kernel.launched_at)


def _finding(
    tool: str, entry: ET.Element, accesses: list[_Access], kernel: KernelNote
) -> KernelFinding:
    text = entry.findtext("what/text") or ""
    kind = MISALIGNED if "isaligned" in text else TOOLS[tool]
    line = _line_of(accesses[-1], kernel)
    others = (f"{a.what or 'access'} at {_line_of(a, kernel).shown()}" for a in accesses[:-1])
    more = entry.findtext("what/type") or entry.findtext("what/common/type") or ""
    return KernelFinding(
        kind=kind,
        kernel=kernel.kernel,
        part=line.part,
        line=line.line,
        thread=None,
        message=f"compute-sanitizer ({tool}): {text or kind}{more and f' ({more})'}",
        excerpt=line.excerpt,
        launched_at=kernel.launched_at,
        details=tuple(others),
        help=_HELP[kind],
    )
