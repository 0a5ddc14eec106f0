"""The function that MLX generates for a kernel: its name and head, by the rules in ``contract``."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from embercoach.metal.contract import MSL_TYPES, signature

if TYPE_CHECKING:
    from embercoach.metal.contract import KernelArguments

_T = TypeVar("_T")


class UnknownFactError(ValueError):
    """A fact that the exact name depends on is unknown."""


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


def _known(value: _T | None, what: str) -> _T:
    if value is None:
        raise UnknownFactError(f"{what} is unknown")
    return value
