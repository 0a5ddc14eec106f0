"""Reads what the simulator needs of Mach-O files: macOS's objects and libraries.

No Mac was at hand; it was tried on files that the cross compiler makes.
"""

from __future__ import annotations

import inspect
import io
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAGIC = b"\xcf\xfa\xed\xfe"
_SEGMENT, _SYMBOLS = 0x19, 0x2
_STAB, _DEFINED = 0xE0, 0x0E
_ARM64 = 0x0100000C
#: Names are cut to 16 bytes.
_CUT_NAMES = {"debug_str_offs": "debug_str_offsets"}


@dataclass(frozen=True, slots=True)
class Section:
    """A section: where it is loaded, where in the file it lies, and its relocations there."""

    segment: str
    name: str
    address: int
    size: int
    offset: int
    relocations_at: int
    relocation_count: int


@dataclass(frozen=True, slots=True)
class MachFile:
    """A file's segments (name, first address, size), sections, symbols and bytes."""

    segments: tuple[tuple[str, int, int], ...]
    sections: tuple[Section, ...]
    symbols: tuple[tuple[str, int], ...]
    all_symbols: tuple[tuple[str, int], ...]
    is_arm: bool
    data: bytes

    def section(self, name: str) -> Section | None:
        """The section of a name."""
        return next((section for section in self.sections if section.name == name), None)

    def dwarf(self) -> DWARFInfo:
        """Its debug information, with addresses as in its symbols."""
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
        """The bytes of a section, with the addresses of symbols put in."""
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
    """A 64-bit file of this machine's byte order."""
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
            symbols += _symbols(data, *struct.unpack_from("<3I", data, at + 8))
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


def _symbols(data: bytes, table: int, count: int, names: int) -> Iterator[tuple[str, int, int]]:
    """Name as C has it, kind and address of each symbol."""
    for k in range(count):
        start, kind, _, _, value = struct.unpack_from("<IBBHQ", data, table + 16 * k)
        text = data[names + start : data.index(b"\0", names + start)].decode(errors="replace")
        yield text.removeprefix("_"), kind, value
