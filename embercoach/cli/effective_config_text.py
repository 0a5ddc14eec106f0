"""The effective configuration of paths as text, for ``embercoach config``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embercoach.cli.toml_text import key_text, value_text
from embercoach.report.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.report.styled import Line

#: Columns that values take; longer ones are cut.
WIDTH = 52


def lines(document: dict[str, Any], *, everything: bool) -> Iterator[Line]:
    """A paragraph for each path; ``everything`` adds defaults and all rules."""
    for warning in document["warnings"]:
        yield [("warning: ", "warning"), (warning, "")]
    for number, applied in enumerate(document["paths"]):
        if number:
            yield []
        yield [(applied["path"], "path")]
        yield from _summary(applied)
        if everything:
            yield from _every_rule(applied["rules"])
        yield from _settings(applied["settings"], everything=everything)


def _summary(applied: dict[str, Any]) -> Iterator[Line]:
    yield _row("checked", _checked(applied), "good" if applied["checked"] else "warning")
    yield _row("configuration", applied["configuration"] or "none (defaults)")
    yield _row("project", applied["project"])
    profile = applied["profile"]
    by = f"`per-file-profiles` for {profile['pattern']}, " if profile["pattern"] else ""
    yield _row("profile", profile["name"], why=f"{by}{profile['origin']['text']}")
    yield _row("baseline", applied["baseline"] or "none")
    on = sum(rule["enabled"] for rule in applied["rules"])
    yield _row("rules", f"{on} of {len(applied['rules'])} enabled")
    yield from _off(applied["rules"])


def _row(name: str, value: str, style: str = "", why: str = "") -> Line:
    line = [(f"  {name:<14}", "faint"), (value, style)]
    return [*line, (f"  ({why})", "faint")] if why else line


def _checked(applied: dict[str, Any]) -> str:
    language = {"python": "Python", "metal": "Metal", "objective-c": "Objective-C"}
    language["notebook"] = "a notebook"
    reason = applied["skipped"]
    if reason is None:
        name = language.get(applied["language"], applied["language"])
        return f"yes, as {name}" if applied["kind"] == "file" else "yes"
    said = reason["origin"]
    where = f", {said['text']}" if said else ""
    named = "; checked if it is named" if applied["checked_if_named"] else ""
    return f"no: {reason['message']}{where}{named}"


def _off(rules: list[dict[str, Any]]) -> Iterator[Line]:
    """The rules that are disabled, grouped by the selector that disables them."""
    groups: dict[str, list[str]] = {}
    for rule in rules:
        if not rule["enabled"]:
            groups.setdefault(_because(rule["because"]), []).append(rule["code"])
    for because, codes in groups.items():
        named = ", ".join(codes) if len(codes) < 4 else plural(len(codes), "rule")
        yield [("    off  ", "warning"), (named, "code"), (f"  {because}", "faint")]


def _because(because: dict[str, Any]) -> str:
    key, selector, origin = because["key"], because["selector"], because["origin"]["text"]
    if because["pattern"]:
        return f"`{key}` for {because['pattern']}: {selector}, {origin}"
    if selector:
        return f"`{key}`: {selector}, {origin}"
    return "default" if origin == "default" else f"not in `{key}`, {origin}"


def _every_rule(rules: list[dict[str, Any]]) -> Iterator[Line]:
    code = max(len(rule["code"]) for rule in rules)
    for rule in rules:
        severity = rule["severity"] if rule["enabled"] else "off"
        yield [
            (f"    {rule['code']:<{code}}  ", "code"),
            (f"{severity:<8}", severity if rule["enabled"] else "faint"),
            (f"  {_because(rule['because'])}", "faint"),
        ]


def _settings(settings: list[dict[str, Any]], *, everything: bool) -> Iterator[Line]:
    def is_default(setting: dict[str, Any]) -> bool:
        return [origin["from"] for origin in setting["origins"]] == ["default"]

    shown = [setting for setting in settings if everything or not is_default(setting)]
    names = [".".join(map(key_text, setting["key"])) for setting in shown]
    column = max(map(len, names), default=0)
    yield [("  settings", "faint")] if shown else [("  settings      ", "faint"), ("defaults", "")]
    for name, setting in zip(names, shown, strict=True):
        value = "none" if setting["value"] is None else value_text(setting["value"])
        if len(value) > WIDTH and not everything:
            value = _cut(setting["value"], value)
        origins = ", ".join(origin["text"] for origin in setting["origins"])
        yield [(f"    {name:<{column}}  ", "code"), (value, ""), (f"  {origins}", "faint")]
    rest = len(settings) - len(shown)
    if shown and rest:
        yield [(f"    {plural(rest, 'other')} at their defaults (see --all)", "faint")]


def _cut(value: Any, text: str) -> str:
    if isinstance(value, list):
        return f"[{value_text(value[0])}, ... {len(value) - 1} more]"
    return f"{text[: WIDTH - 4]} ..."
