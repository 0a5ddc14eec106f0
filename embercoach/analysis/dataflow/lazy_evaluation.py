"""Evaluation of lazy arrays: whether statements, calls and other files evaluate what names hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.function_summaries import called_back, evaluated_calls
from embercoach.analysis.dataflow.scopes import (
    assignment_counts,
    derived_attributes,
    names_inside,
    written_arguments,
)
from embercoach.analysis.syntax.trees import (
    SCOPES,
    children,
    dotted,
    parameters_of,
    target_names,
)
from embercoach.analysis.values.facts import (
    BinaryFact,
    CallFact,
    CompareFact,
    LocalCall,
    ProjectCall,
    calls_of,
)
from embercoach.analysis.values.inheritance import is_called
from embercoach.analysis.values.lattice import (
    BoundMember,
    Function,
    Kernel,
    LibraryObject,
    Sequence,
    Symbol,
    Transformed,
    Unknown,
    Value,
    as_array,
    as_number,
    holds_arrays,
    options,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import MOST_CALLS

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module

Effect = Literal["lazy", "evaluates", "unknown"]

EVALUATING = frozenset(("mlx.core.eval", "mlx.core.async_eval"))
_SAVING = ("mlx.core.save", "mlx.core.export")
#: Writes the graph of an array, which stays lazy.
_GRAPHS = frozenset(("mlx.core.export_to_dot",))
_LAZY_BUILTINS = frozenset(
    f"builtins.{name}"
    for name in (
        *("abs", "dict", "enumerate", "id", "isinstance", "iter", "len", "list", "next", "range"),
        *("reversed", "setattr", "sum", "tuple", "type", "zip", "getattr", "hasattr"),
    )
)
PULLS = frozenset(("item", "tolist"))
#: Methods of a dictionary that evaluate none of its arrays.
_VIEWS = frozenset(("items", "values", "keys"))
_WEIGHTS = frozenset(("parameters", "trainable_parameters"))
_WITHOUT_ARGUMENTS = _VIEWS | _WEIGHTS | {"eval", "train", "freeze", "unfreeze"}
_TREES = frozenset(("tree_map", "tree_unflatten"))
_LOOKUPS = frozenset(("get", "setdefault"))


def effect_of(callee: Value) -> Effect:
    """Return what calling a value does with the arguments."""
    if type(callee) is Symbol:
        return _of_symbol(callee.name)
    if type(callee) is BoundMember:
        return _of_method(callee)
    if type(callee) is LibraryObject or type(callee) is Kernel:
        return "lazy"
    # What is traced is lazy.
    is_traced = type(callee) is Transformed and callee.transform != "partial"
    return "lazy" if is_traced else "unknown"


def _of_symbol(name: str) -> Effect:
    if name in EVALUATING or (name.startswith(_SAVING) and name not in _GRAPHS):
        return "evaluates"
    if name.startswith("mlx.") or name in _LAZY_BUILTINS:
        return "lazy"
    return "evaluates" if name.startswith(("builtins.", "numpy.")) else "unknown"


def _of_method(callee: BoundMember) -> Effect:
    owner, name = callee.owner, callee.name
    if as_array(owner) is not None:
        return "evaluates" if name in PULLS or name.startswith("__") else "lazy"
    if type(owner) is LibraryObject:
        return "unknown" if "save" in name else "lazy"
    if any(type(o) is Unknown for o in options(owner)):
        return "unknown"
    return "lazy" if name == "append" and type(owner) is Sequence else "unknown"


def is_append(node: cst.Call) -> bool:
    """Test whether a call is ``losses.append(loss)``."""
    return isinstance(node.func, cst.Attribute) and node.func.attr.value == "append"


def is_pull(node: cst.Call) -> bool:
    """Test whether a call is ``loss.item()`` or ``x.tolist()``."""
    return isinstance(node.func, cst.Attribute) and node.func.attr.value in PULLS


def keeps_lazy(node: cst.Call) -> bool:
    """Test whether a method is one of a dictionary, list, layer or update that evaluates nothing.

    ``weights.items()``, ``totals.get(name, 0)``, ``losses.append(loss)``, ``model.eval()``.
    """
    name = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
    if name in _LOOKUPS or is_append(node) or is_at_update(node) or _updates_tree(node, name):
        return True
    return name in _WITHOUT_ARGUMENTS and not node.args


def _updates_tree(node: cst.Call, name: str) -> bool:
    """Test whether a call is ``model.update(tree_map(f, weights))``."""
    made = node.args[0].value if name == "update" and len(node.args) == 1 else None
    func = made.func if isinstance(made, cst.Call) else None
    last = func.attr if isinstance(func, cst.Attribute) else func
    return isinstance(last, cst.Name) and last.value in _TREES


def is_at_update(node: cst.Call) -> bool:
    """Test whether a call is ``x.at[i].add(...)``."""
    view = node.func.value if isinstance(node.func, cst.Attribute) else None
    inner = view.value if isinstance(view, cst.Subscript) else None
    return isinstance(inner, cst.Attribute) and inner.attr.value == "at"


def is_update(fact: CallFact) -> bool:
    """Return whether a call is ``optimizer.update(model, gradients)``."""
    callee, func = fact.callee, fact.node.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in _UPDATES:
        return False
    if isinstance(callee, BoundMember) and isinstance(callee.owner, LibraryObject):
        return callee.owner.cls.startswith("mlx.optimizers.")
    gradients = fact.argument(1, "gradients")
    return isinstance(callee, Unknown) and gradients is not None and holds_arrays(gradients.value)


_UPDATES = frozenset(("update", "apply_gradients"))
#: Methods of arrays, lists and dictionaries of which nothing is known.
_METHODS = frozenset(
    (
        *("append", "get", "items", "keys", "values", "setdefault", "update"),
        *("parameters", "trainable_parameters"),
        *("astype", "mean", "reshape", "square", "squeeze", "sum", "transpose", "var"),
    )
)
_TESTS = (cst.Assert, cst.FormattedString, cst.Yield, cst.Await, cst.While, cst.BooleanOperation)


@kept_for_file
def is_plainly_lazy(function: FunctionInfo, depth: int = 0) -> bool:
    """Return whether a function only calls lazy operations, and tests nothing but None."""
    contents = contents_of(function.node.body)
    tests = [node.test for node in contents.of(cst.If)]
    tests += [node.test for node in contents.of(cst.IfExp)]
    if contents.of(*_TESTS) or not all(map(_is_presence, tests)):
        return False
    return all(_is_lazy(call, depth) for call in evaluated_calls(function))


def _is_presence(test: cst.BaseExpression) -> bool:
    """Test whether a condition is ``x is None`` or ``name in totals``."""
    kinds = (cst.Is, cst.IsNot, cst.In, cst.NotIn)
    return isinstance(test, cst.Comparison) and all(
        isinstance(comparison.operator, kinds) for comparison in test.comparisons
    )


def _is_lazy(call: CallFact, depth: int) -> bool:
    if type(call.callee) is Function:
        return depth < MOST_CALLS and is_plainly_lazy(call.callee.info, depth + 1)
    if call.symbol in ("builtins.min", "builtins.max"):
        return all(as_number(argument.value) is not None for argument in call.arguments)
    effect, func = effect_of(call.callee), call.node.func
    is_method = isinstance(func, cst.Attribute) and func.attr.value in _METHODS
    return effect == "lazy" or (effect == "unknown" and is_method)


#: What becomes of an expression: nothing of the names in it, an array of them, an evaluation.
Use = Literal["none", "derived", "evaluated"]

#: Attributes of an array that are known without its numbers.
METADATA = frozenset(("shape", "size", "ndim", "dtype", "nbytes", "itemsize"))


class Evaluation:
    """The effects of the calls of one analysed file."""

    def __init__(self, module: Module, *, is_certain: bool = False) -> None:
        """Collect the calls.

        Args:
            module: the file.
            is_certain: what is not known evaluates nothing.
        """
        self._module = module
        self._unclear: Use = "derived" if is_certain else "evaluated"
        self._escapes = not is_certain
        self._followed = 0  # calls inside of each other, of the question at hand
        self.calls = calls_of(module)
        #: Questions about each loop, and what is known of functions: each takes a walk.
        self.asked: Counter[cst.CSTNode | None] = Counter()
        self._reached: dict[tuple[cst.CSTNode, Callable[[cst.CSTNode], bool]], bool] = {}
        self._local: dict[cst.CSTNode, LocalCall] = {}
        self.operations: dict[cst.CSTNode, BinaryFact] = {}
        self.comparisons: dict[cst.CSTNode, CompareFact] = {}
        #: Calls of functions of other files.
        self.elsewhere: dict[cst.CSTNode, ProjectCall] = {}
        for fact in module.facts():
            if type(fact) is BinaryFact:
                self.operations[fact.node] = fact
            elif type(fact) is CompareFact:
                self.comparisons[fact.node] = fact
            elif type(fact) is LocalCall:
                self._local[fact.node] = fact
            elif type(fact) is ProjectCall:
                self.elsewhere[fact.node] = fact

    @cached_property
    def _attributes(self) -> frozenset[str]:
        """Attributes of objects of the file, and methods; others may be properties."""
        functions = self._module.functions
        properties = {info.name for info in functions if info.is_property}
        methods = {info.name for info in functions}
        return frozenset({*assignment_counts(self._module), *methods} - properties)

    def effect(self, call: cst.Call) -> Effect:
        """Return what a call does with its arguments."""
        fact = self.calls.get(call)
        return "unknown" if fact is None else effect_of(fact.callee)

    def may_evaluate(self, body: Iterable[cst.CSTNode], names: set[str]) -> bool:
        """Return whether statements may evaluate arrays that are derived from names.

        What is derived from them is added to ``names``.
        """
        statements = list(body)
        for _ in range(MOST_CALLS):
            before = len(names)
            if any(self._statement(s, names) for s in statements):
                return True
            if len(names) == before:
                break
        return False

    def may_evaluate_in(self, function: FunctionInfo, names: set[str]) -> bool:
        """Return whether a function may evaluate arrays that are derived from names of it."""
        definition = function.node
        if isinstance(definition, cst.Lambda):
            return self.use(definition.body, names) == "evaluated"
        return self.may_evaluate(definition.body.body, names)

    def evaluates(self, body: cst.CSTNode) -> bool:
        """Return whether a body, or a function of the file that it calls, evaluates any array.

        Or lets other code run, which may.
        """
        return self._reaches(body, self._may_end)

    def updates(self, body: cst.CSTNode) -> bool:
        """Return whether a body, or a function of the file that it calls, updates weights."""
        return self._reaches(body, self._is_update)

    def _reaches(self, body: cst.CSTNode, test: Callable[[cst.CSTNode], bool]) -> bool:
        """Test the nodes of a body, and of each function of the file that it calls, once."""
        known = self._reached.get((body, test))
        if known is not None:
            return known
        seen, pending = {body}, [body]
        while pending and not known:
            for node in contents_of(pending.pop(), (cst.ClassDef,)):
                known = test(node)
                if known:
                    break
                local = self._local.get(node)
                inner = body if local is None else local.function.node.body
                if inner not in seen:
                    seen.add(inner)
                    pending.append(inner)
        self._reached[body, test] = bool(known)
        return bool(known)

    def _may_end(self, node: cst.CSTNode) -> bool:
        """Test whether an expression evaluates an array, or lets other code run."""
        if isinstance(node, (cst.Yield, cst.Await)):
            return True
        return isinstance(node, cst.Call) and self.effect(node) == "evaluates"

    def _is_update(self, node: cst.CSTNode) -> bool:
        fact = self.calls.get(node)
        return fact is not None and is_update(fact)

    def calls_in(self, body: cst.CSTNode) -> list[CallFact]:
        """Return the facts of the calls in a body or an expression."""
        facts = map(self.calls.get, contents_of(body).calls)
        return [fact for fact in facts if fact is not None]

    def local_call(self, call: cst.CSTNode) -> LocalCall | None:
        """Return the fact of a call of a function of the file."""
        return self._local.get(call)

    def _statement(self, node: cst.CSTNode, names: set[str]) -> bool:
        kind = type(node)
        if kind is cst.SimpleStatementLine:
            return any(self._statement(s, names) for s in node.body)  # type: ignore[attr-defined]
        if isinstance(node, SCOPES):
            return self._escapes and not names.isdisjoint(contents_of(node).names)
        if isinstance(node, cst.BaseCompoundStatement):
            return self._compound(node, names)
        value = getattr(node, "value", None)
        if kind is cst.Assert:
            value = node.test  # type: ignore[attr-defined]
        if kind is cst.Raise or value is None:
            return False
        use = self.use(value, names)
        if use == "evaluated" or (kind is cst.Assert and use == "derived"):
            return True
        if use == "derived":
            if kind is cst.Assign:
                targets = [t.target for t in node.targets]  # type: ignore[attr-defined]
                bound = [self._bind(target, names) for target in targets]
                return not all(bound) and self._escapes
            if kind is cst.AugAssign or kind is cst.AnnAssign:
                return not self._bind(node.target, names) and self._escapes  # type: ignore[attr-defined]
        return False

    def _compound(self, node: Any, names: set[str]) -> bool:
        kind = type(node)
        if kind is cst.If or kind is cst.While:
            if self.use(node.test, names) != "none":
                return True
        elif kind is cst.For:
            use = self.use(node.iter, names)
            if use == "evaluated":
                return True
            if use == "derived":
                self._bind(node.target, names)
        elif kind is cst.With:
            if any(self.use(item.item, names) != "none" for item in node.items):
                return self._escapes
        elif kind is cst.Match and self.use(node.subject, names) != "none":
            return True
        return any(self._statement(s, names) for s in _inner(node))

    def _bind(self, target: cst.CSTNode, names: set[str]) -> bool:
        """Add the names of a target; False unless it is a name, or part of a named object."""
        while isinstance(target, cst.Subscript):
            target = target.value
        if isinstance(target, (cst.Name, cst.Tuple, cst.List)):
            names.update(target_names(target))
            return True
        path = dotted(target)
        if path is None:
            return False
        if isinstance(target, cst.Attribute) and target.attr.value in self._attributes:
            # An attribute of an object whose other attribute is meant.
            names.update((path,) if _holds(target.value, names) else ())
        return path in names or path.partition(".")[0] in names

    def use(self, node: cst.CSTNode, names: set[str]) -> Use:
        """Return what an expression does with the arrays of some names."""
        kind = type(node)
        if kind is cst.Name:
            return "derived" if node.value in names else "none"  # type: ignore[attr-defined]
        if kind is cst.Attribute:
            path = dotted(node)
            if path in names:
                return "derived"
            attribute = node.attr.value  # type: ignore[attr-defined]
            if attribute in METADATA:
                return "none"
            if attribute not in self._attributes and _holds(node.value, names):  # type: ignore[attr-defined]
                return "derived"  # a property, such as ``state``
            return self.use(node.value, names)  # type: ignore[attr-defined]
        if kind is cst.Call:
            return self._call(node, names)  # type: ignore[arg-type]
        if isinstance(node, cst.BaseComp) and self.use(node.for_in.iter, names) == "derived":
            names = names.union(target_names(node.for_in.target))
        uses = {self.use(child, names) for child in children(node)}
        if "evaluated" in uses:
            return "evaluated"
        if "derived" not in uses:
            return "none"
        if kind is cst.Comparison and any(
            isinstance(c.operator, (cst.Is, cst.IsNot))
            for c in node.comparisons  # type: ignore[attr-defined]
        ):
            return "none"
        if kind is cst.FormattedString:
            return "evaluated"
        return self._unclear if kind in _ESCAPING else "derived"

    def _call(self, node: cst.Call, names: set[str]) -> Use:
        effect = self.effect(node)
        mapped = [a.value for a in node.args if effect == "lazy" and type(a.value) is cst.Lambda]
        given = [self.use(a.value, names) for a in node.args if a.value not in mapped]
        # ``tree_map(lambda p: decay * p, tree)`` runs the function, and keeps it nowhere.
        for function in mapped:
            own = (parameter.name.value for parameter in parameters_of(function.params))
            parts = set(own) if "derived" in given else set()
            given.append(self.use(function.body, names | parts))
        owner = node.func.value if isinstance(node.func, cst.Attribute) else None
        given.append("none" if owner is None else self.use(owner, names))
        if "evaluated" in given:
            return "evaluated"
        local = self._local.get(node)
        is_forward = local is not None and is_called(local.function)
        if dotted(node.func) in names and (effect == "lazy" or is_forward):
            return "derived"  # by the weights of a layer
        if "derived" not in given:
            return self._holding(node, owner, names)
        other = self.elsewhere.get(node)
        is_lazy = keeps_lazy(node) or (other is not None and is_plainly_lazy(other.function))
        if effect == "unknown" and local is None and is_lazy:
            effect = "lazy"
        if effect == "lazy":
            if owner is not None and given[-1] == "none" and is_append(node):
                return "none" if self._bind(owner, names) else self._unclear
            return "derived"
        # Whatever pulls an array's numbers evaluates it, as ``.item()`` of an item of a list.
        if effect == "evaluates" or (given[-1] == "derived" and is_pull(node)):
            return "evaluated"
        if local is not None and self._followed < MOST_CALLS:
            return self._passed(local, given, names)
        called = called_back(self.calls.get(node))
        if called is None or self._followed >= MOST_CALLS or not self._escapes:
            return self._unclear
        uses = {self._passed(call, given, names) for call in called}
        return "evaluated" if "evaluated" in uses else "derived"

    def _holding(self, node: cst.Call, owner: cst.BaseExpression | None, names: set[str]) -> Use:
        """Return what a call does that gets an object whose attribute is meant, or a closure."""
        local = self._local.get(node)
        passed = any(_holds(argument.value, names) for argument in node.args)
        if local is None:
            # A method that nothing is known of is one of an attribute, or the caller's question.
            return self._unclear if passed and self.effect(node) != "lazy" else "none"
        if self._followed >= MOST_CALLS:
            return self._unclear if passed or _holds(owner, names) else "none"
        inner = names_inside(local, names)
        return self._run(local, inner, names) if inner else "none"

    def _passed(self, call: LocalCall, given: list[Use], outer: set[str]) -> Use:
        """Return what a function of the file does with the arrays that it gets."""
        if any(argument.star for argument in call.node.args):
            return self._unclear
        derived = {a.value for a, use in zip(call.node.args, given, strict=False) if use != "none"}
        passed = written_arguments(call.node, call.function, is_bound=call.is_bound) or {}
        names = {name for name, value in passed.items() if value in derived}
        if len(names) < len(derived):
            return self._unclear
        names |= names_inside(call, outer)
        if given[-1] != "none" and call.is_bound:
            names.add(call.function.parameters[0].name)
        use = self._run(call, names, outer)
        return "derived" if use == "none" else use

    def _run(self, call: LocalCall, inner: set[str], outer: set[str]) -> Use:
        """Return what a function of the file does with names; what it sets is added to others."""
        self._followed += 1
        try:
            return self._done_by(call.function.node, inner)
        finally:
            self._followed -= 1
            outer |= derived_attributes(call, inner)

    def _done_by(self, definition: cst.FunctionDef | cst.Lambda, names: set[str]) -> Use:
        if isinstance(definition, cst.Lambda):
            return self.use(definition.body, names)
        if self.may_evaluate(definition.body.body, names):
            return "evaluated"
        values = (node.value for node in contents_of(definition.body, SCOPES).of(cst.Return))
        results = (self.use(node, names) for node in values if node is not None)
        return "derived" if "derived" in results else "none"


_ESCAPING = frozenset((cst.Lambda, cst.Yield, cst.Await, cst.BooleanOperation, cst.GeneratorExp))


def _holds(node: cst.CSTNode | None, names: set[str]) -> bool:
    """Test whether an attribute of an object is meant."""
    path = None if node is None else dotted(node)
    return path is not None and any(name.startswith(f"{path}.") for name in names)


def _inner(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the statements in the suites of a compound statement."""
    for part in (getattr(node, n, None) for n in ("body", "orelse", "finalbody")):
        if isinstance(part, cst.If):
            yield part
        elif part is not None:
            suite = part if isinstance(part, cst.BaseSuite) else part.body
            yield from suite.body
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield from part.body.body


@kept_for_file
def evaluation_of(module: Module, *, is_certain: bool = False) -> Evaluation:
    """Return the effects of the calls of the file that is checked."""
    return Evaluation(module, is_certain=is_certain)
