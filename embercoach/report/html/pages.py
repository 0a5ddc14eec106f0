"""The pages of rules as HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach import rulebook
from embercoach.rule_links import RULES_URL, rule_url

if TYPE_CHECKING:
    from collections.abc import Iterable

    from markdown_it import MarkdownIt


@dataclass(frozen=True, slots=True)
class Page:
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
    """The pages of some rules, sorted by code; ``rules_url`` is the setting."""
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
    """Render a page; its headings stand below that of the dialog, and its own title is that."""
    tokens = renderer.parse(page)
    if tokens and tokens[0].type == "heading_open" and tokens[0].tag == "h1":
        del tokens[:3]
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
