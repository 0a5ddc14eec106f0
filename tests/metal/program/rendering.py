"""A program as compact text: the shape of its tree, and the types of operations."""

from __future__ import annotations

from embercoach.metal.contract import Input, Output, TemplateArgument
from embercoach.metal.program import nodes
from embercoach.metal.program.lowering import SignatureNames
from embercoach.metal.program.types import Type

#: ``x`` and ``y`` have a size, ``s`` is 0-d; ``N`` is 4, ``H`` is half, ``T`` is unknown.
NAMES = SignatureNames(
    inputs=(
        Input.of_shape("x", (100,), "float32"),
        Input.of_shape("y", (4,), "int32"),
        Input.of_shape("s", (), "float32"),
    ),
    outputs=(Output("out", "float16"),),
    template=(
        TemplateArgument("N", 4),
        TemplateArgument("H", "float16"),
        TemplateArgument("T", None),
    ),
)


def shown_type(kind: Type) -> str:
    """A type: ``device float*``, ``threadgroup half4[8]``, ``?``."""
    words = ("packed_" if kind.packed else "") + (kind.scalar or "?")
    words += str(kind.width) if kind.width > 1 else ""
    words = f"{kind.space} {words}" if kind.space else words
    words += ("*" if kind.pointer else "") + ("&" if kind.reference else "")
    return words + "".join(f"[{'?' if size is None else size}]" for size in kind.dimensions)


def shown(node: nodes.Expression) -> str:
    """An expression; operations in parentheses, with their type behind a colon."""
    kind = shown_type(node.type)
    if isinstance(node, nodes.NumberLiteral):
        return f"{node.value}:{kind}"
    if isinstance(node, nodes.Name):
        return node.variable.name
    if isinstance(node, nodes.Member):
        return f"{shown(node.base)}.{node.field}"
    if isinstance(node, nodes.Index):
        return f"{shown(node.base)}[{shown(node.index)}]"
    if isinstance(node, nodes.Unary):
        return f"({node.operator}{shown(node.operand)}):{kind}"
    if isinstance(node, nodes.Binary):
        return f"({shown(node.left)} {node.operator} {shown(node.right)}):{kind}"
    if isinstance(node, nodes.Assign):
        mark = " postfix" if node.postfix else ""
        return f"({shown(node.target)} {node.operator} {shown(node.value)}{mark})"
    if isinstance(node, nodes.Conditional):
        parts = (node.condition, node.then, node.otherwise)
        return "({} ? {} : {}):{}".format(*map(shown, parts), kind)
    if isinstance(node, nodes.Cast):
        return f"<{kind}{' bits' if node.bits else ''}>{shown(node.operand)}"
    if isinstance(node, nodes.Construct):
        return f"{kind}{{{', '.join(map(shown, node.parts))}}}"
    if isinstance(node, nodes.Call):
        return _shown_call(node)
    parts = "".join(f", {shown(part)}" for part in node.parts)
    return f"opaque({node.why}{parts})"


def _shown_call(node: nodes.Call) -> str:
    words = f"{shown(node.method)}." if node.method is not None else ""
    words += f"{node.namespaces}::" if node.namespaces else ""
    words += node.name + (f"<{','.join(node.template)}>" if node.template else "")
    words += f"#{len(node.functions)}" if node.functions else ""
    return f"{words}({', '.join(map(shown, node.arguments))}):{shown_type(node.type)}"


def lines(node: nodes.Statement, depth: int = 0) -> list[str]:
    """A statement, a line for each, indented."""
    found: list[str] = []
    if isinstance(node, nodes.Block):
        found = ["{", *_below(node.statements), "}"]
    elif isinstance(node, nodes.Declare):
        variable = node.variable
        fixed = "const " if variable.constant else ""
        initial = "" if node.initial is None else f" = {shown(node.initial)}"
        found = [f"{fixed}{shown_type(variable.type)} {variable.name}{initial}"]
    elif isinstance(node, nodes.Evaluate):
        found = [shown(node.expression)]
    elif isinstance(node, nodes.If):
        found = [f"if {shown(node.condition)}", *_below([node.then])]
        if node.otherwise is not None:
            found += ["else", *_below([node.otherwise])]
    elif isinstance(node, nodes.Loop):
        start = "; ".join(line for part in node.start for line in lines(part))
        parts = ["" if part is None else shown(part) for part in (node.condition, node.step)]
        found = [f"{node.kind} ({'; '.join([start, *parts])})", *_below([node.body])]
    elif isinstance(node, nodes.Switch):
        found = [f"switch {shown(node.value)}"]
        for case in node.cases:
            found.append("default" if case.value is None else f"case {shown(case.value)}")
            found += _below(case.statements)
    elif isinstance(node, nodes.Return):
        found = ["return" if node.value is None else f"return {shown(node.value)}"]
    elif isinstance(node, nodes.Jump):
        found = [node.kind]
    else:
        found = [f"opaque: {node.why}"]
    return ["  " * depth + line for line in found]


def _below(parts: tuple[nodes.Statement, ...] | list[nodes.Statement]) -> list[str]:
    return [line for part in parts for line in lines(part, 1)]


def body_lines(program: nodes.Program) -> list[str]:
    """The statements of a kernel's body."""
    assert program.body is not None
    return [line for part in program.body.statements for line in lines(part)]


def function_lines(function: nodes.MetalFunction) -> list[str]:
    """A function with its body."""
    parameters = ", ".join(
        f"{v.attribute + ' ' if v.attribute else ''}{shown_type(v.type)} {v.name}"
        for v in function.parameters
    )
    template = ",".join(v.name for v in function.template)
    head = f"{shown_type(function.result)} {function.name}"
    head += f"<{template}>" if template else ""
    return [f"{head}({parameters})", *_below(list(function.bodies))]
