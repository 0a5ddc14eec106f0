"""Hooks of MkDocs: add pages from outside of ``docs/``, and convert links.

README, CONTRIBUTING, CHANGELOG, SECURITY and every page in ``rules/`` become pages of the site
without a copy in ``docs/``. ``python -m tests.regenerate tables`` writes the tables of rules, of
configuration keys and of the action's inputs into their pages. Links that work in the repository
become links of the site; a broken one is a warning, which fails a strict build.
"""

from __future__ import annotations

import json
import logging
import posixpath
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from mkdocs.structure.files import File

from embercoach import rulebook
from embercoach.config.schema import json_schema
from embercoach.rulebook import PROFILES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from xml.etree.ElementTree import Element

    from markdown import Markdown
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

    from embercoach.rulebook import Rule

ROOT = Path(__file__).resolve().parents[1]
#: Files of the repository that are pages, and their URIs in the site.
BORROWED = {
    "README.md": "start.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
TYPES = {
    "array": "list",
    "boolean": "true or false",
    "number": "number",
    "object": "table",
    "string": "text",
}
#: How the names of families begin whose rules are about kernels, in Python and in Metal files.
KERNEL_FAMILIES = ("kernel-", "host-copy")
_log = logging.getLogger(f"mkdocs.hooks.{__name__}")


# --- pages -------------------------------------------------------------------------------------


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add every rule's page to the navigation, and the conversion of links to Markdown."""
    if config.nav is None:
        raise ValueError("the configuration of the site has no nav")
    (section,) = (item["Rules"] for item in config.nav if "Rules" in item)
    section += [
        {
            group: [
                {family.upper(): [{f"{rule.code} {rule.name}": _uri(rule)} for rule in rules]}
                for family, rules in found.items()
            ]
        }
        for group, found in groups().items()
    ]
    _links.repository = config.repo_url or ""
    extensions: list[Any] = config.markdown_extensions  # Markdown takes names and extensions
    extensions.append(_links)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages whose files are outside of ``docs/``."""
    for source, uri in BORROWED.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(_made(config, uri, text, source))
    for rule in rulebook.rules().values():
        files.append(_made(config, _uri(rule), rule_page(rule), f"rules/{rule.code}.md"))
    pages = {f"docs/{file.src_uri}": file.src_uri for file in files if not file.generated_by}
    made = {_links.sources[file.src_uri]: file.src_uri for file in files if file.generated_by}
    _links.pages = pages | made
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Set the page whose links are converted next."""
    uri = page.file.src_uri
    _links.source = _links.sources.get(uri, f"docs/{uri}")
    _links.uri = uri
    return markdown


def _made(config: MkDocsConfig, uri: str, text: str, source: str) -> File:
    file = File.generated(config, uri, content=text)
    file.edit_uri = f"../{source}"
    _links.sources[uri] = source
    return file


def _uri(rule: Rule) -> str:
    return f"rules/{rule.code}.md"


# --- rules -------------------------------------------------------------------------------------


def groups() -> dict[str, dict[str, list[Rule]]]:
    """Return the rules by group and family, in the order of their codes."""
    found: dict[str, dict[str, list[Rule]]] = {"Python": {}, "Kernels": {}, "Simulator": {}}
    for rule in rulebook.rules().values():
        found[_group(rule)].setdefault(rule.family, []).append(rule)
    return found


def _group(rule: Rule) -> str:
    if rule.kind is not None:
        return "Simulator"
    return "Kernels" if rule.family.startswith(KERNEL_FAMILIES) else "Python"


def rule_page(rule: Rule) -> str:
    """Return a rule's page with its severities and its fix at the end."""
    facts = "".join(f"- {fact}\n" for fact in rule.facts())
    return f"{rule.page}\n## Severities\n{facts}"


def rule_tables() -> str:
    """Return a heading for each group, and in it a heading and a table for each family."""
    parts = []
    for group, found in groups().items():
        count = sum(map(len, found.values()))
        parts.append(f"### {group}: {count} rules")
        parts += [_rule_table(family, rules) for family, rules in found.items()]
    return "\n\n".join(parts) + "\n"


def _rule_table(family: str, rules: list[Rule]) -> str:
    lines = [
        f"#### {family.upper()}",
        "",
        "| rule | problem | `recommended` | `ember` | fix |",
        "| --- | --- | --- | --- | --- |",
    ]
    for rule in rules:
        link = f"[{rule.code}](../rules/{rule.code}.md)"
        summary = _cell(rule.summary)
        loud = " | ".join(rule.severity_text(profile) for profile in PROFILES)
        lines.append(f"| {link} | {summary} | {loud} | {rule.fix_text} |")
    return "\n".join(lines)


# --- settings and inputs -----------------------------------------------------------------------


def settings() -> str:
    """Return a heading for each configuration key, its description, type and default."""
    schema = json_schema()
    return "\n".join(_keys(schema["properties"], ""))


def _keys(properties: Mapping[str, dict[str, Any]], table: str) -> Iterator[str]:
    for name, about in properties.items():
        yield f"### {table}{name}\n\n{about['description']}\n"
        if inner := about.get("properties"):
            yield from _keys(inner, f"{table}{name}.")
            continue
        facts = [f"Type: {_type(about)}"]
        if "default" in about:
            facts.append(f"default: `{json.dumps(about['default'])}`")
        yield "; ".join(facts) + ".\n"


def _type(about: Mapping[str, Any]) -> str:
    if "enum" in about:
        return " or ".join(f"`{value}`" for value in about["enum"])
    return TYPES[about["type"]]


def action() -> str:
    """Return tables of the inputs and outputs that ``action.yml`` declares."""
    declared = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    inputs = ["| input | default | effect |", "| --- | --- | --- |"]
    for name, about in declared["inputs"].items():
        default = f"`{about['default']}`" if about["default"] else ""
        inputs.append(f"| `{name}` | {default} | {_cell(about['description'])} |")
    outputs = ["| output | value |", "| --- | --- |"]
    for name, about in declared["outputs"].items():
        outputs.append(f"| `{name}` | {_cell(about['description'])} |")
    return "\n".join([*inputs, "", *outputs])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


#: The generated parts of pages in ``docs/``: the name in the marker, and the function.
GENERATED: dict[str, tuple[str, Callable[[], str]]] = {
    "rules.md": ("rules", rule_tables),
    "configuration.md": ("keys", settings),
    "integrations.md": ("action", action),
}


def with_table(page: str) -> str:
    """Return the text of a page in ``docs/`` with its generated part as it is today."""
    name, made = GENERATED[page]
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    start, end = f"<!-- generated: {name} -->\n", "<!-- end -->\n"
    before, _, rest = text.partition(start)
    if end not in rest:
        raise ValueError(f"docs/{page} lacks the lines {start.strip()} and {end.strip()}")
    return f"{before}{start}\n{made().strip()}\n\n{end}{rest.partition(end)[2]}"


# --- links -------------------------------------------------------------------------------------


class RepositoryLinks(Extension):
    """Convert links between files of the repository into links between pages.

    A file that is not a page is linked in the repository on the web.
    """

    def __init__(self) -> None:
        super().__init__()
        self.repository = ""
        #: The source file of each page from outside of docs/, by URI.
        self.sources: dict[str, str] = {}
        #: The URI of each page or picture, by its file in the repository.
        self.pages: dict[str, str] = {}
        self.source = self.uri = ""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (Markdown's name)
        """Run after Markdown creates links and before MkDocs reads them."""
        md.treeprocessors.register(_Links(self), "repository_links", 5)

    def resolve(self, link: str) -> str:
        """Return the link for the current page."""
        parts = urlsplit(link)
        if parts.scheme or parts.netloc or not parts.path:
            return link
        folder = posixpath.dirname(self.source)
        target = posixpath.normpath(posixpath.join(folder, parts.path))
        fragment = f"#{parts.fragment}" if parts.fragment else ""
        if target in self.pages:
            start = posixpath.dirname(self.uri) or "."
            return posixpath.relpath(self.pages[target], start) + fragment
        if target.startswith("../") or not (ROOT / target).exists():
            _log.warning("%s links to '%s', which does not exist", self.source, link)
            return link
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"{self.repository.rstrip('/')}/{kind}/main/{target}{fragment}"


class _Links(Treeprocessor):
    def __init__(self, links: RepositoryLinks) -> None:
        super().__init__()
        self._links = links

    def run(self, root: Element) -> None:
        for paragraph in [element for element in root if _has_remote_image(element)]:
            root.remove(paragraph)
        for element in root.iter():
            for name in ("href", "src"):
                if (link := element.get(name)) is not None:
                    element.set(name, self._links.resolve(link))


def _has_remote_image(element: Element) -> bool:
    """Return whether a badge is inside of an element: pages load nothing from other hosts."""
    return any(urlsplit(image.get("src", "")).netloc for image in element.iter("img"))


_links = RepositoryLinks()
