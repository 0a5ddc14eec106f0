"""The texts that MLX would generate for a kernel when it is launched a little differently."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mlx.core as mx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: Inputs with fewer elements than this lie in `constant` memory, others in `device` memory.
SMALL = 8
FLOATS = (mx.float32, mx.float16, mx.bfloat16)

Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Variant:
    """A launch that the program does not make.

    Attributes:
        words: the difference, to follow "does not compile".
        arguments: of the kernel's call.
    """

    words: str
    arguments: Arguments


@dataclass(frozen=True, slots=True)
class VariantFamily:
    """Variants that may be tried together: where all at once compile, each of them does.

    Attributes:
        together: all of them at once.
        each: one by one.
    """

    together: Variant
    each: tuple[Variant, ...]


def families(names: Sequence[str], arguments: Mapping[str, Any]) -> Iterator[VariantFamily]:
    """The variants of a launch.

    Small inputs and scalars are other parameters of the function; another floating dtype is one
    only where the template names the dtype, as the kernel is meant to be generic there.

    Args:
        names: of the inputs.
        arguments: keywords of the kernel's call.
    """
    inputs = arguments.get("inputs")
    if not isinstance(inputs, (list, tuple)):
        return
    yield from _of_shape(names, arguments, "fewer than 8 elements", _made_small)
    yield from _of_shape(names, arguments, "no dimensions", _made_scalar)
    yield from _of_shape(names, arguments, "one dimension", _made_vector)
    for old in _dtypes(arguments.get("template")):
        for new in FLOATS:
            if new != old:
                words = f"with {_word(new)} for {_word(old)}"
                variant = Variant(words, _recast(arguments, old, new))
                yield VariantFamily(variant, (variant,))


def key(arguments: Mapping[str, Any]) -> str:
    """Return a key of a launch: equal for launches with the same variants."""
    inputs = [
        (str(value.dtype), value.ndim, value.size < SMALL)
        if isinstance(value, mx.array)
        else type(value).__name__
        for value in arguments.get("inputs") or ()
    ]
    others = [repr(arguments.get(name)) for name in ("template", "output_dtypes")]
    return repr((inputs, others))


def _of_shape(
    names: Sequence[str],
    arguments: Mapping[str, Any],
    words: str,
    change: Callable[[mx.array], mx.array | None],
) -> Iterator[VariantFamily]:
    """Each input changed, where it can be."""
    inputs = list(arguments["inputs"])
    changed = {
        number: made
        for number, value in enumerate(inputs)
        if isinstance(value, mx.array) and (made := change(value)) is not None
    }
    if not changed:
        return

    def variant(numbers: Sequence[int]) -> Variant:
        replaced = [changed[n] if n in numbers else value for n, value in enumerate(inputs)]
        given = " and ".join(f"`{names[n]}`" for n in numbers if n < len(names))
        verb = "has" if len(numbers) == 1 else "have"
        return Variant(f"if {given} {verb} {words}", {**arguments, "inputs": replaced})

    yield VariantFamily(variant(list(changed)), tuple(variant([number]) for number in changed))


def _made_small(value: mx.array) -> mx.array | None:
    if value.size < SMALL or value.ndim == 0:
        return None
    return mx.zeros((1,) * value.ndim, dtype=value.dtype, stream=mx.cpu)


def _made_scalar(value: mx.array) -> mx.array | None:
    """Only of what is one number already: a body that indexes an array can't take a scalar."""
    if value.shape != (1,):
        return None
    return mx.zeros((), dtype=value.dtype, stream=mx.cpu)


def _made_vector(value: mx.array) -> mx.array | None:
    return mx.zeros((1,), dtype=value.dtype, stream=mx.cpu) if value.ndim == 0 else None


def _dtypes(template: Any) -> list[mx.Dtype]:
    """The floating dtypes that a template names."""
    pairs = template if isinstance(template, (list, tuple)) else ()
    values = [pair[1] for pair in pairs if isinstance(pair, (list, tuple)) and len(pair) == 2]
    found = (dtype for dtype in FLOATS if any(value == dtype for value in values))
    return list(found)


def _recast(arguments: Mapping[str, Any], old: mx.Dtype, new: mx.Dtype) -> Arguments:
    """The launch with one dtype for another, wherever it stands."""

    def renamed(value: Any) -> Any:
        return new if isinstance(value, mx.Dtype) and value == old else value

    inputs = [
        mx.zeros(value.shape, dtype=new, stream=mx.cpu)
        if isinstance(value, mx.array) and value.dtype == old
        else value
        for value in arguments["inputs"]
    ]
    template = [(name, renamed(value)) for name, value in arguments["template"]]
    dtypes = [renamed(dtype) for dtype in arguments.get("output_dtypes") or ()]
    return {**arguments, "inputs": inputs, "template": template, "output_dtypes": dtypes}


def _word(dtype: mx.Dtype) -> str:
    return str(dtype).rpartition(".")[2]
