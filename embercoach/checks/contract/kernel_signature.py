"""KERNEL-SIG-006 to 009: what a body may expect of the parameters that MLX writes for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from embercoach.checks.contract.kernel_inputs import uses_of_inputs
from embercoach.checks.programs.kernel_plans import contracted
from embercoach.checks.registry import Report, check
from embercoach.metal import contract
from embercoach.metal.contract import ATTRIBUTES, shape_names
from embercoach.metal.program.texts import as_written
from embercoach.metal.written.body import undeclared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.checks.programs.kernel_plans import Contracted
    from embercoach.metal.preprocessor import Macro
    from embercoach.metal.text_facts import TextSpan, Use
    from embercoach.metal.written.body import MetalText

_NAMES = frozenset({"identifier", "type_identifier"})


@dataclass(frozen=True, slots=True)
class MacroUse:
    """A macro of the header where the body expands it, and what it mentions that is not passed."""

    macro: str
    missing: tuple[str, ...]
    place: TextSpan


def beyond_functions(header: MetalText, names: frozenset[str]) -> tuple[Use, ...]:
    """Uses of a kernel's names in the functions of its header, which do not see them."""
    return tuple(use for use in undeclared(header) if use.name in names)


def beyond_macros(
    header: MetalText, body: MetalText, passed_on_mention: frozenset[str]
) -> Iterator[MacroUse]:
    """Macros that expand to names which MLX would pass if ``source`` mentioned them.

    Args:
        header: of the kernel.
        body: of the kernel.
        passed_on_mention: names that MLX passes where the body's text holds them.
    """
    missing = {name for name in passed_on_mention if name not in body.text}
    own = {macro.name for macro in body.macros.items} - {m.name for m in header.macros.items}
    mentions = {
        macro.name: found
        for macro in header.macros.items
        if macro.name not in own and (found := _reached(macro, header) & missing)
    }
    if not mentions:
        return
    declared = {d.name for d in body.declarations}
    parsed = as_written(body.text, "body", header.macros.blanks)
    seen: set[str] = set()
    for part in parsed.tree.below():
        if part.kind not in _NAMES or not parsed.holds(part):
            continue
        name = parsed.word(part)
        if name in mentions and name not in seen and name not in declared:
            seen.add(name)
            yield MacroUse(name, tuple(sorted(mentions[name])), parsed.place(part))


def _reached(macro: Macro, header: MetalText) -> set[str]:
    """The names that a macro expands to, through further macros of the header."""
    table = {m.name: m for m in header.macros.items}
    found: set[str] = set()
    pending = [macro]
    while pending:
        current = pending.pop()
        for name in current.names.difference(current.parameters or ()):
            if name not in found:
                found.add(name)
                if name in table:
                    pending.append(table[name])
    return found


#: Attributes of the region that a draw's stage-in data is dispatched over, not of a launch.
STAGE_IN = frozenset(("grid_size", "grid_origin"))


@check("KERNEL-SIG-006", "KERNEL-SIG-007", "KERNEL-SIG-008", "KERNEL-SIG-009")
def kernel_signatures(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Each kernel of the file whose texts and names are known."""
    for kernel in contracted(module, facts):
        if not kernel.whole or kernel.inputs is None or kernel.outputs is None:
            continue
        yield from _out_of_reach(kernel, kernel.inputs, kernel.outputs)
        yield from _redeclared(kernel)
        yield from _stage_in(kernel, kernel.inputs, kernel.outputs)
        yield from _malformed(kernel)
        yield from _mismatched(kernel)


def _out_of_reach(
    kernel: Contracted, inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> Iterator[Report]:
    """Names of the kernel that its header mentions."""
    if not kernel.above.text.strip():
        return

    metadata = {n for name in inputs for n in shape_names(name)}
    on_mention = ATTRIBUTES.keys() | metadata
    templates = {name for launch in kernel.launches for name in launch.template or ()}
    names = frozenset(on_mention.union(inputs, outputs, templates))
    reported: set[str] = set()
    for use in beyond_functions(kernel.above, names):
        if use.name not in reported:
            reported.add(use.name)
            yield from kernel.at(
                "KERNEL-SIG-006",
                use.place,
                f"undeclared identifier `{use.name}` in a function of `header`",
                "Add a parameter to the function, and pass the value from the body",
                header=True,
            )
    for expanded in beyond_macros(kernel.above, kernel.body, frozenset(on_mention)):
        missing = " and ".join(f"`{name}`" for name in expanded.missing)
        yield from kernel.at(
            "KERNEL-SIG-006",
            expanded.place,
            f"macro `{expanded.macro}` expands to {missing}, which `source` never mentions",
            "Name it in the body, or pass it to the macro as an argument",
        )


def _described(kernel: Contracted) -> tuple[contract.KernelArguments, ...]:
    """The kernel as each launch makes it, or as any would where none is seen."""
    outputs = tuple(map(contract.Output, kernel.outputs or ()))
    made: dict[contract.KernelArguments, None] = {}
    for launch in kernel.launches or (None,):
        given = launch.inputs if launch is not None else None
        template = None if launch is None else launch.template
        arguments = None if template is None else tuple(map(contract.TemplateArgument, template))
        inputs = given or tuple(map(contract.Input, kernel.inputs or ()))
        text = kernel.source.text.text
        made[contract.KernelArguments("", inputs, outputs, text, template=arguments)] = None
    return tuple(made)


def _redeclared(kernel: Contracted) -> Iterator[Report]:
    """Locals with the name of a parameter, and any declaration with that of a template argument."""
    from embercoach.metal.written.body import redeclared

    indexed = _indexed(kernel)
    signatures = [contract.signature(_with_ranks(made, indexed)) for made in _described(kernel)]
    certain = frozenset.intersection(*(s.certain_names for s in signatures))
    for declaration in redeclared(kernel.body, certain):
        if declaration.kind in ("macro", "field", "enumerator"):
            continue
        name = declaration.name
        parameter = signatures[0].by_name.get(name)
        if parameter is None:
            what = "template argument"
        elif parameter.role == "attribute":
            what = "thread attribute"
        else:
            what = parameter.role
        yield from kernel.at(
            "KERNEL-SIG-007",
            declaration.place,
            f"redefinition of {what} `{name}`",
            f"Rename the local, for example to `my_{name}`"
            if parameter is None or parameter.role != "attribute"
            else "Drop the declaration to use the attribute, or rename the local",
        )


def _indexed(kernel: Contracted) -> frozenset[str]:
    """The inputs that the body takes elements of, so that they cannot be 0-d.

    Asked for only where the body declares the name of something that 0-d inputs lack.
    """
    declared = {d.name for d in kernel.body.declarations if d.depth == 0}
    names = [n for n in kernel.inputs or () if not declared.isdisjoint(shape_names(n))]
    uses = uses_of_inputs(kernel) if names else {}
    return frozenset(
        name for name in names if any(use.manner == "element" for use in uses.get(name, ()))
    )


def _with_ranks(made: contract.KernelArguments, names: frozenset[str]) -> contract.KernelArguments:
    inputs = tuple(
        replace(g, ranked=True) if g.name in names and g.ndim is None else g for g in made.inputs
    )
    return replace(made, inputs=inputs)


def _stage_in(
    kernel: Contracted, inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> Iterator[Report]:
    """``grid_size``, which is not a size of the launch."""
    for use in kernel.body.attribute_uses:
        if use.name not in STAGE_IN or use.name in (*inputs, *outputs):
            continue
        if use.name in kernel.body.macros.names:
            continue
        yield from kernel.at(
            "KERNEL-SIG-007",
            use.place,
            f"`{use.name}` describes stage-in data, not the grid of the launch",
            "Use `threads_per_grid` for threads, `threadgroups_per_grid` for threadgroups"
            if use.name == "grid_size"
            else "Drop it: the grid of an MLX kernel begins at 0",
        )
        return


def _mismatched(kernel: Contracted) -> Iterator[Report]:
    """``uint i = thread_position_in_grid;``, and ``.x`` of what is a number."""
    program = kernel.program
    if program is None:
        return
    from embercoach.metal.inspections.parameter_uses import attribute_mismatches

    for found in attribute_mismatches(program):
        if found.spot.text != "body":
            continue
        name, kind = found.attribute, ATTRIBUTES[found.attribute]
        is_vector = kind.endswith("3")
        yield from kernel.at(
            "KERNEL-SIG-009",
            found.spot.place,
            f"`{name}` is a `{kind}` but {found.what}",
            f"Write `{name}.x`, or another component"
            if is_vector
            else f"Write `{name}` without a component",
        )


def _malformed(kernel: Contracted) -> Iterator[Report]:
    """Two outputs, no attribute, and the shape of an input: MLX's own bug."""
    used = [use for use in kernel.body.free if _is_metadata(use.name, kernel.inputs or ())]
    if not used:
        return
    for made in _described(kernel):
        ranked = tuple(_ranked(given, {use.name for use in used}) for given in made.inputs)
        plain = contract.KernelArguments("", ranked, made.outputs, made.source)
        if not contract.signature(plain).malformed:
            return
    yield from kernel.at(
        "KERNEL-SIG-008",
        used[0].place,
        f"MLX closes the parameter list early: {len(kernel.outputs or ())} outputs, "
        f"`{used[0].name}`, no thread attribute",
        "Mention a thread attribute such as `thread_position_in_grid`, even in a comment",
    )


def _is_metadata(name: str, inputs: tuple[str, ...]) -> bool:
    return any(name in shape_names(given) for given in inputs)


def _ranked(given: contract.Input, used: set[str]) -> contract.Input:
    """An input with at least one dimension where the body reads its shape, as it must then have."""
    if given.ndim is None and given.size is None and not used.isdisjoint(shape_names(given.name)):
        return contract.Input(given.name, given.dtype, 1)
    return given
