"""The seeds: programs, kernels, notebooks and configurations out of the tests and the rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent

from embercoach.testing.rule_pages import page_paths, read_page
from embercoach.toml import TOMLDecodeError, loads

ROOT = Path(__file__).parents[2]
#: Longer ones cost more time than they lead to.
LONGEST = 3_000
IMPORTS = "import mlx.core as mx\nimport mlx.nn as nn\n"
_ATTRIBUTES = ("kernel void", "[[", "thread_position_in", "threadgroup ", "simd_", "device ")


@cache
def texts(*folders: str) -> tuple[str, ...]:
    """The string literals of the tests in some folders, dedented."""
    found: dict[str, None] = {}
    for folder in folders:
        for path in sorted((ROOT / "tests" / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    text = dedent(node.value).strip("\n") + "\n"
                    if 8 < len(text) <= LONGEST:
                        found[text] = None
    return tuple(found)


@cache
def blocks(language: str) -> tuple[str, ...]:
    """The bad and good examples of the rules' pages in a language."""
    pages = map(read_page, page_paths())
    return tuple(
        block.code
        for page in pages
        for block in page.blocks
        if block.language == language and block.section != "Evidence"
    )


@cache
def python_programs() -> tuple[str, ...]:
    """Programs about MLX."""
    programs = [text for text in texts("checks", "analysis", "engine", "fixes") if _is_python(text)]
    programs = [text if "import" in text else IMPORTS + text for text in programs]
    examples = [path.read_text(encoding="utf-8") for path in _files("examples", "xlstm_kernels")]
    return (*blocks("python"), *programs, *(text for text in examples if len(text) <= LONGEST))


def _files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def _is_python(text: str) -> bool:
    if "mx" not in text or not any(mark in text for mark in "=(\n"):
        return False
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


@cache
def metal_units() -> tuple[str, ...]:
    """Texts of ``.metal`` files."""
    found = [text for text in texts("checks", "metal", "engine") if "{" in text]
    return (*blocks("metal"), *(text for text in found if any(m in text for m in _ATTRIBUTES[:2])))


@cache
def kernel_bodies() -> tuple[str, ...]:
    """Bodies of kernels, as Python gives them to MLX."""
    found = texts("checks", "metal", "simulator/suite")
    return tuple(t for t in found if ";" in t and any(m in t for m in _ATTRIBUTES[2:]))


@cache
def objective_c_files() -> tuple[str, ...]:
    """Texts of ``.mm`` files."""
    found = [t for t in texts("checks", "metal", "engine") if "MTL" in t and ("@" in t or "[" in t)]
    return (*blocks("objective-c++"), *found)


@cache
def configurations() -> tuple[str, ...]:
    """Texts of configuration files, with or without mistakes."""
    found = [t for t in texts("config", "cli", "engine", "robustness") if "=" in t]
    return tuple(text for text in found if _is_toml(text))


def _is_toml(text: str) -> bool:
    try:
        return bool(loads(text))
    except TOMLDecodeError:
        return False


@cache
def notebooks() -> tuple[str, ...]:
    """Notebooks whose cells are the programs, with magics between them."""
    from tests.notebooks.written import code, notebook, prose, written

    magics = [text for text in texts("notebooks") if "%" in text or "!" in text]
    found = []
    for number, program in enumerate(python_programs()[::3]):
        head, _, rest = program.partition("\n\n")
        magic = magics[number % len(magics)]
        cells = [head, prose("# Title"), code(magic), code(rest, source=rest)]
        found.append(written(notebook(*cells)))
    return tuple(found)
