"""The layout of a kernel object (ELF or Mach-O), and the source line of each instruction."""

from __future__ import annotations

import bisect
import functools
import inspect
import io
import itertools
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo
from elftools.elf.elffile import ELFFile
from msgspec import Struct
from msgspec.structs import replace

from embercoach.simulator.model import SimulatorError

MAGIC = b"\xcf\xfa\xed\xfe"
_SEGMENT, _SYMBOLS = 0x19, 0x2
_STAB, _DEFINED = 0xE0, 0x0E
_ARM64 = 0x0100000C
#: Names are cut to 16 bytes.
_CUT_NAMES = {"debug_str_offs": "debug_str_offsets"}


class Section(Struct, frozen=True):
    """A section: where it is loaded, where in the file it lies, and its relocations there."""

    segment: str
    name: str
    address: int
    size: int
    offset: int
    relocations_at: int
    relocation_count: int


class MachFile(Struct, frozen=True):
    """A file's segments (name, first address, size), sections, symbols and bytes."""

    segments: tuple[tuple[str, int, int], ...]
    sections: tuple[Section, ...]
    symbols: tuple[tuple[str, int], ...]
    all_symbols: tuple[tuple[str, int], ...]
    is_arm: bool
    data: bytes

    def section(self, name: str) -> Section | None:
        """Return the section of a name."""
        return next((section for section in self.sections if section.name == name), None)

    def dwarf(self) -> DWARFInfo:
        """Return its debug information, with addresses as in its symbols."""
        known = inspect.signature(DWARFInfo.__init__).parameters
        sections: dict[str, Any] = {name: None for name in known if name.endswith("_sec")}
        for section in self.sections:
            name = section.name.removeprefix("__")
            key = f"{_CUT_NAMES.get(name, name)}_sec"
            if section.segment == "__DWARF" and key in sections:
                content = io.BytesIO(self._relocated(section))
                sections[key] = DebugSectionDescriptor(content, name, 0, section.size, 0)
        arch = "AArch64" if self.is_arm else "x64"
        config = DwarfConfig(little_endian=True, default_address_size=8, machine_arch=arch)
        return DWARFInfo(config, **sections)

    def _relocated(self, section: Section) -> bytes:
        """Return the bytes of a section, with the addresses of symbols put in."""
        content = bytearray(self.data[section.offset : section.offset + section.size])
        subtrahend: int | None = None
        for at, symbol, length, kind in self._relocations(section):
            if kind == (1 if self.is_arm else 5):
                subtrahend = symbol
            elif kind == 0:
                end = at + (1 << length)
                value = int.from_bytes(content[at:end], "little") + symbol - (subtrahend or 0)
                content[at:end] = (value % (1 << 8 * (1 << length))).to_bytes(end - at, "little")
                subtrahend = None
        return bytes(content)

    def _relocations(self, section: Section) -> Iterator[tuple[int, int, int, int]]:
        """Offset, what to add, binary logarithm of the size, and kind of each."""
        for k in range(section.relocation_count):
            at, word = struct.unpack_from("<iI", self.data, section.relocations_at + 8 * k)
            is_symbol = word >> 27 & 1
            # Without a symbol, the place holds the whole address already.
            symbol = self.all_symbols[word & 0xFFFFFF][1] if is_symbol else 0
            yield at, symbol, word >> 25 & 3, word >> 28


def read_mach(path: Path) -> MachFile:
    """Return a 64-bit file of this machine's byte order."""
    data = path.read_bytes()
    segments: list[tuple[str, int, int]] = []
    sections: list[Section] = []
    symbols: list[tuple[str, int, int]] = []
    _, machine, _, _, count, *_ = struct.unpack_from("<8I", data)
    at = 32
    for _ in range(count):
        command, size = struct.unpack_from("<2I", data, at)
        if command == _SEGMENT:
            address, extent, *_, section_count, _ = struct.unpack_from("<4Q4I", data, at + 24)
            segments.append((_name(data, at + 8), address, extent))
            sections += (_section(data, at + 72 + 80 * k) for k in range(section_count))
        elif command == _SYMBOLS:
            symbols += _table_symbols(data, *struct.unpack_from("<3I", data, at + 8))
        at += size
    return MachFile(
        tuple(segments),
        tuple(sections),
        tuple((name, value) for name, kind, value in symbols if _is_defined(kind)),
        tuple((name, value) for name, _, value in symbols),
        machine == _ARM64,
        data,
    )


def _is_defined(kind: int) -> bool:
    return not kind & _STAB and kind & _DEFINED == _DEFINED


def _name(data: bytes, at: int) -> str:
    return data[at : at + 16].rstrip(b"\0").decode()


def _section(data: bytes, at: int) -> Section:
    address, size, offset, _, relocations_at, count = struct.unpack_from("<2Q4I", data, at + 32)
    name, segment = _name(data, at), _name(data, at + 16)
    return Section(segment, name, address, size, offset, relocations_at, count)


def _table_symbols(
    data: bytes, table: int, count: int, names: int
) -> Iterator[tuple[str, int, int]]:
    """Name as C has it, kind and address of each symbol."""
    for k in range(count):
        start, kind, _, _, value = struct.unpack_from("<IBBHQ", data, table + 16 * k)
        text = data[names + start : data.index(b"\0", names + start)].decode(errors="replace")
        yield text.removeprefix("_"), kind, value


#: What the rewriter names the text that MLX generated.
SOURCE_NAME = "kernel.metal"
_ENTRY = "ember_kernel"
_ARRAYS = "msltg"
_WRITABLE, _EXECUTABLE = 0x2, 0x1


class SharedArray(Struct, frozen=True):
    """A threadgroup array (or variable): its name, first address and bytes."""

    name: str
    start: int
    size: int


class Image(Struct, frozen=True):
    """The parts of a kernel object; each span is its first address and the one after it.

    Attributes:
        entry: address of ``ember_kernel``.
        whole, text, writable: spans of the object, its code and its data that can change.
        arrays: its threadgroup arrays, by address.
    """

    entry: int
    whole: tuple[int, int]
    text: tuple[int, int]
    writable: tuple[int, int]
    arrays: tuple[SharedArray, ...]


@functools.lru_cache(maxsize=512)
def read_image(path: Path) -> Image:
    """Return the parts of a kernel object.

    Raises:
        SimulatorError: it is not a kernel object.
    """
    with path.open("rb") as file:
        if file.read(4) == MAGIC:
            return _mach_image(read_mach(path), path)
        file.seek(0)
        elf = ELFFile(file)
        loaded = [s for s in elf.iter_segments() if s["p_type"] == "PT_LOAD"]
        symbols = list(_symbols(elf))
        entry = next((s["st_value"] for name, s in symbols if name == _ENTRY), None)
        section = elf.get_section_by_name(_ARRAYS)
    if entry is None:
        raise SimulatorError(f"{path} is not a kernel object: it defines no {_ENTRY}")
    arrays: list[SharedArray] = []
    if section is not None:
        first, behind = section["sh_addr"], section["sh_addr"] + section["sh_size"]
        arrays = [
            SharedArray(variable_name(name), s["st_value"], s["st_size"])
            for name, s in symbols
            if first <= s["st_value"] < behind and s["st_size"]
        ]
    return Image(
        entry=entry,
        whole=_span(loaded),
        text=_span([s for s in loaded if s["p_flags"] & _EXECUTABLE]),
        writable=_span([s for s in loaded if s["p_flags"] & _WRITABLE]),
        arrays=tuple(sorted(arrays, key=lambda array: array.start)),
    )


def _mach_image(mach: MachFile, path: Path) -> Image:
    """Of macOS, whose symbols have no sizes: an array goes on to the next."""
    spans = {name: (start, start + size) for name, start, size in mach.segments}
    entry = next((value for name, value in mach.symbols if name == _ENTRY), None)
    code, section = mach.section("__text"), mach.section(_ARRAYS)
    if entry is None or code is None:
        raise SimulatorError(f"{path} is not a kernel object: it defines no {_ENTRY}")
    arrays: list[SharedArray] = []
    if section is not None:
        behind = section.address + section.size
        inside = {value: name for name, value in mach.symbols if section.address <= value < behind}
        starts = [*sorted(inside), behind]
        arrays = [
            SharedArray(variable_name(inside[start]), start, end - start)
            for start, end in itertools.pairwise(starts)
        ]
    own = [span for name, span in spans.items() if name != "__LINKEDIT"]
    return Image(
        entry=entry,
        whole=(min(start for start, _ in own), max(end for _, end in own)),
        text=(code.address, code.address + code.size),
        writable=spans.get("__DATA", (0, 0)),
        arrays=tuple(arrays),
    )


def _symbols(elf: Any) -> Iterator[tuple[str, Any]]:
    for name in (".symtab", ".dynsym"):
        table = elf.get_section_by_name(name)
        if table is not None:
            yield from ((symbol.name, symbol.entry) for symbol in table.iter_symbols())
            return


def _span(segments: list[Any]) -> tuple[int, int]:
    if not segments:
        return 0, 0
    start = min(s["p_vaddr"] for s in segments)
    return start, max(s["p_vaddr"] + s["p_memsz"] for s in segments)


def variable_name(symbol: str) -> str:
    """The name of a variable from its mangled symbol: ``shared`` from ``_ZZ6kernelvE6shared_0``.

    Of a function's own variable a symbol ends in the name, its length before it, and a number
    where the function has several of that name.
    """
    text = symbol.partition(".")[0]
    if not text.startswith("_Z"):
        return text
    stem, _, number = text.rpartition("_")
    forms = [text, stem.rstrip("_")] if number.isdecimal() else [text]
    for form in forms:
        for length in range(1, len(form)):
            at = len(form) - length
            if form[:at].endswith(str(length)) and not form[at].isdecimal():
                return form[at:]
    return symbol


class _Inlined(Struct, frozen=True):
    """A call that was inlined: the spans of its code, the call's line, 0 if not in the text."""

    spans: tuple[tuple[int, int], ...]
    line: int


#: Lines of stretches that have none: moved by the compiler, of a header, or after all code.
_MOVED, _FOREIGN, _END = 0, -1, -2


class LineTable(Struct, frozen=True):
    """Source lines by address.

    Attributes:
        starts: first addresses of stretches, ascending.
        places: line and column of each stretch.
        inlined: calls inlined, outer before inner.
    """

    starts: tuple[int, ...]
    places: tuple[tuple[int, int], ...]
    inlined: tuple[_Inlined, ...]

    def line_at(self, address: int) -> int | None:
        """Get the line that the code at an address comes from, or the one that calls it there."""
        return self.place_at(address)[0]

    def place_at(self, address: int) -> tuple[int | None, int]:
        """That line, and the column, 0 if unknown."""
        at = bisect.bisect_right(self.starts, address) - 1
        if at < 0 or self.places[at][0] == _END:
            return None, 0
        line, column = self.places[at]
        if line == _MOVED:
            # An access moved out of a loop is in front of it.
            line, column = self._next(at)
        if line > 0:
            return line, column
        around = [
            call.line
            for call in self.inlined
            if call.line and any(start <= address < end for start, end in call.spans)
        ]
        return (around[-1] if around else None), 0

    def _next(self, at: int) -> tuple[int, int]:
        for place in self.places[at + 1 :]:
            if place[0] != _MOVED:
                return place
        return _END, 0


@functools.lru_cache(maxsize=64)
def read_lines(path: Path) -> LineTable:
    """Return the line table of a kernel object."""
    with path.open("rb") as file:
        if file.read(4) == MAGIC:
            return _mach_lines(path)
        file.seek(0)
        elf = ELFFile(file)
        return _table(elf.get_dwarf_info(), 0) if elf.has_dwarf_info() else LineTable((), (), ())


def _mach_lines(path: Path) -> LineTable:
    """Of macOS, where the linker leaves lines in the object that it linked."""
    part = path.with_suffix(".o")
    if not part.exists():
        return LineTable((), (), ())
    mach = read_mach(part)
    entry = dict(mach.symbols)[_ENTRY]
    return _table(mach.dwarf(), read_image(path).entry - entry)


def _table(dwarf: Any, shift: int) -> LineTable:
    """Return the lines of debug information whose addresses are to be shifted."""
    rows: list[tuple[int, tuple[int, int]]] = []
    inlined: list[_Inlined] = []
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        if program is None:
            continue
        own = _own_files(program)
        rows += ((start + shift, place) for start, place in _rows(program, own))
        inlined += (
            replace(call, spans=tuple((start + shift, end + shift) for start, end in call.spans))
            for call in _inlined_calls(dwarf, unit, own)
        )
    rows.sort(key=lambda row: row[0])
    starts, places = tuple(row[0] for row in rows), tuple(row[1] for row in rows)
    return LineTable(starts, places, tuple(inlined))


def _own_files(program: Any) -> frozenset[int]:
    """Return the numbers under which a line program knows the kernel's text."""
    first = 0 if program.header.version >= 5 else 1
    return frozenset(
        number
        for number, entry in enumerate(program.header["file_entry"], start=first)
        if Path(entry.name.decode(errors="replace")).name == SOURCE_NAME
    )


def _rows(program: Any, own: frozenset[int]) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the starts of stretches of code, and their places."""
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        if state.end_sequence:
            yield state.address, (_END, 0)
        elif not state.line:
            yield state.address, (_MOVED, 0)
        elif state.file in own:
            yield state.address, (state.line, state.column)
        else:
            yield state.address, (_FOREIGN, 0)


def _inlined_calls(dwarf: Any, unit: Any, own: frozenset[int]) -> Iterator[_Inlined]:
    ranges = dwarf.range_lists()
    for die in unit.iter_DIEs():
        if die.tag != "DW_TAG_inlined_subroutine":
            continue
        attributes = die.attributes
        if "DW_AT_call_line" not in attributes or "DW_AT_call_file" not in attributes:
            continue
        inside = attributes["DW_AT_call_file"].value in own
        line = attributes["DW_AT_call_line"].value if inside else 0
        yield _Inlined(tuple(_spans(unit, die, ranges)), line)


def _spans(unit: Any, die: Any, ranges: Any) -> Iterator[tuple[int, int]]:
    attributes = die.attributes
    if "DW_AT_low_pc" in attributes and "DW_AT_high_pc" in attributes:
        low = attributes["DW_AT_low_pc"].value
        high = attributes["DW_AT_high_pc"]
        yield low, high.value if high.form == "DW_FORM_addr" else low + high.value
    elif "DW_AT_ranges" in attributes and ranges is not None:
        top = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
        base = top.value if top is not None else 0
        for entry in ranges.get_range_list_at_offset(attributes["DW_AT_ranges"].value, unit):
            if hasattr(entry, "begin_offset"):
                shift = 0 if getattr(entry, "is_absolute", False) else base
                yield entry.begin_offset + shift, entry.end_offset + shift
            else:
                base = entry.base_address
