"""One fuzzing session: a target under atheris, in a process that ``__main__`` has forked."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import pkgutil
import signal
import sys
import traceback
from pathlib import Path
from random import Random
from types import FrameType
from typing import NoReturn

import atheris
from atheris.import_hook import HookManager

from tests.fuzz.target import FaultError, Target

#: CPU seconds for one input, instrumentation included: about three times what it takes without.
LIMIT = 6.0
#: Seconds after which libFuzzer ends the process: native code that no signal gets into.
STUCK = 300
MEMORY = 2_500  # MiB


#: The simulator runs what it is given, and is no part of linting.
NOT_FUZZED = ("embercoach.simulator", "embercoach.__main__")


class TooSlow(BaseException):
    """An input took longer than any may; no handler of errors takes it."""


class Session:
    """Runs inputs, and keeps one input for each distinct fault."""

    def __init__(self, target: Target, faults: Path) -> None:
        self._target = target
        self._faults = faults
        self._seen: set[str] = set()
        self._first = True

    def run(self, data: bytes) -> None:
        """Handle one input."""
        if self._first:  # libFuzzer has installed handlers of its own by now
            signal.signal(signal.SIGPROF, _ring)
            self._first = False
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
        try:
            self._target.execute(data)
        except (Exception, TooSlow) as error:  # noqa: BLE001  (all of them are faults)
            signal.setitimer(signal.ITIMER_PROF, 0)
            self._keep(data, error)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def _keep(self, data: bytes, error: BaseException) -> None:
        mark = signature(error)
        if mark in self._seen:
            return
        self._seen.add(mark)
        name = hashlib.sha1(mark.encode("utf-8", "replace")).hexdigest()[:12]
        file = self._faults / f"{self._target.name}-{name}"
        if not file.exists() or file.stat().st_size > len(data):
            file.write_bytes(data)
            reported = "".join(traceback.format_exception(error))
            reported = reported.encode("utf-8", "backslashreplace").decode()
            file.with_suffix(".txt").write_text(f"{mark}\n\n{reported}", encoding="utf-8")
        sys.stderr.write(f"FAULT {file}: {mark!a}\n")
        sys.stderr.flush()


def signature(error: BaseException) -> str:
    """What tells one fault from others: the kind, and the innermost place in the package."""
    if isinstance(error, FaultError):
        lines = str(error).strip().split("\n")
        places = [line.strip() for line in lines if "embercoach/" in line and "File" in line]
        return f"{lines[0][:70]} {places[-1].partition('embercoach/')[2] if places else ''}"
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if "/embercoach/" in frame.filename] or frames
    place = inside[-1]
    # Where time ran out is chance: the outermost place in the checks tells more.
    if isinstance(error, TooSlow):
        place = next((f for f in inside if "/checks/" in f.filename), place)
    return f"{type(error).__name__} {place.filename.partition('embercoach/')[2]}:{place.name}"


def _ring(number: int, frame: FrameType | None) -> None:
    raise TooSlow(f"{LIMIT} s of CPU time are over")


def instrument() -> None:
    """Import the linter instrumented for coverage, modules that it imports late as well."""
    # Without the data flow of comparisons: mutations keep to the languages, and it costs half.
    hook = HookManager({"embercoach"}, set(), False, trace_dataflow=False)
    with contextlib.redirect_stderr(io.StringIO()), hook:  # it tells of each module
        import embercoach

        for found in pkgutil.walk_packages(embercoach.__path__, "embercoach."):
            if not found.name.startswith(NOT_FUZZED):
                importlib.import_module(found.name)


def fuzz(target: Target, corpus: Path, faults: Path, options: list[str]) -> NoReturn:
    """Fuzz a target with libFuzzer's options; libFuzzer ends the process."""
    corpus.mkdir(parents=True, exist_ok=True)
    faults.mkdir(parents=True, exist_ok=True)
    for seed in target.inputs():
        if len(seed) <= target.largest:
            (corpus / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
    session = Session(target, faults)

    def mutate(data: bytes, largest: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() < 0.02:
            return bytes(atheris.Mutate(data, largest))
        return target.mutate(data, random)[:largest]

    arguments = [
        "fuzz",
        f"-timeout={STUCK}",
        f"-rss_limit_mb={MEMORY}",
        f"-max_len={target.largest}",
        f"-artifact_prefix={faults}/{target.name}-native-",
        *options,
        str(corpus),
    ]
    atheris.Setup(arguments, session.run, custom_mutator=mutate)
    atheris.Fuzz()
    raise AssertionError("libFuzzer has returned")
