"""Replaces what evaluates, promotes and traces arrays by functions that record it."""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from msgspec import Struct, field

from embercoach.trace.trace_recorder import Events, Recorder, clock

if TYPE_CHECKING:
    from embercoach.trace.trace_record import Kind

#: Bytes of an element before and after a promotion, and of one of each operand together.
_NARROW, _WIDE = 2, 4
_BOTH = (_NARROW + _NARROW, _NARROW + _WIDE)
#: The bytes of what has no elements: with those of any operand not in `_BOTH`.
_NEITHER = -16
_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
#: Functions of `mlx.core`, and of `mlx.core.fast`, whose result has the widest of their dtypes.
FUNCTIONS = (
    *("add", "addmm", "arctan2", "clip", "concatenate", "conv1d", "conv2d", "conv3d"),
    *("conv_general", "conv_transpose1d", "conv_transpose2d", "divide", "einsum", "floor_divide"),
    *("inner", "kron", "logaddexp", "matmul", "maximum", "minimum", "multiply", "outer", "power"),
    *("quantized_matmul", "remainder", "stack", "subtract", "tensordot", "where"),
)
FAST = ("layer_norm", "rms_norm", "scaled_dot_product_attention")


class Promotions:
    """Makes the replacements of MLX's operations.

    They run at each operation of a program: the sizes of elements, which are cheap to read, decide
    whether a promotion is possible, before any dtype is read.
    """

    def __init__(self, mx: Any, recorder: Recorder) -> None:
        self._mx = mx
        self._recorder = recorder
        self._wide = mx.float32
        self._narrow = (mx.float16, mx.bfloat16)
        self._details: dict[frozenset[Any], str] = {}

    def operators(self) -> dict[str, Callable[..., Any]]:
        """Methods of `mx.array` by name."""
        names = [f"__{way}{name}__" for name in _OPERATORS for way in ("", "r", "i")]
        own = self._mx.array.__dict__
        return {name: self._operator(own[name], name) for name in names if name in own}

    def functions(
        self, module: Any, names: Sequence[str], prefix: str
    ) -> dict[str, Callable[..., Any]]:
        """Return functions of a module by name.

        Args:
            module: `mlx.core`, or `mlx.core.fast`.
            names: of functions.
            prefix: of the module's names in reports.
        """
        return {name: self._function(getattr(module, name), f"{prefix}.{name}") for name in names}

    def _operator(self, real: Callable[..., Any], name: str) -> Callable[..., Any]:
        array, note = self._mx.array, self._note
        plain, in_place = name.strip("_"), name.startswith("__i")

        @functools.wraps(real)
        def operator(self: Any, other: Any) -> Any:
            # NumPy's arrays and scalars have the attribute; Python's numbers promote nothing.
            size = other.itemsize if type(other) is array else getattr(other, "itemsize", _NEITHER)
            if self.itemsize + size not in _BOTH:
                return real(self, other)
            # An operator in place changes it; elsewhere reading it early would take time.
            dtype = self.dtype if in_place else None
            result = real(self, other)
            if result.itemsize == _WIDE:
                note(plain, result, {dtype or self.dtype, other.dtype})
            return result

        return operator

    def _function(self, real: Callable[..., Any], name: str) -> Callable[..., Any]:
        array, note = self._mx.array, self._note

        @functools.wraps(real)
        def function(*arguments: Any, **named: Any) -> Any:
            result = real(*arguments, **named)
            first = arguments[0] if arguments else ()
            parts = first if type(first) in (list, tuple) else arguments
            for part in (*parts, *named.values()) if named else parts:
                if type(part) is array and part.itemsize == _NARROW:
                    if type(result) is array and result.itemsize == _WIDE:
                        given = (*parts, *named.values())
                        note(name, result, {one.dtype for one in given if type(one) is array})
                    break
            return result

        return function

    def _note(self, operation: str, result: Any, dtypes: set[Any]) -> None:
        if result.dtype != self._wide:
            return
        key = frozenset(dtypes)
        detail = self._details.get(key)
        if detail is None:
            detail = self._details[key] = self._detail(key)
        if detail:
            self._recorder.add("promotion", operation, 0.0, copied=result.nbytes, detail=detail)

    def _detail(self, dtypes: frozenset[Any]) -> str:
        """Return the dtypes by name, a 16-bit one first; empty if none is."""
        narrow = next((dtype for dtype in self._narrow if dtype in dtypes), None)
        if narrow is None:
            return ""
        others = (str(dtype) for dtype in dtypes if dtype != narrow)
        names = sorted({name.rpartition(".")[2] for name in others} - {"bool"})
        if not names:
            return ""
        return f"{str(narrow).rpartition('.')[2]} with {' and '.join(names)}"


_MOST_TEXT = 60
#: Traces of a function whose arguments are remembered.
_MOST_SIGNATURES = 4096
#: Functions of `mlx.core` that return a transformed function, and those that call one at once.
_MAKERS = ("grad", "value_and_grad", "vmap")
_CALLERS = ("vjp", "jvp", "export_function")
_Signature = dict[str, str]


def replacements(mx: Any, recorder: Recorder) -> dict[str, Callable[..., Any]]:
    """Return functions of `mlx.core` by name; each trace of what they compile is recorded.

    Inside of a transformation MLX calls a compiled function's Python function each time, as part
    of the graph around it. That is not a trace, and is not recorded.
    """
    real = mx.compile
    # MLX compares functions by identity: compiled functions of one function share its traces.
    known: WeakValueDictionary[int, _TracedFunction] = WeakValueDictionary()
    state = _State(compiles=not os.environ.get("MLX_DISABLE_COMPILE"))

    @functools.wraps(real)
    def compile(fun: Any, *arguments: Any, **named: Any) -> Any:  # noqa: A001  (MLX's name)
        if not callable(fun):
            return real(fun, *arguments, **named)
        traced = known.get(id(fun))
        if traced is None:
            traced = known[id(fun)] = _TracedFunction(fun, mx, recorder, state)
        traced.captured = arguments[0] if arguments else named.get("inputs", traced.captured)
        return real(traced, *arguments, **named)

    def maker(name: str) -> Callable[..., Any]:
        make = getattr(mx, name)

        @functools.wraps(make)
        def making(*arguments: Any, **named: Any) -> Any:
            return state.within(make(*arguments, **named))

        return making

    def switched(name: str, *, compiles: bool) -> Callable[..., Any]:
        switch = getattr(mx, name)

        @functools.wraps(switch)
        def switching(*arguments: Any, **named: Any) -> Any:
            result = switch(*arguments, **named)
            state.compiles = compiles
            return result

        return switching

    return {
        "compile": compile,
        "enable_compile": switched("enable_compile", compiles=True),
        "disable_compile": switched("disable_compile", compiles=False),
        **{name: maker(name) for name in _MAKERS},
        **{name: state.within(getattr(mx, name)) for name in _CALLERS},
    }


class _Depth(threading.local):
    """How many transformations a thread is inside of."""

    value = 0


class _State(Struct):
    """The state of compilation.

    Attributes:
        compiles: without it, MLX calls compiled functions each time.
        depth: of transformations around the running code.
    """

    compiles: bool
    depth: _Depth = field(default_factory=_Depth)

    def within(self, transformation: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that is as deep as a transformation while it runs."""

        @functools.wraps(transformation)
        def transforming(*arguments: Any, **named: Any) -> Any:
            self.depth.value += 1
            try:
                return transformation(*arguments, **named)
            finally:
                self.depth.value -= 1

        return transforming


class _TracedFunction:
    """A function that MLX calls in place of the one that a program compiles.

    Attributes:
        captured: the state that it was compiled with last.
    """

    def __init__(self, fun: Callable[..., Any], mx: Any, recorder: Recorder, state: _State) -> None:
        functools.update_wrapper(self, fun)
        self.captured: Any = None
        self._fun, self._mx, self._recorder, self._state = fun, mx, recorder, state
        self._name = f"mx.compile of {getattr(fun, '__qualname__', type(fun).__qualname__)}"
        self._parameters = _parameters(fun)
        self._before: _Signature | None = None
        # The thread and stream that traced with some arguments last, by a hash of them.
        self._traced: dict[int, tuple[int, str]] = {}

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        state = self._state
        if state.depth.value or not state.compiles:
            return self._fun(*arguments, **named)
        now = dict(self._signature(arguments, named))
        begin = clock()
        state.depth.value += 1
        try:
            return self._fun(*arguments, **named)
        finally:
            state.depth.value -= 1
            self._record(now, clock() - begin)

    def _record(self, now: _Signature, seconds: float) -> None:
        key = hash(tuple(now.items()))
        # MLX keeps traces by thread, and by the stream of operations that name none.
        place = threading.get_ident(), str(self._mx.default_stream(self._mx.default_device()))
        earlier = self._traced.get(key, place)
        before, self._before = self._before, now
        if before is None:
            self._recorder.add("compile", self._name, seconds)
        else:
            detail = _change(before, now)
            if earlier != place:
                detail = "another thread"
                if earlier[0] == place[0]:
                    detail = f"default stream: {earlier[1]}, then {place[1]}"
            self._recorder.add("retrace", self._name, seconds, detail=detail)
        if len(self._traced) >= _MOST_SIGNATURES:
            self._traced.clear()
        self._traced[key] = place

    def _signature(
        self, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Yield all that MLX compares before it uses an earlier trace, by path."""
        array = self._mx.array
        for index, value in enumerate(arguments):
            name = self._parameters[index] if index < len(self._parameters) else str(index + 1)
            yield from _leaves(value, array, f"argument {name}")
        for name, value in named.items():
            yield from _leaves(value, array, f"argument {name}")
        yield "order of keyword arguments", ", ".join(named)
        yield from _leaves(self.captured, array, "captured state")


def _parameters(fun: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of positional parameters; without those that ``*args`` takes."""
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return ()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(one.name for one in parameters if one.kind in positional)


def _leaves(value: Any, array: type, path: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of an argument that a compiled function depends on, by their paths."""
    if isinstance(value, array):
        dtype = str(value.dtype).rpartition(".")[2]  # type: ignore[attr-defined]
        yield path, f"{dtype} of shape {value.shape}"  # type: ignore[attr-defined]
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, array, f"{path}[{str(key)[:_MOST_TEXT]!r}]")
    elif isinstance(value, (list, tuple)):
        yield f"{path} (length)", str(len(value))
        for index, inner in enumerate(value):
            yield from _leaves(inner, array, f"{path}[{index}]")
    elif isinstance(value, (bool, int, float, complex, str)) or value is None:
        yield path, repr(value)[:_MOST_TEXT]
    else:
        yield path, type(value).__qualname__


def _change(before: _Signature, now: _Signature) -> str:
    for path, text in now.items():
        if before.get(path) != text:
            return f"{path}: {before.get(path, 'absent')}, then {text}"
    gone = [path for path in before if path not in now]
    if gone:
        return f"{gone[0]}: {before[gone[0]]}, then absent"
    return "the same arguments"


#: MLX walks a graph by recursion: 200 bytes of stack for each operation of the longest chain.
_STACK = 1 << 28
_stacks = threading.Lock()


class _Counter:
    """A file for ``mx.export_to_dot``, which keeps nothing."""

    def __init__(self) -> None:
        self.operations = 0

    def write(self, text: str) -> None:
        """Count the operations in a piece of a graph's description."""
        self.operations += text.count("shape=rectangle")


def operations_of(values: tuple[Any, ...], mx: Any) -> int:
    """Return the number of operations whose results arrays wait for.

    Args:
        values: arrays, or lists, tuples and dicts of them; other values do not count.
        mx: ``mlx.core``.

    Returns:
        0 for arrays that are evaluated, and where no thread can be started.
    """
    arrays = list(arrays_in(values, mx.array))
    if not arrays:
        return 0
    counter = _Counter()
    # On this thread's stack a long chain would end the program.
    with _stacks:
        usual = threading.stack_size(_STACK)
        thread = threading.Thread(target=mx.export_to_dot, args=(counter, *arrays), daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return 0
        finally:
            threading.stack_size(usual)
    thread.join()
    return counter.operations


def arrays_in(value: Any, array: type) -> Iterator[Any]:
    """Yield the arrays in a value: itself, or those of lists, tuples and dicts."""
    if isinstance(value, array):
        yield value
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from arrays_in(inner, array)
    elif isinstance(value, dict):
        for inner in value.values():
            yield from arrays_in(inner, array)


_FUNCTIONS: dict[str, Kind] = {
    "eval": "eval",
    "async_eval": "async-eval",
    "synchronize": "synchronize",
    "save": "save",
    "savez": "save",
    "savez_compressed": "save",
    "save_safetensors": "save",
    "save_gguf": "save",
}
_METHODS: dict[str, tuple[Kind, str]] = {
    "item": ("item", "array.item"),
    "tolist": ("tolist", "array.tolist"),
    "__bool__": ("truth", "bool"),
    "__int__": ("number", "int"),
    "__float__": ("number", "float"),
    "__index__": ("number", "index"),
    "__complex__": ("number", "complex"),
    "__repr__": ("text", "repr"),
    "__format__": ("text", "format"),
    "__array__": ("numpy", "array.__array__"),
    "__dlpack__": ("numpy", "array.__dlpack__"),
    "__getstate__": ("numpy", "pickle"),
}
#: Functions of NumPy that read an MLX array through its buffer, which can't be replaced.
_OF_NUMPY = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "copy")

#: Of a program's time, what counting the operations of graphs may take.
_SHARE_OF_COUNTING = 0.01


class Instruments:
    """The replacements of one trace."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._mx: Any = None
        self._replaced: list[tuple[Any, str, Any]] = []
        self._installed = self._counted = 0.0

    def install(self) -> None:
        """Replace the names; the program must not have imported MLX yet."""
        import mlx.core as mx
        import numpy as np

        self._mx = mx
        self._installed = clock()
        for name, kind in _FUNCTIONS.items():
            self._replace(mx, name, self._recorded(getattr(mx, name), kind, f"mx.{name}"))
        for name, (kind, operation) in _METHODS.items():
            real = mx.array.__dict__.get(name)
            if real is not None:
                self._replace(mx.array, name, self._pull(real, kind, operation))
        for name in _OF_NUMPY:
            real = getattr(np, name)
            self._replace(np, name, self._from_mlx(real, mx.array, f"np.{name}"))
        promotions = Promotions(mx, self._recorder)
        for name, method in promotions.operators().items():
            self._replace(mx.array, name, method)
        for name, function in promotions.functions(mx.fast, FAST, "mx.fast").items():
            self._replace(mx.fast, name, function)
        functions = promotions.functions(mx, FUNCTIONS, "mx")
        for name, function in (replacements(mx, self._recorder) | functions).items():
            self._replace(mx, name, function)

    def remove(self) -> None:
        """Put everything back."""
        for owner, name, value in reversed(self._replaced):
            setattr(owner, name, value)
        self._replaced.clear()

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        real = getattr(owner, name)
        self._replaced.append((owner, name, real))
        # A class may have a function of MLX as an attribute: MLX's do not bind to its instances.
        binds = isinstance(owner, type) or hasattr(type(real), "__get__")
        setattr(owner, name, value if binds else staticmethod(value))

    def _recorded(self, real: Callable[..., Any], kind: Kind, operation: str) -> Any:
        @functools.wraps(real)
        def recorded(*arguments: Any, **named: Any) -> Any:
            call = functools.partial(real, *arguments, **named)
            return self._during(kind, operation, arguments, call)

        return recorded

    def _pull(self, real: Callable[..., Any], kind: Kind, operation: str) -> Any:
        @functools.wraps(real)
        def pulled(self_: Any, *arguments: Any, **named: Any) -> Any:
            call = functools.partial(real, self_, *arguments, **named)
            return self._during(kind, operation, (self_,), call, copies=True)

        return pulled

    def _from_mlx(self, real: Callable[..., Any], array: type, operation: str) -> Any:
        @functools.wraps(real)
        def converted(*arguments: Any, **named: Any) -> Any:
            value = arguments[0] if arguments else next(iter(named.values()), None)
            if not _begins_with(array, value):
                return real(*arguments, **named)
            call = functools.partial(real, *arguments, **named)
            return self._during("numpy", operation, (value,), call, copies=True)

        return converted

    def _during(
        self,
        kind: Kind,
        operation: str,
        values: tuple[Any, ...],
        call: Callable[[], Any],
        *,
        copies: bool = False,
    ) -> Any:
        """Call a function of MLX or NumPy, and record that as an event.

        Args:
            kind: of the event.
            operation: its name.
            values: what is evaluated.
            call: makes the call.
            copies: whether it copies all values, if it succeeds.
        """
        events = self._recorder.begin(kind, operation)
        if events is None:
            return call()
        self._count(events, values)
        begin, copied = clock(), 0
        try:
            result = call()
            if copies:
                copied = sum(one.nbytes for one in arrays_in(values, self._mx.array))
            return result
        finally:
            self._recorder.end(events, begin, copied)

    def _count(self, events: Events, values: tuple[Any, ...]) -> None:
        # Counting takes microseconds for an operation: the 1st, 2nd, 4th, 8th time only, and not
        # again while all counting has taken more than a hundredth of the time.
        begun = events.begun
        if begun & (begun - 1):
            return
        begin = clock()
        if begun > 1 and self._counted > _SHARE_OF_COUNTING * (begin - self._installed):
            return
        events.operations = max(events.operations, operations_of(values, self._mx))
        self._counted += clock() - begin


def _begins_with(array: type, value: Any) -> bool:
    """Return whether a value is an array, or a list whose first element is one."""
    while type(value) in (list, tuple) and value:
        value = value[0]
    return isinstance(value, array)
