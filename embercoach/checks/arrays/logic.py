"""LOGIC: tests of which the outcome is known, expressions that end early, and misspelled texts."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import DEFINITIONS, dotted
from embercoach.analysis.values.facts import Fact
from embercoach.analysis.values.inheritance import lineage
from embercoach.analysis.values.lattice import Number
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import quoted

#: Characters of a name that a message quotes.
_LONGEST = 28
_OPERATORS = (cst.Is, cst.IsNot)


@check("LOGIC-001")
def flag_compared_to_none(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``if self.tied is not None`` of an attribute that is True or False."""
    if " None" not in module.source or "bool" not in module.source:
        return
    for function in module.functions:
        contents = contents_of(function.node.body, DEFINITIONS)
        for node in contents.of(cst.Comparison):
            target = node.comparisons[0]
            is_none = isinstance(target.comparator, cst.Name) and target.comparator.value == "None"
            if not is_none or not isinstance(target.operator, _OPERATORS):
                continue
            if _is_flag(node.left, function, module):
                name = quoted(module.parsed.code(node.left), _LONGEST)
                outcome = "true" if isinstance(target.operator, cst.IsNot) else "false"
                yield Report.in_file(
                    module,
                    node,
                    function=function,
                    message=f"`{name}` is True or False: this test is always {outcome}",
                    help=f"Test its value: `if {name}`",
                )


def _is_flag(node: cst.BaseExpression, function: FunctionInfo, module: Module) -> bool:
    """Return whether a name or an attribute of ``self`` is declared and used as a bool."""
    if isinstance(node, cst.Name):
        parameter = next((p for p in function.parameters if p.name == node.value), None)
        if parameter is None or not _says_bool(parameter.annotation):
            return False
        held = scope_of(module, function).reaching.bindings.get(node.value, ())
        return len(held) < 2 and not _is_none(parameter.default)
    if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name):
        cls = function.cls
        is_self = node.value.value == "self" and cls is not None
        return is_self and cls is not None and _is_flag_of(cls, node.attr.value)
    return False


def _is_flag_of(cls: ClassInfo, name: str) -> bool:
    """Return whether all that the classes of a lineage assign to an attribute are bools."""
    held = [one.attributes[name] for one in lineage(cls) if name in one.attributes]
    declared = [one.annotations[name] for one in lineage(cls) if name in one.annotations]
    if not all(map(_says_bool, declared)):
        return False
    return bool(held) and all(isinstance(one, Number) and one.kind == "bool" for one in held)


def _says_bool(annotation: cst.BaseExpression | None) -> bool:
    return isinstance(annotation, cst.Name) and annotation.value == "bool"


def _is_none(node: cst.BaseExpression | None) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


@check("LOGIC-002")
def early_end(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``q, k = split(x) if fused else None, None``: the first name gets both."""
    if " if " not in module.source or " else " not in module.source:
        return
    for function in module.functions:
        contents = contents_of(function.node.body, DEFINITIONS)
        for statement in contents.of(cst.Assign):
            value, target = statement.value, statement.targets[0].target
            if not isinstance(value, cst.Tuple) or not isinstance(target, cst.Tuple):
                continue
            first, *rest = (element.value for element in value.elements)
            if not isinstance(first, cst.IfExp) or not rest:
                continue
            is_alike = all(one.deep_equals(first.orelse) for one in rest)
            # Parentheses at the start are around what is meant.
            is_plain = not module.parsed.code(value).startswith("(")
            if isinstance(first.body, (cst.Call, cst.Tuple)) and is_alike and is_plain:
                yield Report.in_file(
                    module,
                    value,
                    function=function,
                    message="the conditional expression ends at the comma: one name gets all of it",
                    help="Put the values after `else` in parentheses: `else (None, None)`",
                )


@check("LOGIC-004")
def dropped_expressions(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``self.is_padded`` and ``self.offset == 0`` as statements: an assignment was meant."""
    for function in module.functions:
        if function.cls is None or not function.is_method:
            continue
        for statement in contents_of(function.node.body, DEFINITIONS).of(cst.Expr):
            value = statement.value
            is_equal = isinstance(value, cst.Comparison) and isinstance(
                value.comparisons[0].operator, cst.Equal
            )
            node = value.left if is_equal and isinstance(value, cst.Comparison) else value
            path = dotted(node) if isinstance(node, cst.Attribute) else None
            name = (path or "").removeprefix(f"{function.parameters[0].name}.")
            if name != path and _is_stored(function.cls, name):
                yield Report.in_file(
                    module,
                    value,
                    function=function,
                    message=f"`{quoted(module.parsed.code(value), _LONGEST)}` alone has no effect",
                    help=f"Assign it: `{quoted(path or '', _LONGEST)} = ...`, or remove it",
                )


def _is_stored(cls: ClassInfo, name: str) -> bool:
    """Return whether methods of a class assign an attribute, and none has its name."""
    classes = lineage(cls)
    return any(name in one.setters for one in classes) and not any(
        name in one.methods for one in classes
    )


#: Letters that a word has at least where a slip is sought, and that a text has at most.
_SHORTEST, _LONGEST = 5, 40
#: Times that a file has the correct spelling at least.
_FREQUENT = 3


@check("LOGIC-003")
def misspelled_text(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``if "meessage_id" in message``, where all others are ``"message_id"``."""
    if module.is_test:
        return
    contents = contents_of(module.tree)
    texts: dict[str, list[cst.SimpleString]] = {}
    for node in contents.of(cst.SimpleString):
        text = node.value[1:-1]
        if _SHORTEST <= len(text) <= _LONGEST and text.replace(".", "_").isidentifier():
            texts.setdefault(text, []).append(node)
    alike: dict[str, list[str]] = {}
    for text in texts:
        alike.setdefault("".join(sorted(set(text))), []).append(text)
    source = module.source
    for group in alike.values():
        for text in group if len(group) > 1 else ():
            if len(texts[text]) > 1 or source.count(text) > 1:
                continue
            meant = [o for o in group if source.count(o) >= _FREQUENT and _is_slip(text, o)]
            node = texts[text][0]
            statement = contents.statement_of(node)
            is_listed = isinstance(contents.parent_of(node), (cst.Element, cst.DictElement))
            if len(meant) != 1 or is_listed:
                continue  # a table may have the names of a checkpoint as they are
            if any(one in contents_of(statement) for one in texts[meant[0]]):
                continue  # it replaces one spelling by the other
            yield Report.in_file(
                module,
                node,
                message=f"`{quoted(text, 24)}` stands here alone, and is misspelled",
                help=f"Did you mean `{quoted(meant[0], 40)}`?",
            )


def _is_slip(text: str, other: str) -> bool:
    """Return whether one word differs: two letters changed places, or one within it is missing."""
    words, others = (one.replace(".", "_").split("_") for one in (text, other))
    pairs = [pair for pair in zip(words, others, strict=False) if pair[0] != pair[1]]
    if len(words) != len(others) or len(pairs) != 1:
        return False
    one, two = sorted(pairs[0], key=len)
    if len(one) < _SHORTEST or not (one + two).isalpha():
        return False
    at = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), len(one))
    if len(one) == len(two):
        return one[at : at + 2] == two[at : at + 2][::-1] and one[at + 2 :] == two[at + 2 :]
    return 0 < at < len(one) and one[at:] == two[at + 1 :]
