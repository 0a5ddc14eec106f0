"""KERNEL-NAME: the names that a kernel, its inputs and its outputs are given."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.scopes import Expression, resolve_name, scope_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import names_below
from embercoach.analysis.values.facts import Fact
from embercoach.analysis.values.lattice import Str, StringLiteral
from embercoach.checks.programs.kernels import KernelBody, PythonKernel, definitions
from embercoach.checks.programs.metal_checks import MetalReport
from embercoach.checks.registry import Report, check
from embercoach.metal.contract import ATTRIBUTES, shape_names
from embercoach.metal.library import KEYWORDS, is_identifier
from embercoach.terminal_text import quoted

LISTS = ("input_names", "output_names")
#: Types and plain macros of the preamble that MLX puts before a kernel (``kernels/utils.h``).
PREAMBLE_TYPES = frozenset(
    [
        *("float16_t", "bfloat16_t", "complex64_t", "complex_t", "Limits", "LoopedElemToLoc"),
        *("ConditionalType", "WorkPerThread"),
    ]
)
PREAMBLE_MACROS = frozenset(("MTL_CONST", "MLX_MTL_PRAGMA_UNROLL"))


@check("KERNEL-NAME-001")
def kernel_names(kernel: PythonKernel) -> Iterator[Report | MetalReport]:
    """``name``, ``input_names`` and ``output_names`` of each kernel that the file builds."""
    argument = kernel.argument("name")
    text = argument.value.text if argument is not None and isinstance(argument.value, Str) else None
    if argument is not None and text is not None and not is_identifier(f"_{text}"):
        wrong = sorted({c for c in text if not is_identifier(f"_{c}")})
        yield from kernel.report(
            "KERNEL-NAME-001",
            argument.node,
            f"kernel name contains {quoted(' and '.join(map(repr, wrong)))}",
            "Use letters, digits and underscores",
        )
    seen: dict[str, str] = {}
    for parameter in LISTS:
        for index, name in enumerate(kernel.names(parameter) or ()):
            what = _wrong(name, parameter, seen, kernel)
            seen.setdefault(name, parameter)
            if what is not None:
                node = kernel.name_node(parameter, index)
                yield from kernel.report(
                    "KERNEL-NAME-001", node, what, "Rename it, here and in the body"
                )


def _wrong(name: str, parameter: str, seen: dict[str, str], kernel: PythonKernel) -> str | None:
    """Return the problem with the name of an input or output, None without one."""
    if not is_identifier(name):
        return f"parameter name `{name}` is not an identifier"
    if name in KEYWORDS:
        return f"parameter name `{name}` is a reserved word"
    if name in seen:
        where = "twice in" if seen[name] == parameter else f"in `{seen[name]}` and"
        return f"parameter name `{name}` is {where} `{parameter}`"
    return _clash(name, kernel) if kernel.is_body and kernel.is_whole else None


def _clash(name: str, kernel: PythonKernel) -> str | None:
    """Return the problem if something else of the kernel has the name."""
    if name in ATTRIBUTES and name in kernel.text.text:
        return f"parameter name `{name}` is a thread attribute that `source` mentions"
    for given in kernel.inputs or ():
        if name in shape_names(given) and _has_rank(given, kernel):
            kind = name.removeprefix(given)[1:]
            return f"parameter name `{name}` is the {kind} of input `{given}`"
    if name in PREAMBLE_MACROS:
        return f"parameter name `{name}` is a macro of MLX's preamble"
    if any(name in (launch.template or ()) for launch in kernel.launches):
        return f"parameter name `{name}` is also a template argument"
    for macro in kernel.header.macros.items:
        if macro.name == name and macro.parameters is None:
            return f"parameter name `{name}` is a macro of `header`"
    called = {call.name for call in kernel.text.calls if not call.template}
    if name in called and not any(d.name == name for d in kernel.text.declarations):
        return f"parameter `{name}` hides the function `{name}` that the body calls"
    return None


@check("KERNEL-NAME-001")
def types_of_the_preamble(kernel: KernelBody) -> Iterator[MetalReport]:
    """Yield types of the header with the name of one that MLX defines before it."""
    declared = kernel.header.declarations
    if not kernel.is_whole or any(d.kind == "namespace" for d in declared):
        return
    if "#" in kernel.header.text:
        # What stands under a condition or a macro may be another text to the compiler.
        return
    for declaration in declared:
        name = declaration.name
        if declaration.kind == "type" and declaration.depth == 0 and name in PREAMBLE_TYPES:
            yield MetalReport(
                "KERNEL-NAME-001",
                kernel.header.at(declaration.place),
                f"type `{name}` is already defined in MLX's preamble",
                "Use MLX's type, or rename this one",
            )


def _has_rank(name: str, kernel: PythonKernel) -> bool:
    """Return whether every launch passes an array with dimensions for an input."""
    given = kernel.given(name)
    return bool(given) and all(g.declarator == "*" for g in given)


@check("KERNEL-NAME-002")
def shared_names(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Yield two sources under one name."""
    sources: dict[str, str] = {}
    for kernel in definitions(module, facts):
        argument, source = kernel.argument("name"), kernel.source
        if argument is None or source is None or not isinstance(argument.value, Str):
            continue
        name = argument.value.text
        if name is None:
            continue
        if source.holes:
            what = _formatted(kernel)
            if what is None:
                continue
            why = f"kernel name `{name}` is constant, but its source depends on `{what}`"
        elif sources.setdefault(name, source.text.text) != source.text.text:
            why = f"another kernel named `{name}` has a different source"
        else:
            continue
        yield from kernel.report(
            "KERNEL-NAME-002",
            argument.node,
            why,
            "Give each source its own name"
            if not source.holes
            else "Put the value into the name as well, or pass it as a template argument",
        )


def _formatted(kernel: PythonKernel) -> str | None:
    """Return a parameter of the function around it that is formatted into the source, if one is.

    Only one of unknown value, which the name does not depend on.
    """
    name, source = kernel.argument("name"), kernel.argument("source")
    function = kernel.fact.place.function
    if name is None or source is None or function is None:
        return None
    scope = scope_of(kernel.module, function)
    node = resolve_name(Expression(source.node, scope)).node
    if not isinstance(node, cst.FormattedString) or not isinstance(source.value, Str):
        return None
    in_name = set(names_below(resolve_name(Expression(name.node, scope)).node))
    for field in _unknown_fields(node, source.value):
        varying = field.value if isinstance(field, cst.Name) else None
        if varying is not None and varying not in in_name and _is_parameter(varying, function):
            return varying
    return None


def _unknown_fields(node: cst.FormattedString, value: Str) -> Iterator[cst.BaseExpression]:
    """The fields of an f-string whose text is unknown, those next to other fields left out."""
    unknown: set[cst.CSTNode | None] = set()  # by the text before them
    behind: cst.CSTNode | None = None
    texts = {part for part in node.parts if isinstance(part, cst.FormattedStringText)}
    for piece in value.pieces or ():
        if isinstance(piece.literal, StringLiteral) and piece.literal.node in texts:
            behind = piece.literal.node
        elif piece.hole:
            unknown.add(behind)
    behind = None
    for index, part in enumerate(node.parts):
        if isinstance(part, cst.FormattedStringText):
            behind = part
            continue
        neighbours = (*node.parts[max(index - 1, 0) : index], *node.parts[index + 1 : index + 2])
        assert isinstance(part, cst.FormattedStringExpression)
        if behind in unknown and texts.issuperset(neighbours):
            yield part.expression


def _is_parameter(name: str, function: FunctionInfo | None) -> bool:
    while function is not None:
        if any(p.name == name for p in function.parameters):
            return True
        function = function.outer
    return False
