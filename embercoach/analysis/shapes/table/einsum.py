"""``mx.einsum``: subscripts with repeated letters and ellipses."""

from __future__ import annotations

from msgspec import Struct

from embercoach.analysis.shapes.arrays import (
    FLOATS,
    UNKNOWN,
    ArrayShape,
    DType,
    ShapedArray,
    promote,
    unknown_shape,
)
from embercoach.analysis.shapes.requirements import Condition, Requirements, is_among
from embercoach.analysis.shapes.size_integers import ANY_INT, Comparison, Integer, compare
from embercoach.analysis.shapes.table.elementwise import array_argument
from embercoach.analysis.shapes.table.indexing import chained
from embercoach.analysis.shapes.table.losses import summed
from embercoach.analysis.shapes.table.products import inexact, with_last
from embercoach.analysis.shapes.table.transfers import transfer

#: Longer subscripts are not parsed.
LONGEST = 200


class Subscript(Struct, frozen=True):
    """The letters of one operand or of the result: those ahead of an ellipsis, and the rest.

    ``behind``: None without an ellipsis.
    """

    ahead: str
    behind: str | None = None

    @property
    def letters(self) -> str:
        """All letters."""
        return self.ahead + (self.behind or "")


def parsed(requirements: Requirements, text: str) -> Subscript:
    """The subscript of one operand."""
    ahead, dots, behind = text.partition("...")
    for letter in ahead + behind:
        if not (letter.isascii() and letter.isalpha()):
            requirements.fail(f"the subscript {text!r} has {letter!r}, which is not a letter")
    return Subscript(ahead, behind if dots else None)


def subscripts_of(requirements: Requirements, text: str) -> tuple[list[Subscript], Subscript]:
    """The subscripts of the operands, and that of the result."""
    left, arrow, right = text.replace(" ", "").partition("->")
    inputs = [parsed(requirements, part) for part in left.split(",")]
    if arrow:
        output = parsed(requirements, right)
    else:
        letters = "".join(one.letters for one in inputs)
        once = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
        has_ellipsis = any(one.behind is not None for one in inputs)
        output = Subscript("", once) if has_ellipsis else Subscript(once)
    if len(set(output.letters)) < len(output.letters):
        requirements.fail(f"the result's subscript {right!r} has a letter twice")
    for letter in output.letters:
        if not any(letter in one.letters for one in inputs):
            requirements.fail(f"no operand has the result's subscript {letter!r}")
    return inputs, output


@transfer("einsum")
def einsum(requirements: Requirements, subscripts: object, *operands: object) -> object:
    """``mx.einsum``: letters of one operand are summed, those of several are contracted."""
    if not isinstance(subscripts, str) or len(subscripts) > LONGEST:
        if isinstance(subscripts, ShapedArray):
            requirements.fail("the first argument is an array, not the subscripts")
        return ShapedArray(unknown_shape())
    arrays = [array_argument(requirements, value) for value in operands]
    inputs, output = subscripts_of(requirements, subscripts)
    if len(inputs) != len(arrays):
        requirements.fail(
            f"{subscripts!r} is for {len(inputs)} arrays, and {len(arrays)} are given"
        )
    sizes: dict[str, Integer] = {}
    ellipsis, wide, is_open = ArrayShape(), 0, False
    for one, array in zip(inputs, arrays, strict=True):
        own, between = _read(requirements, one, array, subscripts)
        ellipsis = requirements.broadcast(ellipsis, between)
        wide += between.rank != 0
        is_open = is_open or between.rank is None
        for letter, size in own.items():
            reason = f"{letter!r} of {subscripts!r} is {sizes.get(letter)} and {size}"
            others = tuple(n for at, n in own.items() if at != letter)
            sizes[letter] = meeting(requirements, sizes.get(letter, 1), size, reason, others)
    dtype = _dtype(requirements, arrays, inputs, output)
    if wide and output.behind is None:
        # The axes of ellipses are summed, or contracted like letters.
        if is_open:
            dtype = dtype if isinstance(dtype, str) and dtype in FLOATS else None
        else:
            dtype = summed(dtype) if wide == 1 else inexact(requirements, dtype)
    shape = ArrayShape(tuple(sizes[letter] for letter in output.ahead))
    if output.behind is not None:
        shape = with_last(chained(shape, ellipsis), *(sizes[letter] for letter in output.behind))
    return ShapedArray(shape, dtype)


def _read(
    requirements: Requirements, subscript: Subscript, array: ShapedArray, text: str
) -> tuple[dict[str, Integer], ArrayShape]:
    """The sizes of an operand's letters, and the axes of its ellipsis."""
    shape, letters = array.shape, subscript.letters
    reason = f"the subscript {letters!r} of {text!r} doesn't fit the shape {shape}"
    between = ArrayShape()
    if subscript.behind is None:
        values = requirements.rank(array, len(letters), reason)
    else:
        requirements.least_rank(array, len(letters), reason)
        first, last = len(subscript.ahead), len(subscript.behind)
        values = (
            *(shape.size(at) for at in range(first)),
            *(shape.size(at) for at in range(-last, 0)),
        )
        between = _between(shape, first, last)
    sizes: dict[str, Integer] = {}
    for letter, size in zip(letters, values, strict=True):
        said = f"{letter!r} of {text!r} is {sizes.get(letter)} and {size} in {shape}"
        sizes[letter] = requirements.equal(sizes.get(letter, size), size, said)
    return sizes, between


def _between(shape: ArrayShape, first: int, last: int) -> ArrayShape:
    """The axes that an ellipsis stands for."""
    if shape.middle is None:
        return ArrayShape(shape.head[first : len(shape.head) - last])
    if len(shape.head) < first or len(shape.tail) < last:
        return unknown_shape()
    return ArrayShape(shape.head[first:], shape.middle, shape.tail[: len(shape.tail) - last])


def meeting(
    requirements: Requirements,
    m: Integer,
    n: Integer,
    reason: str,
    others: tuple[Integer, ...] = (),
) -> Integer:
    """The size of a letter in two operands, which are equal unless one is 1.

    Args:
        requirements: get the condition.
        m: in one operand.
        n: in another one.
        reason: why they raise.
        others: the sizes of other letters in the other operand.
    """
    if type(m) is int and m == 1:
        return n
    if type(n) is int and n == 1:
        return m
    comparison = compare(m, n)
    if comparison is Comparison.EQUAL:
        return m
    if m is not ANY_INT and n is not ANY_INT:
        if type(m) is int and type(n) is int:
            requirements.fail(reason)
        if comparison is Comparison.DIFFERENT:
            comparison = Comparison.DEGENERATE
        is_unmeant = is_among(m, others)
        requirements.conditions.append(
            Condition(m, n, comparison, reason, allows_one=True, is_unmeant=is_unmeant)
        )
    known = [size for size in (m, n) if type(size) is int and size > 1]
    return known[0] if known else ANY_INT


def _dtype(
    requirements: Requirements,
    arrays: list[ShapedArray],
    inputs: list[Subscript],
    output: Subscript,
) -> DType:
    """The dtype of the result: contractions need a floating one."""
    letters = [set(one.letters) for one in inputs]
    found: list[DType] = []
    for own, array in zip(letters, arrays, strict=True):
        others = [one for one in letters if one is not own]
        alone = own.difference(*others, output.letters)
        found.append(summed(array.dtype) if alone else array.dtype)
    dtype = found[0] if found else None
    for one in found[1:]:
        dtype = promote(dtype, one)
    gone = set().union(*letters).difference(output.letters)
    if any(sum(letter in own for own in letters) > 1 for letter in gone):
        return inexact(requirements, dtype)
    return dtype


@transfer("einsum_path")
def einsum_path(requirements: Requirements, subscripts: object, *operands: object) -> object:
    """``mx.einsum_path``: an order, which isn't followed."""
    return UNKNOWN
