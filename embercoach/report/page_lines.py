"""A rule's page as lines of styled text, for `embercoach explain`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import takewhile

from embercoach.report.styled import Line, wrapped
from embercoach.rulebook import FIX, Rule

#: Lines of an explanation at most, at 100 columns.
MOST_LINES = 60
#: Sections that only the whole page has, as they are long.
LONG = frozenset({"Evidence", "References"})
#: How many lines a section gets, relative to others.
_WEIGHTS = {"Bad": 3.0, "Good": 1.5, FIX: 1.5, "Why it hurts": 0.5}
_INDENT = "    "
_FENCE = "```"
#: What comes before the text of a kernel; in an example of the fix it is as it was.
_LAUNCH = re.compile(r"(?<=```python\n)(?s:.*?)\n(?= *source=\"{3})")
#: Lines at the start of two examples, the fence among them, that the second one leaves out.
_LEAST_SAME = 5
_CUT: Line = [(f"{_INDENT}...", "faint")]
_INLINE = re.compile(r"(`[^`]+`)|\*\*([^*]+)\*\*|\[([^\]]*)\]\(([^)]*)\)")
_ITEM = re.compile(r"( *(?:[-*]|[0-9]+\.) +|(?=\|))(.*)")
_IMPORTS = re.compile(r"\A(?:(?:import|from) .*\n|\n)+")


#: Lines of an example that are shown before and after where a good one differs.
_BEFORE, _AFTER = 8, 4


def page_lines(rule: Rule, width: int, *, full: bool) -> list[Line]:
    """Return a rule's page: the harm, examples, the fix, exceptions, severities.

    Args:
        rule: with its page.
        width: columns to fill.
        full: the whole page; else each section is cut so that all have `MOST_LINES` at most.
    """
    title: list[Line] = [[(rule.code, "code"), (f" {rule.name}", "head")]]
    sections = _sections(rule.page)
    if not full:
        sections = _excerpts(sections)
    bodies = {name: _body(text, width) for name, text in sections.items()}
    bodies["Severities"] = [line for fact in rule.facts() for line in _prose(f"- {fact}", width)]
    if full:
        return [*title, *_joined(bodies)]
    command = (f"embercoach explain --full {rule.code}", "help")
    end: list[Line] = [[], [("Evidence and all examples: ", ""), command]]
    return [*title, *_joined(_cut(bodies, MOST_LINES - len(title) - len(end))), *end]


def _joined(bodies: dict[str, list[Line]]) -> Iterator[Line]:
    for name, body in bodies.items():
        yield []
        if name:
            yield [(name, "head")]
        yield from body


def _cut(bodies: dict[str, list[Line]], most: int) -> dict[str, list[Line]]:
    """Cut sections to a number of lines in all; short ones leave their share to others."""
    room = most - 2 * len(bodies)
    caps = dict.fromkeys(bodies, 0)
    for size in range(2 * room):
        larger = {name: int(size * _WEIGHTS.get(name, 1) / 2) for name in bodies}
        if sum(min(larger[name], len(body)) for name, body in bodies.items()) > room:
            break
        caps = larger
    return {name: _first(body, caps[name]) for name, body in bodies.items()}


def _first(body: list[Line], most: int) -> list[Line]:
    if len(body) <= most:
        return body
    kept = body[: max(most - 1, 0)]
    while kept and not kept[-1]:
        kept.pop()
    return [*kept, _CUT]


def _sections(page: str) -> dict[str, str]:
    """Split a page at its headings; the text between the title and the first is under ''."""
    sections: dict[str, list[str]] = {"": []}
    name, fenced = "", False
    for line in page.splitlines()[1:]:
        fenced ^= line.startswith(_FENCE)
        if line.startswith("## ") and not fenced:
            name = line[3:]
            sections[name] = []
        else:
            sections[name].append(line)
    return {name: "\n".join(lines).strip() for name, lines in sections.items()}


def _excerpts(sections: dict[str, str]) -> dict[str, str]:
    """Return the sections of a short page, with the part of each example that matters."""
    short = {name: _excerpt(text) for name, text in sections.items() if name not in LONG}
    bad = short.get("Bad", "")
    if FIX in short:
        short[FIX] = _from_change(_LAUNCH.sub("...\n", short[FIX], count=1), bad)
    if "Good" in short:
        short["Bad"] = _around(bad, short["Good"])
        short["Good"] = _from_difference(short["Good"], bad)
    return short


def _around(text: str, good: str) -> str:
    """Return the lines of an excerpt around the first one where a good example differs."""
    lines = text.splitlines()
    at = _same(text, good)
    start, end = at - _BEFORE, at + _AFTER
    if start <= 2:
        return text
    rest = ["..."] if end < len(lines) else []
    return "\n".join([lines[0], "...", *lines[start:end], *rest])


def _same(text: str, other: str) -> int:
    """Return how many lines two texts have in common at their start."""
    pairs = zip(text.splitlines(), other.splitlines(), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _from_change(text: str, bad: str) -> str:
    """Return an excerpt from two lines before the first one that the bad example lacks."""
    lines = text.splitlines()
    known = {"...", _FENCE, *(line.strip() for line in bad.splitlines())}
    source = next((n for n, line in enumerate(lines) if line.strip().startswith("source=")), 1)
    changed = (n for n, line in enumerate(lines) if n > source and line.strip() not in known)
    start = next(changed, 0) - 2
    return text if start <= 3 else "\n".join([lines[0], "...", *lines[start:]])


def _excerpt(text: str) -> str:
    """Return the first block of a section of code, without its imports; prose as it is."""
    if not text.startswith(_FENCE):
        return text
    first, _, rest = text.partition(f"\n{_FENCE}\n")
    fence, _, code = first.removesuffix(f"\n{_FENCE}").partition("\n")
    code = _IMPORTS.sub("", f"{code}\n").replace("\n\n\n", "\n\n")
    return f"{fence}\n{code}{'...' if rest else ''}"


def _from_difference(text: str, other: str) -> str:
    """Return an excerpt from one line before it differs from another one."""
    lines = text.splitlines()
    same = _same(text, other)
    return text if same < _LEAST_SAME else "\n".join([lines[0], "...", *lines[same - 1 :]])


def _body(text: str, width: int) -> list[Line]:
    """Return Markdown as lines: code is indented, paragraphs are filled."""
    lines: list[Line] = []
    paragraph: list[str] = []
    fenced = False
    for line in [*text.splitlines(), ""]:
        starts = fenced or not line or line.startswith(_FENCE) or _ITEM.fullmatch(line)
        if starts and paragraph:
            lines += _prose(" ".join(paragraph), width)
            paragraph = []
        if line.startswith(_FENCE):
            fenced = not fenced
            lines += [[]] if lines and fenced else []
        elif fenced and line:
            lines += wrapped([(_INDENT, ""), (line, "")], 1, width)
        elif line:
            paragraph.append(line if not paragraph else line.strip())
        else:
            lines.append([])
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _prose(text: str, width: int) -> Iterable[Line]:
    """Fill a paragraph or an item of a list, whose lines are indented under its text."""
    item = _ITEM.fullmatch(text)
    mark, words = item.groups() if item else ("", text)
    return wrapped([(mark, ""), *_spans(words)], 1, width)


def _spans(text: str) -> Iterator[tuple[str, str]]:
    """Split a text at its code, its emphasis and its links, of which the text remains."""
    end = 0
    for found in _INLINE.finditer(text):
        yield text[end : found.start()], ""
        code, strong, link, target = found.groups()
        if link is None:
            yield (code, "code") if code else (strong, "head")
        else:
            yield from _spans(link)
            yield f" ({target})" if "://" in target else "", ""
        end = found.end()
    yield text[end:], ""
