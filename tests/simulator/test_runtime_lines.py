"""Where a kernel object's parts lie, and which line an address comes from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from embercoach.simulator.build.object_lines import read_image, read_lines, variable_name
from embercoach.simulator.build.toolchain import Host, Toolchain, _zig
from embercoach.simulator.model import SimulatorError

SOURCE = """
#if defined(__APPLE__)
#define SHARED static __attribute__((section("__DATA,msltg"), used))
#else
#define SHARED static __attribute__((section("msltg"), used))
#endif
extern "C" int elsewhere(int);
#line 50 "library.h"
static inline __attribute__((always_inline)) int twice(int value) {
  return elsewhere(value) * 2;
}
#line 1 "kernel.metal"
static __attribute__((noinline)) int helper(int value) {
  return elsewhere(value) + 1;
}
template <class T> static __attribute__((noinline)) void body(T* out) {
  SHARED float tile[64];
  SHARED char flag[3];
  SHARED T row_2[8];
  out[0] = helper(out[1]);
  out[2] =
      elsewhere(3);
  out[3] = twice(out[4]);
  out[5] = tile[out[6]] + flag[out[7]] + row_2[out[8]];
}
extern "C" __attribute__((visibility("default")))
void ember_kernel(const void*, void* const* buffers) {
  body((int*)buffers[0]);
}
"""
#: The lines of calls of ``elsewhere``, in the order of their addresses.
CALLS = {2, 10, 11}


def _built(toolchain: Toolchain, folder: Path) -> Path:
    source, part, target = folder / "unit.cpp", folder / "kernel.o", folder / "kernel.so"
    source.write_text(SOURCE)
    flags = ("-O1", "-gline-tables-only", "-fPIC", f"--target={toolchain.host.triple}")
    compile_ = [*toolchain.compiler, *flags, "-x", "c++", "-c", str(source), "-o", str(part)]
    subprocess.run(compile_, check=True)
    subprocess.run(
        [*toolchain.linker, *toolchain.link_flags(), "-o", str(target), str(part)], check=True
    )
    return target


@pytest.fixture(
    scope="module",
    params=[("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "x86_64"), ("darwin", "aarch64")],
    ids="-".join,
)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    system, machine = request.param
    return _built(_zig(Host(system, machine, wide=False)), tmp_path_factory.mktemp("object"))


def test_parts_are_found(built: Path) -> None:
    image = read_image(built)
    assert image.text[0] <= image.entry < image.text[1]
    assert image.whole[0] <= image.text[0] < image.text[1] <= image.whole[1]
    names = {array.name: array for array in image.arrays}
    assert set(names) == {"tile", "flag", "row_2"}
    for name, size in {"tile": 256, "flag": 3, "row_2": 32}.items():
        array = names[name]
        assert image.writable[0] <= array.start < array.start + size <= image.writable[1]
        # Mach-O tells no sizes.
        assert size <= array.size <= (size if _is_elf(built) else 300)


def test_lines_are_those_of_the_source(built: Path) -> None:
    image, lines = read_image(built), read_lines(built)
    found = [lines.line_at(address) for address in range(*image.text)]
    assert CALLS | {8, 12} <= set(found)
    # Of the library's line the caller's is told.
    assert 51 not in found
    assert {line for line in found if line} <= set(range(1, 18))
    assert lines.line_at(image.entry) in (15, 16)
    assert lines.line_at(0) is None


def test_columns_tell_where_an_expression_begins(built: Path) -> None:
    image, lines = read_image(built), read_lines(built)
    places = {lines.place_at(address) for address in range(*image.text)}
    text = SOURCE.partition('"kernel.metal"\n')[2].splitlines()
    words = {text[line - 1][column - 1 :][:9] for line, column in places if line and column}
    assert "elsewhere" in words


def _is_elf(path: Path) -> bool:
    return path.read_bytes()[:4] == b"\x7fELF"


def test_object_without_the_entry_is_refused(toolchain: Toolchain, tmp_path: Path) -> None:
    source, part, target = tmp_path / "unit.cpp", tmp_path / "unit.o", tmp_path / "unit.so"
    source.write_text("int nothing() { return 0; }")
    subprocess.run([*toolchain.compiler, "-c", "-o", str(part), str(source)], check=True)
    linker = (*toolchain.linker, *toolchain.link_flags())
    subprocess.run([*linker, "-o", str(target), str(part)], check=True)
    with pytest.raises(SimulatorError, match="ember_kernel"):
        read_image(target)


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("shared", "shared"),
        ("_ZZ6kernelvE6shared", "shared"),
        ("_ZZ6kernelvE6shared_0", "shared"),
        ("_ZZ6kernelvE6shared__12_", "_ZZ6kernelvE6shared__12_"),
        ("_ZZN3abcI1xEvvE3a_1", "a_1"),
        ("_ZZL4bodyIfEvPT_E12partial_sums.llvm.77", "partial_sums"),
        ("_ZZ1fvE1x", "x"),
        ("_Z3foo", "foo"),
    ],
)
def test_variables_have_their_names(symbol: str, name: str) -> None:
    assert variable_name(symbol) == name
