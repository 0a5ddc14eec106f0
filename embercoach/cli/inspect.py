"""``check --show-files`` and ``check --show-settings``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from embercoach import rulebook
from embercoach.cli import codes
from embercoach.cli.effective_config import origin_text
from embercoach.cli.toml_text import key_text, value_text
from embercoach.config.provenance import facts
from embercoach.report.styled import print_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from embercoach.config.load import ConfigurationScope
    from embercoach.config.provenance import SettingInForce
    from embercoach.engine.checkouts import Plan


def show_files(plan: Plan) -> int:
    """Print the files that would be checked."""
    for file in plan.files():
        print_text(file.shown, sys.stdout)
    for problem in plan.all_problems:
        print_text(f"{problem.path}: {problem.message}", sys.stderr)
    return codes.INCOMPLETE if plan.all_problems else codes.CLEAN


def show_settings(plan: Plan) -> int:
    """Print the settings for the paths as TOML, each with where it comes from."""
    for number, (scope, given) in enumerate(plan.given.items()):
        if number:
            print_text("", sys.stdout)
        for entry in _lines(scope, given):
            for line in entry.split("\n"):
                print_text(line, sys.stdout)
    return codes.CLEAN


def _lines(scope: ConfigurationScope, paths: Iterable[str]) -> Iterator[str]:
    settings = scope.settings
    yield f"# for {', '.join(paths)}"
    yield f"# from {settings.source or 'no configuration file'}"
    yield f"# project {settings.root}"
    # What selectors come to, so that no rule is left to work out.
    resolved = {
        "select": sorted(settings.enabled),
        "ignore": sorted(rulebook.static_codes() - settings.enabled),
        "baseline": settings.baseline and str(settings.baseline),
    }
    shown = [fact for fact in facts(scope) if fact.place != ("extend-select",)]
    for fact in shown:
        name, value = fact.place[0], resolved.get(fact.place[0], fact.value)
        if len(fact.place) == 1 and value is not None and not isinstance(value, dict):
            yield _pair(name, value, fact)
    tables = dict.fromkeys(fact.place[0] for fact in shown if len(fact.place) > 1)
    for table in tables:
        yield f"[{table}]"
        for fact in shown:
            if fact.place[0] == table and len(fact.place) > 1 and fact.value is not None:
                yield _pair(fact.place[1], fact.value, fact)


def _pair(name: str, value: Any, fact: SettingInForce) -> str:
    comment = f"  # {', '.join(map(origin_text, fact.origins))}"
    if isinstance(value, list) and len(value) > 3:
        items = "".join(f"    {value_text(item)},\n" for item in value)
        return f"{key_text(name)} = [{comment}\n{items}]"
    return f"{key_text(name)} = {value_text(value)}{comment}"
