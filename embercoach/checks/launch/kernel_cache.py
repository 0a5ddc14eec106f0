"""KERNEL-CACHE: kernels that are built again, and values that change, compiled into one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
from msgspec import Struct

from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
from embercoach.analysis.dataflow.contexts import context_of
from embercoach.analysis.dataflow.scopes import (
    MAX_STEPS,
    Expression,
    assignment_counts,
    display,
    items,
    resolve_name,
    scope_of,
)
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import (
    around,
    children,
    dotted,
    names_below,
    statements_below,
    target_names,
)
from embercoach.analysis.values.facts import CallFact, Fact, FactPlace, FunctionVisit, calls_of
from embercoach.analysis.values.lattice import Str, as_array
from embercoach.checks.programs.kernels import PythonKernel, definitions
from embercoach.checks.programs.launch_sizes import is_data_size, symbolic
from embercoach.checks.registry import Report, check

#: Words in the name of a decorator that keeps what a function returns.
KEEPERS = ("cache", "memo", "once", "singleton")


class Build(Struct, frozen=True):
    """An expression that builds a kernel when it runs; by: a function that it calls for that."""

    node: cst.Call
    place: FactPlace
    by: FunctionInfo | None = None


@check("KERNEL-CACHE-001")
def kernel_per_call(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``kernel = mx.fast.metal_kernel(...)`` and ``kernel(...)`` in one function."""
    reported: set[cst.CSTNode] = set()
    for kernel in definitions(module, facts):
        if not kernel.own:
            continue
        builds = [Build(kernel.fact.node, kernel.fact.place)]
        for build in (*builds, *_made_by_a_factory(kernel, facts)):
            if build.node not in reported and _is_repeated(build, kernel.calls):
                reported.add(build.node)
                yield from _report(build, module)


def _report(build: Build, module: Module) -> Iterator[Report]:
    context = context_of(build.place, module, by_calls=True)
    function = build.place.function
    if function is None or (function.name == "main" and function.outer is None):
        return
    how = "" if build.by is None else f" through `{build.by.name}`"
    yield Report.at(
        build,
        "KERNEL-CACHE-001",
        message=f"`{function.name}` rebuilds its kernel in every call{how}",
        help="Build it once, at module level or in a cached function; pass what varies as inputs",
        context=context,
    )


def _is_repeated(build: Build, launches: Sequence[CallFact]) -> bool:
    """Return whether each call of the function builds, launches and drops the kernel."""
    function = build.place.function
    if function is None or runs_once(function):
        return False
    own = [f for f in launches if f.place.function is function and _launches(f.node, build)]
    amortised = any(launch.place.loops > build.place.loops for launch in own)
    return bool(own) and not amortised and _built_each_time(build, function, own)


def _launches(call: cst.Call, build: Build) -> bool:
    """Return whether a call may launch the built kernel: a factory may make several."""
    statement = build.place.statement
    if build.by is None or call.func is build.node or not isinstance(statement, cst.Assign):
        return build.by is None or call.func is build.node
    names = {t.target.value for t in statement.targets if isinstance(t.target, cst.Name)}
    return isinstance(call.func, cst.Name) and call.func.value in names


def _made_by_a_factory(kernel: PythonKernel, facts: list[Fact]) -> Iterator[Build]:
    """Yield the calls of a function that returns a new kernel each time."""
    factory, module = kernel.fact.place.function, kernel.module
    if factory is None or runs_once(factory) or not _returns_new(kernel.fact, factory):
        return
    name = factory.name
    if factory.cls is None:
        found = scope_of(module, factory.outer).find(name)
        if found is None or found[1] is None or found[1].node is not factory.node:
            return
    elif name in assignment_counts(module):
        return
    for fact in facts:
        if not isinstance(fact, FunctionVisit) or fact.function is not factory:
            continue
        # Under another name it may be wrapped in something that keeps its results.
        if (dotted(fact.node.func) or "").rpartition(".")[2] == name:
            yield Build(fact.node, fact.place, factory)


def _returns_new(built: CallFact, factory: FunctionInfo) -> bool:
    """Return whether a function always builds a kernel, returns it, and does not keep it."""
    body, statement = factory.node.body, built.place.statement
    if isinstance(body, cst.BaseExpression):
        return body is built.node
    if any(isinstance(outer, cst.If) for outer in around(body, statement)):
        return False
    if isinstance(statement, cst.Return):
        return statement.value is built.node
    if not isinstance(statement, cst.Assign) or statement.value is not built.node:
        return False
    targets = [t.target for t in statement.targets]
    name = targets[0].value if len(targets) == 1 and isinstance(targets[0], cst.Name) else None
    if name is None or name in factory.global_names:
        return False
    return not _is_kept(body, name, returned=True)


def runs_once(function: FunctionInfo) -> bool:
    """Return whether the function runs once, or its results are kept."""
    if function.name == "__init__" or function.compiled:
        return True
    node = function.node
    for decorator in node.decorators if isinstance(node, cst.FunctionDef) else ():
        called = decorator.decorator
        name = dotted(called.func if isinstance(called, cst.Call) else called) or ""
        if any(keeper in name.lower() for keeper in KEEPERS):
            return True
    return False


def _built_each_time(build: Build, function: FunctionInfo, launches: Sequence[CallFact]) -> bool:
    """Return whether every call builds the kernel, and nothing keeps it for the next one."""
    body = function.node.body
    if isinstance(body, cst.BaseExpression):
        return True
    statement = build.place.statement
    tests = [outer.test for outer in around(body, statement) if isinstance(outer, cst.If)]
    if any(map(_asks_for_kept, tests)):
        return False
    if isinstance(statement, (cst.Assign, cst.AnnAssign)) and statement.value is build.node:
        targets = (
            [t.target for t in statement.targets]
            if isinstance(statement, cst.Assign)
            else [statement.target]
        )
        names = [t.value for t in targets if isinstance(t, cst.Name)]
        if len(names) < len(targets) or function.global_names.intersection(names):
            return False
        return not any(_is_kept(body, name) for name in names)
    # The kernel is launched where it is built, or it went elsewhere.
    return any(launch.node.func is build.node for launch in launches)


def _asks_for_kept(test: cst.CSTNode) -> bool:
    """Return whether a condition may ask for a kernel that was built before."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return True
    if isinstance(test, cst.Comparison):
        operators = (target.operator for target in test.comparisons)
        return any(isinstance(o, (cst.Is, cst.IsNot, cst.In, cst.NotIn)) for o in operators)
    if isinstance(test, cst.BooleanOperation):
        return _asks_for_kept(test.left) or _asks_for_kept(test.right)
    return isinstance(test, cst.Call) and dotted(test.func) == "hasattr"


def _is_kept(body: cst.CSTNode, name: str, *, returned: bool = False) -> bool:
    """Return whether a local name is used other than being bound, called or returned."""
    pending: list[cst.CSTNode] = [body]
    while pending:
        node = pending.pop()
        if isinstance(node, cst.Name):
            if node.value == name:
                return True
            continue
        if returned and isinstance(node, cst.Return) and isinstance(node.value, cst.Name):
            continue
        if isinstance(node, (cst.FunctionDef, cst.Lambda, cst.Nonlocal)):
            # Functions inside may keep it, or launch it later.
            if name in names_below(node):
                return True
            continue
        inner = children(node)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
            inner = [child for child in inner if child is not node.func]
        elif isinstance(node, cst.AssignTarget) and isinstance(node.target, cst.Name):
            continue
        elif isinstance(node, cst.AnnAssign):
            inner = [] if node.value is None else [node.value]
        elif isinstance(node, (cst.Attribute, cst.Arg)):
            # Names of members and of keywords are not variables.
            inner = [node.value]
        pending.extend(inner)
    return False


#: Values that a kernel may well be compiled for, one by one.
FEW = 64
#: Operators whose result takes as many values as an operand does.
KEEPING = (cst.Add, cst.Subtract, cst.Multiply)
TEXTS = ("source", "header", "name")


@check("KERNEL-CACHE-002")
def compiled_per_call(kernel: PythonKernel) -> Iterator[Report]:
    """``template=[("STEP", self.step)]`` with ``self.step += 1``."""
    module = kernel.module
    for launch in kernel.calls:
        yield from _reports(launch, _template_values(launch, module), module)
    if kernel.own:
        yield from _reports(kernel.fact, _formatted(kernel.fact, module), module)


def _reports(fact: CallFact, values: Iterator[Expression], module: Module) -> Iterator[Report]:
    function = fact.place.function
    context = context_of(fact.place, module, by_calls=True)
    if context != "avoidable" or function is None or runs_once(function):
        return
    varying = _Varying(fact.place, function, module)
    for value in values:
        reason = varying.reason(value)
        if reason is not None:
            yield Report.at(
                fact,
                "KERNEL-CACHE-002",
                node=value.node,
                message=f"kernel is recompiled for each value: {reason}",
                help="Pass it as an input: a Python number in `inputs` arrives as a scalar",
                context=context,
            )


def _template_values(launch: CallFact, module: Module) -> Iterator[Expression]:
    """Yield the values of the template arguments, as far as they are written in the call."""
    argument = launch.keyword("template")
    if argument is None:
        return
    scope = scope_of(module, launch.place.function)
    for pair in items(Expression(argument.node, scope)) or ():
        parts = display(pair.node)
        if parts is not None and len(parts) == 2:
            yield pair.at(parts[1])


def _formatted(definition: CallFact, module: Module) -> Iterator[Expression]:
    """Yield the values that an f-string formats into the texts of a kernel."""
    for name in TEXTS:
        argument = definition.keyword(name)
        if argument is None or not isinstance(argument.value, Str):
            continue
        text = resolve_name(Expression(argument.node, scope_of(module, definition.place.function)))
        if isinstance(text.node, cst.FormattedString):
            for part in text.node.parts:
                if isinstance(part, cst.FormattedStringExpression):
                    yield text.at(part.expression)


class _Varying(Struct, frozen=True):
    """Values that change between the runs of a launch."""

    place: FactPlace
    function: FunctionInfo
    module: Module

    def reason(self, size: Expression, depth: int = MAX_STEPS) -> str | None:
        """Return how an expression takes a new value in most runs, None if it may not."""
        node = size.node
        if isinstance(node, cst.Name):
            bound = resolve_name(size)
            if bound.node is node:
                return self._of_name(size)
            return self.reason(bound, depth - 1) if depth else None
        if isinstance(node, cst.Attribute):
            return self._of_attribute(node)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, KEEPING):
            return self._first((node.left, node.right), size, depth)
        if isinstance(node, cst.Call):
            return self._of_call(node, size, depth)
        return None

    def _first(
        self, nodes: tuple[cst.BaseExpression, ...], size: Expression, depth: int
    ) -> str | None:
        if not depth:
            return None
        found = (self.reason(size.at(node), depth - 1) for node in nodes)
        return next((reason for reason in found if reason is not None), None)

    def _of_call(self, node: cst.Call, size: Expression, depth: int) -> str | None:
        if dotted(node.func) in ("int", "max"):
            return self._first(tuple(a.value for a in node.args), size, depth)
        fact = calls_of(self.module).get(node)
        if not isinstance(node.func, cst.Attribute) or node.func.attr.value != "item":
            return None
        if fact is None or fact.receiver is None or as_array(fact.receiver) is None:
            return None
        return None if self._is_truth(fact) else "this is read from an array"

    def _is_truth(self, fact: CallFact) -> bool:
        array = as_array(fact.receiver) if fact.receiver is not None else None
        return array is not None and array.dtype == "bool"

    def _of_name(self, size: Expression) -> str | None:
        """Return the counter of a long loop around the launch, or one that grows in the loop."""
        assert isinstance(size.node, cst.Name)
        name = size.node.value
        found = size.scope.find(name)
        if found is None or found[0] is not scope_of(self.module, self.function):
            return None
        for loop in around(self.function.node.body, self.place.statement):
            if not isinstance(loop, (cst.For, cst.While)):
                continue
            if isinstance(loop, cst.For) and self._is_long_counter(loop, name, size):
                return f"`{name}` counts a loop"
            if any(_grows(node, name) for node in statements_below(loop.body)):
                return f"`{name}` grows in the loop"
        return None

    def _is_long_counter(self, loop: cst.For, name: str, size: Expression) -> bool:
        """``for name in range(x.shape[0])``, ``in range(1000)``, ``name, x in enumerate(xs)``."""
        over = loop.iter
        counted = _enumerated(loop, name)
        if counted is not None:
            return bool(counted & _names_in_inputs(self.place.statement))
        if not isinstance(loop.target, cst.Name) or loop.target.value != name:
            return False
        if isinstance(over, cst.Call) and dotted(over.func) in ("itertools.count", "count"):
            return True
        if not isinstance(over, cst.Call) or dotted(over.func) != "range" or not over.args:
            return False
        end = symbolic(size.at(over.args[0 if len(over.args) == 1 else 1].value))
        if len(over.args) == 3 and symbolic(size.at(over.args[2].value)).known not in (1, -1):
            return False
        return end.known > FEW if end.known is not None else is_data_size(end)

    def _of_attribute(self, node: cst.Attribute) -> str | None:
        """Return a counter of the object: ``self.step += 1`` in one of its methods."""
        path, cls = dotted(node), self.function.cls
        if cls is None or path is None or not path.startswith("self.") or path.count(".") != 1:
            return None
        return f"`{path}` grows with every call" if _counts(cls, path) else None


def _enumerated(loop: cst.For, name: str) -> set[str] | None:
    """Return the item names of a loop over ``enumerate(xs)``, None for other loops."""
    target, over = loop.target, loop.iter
    if not isinstance(over, cst.Call) or dotted(over.func) != "enumerate":
        return None
    if not isinstance(target, cst.Tuple) or len(target.elements) != 2:
        return None
    counter, item = (element.value for element in target.elements)
    if not isinstance(counter, cst.Name) or counter.value != name:
        return None
    return set(target_names(item))


def _names_in_inputs(statement: cst.CSTNode) -> set[str]:
    """Return the names in the ``inputs`` of a launch: of a loop's items those that are arrays."""
    found: set[str] = set()
    pending: list[tuple[cst.CSTNode, bool]] = [(statement, False)]
    while pending:
        node, inside = pending.pop()
        if isinstance(node, cst.Name) and inside:
            found.add(node.value)
        if isinstance(node, cst.Arg) and node.keyword is not None:
            pending.append((node.value, inside or node.keyword.value == "inputs"))
        elif isinstance(node, cst.Attribute):
            # A layer's weight makes no array of the layer.
            continue
        else:
            pending.extend((child, inside) for child in children(node))
    return found


def _counts(cls: ClassInfo, path: str) -> bool:
    """Return whether a repeated method adds to an attribute, and does not reset it."""
    for method in cls.methods.values():
        if method.name == "__init__" or not isinstance(method.node, cst.FunctionDef):
            continue
        statements = list(statements_below(method.node.body))
        if any(_grows(s, path) for s in statements) and not any(_sets(s, path) for s in statements):
            return True
    return False


def _sets(node: cst.CSTNode, path: str) -> bool:
    """``path = something else``."""
    if not isinstance(node, cst.Assign) or _grows(node, path):
        return False
    return any(dotted(target.target) == path for target in node.targets)


def _grows(node: cst.CSTNode, path: str) -> bool:
    """``path += n``, ``path = path + n``."""
    if isinstance(node, cst.AugAssign):
        return isinstance(node.operator, cst.AddAssign) and dotted(node.target) == path
    if not isinstance(node, cst.Assign) or not isinstance(node.value, cst.BinaryOperation):
        return False
    targets = [dotted(target.target) for target in node.targets]
    added = node.value
    if not isinstance(added.operator, cst.Add) or targets != [path]:
        return False
    return path in (dotted(added.left), dotted(added.right))
