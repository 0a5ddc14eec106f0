"""Kernels and the runtime as shared objects: compiled once, then found in a cache."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import shutil
import tempfile
import time
import warnings
from importlib import metadata
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING

import platformdirs
from msgspec import Struct, json, structs

import embercoach.metal
from embercoach.files import is_own, read_bytes
from embercoach.simulator.build.toolchain import Allowance, mlx_includes, run_tool, write_overlay
from embercoach.simulator.model import (
    BuiltKernel,
    LaunchParameter,
    SimulatorError,
    SourceMap,
    UnsetUse,
)
from embercoach.simulator.profile.counts import KernelBlocks  # noqa: TC001  (a field's type)
from embercoach.simulator.reporting.compiler_errors import (
    UNSET_WARNINGS,
    CompileError,
    implicit_bfloats,
    problem_diagnostics,
    read_errors,
    read_unset_uses,
    refused_casts,
)
from embercoach.simulator.rewrite.translation import rewrite
from embercoach.simulator.rewrite.variables import FILL_MACRO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from embercoach.simulator.build.toolchain import Toolchain
    from embercoach.simulator.rewrite.translation import EntryWriter, Rewritten

#: Bytes that the entries of a cache may take together.
MOST_BYTES = 256 << 20
#: Seconds for which an entry that was used is never dropped: somebody may be about to load it.
GRACE = 3600.0
#: Seconds between two sweeps, by whatever process: each reads the state of every entry.
SWEEP_INTERVAL = 600.0

_FACTS = "entry.json"
_UNFINISHED = ".new-"
_SWEPT = "swept"
_ATTEMPTS = 5


class KernelFacts(Struct, frozen=True):
    """The data stored with a compiled kernel; members as of ``BuiltKernel``."""

    parameters: tuple[LaunchParameter, ...]
    lines: SourceMap
    unset: tuple[UnsetUse, ...] = ()
    insertions: tuple[tuple[int, int, int], ...] = ()
    blocks: KernelBlocks | None = None


class EntryFacts(Struct, frozen=True):
    """The data stored with the files of an entry.

    Attributes:
        kernel: of a compiled kernel.
        refused: of precompiled headers, why MLX's own were refused; "" where they were not.
    """

    kernel: KernelFacts | None = None
    refused: str = ""


class _Stored(Struct, frozen=True):
    """The record of an entry: the digests of its files, by name, and its facts."""

    files: dict[str, str]
    facts: EntryFacts


class CachedObject(Struct, frozen=True):
    """An entry of the cache.

    Attributes:
        folder: of its files, which must not be changed.
        facts: what was stored with them.
    """

    folder: Path
    facts: EntryFacts


class ObjectCache:
    """Entries are folders that appear and vanish whole, so no reader sees half of one."""

    def __init__(self, root: Path, most_bytes: int = MOST_BYTES) -> None:
        self.root = root
        self._most_bytes = most_bytes

    def get(self, key: str) -> CachedObject | None:
        """Return the entry of a key, None if there is none or its files are not what was stored."""
        folder = self.root / key
        try:
            # Objects run as this user: nobody else may have put them there.
            if not (is_own(self.root.resolve(), S_ISDIR) and is_own(folder, S_ISDIR)):
                return None
            status = (folder / _FACTS).lstat()
            stored = json.decode(read_bytes(folder / _FACTS, follow=False), type=_Stored)
            digests = stored.files.items()
            if any(_file_digest(folder / name) != digest for name, digest in digests):
                return None
        except (OSError, ValueError, RecursionError):
            return None
        if time.time() - status.st_mtime > GRACE / 2:
            with contextlib.suppress(OSError):
                os.utime(folder / _FACTS)
        return CachedObject(folder, stored.facts)

    @contextlib.contextmanager
    def making(self) -> Iterator[Path]:
        """A folder to make an entry's files in, for ``put``; what is left of it is removed.

        Raises:
            SimulatorError: the cache can't be written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            if not is_own(self.root.resolve(), S_ISDIR):
                raise PermissionError(errno.EPERM, "it belongs to another user")
            folder = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self.root))
        except OSError as error:
            raise SimulatorError(
                f"cannot cache compiled kernels in {self.root}: {error}. Make it writable, or set "
                "XDG_CACHE_HOME to a folder that is"
            ) from error
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def put(self, key: str, made: Path, facts: EntryFacts) -> CachedObject:
        """Keep the files of a folder that ``making`` gave.

        Another process may have kept the same meanwhile: the entry that is there counts, unless its
        files are damaged.
        """
        names = sorted(path.name for path in made.iterdir())
        stored = _Stored({name: _file_digest(made / name) for name in names}, facts)
        (made / _FACTS).write_bytes(json.encode(stored))
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(OSError):  # somebody was faster
                made.rename(self.root / key)
            entry = self.get(key)
            if entry is not None:
                self._sweep_now_and_then()
                return entry
            self._drop(self.root / key)
        raise SimulatorError(f"entry {key} of {self.root} keeps changing")

    def _sweep_now_and_then(self) -> None:
        stamp = self.root / _SWEPT
        with contextlib.suppress(OSError):
            if abs(time.time() - stamp.lstat().st_mtime) < SWEEP_INTERVAL:
                return
        self.sweep()
        with contextlib.suppress(OSError):
            stamp.unlink(missing_ok=True)
            stamp.touch(exist_ok=False)  # a link is not followed

    def sweep(self) -> None:
        """Drop what was not used for longest until the rest fits, and what crashes left over."""
        used: list[tuple[float, int, Path]] = []
        now = time.time()
        with os.scandir(self.root) as found:
            folders = [Path(entry.path) for entry in found]
        for folder in folders:
            with contextlib.suppress(OSError):
                last = folder.stat().st_mtime
                if folder.is_symlink():
                    continue
                if not folder.name.startswith(_UNFINISHED):
                    last = (folder / _FACTS).stat().st_mtime
                    used.append((last, sum(p.stat().st_size for p in folder.iterdir()), folder))
                elif now - last > GRACE:
                    shutil.rmtree(folder, ignore_errors=True)
        total = sum(size for _, size, _ in used)
        for last, size, folder in sorted(used):
            if total <= self._most_bytes or now - last <= GRACE:
                break
            self._drop(folder)
            total -= size

    def _drop(self, folder: Path) -> None:
        with contextlib.suppress(OSError):
            aside = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self.root))
            with contextlib.suppress(OSError):
                folder.rename(aside / "dropped")
            shutil.rmtree(aside, ignore_errors=True)


def _file_digest(path: Path) -> str:
    data = read_bytes(path, limit=MOST_BYTES, follow=False)
    return hashlib.sha256(data).hexdigest()


if TYPE_CHECKING:
    # Makes the unit with other casts.
    _Remake = Callable[[frozenset[tuple[int, int]]], Rewritten]

_SIMULATOR = Path(__file__).parents[1]
#: The folder of the Metal library, which needs headers of the machine that it is compiled for.
LIBRARY = _SIMULATOR / "prelude"
#: Folders of headers, in the order that they are searched in.
HEADERS = (_SIMULATOR / "unit", LIBRARY, _SIMULATOR / "runtime")
#: Seconds that the simulator's own sources may take to compile, on slow machines.
_OWN_SECONDS = 120.0
_KERNEL = "kernel.so"
_PTX = "kernel.ptx"
_RUNTIME = "runtime.so"
_HEADERS = "unit.pch"
_OVERLAY = "overlay.json"
_OWN_UTILS = "-DEMBER_OWN_UTILS"
#: Templates that the library itself uses are instantiated once, and not again for each kernel.
_PRECOMPILING = (
    *("-x", "c++-header", "-Xclang", "-fno-pch-timestamp"),
    "-fpch-instantiate-templates",
)


def build(  # noqa: PLR0913
    source: str,
    name: str,
    body: str,
    header: str,
    *,
    checks: bool,
    toolchain: Toolchain,
    profile: bool = False,
    math_mode: str = "safe",
    seconds: float = 60.0,
    cache: Path | None = None,
) -> BuiltKernel:
    """Compile a kernel, or find it compiled.

    Args:
        source: the text that MLX generated.
        name: that the user gave the kernel.
        body: the ``source`` argument of the kernel.
        header: the ``header`` argument of the kernel.
        checks: whether memory accesses call the runtime.
        toolchain: what compiles.
        profile: whether the runtime counts what is executed, in place of checks.
        math_mode: ``safe``, ``relaxed`` or ``fast``; kernels see ``__FAST_MATH__`` for the last.
        seconds: of CPU time for compiling.
        cache: folder of compiled objects; None takes the user's.

    Raises:
        CompileError: the kernel is not valid Metal, or uses features that the simulator lacks.
        SimulatorError: the text is not MLX's, or compiler or cache do not work.
    """
    flags = toolchain.kernel_flags(checks=checks, profile=profile)
    if math_mode == "fast":
        flags = (*flags, "-D__FAST_MATH__=1")
    surroundings = _surroundings(HEADERS)
    key = _key("kernel", toolchain.identity, *flags, source, body, header, surroundings)
    if profile:
        key = _key(key, _contents(tuple(sorted((_SIMULATOR / "build").glob("*.py")))))
    store = _store(cache)
    entry = store.get(key)
    if entry is None:
        rewritten = rewrite(source, body, header)
        remake = functools.partial(rewrite, source, body, header)
        clang = _Clang(toolchain, flags, HEADERS, Allowance.of(seconds))
        entry = _compiled(store, key, name, rewritten, remake, clang, checks, profile)
    facts = entry.facts.kernel
    if facts is None:
        raise SimulatorError(f"entry {key} of {store.root} is not one of a kernel")
    return BuiltKernel(
        name=name,
        object=entry.folder / _KERNEL,
        source=source,
        checked=checks,
        **structs.asdict(facts),
    )


def build_runtime(toolchain: Toolchain, *, cache: Path | None = None) -> Path:
    """Return the runtime as a shared object, compiled at most once for each compiler.

    Raises:
        SimulatorError: it does not compile here.
    """
    folder = _SIMULATOR / "runtime"
    sources = sorted(folder.glob("*.cpp"))
    flags = toolchain.runtime_flags()
    contents = _contents((*sorted(folder.glob("*.*")), LIBRARY / "ember_thread.h"))
    key = _key("runtime", toolchain.identity, *flags, contents)
    store = _store(cache)
    entry = store.get(key)
    if entry is None:
        allowance = Allowance.of(_OWN_SECONDS)
        with store.making() as made:
            parts = [made / f"{source.stem}.o" for source in sources]
            for source, part in zip(sources, parts, strict=True):
                command = [*toolchain.compiler, *flags, "-c", str(source), "-o", str(part)]
                done = run_tool(command, allowance=allowance)
                if done.failed:
                    raise SimulatorError(
                        f"the simulator's runtime does not compile:\n{done.output}"
                    )
            _link(toolchain, parts, made / _RUNTIME, allowance)
            for part in parts:
                part.unlink()
            entry = store.put(key, made, EntryFacts())
    return entry.folder / _RUNTIME


def build_ptx(  # noqa: PLR0913
    source: str,
    name: str,
    body: str,
    header: str,
    *,
    entry: EntryWriter,
    machine: Path,
    flags: Sequence[str],
    toolchain: Toolchain,
    seconds: float = 60.0,
    cache: Path | None = None,
) -> tuple[str, SourceMap]:
    """Compile a kernel for an NVIDIA GPU, or find it compiled.

    Args:
        source: the text that MLX generated.
        name: that the user gave the kernel.
        body: the ``source`` argument of the kernel.
        header: the ``header`` argument of the kernel.
        entry: writes the function that is launched.
        machine: folder of the machine's headers.
        flags: of the compiler.
        toolchain: what compiles.
        seconds: of CPU time for compiling.
        cache: folder of compiled objects; None takes the user's.

    Returns:
        The PTX, and the map of its lines.

    Raises:
        CompileError: the kernel is not valid Metal, or uses features that the library lacks.
        SimulatorError: the text is not MLX's, or compiler or cache do not work.
    """
    headers = (machine, LIBRARY)
    store = _store(cache)
    rewritten = rewrite(source, body, header, entry=entry)
    key = _key("ptx", toolchain.identity, *flags, rewritten.text, _surroundings(headers))
    found = store.get(key)
    if found is None:
        if rewritten.problems:
            raise CompileError(name, problem_diagnostics(rewritten), rewritten.signature)
        clang = _Clang(toolchain, flags, headers, Allowance.of(seconds))
        remake = functools.partial(rewrite, source, body, header, entry=entry)
        with store.making() as made:
            command = [*_command(store, clang, made), "-x", "c++", "-S", "-"]
            command += ["-o", str(made / _PTX)]
            rewritten = _translated(command, name, rewritten, remake, clang.allowance)
            (made / _OVERLAY).unlink()
            found = store.put(key, made, EntryFacts())
    text = read_bytes(found.folder / _PTX, limit=MOST_BYTES, follow=False).decode()
    return text, rewritten.lines


class _Clang(Struct, frozen=True):
    """Settings for compiling a kernel: the compiler, flags, folders of headers, and time limit."""

    toolchain: Toolchain
    flags: Sequence[str]
    headers: tuple[Path, ...]
    allowance: Allowance


def _compiled(
    store: ObjectCache,
    key: str,
    name: str,
    rewritten: Rewritten,
    remake: _Remake,
    clang: _Clang,
    checks: bool,
    profile: bool,
) -> CachedObject:
    if rewritten.problems:
        raise CompileError(name, problem_diagnostics(rewritten), rewritten.signature)
    with store.making() as made:
        part = made / "kernel.o"
        command = [*_command(store, clang, made), "-x", "c++"]
        target = ("-c", "-", "-o", str(part))
        rewritten = _translated([*command, *target], name, rewritten, remake, clang.allowance)
        _link(clang.toolchain, [part], made / _KERNEL, clang.allowance)
        blocks = None
        if profile:
            blocks = _blocks(command, rewritten, made / "kernel.bc", clang.allowance)
        unset = _unset_uses(command, rewritten, clang.allowance) if checks else ()
        (made / _OVERLAY).unlink()
        if clang.toolchain.host.system != "darwin":
            # There, lines of code are to be found in this part alone.
            part.unlink()
        facts = KernelFacts(
            parameters=rewritten.parameters,
            lines=rewritten.lines,
            unset=unset,
            insertions=tuple(rewritten.edited.insertions()),
            blocks=blocks,
        )
        return store.put(key, made, EntryFacts(facts))


def _translated(
    command: Sequence[str],
    name: str,
    rewritten: Rewritten,
    remake: _Remake,
    allowance: Allowance,
) -> Rewritten:
    """Compile a unit; where clang refuses casts that Metal has, once more without them."""
    casts: frozenset[tuple[int, int]] = frozenset()
    while True:
        done = run_tool(command, rewritten.text, allowance=allowance)
        failed, output = done.failed, done.output
        errors = read_errors(output, rewritten) if failed else implicit_bfloats(output, rewritten)
        more = refused_casts(output, rewritten) - casts if failed else frozenset()
        if not more:
            break
        casts |= more
        rewritten = remake(casts)
    if errors:
        raise CompileError(name, errors, rewritten.signature)
    if failed:
        raise SimulatorError(f"the compiler failed on kernel {name!r}:\n{output}")
    return rewritten


def _blocks(
    command: Sequence[str], rewritten: Rewritten, part: Path, allowance: Allowance
) -> KernelBlocks:
    """Return the instructions of what was compiled."""
    from embercoach.simulator.build.instructions import read_blocks

    done = run_tool(
        [*command, "-emit-llvm", "-c", "-", "-o", str(part)], rewritten.text, allowance=allowance
    )
    if done.failed:
        raise SimulatorError(f"the compiler's output is inconsistent:\n{done.output}")
    blocks = read_blocks(part)
    part.unlink()
    return blocks


def _unset_uses(
    command: Sequence[str], rewritten: Rewritten, allowance: Allowance
) -> tuple[UnsetUse, ...]:
    """Return the uses of uninitialized variables that clang sees without the run's pattern."""
    if FILL_MACRO not in rewritten.edited.text:
        return ()
    text = f"#undef {FILL_MACRO}\n#define {FILL_MACRO}(name)\n{rewritten.text}"
    command = [*command, *UNSET_WARNINGS, "-fsyntax-only", "-"]
    done = run_tool(command, text, allowance=allowance)
    if done.failed:
        raise SimulatorError(f"the compiler's output is inconsistent:\n{done.output}")
    return read_unset_uses(done.output)


def _command(store: ObjectCache, clang: _Clang, made: Path) -> list[str]:
    """Return the command that compiles a kernel, which reads no files but the library's.

    Args:
        store: of precompiled headers.
        clang: the compiler and its settings.
        made: a folder for the list of what may be read.
    """
    library = _precompiled(store, clang)
    folders = (*_header_folders(clang.headers), Path(library[-1]).parent)
    allowed = write_overlay(made / _OVERLAY, folders)
    includes = _includes(clang.headers)
    return [*clang.toolchain.compiler, *clang.flags, *includes, *allowed, *library]


def _precompiled(store: ObjectCache, clang: _Clang) -> tuple[str, ...]:
    """Return the flags that include the Metal library fastest.

    With it comes what MLX has in front of a kernel: as installed, or, where that version's does
    not compile, as the simulator brings it along; then it warns.
    """
    toolchain, includes = clang.toolchain, _includes(clang.headers)
    # It holds the paths of its files.
    contents = _contents(tuple(_headers(clang.headers)))
    paths = (*toolchain.compiler, *includes)
    key = _key("headers", toolchain.identity, *clang.flags, *_PRECOMPILING, *paths, contents)
    entry = store.get(key)
    if entry is None:
        with store.making() as made:
            files = (str(clang.headers[0] / "ember_unit.h"), "-o", str(made / _HEADERS))
            command = [*toolchain.compiler, *clang.flags, *includes, *_PRECOMPILING, *files]
            done = first = run_tool(command, allowance=Allowance.of(_OWN_SECONDS))
            refused = first.output if first.failed else ""
            if first.failed and mlx_includes() is not None:
                done = run_tool([*command, _OWN_UTILS], allowance=Allowance.of(_OWN_SECONDS))
            if done.failed:
                raise SimulatorError(f"the Metal library does not compile:\n{first.output}")
            entry = store.put(key, made, EntryFacts(refused=refused))
    refused = entry.facts.refused
    if refused:
        error = next((line for line in refused.splitlines() if "error: " in line), refused)
        warnings.warn(
            "the installed MLX's Metal header utils.h does not compile in the simulator, which "
            f"takes its own version of it: {error}",
            stacklevel=2,
        )
    own = (_OWN_UTILS,) if refused else ()
    return (*own, "-include-pch", str(entry.folder / _HEADERS))


def _includes(headers: Sequence[Path]) -> list[str]:
    """Return the include folders of clang."""
    return [word for folder in _header_folders(headers) for word in ("-I", str(folder))]


def _header_folders(headers: Sequence[Path]) -> list[Path]:
    return [*headers, *filter(None, [mlx_includes()])]


def _link(toolchain: Toolchain, parts: Sequence[Path], target: Path, allowance: Allowance) -> None:
    inputs = [str(part) for part in parts]
    command = [*toolchain.linker, *toolchain.link_flags(), "-o", str(target), *inputs]
    done = run_tool(command, allowance=allowance)
    if done.failed:
        raise SimulatorError(f"the linker failed: {done.output}")


@functools.cache
def _store_at(root: Path) -> ObjectCache:
    return ObjectCache(root)


def _store(cache: Path | None) -> ObjectCache:
    root = cache or Path(platformdirs.user_cache_path("embercoach", False)) / "simulator"
    return _store_at(root.absolute())  # tools run in other folders


def _key(*parts: str) -> str:
    hashed = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogatepass")
        hashed.update(f"{len(data)}:".encode() + data)
    return hashed.hexdigest()[:40]


def _surroundings(headers: Sequence[Path]) -> str:
    """Return a digest of what a kernel's object depends on besides its text, compiler and flags."""
    grammar = f"{metadata.version('tree-sitter')} {metadata.version('tree-sitter-cpp')}"
    return f"{grammar} {_contents((*_headers(headers), *_rewriters()))}"


def _headers(folders: Sequence[Path]) -> Iterator[Path]:
    """Yield every file that a kernel's text may include."""
    for folder in folders:
        yield from sorted(path for path in folder.rglob("*") if path.suffix != ".cpp")
    mlx = mlx_includes()
    if mlx is not None:
        yield from sorted((mlx / "mlx" / "backend" / "metal" / "kernels").glob("*.h"))


def _rewriters() -> Iterator[Path]:
    """Yield the modules that make the translation unit."""
    yield from sorted((_SIMULATOR / "rewrite").glob("*.py"))
    metal = Path(embercoach.metal.__file__).parent
    for folder in (metal, metal / "written"):
        yield from sorted(folder.glob("*.py"))


def _contents(paths: Sequence[Path]) -> str:
    """Return a digest of files, read again only where one has changed."""
    stamped = []
    for path in paths:
        if path.is_file():
            status = path.stat()
            stamped.append((path, status.st_size, status.st_mtime_ns))
    return _digest(tuple(stamped))


@functools.lru_cache(maxsize=8)
def _digest(stamped: tuple[tuple[Path, int, int], ...]) -> str:
    hashed = hashlib.sha256()
    for path, *_ in stamped:
        hashed.update(f"{path.name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return hashed.hexdigest()
