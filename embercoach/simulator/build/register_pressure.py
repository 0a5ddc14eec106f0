"""An estimate of the registers that a thread needs, from the values that are alive at once."""

from __future__ import annotations

from typing import Any

#: For the thread's position and the addresses that a launch passes.
_ALWAYS = 6
_POINTER_BITS = 64
_REGISTER_BITS = 32
_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": _POINTER_BITS}


def registers_of(function: Any, narrow: frozenset[Any]) -> int:
    """The most 32-bit registers that values of an LLVM function hold at any instruction.

    A value is alive from its instruction to its last use. Arrays in a thread's own memory hold
    none, and conditions neither. What a compiler of a GPU computes twice to save a register, or
    keeps longer to hide latency, is unknown here.

    Args:
        function: of LLVM.
        narrow: 64-bit values of which a GPU keeps 32 bits.
    """
    blocks = [list(block.instructions) for block in function.blocks]
    at_block = {block: index for index, block in enumerate(function.blocks)}
    numbers: dict[Any, int] = {}
    widths: list[int] = []
    for value in [*function.arguments, *(one for block in blocks for one in block)]:
        width = 1 if value in narrow else _registers(str(value.type))
        if width:
            numbers[value] = len(widths)
            widths.append(width)
    graph = [_Block.of(block, numbers, at_block) for block in blocks]
    for block in graph:
        for source, mask in block.from_blocks.items():
            graph[source].to_successors |= mask
    _propagate(graph)
    return _ALWAYS + max((_pressure(block, widths) for block in graph), default=0)


class _Block:
    """Uses and results of a block's instructions, as sets of values in the bits of numbers."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []  # result and uses
        self.successors: list[int] = []
        self.from_blocks: dict[int, int] = {}
        self.to_successors = 0
        self.results = 0  # of the phis
        self.alive_at_end = 0
        self.alive_at_start = 0

    @classmethod
    def of(cls, block: list[Any], numbers: dict[Any, int], at_block: dict[Any, int]) -> _Block:
        made = cls()
        for instruction in block:
            own = 1 << numbers[instruction] if instruction in numbers else 0
            operands = list(instruction.operands)
            if instruction.opcode == "phi":
                made.results |= own
                sources = instruction.incoming_blocks
                for operand, source in zip(operands, sources, strict=True):
                    if operand in numbers:
                        at = at_block[source]
                        made.from_blocks[at] = made.from_blocks.get(at, 0) | 1 << numbers[operand]
                continue
            uses = 0
            for operand in operands:
                if operand in at_block:
                    made.successors.append(at_block[operand])
                elif operand in numbers:
                    uses |= 1 << numbers[operand]
            made.steps.append((own, uses))
        return made


def _propagate(graph: list[_Block]) -> None:
    changed = True
    while changed:
        changed = False
        for block in reversed(graph):
            alive = block.to_successors
            for successor in block.successors:
                after = graph[successor]
                alive |= after.alive_at_start & ~after.results
            block.alive_at_end = alive
            for result, uses in reversed(block.steps):
                alive = alive & ~result | uses
            if alive != block.alive_at_start:
                block.alive_at_start = alive
                changed = True


def _pressure(block: _Block, widths: list[int]) -> int:
    alive = block.alive_at_end
    total = most = sum(widths[at] for at in _bits(alive))
    for result, uses in reversed(block.steps):
        total -= sum(widths[at] for at in _bits(result & alive))
        total += sum(widths[at] for at in _bits(uses & ~alive))
        alive = alive & ~result | uses
        most = max(most, total)
    return most


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found


def _registers(type_name: str) -> int:
    components = 1
    if type_name.startswith("<"):
        count, _, type_name = type_name.strip("<>").partition(" x ")
        components = int(count)
    bits = _BITS.get(type_name, 0)
    if type_name.startswith("i") and type_name[1:].isdecimal():
        bits = int(type_name[1:])
    return 0 if bits <= 1 else -(-bits * components // _REGISTER_BITS)
