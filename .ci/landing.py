"""A hook of MkDocs: the landing page, ``docs/index.md``, with two examples side by side.

Insert the link to the sample report and the figures of a rule's page, wrap each section into an
element that ``.ci/theme/landing.css`` places, and fold the programs of the examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element, SubElement

from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from markdown.util import HTML_PLACEHOLDER_RE
from markdown_it import MarkdownIt

from embercoach import rulebook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from markdown import Markdown
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

LANDING = "index.md"
#: The rule whose page has the figures, and the columns of its table that have them.
MEASURED = "GRAPH-BREAK-001"
BEFORE, AFTER = "tokens/s before", "tokens/s after"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the conversion of the landing page to Markdown's."""
    extensions: list[Any] = config.markdown_extensions  # Markdown takes names and extensions
    extensions.append(_sections)
    return config


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Insert the generated parts of the landing page, and hide its sidebars and its edit button."""
    _sections.active = page.file.src_uri == LANDING
    if not _sections.active:
        return markdown
    page.meta["hide"] = ["navigation", "toc"]
    page.edit_url = None
    for name, made in PARTS.items():
        marker = f"<!-- generated: {name} -->"
        if marker not in markdown:
            raise ValueError(f"docs/{LANDING} lacks the line {marker}")
        markdown = markdown.replace(marker, made())
    return markdown


# --- generated parts ---------------------------------------------------------------------------


def sample() -> str:
    """Return the links below the command that installs EmberCoach."""
    return (
        '<p class="actions">'
        '<a class="md-button md-button--primary" href="sample-report/">Sample report of mlx-lm</a> '
        '<a class="md-button" href="rules/">Rules</a></p>'
    )


def figures() -> str:
    """Return the table of the rule's page with a column of ratios."""
    header, *rows = _table(rulebook.rule(MEASURED).page)
    before, after = header.index(BEFORE), header.index(AFTER)
    lines = [[*header, "ratio"], ["---"] * (len(header) + 1)]
    lines += [[*row, f"{float(row[after]) / float(row[before]):.2f}"] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _table(page: str) -> Iterator[list[str]]:
    """Return the cells of the page's first table, in Markdown, row by row.

    Raises:
        ValueError: the page has no table.
    """
    tokens = MarkdownIt().enable("table").parse(page)
    names = [token.type for token in tokens]
    row: list[str] = []
    for token in tokens[names.index("table_open") : names.index("table_close")]:
        if token.type == "inline":
            row.append(token.content)
        elif token.type == "tr_close":
            yield row
            row = []


PARTS: dict[str, Callable[[], str]] = {"sample": sample, "figures": figures}


# --- sections ----------------------------------------------------------------------------------


class _Sections(Extension):
    """Divide the landing page at its headings."""

    active = False

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (Markdown's name)
        """Run after links and the table of contents."""
        md.treeprocessors.register(_Divide(md, self), "landing_sections", 1)


class _Divide(Treeprocessor):
    def __init__(self, md: Markdown, sections: _Sections) -> None:
        super().__init__(md)
        self._markdown = md
        self._sections = sections

    def run(self, root: Element) -> None:
        if not self._sections.active:
            return
        children = list(root)
        root.clear()
        landing = SubElement(root, "div", {"class": "landing"})
        section = SubElement(landing, "header")
        for child in children:
            if child.tag == "h2":
                section = SubElement(landing, "section")
            section.append(child)
        for section in landing:
            for program in filter(self._is_program, list(section)):
                self._fold(section, program)

    def _fold(self, section: Element, program: Element) -> None:
        """Move the program of an example below its output, into an element that opens."""
        section.set("class", "example")
        section.remove(program)
        details = SubElement(section, "details")
        SubElement(details, "summary").text = "The program"
        details.append(program)

    def _is_program(self, element: Element) -> bool:
        """Return whether an element stands for a code block with the name of a file."""
        found = HTML_PLACEHOLDER_RE.fullmatch(element.text or "")
        if found is None:
            return False
        block = str(self._markdown.htmlStash.rawHtmlBlocks[int(found[1])])
        return 'class="filename"' in block


_sections = _Sections()
