"""Suppression comments in every language: read, written, taken out."""

from __future__ import annotations

from zlib import crc32

from embercoach.engine.cache import restored, stored
from embercoach.engine.inspection import Inspection
from embercoach.engine.languages import METAL, OBJECTIVE_C, PYTHON, Language
from embercoach.engine.noqa_writing import annotated
from embercoach.engine.suppressions import Directive, read_directives
from embercoach.engine.verdict import report
from embercoach.finding import Finding
from embercoach.fixes.application import apply
from embercoach.fixes.source_file import DecodingError, LineIndex, bytes_of, decode
from embercoach.rulebook import static_codes
from tests.fuzz import metal_source, seeds
from tests.fuzz.mutation import text_mutation
from tests.fuzz.target import Target, require

LANGUAGES: tuple[Language, ...] = (PYTHON, PYTHON, PYTHON, PYTHON, METAL, OBJECTIVE_C)
WORDS = (
    *("# embercoach: ignore", "# embercoach: ignore[DTYPE-001]", "# embercoach: ignore-file[FFT]"),
    *("# embercoach: skip-file", "# noqa", "# noqa: DTYPE-001, E501", "# noqa:X # type: ignore"),
    *("// embercoach: ignore[KERNEL-RACE-001]", "// noqa", "DTYPE-001", "KERNEL", "dtype", "["),
    *("]", ","),
    *("embercoach:", "ignore", "-file", "skip", "noqa", "because", "--", "#"),
    *("//", "# flake8: noqa"),
    *("'''", '"""', "\\\n", "\n", "x = 1", "if x:", "def f():", "(", ")", "{", "}", ";"),
)


def _material() -> tuple[str, ...]:
    texts = seeds.texts("engine")
    return tuple(t for t in texts if "#" in t or "//" in t) + metal_units()


def metal_units() -> tuple[str, ...]:
    """Some of the units of Metal."""
    return seeds.metal_units()[::10]


def execute(data: bytes) -> None:
    """Read, write and take out the comments of a text."""
    try:
        text = decode(data).text
    except DecodingError:
        return
    language = LANGUAGES[crc32(data) % len(LANGUAGES)]
    directives = read_directives(text, language)
    _require_places(text, directives)
    _take_out(text, directives, language)
    index = LineIndex(text)
    line = crc32(data[::-1]) % index.count + 1
    width = len(index.line(line)) + 1
    found = Finding(
        "DTYPE-001", line, 1, line, width, "m", "h", "default", path="a", severity="error"
    )
    written = annotated(text, [found], decode(data).newline, language)
    decode(bytes_of(written))
    read_directives(written, language)


def _require_places(text: str, directives: tuple[Directive, ...]) -> None:
    index = LineIndex(text)
    kept = restored("checked", "", stored(Inspection("checked", "", directives=directives)))
    require(kept is not None and kept.directives == directives, "a comment changes in the cache")
    for one in directives:
        require(1 <= one.line <= len(index.starts), "a comment outside of the text")
        require(1 <= one.column <= one.end_column, "a comment that ends before it begins")
        require(0 <= one.removal <= one.removal_end <= len(text), "a removal outside of the text")
        for item in one.items:
            require(text[item.start : item.end] == item.word, "a word that does not stand there")
        require(all(low <= high for low, high in one.spans), "lines in no order")


def _take_out(text: str, directives: tuple[Directive, ...], language: Language) -> None:
    """Taking out all that suppresses nothing leaves nothing to take out."""
    known = static_codes()
    for _ in range(10):
        found = [raw for one in directives for raw in report(one, set(), known, known)]
        fixes = [raw.fix for raw in found if raw.fix is not None]
        new, applied = apply(text, fixes)
        if not applied:
            return
        require(new != text, "a fix that changes nothing")
        text = new
        directives = read_directives(text, language)
        _require_places(text, directives)
    require(not fixes, "fixes of comments don't settle in 10 rounds")


TARGET = Target(
    "suppressions",
    _material,
    text_mutation(_material, (*WORDS, *metal_source.WORDS[:20])),
    execute,
    largest=600,
)
