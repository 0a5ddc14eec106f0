from __future__ import annotations

import os
import re
import shutil
import stat
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from msgspec.structs import replace

from embercoach.installation import install_command
from embercoach.metal.contract import Input, KernelArguments, Output, TemplateArgument
from embercoach.simulator.build import objects
from embercoach.simulator.build import toolchain as toolchains
from embercoach.simulator.build.objects import (
    GRACE,
    SWEEP_INTERVAL,
    EntryFacts,
    KernelFacts,
    ObjectCache,
)
from embercoach.simulator.build.toolchain import Toolchain, find_toolchain
from embercoach.simulator.model import BuiltKernel, SimulatorError
from embercoach.simulator.rewrite.translation import Rewritten
from tests.metal.generated_text import generated_source

X = Input.of_shape("x", (16,), "float32")
Y = Output("y", "float32")
BODY = "threadgroup float a[4];\na[0] = x[0];\ny[0] = a[0];\n"

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads ELF")


def generated(
    body: str, header: str = "", template: tuple[TemplateArgument, ...] = (), atomic: bool = False
) -> str:
    kernel = KernelArguments("k", (X,), (Y,), body, header, template, atomic_outputs=atomic)
    return generated_source(kernel)


def build(
    toolchain: Toolchain,
    cache: Path,
    body: str = BODY,
    header: str = "",
    *,
    checks: bool = True,
    template: tuple[TemplateArgument, ...] = (),
    atomic: bool = False,
    math_mode: str = "safe",
) -> BuiltKernel:
    source = generated(body, header, template, atomic)
    return objects.build(
        source,
        "k",
        body,
        header,
        checks=checks,
        toolchain=toolchain,
        math_mode=math_mode,
        cache=cache,
    )


def undefined(path: Path) -> set[str]:
    with path.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym").iter_symbols()
        return {s.name for s in symbols if s.name and s["st_shndx"] == "SHN_UNDEF"}


@linux
def test_only_checked_kernels_call_the_runtime(toolchain: Toolchain, object_cache: Path) -> None:
    built = build(toolchain, object_cache)
    assert [p.name for p in built.parameters] == ["x", "y"]
    assert (built.name, built.checked, built.source) == ("k", True, generated(BODY))
    checked = undefined(built.object)
    assert {"__tsan_read4", "__tsan_write4"} <= checked
    assert undefined(build(toolchain, object_cache, checks=False).object) == set()


@pytest.mark.parametrize(
    ("body", "uses"),
    [
        (
            (
                "float s, r; int at;\ns += x[0];\nif (x[0] > 0) r = 1;\ny[0] = s + r;\n"
                "for (int k = 0; k < 4; ++k) { if (x[k] > 2) { at = k; } }\ny[1] = at;"
            ),
            [(2, "s"), (4, "r"), (6, "at")],
        ),
        ("float s;\nif (x[0] > 0) { s = 1; } else { s = 2; }\ny[0] = s;", []),
    ],
)
def test_uses_of_what_has_no_value_are_known(
    toolchain: Toolchain, object_cache: Path, body: str, uses: list[tuple[int, str]]
) -> None:
    built = build(toolchain, object_cache, body)
    assert [(built.lines.place(u.line)[1], u.variable) for u in built.unset] == uses


# -- the cache ----------------------------------------


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys of the kernels that would be compiled: an entry of 200 bytes takes their place."""
    keys: list[str] = []

    def entry_of(store: ObjectCache, key: str, _: str, rewritten: Rewritten, *__: object) -> object:
        keys.append(key)
        with store.making() as made:
            (made / "kernel.so").write_bytes(b"x" * 200)
            return store.put(key, made, EntryFacts(KernelFacts((), rewritten.lines)))

    monkeypatch.setattr(objects, "_compiled", entry_of)
    return keys


def test_what_differs_is_compiled_anew_and_the_same_once(
    toolchain: Toolchain, tmp_path: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"body": "y[0] = 13;"},
        {"header": "//\n"},
        {"checks": False},
        {"template": (TemplateArgument("N", 1),)},
        {"math_mode": "fast"},
    )
    for change in (*changes, *changes):
        build(toolchain, tmp_path, **change)
    newer = replace(toolchain, identity=toolchain.identity + " newer")
    build(newer, tmp_path)
    copied = tmp_path / "prelude"
    shutil.copytree(objects.HEADERS[1], copied)
    with (copied / "ember_prelude.h").open("a", encoding="utf-8") as file:
        file.write("\n// changed\n")
    unit, _, runtime = objects.HEADERS
    monkeypatch.setattr(objects, "HEADERS", (unit, copied, runtime))
    build(toolchain, tmp_path)
    assert len(compiled) == len(set(compiled)) == len(changes) + 2


@pytest.mark.parametrize("damage", ["cut", "gone", "{}", "{"])
def test_a_damaged_entry_is_made_again(
    toolchain: Toolchain, tmp_path: Path, compiled: list[str], damage: str
) -> None:
    built = build(toolchain, tmp_path)
    if damage == "cut":
        built.object.write_bytes(b"x" * 100)
    elif damage == "gone":
        built.object.unlink()
    else:
        (built.object.parent / "entry.json").write_text(damage)
    assert build(toolchain, tmp_path) == built
    assert built.object.read_bytes() == b"x" * 200
    assert len(compiled) == 2


def set_age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then), follow_symlinks=False)


def entry(cache: ObjectCache, key: str, size: int, age: float = 0.0) -> Path:
    with cache.making() as made:
        (made / "file").write_bytes(b"x" * size)
        folder = cache.put(key, made, EntryFacts(refused=key)).folder
    set_age(folder / "entry.json", age)
    return folder


def test_the_oldest_entries_go_first(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "c", most_bytes=2500)
    folders = [entry(cache, f"k{i}", 1000, age=GRACE * (9 - i)) for i in range(4)]
    cache.sweep()
    assert [folder.exists() for folder in folders] == [False, False, True, True]
    assert cache.get("k0") is None
    assert cache.get("k3") is not None


def test_an_entry_that_was_just_used_stays(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "c", most_bytes=10)
    old, used = entry(cache, "old", 100, GRACE * 2), entry(cache, "used", 100, GRACE * 3)
    assert cache.get("used") is not None
    cache.sweep()
    assert (old.exists(), used.exists()) == (False, True)


def test_what_a_crash_left_is_removed_later(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "c")
    entry(cache, "k", 1)
    fresh, stale = (cache.root / name for name in (".new-a", ".new-b"))
    for folder in (fresh, stale):
        folder.mkdir()
        (folder / "kernel.o").write_text("x")
    set_age(stale, 2 * GRACE)
    cache.sweep()
    assert (fresh.exists(), stale.exists()) == (True, False)


def test_storing_sweeps_from_time_to_time(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "c", most_bytes=10)
    old = entry(ObjectCache(cache.root), "old", 100, GRACE * 2)
    entry(cache, "new", 100)
    assert old.exists()
    set_age(cache.root / "swept", 2 * SWEEP_INTERVAL)
    entry(cache, "newer", 100)
    assert not old.exists()
    assert time.time() - (cache.root / "swept").stat().st_mtime < SWEEP_INTERVAL


@pytest.mark.parametrize("age", [2 * SWEEP_INTERVAL, -2 * SWEEP_INTERVAL])
def test_a_link_in_place_of_the_stamp_is_replaced(tmp_path: Path, age: float) -> None:
    cache = ObjectCache(tmp_path / "c")
    cache.root.mkdir()
    stamp = cache.root / "swept"
    stamp.symlink_to(tmp_path / "elsewhere")
    set_age(stamp, age)
    entry(cache, "new", 100)
    assert stamp.is_file()
    assert not stamp.is_symlink()
    assert not (tmp_path / "elsewhere").exists()


def test_the_first_of_two_makers_wins(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "c")
    with cache.making() as first, cache.making() as second:
        (first / "file").write_text("first")
        (second / "file").write_text("second")
        cache.put("k", first, EntryFacts())
        got = cache.put("k", second, EntryFacts())
    assert (got.folder / "file").read_text() == "first"


def test_a_cache_that_can_not_be_written_is_told(toolchain: Toolchain, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(SimulatorError, match="XDG_CACHE_HOME"):
        build(toolchain, blocked / "cache")


# Compiled kernels run as the user: what somebody else may have put into the cache is not used.


@pytest.fixture
def stored(tmp_path: Path) -> ObjectCache:
    cache = ObjectCache(tmp_path / "cache", most_bytes=10)
    with cache.making() as made:
        (made / "kernel.so").write_bytes(b"code")
        cache.put("key", made, EntryFacts())
    assert cache.get("key") is not None
    return cache


def link_entry(folder: Path) -> None:
    folder.symlink_to(folder.rename(folder.parents[1] / "elsewhere"))


def link_object(folder: Path) -> None:
    code = (folder / "kernel.so").rename(folder.parents[1] / "elsewhere")
    (folder / "kernel.so").symlink_to(code)


def pipe_facts(folder: Path) -> None:
    (folder / "entry.json").unlink()
    os.mkfifo(folder / "entry.json")


def pipe_object(folder: Path) -> None:
    (folder / "kernel.so").unlink()
    os.mkfifo(folder / "kernel.so")


def nest(folder: Path) -> None:
    (folder / "entry.json").write_bytes(b"[" * 100_000)


@pytest.mark.parametrize("change", [link_entry, link_object, pipe_facts, pipe_object, nest])
def test_odd_entries_are_misses(stored: ObjectCache, change: object) -> None:
    change(stored.root / "key")  # type: ignore[operator]
    assert stored.get("key") is None


def test_a_linked_entry_is_not_swept(stored: ObjectCache, tmp_path: Path) -> None:
    link_entry(stored.root / "key")
    set_age(tmp_path / "elsewhere" / "entry.json", 2 * GRACE)
    stored.sweep()
    assert (stored.root / "key").is_symlink()
    assert (tmp_path / "elsewhere" / "kernel.so").exists()


def test_a_cache_of_another_user_is_refused(
    stored: ObjectCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert stored.get("key") is None
    with pytest.raises(SimulatorError, match="another user"), stored.making():
        pass


# -- finding a compiler ----------------------------------------


def test_the_zig_of_the_wheel_is_found(toolchain: Toolchain) -> None:
    assert Path(toolchain.compiler[0]).is_file()
    assert toolchain.compiler[1:] == ("clang",)
    assert toolchain.identity.startswith("ziglang ")
    assert toolchain.includes


def wheel(folder: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a wheel of a compiler of 4 bytes into a folder, and that on the path."""
    package, about = folder / "ziglang", folder / "ziglang-0.17.0.dist-info"
    for part in (package, about):
        part.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "zig").write_text("1234")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: ziglang\nVersion: 0.17.0\n")
    (about / "RECORD").write_text(f"ziglang/__init__.py,sha256=a,0\n{line}\n")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.setattr(
        toolchains.importlib.util,
        "find_spec",
        lambda name: SimpleNamespace(origin=str(package / "__init__.py")),
    )
    return package / "zig"


def test_the_same_wheel_elsewhere_is_the_same_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identities = []
    for folder in ("a", "b"):
        zig = wheel(tmp_path / folder, "ziglang/zig,sha256=z,4", monkeypatch)
        found = find_toolchain()
        assert found.compiler == (str(zig), "clang")
        identities.append(found.identity)
    assert identities == ["ziglang 0.17.0 sha256=z 4"] * 2


@pytest.mark.parametrize(
    "line",
    ["ziglang/zig,sha256=z,5", "ziglang/zig,,", "ziglang/zig", "ziglang/zigzag,sha256=z,4", ""],
)
def test_a_compiler_that_its_wheel_does_not_list_is_known_by_its_file(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zig = wheel(tmp_path, line, monkeypatch)
    first = find_toolchain().identity
    assert str(zig) in first
    os.utime(zig, (0, 0))
    assert find_toolchain().identity != first


def test_without_the_wheel_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchains.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SimulatorError, match=re.escape(install_command("simulator"))):
        find_toolchain()


def test_an_old_wheel_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchains.metadata, "version", lambda name: "0.16.1")
    with pytest.raises(SimulatorError, match=r"ziglang 0.16.1 is too old.* 0.17 or newer"):
        find_toolchain()


def fake(folder: Path, name: str, says: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'E'\n{says}\nE\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ("gcc (Debian 12) 12.2.0", "is not LLVM's clang"),
        ("Apple clang version 17.0.0 (clang-1700)", "is not LLVM's clang"),
        ("", "is not LLVM's clang"),
        ("clang version 14.0.6", "clang 14; the simulator needs 22"),
    ],
)
def test_a_compiler_that_can_not_do_it_is_refused(tmp_path: Path, says: str, words: str) -> None:
    with pytest.raises(SimulatorError, match=words):
        find_toolchain(str(fake(tmp_path, "cc", says)))


def test_a_named_clang_is_taken_with_the_linker_beside_it(tmp_path: Path) -> None:
    clang = fake(tmp_path, "clang-23", "Debian clang version 23.1.0 (1)\nTarget: x")
    linker = fake(tmp_path, "ld.lld", "")
    found = find_toolchain(str(clang))
    expected = clang if sys.platform == "darwin" else linker
    assert (found.compiler, found.linker[0]) == ((str(clang),), str(expected))
    assert "23.1.0" in found.identity
    assert found.includes == ()


def test_a_compiler_that_is_not_there_is_told() -> None:
    with pytest.raises(SimulatorError, match="no compiler 'clang-of-nowhere'"):
        find_toolchain("clang-of-nowhere")


@linux
def test_a_clang_without_a_linker_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clang = fake(tmp_path, "clang", "clang version 22.1.0")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(toolchains, "_version", lambda path, stamp: "clang version 22.1.0")
    with pytest.raises(SimulatorError, match="install lld"):
        find_toolchain(str(clang))


@linux
@pytest.mark.exhaustive
def test_a_system_clang_builds_kernels_like_the_wheels(
    toolchain: Toolchain, object_cache: Path, tmp_path: Path
) -> None:
    """Zig's clang in the guise of a system's: found by name, asked for its version, run."""
    zig = toolchain.compiler[0]
    for name, tool in (("clang", "clang"), ("ld.lld", "ld.lld")):
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\nexec "{zig}" {tool} "$@"\n')
        path.chmod(0o755)
    found = find_toolchain(str(tmp_path / "clang"))
    assert build(found, object_cache, "y[0] = 16;").object.is_file()


@pytest.mark.parametrize(("system", "machine"), [("Windows", "AMD64"), ("Linux", "riscv64")])
def test_other_machines_are_told(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str
) -> None:
    monkeypatch.setattr(toolchains.platform, "system", lambda: system)
    monkeypatch.setattr(toolchains.platform, "machine", lambda: machine)
    with pytest.raises(SimulatorError, match="Linux and macOS"):
        toolchains._host.__wrapped__()


def test_what_only_metal_can_say_compiles(toolchain: Toolchain, object_cache: Path) -> None:
    header = (
        "#define EPS 2.0H\n"
        "struct S { float v;\n"
        "  float get() const device { return v + 1.5BF; } float get() const thread { return v; }\n"
        "  device S& operator+=(float o) device { v += o; return *this; }\n"
        "  threadgroup S& operator+=(float o) threadgroup { v += o; return *this; }\n"
        "  S(float x) thread : v(x) {} S(float x) device : v(x) {} S(float x) constant : v(x) {}\n"
        "};\n"
        "float sum(constant const int s[2], const device float a[][3]) { return s[0] + a[0][1]; }\n"
    )
    body = (
        "half h = 2.0H + 2H + 2h + EPS + 0x1H + 0x1.8p3h + 1e1h;\n"
        "bfloat b = 1.5bf + 2BF;\n"
        "device S* s = (device S*)y;\n"
        "*s += 1.0f;\n"
        "int requires = 2, concept = 3, consteval = 4;\n"
        "y[0] = s->get() + S(2.0f).get() + h + b + requires + concept + consteval\n"
        "  + sum(x_shape, (const device float(*)[3])x);\n"
    )
    assert build(toolchain, object_cache, body, header).object.is_file()


def test_half_and_bfloat_are_cast_to_each_other(toolchain: Toolchain, object_cache: Path) -> None:
    header = (
        "template <typename T, typename U> T of(U u) { return static_cast<T>(u); }\n"
        "template <typename T, typename U> T as(U u) { return T(u); }\n"
    )
    body = (
        "half h = x[0]; bfloat b = bfloat(h); bfloat16_t c = (bfloat16_t)(h + 1.0h);\n"
        "h = half(bfloat(half(b)));\n"
        "b = of<bfloat>(h); long n = of<long>(3l); device half* p = (device half*)y;\n"
        "b = static_cast<bfloat>(p[0]); h = as<half>(b);\n"
        "y[0] = b + c + n + h;\n"
    )
    assert build(toolchain, object_cache, body, header).object.is_file()


def test_another_mlxs_header_is_replaced_where_it_does_not_compile(
    toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "include" / "mlx" / "backend" / "metal" / "kernels"
    folder.mkdir(parents=True)
    (folder / "utils.h").write_text("int ceildiv(texture2d image);\n")
    monkeypatch.setattr(objects, "mlx_includes", lambda: tmp_path / "include")
    body = "y[0] = ceildiv(7, 2) + elem_to_loc(1, x_shape, x_strides, x_ndim);\n"
    for name in ("y[0]", "y[1]"):  # the second time the cache has the header's verdict
        with pytest.warns(UserWarning, match=r"utils\.h does not compile .*utils\.h:1:13: error"):
            built = build(toolchain, tmp_path / "cache", body.replace("y[0]", name))
        assert built.object.is_file()


def test_a_broken_library_is_told(
    toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ember_unit.h").write_text("#error broken\n")
    monkeypatch.setattr(objects, "HEADERS", (tmp_path, *objects.HEADERS[1:]))
    with pytest.raises(SimulatorError, match=r"(?s)library does not compile:.*broken"):
        build(toolchain, tmp_path / "cache")
