"""64-bit values of LLVM that a GPU's compiler keeps in 32 bits.

Kernels compute indices as `uint`. For a CPU, clang's optimizer computes them in 64-bit registers
and clears the upper half where an address is formed; a GPU has 32-bit registers and computes the
lower half alone.
"""

from __future__ import annotations

from typing import Any

_MASK = (1 << 32) - 1
#: Instructions whose low 32 bits follow from the low 32 bits of their operands.
_LOW_TO_LOW = frozenset({"add", "sub", "mul", "and", "or", "xor", "shl", "select", "phi"})


def narrow_integers(function: Any) -> frozenset[Any]:
    """The 64-bit instructions of a function of which 32 bits are used, or can be set."""
    instructions = [one for block in function.blocks for one in block.instructions]
    long = [one for one in instructions if str(one.type) == "i64"]
    small = {one for one in long if _is_small(one)}
    uses: dict[Any, list[Any]] = {one: [] for one in long}
    for user in instructions:
        for operand in user.operands:
            if operand in uses:
                uses[operand].append(user)
    narrow = {one for one in long if one.opcode in _LOW_TO_LOW}
    changed = True
    while changed:
        wide = {one for one in narrow if not all(_takes_low(u, narrow) for u in uses[one])}
        narrow -= wide
        changed = bool(wide)
    return frozenset(narrow | small)


def is_free(instruction: Any) -> bool:
    """Return whether a 64-bit instruction selects or clears a 32-bit register."""
    operands = list(instruction.operands)
    if len(operands) < 2 or str(operands[1].type) != "i64":
        return False
    constant = _constant(operands[1])
    if instruction.opcode == "and":
        return constant == _MASK
    return instruction.opcode in ("lshr", "shl") and constant == 32


def _takes_low(user: Any, narrow: set[Any]) -> bool:
    """Return whether an instruction uses only the low 32 bits of its 64-bit operands."""
    if user.opcode == "trunc" or user in narrow:
        return True
    constants = [c for operand in user.operands if (c := _constant(operand)) is not None]
    if user.opcode == "and":
        return any(0 <= c <= _MASK for c in constants)
    # A counter of a loop that ends at a small constant.
    return user.opcode == "icmp" and any(0 <= c <= _MASK for c in constants)


def _is_small(value: Any) -> bool:
    """Return whether the upper 32 bits of a value are zero."""
    if value.opcode == "zext":
        return True
    constants = [_constant(operand) for operand in value.operands]
    if value.opcode == "and":
        return any(c is not None and 0 <= c <= _MASK for c in constants)
    shift = constants[-1] if value.opcode == "lshr" else None
    return shift is not None and shift >= 32


def _constant(value: Any) -> int | None:
    kind, _, number = str(value).partition(" ")
    return int(number) if kind == "i64" and number.lstrip("-").isdecimal() else None
