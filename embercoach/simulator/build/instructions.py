"""The instructions of a compiled kernel and the registers they need, from LLVM's representation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from embercoach.installation import install_command
from embercoach.simulator.build.object_lines import SOURCE_NAME
from embercoach.simulator.model import SimulatorError
from embercoach.simulator.profile.counts import BlockLine, KernelBlocks, Kind

if TYPE_CHECKING:
    _Instructions = list[tuple[Any, str]]

_MASK = (1 << 32) - 1
#: Instructions whose low 32 bits follow from the low 32 bits of their operands.
_LOW_TO_LOW = frozenset({"add", "sub", "mul", "and", "or", "xor", "shl", "select", "phi"})


def narrow_integers(function: Any) -> frozenset[Any]:
    """Return the 64-bit instructions of a function of which 32 bits are used, or can be set."""
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


#: For the thread's position and the addresses that a launch passes.
_ALWAYS = 6
_POINTER_BITS = 64
_REGISTER_BITS = 32
_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": _POINTER_BITS}


def registers_of(function: Any, narrow: frozenset[Any]) -> int:
    """Return the most 32-bit registers that values of an LLVM function hold at any instruction.

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
    components, element = _shape(type_name)
    bits = _BITS.get(element, 0)
    if element.startswith("i") and element[1:].isdecimal():
        bits = int(element[1:])
    return 0 if bits <= 1 else -(-bits * components // _REGISTER_BITS)


_GUARD = "__sanitizer_cov_trace_pc_guard"
_ENTRY = "ember_kernel"
# Lanes that share the 1,024 operations of a multiply-accumulate.
_MATRIX_FLOPS = 32
_STEPS_OF_REDUCTION = 5  # exchanges between 32 lanes

_FLOATS: Mapping[str, Kind] = {"half": "float16", "bfloat": "float16", "float": "float32"}
_ARITHMETIC = frozenset({"fadd", "fsub", "fmul", "fneg", "fcmp"})
_INTEGERS = frozenset(
    {"add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr", "icmp", "select"}
)
_INTEGER_DIVISIONS = frozenset({"udiv", "sdiv", "urem", "srem"})
_CONVERSIONS = frozenset({"fpext", "fptrunc", "sitofp", "uitofp", "fptosi", "fptoui"})
_SIMPLE = frozenset(
    {
        *("fabs", "minnum", "maxnum", "minimum", "maximum", "minimumnum", "maximumnum", "copysign"),
        *("floor", "ceil", "trunc", "rint", "round", "roundeven", "nearbyint", "canonicalize"),
    }
)
_FUSED = frozenset({"fma", "fmuladd"})
# GPUs have instructions for sqrt, exp2 and log2; what their libraries compute in addition for
# others, such as the reduction of an angle. Roughly, as no count is published.
_POLYNOMIALS: Mapping[str, int] = {
    **dict.fromkeys(("exp", "exp10", "log", "log10"), 3),
    **dict.fromkeys(("tanh", "sinh", "cosh", "expm1", "log1p", "pow", "powr", "fmod"), 16),
    **dict.fromkeys(("sin", "cos", "asin", "acos", "atan", "atan2", "erf", "cbrt"), 20),
    **dict.fromkeys(("tan", "asinh", "acosh", "atanh", "remainder"), 30),
}
_SPECIAL = _POLYNOMIALS.keys() | {"sqrt", "exp2", "log2", "hypot", "ldexp", "frexp"}
_INTEGER_CALLS = frozenset(
    {
        *("smin", "smax", "umin", "umax", "abs", "ctpop", "ctlz", "cttz", "fshl", "fshr", "bswap"),
        *("bitreverse", "uadd", "usub", "sadd", "ssub", "umul", "smul"),
    }
)

_ONES = ("1.000000e+00", "0xH3C00", "0xR3F80")

# LLVM prints metadata, one entry a line; its Python binding has no reader for them.
_METADATA = re.compile(r"^!(\d+) = (?:distinct )?!(DI\w+)\((.*)\)$", re.MULTILINE)
_FIELD = re.compile(r'(\w+): (?:!(\d+)|"([^"]*)"|(\w+))')
_PLACE = re.compile(r"!dbg !(\d+)")
_OPERATION = re.compile(r'c"([^"\\]*)')

_LOAD = re.compile(r"load (?:volatile )?(?:<(\d+) x )?([a-z]+\d*)>?, .* align (\d+)")
_BYTES = {"i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i32": 4, "float": 4, "i64": 8}
_WIDEST = 16


def read_blocks(bitcode: Path) -> KernelBlocks:
    """Return the instructions of a kernel that was compiled with a counter for each block.

    Raises:
        SimulatorError: llvmlite is not installed.
    """
    try:
        from llvmlite import binding
    except ModuleNotFoundError:
        raise SimulatorError(
            f"a profile needs llvmlite, which is not installed: {install_command('simulator')}"
        ) from None
    module = binding.parse_bitcode(bitcode.read_bytes())
    lines = _Lines.of(str(module))
    blocks: list[tuple[BlockLine, ...]] = []
    vectors: dict[tuple[int, int], int] = {}
    registers = 0
    for function in module.functions:
        if function.is_declaration:
            continue
        text = _instruction_texts(str(function))
        is_own = "!dbg" in str(function).partition("{")[0] and function.name != _ENTRY
        narrow = narrow_integers(function) if is_own else frozenset()
        if is_own:
            registers = max(registers, registers_of(function, narrow))
        found_in = {
            block: [(one, next(text)) for one in block.instructions] for block in function.blocks
        }
        checks = {block for block, found in found_in.items() if _reports(found)}
        blocks += (
            tuple(_block_lines(found, lines, checks, narrow)) if is_own else ()
            for found in found_in.values()
            if any(f"@{_GUARD}(" in text for _, text in found)
        )
        if is_own:
            for found in found_in.values():
                vectors |= vector_parts(found, lines.at)
    parts = tuple((line, part, whole) for (line, part), whole in vectors.items())
    return KernelBlocks(tuple(blocks), registers or None, parts)


class _Lines(Struct, frozen=True):
    """Lines of the kernel's text, by the numbers of debug locations."""

    of_location: Mapping[int, int]

    @classmethod
    def of(cls, module: str) -> _Lines:
        entries = {
            int(number): (kind, {name: a or b or c for name, a, b, c in _FIELD.findall(fields)})
            for number, kind, fields in _METADATA.findall(module)
        }

        def is_own(scope: int) -> bool:
            fields = entries.get(scope, ("", {}))[1]
            file = entries.get(int(fields.get("file", -1)), ("", {}))[1]
            return bool(file.get("filename", "").endswith(SOURCE_NAME))

        def line_of(fields: Mapping[str, str]) -> int:
            # Code of another file has the line of the kernel that calls it.
            while not is_own(int(fields["scope"])) and "inlinedAt" in fields:
                fields = entries[int(fields["inlinedAt"])][1]
            return int(fields.get("line", 0)) if is_own(int(fields["scope"])) else 0

        return cls(
            {
                number: line_of(fields)
                for number, (kind, fields) in entries.items()
                if kind == "DILocation"
            }
        )

    def at(self, text: str) -> int:
        """Return the line of a printed instruction, 0 if it has none."""
        found = _PLACE.search(text)
        return self.of_location.get(int(found.group(1)), 0) if found else 0


def _instruction_texts(function: str) -> Iterator[str]:
    """Yield each instruction of a printed function on one line, without the name of its result."""
    lines = iter(function.split("\n"))
    for line in lines:
        words = line.strip()
        if not line.startswith("  ") or words.startswith((";", "#dbg")):
            continue
        if words.startswith("switch "):
            while not words.endswith("]") and "]," not in words:
                words += " " + next(lines).strip()
        name, equals, rest = words.partition(" = ")
        yield rest if equals and name.startswith("%") else words


def _reports(found: _Instructions) -> bool:
    """Return whether a block is executed for a fault alone."""
    return any("@__ubsan_handle" in text for _, text in found)


def _block_lines(
    found: _Instructions, lines: _Lines, checks: set[Any], narrow: frozenset[Any]
) -> Iterator[BlockLine]:
    counts: dict[int, Counter[Kind]] = {}
    flops: dict[int, Counter[Kind]] = {}
    barriers: Counter[int] = Counter()
    line = 0
    for instruction, text in found:
        targets = instruction.operands if instruction.opcode == "br" else ()
        if "!nosanitize" in text or not checks.isdisjoint(targets):
            continue
        line = lines.at(text) or line
        for kind, count, operations in _counted(instruction, text, narrow):
            counts.setdefault(line, Counter())[kind] += count
            if operations:
                flops.setdefault(line, Counter())[kind] += operations
        if "@ember_threadgroup_barrier(" in text:
            barriers[line] += 1
            counts.setdefault(line, Counter())
    for number, kinds in counts.items():
        of_kind = dict(flops.get(number, {}))
        yield BlockLine(number, dict(kinds), sum(of_kind.values()), barriers[number], of_kind)


def _counted(
    instruction: Any, text: str, narrow: frozenset[Any]
) -> Iterator[tuple[Kind, int, int]]:
    """Kinds of an instruction, how many of them, and how many operations on floats."""
    name = instruction.opcode
    if name == "call":
        yield from _call(instruction, text)
    elif name in _ARITHMETIC or name in ("fdiv", "frem"):
        yield from _arithmetic(instruction)
    elif name in _INTEGERS or name in _INTEGER_DIVISIONS:
        yield from _integers(instruction, narrow)
    elif name in _CONVERSIONS:
        yield "convert", _shape(str(instruction.type))[0], 0
    elif name == "getelementptr":
        _, *indices = instruction.operands
        if any(index.is_instruction or index.is_argument for index in indices):
            yield "integer", 1, 0
    elif name == "switch" or (name == "br" and len(list(instruction.operands)) > 1):
        yield "control", 1, 0


def _integers(instruction: Any, narrow: frozenset[Any]) -> Iterator[tuple[Kind, int, int]]:
    operands = list(instruction.operands)
    components, element = _shape(str(operands[-1].type))
    if instruction.opcode in _INTEGER_DIVISIONS and operands[-1].is_constant:
        # By a constant a compiler shifts, or multiplies and shifts.
        yield "integer", components, 0
    elif instruction.opcode in _INTEGER_DIVISIONS:
        yield "division_integer", components, 0
    elif element != "i1" and not is_free(instruction):
        is_compared = instruction.opcode == "icmp" and not narrow.isdisjoint(operands)
        is_long = element in ("i64", "i128") and instruction not in narrow and not is_compared
        yield ("integer64" if is_long else "integer"), components, 0


def _arithmetic(instruction: Any) -> Iterator[tuple[Kind, int, int]]:
    operands = list(instruction.operands)
    components, element = _shape(str(operands[0].type))
    kind = _FLOATS.get(element, "float32")
    if instruction.opcode == "fdiv":
        # A reciprocal is one instruction, and so is that of a square root, counted there.
        numerator, denominator = map(str, operands)
        is_reciprocal = any(one in numerator for one in _ONES)
        if is_reciprocal and "@llvm.sqrt." in denominator:
            return
        kind = "special" if is_reciprocal else "division"
    elif instruction.opcode == "frem":
        kind = "special"
    yield kind, components, components


def _shape(type_name: str) -> tuple[int, str]:
    """Components and element type of `<4 x float>` or `float`."""
    if not type_name.startswith("<"):
        return 1, type_name
    count, _, element = type_name.strip("<>").partition(" x ")
    return int(count), element


def _call(instruction: Any, text: str) -> Iterator[tuple[Kind, int, int]]:
    operands = list(instruction.operands)
    callee = operands[-1].name
    components, element = _shape(str(instruction.type))
    kind = _FLOATS.get(element, "float32")
    base = callee.removeprefix("llvm.").partition(".")[0]
    if not callee.startswith("llvm."):
        base = callee.removesuffix("f")
    if callee.startswith("__tsan_"):
        if "read" in callee or "write" in callee or "mem" in callee:
            yield "memory", 1, 0
    elif callee in ("ember_simd_exchange", "ember_quad_exchange"):
        yield from _exchange(str(operands[0]))
    elif callee == "ember_atomic":
        yield "memory", 1, 0
    elif callee in ("ember_threadgroup_barrier", "ember_simdgroup_barrier"):
        yield "control", 1, 0
    elif base in _SIMPLE:
        yield kind, components, components
    elif base in _FUSED:
        yield kind, components, 2 * components
    elif base in _SPECIAL:
        yield "special", (2 if base in ("pow", "powr", "tan") else 1) * components, components
        yield "float32", _POLYNOMIALS.get(base, 0) * components, 0
    elif callee.startswith("llvm.") and base in _INTEGER_CALLS:
        yield ("integer64" if element == "i64" else "integer"), components, 0
    elif callee.startswith("_Z") and not callee.startswith(("_ZN5ember", "_ZN5metal")):
        yield "control", 1, 0


def _exchange(operation: str) -> Iterator[tuple[Kind, int, int]]:
    found = _OPERATION.search(operation)
    name = found.group(1) if found else ""
    if name.startswith("simdgroup_multiply"):
        yield "matrix", 1, _MATRIX_FLOPS
        return
    if name.startswith("simdgroup_"):
        return  # simdgroup_load and simdgroup_store: the accesses follow
    _, _, verb = name.partition("_")
    is_reduction = verb in ("sum", "product", "min", "max", "and", "or", "xor")
    steps = _STEPS_OF_REDUCTION if is_reduction or verb.startswith("prefix") else 1
    yield "shuffle", steps, 0
    if steps > 1:
        yield "integer" if verb in ("and", "or", "xor") else "float32", steps, steps


def vector_parts(
    found: Iterable[tuple[Any, str]], line_of: Callable[[str], int]
) -> dict[tuple[int, int], int]:
    """Return bytes of the vectors of a block, by line and bytes of a part.

    The first part has the alignment of its vector, which no scalar has.

    Args:
        found: instructions with their printed texts.
        line_of: from a printed instruction to its line.
    """
    vectors: dict[tuple[int, int], int] = {}
    for instruction, text in found:
        loaded = _LOAD.match(text) if instruction.opcode == "load" else None
        if loaded is None or loaded[2] not in _BYTES:
            continue
        size = int(loaded[1] or 1) * _BYTES[loaded[2]]
        alignment = min(int(loaded[3]), _WIDEST)
        if alignment > size:
            key = line_of(text), size
            vectors[key] = max(alignment, vectors.get(key, 0))
    return vectors
