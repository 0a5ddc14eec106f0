"""Products of tiles of 8 x 8 elements, joined to those that tensor cores take at once.

A product of halves in `ember_tiles.h` uses the first eight of an instruction's sixteen rows, and
half the depth that there is. Two products with the same second factor fill the rows, and two that
follow each other in one sum fill the depth. Which ones do is known when the loops are unrolled: in
the compiler's PTX.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_PRODUCT = "mma.sync.aligned.m16n8k8.row.col.f32.{0}.{0}.f32 "
_DEEP_PRODUCT = "mma.sync.aligned.m16n8k16.row.col.f32.{0}.{0}.f32 "
_OPERANDS = re.compile(r"\{([^{}]*)\}")
_REGISTER = re.compile(r"%\w+")


@dataclass(frozen=True, slots=True)
class _Product:
    """An instruction, or one that is to be joined with another.

    Attributes:
        halves: type of the factors.
        sums: registers of two elements, or of four if all sixteen rows are used.
        first: registers of the first factor: of its rows, then of the next eight.
        second: register of the second factor.
        unread: what an instruction of eight rows has in place of the others.
    """

    halves: str
    sums: tuple[str, ...]
    first: tuple[str, ...]
    second: str
    unread: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the instruction."""
        sums = (*self.sums, *self.unread[:2])
        first = (*self.first, *self.unread[2:])
        return _PRODUCT.format(self.halves) + _operands(sums, first, (self.second,))


def joined(ptx: str) -> str:
    """Return a module in which products of tiles share instructions where they can.

    Args:
        ptx: a module without comments, an instruction in a line.
    """
    return "".join(f"{line}\n" for line in _deepened(_widened(ptx.splitlines())))


def _widened(lines: list[str]) -> Iterator[str | _Product]:
    """Join products of the same second factor that only others come between."""
    run: list[_Product] = []
    for line in lines:
        product = _parsed(line)
        if product is None:
            yield from run
            run = []
            yield line
            continue
        place = next((i for i, other in enumerate(run) if _fill_rows(other, product)), None)
        if place is None or any(_depend(other, product) for other in run[place:]):
            run.append(product)
        else:
            earlier = run[place]
            sums, rows = (*earlier.sums, *product.sums), (*earlier.first, *product.first)
            run[place] = _Product(earlier.halves, sums, rows, earlier.second)
    yield from run


def _fill_rows(earlier: _Product, later: _Product) -> bool:
    same = (earlier.halves, earlier.second) == (later.halves, later.second)
    return same and bool(earlier.unread) and bool(later.unread)


def _depend(earlier: _Product, later: _Product) -> bool:
    of_earlier = {*earlier.sums, *earlier.first, earlier.second}
    of_later = {*later.sums, *later.first, later.second}
    return not (of_earlier.isdisjoint(later.sums) and of_later.isdisjoint(earlier.sums))


def _deepened(lines: Iterator[str | _Product]) -> list[str]:
    """Join whole products that follow each other in one sum."""
    written: list[str] = []
    waiting: dict[tuple[str, ...], tuple[int, _Product]] = {}
    for line in lines:
        if isinstance(line, str) or line.unread:
            text = line if isinstance(line, str) else line.text()
            if _ends_block(text):
                waiting.clear()
            _forget(waiting, _REGISTER.findall(text), _targets(text))
        else:
            place, earlier = waiting.pop(line.sums, (0, None))
            _forget(waiting, line.sums, line.sums)
            if earlier is None:
                waiting[line.sums] = (len(written), line)
                text = line.text()
            else:
                written[place] = ""
                factors = (*earlier.first, *line.first), (earlier.second, line.second)
                text = _DEEP_PRODUCT.format(line.halves) + _operands(line.sums, *factors)
        written.append(text)
    return [text for text in written if text]


def _forget(
    waiting: dict[tuple[str, ...], tuple[int, _Product]],
    used: Iterable[str],
    changed: Iterable[str],
) -> None:
    """Drop products that can't be computed later: their sum is used, or a factor changes."""
    used, changed = set(used), set(changed)
    for sums, (_, product) in list(waiting.items()):
        if not used.isdisjoint(sums) or not changed.isdisjoint((*product.first, product.second)):
            del waiting[sums]


def _ends_block(text: str) -> bool:
    code = text.strip()
    name = code.split()[0].rstrip(";").partition(".")[0] if code else ""
    return code.startswith(("$", "@", "{", "}")) or name in ("bra", "brx", "call", "ret", "exit")


def _targets(text: str) -> list[str]:
    """The registers that an instruction may write: those of its first operand."""
    _, _, operands = text.strip().replace("\t", " ").partition(" ")
    operands = operands.strip()
    end = "}" if operands.startswith("{") else ","
    return _REGISTER.findall(operands.partition(end)[0])


def _parsed(line: str) -> _Product | None:
    code = line.strip()
    for halves in ("bf16", "f16"):
        if code.startswith(_PRODUCT.format(halves)):
            sums, first, second, _ = (
                tuple(part.strip() for part in operand.split(","))
                for operand in _OPERANDS.findall(code)
            )
            return _Product(halves, sums[:2], first[:1], second[0], (*sums[2:], *first[1:]))
    return None


def _operands(sums: tuple[str, ...], first: tuple[str, ...], second: tuple[str, ...]) -> str:
    parts = ("{" + ", ".join(registers) + "}" for registers in (sums, first, second, sums))
    return f"{', '.join(parts)};"
