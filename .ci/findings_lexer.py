"""A hook of MkDocs: color findings in ``console`` blocks as a terminal does.

Colors are in ``.ci/theme/console.css``, by the class of a part: ``go-Error``, ``go-Source``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygments.filter import Filter
from pygments.lexer import RegexLexer, bygroups
from pygments.token import Generic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from pygments.token import _TokenType

_OUT = Generic.Output


class _OutputLexer(RegexLexer):
    """Parts of one line of the linter's or the simulator's output."""

    tokens = {  # noqa: RUF012 (Pygments' form)
        "root": [
            (
                r"^(\S+:\d+:\d+: )([A-Z-]+-\d{3})( )(?:(error)|(warning)|(note))( .*\n?)",
                bygroups(_OUT.Path, _OUT.Code, _OUT, _OUT.Error, _OUT.Warning, _OUT.Note, _OUT),
            ),
            (r"^( *\d* \|)( *)(\^+)(\n?)", bygroups(_OUT.Gutter, _OUT.Source, _OUT.Error, _OUT)),
            (r"^( *\d* \|)(.*\n?)", bygroups(_OUT.Gutter, _OUT.Source)),
            (r"^( *= )(help:|fix:)(.*\n?)", bygroups(_OUT.Gutter, _OUT.Help, _OUT)),
            (r"^(?:.+\n?|\n)", _OUT),
        ]
    }


class _Findings(Filter):
    """Divide lines of output into parts; prompts and commands stay as they are."""

    def filter(
        self, lexer: Any, stream: Iterable[tuple[_TokenType, str]]
    ) -> Iterator[tuple[_TokenType, str]]:
        parts = _OutputLexer(stripnl=False, ensurenl=False)
        for kind, text in stream:
            if kind is _OUT:
                yield from parts.get_tokens(text)
            else:
                yield kind, text


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the filter to the lexer of ``console`` blocks."""
    languages = config.mdx_configs["pymdownx.highlight"].setdefault("extend_pygments_lang", [])
    languages.append({"name": "console", "lang": "console", "options": {"filters": [_Findings()]}})
    return config
