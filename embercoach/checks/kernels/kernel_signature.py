"""KERNEL-SIG-006 to 009: what a body may expect of the parameters that MLX writes for it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from embercoach.checks.kernels.kernel_inputs import uses_of_inputs
from embercoach.checks.programs.kernels import KernelBody
from embercoach.checks.programs.metal_checks import MetalReport
from embercoach.checks.registry import check
from embercoach.metal import contract
from embercoach.metal.contract import ATTRIBUTES, shape_names
from embercoach.metal.execution.parameter_uses import attribute_mismatches
from embercoach.metal.preprocessor import Macro
from embercoach.metal.program.texts import as_written
from embercoach.metal.program.written_facts import MetalText, undeclared
from embercoach.metal.text_facts import TextSpan

#: Attributes of the region that a draw's stage-in data is dispatched over, not of a launch.
STAGE_IN = frozenset(("grid_size", "grid_origin"))


@check("KERNEL-SIG-006", "KERNEL-SIG-007", "KERNEL-SIG-008", "KERNEL-SIG-009")
def kernel_signatures(kernel: KernelBody) -> Iterator[MetalReport]:
    """Yield each kernel of the file whose texts and names are known."""
    arguments = [kernel.arguments(launch) for launch in kernel.ways] if kernel.is_whole else []
    made = [one for one in arguments if one is not None]
    if made:
        yield from _out_of_reach(kernel, made)
        yield from _redeclared(kernel, made)
        yield from _stage_in(kernel)
        yield from _malformed(kernel, made)
        yield from _mismatched(kernel)


def _out_of_reach(
    kernel: KernelBody, made: list[contract.KernelArguments]
) -> Iterator[MetalReport]:
    """Yield names of the kernel that its header mentions."""
    header = kernel.header
    if not header.text.strip():
        return
    inputs, outputs = kernel.inputs or (), kernel.outputs or ()
    on_mention = ATTRIBUTES.keys() | {n for name in inputs for n in shape_names(name)}
    templates = {given.name for one in made for given in one.template or ()}
    # Functions of the header do not see them.
    names = on_mention.union(inputs, outputs, templates)
    first = {use.name: use for use in reversed(undeclared(header)) if use.name in names}
    for use in first.values():
        yield MetalReport(
            "KERNEL-SIG-006",
            header.at(use.place),
            f"undeclared identifier `{use.name}` in a function of `header`",
            "Add a parameter to the function, and pass the value from the body",
        )
    missing = {name for name in on_mention if name not in kernel.text.text}
    for macro, place, found in _expanded(header, kernel.text, missing):
        listed = " and ".join(f"`{name}`" for name in sorted(found))
        yield MetalReport(
            "KERNEL-SIG-006",
            kernel.text.at(place),
            f"macro `{macro}` expands to {listed}, which `source` never mentions",
            "Name it in the body, or pass it to the macro as an argument",
        )


def _expanded(
    header: MetalText, body: MetalText, missing: set[str]
) -> Iterator[tuple[str, TextSpan, set[str]]]:
    """Macros of the header where the body expands them, with the missing names that they yield."""
    own = {macro.name for macro in body.macros.items} - {m.name for m in header.macros.items}
    mentions = {
        macro.name: found
        for macro in header.macros.items
        if macro.name not in own and (found := _reached(macro, header) & missing)
    }
    if not mentions:
        return
    seen = {d.name for d in body.declarations}
    parsed = as_written(body.text, "body", header.macros.blanks)
    for part in parsed.of_kinds("identifier", "type_identifier"):
        name = parsed.word(part)
        if parsed.holds(part) and name in mentions and name not in seen:
            seen.add(name)
            yield name, parsed.place(part), mentions[name]


def _reached(macro: Macro, header: MetalText) -> set[str]:
    """Return the names that a macro expands to, through further macros of the header."""
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


def _redeclared(kernel: KernelBody, made: list[contract.KernelArguments]) -> Iterator[MetalReport]:
    """Locals with the name of a parameter, and any declaration with that of a template argument.

    C++ refuses to declare a parameter again in a body; in an inner scope it is a new variable.
    """
    indexed = _indexed(kernel)
    signatures = [contract.signature(_with_ranks(one, indexed)) for one in made]
    certain = frozenset.intersection(*(s.certain_names for s in signatures))
    for declaration in kernel.text.declarations:
        if declaration.depth or declaration.name not in certain:
            continue
        if declaration.kind in ("field", "enumerator"):
            continue
        name = declaration.name
        parameter = signatures[0].by_name.get(name)
        if parameter is None:
            what = "template argument"
        elif parameter.role == "attribute":
            what = "thread attribute"
        else:
            what = parameter.role
        yield MetalReport(
            "KERNEL-SIG-007",
            kernel.text.at(declaration.place),
            f"redefinition of {what} `{name}`",
            f"Rename the local, for example to `my_{name}`"
            if parameter is None or parameter.role != "attribute"
            else "Drop the declaration to use the attribute, or rename the local",
        )


def _indexed(kernel: KernelBody) -> frozenset[str]:
    """Return the inputs that the body takes elements of, so that they cannot be 0-d.

    Asked for only where the body declares the name of something that 0-d inputs lack.
    """
    declared = {d.name for d in kernel.text.declarations if d.depth == 0}
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


def _stage_in(kernel: KernelBody) -> Iterator[MetalReport]:
    """``grid_size``, which is not a size of the launch."""
    own = kernel.text.macros.names.union(kernel.inputs or (), kernel.outputs or ())
    for use in kernel.text.attribute_uses:
        if use.name not in STAGE_IN or use.name in own:
            continue
        yield MetalReport(
            "KERNEL-SIG-007",
            kernel.text.at(use.place),
            f"`{use.name}` describes stage-in data, not the grid of the launch",
            "Use `threads_per_grid` for threads, `threadgroups_per_grid` for threadgroups"
            if use.name == "grid_size"
            else "Drop it: the grid of an MLX kernel begins at 0",
        )
        return


def _mismatched(kernel: KernelBody) -> Iterator[MetalReport]:
    """``uint i = thread_position_in_grid;``, and ``.x`` of what is a number."""
    program = kernel.program()
    for found in attribute_mismatches(program) if program is not None else ():
        name, kind = found.attribute, ATTRIBUTES[found.attribute]
        advice = f"Write `{name}` without a component"
        if kind.endswith("3"):
            advice = f"Write `{name}.x`, or another component"
        if found.spot.text == "body":
            what = f"`{name}` is a `{kind}` but {found.what}"
            yield MetalReport("KERNEL-SIG-009", found.spot, what, advice)


def _malformed(kernel: KernelBody, made: list[contract.KernelArguments]) -> Iterator[MetalReport]:
    """Yield two outputs, no attribute, and the shape of an input: MLX's own bug."""
    metadata = {n for name in kernel.inputs or () for n in shape_names(name)}
    used = [use for use in kernel.text.free if use.name in metadata]
    if not used:
        return
    for one in made:
        ranked = tuple(_ranked(given, {use.name for use in used}) for given in one.inputs)
        if not contract.signature(replace(one, inputs=ranked)).malformed:
            return
    yield MetalReport(
        "KERNEL-SIG-008",
        kernel.text.at(used[0].place),
        f"MLX closes the parameter list early: {len(kernel.outputs or ())} outputs, "
        f"`{used[0].name}`, no thread attribute",
        "Mention a thread attribute such as `thread_position_in_grid`, even in a comment",
    )


def _ranked(given: contract.Input, used: set[str]) -> contract.Input:
    """An input with at least one dimension where the body reads its shape, as it must then have."""
    if given.ndim is None and given.size is None and not used.isdisjoint(shape_names(given.name)):
        return contract.Input(given.name, given.dtype, 1)
    return given
