"""The names of a kernel that its header mentions without having them in scope.

MLX looks for attributes and for ``x_shape``, ``x_strides`` and ``x_ndim`` in ``source`` alone, and
what it passes are parameters of the kernel: the functions of a header never see them, and a macro
of the header sees them only where the body mentions them as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.metal.program.texts import as_written
from embercoach.metal.written.body import undeclared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.preprocessor.expansion import Macro
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
