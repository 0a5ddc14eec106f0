"""The effective configuration of paths as data, text and TOML, and mistakes in configurations."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embercoach import rulebook
from embercoach.config.errors import ConfigWarning
from embercoach.config.patterns import PathPatterns
from embercoach.config.provenance import SettingOrigin, excluding, facts, origin, origin_in
from embercoach.config.selectors import Decision, decisions, matches
from embercoach.engine.file_discovery import Reason, skip_reason
from embercoach.engine.languages import SUFFIXES, is_known, language_of
from embercoach.engine.verdict import Judge
from embercoach.files import read_text, shown_path
from embercoach.finding import Problem
from embercoach.report.styled import Line, print_text
from embercoach.report.text import plural

if TYPE_CHECKING:
    from embercoach.config import ConfigError, Configurations
    from embercoach.config.load import ConfigurationScope
    from embercoach.engine.checkouts import Plan

#: Keys of tables from patterns of files.
PER_FILE = ("per-file-ignores", "per-file-profiles")


def warn(warnings: Iterable[ConfigWarning | str]) -> None:
    """Print warnings on standard error."""
    for warning in warnings:
        print_text(f"embercoach: warning: {warning}", sys.stderr)


def problems_of(mistakes: Iterable[ConfigError]) -> Iterator[Problem]:
    """Report configuration errors of checkouts, whose files are not checked."""
    for mistake in mistakes:
        assert mistake.path is not None
        message = f"configuration: {mistake.message}; its files were not checked"
        yield Problem(shown_path(mistake.path), mistake.line or 1, 1, message)


def warnings_of(plan: Plan) -> Iterator[ConfigWarning | str]:
    """Warn of patterns that match no file, and of links that lead nowhere."""
    yield from idle_patterns(plan)
    if plan.dangling:
        others = f" and {len(plan.dangling) - 1} more" if len(plan.dangling) > 1 else ""
        yield f"skipped a dangling symbolic link: {plan.dangling[0]}{others}"


def idle_patterns(plan: Plan) -> Iterator[ConfigWarning]:
    """Warn of patterns of files that match no file, where a run covers all that they are for."""
    for scope in plan.scopes:
        file, root = scope.file, scope.settings.root
        if file is None or not plan.division.is_whole or not _covers(plan.walked, root):
            continue
        if scope.top.exclude is not None or scope.top.extend_exclude:
            continue  # what the command line leaves out may be what they are for
        paths: list[str] | None = None
        for key in PER_FILE[bool(scope.top.per_file_ignores) :]:
            for pattern in file.table.get(key, {}):
                if paths is None:
                    paths = [str(one.path) for one in plan.files(scope)]
                # `!pattern` is for all other files: what it names should be there as well.
                patterns = PathPatterns([pattern.removeprefix("!")], root)
                if not any(map(patterns.match_below, paths)):
                    line = file.line_of((key, pattern))
                    yield ConfigWarning(f'{key}."{pattern}" matches no file', file.path, line)


def _covers(walked: Iterable[str], root: Path) -> bool:
    return any(root.is_relative_to(folder) for folder in walked)


_BARE = re.compile(r"[A-Za-z0-9_-]+")


def key_text(key: str) -> str:
    """Return a key, in quotes where it needs them."""
    return key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def value_text(value: Any) -> str:
    """Return a value in one line: texts, numbers, booleans, lists, and tables of them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # TOML's basic strings are JSON's, but for this one character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, dict):
        pairs = ", ".join(f"{key_text(key)} = {value_text(one)}" for key, one in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    return repr(value)


#: Columns that values take; longer ones are cut.
WIDTH = 52


def lines(document: dict[str, Any], *, everything: bool) -> Iterator[Line]:
    """Yield a paragraph for each path; ``everything`` adds defaults and all rules."""
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
    yield _row("rules", f"{on} of {len(applied['rules'])} of the linter enabled")
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
    """Yield the rules that are disabled, grouped by the selector that disables them."""
    groups: dict[str, list[str]] = {}
    for rule in rules:
        if not rule["enabled"]:
            groups.setdefault(_because_text(rule["because"]), []).append(rule["code"])
    for because, codes in groups.items():
        named = ", ".join(codes) if len(codes) < 4 else plural(len(codes), "rule")
        yield [("    off  ", "warning"), (named, "code"), (f"  {because}", "faint")]


def _because_text(because: dict[str, Any]) -> str:
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
            (f"  {_because_text(rule['because'])}", "faint"),
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


#: Reasons that exclude a path from a run over the project, but not where it is named itself.
WHEN_NAMED = ("excluded", "ignored", "link", "suffix")
#: Raised when something in the JSON is removed or changes its meaning.
VERSION = 1


def document(paths: Iterable[str], configurations: Configurations) -> dict[str, Any]:
    """Return the effective configuration of each path.

    Raises:
        ConfigError: a mistake in the configuration of one.
    """
    applied = [_applied(path, configurations) for path in paths]
    warnings = [str(warning) for warning in configurations.warnings]
    return {"version": VERSION, "paths": applied, "warnings": warnings}


def _applied(given: str, configurations: Configurations) -> dict[str, Any]:
    path = Path(os.path.abspath(given))  # noqa: PTH100  (Path.absolute keeps "..")
    scope = configurations.of(given)
    kind = "folder" if path.is_dir() else "file" if path.exists() else "missing"
    reason = skip_reason(str(path), configurations)
    profile, rules = _rules(scope, None if kind == "folder" else path)
    baseline = scope.settings.baseline
    return {
        "path": given,
        "kind": kind,
        "language": None if kind == "folder" else language_of(path.name),
        "checked": reason is None,
        "checked_if_named": reason is None or _checked_if_named(reason, kind, given),
        "skipped": None if reason is None else _reason(scope, reason, given),
        "project": str(scope.settings.root),
        "configuration": None if scope.file is None else shown_path(scope.file.path),
        "profile": profile,
        "baseline": None if baseline is None else shown_path(baseline),
        "settings": [
            {
                "key": list(fact.place),
                "value": fact.value,
                "origins": [_origin(one) for one in fact.origins],
            }
            for fact in facts(scope)
        ],
        "rules": rules,
    }


def _checked_if_named(reason: Reason, kind: str, given: str) -> bool:
    return reason.why in WHEN_NAMED and (kind == "folder" or is_known(given))


def origin_text(one: SettingOrigin) -> str:
    """Return the text of an origin: a file and its line, or its kind."""
    if one.path is None:
        return one.kind.replace("-", " ")
    return f"{shown_path(one.path)}:{one.line}" if one.line else shown_path(one.path)


def _origin(one: SettingOrigin) -> dict[str, Any]:
    path = None if one.path is None else shown_path(one.path)
    return {"from": one.kind, "path": path, "line": one.line, "text": origin_text(one)}


def _rules(
    scope: ConfigurationScope, path: Path | None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the profile, and for each rule whether it is enabled, its severity, and why."""
    judge = Judge(scope.settings)
    special = judge.profile_for(path) if path is not None else None
    pattern, profile = special or (None, scope.settings.profile)
    if pattern is not None:
        said = origin(scope, ("per-file-profiles", pattern))
    else:
        (fact,) = (fact for fact in facts(scope) if fact.place == ("profile",))
        (said,) = fact.origins
    chosen = {"name": profile, "pattern": pattern, "origin": _origin(said)}
    ignores = judge.ignores_for(path) if path is not None else []
    why = decisions((*scope.chain.selections, scope.top.selection))
    known: dict[Any, dict[str, Any]] = {}
    rules = []
    for code, decision in sorted(why.items()):
        reason = _ignored_in_file(code, ignores) if decision.enabled else None
        # One selector names many rules, and finding its line is slow.
        key = reason or decision
        if key not in known:
            known[key] = _ignoring(scope, *reason) if reason else _deciding(scope, decision)
        severities = judge.severities(code, profile)
        rules.append(
            {
                "code": code,
                "name": rulebook.rule(code).name,
                "enabled": decision.enabled and reason is None,
                "severity": severities["default"],
                "severities": severities,
                "because": known[key],
            }
        )
    return chosen, rules


def _ignored_in_file(
    code: str, ignores: list[tuple[str, tuple[str, ...]]]
) -> tuple[str, str] | None:
    """Return the pattern and the selector of a per-file table that turn a rule off."""
    for pattern, selectors in ignores:
        for selector in selectors:
            if matches(selector, code):
                return pattern, selector
    return None


def _ignoring(scope: ConfigurationScope, pattern: str, selector: str) -> dict[str, Any]:
    said = origin(scope, ("per-file-ignores", pattern), selector)
    return _because("per-file-ignores", selector, pattern, said)


def _deciding(scope: ConfigurationScope, decision: Decision) -> dict[str, Any]:
    key, selector = decision.key or "select", decision.selector
    files = scope.chain.files
    if decision.layer is None:
        said = SettingOrigin("default")
    elif decision.layer < len(files):
        said = origin_in(files[decision.layer], (key,), *([selector] if selector else []))
    else:
        said = SettingOrigin("command-line")
    return _because(key, selector, None, said)


def _because(
    key: str, selector: str | None, pattern: str | None, said: SettingOrigin
) -> dict[str, Any]:
    return {"key": key, "selector": selector, "pattern": pattern, "origin": _origin(said)}


def _reason(scope: ConfigurationScope, reason: Reason, given: str) -> dict[str, Any]:
    key, said = None, None
    scope = reason.scope or scope
    if reason.why == "excluded":
        key, said = excluding(scope, reason.pattern)
    elif reason.why == "ignored":
        file = Path(reason.file)
        said = SettingOrigin("file", file, _line(file, reason.pattern))
    return {
        "why": reason.why,
        "message": _message(scope, reason, given, key),
        "key": key,
        "pattern": reason.pattern or None,
        "origin": None if said is None else _origin(said),
    }


def _line(file: Path, pattern: str) -> int | None:
    """Return the last line of an ignore file that is a pattern."""
    lines = read_text(file, errors="replace").splitlines()
    return next((n for n in range(len(lines), 0, -1) if lines[n - 1] == pattern), None)


def _message(scope: ConfigurationScope, reason: Reason, given: str, key: str | None) -> str:
    place = Path(reason.place)
    above = place != Path(os.path.abspath(given))  # noqa: PTH100  (as above)
    what = f"its folder {shown_path(place)}" if above else "it"
    match reason.why:
        case "missing":
            return "no such file or folder"
        case "excluded":
            return f"{what} matches `{reason.pattern}` in `{key}`"
        case "ignored":
            return f"git ignores {what}: it matches `{reason.pattern}`"
        case "link":
            return _link(what, place)
        case "suffix":
            return f"suffix is not one of {', '.join(SUFFIXES)}"
        case "unreadable":
            return "cannot be read"
        case "no-python":
            return "notebook has no Python cells"
        case "skip-file":
            return "skipped by a comment `embercoach: skip-file`"
        case "irrelevant":
            builders = [builder.last_name for builder in scope.settings.kernel_builders]
            return _irrelevant(given, builders)


def _link(what: str, place: Path) -> str:
    if place.is_dir():
        return f"{what} is a symbolic link to a folder"
    return f"{what} is a symbolic link to a file outside the project"


def _irrelevant(given: str, builders: list[str]) -> str:
    language = language_of(given)
    if language == "python":
        words = ", ".join(f"`{word}`" for word in ("mlx", "metal_kernel", *builders))
        return f"file mentions none of {words}"
    return "file has no function" if language == "metal" else "file does not mention Metal"
