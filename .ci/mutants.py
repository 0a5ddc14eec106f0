"""Measure what the tests notice: mutate a line, run its package's tests, count the kills.

    python .ci/mutants.py --seed 36 --each 20 --json killed.json
    python .ci/mutants.py --only killed.json --json after.json

Run it in a clone that nobody uses. A mutant replaces one operator, constant, condition or statement
of a Python file, or one operator of the kernel text and C++ too. The choice depends only on
the seed and on the sources: two checkouts with equal sources and other tests have the same mutants.
`--only` repeats the mutants of an earlier run that have one of its results. Each mutant is reverted
before the next one, also after an interrupt.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: A package, and the folders of its tests.
PACKAGES = {
    "embercoach/checks": ("tests/checks", "tests/rules"),
    "embercoach/analysis": ("tests/analysis", "tests/checks"),
    "embercoach/metal": ("tests/metal", "tests/checks", "tests/rules"),
    "embercoach/engine": ("tests/engine", "tests/cli"),
    "embercoach/simulator": ("tests/simulator",),
    "xlstm_kernels": ("tests/xlstm_kernels",),
}
COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
COMPUTED: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "*",
    ast.BitOr: "&",
    ast.BitAnd: "|",
}
#: In C++ and Metal text. Spaces around an operator keep pointers and templates out.
IN_TEXT = {
    " + ": " - ",
    " - ": " + ",
    " * ": " + ",
    " / ": " * ",
    " < ": " <= ",
    " <= ": " < ",
    " > ": " >= ",
    " >= ": " > ",
    " == ": " != ",
    " != ": " == ",
    " && ": " || ",
    " || ": " && ",
    " += ": " -= ",
}
TEXT = re.compile("|".join(map(re.escape, sorted(IN_TEXT, key=len, reverse=True))))
SURVIVED, KILLED, TIMED_OUT = "survived", "killed", "timed out"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A replacement of the bytes from `start` to `end` of a file."""

    package: str
    path: str
    line: int
    start: int
    end: int
    text: str


def mutants_of(package: str, path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a file."""
    data = path.read_bytes()
    changes = python_changes(data) if path.suffix == ".py" else text_changes(data, 0, len(data))
    for start, end, text in changes:
        line = data.count(b"\n", 0, start) + 1
        yield Mutant(package, path.as_posix(), line, start, end, text)


def text_changes(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Yield the changed operators of C++ between two offsets, outside of comments."""
    for match in TEXT.finditer(data[start:end].decode(errors="replace")):
        before = data[start : start + match.start()]
        line = before.rpartition(b"\n")[2]
        comment = b"//" in line or line.lstrip().startswith((b"*", b"/*", b"#"))
        if before.isascii() and not comment:
            yield start + match.start(), start + match.end(), IN_TEXT[match.group()]


def python_changes(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield the changes of a module's code, without annotations, docstrings and messages."""
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            starts[node.lineno - 1] + node.col_offset,
            starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def source(node: ast.expr) -> str:
        start, end = span(node)
        return data[start:end].decode()

    for node in code_nodes(ast.parse(data)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if "\n" in node.value and ";" in node.value:
                yield from text_changes(data, *span(node))
        elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
            yield *span(node.test), f"(not ({source(node.test)}))"
        elif isinstance(node, ast.Return):
            if node.value is not None and source(node.value) != "None":
                yield *span(node.value), "None"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield *span(node), "pass"
        elif isinstance(node, ast.expr) and (text := changed_expression(node, source)):
            yield *span(node), text


def changed_expression(node: ast.expr, source: Callable[[ast.expr], str]) -> str | None:
    """Return an expression with another operator or value; None for one without either."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, operator, right = node.left, COMPARED[type(node.ops[0])], node.comparators[0]
        return f"(({source(left)}) {operator} ({source(right)}))"
    if isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        return f"(({source(node.left)}) {COMPUTED[type(node.op)]} ({source(node.right)}))"
    if isinstance(node, ast.BoolOp):
        word = " or " if isinstance(node.op, ast.And) else " and "
        return f"({word.join(f'({source(value)})' for value in node.values)})"
    if isinstance(node, ast.Constant) and type(node.value) in {bool, int}:
        return str(not node.value if isinstance(node.value, bool) else node.value + 1)
    return None


def code_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """Walk a module without annotations, imports for types, and docstrings."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        yield node
        for name, value in ast.iter_fields(node):
            if name in {"annotation", "returns", "decorator_list", "type_params"}:
                continue
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                    continue
                if isinstance(child, ast.AST):
                    todo.append(child)


def chosen(each: int, seed: int) -> list[Mutant]:
    """Choose mutants of each package."""
    picked = []
    for package in PACKAGES:
        files = sorted(
            path
            for path in Path(package).rglob("*")
            if path.suffix in {".py", ".h", ".cpp", ".metal", ".cu"}
        )
        every = [mutant for path in files for mutant in mutants_of(package, path)]
        picked += random.Random(f"{seed} {package}").sample(every, each)
    return picked


def verdict(mutant: Mutant, pytest: list[str], seconds: float) -> dict[str, object]:
    """Run the tests of a mutant's package, and describe the mutant and the result."""
    path = Path(mutant.path)
    original = path.read_bytes()
    before = original[mutant.start : mutant.end].decode()
    started = time.monotonic()
    path.write_bytes(original[: mutant.start] + mutant.text.encode() + original[mutant.end :])
    by = ""
    try:
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", *pytest, *PACKAGES[mutant.package]],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        result = KILLED if run.returncode else SURVIVED
        by = "; ".join(re.findall(r"^(?:FAILED|ERROR) (\S+)", run.stdout, re.MULTILINE)[:3])
    except subprocess.TimeoutExpired:
        result = TIMED_OUT
    finally:
        path.write_bytes(original)
    took = round(time.monotonic() - started, 1)
    return {**asdict(mutant), "before": before, "result": result, "by": by, "seconds": took}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=36)
    parser.add_argument("--each", type=int, default=20, help="mutants of each package")
    parser.add_argument("--json", type=Path, required=True, help="file for the results")
    parser.add_argument("--only", type=Path, help="mutants of an earlier run")
    parser.add_argument("--result", default=SURVIVED, help="of those mutants; default: survived")
    parser.add_argument("--part", default="0/1", help="I/N: every N-th mutant, from the I-th on")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one mutant")
    parser.add_argument("pytest", nargs="*", help="options of pytest, after --")
    options = parser.parse_args()
    if options.only:
        earlier = json.loads(options.only.read_text())
        names = Mutant.__annotations__
        mutants = [
            Mutant(**{name: one[name] for name in names})
            for one in earlier
            if one["result"] == options.result
        ]
    else:
        mutants = chosen(options.each, options.seed)
    first, count = map(int, options.part.split("/"))
    results = []
    for mutant in mutants[first::count]:
        results.append(verdict(mutant, options.pytest, options.timeout))
        options.json.write_text(json.dumps(results, indent=1) + "\n")
        shown = ("result", "path", "line", "text", "seconds", "by")
        print(*(results[-1][key] for key in shown), flush=True)
    noticed = sum(one["result"] != SURVIVED for one in results)
    print(f"{noticed} of {len(results)} mutants were noticed")


if __name__ == "__main__":
    main()
