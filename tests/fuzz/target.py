"""What a fuzz target is, and how it reports a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random

Mutate = Callable[[bytes, Random], bytes]


class FaultError(Exception):
    """An outcome that no input may have; the message says which."""


@dataclass(frozen=True, slots=True)
class Target:
    """One kind of input, and what is done with it.

    Attributes:
        name: on the command line.
        seeds: the inputs to start from.
        mutate: makes a new input of an old one; the same for the same random numbers.
        execute: handles an input; what it raises is a fault.
        largest: bytes of an input at most.
    """

    name: str
    seeds: Callable[[], Iterable[str]]
    mutate: Mutate
    execute: Callable[[bytes], None]
    largest: int = 6_000

    def inputs(self) -> Iterator[bytes]:
        """Yield the seeds, encoded."""
        return (seed.encode("utf-8", "surrogatepass") for seed in self.seeds())


def require(held: bool, fault: str) -> None:
    """Raise a fault unless a condition held."""
    if not held:
        raise FaultError(fault)
