"""The process that kernels run in: a separate program, with the standard library alone.

It is started with the numbers of two pipes and of the file that buffers travel in, its limits, and
the path of the runtime. It confines itself before it loads a kernel, and ends together with the
caller. Requests and answers are JSON after their length. Whatever happens to it, the process that
started it goes on.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import mmap
import os
import resource
import select
import signal
import sys
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_char,
    c_char_p,
    c_double,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, cast

#: Bytes that fill what nobody has written yet.
PATTERNS = (0xA5, 0x5A)
_OUT_OF_BOUNDS, _WRITE_TO_INPUT, _LANE_SYNCHRONOUS = 0, 1, 13
_INTEGERS = (c_uint32, c_uint64, c_int64)
#: What each message about a request repeats of it.
_MARKS = ("request", "nonce")


def _fields(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


class ArrayRecord(Structure):
    """The runtime's ``ember_array``."""

    _fields_ = _fields(c_uint64, "start size")


#: A request or an answer.
Message = dict[str, Any]
LineOf = ctypes.CFUNCTYPE(c_uint32, c_uint64)


class LaunchRecord(Structure):
    """The runtime's ``ember_launch``."""

    _fields_ = [
        ("kernel", c_void_p),
        *_fields(c_uint64, "image_start image_end text_start text_end"),
        *_fields(c_uint64, "writable_start writable_end arrays_start arrays_end"),
        ("arrays", POINTER(ArrayRecord)),
        *_fields(c_uint32, "array_count checked reverse pattern lockstep profiled"),
        *_fields(c_uint32 * 3, "grid threadgroup"),
        ("body", c_uint32 * 2),
        ("seconds", c_double),
        ("line_of", LineOf),
    ]


class BufferRecord(Structure):
    """The runtime's ``ember_buffer``."""

    _fields_ = [
        *_fields(c_uint32, "slot role initialized itemsize"),
        *_fields(c_uint64, "size offset"),
        ("data", c_void_p),
    ]


class FindingRecord(Structure):
    """The runtime's ``ember_finding``."""

    _fields_ = [
        *_fields(c_uint32, "kind reason"),
        *_fields(c_uint64, "pc other_pc barrier_pc address"),
        *_fields(c_int64, "place offset"),
        *_fields(c_uint32, "size access other_access has_thread has_other"),
        *_fields(c_uint32 * 3, "thread threadgroup other_thread other_threadgroup"),
        *_fields(c_uint32, "value_size line column"),
        *_fields(c_uint8 * 16, "value other_value"),
        ("detail", c_int64 * 2),
        ("text", c_char * 96),
        ("count", c_uint64),
    ]


_NUMBERS = tuple(field[0] for field in FindingRecord._fields_ if field[1] in _INTEGERS)


_COMPARED = ("different", "first_different", "unwritten", "first_unwritten", "rounded")


class ComparisonRecord(Structure):
    """The runtime's ``ember_comparison``."""

    _fields_ = _fields(c_uint64, f"{' '.join(_COMPARED)} pc")


_SITE = (
    *("pc", "place", "width", "access", "issued", "lanes"),
    *("sectors", "lines64", "lines128", "bank_cycles", "contention", "first"),
)
_SITE_KINDS = {"place": c_int64, "width": c_uint32, "access": c_uint32}


class SiteRecord(Structure):
    """The runtime's ``ember_site``."""

    _fields_ = [(name, _SITE_KINDS.get(name, c_uint64)) for name in _SITE]


class BlockRecord(Structure):
    """The runtime's ``ember_block``."""

    _fields_ = [("issued", c_uint64), ("lanes", c_uint64)]


class RefusalError(Exception):
    """A request that can't be served; the parent reports the message."""


class Pipe:
    """Messages to and from the parent, in the process that was started alone.

    A copy of it that a kernel's `fork()` made ends where it comes back from the kernel.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = os.fdopen(reading, "rb")
        self._writing = os.fdopen(writing, "wb")
        self.owner = os.getpid()
        self._asked: Message = {}

    def request(self) -> Message:
        """Return the next request, which the messages from now on answer."""
        self._asked = self._receive()
        return self._asked

    def reply(self) -> Message:
        """Return the answer to a question about the request."""
        reply = self._receive()
        if any(reply.get(mark) != self._asked[mark] for mark in _MARKS):
            os._exit(1)
        return reply

    def send(self, message: Message) -> None:
        """Hand the parent a message, marked as an answer to its last request."""
        if os.getpid() != self.owner:
            os._exit(0)
        marks = {mark: self._asked[mark] for mark in _MARKS if mark in self._asked}
        data = json.dumps(message | marks).encode()
        self._writing.write(len(data).to_bytes(4, "little") + data)
        self._writing.flush()

    def _receive(self) -> Message:
        length = int.from_bytes(self._exactly(4), "little")
        return cast("Message", json.loads(self._exactly(length)))

    def _exactly(self, count: int) -> bytes:
        data = self._reading.read(count)
        if len(data) < count:
            os._exit(0)
        return data


class Arena:
    """The file that buffers travel in, as this process sees it."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._map: mmap.mmap | None = None
        self.address = 0

    def grow(self, size: int) -> None:
        """See at least so many bytes of it; the parent has made it that long."""
        if self._map is not None and len(self._map) >= size:
            return
        # The old view lives on until nothing refers to it.
        self._map = mmap.mmap(self._file, size)
        self.address = ctypes.addressof(c_char.from_buffer(self._map))


class Runtime:
    """The runtime's functions."""

    def __init__(self, path: str) -> None:
        self.library = library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        numbers, whole = POINTER(c_uint32), POINTER(c_uint64)
        self.place = library.ember_place
        self.place.restype = c_char_p
        self.place.argtypes = [POINTER(BufferRecord), *[c_uint32] * 4]
        self.run = library.ember_run
        self.run.restype = c_char_p
        self.run.argtypes = [POINTER(LaunchRecord), POINTER(c_double), whole, numbers, numbers]
        self.release = library.ember_release
        self.start = library.ember_buffer_start
        self.start.restype = c_void_p
        self.compare = library.ember_compare
        self.compare.argtypes = [c_uint32, c_void_p, c_uint32, c_uint32, POINTER(ComparisonRecord)]
        self.traffic = library.ember_traffic
        self.traffic.argtypes = [c_uint32, whole, whole]
        self.release.restype = self.compare.restype = self.traffic.restype = None
        self.findings = library.ember_findings
        self.findings.restype = POINTER(FindingRecord)


class LoadedKernel:
    """A kernel object, loaded: its base address and entry."""

    def __init__(self, path: str, entry: int) -> None:
        try:
            library = ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL)
        except OSError as error:
            raise RefusalError(f"the kernel's object can't be loaded: {error}") from None
        self.entry = ctypes.cast(library.ember_kernel, c_void_p).value or 0
        self.base = self.entry - entry


class RequestedLaunch:
    """One launch: the runs that its request asks for."""

    def __init__(
        self, runtime: Runtime, pipe: Pipe, kernel: LoadedKernel, arena: int, asked: Message
    ) -> None:
        self._runtime = runtime
        self._pipe = pipe
        self._base = kernel.base
        self._asked = asked
        self._arena = arena
        self._inputs_stand = False  # in place, from the run before
        self._line_of = LineOf(self._ask_line)
        self._arrays = (ArrayRecord * max(1, len(asked["arrays"])))(
            *[ArrayRecord(kernel.base + start, size) for start, size in asked["arrays"]]
        )
        self._record = self._describe(kernel)
        self._buffers = (BufferRecord * max(1, len(asked["buffers"])))(
            *[self._buffer(buffer) for buffer in asked["buffers"]]
        )
        self._outputs = [buffer for buffer in asked["buffers"] if "result" in buffer]

    def answer(self) -> Message:
        """Return the results of all runs: the first's outputs are in the file."""
        first = self._run(reverse=False, pattern=PATTERNS[0])
        if first["ended"] and _has(first, _LANE_SYNCHRONOUS):
            # Its lanes count on running in step: so they shall.
            self._record.lockstep = 1
            first = self._run(reverse=False, pattern=PATTERNS[0])
        for output in self._outputs:
            self._keep(output)
        runs, differences = [first], list[Message]()
        if self._asked["checked"] and first["ended"]:
            second = self._run(reverse=True, pattern=PATTERNS[1])
            runs.append(second)
            # Where threads were cut off, what is missing is their doing.
            if second["ended"] and not first["cut"] and not second["cut"]:
                differences = self._differences()
        if any(difference["different"] for difference in differences):
            third = self._run(reverse=False, pattern=PATTERNS[1])
            if third["ended"]:
                for difference, by_pattern in zip(differences, self._differences(), strict=True):
                    difference["by_pattern"] = by_pattern
        return {"runs": runs, "differences": differences, "lockstep": bool(self._record.lockstep)}

    def _describe(self, kernel: LoadedKernel) -> LaunchRecord:
        asked, base = self._asked, kernel.base
        arrays = asked["arrays"]
        record = LaunchRecord(kernel=kernel.entry, arrays=self._arrays, array_count=len(arrays))
        for name in ("image", "text", "writable"):
            start, end = asked[name]
            setattr(record, f"{name}_start", base + start)
            setattr(record, f"{name}_end", base + end)
        if arrays:
            record.arrays_start = base + min(start for start, _ in arrays)
            record.arrays_end = base + max(start + size for start, size in arrays)
        record.checked = asked["checked"]
        for name in ("grid", "threadgroup", "body"):
            setattr(record, name, tuple(asked[name]))
        record.seconds = asked["seconds"]
        record.line_of = self._line_of
        return record

    def _buffer(self, asked: Message) -> BufferRecord:
        data = None if asked["data"] is None else self._arena + asked["data"]
        known = ("slot", "role", "initialized", "itemsize", "size", "offset")
        return BufferRecord(**{name: asked[name] for name in known}, data=data)

    def _run(self, *, reverse: bool, pattern: int) -> Message:
        self._record.reverse = reverse
        self._record.pattern = pattern
        self._record.profiled = self._asked["profiled"] and pattern == PATTERNS[0]
        count, checked = len(self._asked["buffers"]), self._record.checked
        problem = self._runtime.place(self._buffers, count, checked, pattern, self._inputs_stand)
        seconds, accesses, ended, cut = c_double(), c_uint64(), c_uint32(), c_uint32()
        self._pipe.send({"is": "running"})
        if not problem:
            problem = self._runtime.run(
                byref(self._record), byref(seconds), byref(accesses), byref(ended), byref(cut)
            )
        if os.getpid() != self._pipe.owner:
            os._exit(0)  # before it writes outputs, which are shared
        if problem:
            raise RefusalError(problem.decode())
        found = c_uint32()
        records = self._runtime.findings(byref(found))
        run = {
            "seconds": seconds.value,
            "accesses": accesses.value,
            "ended": bool(ended.value),
            "cut": cut.value,
            "traffic": [self._traffic(buffer) for buffer in self._asked["buffers"]],
            "findings": [self._message_of(records[i]) for i in range(found.value)],
        }
        if self._record.profiled:
            run["profile"] = _profile(self._runtime.library, self._base, self._asked["buffers"])
        self._inputs_stand = not _has(run, _OUT_OF_BOUNDS, _WRITE_TO_INPUT)
        return run

    def _traffic(self, buffer: Message) -> tuple[int, int]:
        """Return bytes of it that the run read and wrote."""
        read, written = c_uint64(), c_uint64()
        self._runtime.traffic(buffer["slot"], byref(read), byref(written))
        return read.value, written.value

    def _keep(self, output: Message) -> None:
        start = self._runtime.start(output["slot"])
        if output["size"]:
            ctypes.memmove(self._arena + output["result"], start, output["size"])

    def _differences(self) -> list[Message]:
        """Compare the current outputs with those of the first run."""
        answer = []
        for output in self._outputs:
            result = ComparisonRecord()
            self._runtime.compare(
                output["slot"], self._arena + output["result"], *PATTERNS, byref(result)
            )
            start, step = result.first_different * output["itemsize"], output["itemsize"]
            start = min(start, max(0, output["size"] - step))
            now = self._runtime.start(output["slot"])
            answer.append(
                {
                    "slot": output["slot"],
                    **{name: getattr(result, name) for name in _COMPARED},
                    "pc": self._offset(result.pc),
                    "before": ctypes.string_at(self._arena + output["result"] + start, step).hex(),
                    "now": ctypes.string_at(now + start, step).hex(),
                }
                if result.different or result.unwritten
                else {"slot": output["slot"], "different": 0, "unwritten": 0}
            )
        return answer

    def _message_of(self, record: FindingRecord) -> Message:
        answer = {name: getattr(record, name) for name in _NUMBERS}
        for name in ("thread", "threadgroup", "other_thread", "other_threadgroup", "detail"):
            answer[name] = list(getattr(record, name))
        for name in ("pc", "barrier_pc", "other_pc"):
            answer[name] = self._offset(getattr(record, name))
        answer["text"] = record.text.decode(errors="replace")
        answer["value"] = bytes(record.value)[: record.value_size].hex()
        answer["other_value"] = bytes(record.other_value)[: record.value_size].hex()
        return answer

    def _offset(self, pc: int) -> int:
        return pc - self._base if pc else 0

    def _ask_line(self, pc: int) -> int:
        self._pipe.send({"is": "line", "pc": self._offset(pc)})
        return int(self._pipe.reply()["line"])


def _has(run: Message, *kinds: int) -> bool:
    return any(finding["kind"] in kinds for finding in run["findings"])


def _profile(library: ctypes.CDLL, base: int, buffers: list[Message]) -> Message:
    """Return the counts of the last run: `sites`, `blocks` that ran, `buffers`, `simdgroups`."""
    site_at, blocks_at = library.ember_profile_site, library.ember_profile_blocks
    site_at.restype, site_at.argtypes = POINTER(SiteRecord), [c_uint32]
    blocks_at.restype, blocks_at.argtypes = POINTER(BlockRecord), [POINTER(c_uint64)]
    buffer_at = library.ember_profile_buffer
    buffer_at.restype, buffer_at.argtypes = c_uint64, [c_uint32, POINTER(c_uint64)]
    sites = list[Message]()
    while site := site_at(len(sites)):
        record = site.contents
        record.pc -= base
        sites.append({name: getattr(record, name) for name in _SITE})
    count = c_uint64()
    records = blocks_at(byref(count))
    counted = ((i, records[i].issued, records[i].lanes) for i in range(count.value))
    moved, simdgroups, bytes_of = [], 0, (c_uint64 * 4)()
    for buffer in buffers:
        simdgroups = buffer_at(buffer["slot"], bytes_of)
        moved.append(list(bytes_of))
    return {
        "sites": sites,
        "blocks": [numbers for numbers in counted if numbers[1]],
        "buffers": moved,
        "simdgroups": simdgroups,
    }


def serve(reading: int, writing: int, file: int, library: str) -> None:
    """Answer requests until the parent is gone."""
    pipe, arena = Pipe(reading, writing), Arena(file)
    try:
        runtime = Runtime(library)
    except OSError as error:
        pipe.send({"is": "refusal", "why": f"the runtime can't be loaded: {error}"})
        return
    kernels: dict[str, LoadedKernel] = {}
    pipe.send({"is": "ready"})
    while True:
        asked = pipe.request()
        try:
            path = asked["object"]
            if path not in kernels:
                kernels[path] = LoadedKernel(path, asked["entry"])
            arena.grow(asked["arena"])
            launch = RequestedLaunch(runtime, pipe, kernels[path], arena.address, asked)
            pipe.send({"is": "result", **launch.answer()})
            runtime.release()
        except RefusalError as refusal:
            pipe.send({"is": "refusal", "why": str(refusal)})
        except (MemoryError, OSError, ValueError) as error:
            pipe.send({"is": "refusal", "why": f"{type(error).__name__}: {error}"})


#: Seconds between looks at whether the process still lives.
_LOOK = 0.5
_FILES = 1024
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _FILTER = 22, 38, 2
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EAGAIN
#: The architecture's number, where the calls of another begin, and fork, vfork, clone and clone3.
_CALLS = {
    "x86_64": (0xC000003E, 0x40000000, (57, 58, 56, 435)),
    "aarch64": (0xC00000B7, 0xFFFFFFFF, (220, 435)),
}


class FilterInstruction(Structure):
    """Linux's ``sock_filter``."""

    _fields_ = [("code", c_uint16), *_fields(c_uint8, "if_true if_false"), ("value", c_uint32)]


class FilterProgram(Structure):
    """Linux's ``sock_fprog``."""

    _fields_ = [("length", c_uint16), ("start", POINTER(FilterInstruction))]


def confine(lifeline: int, limits: str) -> None:
    """End this process with its caller, limit its resources, and refuse child processes.

    Args:
        lifeline: reading end of a pipe that the caller holds open.
        limits: names and values of resource limits, as ``DATA=1000,CORE=0``.
    """
    _start_watcher(lifeline)
    os.close(lifeline)
    for limit in limits.split(","):
        name, _, value = limit.partition("=")
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        bound = int(value) if hard == resource.RLIM_INFINITY else min(int(value), hard)
        resource.setrlimit(kind, (bound, bound))
    if sys.platform == "linux":
        # Where memory is short, the system ends this process first.
        with contextlib.suppress(OSError):
            # Without pathlib, which takes longer to import than all else here.
            file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
            os.write(file, b"1000")
            os.close(file)
        _refuse_processes()


def _start_watcher(lifeline: int) -> None:
    """Start a process that kills the group that this one leads when the caller or this one ends."""
    watched = os.getpid()
    if os.fork():
        return
    try:
        os.closerange(3, lifeline)
        os.closerange(lifeline + 1, _FILES)
        while os.getppid() == watched and not select.select([lifeline], [], [], _LOOK)[0]:
            pass
    finally:
        with contextlib.suppress(OSError):
            os.killpg(watched, signal.SIGKILL)
        os._exit(0)


def _refuse_processes() -> None:
    """Let Linux refuse every new process, also to root, whom its limit does not hold for.

    Where the system does not filter calls, the limit has to do.
    """
    architecture, foreign, calls = _CALLS[os.uname().machine]
    last = len(calls)
    # Jumps count instructions to skip; the last one refuses.
    code = [
        FilterInstruction(_LOAD, 0, 0, _ARCHITECTURE_AT),
        FilterInstruction(_EQUAL, 0, last + 3, architecture),
        FilterInstruction(_LOAD, 0, 0, _NUMBER_AT),
        FilterInstruction(_AT_LEAST, last + 1, 0, foreign),
        *(FilterInstruction(_EQUAL, last - i, 0, call) for i, call in enumerate(calls)),
        FilterInstruction(_RETURN, 0, 0, _ALLOW),
        FilterInstruction(_RETURN, 0, 0, _REFUSE),
    ]
    program = FilterProgram(len(code), (FilterInstruction * len(code))(*code))
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    prctl(_PR_SET_SECCOMP, _FILTER, byref(program), 0, 0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    confine(int(sys.argv[4]), sys.argv[5])
    serve(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[6])
