"""Result expressions: the small language in which the table says what a call returns.

    array  list[array]  tuple[array,array]  tuple[array,...]  dict[str,array]  union[array,none]
    instance:mlx.nn.Linear

Atoms: `array`; `tree` (nested dicts, lists and tuples of arrays); `leaf` (a leaf of the tree given
as first argument: an array where that is a tree of parameters); the Python values `none`, `int`,
`float`, `bool`, `complex`, `str`, `bytes`; `shape` (a tuple of ints); `dtype`, `device`, `stream`;
`numpy` (a NumPy array); `module`; `callable`; `transform` (a function that wraps the one it was
given: `compile`, `grad`, ...); `same` (the type of the first argument, or of the owner of a method
or property); `unknown` says nothing.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

ATOMS = frozenset(
    (
        *("array", "bool", "bytes", "callable", "complex", "device", "dtype", "float", "int"),
        *("leaf", "module", "none", "numpy", "same", "shape", "str", "stream", "transform", "tree"),
        "unknown",
    )
)
CONTAINERS = frozenset({"dict", "list", "tuple", "union"})


class Result(Struct, frozen=True):
    """A parsed result expression.

    `head` is an atom, a container's name or `instance`; `items` are a container's parts (the
    element of a list, key and value of a dict, members of a tuple or union); `variadic` marks
    `tuple[x,...]`; `target` is the class of an instance.
    """

    head: str
    items: tuple[Result, ...] = ()
    variadic: bool = False
    target: str = ""

    def __str__(self) -> str:
        if self.head == "instance":
            return f"instance:{self.target}"
        if not self.items:
            return self.head
        inner = ",".join(str(item) for item in self.items)
        return f"{self.head}[{inner}{',...' if self.variadic else ''}]"


UNKNOWN = Result("unknown")


@lru_cache(maxsize=512)
def parse_result(text: str) -> Result:
    """Parse a result expression; raises `ValueError` on anything outside the grammar."""
    text = text.strip()
    if text.startswith("instance:"):
        target = text[len("instance:") :]
        if not all(part.isidentifier() for part in target.split(".")):
            raise ValueError(f"not a qualified name in result expression {text!r}")
        return Result("instance", target=target)
    if not text.endswith("]"):
        if text not in ATOMS:
            raise ValueError(f"unknown atom {text!r} in result expression")
        return Result(text)
    head, _, inner = text[:-1].partition("[")
    if head not in CONTAINERS:
        raise ValueError(f"unknown container {head!r} in result expression {text!r}")
    parts = _split(inner)
    variadic = head == "tuple" and parts[-1] == "..."
    items = tuple(parse_result(part) for part in (parts[:-1] if variadic else parts))
    expected = {"list": 1, "dict": 2}.get(head, 1 if variadic else len(items))
    if len(items) != expected:
        raise ValueError(f"incorrect number of parts in result expression {text!r}")
    return Result(head, items, variadic)


def _split(inner: str) -> list[str]:
    """Split at the commas that stand outside brackets."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(inner):
        if char in "[]":
            depth += 1 if char == "[" else -1
        elif char == "," and depth == 0:
            parts.append(inner[start:index])
            start = index + 1
    parts.append(inner[start:])
    return [part.strip() for part in parts]
