"""Whatever a file or an argument holds that we are given to read: one clear line, no traceback."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import os
import shutil
import tempfile
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embercoach.cli.effective_config import key_text, value_text
from embercoach.cli.entry import start
from embercoach.config.schema import KEYS, SIMULATOR, SIMULATOR_KEYS
from embercoach.engine.cache import _digest

SOURCE = (
    "import mlx.core as mx\n\n\n"
    "def f(x: mx.array) -> mx.array:\n    return mx.full((2,), mx.sum(x).item())\n"
    "\n\nfor x in data:\n    f(x)\n"
)
FEW = settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
BYTES = st.binary(max_size=60)
TEXT = st.text(max_size=6)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    (tmp_path / "a.py").write_text(SOURCE, encoding="utf-8")
    return tmp_path


def run(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = start(arguments)
    return code, out.getvalue(), err.getvalue()


def refused(code: int, err: str, file: str) -> bool:
    """Whether a file was refused, and well."""
    assert code in (0, 1, 2), err
    assert "internal error" not in err
    assert "Traceback" not in err
    if code != 2:
        assert err == ""
        return False
    # What a file holds is no end of a line of ours.
    assert err.startswith("Error: ")
    odd = {char for char in err[:-1] if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")}
    assert not odd, ascii(err)
    assert file in err
    return True


def damaged(good: bytes) -> st.SearchStrategy[bytes]:
    """A good file with a stretch of it lost, doubled or replaced."""

    def damage(start: int, length: int, put: bytes, twice: bool) -> bytes:
        cut = good[start : start + length]
        return good[:start] + (cut + put + cut if twice else put) + good[start + length :]

    at = st.integers(0, len(good))
    odd = st.sampled_from([b"", b'"', b"'", b"[", b"]", b"{", b"}", b"=", b",", b"\n", b"\0", b"9"])
    return st.builds(damage, at, st.integers(0, 30), BYTES | odd, st.booleans())


# Configuration files.

GOOD_TOML = b"""\
profile = "ember"
select = ["ALL"]
ignore = ["DTYPE-001", "FFT"]
extend-exclude = [
    "generated/",  # by a tool
    "!kept/",
]
show-notes = true
per-file-ignores = { "tests/**" = ["KERNEL"] }

[per-file-profiles]
"k/*" = "recommended"

[simulator]
timeout = 1.5
allow = ["order-dependent"]

[kernel-builders."pack.Kernel"]
source = "body"
header = { value = "" }
"""
NAMES = [key.name for key in (*KEYS, *SIMULATOR_KEYS)]
SCALARS = st.one_of(
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 10**30, 10**400, -(10**400), 2**63]),
    st.floats(),
    TEXT,
    st.sampled_from(["DTYPE", "ALL", "ember", "FFT-NORM-001", "order-dependent", "a\0b", "[z-a]"]),
    st.datetimes(),
    st.dates(),
    st.times(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
TABLES = st.dictionaries(st.sampled_from([*NAMES, SIMULATOR]) | TEXT, VALUES, max_size=4)


def toml(value: Any) -> str:
    """A value that our own writer need not know."""
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        pairs = (f"{key_text(key)} = {toml(one)}" for key, one in value.items())
        return f"{{ {', '.join(pairs)} }}"
    return value_text(value)


def document(table: dict[str, Any], tables: bool) -> bytes:
    lines = []
    headed = {k: v for k, v in table.items() if tables and isinstance(v, dict)}
    for key, value in table.items():
        if key not in headed:
            lines.append(f"{key_text(key)} = {toml(value)}")
    for key, inner in headed.items():
        lines.append(f"[{key_text(key)}]")
        lines += [f"{key_text(name)} = {toml(value)}" for name, value in inner.items()]
    return "\n".join(lines).encode(errors="surrogatepass")


CONFIGURATIONS = BYTES | damaged(GOOD_TOML) | st.builds(document, TABLES, st.booleans())


def test_the_good_configuration_is_good(project: Path) -> None:
    (project / "embercoach.toml").write_bytes(GOOD_TOML)
    assert run("config", "a.py")[0] == 0


@FEW
@given(content=CONFIGURATIONS)
def test_any_configuration(content: bytes, project: Path) -> None:
    (project / "embercoach.toml").write_bytes(content)
    code, out, err = run("config", "a.py", "--output-format", "json")
    if refused(code, err, "embercoach.toml"):
        assert out == ""
    else:
        assert json.loads(out)["version"] == 1
        assert run("config", "--all")[0] == 0


@FEW
@given(table=TABLES.filter(bool), tables=st.booleans())
def test_mistakes_in_a_table_have_their_line(
    table: dict[str, Any], tables: bool, project: Path
) -> None:
    content = document(table, tables)
    (project / "pyproject.toml").write_bytes(
        b"[tool.embercoach]\n" + content.replace(b"\n[", b"\n[tool.embercoach.")
        if not content.startswith(b"[")
        else b"[tool.embercoach." + content[1:].replace(b"\n[", b"\n[tool.embercoach.")
    )
    code, _, err = run("config")
    if refused(code, err, "pyproject.toml") and "not valid TOML" not in err:
        line = err.rpartition("(pyproject.toml:")[2].partition(")")[0]
        assert line.isdecimal(), err
        assert 1 <= int(line) <= content.count(b"\n") + 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("embercoach.toml", ["config"]),
        ("known.json", ["check", "--baseline", "known.json"]),
        ("saved.json", ["report", "--from", "saved.json"]),
    ],
)
def test_files_that_may_not_be_read(name: str, arguments: list[str], project: Path) -> None:
    (project / name).write_text("{}")
    (project / name).chmod(0)
    code, _, err = run(*arguments)
    assert refused(code, err, name)
    assert "Permission denied" in err


# What we have written ourselves.


@cache
def written() -> dict[str, bytes]:
    """A good baseline, a good saved report, and a good cache of the project."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("a.py").write_text(SOURCE, encoding="utf-8")
            assert run("baseline", "update", "-q")[0] == 0
            assert run("check", "--output-format", "json", "-o", "saved.json")[0] == 1
            (cache_file,) = Path(".embercoach_cache").glob("results-*")
            return {
                "baseline": Path("embercoach-baseline.json").read_bytes(),
                "saved": Path("saved.json").read_bytes(),
                "cache": cache_file.read_bytes(),
                "cache-name": cache_file.name.encode(),
            }
        finally:
            os.chdir(here)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def ways(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all values within a document."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*way, key)
        if isinstance(inner, dict | list):
            yield from ways(inner, (*way, key))


@st.composite
def near(draw: st.DrawFn, name: str) -> bytes:
    """A good document with one value changed, or a key more."""
    changed = json.loads(written()[name])
    *way, last = draw(st.sampled_from(sorted(ways(changed), key=str)))
    parent = changed
    for key in way:
        parent = parent[key]
    if isinstance(parent, dict) and draw(st.booleans()):
        del parent[last]
        last = draw(TEXT)
    parent[last] = draw(JSON | st.sampled_from([10**30, 10**400, "\n", "\x1b[2J", "../../x"]))
    return json.dumps(changed).encode()


def documents(name: str) -> st.SearchStrategy[bytes]:
    anything = JSON.map(lambda value: json.dumps(value).encode())
    broken = st.deferred(lambda: damaged(written()[name]))
    return BYTES | anything | broken | near(name)


DEEP = b"[" * 100_000


@FEW
@given(content=documents("baseline"))
def test_any_baseline(content: bytes, project: Path) -> None:
    (project / "known.json").write_bytes(content)
    code, out, err = run("check", "--baseline", "known.json", "--no-cache", "a.py")
    if refused(code, err, "known.json"):
        assert out == ""


@FEW
@given(content=documents("saved"))
def test_any_saved_report(content: bytes, project: Path) -> None:
    (project / "saved.json").write_bytes(content)
    code, _, err = run("report", "--from", "saved.json", "-q")
    refused(code, err, "saved.json")


@pytest.mark.parametrize("arguments", [["check", "--baseline"], ["report", "--from"]])
def test_nesting_without_end(arguments: list[str], project: Path) -> None:
    (project / "deep.json").write_bytes(DEEP)
    code, _, err = run(*arguments, "deep.json")
    assert refused(code, err, "deep.json")


@pytest.mark.parametrize("content", [b"a = " + DEEP, b"a." * 3_000 + b"a = 1"])
def test_nesting_without_end_in_toml(content: bytes, project: Path) -> None:
    (project / "embercoach.toml").write_bytes(content)
    code, _, err = run("config")
    assert refused(code, err, "embercoach.toml")


def signed(header: Any, body: bytes) -> bytes:
    """A cache that nothing has damaged, and that holds what we never wrote."""
    rest = json.dumps(header).encode() + b"\n" + body
    return _digest([rest]) + b"\n" + rest


@st.composite
def caches(draw: st.DrawFn) -> bytes:
    good = written()["cache"]
    kind = draw(st.sampled_from(["bytes", "damaged", "header"]))
    if kind == "bytes":
        return draw(BYTES)
    if kind == "damaged":
        return draw(damaged(good))
    _, header, body = good.split(b"\n", 2)
    changed = json.loads(header)
    # Where payloads start and end, and what they hold, the digest vouches for.
    numbers = ("a.py", 3), ("a.py", 4)
    spots = [way for way in ways(changed) if way[1:] not in numbers]
    *way, last = draw(st.sampled_from(sorted(spots, key=str)))
    parent = changed
    for key in way:
        parent = parent[key]
    parent[last] = draw(JSON)
    return signed(changed, body)


def found() -> tuple[int, list[str]]:
    code, out, err = run("check", "--output-format", "json", "a.py")
    assert err == ""
    return code, [finding["code"] for finding in json.loads(out)["findings"]]


@FEW
@given(content=caches())
def test_any_cache(content: bytes, project: Path) -> None:
    """It is passed over, and a run finds what it finds without one."""
    folder = project / ".embercoach_cache"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / written()["cache-name"].decode()).write_bytes(content)
    assert found() == (1, ["GRAPH-BREAK-001"])
    # It is written anew.
    assert found() == (1, ["GRAPH-BREAK-001"])


# Arguments.

#: Of a list of paths in a file, that begins with "@", other tests tell.
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0@"), max_size=12)
PLACES = st.builds("{}:{}".format, WORDS | st.just("a.py"), st.integers(-2, 9) | WORDS)


@FEW
@given(word=WORDS | PLACES)
def test_any_word_to_explain(word: str) -> None:
    code, _, err = run("explain", "--", word)
    assert code in (0, 1, 2)
    assert "internal error" not in err
    assert (code == 2) == bool(err), err
