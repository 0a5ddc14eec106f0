"""Known facts of each launch of a kernel: threads, template, inputs and outputs.

A launch is where most of a kernel's types and sizes come from. Everything here may be unknown, and
is then None: nothing is guessed, but for ``configurations``, which says what it assumes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from embercoach.analysis.dataflow.scopes import Expression, items, scope_at
from embercoach.analysis.shapes.node_shapes import ArrayAxes, Sizes, value_at
from embercoach.analysis.sizes import alternatives, symbolic, whole_multiple
from embercoach.analysis.values.lattice import (
    NONE,
    UNKNOWN,
    DType,
    Number,
    Numpy,
    Value,
    as_array,
    as_number,
)
from embercoach.checks.programs.kernels import (
    has_spread,
    header_of,
    items_of,
    names_of,
    readable,
    source_of,
    template_of,
)
from embercoach.metal.contract import Input, KernelArguments, Output, TemplateArgument

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from embercoach.analysis.facts.facts import Argument, CallFact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.sizes import SymInt
    from embercoach.checks.programs.kernels import Definition
    from embercoach.metal.execution.events import Configuration

#: Threads of a threadgroup that Metal allows at most.
MAX_THREADS = 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of ``grid``, ``threadgroup`` or a shape.

    Attributes:
        size: None where the tuple is put together elsewhere.
        known: its value.
        limit: the most that it can be: ``known``, or the constant of ``min(256, n)``.
    """

    size: SymInt | None = None
    known: int | None = None
    limit: int | None = None


Entries = tuple[Entry, Entry, Entry]


def entries_of(fact: CallFact, name: str, module: Module) -> Entries | None:
    """The three entries of ``grid`` or ``threadgroup``, None where they are not to be seen."""
    argument = fact.keyword(name)
    if argument is None:
        return None
    entries = tuple_entries(
        Expression(argument.node, scope_at(fact, module)),
        items_of(argument.value),
        value_at(module, argument.node, None if fact.visit is None else fact.visit.node),
    )
    if len(entries) != 3:
        return None
    x, y, z = entries
    return x, y, z


def tuple_entries(
    expression: Expression | None, values: tuple[Value, ...] | None, sizes: Any
) -> tuple[Entry, ...]:
    """The entries of a tuple by what is written and by what inference knows; none if unknown.

    Args:
        expression: what is written.
        values: of the entries.
        sizes: the entries' sizes, as the inference of shapes knows them.
    """
    written: Sequence[Expression | None] | None = None
    if expression is not None:
        written = items(expression)
    known = sizes if type(sizes) is tuple else None
    many = next((len(one) for one in (written, values, known) if one is not None), 0)
    if written is None:
        written = [None] * many
    if values is None or len(values) != many:
        values = (UNKNOWN,) * many
    if known is None or len(known) != many:
        known = (None,) * many
    return tuple(
        _entry(None if size is None else symbolic(size), value, number)
        for size, value, number in zip(written, values, known, strict=True)
    )


def _entry(size: SymInt | None, value: Value, number: Any) -> Entry:
    known = None if size is None else size.known
    if known is None and type(value) is Number and type(value.const) is int:
        known = value.const
    if known is None and type(number) is int:
        known = number
    if known is not None or size is None:
        return Entry(size, known, known)
    choices = (choice.known for choice in alternatives(size))
    return Entry(size, None, min((n for n in choices if n is not None), default=None))


TemplateValue = int | bool | str | None
#: Threads along x that an unknown threadgroup is tried with.
TRIED = (64, 256)
MAX_CONFIGURATIONS = 4
_DTYPES = {"bool": "bool", "int": "int32", "float": "float32", "complex": "complex64"}


@dataclass(frozen=True, slots=True)
class OutputShape:
    """The shape that a launch gives an output: its sizes, None for those that are unknown.

    Attributes:
        shape: None where even the rank is unknown.
        sizes: its sizes, None where they are put together elsewhere.
        expression: what is passed.
    """

    shape: Sizes | None = None
    sizes: tuple[SymInt, ...] | None = None
    expression: Expression | None = None

    @property
    def elements(self) -> int | None:
        """Number of elements, None when unknown."""
        return None if self.shape is None else _elements(self.shape)


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel.

    Attributes:
        fact: the call.
        grid: threads along x, y, z, None where the three entries are not to be seen.
        threadgroup: likewise.
        template: values of the template arguments by name: a number, an MLX dtype name, or None
            where unknown. None where the names are unknown.
        inputs: one for each of ``input_names``, None where those are unknown.
        outputs: likewise, with their dtypes.
        shapes: the outputs' shapes, in the same order.
        has_init_value: an ``init_value`` is passed; None when unknown.
        atomic_outputs: what the kernel was built with, None when unknown.
        ensure_row_contiguous: likewise.
        stream: the argument, None without one.
    """

    fact: CallFact
    grid: Entries | None
    threadgroup: Entries | None
    template: Mapping[str, TemplateValue] | None
    inputs: tuple[Input, ...] | None
    outputs: tuple[Output, ...] | None
    shapes: tuple[OutputShape, ...] | None
    has_init_value: bool | None
    atomic_outputs: bool | None
    ensure_row_contiguous: bool | None
    stream: Argument | None

    @property
    def output_sizes(self) -> dict[str, int | None]:
        """Number of elements of each output by its name, None where unknown."""
        pairs = zip(self.outputs or (), self.shapes or (), strict=False)
        return {output.name: shape.elements for output, shape in pairs}


def launches_of(definition: Definition, module: Module) -> tuple[Launch, ...]:
    """The launches of a kernel in a file."""
    known = _launches_in(module)
    found = known.get(definition)
    if found is None:
        found = tuple(_launch(definition, fact, module) for fact in definition.launches)
        known[definition] = found
    return found


@lru_cache(maxsize=2)
def _launches_in(_module: Module) -> dict[Definition, tuple[Launch, ...]]:
    """The results of ``launches_of`` for a file; of few files, as it keeps them in memory."""
    return {}


def _launch(definition: Definition, fact: CallFact, module: Module) -> Launch:
    template = template_of(fact)
    initial = fact.keyword("init_value")
    known_initial = initial is not None and initial.value != NONE
    outputs, shapes = _outputs(definition, fact, module)
    return Launch(
        fact=fact,
        grid=entries_of(fact, "grid", module),
        threadgroup=entries_of(fact, "threadgroup", module),
        template=None if template is None else _plain_template(template, fact, module),
        inputs=_inputs(definition, fact, module),
        outputs=outputs,
        shapes=shapes,
        has_init_value=None if initial is None and has_spread(fact) else known_initial,
        atomic_outputs=_setting(definition, "atomic_outputs", default=False),
        ensure_row_contiguous=_setting(definition, "ensure_row_contiguous", default=True),
        stream=fact.keyword("stream"),
    )


def _plain_template(
    template: Mapping[str, Value], fact: CallFact, module: Module
) -> dict[str, TemplateValue]:
    """The template arguments as the contract takes them."""
    given = _known_values(fact, "template", len(template), module)
    pairs = zip(template.items(), given, strict=True)
    found: dict[str, TemplateValue] = {}
    for (name, value), pair in pairs:
        number = pair[1] if type(pair) is tuple and len(pair) == 2 else None
        plain = _plain(value)
        found[name] = number if plain is None and type(number) is int else plain
    return found


def _known_values(fact: CallFact, name: str, length: int, module: Module) -> tuple[Any, ...]:
    """The items of a list, by the inference of shapes; None for each unknown one."""
    argument = fact.keyword(name)
    call = None if fact.visit is None else fact.visit.node
    values = None if argument is None else value_at(module, argument.node, call)
    if type(values) is tuple and len(values) == length:
        return values
    return (None,) * length


def _plain(value: Value) -> TemplateValue:
    """A template argument as the contract takes it, None where it is unknown."""
    if isinstance(value, DType):
        return value.name
    if type(value) is Number and isinstance(value.const, int):
        return value.const
    return None


def _setting(definition: Definition, name: str, *, default: bool) -> bool | None:
    """A flag that the kernel was built with."""
    argument = definition.fact.keyword(name)
    if argument is None:
        return None if has_spread(definition.fact) else default
    value = argument.value
    return bool(value.const) if type(value) is Number and value.const is not None else None


def _inputs(definition: Definition, fact: CallFact, module: Module) -> tuple[Input, ...] | None:
    names = names_of(definition.fact, "input_names")
    argument = fact.keyword("inputs")
    if names is None:
        return None
    values = items_of(argument.value) if argument is not None else None
    if values is None or len(values) != len(names):
        return tuple(map(Input, names))
    shapes = _known_values(fact, "inputs", len(names), module)
    return tuple(map(_input, names, values, shapes))


def _input(name: str, value: Value, known: Any) -> Input:
    dtype = dtype_of(value)
    if type(value) is Number or (isinstance(value, Numpy) and value.scalar):
        return Input(name, dtype, 0, 1)
    if type(known) is not ArrayAxes or known.sizes is None:
        return Input(name, dtype, ranked=type(known) is ArrayAxes and known.has_some)
    return Input(name, dtype, len(known.sizes), _elements(known.sizes))


def _elements(sizes: Sizes) -> int | None:
    """The number of elements of an array, None if unknown."""
    known = [size for size in sizes if size is not None]
    return prod(known) if len(known) == len(sizes) else None


def dtype_of(value: Value) -> str | None:
    """The dtype that a value has as an input: MLX makes int32 and float32 of Python numbers."""
    array = as_array(value)
    if array is not None:
        return array.dtype
    number = as_number(value)
    if number is None or type(value) is not Number:
        return None
    return _DTYPES[number.kind]


def _outputs(
    definition: Definition, fact: CallFact, module: Module
) -> tuple[tuple[Output, ...] | None, tuple[OutputShape, ...] | None]:
    names = names_of(definition.fact, "output_names")
    if names is None:
        return None, None
    dtypes = _listed(fact, "output_dtypes", len(names))
    outputs = tuple(
        Output(name, value.name if isinstance(value, DType) else None)
        for name, value in zip(names, dtypes, strict=True)
    )
    shapes = _listed(fact, "output_shapes", len(names))
    argument = fact.keyword("output_shapes")
    given: list[Expression | None] = [None] * len(names)
    if argument is not None:
        written = items(Expression(argument.node, scope_at(fact, module)))
        if written is not None and len(written) == len(names):
            given = [*written]
    sizes = _known_values(fact, "output_shapes", len(names), module)
    return outputs, tuple(map(_output_shape, shapes, given, sizes))


def _listed(fact: CallFact, name: str, length: int) -> tuple[Value | None, ...]:
    """The items of a list among the arguments, None for each where they are unknown."""
    argument = fact.keyword(name)
    items = None if argument is None else items_of(argument.value)
    return items if items is not None and len(items) == length else (None,) * length


def _output_shape(value: Value | None, expression: Expression | None, known: Any) -> OutputShape:
    values = items_of(value)
    entries = tuple_entries(expression, values, known)
    sizes = tuple(entry.size for entry in entries if entry.size is not None)
    is_known = values is not None or type(known) is tuple
    shape = tuple(entry.known for entry in entries) if is_known else None
    return OutputShape(shape, sizes if len(sizes) == len(entries) > 0 else None, expression)


def kernel_of(definition: Definition, launch: Launch | None = None) -> KernelArguments | None:
    """The kernel as MLX gets it, as far as it is known.

    Args:
        definition: the kernel.
        launch: one of its launches, None for what holds for any.

    Returns:
        None where the names of inputs or outputs, or some of the texts, are unknown.
    """
    texts = texts_of(definition)
    inputs, outputs = _names(definition)
    if texts is None or inputs is None or outputs is None:
        return None
    template = None if launch is None else launch.template
    source, header = texts
    name = definition.argument("name")
    return KernelArguments(
        name=getattr(name.value, "text", None) or "" if name is not None else "",
        inputs=launch.inputs if launch and launch.inputs else tuple(map(Input, inputs)),
        outputs=launch.outputs if launch and launch.outputs else tuple(map(Output, outputs)),
        source=source,
        header=header,
        template=None
        if template is None
        else tuple(TemplateArgument(n, v) for n, v in template.items()),
        atomic_outputs=bool(_setting(definition, "atomic_outputs", default=False)),
        ensure_row_contiguous=_setting(definition, "ensure_row_contiguous", default=True)
        is not False,
    )


def _names(definition: Definition) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    return names_of(definition.fact, "input_names"), names_of(definition.fact, "output_names")


def texts_of(definition: Definition) -> tuple[str, str] | None:
    """Body and header, None unless both are known; unknown numbers may have names there."""
    source, header = source_of(definition.fact), header_of(definition.fact)
    return None if source is None or header is None else readable(source, header)


def configurations(definition: Definition, module: Module) -> tuple[Configuration, ...]:
    """The distinct ways in which a kernel is launched, a few at most.

    A threadgroup whose size is unknown along x is tried with several sizes, and along y and z with
    one; what a check finds must then hold for all of the configurations that assume something.
    """
    found: dict[object, Configuration] = {}
    launches: tuple[Launch | None, ...] = launches_of(definition, module) or (None,)
    for launch in launches:
        for configuration in configurations_of(definition, launch):
            marks = (
                *(configuration.threadgroup, configuration.assumed, configuration.groups),
                *(configuration.rounded, configuration.grid),
                *(tuple(configuration.template.items()), configuration.inputs),
                *(configuration.outputs, tuple((configuration.output_sizes or {}).items())),
            )
            found.setdefault(marks, configuration)
    known_first = sorted(found.values(), key=lambda configuration: bool(configuration.assumed))
    return tuple(known_first[:MAX_CONFIGURATIONS])


def configurations_of(definition: Definition, launch: Launch | None) -> Iterator[Configuration]:
    """The configurations of one launch; see ``configurations``."""
    from embercoach.metal.execution.events import Configuration

    inputs, outputs = _names(definition)
    grid = None if launch is None else launch.grid
    group = None if launch is None else launch.threadgroup
    x, y, z = grid or (Entry(),) * 3
    for threads in _threadgroups(grid, group):
        yield Configuration(
            threadgroup=threads,
            assumed=frozenset(i for i in range(3) if group is None or group[i].limit is None),
            groups=_groups(grid, group),
            template=dict((launch.template if launch else None) or {}),
            inputs=launch.inputs if launch and launch.inputs else tuple(map(Input, inputs or ())),
            outputs=launch.outputs
            if launch and launch.outputs
            else tuple(map(Output, outputs or ())),
            output_sizes=launch.output_sizes if launch else None,
            rounded=_rounded(grid),
            grid=(x.known, y.known, z.known),
        )


def _rounded(grid: Entries | None) -> frozenset[int]:
    """The axes whose number of threads is written as one that is rounded up."""
    sizes = [None if entry.known is not None else entry.size for entry in grid or ()]
    multiples = [None if size is None else whole_multiple(size) for size in sizes]
    return frozenset(i for i, found in enumerate(multiples) if found and not found.is_exact)


def _threadgroups(grid: Entries | None, group: Entries | None) -> list[tuple[int, int, int]]:
    """The sizes to try, none of them more than Metal allows or than the grid has threads."""
    limits = [None if group is None else entry.limit for entry in group or (Entry(),) * 3]
    y, z = limits[1] or 1, limits[2] or 1
    most = max(1, MAX_THREADS // (y * z))
    xs = [min(x, most) for x in TRIED] if limits[0] is None else [limits[0]]
    tried = product(dict.fromkeys(xs), (y,), (z,))
    sizes = {_clamped((a, b, c), grid): None for a, b, c in tried}
    return [size for size in sizes if min(size) > 0 and prod(size) <= MAX_THREADS]


def _clamped(threads: tuple[int, int, int], grid: Entries | None) -> tuple[int, int, int]:
    """MLX makes a threadgroup no larger than the grid."""
    known = [None if grid is None else entry.known for entry in grid or (Entry(),) * 3]
    x, y, z = (t if n is None else min(t, n) for t, n in zip(threads, known, strict=True))
    return x, y, z


def _groups(
    grid: Entries | None, group: Entries | None
) -> tuple[int | None, int | None, int | None]:
    """Threadgroups along each axis."""
    if grid is None or group is None:
        return None, None, None
    x, y, z = map(_quotient, grid, group)
    return x, y, z


def _quotient(threads: Entry, group: Entry) -> int | None:
    if threads.known == 1:
        return 1
    if threads.known is not None and group.known is not None and group.known > 0:
        return -(-threads.known // group.known)
    return 1 if threads.size is not None and threads.size == group.size else None
