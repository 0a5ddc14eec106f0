"""API-005, 007, 009, 010, 029 and COMPLEX: operations that MLX refuses, or that have no effect."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.effect_free import is_effect_free, is_pure_symbol
from embercoach.analysis.dataflow.layout import assigned_to, reads_of
from embercoach.analysis.dataflow.lazy_evaluation import EVALUATING, evaluation_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import display, fixed_attribute, resolved
from embercoach.analysis.dataflow.value_sources import sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted, evaluated, targets_of
from embercoach.analysis.values.facts import (
    Argument,
    ArrayIndexFact,
    BinaryFact,
    CallFact,
    Fact,
    InvertFact,
    LocalCall,
    Operand,
    ProjectCall,
    calls_by_function,
    calls_of,
)
from embercoach.analysis.values.inheritance import subclasses
from embercoach.analysis.values.lattice import (
    NONE,
    Array,
    ArrayAt,
    BoundMember,
    Dict,
    DType,
    LibraryObject,
    Number,
    Numpy,
    Sequence,
    Symbol,
    Value,
    as_array,
    as_number,
    join_all,
)
from embercoach.analysis.values.promotion import COMPLEX, FLOATING
from embercoach.analysis.work import MOST_CALLERS
from embercoach.checks.fallbacks import REFUSED, is_attempted, is_meant_to_raise
from embercoach.checks.registry import VALUE, Report, check


@check("API-005", unless=REFUSED)
def refused_index(fact: ArrayIndexFact, module: Module) -> Iterator[Report]:
    """``x[x > 0]``, ``x[np.array([0, 1])]``, ``x[1.0]``."""
    stored = _is_stored(fact)
    for index in fact.indices:
        if index is None:
            continue
        node, value = index
        value = as_array(value) or value
        if isinstance(value, Array) and value.dtype is None:
            value = _declared(node, fact, module) or value
        problem = _problem(value, stored=stored)
        if problem is None:
            continue
        what, remedy = problem
        yield Report.at(
            fact,
            node=node,
            message=f"MLX arrays cannot be {'assigned' if stored else 'read'} by {what}",
            help=remedy,
            subject=node if isinstance(value, Array) else None,
        )
        return


def _declared(node: cst.CSTNode, fact: ArrayIndexFact, module: Module) -> Array | None:
    """Return the array that the file makes, where an annotation as an array leaves its dtype open.

    A function or a property returns it, or the file passes it for the field of a dataclass.
    """
    function = fact.place.function
    made = resolved(node, function, module)
    called: FunctionInfo | None = None
    if isinstance(made, cst.Call):
        local = evaluation_of(module).local_call(made)
        called = None if local is None else local.function
    elif isinstance(made, cst.Attribute):
        name = made.attr.value
        passed = [value for (_, field), value in module.fields.items() if field == name]
        if len(passed) == 1:
            return as_array(passed[0])
        is_own = function is not None and (dotted(made) or "").count(".") == 1
        called = function.cls.methods.get(name) if function and is_own and function.cls else None
        called = called if called is not None and called.is_property else None
    if called is None or not called.summaries:
        return None
    return as_array(join_all(called.summaries.values()))


_OF_MASKS = "Use `mx.where(mask, x, other)`; for rows `x[mx.array(np.flatnonzero(np.array(mask)))]`"


def _problem(value: Value, *, stored: bool) -> tuple[str, str] | None:
    """Name the index and the remedy; None if MLX takes it, or may."""
    if isinstance(value, Array):
        if value.dtype == "bool" and not stored:
            return "a boolean mask", _OF_MASKS
        if value.dtype in FLOATING | COMPLEX:
            return f"a {value.dtype} array", "Convert the indices: `.astype(mx.int32)`"
    if isinstance(value, Numpy) and value.flat and not value.scalar:
        if value.kind == "int":
            return "a NumPy array", "Convert the indices: `mx.array(indices)`"
        if value.kind == "bool" and not stored:
            return "a NumPy mask", "Use `mx.where(mx.array(mask), x, other)`"
    if isinstance(value, Number) and value.kind == "float" and value.const is not None:
        return "a float", "Use an integer: `//` or `int()`"
    return None


def _is_stored(fact: ArrayIndexFact) -> bool:
    """Test whether the subscript is assigned; ``x[i] += 1`` reads it too."""
    statement = fact.place.statement
    return fact.node in targets_of(statement) and not isinstance(statement, cst.AugAssign)


@check("API-029", unless=REFUSED)
def refused_operand(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``logits + logit_bias`` of a dictionary, ``x * [1.0, 2.0]``."""
    for other, array in ((fact.right, fact.left), (fact.left, fact.right)):
        what = _refused_operand(other, fact, module)
        if what is None or type(array.value) is not Array:
            continue
        if is_meant_to_raise(module, fact.node):
            continue
        operator = f"{fact.operator}{'=' * fact.in_place}"
        yield Report.at(
            fact,
            node=other.node,
            message=f"`{operator}` of an array and {what} raises an error",
            help=_OPERANDS[what],
        )
        return


_CONVERT = "Convert it: `mx.array(values)`"
_OPERANDS = {
    "a dictionary": "Use its keys as indices: `x.at[..., keys].add(values)`, both of them arrays",
    "a list": _CONVERT,
    "a tuple": _CONVERT,
    "a set": "Convert it: `mx.array(list(values))`",
    "None": "Leave the operation out where the operand is None",
}
_DISPLAYS = (cst.List, cst.ListComp, cst.Tuple, cst.Set, cst.SetComp)


def _refused_operand(operand: Operand, fact: BinaryFact, module: Module) -> str | None:
    """Return what an operand is that MLX refuses; None for what it may take.

    Annotations say too often that an array is a tuple: only what is written as one counts.
    """
    value, node = operand.value, operand.node
    if isinstance(value, Dict):
        return "a dictionary"
    if isinstance(value, Sequence) and value.kind in ("list", "tuple", "set"):
        ends = sources_of(module).ends(sources_of(module).of(fact, node))
        is_written = bool(ends) and all(isinstance(end.node, _DISPLAYS) for end in ends)
        return f"a {value.kind}" if is_written else None
    return "None" if value is NONE and dotted(node) == "None" else None


#: Parts of the names of sizes.
_SIZES = frozenset(
    ("size", "dim", "dims", "width", "channels", "features", "hidden", "len", "length", "rank")
)


@check("API-009", of=("mlx.core.split", ".split"), unless=REFUSED)
def wrong_sections(fact: CallFact, module: Module) -> Iterator[Report]:
    """``q, k, v = mx.split(qkv, dims, axis=-1)``, as ``torch.split`` takes the size of a part."""
    is_method = fact.symbol is None
    if any(a.star for a in fact.arguments) or (is_method and fact.array is None):
        return
    sections = fact.argument(0 if is_method else 1, "indices_or_sections")
    if sections is None:
        return
    problem = _of_sizes(sections, fact, module) or _unpacked(fact, sections, module)
    if problem is None:
        return
    yield Report.at(
        fact,
        message=problem,
        help="Pass the number of equal parts, or a list of the indices to split at",
    )


#: Last words of the names of lists of sizes, and functions that make indices of them.
_LISTS = ("sizes", "lengths", "lens", "sections", "seqlens")
_RUNNING = frozenset(("cumsum", "accumulate", "cu_seqlens", "cumulative", "range", "arange"))


def _of_sizes(sections: Argument, fact: CallFact, module: Module) -> str | None:
    """Return why a list of sizes, which ``torch.split`` takes, is refused: MLX takes indices."""
    node = sections.node
    name = node.value.rpartition("_")[2] if isinstance(node, cst.Name) else ""
    ends = sources_of(module).ends(sources_of(module).of(fact, node)) if name in _LISTS else []
    for end in ends:
        is_made = isinstance(end.node, (cst.Call, cst.List, cst.ListComp, cst.BinaryOperation))
        if not is_made or not contents_of(end.node).names.isdisjoint(_RUNNING):
            return None
    if not ends:
        return None
    return (
        f"`{module.parsed.code(node)[:24]}` are sizes, but `mx.split()` takes indices to split at"
    )


def _constant(argument: Argument) -> int | None:
    number = as_number(argument.value)
    return number.const if number is not None and type(number.const) is int else None


def _unpacked(fact: CallFact, sections: Argument, module: Module) -> str | None:
    """Compare the number of parts with that of the names that they are unpacked to."""
    names = _names(fact, module)
    if names is None:
        return None
    parts = _constant(sections)
    if isinstance(sections.node, (cst.List, cst.Tuple)) and not any(
        isinstance(element, cst.StarredElement) for element in sections.node.elements
    ):
        parts = len(sections.node.elements) + 1
    if parts is not None:
        return None if parts == names else f"`split()` returns {parts} arrays, not {names}"
    if as_number(sections.value) is None and not _is_plain(sections.node):
        return None
    if not _is_size(sections.node, names, fact, module):
        return None
    return f"`split()` takes the number of parts, {names} here, not their size"


def _is_plain(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.Name, cst.Attribute, cst.BinaryOperation, cst.Subscript))


def _names(fact: CallFact, module: Module) -> int | None:
    """Return the number of names that the parts are unpacked to, here or by each caller."""
    statement = fact.place.statement
    value, names = _unpacking(statement)
    if value is fact.node:
        return names
    function = fact.place.function
    if isinstance(statement, cst.Assign) and statement.value is fact.node:
        target = dotted(statement.targets[0].target)
        readers = () if function is None else reads_of(module, function).get(target or "", ())
    elif isinstance(statement, cst.Return) and statement.value is fact.node:
        return _names_of_callers(function, module)
    else:
        return None
    found = [_unpacking(reader) for reader in readers]
    counts = {
        count if made is not None and dotted(made) == target else None for made, count in found
    }
    return next(iter(counts)) if len(counts) == 1 else None


def _names_of_callers(function: FunctionInfo | None, module: Module) -> int | None:
    calls = () if function is None else calls_by_function(module).get(function, ())
    found = [(call, *_unpacking(call.place.statement)) for call in calls[:MOST_CALLERS]]
    counts = {names if value is call.node else None for call, value, names in found}
    return next(iter(counts)) if len(counts) == 1 and len(calls) <= MOST_CALLERS else None


def _unpacking(statement: cst.CSTNode) -> tuple[cst.CSTNode | None, int]:
    """Return a value and the number of names for it: ``a, b = made``, ``a, b = map(f, made)``."""
    targets = assigned_to(statement)
    names = None if len(targets) != 1 else display(targets[0])
    if names is None or not isinstance(statement, cst.Assign):
        return None, 0
    value = statement.value
    if isinstance(value, (cst.GeneratorExp, cst.ListComp)):
        clause = value.for_in
        is_plain = not clause.ifs and clause.inner_for_in is None
        return clause.iter if is_plain else None, len(names)
    if isinstance(value, cst.Call) and dotted(value.func) == "map" and len(value.args) == 2:
        value = value.args[1].value
    return value, len(names)


def _is_size(node: cst.BaseExpression, names: int, fact: CallFact, module: Module) -> bool:
    """Return whether an expression is the size of a part: by its origin, its use or its name."""
    function = fact.place.function
    if isinstance(node, cst.Attribute):
        made = fixed_attribute(node, function, module)
        if made is not None and _is_quotient(made, names):
            return True
        return _is_named_so(node.attr.value) or (
            isinstance(made, cst.Name) and _sizes_layer(made.value, function, module)
        )
    origin = resolved(node, function, module)
    if _is_quotient(origin, names):
        return True
    is_name = isinstance(origin, cst.Name) and isinstance(node, cst.Name)
    return is_name and isinstance(node, cst.Name) and _is_named_so(node.value)


def _is_quotient(node: cst.CSTNode, names: int) -> bool:
    """``x.shape[-1] // 2`` of two parts; a quotient of two sizes may be the number of parts."""
    return any(
        isinstance(inner.operator, cst.FloorDivide)
        and isinstance(inner.right, cst.Integer)
        and evaluated(inner.right) == names
        for inner in contents_of(node).of(cst.BinaryOperation)
    )


def _is_named_so(name: str) -> bool:
    return not _SIZES.isdisjoint(name.lower().strip("_").split("_"))


def _sizes_layer(name: str, function: FunctionInfo | None, module: Module) -> bool:
    """Return whether ``__init__`` of the class passes a parameter to a layer as well."""
    cls = None if function is None else function.cls
    init = None if cls is None else cls.methods.get("__init__")
    if init is None:
        return False
    return any(
        isinstance(fact, CallFact)
        and (fact.symbol or "").startswith("mlx.nn.")
        and any(name in contents_of(argument.node).names for argument in fact.arguments)
        for fact in module.facts_of(init)
    )


#: Functions of ``mx.linalg`` that raise on a stream of the GPU.
_ON_CPU = """
cholesky cholesky_inv eig eigh eigvals eigvalsh inv lu lu_factor pinv qr solve solve_triangular svd
tri_inv
"""
ON_CPU = tuple(f"mlx.core.linalg.{name}" for name in _ON_CPU.split())


@check("API-007", of=ON_CPU, unless=REFUSED | {"RuntimeError"})
def linear_algebra(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.linalg.inv(x)`` on the default device, which is the GPU."""
    if fact.keyword("stream") is not None or any(a.star for a in fact.arguments):
        return
    if _chooses_device(module) or any(map(_chooses_device, module.imported)):
        return
    name = (fact.symbol or "").rpartition(".")[2]
    yield Report.at(
        fact,
        message=f"`mx.linalg.{name}` raises on the GPU, the default device",
        help="Pass `stream=mx.cpu`",
    )


def _chooses_device(module: Module) -> bool:
    """Test whether a file names the CPU, or takes a stream from elsewhere."""
    source = module.source
    return "cpu" in source or "stream" in source or "set_default_device" in source


#: Special methods of arrays, by operator.
METHODS = {
    "%": "__mod__",
    "&": "__and__",
    "|": "__or__",
    "^": "__xor__",
    "<<": "__lshift__",
    ">>": "__rshift__",
    "~": "__invert__",
}
REAL_TRANSFORMS = frozenset(f"mlx.core.fft.{name}" for name in ("rfft", "rfft2", "rfftn"))
#: Dtypes that keep both parts of a complex number, or that are unknown.
WHOLE = frozenset({None, "bool", *COMPLEX})


@check("COMPLEX-001", of=("mlx.", VALUE))
def unsupported_call(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.sigmoid(z)``, ``nn.SiLU()(z)``."""
    entry, callee = fact.entry, fact.callee
    if entry is None or not entry.real_only or not isinstance(callee, Symbol | LibraryObject):
        return
    for param, argument in fact.matched:
        if param.name in entry.real_only and _is_complex(as_array(argument.value)):
            name = callee.name if isinstance(callee, Symbol) else callee.cls
            yield from _unsupported(fact, module, f"`{_shown(name)}`")
            return


@check("COMPLEX-001")
def unsupported_operator(fact: BinaryFact | InvertFact, module: Module) -> Iterator[Report]:
    """``z % 2``, ``z & mask``, ``~z``."""
    if isinstance(fact, BinaryFact):
        operator, values = fact.operator, [fact.left.value, fact.right.value]
    else:
        operator, values = "~", [fact.value]
    if operator in METHODS and any(_is_complex(as_array(value)) for value in values):
        entry = mlx_api.array_member(METHODS[operator])
        if entry is not None and "self" in entry.real_only:
            yield from _unsupported(fact, module, f"`{operator}`")


def _unsupported(fact: Fact, module: Module, what: str) -> Iterator[Report]:
    if is_meant_to_raise(module, fact.node):
        return
    yield Report.at(
        fact,
        "COMPLEX-001",
        message=f"{what} raises a ValueError on a complex64 array",
        help="Apply it to the parts (mx.real(z), mx.imag(z)) or to the magnitude (mx.abs(z))",
    )


@check("COMPLEX-002", of=(".astype", "mlx.core.astype"))
def complex_cast(fact: CallFact, module: Module) -> Iterator[Report]:
    """``z.astype(mx.float32)``."""
    array, dtype = fact.array, fact.argument(0, "dtype")
    if fact.symbol is not None:
        first, dtype = fact.argument(0, "a"), fact.argument(1, "dtype")
        array = None if first is None else as_array(first.value)
    if not _is_complex(array) or dtype is None or not isinstance(dtype.value, DType):
        return
    if dtype.value.name not in WHOLE:
        yield Report.at(
            fact,
            message=f"cast from complex64 to {dtype.value.name} drops the imaginary part",
            help="Use mx.real(z), mx.abs(z) for the magnitude, or z.view(mx.float32)",
        )


@check("COMPLEX-003", of=REAL_TRANSFORMS)
def real_transform(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.fft.rfft(z)``."""
    argument = fact.argument(0, "a")
    if argument is not None and _is_complex(as_array(argument.value)):
        short = (fact.symbol or "").rpartition(".")[2]
        yield Report.at(
            fact,
            message=f"`{short}` drops the imaginary part of its complex64 input",
            help=f"Use mx.fft.{short[1:]} for a complex array, or pass mx.real(z) or mx.abs(z)",
        )


def _is_complex(array: Array | None) -> bool:
    return array is not None and array.dtype in COMPLEX


def _shown(name: str) -> str:
    """Return the name as programs write it: ``mx.linalg.inv``, ``nn.silu``."""
    return name.replace("mlx.core.", "mx.", 1).replace("mlx.nn.", "nn.", 1)


_CORE = "mlx.core."
#: Sends and reductions run when their results are evaluated.
_DISTRIBUTED = "mlx.core.distributed."
_INITIALIZERS = "mlx.nn.init."
_OF_PAIR = "mlx.optimizers.clip_grad_norm"
#: Functions that return what they compute from gradients and parameters, and change nothing.
_OF_TREES = (_OF_PAIR, "mlx.utils.tree_flatten", "mlx.utils.tree_unflatten")
#: Characters of a name that a message quotes.
_LONGEST = 24


@check("API-010", of=("mlx.", "."))
def discarded_result(fact: CallFact, module: Module) -> Iterator[Report]:
    """``x.astype(mx.float16)`` and ``counts.at[i].add(1)`` as statements."""
    statement = fact.place.statement
    if not isinstance(statement, cst.Expr) or statement.value is not fact.node:
        return
    name = _pure(fact, module)
    if name is not None:
        yield from _report(fact, name, module)


@check("API-010")
def discarded_call(fact: LocalCall | ProjectCall, module: Module) -> Iterator[Report]:
    """``rope.apply(x)`` as a statement, of a method of the project that only returns a value."""
    statement, function = fact.place.statement, fact.function
    if not isinstance(statement, cst.Expr) or statement.value is not fact.node:
        return
    is_certain = isinstance(fact, LocalCall) or fact.is_certain
    # At the top level of a script such a call shows that the function runs.
    is_inside = is_certain and fact.place.function is not None
    if is_inside and not _may_be_overridden(function, module) and is_effect_free(function):
        yield from _report(fact, f"{last_name(fact.node)[:_LONGEST]}()", module)


def _may_be_overridden(function: FunctionInfo, module: Module) -> bool:
    """Return whether a method is a hook: a subclass has another, or it computes nothing."""
    cls = function.cls
    body = contents_of(function.node.body)
    computes = body.of(cst.Call, cst.BinaryOperation, cst.Subscript)
    return not computes or (
        cls is not None and any(function.name in one.methods for one in subclasses(cls, module))
    )


@check("API-010")
def discarded_initialization(module: Module, facts: list[object]) -> Iterator[Report]:
    """``nn.init.he_normal()(self.weight)`` as a statement."""
    if "init" not in module.source:
        return
    for made in calls_of(module).values():
        statement = made.place.statement
        outer = statement.value if type(statement) is cst.Expr else None
        if not isinstance(outer, cst.Call) or outer.func is not made.node:
            continue
        if (made.symbol or "").startswith(_INITIALIZERS):
            name = (made.symbol or "").rpartition(".")[2]
            yield from _report(made, f"nn.init.{name}()(...)", module)


def _report(
    fact: CallFact | LocalCall | ProjectCall, name: str, module: Module
) -> Iterator[Report]:
    is_cell = fact.place.function is None and module.path.suffix == ".ipynb"
    if is_cell or is_attempted(module, fact.place.statement):
        return
    yield Report.at(
        fact,
        "API-010",
        message=f"`{name}` has no effect: its result is discarded",
        help=_help(fact),
    )


def _help(fact: CallFact | LocalCall | ProjectCall) -> str:
    """Return what to write: both names of the pair that ``clip_grad_norm`` returns."""
    if not isinstance(fact, CallFact) or fact.symbol != _OF_PAIR:
        return "Assign the result, or remove the call: MLX's functions change no argument"
    tree = fact.argument(0, "grads")
    name = tree.node.value if tree is not None and isinstance(tree.node, cst.Name) else "grads"
    return f"Assign both results: `{name}, norm = {dotted(fact.node.func)}({name}, ...)`"


def _pure(fact: CallFact, module: Module) -> str | None:
    """Return the name of a function that only computes its result, None for others."""
    symbol, callee = fact.symbol, fact.callee
    if symbol is not None:
        if symbol in _OF_TREES or (symbol == "mlx.utils.tree_map" and _maps_purely(fact, module)):
            return f"{symbol.rpartition('.')[2]}()"
        is_pure = symbol.startswith("mlx.") and is_pure_symbol(symbol)
        is_lazy = symbol.startswith(_DISTRIBUTED) and _returns_array(fact)
        return f"{_shown(symbol)}()" if (is_pure and _returns_array(fact)) or is_lazy else None
    if not isinstance(callee, BoundMember):
        return None
    if fact.array is not None:
        is_pure = fact.entry is not None and fact.entry.returns == "array"
        return f".{callee.name}()" if is_pure else None
    if isinstance(callee.owner, ArrayAt):
        return f".at[...].{callee.name}()"
    if callee.name == "apply_gradients" and isinstance(callee.owner, LibraryObject):
        return ".apply_gradients()"
    return None


def _returns_array(fact: CallFact) -> bool:
    return fact.entry is not None and fact.entry.returns == "array"


def _maps_purely(fact: CallFact, module: Module) -> bool:
    """Return whether ``tree_map`` maps by arithmetic alone."""
    first = fact.positional(0)
    if first is None:
        return False
    function = resolved(first.node, fact.place.function, module)
    if not isinstance(function, cst.Lambda):
        return False
    facts = map(calls_of(module).get, contents_of(function.body).calls)
    names = [(fact.symbol or "") if fact is not None else "" for fact in facts]
    return all(name.startswith(_CORE) and name not in EVALUATING for name in names)
