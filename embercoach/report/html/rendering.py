"""From a JSON report to the page: its head, its data, and the pages of rules."""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from embercoach import __version__, rulebook
from embercoach.report.excerpt import visible
from embercoach.report.html import changes
from embercoach.report.html.data import LEAST_LINES, Bar, by_family, checkout_rows, table, tallies
from embercoach.report.text import fixable
from embercoach.rulebook import RULES_URL, rule_url

if TYPE_CHECKING:
    from jinja2 import Environment
    from markdown_it import MarkdownIt


class RunDetails(Struct, frozen=True, kw_only=True):
    """A run as the head of its report describes it.

    Attributes:
        project: names of the checkouts' folders.
        date: when the findings were made, in UTC.
        version: of EmberCoach that made the findings.
        command: the command line of the report.
    """

    project: str
    date: str
    version: str
    command: str


def run_details(document: dict[str, Any], *, seconds: float, command: str) -> RunDetails:
    """Describe the run of a document.

    Args:
        document: the JSON report.
        seconds: when the findings were made, since the epoch.
        command: the command line of the report.
    """
    tops = [checkout["path"] for checkout in document.get("checkouts", ())] or ["."]
    return RunDetails(
        project=", ".join(sorted({Path(top).resolve().name or top for top in tops})),
        date=datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        version=document.get("run", {}).get("version", __version__),
        command=command,
    )


class Page(Struct, frozen=True):
    """A rule as the report shows it.

    ``body`` is HTML: our own text, rendered with all HTML in it escaped. It is empty where this
    version has no such rule. ``url`` is the page's address; None for no link.
    """

    code: str
    name: str
    summary: str
    body: str
    url: str | None = None


def pages(codes: Iterable[str], rules_url: str = RULES_URL) -> tuple[Page, ...]:
    """Return the pages of some rules, sorted by code; ``rules_url`` is the setting."""
    renderer = _renderer()
    known = rulebook.codes()
    found = []
    for code in sorted(codes):
        if code not in known:
            found.append(Page(code, "", "", ""))
            continue
        rule = rulebook.rule(code)
        url = rule_url(code, rules_url)
        found.append(Page(code, rule.name, rule.summary, _html(renderer, rule.page), url))
    return tuple(found)


def _renderer() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Images would need the network, which the report's policy forbids.
    return MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


def _html(renderer: MarkdownIt, page: str) -> str:
    """Render a page below its title and its first line, which the dialog has."""
    tokens = renderer.parse(page)[6:]
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1:]) + 1, 6)}"
        elif token.type == "fence":
            # A box that scrolls must be reached by the keyboard.
            token.attrSet("tabindex", "0")
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("rel", "noopener noreferrer")
    return str(renderer.renderer.render(tokens, renderer.options, {}))


#: Bars of a chart that are seen at once.
BARS = 12


def render(
    document: dict[str, Any],
    *,
    readable: Callable[[str], bool],
    root: str | None = None,
    saved_at: float | None = None,
    earlier: Sequence[tuple[str, dict[str, Any]]] = (),
    details: RunDetails | None = None,
    rules_url: str = RULES_URL,
) -> str:
    """Return the report as one HTML file, the same whenever the findings, files and details are.

    Args:
        document: what ``report.machine`` makes of a run, or ``saved.parse`` of a file.
        readable: whether a path's file may be read, and its text be put into the report.
        root: the folder that these files must lie in; None for anywhere.
        saved_at: when the findings were saved, in seconds since the epoch; None for now.
        earlier: the names and documents of runs before, the oldest first; as the last one is
            compared with, its findings and these must have fingerprints.
        details: of the run, for the head of the report.
        rules_url: the setting; empty for no links.
    """
    findings, summary = document["findings"], document["summary"]
    rule_pages = pages({finding["code"] for finding in findings}, rules_url)
    shown = shown_paths(document, str(Path.cwd()))
    data = table(document, rule_pages, readable=readable, root=root, saved_at=saved_at, shown=shown)
    return render_page(
        "report.html",
        styles=("report",),
        scripts=("hot_spots", "report"),
        filters={"shown": shown},
        summary=summary,
        fixes=fixable(summary["fixable"], summary["fixable_unsafe"]),
        details=details,
        problems=document["problems"],
        charts={
            "rules": tallies(findings, lambda finding: str(finding["code"])),
            "files": tallies(findings, lambda finding: str(finding["path"])),
            "families": by_family(findings),
        },
        checkouts=checkout_rows(document),
        baseline=changes.since_baseline(document),
        before=changes.since(document, *earlier[-1]) if earlier else None,
        runs=changes.run_by_run([*earlier, ("this report", document)]) if earlier else (),
        file_numbers={path: n for n, path in enumerate(sorted({f["path"] for f in findings}))},
        bars=BARS,
        loud=_loud,
        least_lines=LEAST_LINES,
        pages=rule_pages,
        names={page.code: page.name for page in rule_pages},
        data=data,
    )


def _loud(rows: Sequence[Bar]) -> int:
    """Count the rows that are seen at once: those with errors or warnings, if any."""
    loud = sum(1 for row in rows if any(row.counts[:2]))
    return min(loud or len(rows), BARS)


def render_page(
    template: str,
    *,
    styles: Iterable[str],
    scripts: Iterable[str] = (),
    filters: dict[str, Callable[..., Any]],
    **context: Any,
) -> str:
    """Return a page that holds its style sheets and scripts, whose hashes its policy allows."""
    made = environment()
    made.filters.update(filters)
    style = "".join(asset(made, f"{name}.css") for name in styles)
    script = "\n".join(asset(made, f"{name}.js") for name in scripts)
    return made.get_template(template).render(
        version=__version__,
        style=style,
        script=script,
        style_hash=content_hash(style),
        script_hash=content_hash(script),
        **context,
    )


def environment() -> Environment:
    """Return the templates of pages, which escape what they are given."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("embercoach.report.html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["visible"] = visible
    # ASCII alone: whatever a source holds, half a surrogate pair too, can be written.
    made.policies["json.dumps_kwargs"] = {"sort_keys": True, "separators": (",", ":")}
    return made


def asset(templates: Environment, name: str) -> str:
    """Return the text of a style sheet or script."""
    assert templates.loader is not None
    return templates.loader.get_source(templates, name)[0].strip()


#: Shades of a line's background, from little to all of the time.
SHADES = 8


def shade(share: float) -> int:
    """Return 0 for less than a hundredth, up to SHADES; square roots distinguish small shares."""
    return 0 if share < 0.01 else max(1, min(SHADES, round(SHADES * math.sqrt(share))))


def content_hash(text: str) -> str:
    """Return the hash of a script or a style sheet for the content security policy."""
    return f"sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}"


def shown_paths(document: dict[str, Any], folder: str) -> Callable[[str], str]:
    """Return a function from a path of a document to the text that the report shows.

    Paths are relative to the folder if they are inside it, else to the nearest folder above all
    absolute checkouts outside of it. Without such a folder they stay absolute.

    Args:
        document: the JSON report.
        folder: of the run, absolute.
    """
    tops = [
        PurePath(one["path"])
        for one in document.get("checkouts", ())
        if PurePath(one["path"]).is_absolute() and not PurePath(one["path"]).is_relative_to(folder)
    ]
    bases = [PurePath(folder), *_above(tops)]

    def shown(path: str) -> str:
        pure = PurePath(path)
        for base in bases:
            if pure.is_absolute() and pure.is_relative_to(base):
                return visible(str(pure.relative_to(base)))
        return visible(path)

    return shown


def _above(tops: list[PurePath]) -> list[PurePath]:
    """Return the nearest folder above all tops; none if that is the root."""
    try:
        above = PurePath(os.path.commonpath([top.parent for top in tops]))
    except ValueError:  # no tops, or tops on several drives
        return []
    return [above] if above != above.parent else []
