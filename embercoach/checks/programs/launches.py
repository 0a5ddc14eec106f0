"""Known facts of each launch of a kernel: threads, template, inputs and outputs.

A launch is where most of a kernel's types and sizes come from. Everything here may be unknown, and
is then None: nothing is guessed, but for ``configurations_of``, which says what it assumes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Any, NamedTuple

import libcst as cst
from msgspec import Struct

from embercoach.analysis.dataflow.scopes import Expression, display, items, scope_at
from embercoach.analysis.project.module import Module
from embercoach.analysis.shapes.node_shapes import ArrayAxes, Sizes, value_at
from embercoach.analysis.values.facts import Argument, CallFact
from embercoach.analysis.values.lattice import (
    NONE,
    UNKNOWN,
    DType,
    Number,
    Numpy,
    Sequence,
    Str,
    Value,
    as_array,
    as_number,
)
from embercoach.checks.programs.launch_sizes import SymInt, alternatives, symbolic, whole_multiple
from embercoach.metal.contract import MAX_THREADS, Input, KernelArguments, Output
from embercoach.metal.execution.events import Configuration


def has_spread(fact: CallFact) -> bool:
    """Return whether arguments are passed by ``*`` or ``**``."""
    return any(argument.star for argument in fact.arguments)


def items_of(value: Value | None) -> tuple[Value, ...] | None:
    """Return the items of a list or tuple, None if they are unknown or it is something else."""
    return value.items if isinstance(value, Sequence) and value.kind in ("list", "tuple") else None


def count(value: Value | None) -> int | None:
    """Return the length of a list or tuple, None if it is unknown or something else."""
    items = items_of(value)
    return None if items is None else len(items)


def item_node(argument: Argument, index: int) -> cst.CSTNode:
    """The expression of an item of a list, or the whole argument where it is written elsewhere."""
    nodes = display(argument.node)
    return argument.node if nodes is None or index >= len(nodes) else nodes[index]


class Item(NamedTuple):
    """A value that is passed: what inference knows of it, and how it is written.

    Attributes:
        sizes: by the inference of shapes, None where it knows nothing.
        expression: None where the value is put together elsewhere.
    """

    value: Value = UNKNOWN
    sizes: Any = None
    expression: Expression | None = None

    def items(self, length: int | None = None) -> list[Item]:
        """The items of a list or tuple, unknown ones where it is not known to have this length."""
        values = items_of(self.value)
        sizes = self.sizes if type(self.sizes) is tuple else None
        written = None if self.expression is None else items(self.expression)
        if length is None:
            length = next((len(one) for one in (written, values, sizes) if one is not None), 0)
        parts = (
            one if one is not None and len(one) == length else (empty,) * length
            for one, empty in ((values, UNKNOWN), (sizes, None), (written, None))
        )
        return [Item(*part) for part in zip(*parts, strict=True)]


def passed(fact: CallFact, name: str, module: Module) -> Item:
    """Return the argument that a launch passes by a keyword."""
    argument = fact.keyword(name)
    if argument is None:
        return Item()
    sizes = value_at(module, argument.node, None if fact.visit is None else fact.visit.node)
    return Item(argument.value, sizes, Expression(argument.node, scope_at(fact, module)))


class Entry(Struct, frozen=True):
    """One entry of ``grid``, ``threadgroup`` or a shape.

    Attributes:
        size: None where the tuple is put together elsewhere.
        known: its value.
        limit: the most that it can be: ``known``, or the constant of ``min(256, n)``.
    """

    size: SymInt | None = None
    known: int | None = None
    limit: int | None = None

    @classmethod
    def of(cls, item: Item) -> Entry:
        """Return the entry by what is written and by what inference knows."""
        size = None if item.expression is None else symbolic(item.expression)
        known = None if size is None else size.known
        if known is None and type(item.value) is Number and type(item.value.const) is int:
            known = item.value.const
        if known is None and type(item.sizes) is int:
            known = item.sizes
        if known is not None or size is None:
            return cls(size, known, known)
        choices = (choice.known for choice in alternatives(size))
        return cls(size, None, min((n for n in choices if n is not None), default=None))


Entries = tuple[Entry, Entry, Entry]


def entries_of(fact: CallFact, name: str, module: Module) -> Entries | None:
    """Get the three entries of ``grid`` or ``threadgroup``, None where they are not to be seen."""
    entries = [Entry.of(item) for item in passed(fact, name, module).items()]
    if len(entries) != 3:
        return None
    x, y, z = entries
    return x, y, z


TemplateValue = int | bool | str | None
#: Threads along x that an unknown threadgroup is tried with.
TRIED = (64, 256)
_DTYPES = {"bool": "bool", "int": "int32", "float": "float32", "complex": "complex64"}


class OutputShape(Struct, frozen=True):
    """The shape that a launch gives an output: its sizes, None for those that are unknown.

    Attributes:
        shape: None where even the rank is unknown.
        sizes: its sizes, None where they are put together elsewhere.
        expression: what is passed.
    """

    shape: Sizes | None = None
    sizes: tuple[SymInt, ...] | None = None
    expression: Expression | None = None

    @classmethod
    def of(cls, item: Item) -> OutputShape:
        """Return the shape that is passed."""
        entries = [Entry.of(size) for size in item.items()]
        sizes = tuple(entry.size for entry in entries if entry.size is not None)
        is_known = items_of(item.value) is not None or type(item.sizes) is tuple
        shape = tuple(entry.known for entry in entries) if is_known else None
        return cls(shape, sizes if len(sizes) == len(entries) > 0 else None, item.expression)


class Launch(Struct, frozen=True):
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
    """

    fact: CallFact
    grid: Entries | None
    threadgroup: Entries | None
    template: Mapping[str, TemplateValue] | None
    inputs: tuple[Input, ...] | None
    outputs: tuple[Output, ...] | None
    shapes: tuple[OutputShape, ...]
    has_init_value: bool | None

    @classmethod
    def of(
        cls,
        fact: CallFact,
        inputs: tuple[str, ...] | None,
        outputs: tuple[str, ...] | None,
        module: Module,
    ) -> Launch:
        """The launch of a kernel with inputs and outputs of these names, None for unknown ones."""
        initial = fact.keyword("init_value")
        known_initial = initial is not None and initial.value != NONE
        dtypes = passed(fact, "output_dtypes", module).items(len(outputs or ()))
        shapes = passed(fact, "output_shapes", module).items(len(outputs or ()))
        return cls(
            fact=fact,
            grid=entries_of(fact, "grid", module),
            threadgroup=entries_of(fact, "threadgroup", module),
            template=_template(fact, module),
            inputs=None if inputs is None else _inputs(fact, inputs, module),
            outputs=None if outputs is None else tuple(map(_output, outputs, dtypes)),
            shapes=tuple(map(OutputShape.of, shapes)),
            has_init_value=None if initial is None and has_spread(fact) else known_initial,
        )

    @property
    def output_sizes(self) -> dict[str, int | None]:
        """Number of elements of each output by its name, None where unknown."""
        pairs = zip(self.outputs or (), self.shapes, strict=False)
        return {output.name: _elements(shape.shape) for output, shape in pairs}


def _template(fact: CallFact, module: Module) -> dict[str, TemplateValue] | None:
    """Return the template arguments of a launch by name, None where they are unknown."""
    argument = fact.keyword("template")
    if argument is None:
        return None if has_spread(fact) else {}
    if argument.value == NONE:
        return {}
    if items_of(argument.value) is None:
        return None
    found: dict[str, TemplateValue] = {}
    for item in passed(fact, "template", module).items(count(argument.value)):
        name, value = item.items(2)
        if not isinstance(name.value, Str) or name.value.text is None:
            return None
        plain = _plain(value.value)
        number = value.sizes if plain is None and type(value.sizes) is int else plain
        found[name.value.text] = number
    return found


def _plain(value: Value) -> TemplateValue:
    """Return a template argument as the contract takes it, None where it is unknown."""
    if isinstance(value, DType):
        return value.name
    if type(value) is Number and isinstance(value.const, int):
        return value.const
    return None


def _inputs(fact: CallFact, names: tuple[str, ...], module: Module) -> tuple[Input, ...]:
    given = passed(fact, "inputs", module)
    if count(given.value) != len(names):
        return tuple(map(Input, names))
    return tuple(map(_input, names, given.items(len(names))))


def _input(name: str, item: Item) -> Input:
    value, known = item.value, item.sizes
    dtype = dtype_of(value)
    if type(value) is Number or (isinstance(value, Numpy) and value.scalar):
        return Input(name, dtype, 0, 1)
    if type(known) is not ArrayAxes or known.sizes is None:
        return Input(name, dtype, ranked=type(known) is ArrayAxes and known.has_some)
    return Input(name, dtype, len(known.sizes), _elements(known.sizes))


def _output(name: str, dtype: Item) -> Output:
    return Output(name, dtype.value.name if isinstance(dtype.value, DType) else None)


def _elements(sizes: Sizes | None) -> int | None:
    """Return the number of elements of an array, None if unknown."""
    known = [size for size in sizes or () if size is not None]
    return prod(known) if sizes is not None and len(known) == len(sizes) else None


def dtype_of(value: Value) -> str | None:
    """Get the dtype that a value has as an input: MLX makes int32 and float32 of Python numbers."""
    array = as_array(value)
    if array is not None:
        return array.dtype
    number = as_number(value)
    return None if number is None or type(value) is not Number else _DTYPES[number.kind]


def configurations_of(
    arguments: KernelArguments, launch: Launch | None = None
) -> Iterator[Configuration]:
    """Yield the configurations of one launch, or what holds for any.

    A threadgroup whose size is unknown along x is tried with several sizes, and along y and z with
    one; what a check finds must then hold for all of the configurations that assume something.
    """
    from embercoach.metal.execution.events import Configuration

    grid = None if launch is None else launch.grid
    group = None if launch is None else launch.threadgroup
    x, y, z = grid or (Entry(),) * 3
    for threads in _threadgroups(grid, group):
        yield Configuration(
            threadgroup=threads,
            assumed=frozenset(i for i in range(3) if group is None or group[i].limit is None),
            groups=_groups(grid, group),
            template={given.name: given.value for given in arguments.template or ()},
            inputs=arguments.inputs,
            outputs=arguments.outputs,
            output_sizes=launch.output_sizes if launch else None,
            rounded=_rounded(grid),
            grid=(x.known, y.known, z.known),
        )


def _rounded(grid: Entries | None) -> frozenset[int]:
    """Return the axes whose number of threads is written as one that is rounded up."""
    sizes = [None if entry.known is not None else entry.size for entry in grid or ()]
    multiples = [None if size is None else whole_multiple(size) for size in sizes]
    return frozenset(i for i, found in enumerate(multiples) if found and not found.is_exact)


def _threadgroups(grid: Entries | None, group: Entries | None) -> list[tuple[int, int, int]]:
    """Return the sizes to try, none of them more than Metal allows or than the grid has threads."""
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
