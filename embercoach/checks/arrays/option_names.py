"""ATTR-002: attributes of an ``argparse`` namespace that no option of its parser defines.

Training scripts read their settings as ``args.adapter_path``. A name that differs from the
option's raises an error where it is read, often after hours of training.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

import libcst as cst

from embercoach.analysis.dataflow.contents import Contents, contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import DEFINITIONS, dotted
from embercoach.analysis.values.facts import Fact
from embercoach.checks.fallbacks import MISSING
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import quoted

_PARSER, _LONGEST = "ArgumentParser", 28
_PARTS = frozenset(
    (_PARSER, "add_argument_group", "add_mutually_exclusive_group", "add_subparsers", "add_parser")
)
#: Texts of files that set attributes in a way that is not followed, or take options from elsewhere.
_OTHERWISE = ("setattr(", "__dict__", "exec(", "_actions", "Namespace(")
#: Functions that set no attributes of a namespace that they get.
_READING = frozenset(("print", "pprint", "vars", "str", "repr", "info", "debug", "getattr"))
_PARSES = ("parse_args", "parse_known_args")
_ROUNDS = 4  # calls that a namespace is followed through


@check("ATTR-002", unless=MISSING)
def undefined_option(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``args.adapter_file`` where the parser has ``--adapter-path``."""
    source = module.source
    if f"{_PARSER}(" not in source or any(text in source for text in _OTHERWISE):
        return
    file = _File(module)
    options = file.options()
    file.follow()
    if options is None or file.has_other_options():
        return
    contents = file.contents
    known = options | {t.attr.value for t in contents.targets if isinstance(t, cst.Attribute)}
    known |= {node.value[1:-1] for node in contents.of(cst.SimpleString)}
    order = {node: at for at, node in enumerate(contents)}
    given = [order[node] for node in file.given_away()]
    for node in contents.of(cst.Attribute):
        name = node.attr.value
        if name in known or name.startswith("_") or not file.is_namespace(node.value):
            continue
        if min(given, default=len(order)) < order[node]:
            continue  # a function of another file may have set it
        near = get_close_matches(name, sorted(options), n=1)
        yield Report.in_file(
            module,
            node.attr,
            message=f"no option of the parser defines `{quoted(name, _LONGEST)}`",
            help=f"Did you mean `{quoted(near[0], _LONGEST)}`?"
            if near
            else "Add the option, or read the one that the parser has",
        )


class _File:
    """The parsers of a file, and the variables that hold what they parse."""

    def __init__(self, module: Module) -> None:
        self.contents: Contents = contents_of(module.tree)
        self.functions = {node.name.value: node for node in self.contents.of(cst.FunctionDef)}
        self.assigns = self.contents.of(cst.Assign)
        self._returning: set[str] = set()  # functions that return a namespace
        self._making: set[str] = set()  # functions that return a parser
        self._held: set[tuple[cst.CSTNode | None, str]] = set()
        self._parsers: set[str] = set()

    def options(self) -> set[str] | None:
        """Return the names that the options define; None if one of them is not known."""
        found: set[str] = set()
        for call in self.contents.calls:
            name = last_name(call)
            named = {a.keyword.value: a.value for a in call.args if a.keyword is not None}
            if name in ("add_argument", "set_defaults") and any(a.star for a in call.args):
                return None
            if (name in _PARTS and "parents" in named) or (
                name in _PARSES and "namespace" in named
            ):
                return None
            if name == "set_defaults":
                found.update(named)
            dest = named.get("dest")
            if name == "add_argument" and dest is None:
                texts = [a.value for a in call.args if a.keyword is None]
                dest = next((t for t in texts if _text(t).startswith("--")), (*texts, None)[0])
            if name in ("add_argument", "add_subparsers") and dest is not None:
                if not _text(dest) or not _is_known_action(named.get("action")):
                    return None
                text = _text(dest)
                found.add(text.lstrip("-").replace("-", "_") if text.startswith("-") else text)
        return found

    def has_other_options(self) -> bool:
        """Return whether a function of another file gets a parser, and may add options to it."""
        for node in self.contents.of(cst.Arg):
            call = self.contents.parent_of(node)
            is_parser = isinstance(node.value, cst.Name) and node.value.value in self._parsers
            if is_parser and isinstance(call, cst.Call) and last_name(call) not in self.functions:
                return True
        return False

    def follow(self) -> None:
        """Find the variables and parameters that hold nothing but what a parser returns."""
        known, now = -1, 0
        for _ in range(_ROUNDS):
            if known != now:
                self._follow_once()
                known, now = now, len(self._parsers) + len(self._held) + len(self._returning)

    def _follow_once(self) -> None:
        for name, function in self.functions.items():
            body = contents_of(function.body, DEFINITIONS)
            values = [node.value for node in body.of(cst.Return)]
            if values and all(value is not None and self._is_part(value) for value in values):
                self._making.add(name)
            if values and all(value is not None and self._parses(value) for value in values):
                self._returning.add(name)
            self._follow_parameters(name, function)
        for node in self.assigns:
            target: cst.BaseExpression = node.targets[0].target
            if isinstance(target, cst.Tuple) and last_name(node.value) == _PARSES[1]:
                target = target.elements[0].value
            if isinstance(target, cst.Name) and self._is_part(node.value):
                self._parsers.add(target.value)
            elif isinstance(target, cst.Name) and self._parses(node.value):
                scope = self._scope_of(target, target.value)
                if self._bindings(scope, target.value) == 1:
                    self._held.add((scope, target.value))

    def _follow_parameters(self, name: str, function: cst.FunctionDef) -> None:
        parameters = [one.name.value for one in function.params.params]
        uses = self.contents.uses(name)
        calls = [self.contents.parent_of(use) for use in uses]
        for at, parameter in enumerate(parameters):
            if (
                self._bindings(function, parameter) == 0
                and calls
                and all(
                    isinstance(call, cst.Call)
                    and last_name(call) == name
                    and at < len(call.args)
                    and call.args[at].keyword is None
                    and not call.args[at].star
                    and self.is_namespace(call.args[at].value)
                    for call in calls
                )
            ):
                self._held.add((function, parameter))

    def is_namespace(self, node: cst.CSTNode) -> bool:
        """Return whether an expression is a variable that holds a namespace."""
        if not isinstance(node, cst.Name):
            return False
        return (self._scope_of(node, node.value), node.value) in self._held

    def given_away(self) -> Iterator[cst.CSTNode]:
        """Yield the arguments by which functions of other files get a namespace."""
        for node in self.contents.of(cst.Arg):
            call = self.contents.parent_of(node)
            name = last_name(call) if isinstance(call, cst.Call) else ""
            is_known = name in _READING or name in self.functions
            if not is_known and self.is_namespace(node.value):
                yield node

    def _parses(self, node: cst.BaseExpression) -> bool:
        """Return whether an expression is a namespace: a call that parses, or a variable."""
        if not isinstance(node, cst.Call):
            return self.is_namespace(node)
        func = node.func
        if isinstance(func, cst.Attribute) and func.attr.value in _PARSES:
            owner = func.value
            return self._is_part(owner) or (dotted(owner) or "") in self._parsers
        return isinstance(func, cst.Name) and func.value in self._returning

    def _is_part(self, node: cst.BaseExpression) -> bool:
        """Return whether an expression is a parser, or a group of its options."""
        if isinstance(node, cst.Name):
            return node.value in self._parsers
        name = last_name(node) if isinstance(node, cst.Call) else ""
        return name in _PARTS or name in self._making

    def _scope_of(self, node: cst.CSTNode, name: str) -> cst.CSTNode | None:
        """Return the function that binds a name; None for the file."""
        for around in self.contents.above(node):
            if isinstance(around, (cst.FunctionDef, cst.Lambda)):
                own = {one.name.value for one in contents_of(around.params).of(cst.Param)}
                if name in own or self._bindings(around, name):
                    return around
        return None

    def _bindings(self, scope: cst.CSTNode | None, name: str) -> int:
        """Count the places that bind a name in a function, or at the top level of the file."""
        body = contents_of(scope.body, DEFINITIONS) if isinstance(scope, cst.FunctionDef) else None
        if scope is None:
            module = self.contents
            bound = [t for t in module.targets if isinstance(t, cst.Name) and t.value == name]
            around = (cst.FunctionDef, cst.Lambda)
            return sum(not any(isinstance(o, around) for o in module.above(t)) for t in bound)
        targets = () if body is None else body.targets
        return sum(isinstance(t, cst.Name) and t.value == name for t in targets)


def _text(node: cst.BaseExpression) -> str:
    """Return the text of a literal; empty for other expressions."""
    return node.value[1:-1] if isinstance(node, cst.SimpleString) else ""


def _is_known_action(node: cst.BaseExpression | None) -> bool:
    """Return whether an action is one of ``argparse``, which sets the option's attribute alone."""
    return node is None or bool(_text(node)) or (dotted(node) or "").startswith("argparse.")
