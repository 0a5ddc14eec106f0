"""The exact text that MLX generates for a kernel whose facts are all known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.programs.generated_signatures import function_name
from embercoach.metal.contract import signature

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.contract import KernelArguments, Signature


def generated_source(kernel: KernelArguments) -> str:
    """The Metal source that MLX hands to the compiler, after its preamble.

    Equal character for character, MLX's own code generation bug included.
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


def _parameter_text(kernel: KernelArguments, made: Signature) -> Iterator[str]:
    attributes = made.attributes()
    last_output = len(kernel.inputs) + len(kernel.outputs) - 1
    for p in made.parameters:
        if p.role == "output":
            assert p.index is not None
            more = bool(attributes) or p.index < last_output
        elif p.role == "attribute":
            more = p.name != attributes[-1]
        else:
            more = True
        yield f"  {p.text}" + (",\n" if more else ") {\n")
