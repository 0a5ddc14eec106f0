"""The messages of findings about shapes, and the shapes that the reasons of events name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.terminal_text import MOST_SHOWN, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.shapes.interpreter import ShapeEvent

_BROADCAST = " don't broadcast"
#: What the reason of an operation on two arrays begins with.
_OF_TWO = ("the shapes ", "the inner sizes of ", "the last sizes of ")


def message_of(event: ShapeEvent, code: str, doubt: str, where: str = "") -> str:
    """One line: what is called, both shapes, and what fails.

    Args:
        event: the event.
        code: of its rule.
        doubt: the condition under which it does not raise; empty if it always does.
        where: the file and line of the operation, where the message stands elsewhere.
    """
    text = ""
    for text in _messages(event, code, doubt, where):
        if len(text) <= MOST_SHOWN:
            break
    return quoted(text, MOST_SHOWN)


def _messages(event: ShapeEvent, code: str, doubt: str, where: str) -> Iterator[str]:
    """Messages, the longer ones first."""
    reason, name, shapes = event.reason, operation_name(event), shapes_in(event.reason)
    if is_broadcast(reason) and name == "`matmul`":
        reason = reason.replace("the shapes", "leading axes", 1)
    if code == "SHAPE-004" and len(shapes) > 1:
        size = reason.partition(" the elements of ")[2].partition(" are ")[0]
        before, after = map(written, shapes[:2])
        yield f"`reshape` of {before} to {after} mixes elements of {size}"
        yield f"`reshape` mixes elements of {size}"
    elif code == "SHAPE-005":
        yield f"`softmax` over {reason.partition(' is ')[0]}, and the product sums over the last"
    elif reason.endswith("all pairs") and len(shapes) > 1:
        yield f"{name} of {written(shapes[0])} and {written(shapes[1])} gives all pairs"
    elif event.condition is None:
        prefix = "" if event.code else f"{name}{where}: "
        yield prefix + _shortened(reason)
        yield prefix + _shortened(reason.rpartition(": ")[0] or reason)
    else:
        name += where
        subject = f"{name} of {' and '.join(map(written, shapes))}"
        effect = f"raises unless {doubt}"
        if code == "SHAPE-003":
            effect = f"aligns {event.condition.left} with {event.condition.right}"
        if reason.startswith(_OF_TWO) and len(shapes) == 2:
            yield f"{subject} {effect}"
        else:
            yield f"{name} {effect}: {_shortened(reason)}"
        yield f"{name} {effect}"


def operation_name(event: ShapeEvent) -> str:
    """The operation, as the program calls it."""
    name = event.operation.rpartition(".")[2]
    return {"__getitem__": "index", "__setitem__": "assignment"}.get(name, f"`{name}`")


def _shortened(reason: str) -> str:
    """A reason without articles at the beginning of its clauses."""
    text = reason.removeprefix("the ").replace(": the ", ": ")
    return text.replace(", and the ", ", ").replace("shape of the ", "shape of ")


def is_broadcast(reason: str) -> bool:
    """Return whether two shapes don't broadcast."""
    return reason.endswith(_BROADCAST)


def written(shape: tuple[str, ...]) -> str:
    """A shape of such sizes, as ``ArrayShape`` writes it."""
    return f"({', '.join(shape)}{',' if len(shape) == 1 else ''})"


def shapes_in(reason: str) -> list[tuple[str, ...]]:
    """The shapes that a reason names, as the texts of their sizes."""
    found: list[tuple[str, ...]] = []
    depth = start = 0
    sizes: list[str] = []
    for at, char in enumerate(reason):
        if char == "(":
            depth += 1
            if depth == 1:
                start, sizes, is_shape = at + 1, [], not reason[at - 1 : at].strip()
        elif char == ")" and depth:
            depth -= 1
            if depth == 0 and is_shape:
                last = reason[start:at].strip()
                if sizes or not last:  # other parentheses group a sum
                    found.append((*sizes, last) if last else tuple(sizes))
        elif char == "," and depth == 1:
            sizes.append(reason[start:at].strip())
            start = at + 1
    return found
