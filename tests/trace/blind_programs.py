"""Read, run and score the traced programs of `blind/`: `python -m tests.trace.blind_programs`.

A file has `key: value` lines and then one `=== path` before the text of each source. Comments in
the sources are the expected events: `# expect: KIND OPERATION xCOUNT BYTESB; ...`. The kind
`compile|retrace` adds up two, `any` is any operation, `expect-at -3:` is three lines above, and
`allow:` accepts an event without requiring one. A line without a comment has none.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

DIRECTORY = Path(__file__).parent / "blind"
COMMENT = re.compile(r"# (expect|allow)(?:-at (-\d+))?: (.*)$")
EVENT = re.compile(r"(allow )?(\S+) (.*?)(?: x(\d+))?(?: (\d+)B)?$")
#: Seconds after which a program is stopped.
TIMEOUT = 240

Site: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Expected:
    """Events at a line; a count of None accepts any number, none among them."""

    path: str
    line: int | None
    kinds: tuple[str, ...]
    operation: str
    count: int | None
    size: int | None

    def __str__(self) -> str:
        return (
            f"{self.path}:{self.line}: {'|'.join(self.kinds)} {self.operation}"
            + (f" x{self.count}" if self.count else "")
            + (f" {self.size}B" if self.size is not None else "")
        )

    def covers(self, site: Site, *, operation: bool = True, line: bool = True) -> bool:
        if line and self.line is not None and site["line"] != self.line:
            return False
        named = site["path"].endswith(self.path) if self.line is None else site["path"] == self.path
        if self.line is None and self.count is None:
            named = self.path in site["path"]
        return (
            named
            and (site["kind"] in self.kinds or self.kinds == ("any",))
            and (not operation or self.operation in {"any", site["operation"]})
        )


@dataclass
class Program:
    """A program of `blind/` with its sources and its expected events."""

    name: str
    command: str = ""
    about: str = ""
    exit_code: int = 0
    text: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    ignored_output: bool = False
    sources: dict[str, str] = field(default_factory=dict)
    expected: list[Expected] = field(default_factory=list)
    allowed: list[Expected] = field(default_factory=list)


@dataclass
class Score:
    """The differences between expected and traced events of a program, by category."""

    exact: int = 0
    differences: list[tuple[str, str]] = field(default_factory=list)


def events(path: str, line: int | None, text: str, allow: bool = False) -> Iterator[Expected]:
    """Parse the events of a comment or a header."""
    for part in text.split(";"):
        if part.strip() == "none":
            continue
        match = EVENT.match(part.strip())
        assert match, part
        optional, kinds, operation, count, size = match.groups()
        known = None if allow or optional else int(count or 1)
        yield Expected(
            path, line, tuple(kinds.split("|")), operation, known, int(size) if size else None
        )


def read(path: Path) -> Program:
    """Read a program with its expectations."""
    header, *parts = re.split(r"(?m)^=== (.*)\n", path.read_text(encoding="utf-8"))
    program = Program(path.stem)
    program.sources = dict(zip(parts[::2], parts[1::2], strict=True))
    found: list[Expected] = []
    for line in header.splitlines():
        key, value = line.split(": ", 1)
        file, _, text = value.partition(" ")
        if key == "outside":
            found += events(file, None, text)
        elif key == "outside-allow":
            found += events(value, None, "any any", allow=True)
        else:
            configure(program, key, value)
    for file, text in program.sources.items():
        for number, line in enumerate(text.splitlines(), 1):
            if match := COMMENT.search(line):
                mode, offset, listed = match.groups()
                found += events(file, number + int(offset or 0), listed, mode == "allow")
    program.expected = [item for item in found if item.count is not None]
    program.allowed = [item for item in found if item.count is None]
    return program


def configure(program: Program, key: str, value: str) -> None:
    """Set what a line of the header has."""
    if key == "run":
        program.command = value
    elif key == "exit":
        program.exit_code = int(value)
    elif key == "env":
        program.environment = dict([value.split("=", 1)])
    elif key == "stdout":
        program.ignored_output = value == "ignored"
    elif key == "text":
        program.text = value == "yes"
    else:
        assert key == "about", key
        program.about = value


def start(command: Sequence[str], folder: Path, environment: dict[str, str]) -> Any:
    """Run a command in a folder and return its result as text."""
    return subprocess.run(  # noqa: PLW1510 - the exit code is compared
        command,
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONIOENCODING": "utf-8", **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=TIMEOUT,
    )


def write(program: Program, folder: Path) -> Path:
    """Write the sources of a program into a folder."""
    for file, text in program.sources.items():
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return folder


def untraced(program: Program, folder: Path) -> Any:
    """Run a program without a trace."""
    words = program.command.split()
    words[:1] = [sys.executable] if words[0] == "python" else [sys.executable, "-m", words[0]]
    return start(words, folder, program.environment)


def traced(program: Program, folder: Path, options: Sequence[str]) -> Any:
    """Run a program with `embercoach trace`."""
    command = [sys.executable, "-m", "embercoach", "trace", "--no-check", *options, "--"]
    return start([*command, *program.command.split()], folder, program.environment)


def compare(program: Program, sites: list[Site]) -> Score:
    """Compare the sites of a report with the expected events."""
    score = Score()
    rest = list(sites)
    missed = []
    for item in program.expected:
        found = [site for site in rest if item.covers(site)]
        other = [site for site in rest if item.covers(site, operation=False)]
        if not found and not other:
            missed.append(item)
            continue
        category = "" if found else "wrong operation"
        found = found or other[:1]
        rest = [site for site in rest if site not in found]
        count, size = sum(s["count"] for s in found), sum(s["bytes"] for s in found)
        if count != item.count:
            category = "wrong count"
        elif not category and item.size not in {None, size}:
            category = "wrong bytes"
        if category:
            got = f"{found[0]['operation']} x{count} {size}B {found[0]['details']}"
            score.differences.append((category, f"{item}, got {got}"))
        else:
            score.exact += 1
    rest = [site for site in rest if not any(item.covers(site) for item in program.allowed)]
    for item in missed:
        near = [site for site in rest if item.covers(site, line=False)]
        if near:
            rest.remove(near[0])
            score.differences.append(("wrong line", f"{item}, got line {near[0]['line']}"))
        else:
            score.differences.append(("missed", str(item)))
    for site in rest:
        name = f"{site['path']}:{site['line']}: {site['kind']} {site['operation']}"
        score.differences.append(
            ("invented", f"{name} x{site['count']} {site['bytes']}B {site['details']}")
        )
    return score


def wrong_texts(program: Program, sites: list[Site]) -> Iterator[tuple[str, str]]:
    """Yield sites of the program whose text is not that of their line."""
    for site in sites:
        if source := program.sources.get(site["path"]):
            line = source.splitlines()[site["line"] - 1].strip()
            if site["text"] != line:
                yield "wrong text", f"{site['path']}:{site['line']}: {site['text']!r}"


def run(program: Program, folder: Path) -> Score:
    """Run a program without and with a trace, and compare."""
    plain = untraced(program, write(program, folder / "plain"))
    with_trace = write(program, folder / "traced")
    report = folder / "trace.json"
    result = traced(program, with_trace, ["--output-format", "json", "-o", str(report)])
    differences = []
    if plain.returncode != program.exit_code:
        differences.append(("wrong program", f"{plain.returncode}\n{plain.stderr[-800:]}"))
    if result.returncode != plain.returncode:
        differences.append(("wrong exit code", f"{result.returncode}\n{result.stderr[-800:]}"))
    if plain.stdout != result.stdout and not program.ignored_output:
        differences.append(("wrong output", f"{plain.stdout}---\n{result.stdout}"))
    if program.text:
        shown = traced(program, write(program, folder / "text"), [])
        if shown.returncode != plain.returncode or not shown.stdout.startswith(plain.stdout):
            differences.append(("wrong output", f"text\n{shown.stdout}\n{shown.stderr[-800:]}"))
        if shown.stdout.count("Waited ") != 1:
            differences.append(("wrong output", "text has not one summary\n" + shown.stdout))
    if not report.exists():
        return Score(0, [*differences, ("missed", "no report\n" + result.stderr[-800:])])
    content = json.loads(report.read_text(encoding="utf-8"))
    score = compare(program, content["sites"])
    score.differences[:0] = [*differences, *wrong_texts(program, content["sites"])]
    if content["summary"]["exit_code"] != plain.returncode:
        score.differences.append(("wrong exit code", "of the summary"))
    return score


def main(names: Sequence[str]) -> None:
    """Print the differences of the named programs, or of all."""
    programs = [read(path) for path in sorted(DIRECTORY.glob("*.txt"))]
    programs = [program for program in programs if not names or program.name in names]
    totals: Counter[str] = Counter()

    def scored(program: Program) -> Score:
        with tempfile.TemporaryDirectory() as folder:
            return run(program, Path(folder))

    with ThreadPoolExecutor(2) as pool:
        for program, score in zip(programs, pool.map(scored, programs), strict=True):
            totals["programs"] += 1
            totals["programs exact"] += not score.differences
            totals["expected"] += len(program.expected)
            totals["exact"] += score.exact
            totals.update(category for category, _ in score.differences)
            lines = [f"{program.name}: {score.exact} of {len(program.expected)}"]
            lines += [f"  {category}: {text}" for category, text in score.differences]
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()
    sys.stdout.write(f"{dict(totals)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
