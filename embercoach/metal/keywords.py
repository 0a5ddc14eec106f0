"""Words of the language that no parameter can be named."""

from __future__ import annotations

_CPP = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class
compl const const_cast constexpr continue decltype default delete do double dynamic_cast else enum
explicit export extern false float for friend goto if inline int long mutable namespace new noexcept
not not_eq nullptr operator or or_eq private protected public register reinterpret_cast return short
signed sizeof static static_assert static_cast struct switch template this thread_local throw true
try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
"""

_METAL = """
bfloat constant device fragment half kernel ray_data thread threadgroup threadgroup_imageblock
vertex
"""

KEYWORDS = frozenset(f"{_CPP} {_METAL}".split())
"""Keywords of C++17 and the words that Metal adds: address spaces, function qualifiers, types."""


def is_identifier(name: str) -> bool:
    """Return whether a parameter may have this name, as far as its characters go."""
    return name.isidentifier() and name.isascii()
