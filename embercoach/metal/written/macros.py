"""The macros that a text defines, and how far they blur the meaning of its names."""

from __future__ import annotations

import re
from functools import cached_property

from msgspec import Struct

from embercoach.metal.preprocessor import Macro, read_definition
from embercoach.metal.syntax import ADDRESS_SPACES, ENTRY_QUALIFIERS, LEXICAL
from embercoach.metal.tokens import tokens_of

# The contents of a macro that vanishes without a trace for the grammar.
_EMPTY_WORDS = (
    ADDRESS_SPACES | ENTRY_QUALIFIERS | {"METAL_FUNC", "inline", "static", "constexpr", "const"}
)
_DEFINITION = re.compile(
    LEXICAL
    + rb"""
    | ^[ \t]*\#[ \t]*define\b(?P<definition>(?:/\*.*?\*/|\\\r?\n|[^\n])*)
""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


class Macros(Struct, frozen=True, dict=True):
    """The macros of a text, those around it included."""

    items: tuple[Macro, ...] = ()

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the macros."""
        return frozenset(macro.name for macro in self.items)

    @cached_property
    def functions(self) -> frozenset[str]:
        """The names of the function-like ones."""
        return frozenset(macro.name for macro in self.items if macro.parameters is not None)

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """Every name in a macro or naming one: where it is expanded, it may be declared."""
        return self.names.union(*(macro.names for macro in self.items))

    @property
    def paste(self) -> bool:
        """Return whether a macro builds names with ``##``: then any name may be declared."""
        return any(token.text == "##" for macro in self.items for token in macro.body)

    @cached_property
    def blanks(self) -> frozenset[str]:
        """Object-like macros that represent a pragma, qualifiers, or nothing."""
        return frozenset(m.name for m in self.items if m.parameters is None and _vanishes(m))

    def joined(self, other: Macros) -> Macros:
        """These macros and those of a text around this one."""
        return Macros(other.items + self.items)


def _vanishes(macro: Macro) -> bool:
    words = [token.text for token in macro.body]
    return words[:1] in (["_Pragma"], ["__attribute__"]) or _EMPTY_WORDS.issuperset(words)


def read_macros(text: str) -> Macros:
    """The macros that a text defines, under whatever condition."""
    if "define" not in text:
        return Macros()
    lines = (match["definition"] for match in _DEFINITION.finditer(text.encode(errors="replace")))
    found = (read_definition(list(tokens_of(line.decode()))) for line in lines if line is not None)
    return Macros(tuple(macro for macro in found if macro is not None))
