"""Types of option values: rule codes, separated by commas; shards."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from embercoach.engine.file_discovery import Shard

if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # before click 8.4 it takes no type argument


class Commas(_ParamType):
    """A list separated by commas."""

    name = "list"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        """Split at commas; the configuration's reader checks the parts."""
        if isinstance(value, tuple):
            return value
        return tuple(part for part in (part.strip() for part in value.split(",")) if part)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Files: patterns often are the beginnings of paths."""
        return files(ctx, param, incomplete)


class PatternCodes(Commas):
    """Patterns of files, each with rule codes: ``tests/:HOST-PULL,DTYPE-001,old.py:ALL``."""

    name = "pattern:codes"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[str, str], ...]:
        """Return pairs of a pattern and a code; a code without a pattern has the last one."""
        pairs: list[tuple[str, str]] = []
        for part in super().convert(value, param, ctx):
            pattern, colon, code = part.rpartition(":")
            if not (colon or pairs):
                self.fail(f"must be PATTERN:CODE,... such as tests/:DTYPE, got '{value}'")
            pairs.append((pattern if colon else pairs[-1][0], code))
        return tuple(pairs)


def files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete the names of files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


class Codes(Commas):
    """Rule codes or beginnings of codes, separated by commas."""

    name = "codes"
    #: Whether it chooses among checks, or names any rule.
    selects = True

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the codes and families that go on from what is typed."""
        from click.shell_completion import CompletionItem

        from embercoach import rulebook

        _load_plugins()
        before, comma, last = incomplete.rpartition(",")
        known = rulebook.static_codes() if self.selects else rulebook.codes()
        return [
            CompletionItem(f"{before}{comma}{word}")
            for word in sorted(rulebook.words(known))
            if word.startswith(last.upper())
        ]


class Code(Codes):
    """A single rule code."""

    name = "code"
    selects = False

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Leave the text as it is."""
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return codes; and where none begins so, files, as a place in one is explained too."""
        return super().shell_complete(ctx, param, incomplete) or files(ctx, param, incomplete)


def _load_plugins() -> None:
    """Load installed plugins for a completion, which has no place for an error."""
    from embercoach.plugins.discovery import PluginError
    from embercoach.plugins.loading import load_installed

    with suppress(PluginError):
        load_installed()


class ShardNumber(_ParamType):
    """A part of the files, as ``2/5``."""

    name = "shard"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Shard:
        """Read the number and the count."""
        from embercoach.engine.file_discovery import Shard

        if isinstance(value, Shard):
            return value
        number, slash, count = (part.strip() for part in value.partition("/"))
        numbers = slash and _is_number(number) and _is_number(count)
        if not numbers or not 1 <= int(number) <= int(count):
            self.fail(f"shard must be NUMBER/COUNT such as 2/5, got '{value}'", param, ctx)
        return Shard(int(number), int(count))


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) <= 6
