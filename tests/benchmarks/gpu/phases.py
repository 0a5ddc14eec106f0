"""Phases of `language_model` and what they measure: tokens per second and peak memory."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field

from tests.benchmarks.gpu.check import report

OURS, THEIRS = "ours", "transformers"
PREFILL, DECODE = "prefill", "decode"
#: The median of so many calls counts; there are fewer if they exceed the seconds.
CALLS, CALL_SECONDS = 3, 4.0

Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Size:
    """A model and its calls.

    Attributes:
        shape: fields of both packages' `xLSTMConfig`; their defaults are xLSTM-7B's.
        prompts: tokens of a prompt; the batch is 1.
        batches: sequences that are decoded at once.
        steps: steps of a call that decodes.
    """

    shape: dict[str, int] = field(default_factory=lambda: {"vocab_size": 50304})
    prompts: tuple[int, ...] = (512, 2048, 8192)
    batches: tuple[int, ...] = (1, 8)
    steps: int = 64

    @property
    def vocabulary(self) -> int:
        """Tokens below this are drawn."""
        return self.shape["vocab_size"]


TINY = {"vocab_size": 256, "hidden_size": 128, "num_hidden_layers": 1, "num_heads": 1}
SIZES = {"7b": Size(), "tiny": Size(TINY, (32, 40), (1, 2), 4)}


@dataclass(frozen=True, slots=True)
class Phase:
    """One kind of call on one model.

    Attributes:
        model: whose, with its options.
        work: prefill or decode.
        batch: sequences of a call.
        tokens: of each sequence, that a call processes.
        start: prepares a call and returns it.
    """

    model: str
    work: str
    batch: int
    tokens: int
    start: Callable[[], Call]

    @property
    def name(self) -> str:
        """What a failure is reported with."""
        return f"{self.model}: {self.work} {self.batch} x {self.tokens}"


@dataclass(frozen=True, slots=True)
class Speed:
    """What a phase measured; the first four attributes are the phase's.

    Attributes:
        tokens_per_second: of all sequences.
        peak_gigabytes: most memory of the process, weights included; None if unknown.
    """

    model: str
    work: str
    batch: int
    tokens: int
    tokens_per_second: float
    peak_gigabytes: float | None


@dataclass(frozen=True, slots=True)
class Device:
    """How to wait for a device, and to read the peak of its memory in bytes (None: unknown)."""

    synchronize: Call
    reset_peak: Call
    peak: Callable[[], int | None]


def measure(phase: Phase, device: Device) -> Speed:
    """Call once, which compiles, then time several calls."""
    device.reset_peak()
    call = phase.start()

    def seconds() -> float:
        device.synchronize()
        begin = time.perf_counter()
        call()
        device.synchronize()
        return time.perf_counter() - begin

    seconds()
    times = [seconds()]
    while len(times) < CALLS and sum(times) < CALL_SECONDS:
        times.append(seconds())
    speed, peak = phase.batch * phase.tokens / statistics.median(times), device.peak()
    gigabytes = None if peak is None else peak / 1e9
    return Speed(phase.model, phase.work, phase.batch, phase.tokens, speed, gigabytes)


def run(phases: Iterator[Phase], device: Device, deadline: float) -> None:
    """Print a line of JSON for each phase; one that fails prints its error.

    Args:
        phases: in the order of their importance.
        device: of all phases.
        deadline: no phase starts after it; a time of `time.time()`.
    """
    for phase in phases:
        if time.time() > deadline:
            report(f"{phase.name}: skipped, out of time")
            continue
        try:
            report(json.dumps(asdict(measure(phase, device))))
        except Exception as error:  # noqa: BLE001  (of compilers and allocators of many packages)
            report(f"{phase.name}: {type(error).__name__}: {str(error)[:500]}")
