"""Gives operations made of kernels what MLX's transformations ask for.

MLX 0.32 derives nothing from a kernel, and asks an `mx.custom_function` for its rules. Its
transformations find the rules in different ways:

- `mx.grad` and `mx.vjp` stop at a custom function and ask for its gradient.
- `mx.jvp` walks the inside first, unless it depends on constants alone. `mx.stop_gradient` of the
  inputs makes it so, and the rule differentiates the same operation in MLX operations.
- `mx.vmap` walks the inside whatever rules there are, and fails at a kernel. A function in front of
  the kernel fails before, with a message that names the operator.
- `mx.export_function` and `mx.compile(shapeless=True)` refuse custom functions.

Under `mx.vmap` the rule of a custom function that consists of MLX operations keeps its gradient,
which MLX's default rule would drop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeAlias

import mlx.core as mx

from xlstm_kernels.executors import NATIVE

Arrays: TypeAlias = tuple[mx.array, ...]
Operation: TypeAlias = Callable[..., Any]
Gradient: TypeAlias = Callable[..., Arrays]

_inference: ContextVar[bool] = ContextVar("inference", default=False)


@contextmanager
def inference() -> Iterator[None]:
    """Leave out what gradients, `mx.vmap` and `mx.jvp` need of all operators called in the block.

    Values are the same. `mx.export_function` takes the operators then, with their kernels, and a
    call costs the host less. Kernels have no gradient then: MLX refuses to derive one.
    """
    token = _inference.set(True)
    try:
        yield
    finally:
        _inference.reset(token)


def differentiable(
    function: Operation,
    gradient: Gradient,
    *,
    of_outputs: bool = False,
    jvp_by_gradient: bool = False,
) -> Operation:
    """Return `function`, which consists of MLX operations, with a custom gradient.

    Args:
        function: takes arrays, returns an array or a tuple of arrays.
        gradient: called with the inputs of `function` and the cotangents of its outputs, returns
            the gradient in each input. Made of differentiable operations, it has a gradient too.
        of_outputs: call it with the outputs of `function` as well.
        jvp_by_gradient: make the rule for `mx.jvp` of `gradient`, where MLX has none for operations
            in `function`.
    """
    whole = _with_outputs(gradient, of_outputs=of_outputs)
    return _with_rules(
        function,
        lambda *arrays: function(*_constants(arrays)),
        whole,
        None if jvp_by_gradient else function,
        _mapped(function, whole),
    )


def on_backend(
    backend: str,
    launch: Operation,
    native: Operation,
    gradient: Gradient | None = None,
    *,
    operator: str,
    of_outputs: bool = False,
    jvp_by_gradient: bool = False,
) -> Operation:
    """Return `launch`, or on the backend "native" `native`, with a custom gradient.

    `launch` takes arrays, returns an array or a tuple of arrays, and launches kernels; `native` is
    the same in MLX operations, which `mx.jvp` differentiates unless it goes by the gradient. Where
    none is given, it is the one that MLX derives from `native`. `backend` is as `executors.resolve`
    returned it, `operator` the name in the message that refuses `mx.vmap` of kernels. Other
    arguments are those of `differentiable`.
    """
    gradient = gradient_of(native) if gradient is None else gradient
    if backend == NATIVE:
        return differentiable(
            native, gradient, of_outputs=of_outputs, jvp_by_gradient=jvp_by_gradient
        )
    whole = _with_outputs(gradient, of_outputs=of_outputs)
    return _with_rules(
        launch, _guarded(launch, operator), whole, None if jvp_by_gradient else native
    )


def with_gradient_kernel(
    backend: str, launch: Operation, native: Operation, pull_back: Gradient, *, operator: str
) -> Operation:
    """`on_backend` with a gradient that launches kernels too, and is defined by `native`."""

    @functools.cache
    def pulled(count: int) -> Operation:
        def of_both(rule: Gradient) -> Operation:
            return lambda *arrays: rule(arrays[:count], arrays[count:])

        derived = of_both(gradient_of(native))
        return on_backend(backend, of_both(pull_back), derived, operator=operator)

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        gradients: Arrays = pulled(len(primals))(*primals, *cotangents)
        return gradients

    return on_backend(backend, launch, native, gradient, operator=operator)


def decomposition(
    operator: str, backend: str, launch: Operation, native: Operation, gradient: Gradient
) -> Operation:
    """`on_backend` for what MLX cannot differentiate, with a gradient that takes outputs too."""
    return on_backend(
        backend,
        launch,
        native,
        gradient,
        operator=operator,
        of_outputs=True,
        jvp_by_gradient=True,
    )


def gradient_of(reference: Operation) -> Gradient:
    """Return the gradient that MLX derives from `reference`, which uses MLX operations."""

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        _, gradients = mx.vjp(reference, list(primals), list(cotangents))
        return tuple(gradients)

    return gradient


def selected(flags: mx.array, array: mx.array) -> mx.array:
    """`array` where the flags, which broadcast to it, are True, else zero.

    So is its gradient: that of `mx.where` is multiplied by zero there, and may be NaN.
    """

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        return mx.zeros_like(primals[0]), selected(primals[0], cotangents[0])

    result: mx.array = differentiable(
        lambda flags, array: mx.where(flags, array, mx.zeros_like(array)), gradient
    )(flags, array)
    return result


def _with_outputs(gradient: Gradient, *, of_outputs: bool) -> Gradient:
    """`gradient`, called with outputs too, which it does not take without `of_outputs`."""
    return gradient if of_outputs else lambda primals, cotangents, _: gradient(primals, cotangents)


def _with_rules(
    function: Operation,
    inside: Operation,
    gradient: Gradient,
    native: Operation | None,
    mapped: Operation | None = None,
) -> Operation:
    """`function` as `inside` with rules, of which `mx.jvp` differentiates `native` or `gradient`.

    MLX calls rules on whatever stream is the default then. These run on that of the values, as
    those of MLX's own operations: each stream has a custom function, the last of which is kept.
    """
    last: tuple[mx.Stream, Any] | None = None

    def pull_back(*groups: Any) -> Any:
        gradients = gradient(*map(_as_tuple, groups))
        return gradients[0] if len(gradients) == 1 else gradients

    def operation_on(stream: mx.Stream) -> Any:
        operation = mx.custom_function(inside)
        operation.vjp(partial(_run_on, stream, pull_back))
        operation.jvp(partial(_run_on, stream, push_forward))
        if mapped is not None:
            operation.vmap(partial(_run_on, stream, mapped))
        return operation

    def call(*arrays: mx.array) -> Any:
        nonlocal last
        if _inference.get():
            return function(*arrays)
        stream = mx.default_stream(mx.default_device())
        found = last  # threads share it
        if found is None or found[0] != stream:
            found = last = stream, operation_on(stream)
        return found[1](*arrays)

    push_forward = _tangents_of(native) if native else _transposed(call, gradient)
    return call


def _run_on(stream: mx.Stream, rule: Operation, *groups: Any) -> Any:
    with mx.stream(stream):
        return rule(*groups)


def _guarded(function: Operation, operator: str) -> Operation:
    """`function` of constants, the first one from a function that refuses `mx.vmap`."""
    guard: Any = mx.custom_function(lambda *arrays: arrays[0])

    def refuse(*_: Any) -> Any:
        raise ValueError(
            f"{operator}: MLX cannot vmap kernels; pass backend='native', or call it once with "
            "the mapped axis as a part of the batch axis"
        )

    guard.vmap(refuse)

    def guarded(*arrays: mx.array) -> Any:
        constants = _constants(arrays)
        return function(guard(*constants), *constants[1:])

    return guarded


def _constants(arrays: Arrays) -> list[mx.array]:
    return [mx.stop_gradient(array) for array in arrays]


def _tangents_of(native: Operation) -> Callable[[Any, Any], Any]:
    """The rule for `mx.jvp` that MLX derives from `native`."""

    def push_forward(primals: Any, tangents: Any) -> Any:
        primals, tangents = _as_tuple(primals), _as_tuple(tangents)
        moving = [place for place, tangent in enumerate(tangents) if tangent is not None]

        def of_moving(*arrays: mx.array) -> Any:
            whole = dict(enumerate(primals)) | dict(zip(moving, arrays, strict=True))
            return native(*whole.values())

        given = [[arrays[place] for place in moving] for arrays in (primals, tangents)]
        _, pushed = mx.jvp(of_moving, *given)
        return pushed

    return push_forward


def _transposed(operation: Operation, gradient: Gradient) -> Callable[[Any, Any], Any]:
    """A rule for `mx.jvp`: gradients are linear in cotangents, and transposed give the tangents."""

    def push_forward(primals: Any, tangents: Any) -> Any:
        primals, tangents = _as_tuple(primals), _as_tuple(tangents)
        moving = [place for place, tangent in enumerate(tangents) if tangent is not None]
        outputs = _as_tuple(operation(*primals))

        def pulled(*cotangents: mx.array) -> Any:
            gradients = gradient(primals, cotangents, outputs)
            return [gradients[place] for place in moving]

        zeros = [mx.zeros_like(output) for output in outputs]
        _, pushed = mx.vjp(pulled, zeros, [tangents[place] for place in moving])
        return pushed

    return push_forward


def _mapped(function: Operation, gradient: Gradient) -> Callable[[Any, Any], Any]:
    """The rule for `mx.vmap` of MLX operations: mapped, they have the mapped gradient."""

    def summed(mapped: mx.array, axis: int | None) -> mx.array:
        return mx.sum(mapped, axis=0) if axis is None else mx.moveaxis(mapped, 0, axis)

    def vectorise(inputs: Any, axes: Any) -> Any:
        axes = _as_tuple(axes)

        def pull_back(primals: Arrays, cotangents: Arrays, outputs: Arrays) -> Arrays:
            along = (axes, *((0,) * len(group) for group in (cotangents, outputs)))
            gradients = mx.vmap(gradient, in_axes=along)(primals, cotangents, outputs)
            return tuple(map(summed, gradients, axes))

        whole = mx.vmap(function, in_axes=axes)
        outputs = differentiable(whole, pull_back, of_outputs=True)(*_as_tuple(inputs))
        return outputs, 0 if isinstance(outputs, mx.array) else (0,) * len(outputs)

    return vectorise


def _as_tuple(arrays: Any) -> Any:
    """MLX hands a single array over bare, several as a sequence."""
    return tuple(arrays) if isinstance(arrays, (tuple, list)) else (arrays,)
