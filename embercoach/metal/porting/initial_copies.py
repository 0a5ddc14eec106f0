"""The first values of arrays that a kernel updates: MLX's outputs begin undefined.

Where a thread uses one element of the array, it copies this element. Otherwise the threads of the
threadgroup copy the array together: then a launch must have one threadgroup, since nothing makes
others wait.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.metal.contract import shape_names

if TYPE_CHECKING:
    from embercoach.metal.porting.arguments import ArrayArgument
    from embercoach.metal.porting.body_names import Edit, KernelNames
    from embercoach.metal.program.tree import SyntaxNode

_PLAIN = frozenset({"expression_statement", "declaration"})
_CONDITIONAL = frozenset({"conditional_expression", "&&", "||", "lambda_expression"})
#: Parts of an index that has the same value wherever it is computed.
_PURE = frozenset(
    {
        *("subscript_argument_list", "identifier", "number_literal", "binary_expression"),
        *("parenthesized_expression", "field_expression", "field_identifier"),
    }
)


@dataclass(frozen=True, slots=True)
class InitialCopy:
    """The copy of an array's first values.

    Attributes:
        edits: the line in front of the first use of the thread's element; none for a whole copy.
        prologue: the lines in front of the body for a whole copy.
    """

    edits: tuple[Edit, ...] = ()
    prologue: tuple[str, ...] = ()


def copied(
    array: ArrayArgument, names: KernelNames, edits: list[Edit], *, is_atomic: bool
) -> InitialCopy:
    """The copy that an updated array needs.

    Args:
        array: an updated one.
        names: of the kernel.
        edits: those of the body so far, which apply to the index of an element as well.
        is_atomic: MLX declares the outputs as atomic.
    """
    if not (array.is_view or array.is_atomic or array.is_reference):
        index = _own_element(array, names)
        statement = None if index is None else _first_statement(array, names)
        if index is not None and statement is not None and _is_declared(index, statement, names):
            element = names.part_text(index, edits)
            line = f"{array.name}{element} = {array.initial}{element};"
            return InitialCopy((names.before(statement, line),))
    return InitialCopy(prologue=_whole(array, is_atomic=is_atomic))


def _own_element(array: ArrayArgument, names: KernelNames) -> SyntaxNode | None:
    """The brackets with the one index at which a thread uses an array, None for several."""
    declaration = array.parameter.declaration
    if not names.is_clear(declaration):
        return None
    found: dict[tuple[object, ...], SyntaxNode] = {}
    for use in names.uses(declaration):
        above = names.parent(use)
        index = None if above is None else above.get("indices")
        if index is None or use.role != "argument":
            return None
        key = _fixed(index, names)
        if key is None:
            return None
        found.setdefault(key, index)
    return next(iter(found.values())) if len(found) == 1 else None


def _fixed(index: SyntaxNode, names: KernelNames) -> tuple[object, ...] | None:
    """The text and the variables of an index, None where it may change."""
    key: list[object] = [names.part_text(index, ())]
    for part in index.below():
        if part.named and part.kind not in _PURE:
            return None
        if part.kind == "identifier":
            declaration = names.binding(part)
            if declaration is None or names.is_changed(declaration):
                return None
            key.append(id(declaration))
    return tuple(key)


def _first_statement(array: ArrayArgument, names: KernelNames) -> SyntaxNode | None:
    """The statement that uses an array first, if every thread that uses it runs this one."""
    uses = [use.start for use in names.uses(array.parameter.declaration)]
    block = names.body
    while True:
        users = [part for part in block.inner if _holds(part, uses)]
        first = users[0]
        if first.kind in _PLAIN:
            is_certain = _CONDITIONAL.isdisjoint(part.kind for part in first.below())
            return first if is_certain else None
        inner = first if first.kind == "compound_statement" else first.get("consequence")
        if len(users) > 1 or inner is None or inner.kind != "compound_statement":
            return None
        if not inner.start <= uses[0] <= uses[-1] < inner.end:
            return None
        block = inner


def _is_declared(index: SyntaxNode, statement: SyntaxNode, names: KernelNames) -> bool:
    """Return whether the variables of an index are declared in front of a statement."""
    start = names.replaced(statement, "").start
    bindings = [names.binding(part) for part in index.below() if part.kind == "identifier"]
    return all(one is not None and one.place.start < start for one in bindings)


def _holds(part: SyntaxNode, uses: list[int]) -> bool:
    """Return whether one of the sorted uses is in a part."""
    first = bisect_left(uses, part.start)
    return first < len(uses) and uses[first] < part.end


def _whole(array: ArrayArgument, *, is_atomic: bool) -> tuple[str, ...]:
    shape, _, ndim = shape_names(array.initial)
    copy = f"{array.name}[copy_index] = {array.initial}[copy_index];"
    if is_atomic:
        copy = (
            f"atomic_store_explicit(&{array.name}[copy_index], {array.initial}[copy_index], "
            "memory_order_relaxed);"
        )
    return (
        "{",
        "    uint copy_size = 1;",
        f"    for (int axis = 0; axis < {ndim}; ++axis) {{",
        f"        copy_size *= {shape}[axis];",
        "    }",
        "    uint3 copy_threads = threads_per_threadgroup;",
        "    uint copy_step = copy_threads.x * copy_threads.y * copy_threads.z;",
        "    for (uint copy_index = thread_index_in_threadgroup; copy_index < copy_size;",
        "         copy_index += copy_step) {",
        f"        {copy}",
        "    }",
        "}",
        "threadgroup_barrier(mem_flags::mem_device);",
    )
