"""Python numbers, and lists of them, that differ from one call in a loop to the next."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.calls.library_calls import HOST_STATE
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.reaching import Binding
from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.dataflow.value_sources import Source, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted, evaluated, target_names
from embercoach.analysis.values.facts import FactPlace, calls_of
from embercoach.analysis.values.lattice import Symbol, as_number
from embercoach.analysis.values.memo import kept_for_file


class ListItem(NamedTuple):
    """An expression of the items of a list, and names of integers that it may use."""

    node: cst.BaseExpression
    place: FactPlace
    module: Module
    integers: frozenset[str] = frozenset()


_COMPREHENSIONS = (cst.ListComp, cst.GeneratorExp)
_ITERABLES = (cst.Name, cst.Attribute, cst.Call, *_COMPREHENSIONS)
#: Functions that pass on the items of what they are given.
_PASSING = frozenset(("tqdm", "reversed", "sorted", "list"))


def _walked(
    iterable: cst.BaseExpression, index: int | None
) -> tuple[cst.BaseExpression, int | None]:
    """Get what a loop's target takes items of: through slices, ``zip``, ``enumerate`` and such."""
    while True:
        name = dotted(iterable.func) if isinstance(iterable, cst.Call) else None
        given = _positional(iterable) if isinstance(iterable, cst.Call) else []
        if isinstance(iterable, cst.Subscript) and isinstance(iterable.slice[0].slice, cst.Slice):
            iterable = iterable.value
        elif name == "zip" and index is not None and index < len(given):
            iterable, index = given[index], None
        elif given and (name == "pairwise" or (name == "enumerate" and index == 1)):
            iterable, index = given[0], None
        elif given and name in _PASSING:
            iterable = given[0]
        else:
            return iterable, index


def _positional(call: cst.Call) -> list[cst.BaseExpression]:
    return [argument.value for argument in call.args if argument.keyword is None]


def _makers(source: Source) -> list[Source]:
    """Return the expressions that make a list; the expression itself where they are not known."""
    if isinstance(source.node, _COMPREHENSIONS):
        return [source]
    ends = sources_of(source.module).ends(source)
    return [source] if any(end.node is source.node for end in ends) else ends or [source]


def list_items(
    iterable: cst.BaseExpression, index: int | None, place: FactPlace, module: Module
) -> Iterator[ListItem]:
    """Yield the expressions of what a loop's target takes; nothing where they are not known."""
    for end in _makers(sources_of(module).at_place(_walked(iterable, index)[0], place)):
        made = end.node
        if isinstance(made, cst.Call):
            yield from _yielded(end, place)
        if isinstance(made, _COMPREHENSIONS):
            counted, target = made.for_in.iter, made.for_in.target
            is_range = isinstance(counted, cst.Call) and dotted(counted.func) == "range"
            names = contents_of(counted).names.union(target_names(target))
            integers = names if is_range else frozenset()
            yield ListItem(made.elt, _place_of(end, place), end.module, integers)
        yield from _appended(end, place)


def _place_of(end: Source, around: FactPlace) -> FactPlace:
    """Return the place of an expression in its own function, in no loop."""
    return around._replace(statement=end.statement, function=end.function, loops=0, loop=None)


def _yielded(end: Source, around: FactPlace) -> Iterator[ListItem]:
    """Yield the expressions that a generator yields in loops."""
    for callee in sources_of(end.module).callees(end):
        function = callee.function
        if isinstance(function.node, cst.Lambda):
            continue
        layout = layout_of(function.module, function)
        for statement in contents_of(function.node.body).statements:
            node = statement.value if isinstance(statement, cst.Expr) else None
            loop = next(layout.loops(statement), None)
            value = node.value if isinstance(node, cst.Yield) else None
            if loop is not None and isinstance(value, cst.BaseExpression):
                place = around._replace(statement=statement, function=function, loop=loop, loops=1)
                yield ListItem(value, place, function.module)


def _appended(end: Source, around: FactPlace) -> Iterator[ListItem]:
    """Yield the expressions that loops append to a list that was empty."""
    function, node = end.function, end.node
    if not isinstance(node, cst.List) or node.elements or function is None:
        return
    if isinstance(function.node, cst.Lambda) or not isinstance(end.statement, cst.Assign):
        return
    names = {dotted(target.target) for target in end.statement.targets}
    layout = layout_of(end.module, function)
    for statement in contents_of(function.node.body).statements:
        call = statement.value if isinstance(statement, cst.Expr) else None
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            continue
        if call.func.attr.value != "append" or dotted(call.func.value) not in names:
            continue
        loop = next(layout.loops(statement), None)
        if loop is not None and call.args:
            place = _place_of(end, around)._replace(statement=statement, loop=loop, loops=1)
            yield ListItem(call.args[0].value, place, end.module)


#: Assignments that are followed one after the other.
MAX_STEPS = 6
#: A loop over so few numbers costs that many traces.
FEW = 8
_CONVERSIONS = frozenset(
    f"builtins.{name}" for name in ("int", "float", "abs", "round", "max", "pow")
)
#: Operators whose results take few values.
FEW_VALUED = (cst.Modulo, cst.FloorDivide, cst.BitAnd)
#: Functions of NumPy that return many numbers.
_SPACES = frozenset({"linspace", "geomspace", "logspace", "arange"})
_GROWS = frozenset({"append", "extend", "insert"})


class Varying:
    """The expressions that vary from one round of a call's loop to the next.

    is_float: whether the number that is looked at is a float.
    integers: names around, of a comprehension's range.
    """

    def __init__(
        self,
        place: FactPlace,
        module: Module,
        *,
        is_float: bool = False,
        integers: frozenset[str] = frozenset(),
    ) -> None:
        self._place = place
        self._module = module
        self.calls = calls_of(module)
        self._reaching = scope_of(module, place.function).reaching
        self.is_float = is_float
        self._integers = integers

    def number(
        self, node: cst.BaseExpression, statement: cst.CSTNode, steps: int = MAX_STEPS
    ) -> bool:
        """Return whether a Python number differs in each round of the loop."""
        if steps == 0:
            return False
        steps -= 1
        operands = _operands(node)
        if operands is not None:
            return any(self.number(operand, statement, steps) for operand in operands)
        if isinstance(node, cst.Name):
            return any(self._bound(b, steps) for b in self.bindings(node.value, statement))
        if isinstance(node, cst.Subscript):
            return self._selects(node, statement, steps)
        return isinstance(node, cst.Call) and self._result(node, statement, steps)

    def _selects(self, node: cst.Subscript, statement: cst.CSTNode, steps: int) -> bool:
        """``sigmas[i + 1]`` of a list of many numbers."""
        part = node.slice[0].slice if len(node.slice) == 1 else None
        if not isinstance(part, cst.Index) or not self.number(part.value, statement, steps):
            return False
        return self._is_many(node.value, statement, steps)

    def _is_many(self, node: cst.BaseExpression, statement: cst.CSTNode, steps: int) -> bool:
        """Return whether a list made elsewhere has many numbers."""
        if steps == 0:
            return False
        place = self._place._replace(statement=statement)
        for item in list_items(node, None, place, self._module):
            inner = Varying(item.place, item.module, is_float=self.is_float)
            if item.place.loop is not None and inner.number(item.node, item.place.statement):
                return True
        for end in _makers(sources_of(self._module).at_place(node, place)):
            if end.node is not node and isinstance(end.node, (*_COMPREHENSIONS, cst.Call)):
                inner = Varying(_place_of(end, place), end.module, is_float=self.is_float)
                if inner.lists_many(end.node, end.statement):
                    return True
        return False

    def _has_host_items(self, binding: Binding) -> bool:
        """Return whether a loop's target takes what is made of counters and literals alone."""
        assert binding.value is not None
        place = self._place._replace(statement=binding.statement)
        items = list(list_items(binding.value, binding.index, place, self._module))
        return bool(items) and all(
            Varying(item.place, item.module, integers=item.integers).is_host(
                item.node, item.place.statement
            )
            for item in items
        )

    def lists_many(self, made: cst.BaseExpression, statement: cst.CSTNode) -> bool:
        """Return whether an expression makes a list of many numbers."""
        return self._counts(made, None, statement, steps=2)

    def is_host(
        self, node: cst.BaseExpression, statement: cst.CSTNode, steps: int = MAX_STEPS
    ) -> bool:
        """Return whether an expression is made of counters, literals and counts alone."""
        if isinstance(node, (cst.Integer, cst.Float)):
            return True
        if isinstance(node, cst.BinaryOperation):
            return self.is_host(node.left, statement, steps) and self.is_host(
                node.right, statement, steps
            )
        if not isinstance(node, cst.Name) or steps == 0:
            return False
        if node.value in self._counted() or node.value in self._integers:
            return True
        bindings = self.bindings(node.value, statement)
        return bool(bindings) and all(
            b.value is not None
            and (
                self._is_counter(b) or self._has_host_items(b)
                if b.kind == "element"
                else b.kind == "assigned" and self.is_host(b.value, b.statement, steps - 1)
            )
            for b in bindings
        )

    def parameters(
        self, node: cst.BaseExpression, statement: cst.CSTNode, steps: int = MAX_STEPS
    ) -> frozenset[str] | None:
        """Return the parameters that a number is computed from, None if from anything else too."""
        if isinstance(node, (cst.Integer, cst.Float)):
            return frozenset()
        operands = _operands(node)
        if operands:
            found = [self.parameters(operand, statement, steps) for operand in operands]
            known = [names for names in found if names is not None]
            return frozenset().union(*known) if len(known) == len(found) else None
        bindings = self.bindings(node.value, statement) if isinstance(node, cst.Name) else ()
        if len(bindings) != 1 or steps == 0:
            return None
        bound = bindings[0]
        if bound.kind == "parameter":
            return frozenset((bound.name,))
        if bound.kind != "assigned" or bound.value is None:
            return None
        return self.parameters(bound.value, bound.statement, steps - 1)

    def _is_counter(self, binding: Binding) -> bool:
        called = binding.value.func if isinstance(binding.value, cst.Call) else None
        return isinstance(called, cst.Name) and (
            called.value == "range" or (called.value == "enumerate" and binding.index == 0)
        )

    def _counted(self) -> set[str]:
        """Return the names that the loop's ``range`` is given: Python integers."""
        loop = self._place.loop
        iterable = loop.iter if isinstance(loop, cst.For) else None
        if not isinstance(iterable, cst.Call) or dotted(iterable.func) != "range":
            return set()
        return {a.value.value for a in iterable.args if isinstance(a.value, cst.Name)}

    def _result(self, node: cst.Call, statement: cst.CSTNode, steps: int) -> bool:
        fact = self.calls.get(node)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "item":
            number = None if fact is None else as_number(fact.result)
            return number is not None and self._array(node.func.value, statement, steps)
        if fact is not None and fact.symbol in HOST_STATE:
            return True
        if not node.args:
            return False
        if not isinstance(node.func, cst.Name):  # a schedule, or a function of ``math``
            is_schedule = self.is_float and dotted(node.func) is not None
            return is_schedule and any(self.number(a.value, statement, steps) for a in node.args)
        first = node.args[0].value
        if node.func.value == "len":
            return isinstance(first, cst.Name) and self.grows(first.value)
        is_ramp = node.func.value == "min"  # ``min(1.0, i / n)``: of integers, few differ
        if self.is_float and (is_ramp or not hasattr(builtins, node.func.value)):  # a schedule
            return any(self.number(a.value, statement, steps) for a in node.args)
        if f"builtins.{node.func.value}" in _CONVERSIONS:
            return any(
                self.number(a.value, statement, steps) or self._is_read(node, a.value, statement)
                for a in node.args
            )
        return False

    def _is_read(self, node: cst.Call, given: cst.BaseExpression, statement: cst.CSTNode) -> bool:
        """``float(loss)``: the number is an array's, from this round."""
        fact = self.calls.get(node)
        number = None if fact is None else as_number(fact.result)
        return number is not None and bool(number.pulls) and self._array(given, statement, 2)

    def _array(self, node: cst.BaseExpression, statement: cst.CSTNode, steps: int) -> bool:
        """Return whether an array is computed, or read out of another one, in this round."""
        while isinstance(node, (cst.Attribute, cst.Call)):
            if isinstance(node, cst.Call) and not isinstance(node.func, cst.Attribute):
                return any(self._array(a.value, statement, steps) for a in node.args)
            node = node.func if isinstance(node, cst.Call) else node.value
        if isinstance(node, cst.Subscript):
            return any(
                isinstance(e.slice, cst.Index) and self.number(e.slice.value, statement, steps)
                for e in node.slice
            ) or self._array(node.value, statement, steps)
        if not isinstance(node, cst.Name):
            return False
        bindings = self.bindings(node.value, statement)
        return any(b.kind != "parameter" and self.is_inside(b.statement) for b in bindings)

    def bindings(self, name: str, statement: cst.CSTNode) -> tuple[Binding, ...]:
        """Return the bindings of a name that may hold where a statement of the function begins."""
        return self._reaching.before(statement, name) or ()

    def _bound(self, binding: Binding, steps: int) -> bool:
        if not self.is_inside(binding.statement) or binding.value is None:
            return False
        if binding.kind == "updated":
            return not self._is_reset(binding.name)
        if binding.kind == "assigned":
            if _adds_to(binding):  # ``t = t + dt``
                return not self._is_reset(binding.name)
            return self.number(binding.value, binding.statement, steps)
        if binding.kind == "unpacked":  # ``low, high = bounds(i)``
            made = binding.value
            return (
                self.is_float
                and isinstance(made, cst.Call)
                and self._result(made, binding.statement, steps)
            )
        loop = binding.statement
        if binding.kind != "element" or not isinstance(loop, cst.For):
            return False
        return self._counts(binding.value, binding.index, loop, MAX_STEPS) and not (
            binding.index == 0 and _called(binding.value) == "enumerate" and _walks_layers(loop)
        )

    def _is_reset(self, name: str) -> bool:
        """Return whether a counter begins again in the loop, and so takes few values."""
        bindings = self._reaching.bindings.get(name, ())
        return any(
            b.kind == "assigned"
            and isinstance(b.value, cst.Integer)
            and self.is_inside(b.statement)
            for b in bindings
        )

    def _counts(
        self, iterable: cst.BaseExpression, index: int | None, statement: cst.CSTNode, steps: int
    ) -> bool:
        """Return whether what walks over an iterable takes many numbers."""
        made, index = _walked(iterable, index)
        if steps == 0:
            return False
        name = _called(made)
        if name == "enumerate" and index == 0:
            return True
        if isinstance(made, cst.Call) and name in ("range", "trange"):
            return not _is_few(_positional(made))
        if index is not None or not isinstance(made, _ITERABLES):
            return False
        if isinstance(made, _COMPREHENSIONS):  # ``[0.9**i for i in range(n)]``
            target = made.for_in.target
            is_one = isinstance(target, cst.Name) and _depends_on(made.elt, target.value)
            return is_one and self._counts(made.for_in.iter, None, statement, steps - 1)
        if isinstance(made, cst.Call) and not isinstance(made.func, cst.Name):
            is_list = isinstance(made.func, cst.Attribute) and made.func.attr.value == "tolist"
            return is_list or self._is_space(made)
        return self._is_many(made, statement, steps - 1)

    def _is_space(self, call: cst.Call) -> bool:
        """``np.linspace(0, 1, n)``: no fact records a call of NumPy without arrays."""
        library, _, name = (dotted(call.func) or "").partition(".")
        return name in _SPACES and self._module.frame.names.get(library) == Symbol("numpy")

    def is_inside(self, statement: cst.CSTNode) -> bool:
        """Return whether a statement is the call's loop, or in it."""
        loop = self._place.loop
        return loop is not None and statement in contents_of(loop)

    def grows(self, name: str) -> bool:
        """Return whether each round of the loop adds to a list."""
        return self._place.loop is not None and name in grown_lists(self._place.loop)


def _adds_to(binding: Binding) -> bool:
    """``t = t + dt`` and ``t = t * decay``."""
    value = binding.value
    return (
        isinstance(value, cst.BinaryOperation)
        and not isinstance(value.operator, FEW_VALUED)
        and any(
            isinstance(s, cst.Name) and s.value == binding.name for s in (value.left, value.right)
        )
    )


def _operands(node: cst.BaseExpression) -> tuple[cst.BaseExpression, ...] | None:
    """The operands of arithmetic that takes as many values as they do; None for what is none."""
    if isinstance(node, cst.BinaryOperation):
        return () if isinstance(node.operator, FEW_VALUED) else (node.left, node.right)
    is_sign = isinstance(node, cst.UnaryOperation) and not isinstance(node.operator, cst.Not)
    return (cst.ensure_type(node, cst.UnaryOperation).expression,) if is_sign else None


def _depends_on(node: cst.BaseExpression, name: str) -> bool:
    """Return whether an arithmetic expression takes many values as a name does."""
    operands = _operands(node)
    if isinstance(node, cst.Call):
        operands = tuple(argument.value for argument in node.args)
    is_name = isinstance(node, cst.Name) and node.value == name
    return is_name or any(_depends_on(operand, name) for operand in operands or ())


def _called(node: cst.BaseExpression) -> str | None:
    return dotted(node.func) if isinstance(node, cst.Call) else None


@kept_for_file
def grown_lists(body: cst.CSTNode) -> frozenset[str | None]:
    """Return the paths of the lists that a body adds to, by methods or ``+=`` of a list."""
    contents = contents_of(body)
    functions = [call.func for call in contents.calls]
    added = [f.value for f in functions if isinstance(f, cst.Attribute) and f.attr.value in _GROWS]
    added += [n.target for n in contents.of(cst.AugAssign) if isinstance(n.value, cst.List)]
    return frozenset(map(dotted, added))


def walks_few(loop: cst.For | cst.While) -> bool:
    """Return whether a loop is one over ``range(4)``."""
    made = loop.iter if isinstance(loop, cst.For) else None
    return isinstance(made, cst.Call) and _called(made) == "range" and _is_few(_positional(made))


def _is_few(arguments: list[cst.BaseExpression]) -> bool:
    if len(arguments) != 1 or not isinstance(arguments[0], cst.Integer):
        return False
    count = evaluated(arguments[0])
    return isinstance(count, int) and count <= FEW


def _walks_layers(loop: cst.For) -> bool:
    """Return whether the loop calls what it walks over, such as a module's layers."""
    target = loop.target
    elements = target.elements if isinstance(target, cst.Tuple) else ()
    names = {name for element in elements for name in target_names(element.value)}
    if isinstance(loop.iter, cst.Call) and loop.iter.args:
        given = loop.iter.args[0].value
        if isinstance(given, cst.Attribute):
            return True
    calls = contents_of(loop.body).calls
    return any((dotted(node.func) or "").partition(".")[0] in names for node in calls)
