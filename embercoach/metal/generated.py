"""The exact text that MLX generates for a kernel, from the rules in ``contract``."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from embercoach.metal.contract import MSL_TYPES, signature

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.contract import KernelArguments, Signature

_T = TypeVar("_T")


class UnknownFactError(ValueError):
    """The exact text was asked for, but a fact that it depends on is unknown."""


def function_name(kernel: KernelArguments) -> str:
    """The name of the generated function, unique to name, template, dtypes and input kinds.

    Raises:
        UnknownFactError: a dtype, a size, a rank or a template argument is unknown.
    """
    parts = [f"custom_kernel_{kernel.name}"]
    if kernel.template is None:
        raise UnknownFactError("the template arguments are unknown")
    if kernel.template:
        values = "_".join(_known(t.argument, f"template {t.name}") for t in kernel.template)
        parts.append(f"_{values}".replace("-", "_"))
    for given in kernel.inputs:
        dtype = MSL_TYPES.get(given.dtype) if given.dtype else None
        mark = {"&": "s", "*": "c" if given.address_space == "constant" else ""}
        _known(given.address_space, f"the size of {given.name}")
        kind = _known(given.declarator, f"the rank of {given.name}")
        parts.append(_known(dtype, f"the dtype of {given.name}") + mark[kind])
    for output in kernel.outputs:
        dtype = MSL_TYPES.get(output.dtype) if output.dtype else None
        parts.append(_known(dtype, f"the dtype of {output.name}"))
    return "_".join(parts)


def generated_source(kernel: KernelArguments) -> str:
    """The Metal source that MLX hands to the compiler, after its preamble.

    Equal character for character, MLX's own code generation bug included.

    Raises:
        UnknownFactError: a fact that the text depends on is unknown.
    """
    name = function_name(kernel)
    made = signature(kernel)
    chunks = [kernel.header]
    if kernel.template:
        chunks.append(f"template <{', '.join(f'{t.kind} {t.name}' for t in kernel.template)}>\n")
    chunks.append(f"[[kernel]] void {name}(\n")
    chunks += _parameter_text(kernel, made)
    chunks += [kernel.source, "\n}\n"]
    if kernel.template:
        instance = f"{name}<{', '.join(str(t.argument) for t in kernel.template)}>"
        chunks.append(
            f'\ntemplate [[host_name("{name}")]] [[kernel]] decltype({instance}) {instance};\n'
        )
    return "".join(chunks)


def head(kernel: KernelArguments) -> str:
    """The head of the function, as far as it is known: choices represent what is unknown.

    MLX's code generation bug is left out: ``Signature.malformed`` reports it.
    """
    made = signature(kernel)
    lines = []
    if kernel.template is None:
        lines.append("template <the launch's template arguments>")
    elif kernel.template:
        kinds = (f"{t.kind or '<typename, int or bool>'} {t.name}" for t in kernel.template)
        lines.append(f"template <{', '.join(kinds)}>")
    try:
        name = function_name(kernel)
    except UnknownFactError:
        name = f"custom_kernel_{kernel.name}_..."
    lines.append(f"[[kernel]] void {name}(")
    lines.append(",\n".join(f"  {p.text}" for p in made.parameters) + ")")
    return "\n".join(lines)


def _parameter_text(kernel: KernelArguments, made: Signature) -> Iterator[str]:
    attributes = made.attributes()
    last_output = len(kernel.inputs) + len(kernel.outputs) - 1
    for p in made.parameters:
        if p.role == "output":
            more = bool(attributes) or _known(p.index, f"the index of {p.name}") < last_output
        elif p.role == "attribute":
            more = p.name != attributes[-1]
        else:
            more = True
        yield f"  {p.text}" + (",\n" if more else ") {\n")


def _known(value: _T | None, what: str) -> _T:
    if value is None:
        raise UnknownFactError(f"{what} is unknown")
    return value
