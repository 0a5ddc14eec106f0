"""Bindings of the names in an expression: in a function, or in one call of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst
from msgspec import Struct

from embercoach.analysis.dataflow.contents import Contents, contents_of
from embercoach.analysis.dataflow.reaching import Binding, Reaching
from embercoach.analysis.syntax.trees import DEFINITIONS, dotted, targets_of
from embercoach.analysis.values.inheritance import is_called
from embercoach.analysis.values.memo import kept_for_file

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import CallFact, FunctionVisit, LocalCall, ProjectCall

#: Names that are followed one after the other.
MAX_STEPS = 8
#: Methods that Python calls once for each object.
CONSTRUCTORS = frozenset(("__init__", "__post_init__"))


class Expression(Struct, frozen=True, eq=False):
    """An expression, or a function, and the scope that its names belong to."""

    node: cst.CSTNode
    scope: Scope

    def at(self, node: cst.CSTNode) -> Expression:
        """Another expression of the same scope."""
        return Expression(node, self.scope)


_UNBOUND = Reaching(cst.Module([]), has_walrus=False)


class Scope:
    """The names of a function or module, and what one binding each binds them to."""

    def __init__(
        self,
        module: Module,
        outer: Scope | None,
        reaching: Callable[[], Reaching] | None = None,
        bindings: dict[str, Expression | None] | None = None,
        elsewhere: frozenset[str] = frozenset(),
        owner: object = None,
    ) -> None:
        """Make a scope.

        Args:
            module: the file.
            outer: the scope around, None for that of the module.
            reaching: walks the function or module for its bindings; None for those passed alone.
            bindings: what parameters are bound to.
            elsewhere: names that are bound for the scopes around.
            owner: what the scope is of; scopes of one owner are equal.
        """
        self.owner = self if owner is None else owner
        self.module = module
        self.outer = outer
        self._reaching = reaching
        self._passed = bindings or {}
        self._elsewhere = elsewhere
        self._found: dict[str, Expression | None] = {}  # one node for each target of several

    @cached_property
    def reaching(self) -> Reaching:
        """The bindings of the function or module; few scopes are asked for them."""
        return _UNBOUND if self._reaching is None else self._reaching()

    def find(self, name: str) -> tuple[Scope, Expression | None] | None:
        """Return the scope that binds a name, and to what, if that is one expression."""
        scope: Scope | None = self
        while scope is not None:
            if scope.binds(name):
                return scope, scope.bound(name)
            scope = scope.outer
        return None

    def binds(self, name: str) -> bool:
        """Return whether the name is one of this scope."""
        if self._reaching is None or name in self._elsewhere:
            return name in self._passed
        return name in self.reaching.bindings

    def bound(self, name: str) -> Expression | None:
        """Return the expression that a name of this scope is bound to, if it is one."""
        if self._reaching is None:
            return self._passed.get(name)
        if name not in self._found:
            binding, *more = self.reaching.bindings[name]
            node = None if more or self.reaching.gave_up else _value_of(binding)
            self._found[name] = None if node is None else Expression(node, self)
            if not more and binding.kind == "parameter":
                self._found[name] = self._passed.get(name)
        return self._found[name]


def _value_of(binding: Binding) -> cst.CSTNode | None:
    """Return the expression that a binding binds a name to, or the function."""
    if binding.kind == "assigned":
        return binding.value
    if binding.kind == "opaque":
        return binding.node if isinstance(binding.node, cst.FunctionDef) else None
    if binding.kind != "unpacked" or binding.index is None:
        return None
    assert binding.value is not None
    # ``rows, columns = x.shape`` binds x.shape[0] and x.shape[1].
    at = cst.SubscriptElement(cst.Index(cst.Integer(str(binding.index))))
    return cst.Subscript(value=binding.value, slice=[at])


def bodies_of(module: Module) -> Iterator[tuple[FunctionInfo | None, Contents]]:
    """Yield the top level of a file and each function, without the functions inside."""
    yield None, contents_of(module.tree, DEFINITIONS)
    for function in module.functions:
        yield function, contents_of(function.node.body, DEFINITIONS)


@kept_for_file
def scope_of(module: Module, function: FunctionInfo | None) -> Scope:
    """Return the scope of a function's body, within those around it."""
    node = module.tree if function is None else function.node

    def reaching() -> Reaching:
        return Reaching(node, has_walrus=module.parsed.may_have_walrus(node))

    if function is None:
        return Scope(module, None, reaching, owner=module)
    names = frozenset(function.global_names)
    around = scope_of(module, function.outer)
    return Scope(module, around, reaching, elsewhere=names, owner=function)


def is_rebound(module: Module, function: FunctionInfo, name: str) -> bool:
    """Return whether a function's body binds a name, a parameter's for example."""
    bindings = scope_of(module, function).reaching.bindings
    return any(binding.kind != "parameter" for binding in bindings.get(name, ()))


def scope_at(fact: CallFact, module: Module) -> Scope:
    """The scope of a call's arguments; for one visit of a function, what that passes is known."""
    if fact.visit is None:
        return scope_of(module, fact.place.function)
    return _visited(fact.visit, module)


@kept_for_file
def _visited(visit: FunctionVisit, module: Module) -> Scope:
    """Return the scope of a function's body in one call of it."""
    info, outer = visit.function, visit.outer
    beside = outer is not None and outer.function is info.outer
    around = _visited(outer, module) if outer and beside else scope_of(module, info.outer)
    caller = _visited(outer, module) if outer else scope_of(module, visit.place.function)
    passed: dict[str, Expression | None] = {}
    for parameter in info.parameters:
        if parameter.default is not None and not parameter.star:
            passed[parameter.name] = Expression(parameter.default, around)
    for name, node in passed_by(visit).items():
        passed[name] = Expression(node, caller)
    body, names = scope_of(module, info), frozenset(info.global_names)
    return Scope(module, around, lambda: body.reaching, passed, names, owner=visit)


def passed_by(visit: FunctionVisit) -> dict[str, cst.BaseExpression]:
    """Return the expressions that a call passes for parameters, by their names."""
    pairs = ((argument.keyword, argument.node) for argument in visit.arguments)
    return by_parameter(visit.function, pairs, is_bound=visit.bound is not None)


def by_parameter(
    function: FunctionInfo,
    arguments: Iterable[tuple[str | None, cst.BaseExpression]],
    *,
    is_bound: bool,
) -> dict[str, cst.BaseExpression]:
    """Get the expressions of arguments by parameters, of keywords and expressions without stars."""
    names = [p.name for p in function.parameters if not p.star and not p.keyword_only]
    free = iter(names[is_bound:])
    pairs = ((keyword or next(free, None), node) for keyword, node in arguments)
    return {name: node for name, node in pairs if name is not None}


def passed_arguments(call: LocalCall | ProjectCall) -> dict[str, cst.BaseExpression]:
    """Return what a call passes by parameter, but for arguments with a star."""
    plain = [a for a in call.node.args if not a.star]
    pairs = ((a.keyword.value if a.keyword else None, a.value) for a in plain)
    return by_parameter(call.function, pairs, is_bound=call.is_bound)


def passed_with_owner(call: LocalCall | ProjectCall) -> dict[str, cst.BaseExpression]:
    """Return what a call passes by parameter, with the object that a method is of."""
    function, func = call.function, call.node.func
    passed = passed_arguments(call)
    if call.is_bound and function.parameters:
        is_named = isinstance(func, cst.Attribute) and func.attr.value == function.name
        if is_called(function) and not is_named:
            passed[function.parameters[0].name] = func  # ``metric(x)``, ``self.metric(x)``
        elif isinstance(func, cst.Attribute):
            passed[function.parameters[0].name] = func.value
    return passed


def _passed_paths(call: LocalCall) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a call, and the paths that are passed for them."""
    for parameter, node in passed_with_owner(call).items():
        path = dotted(node)
        if path is not None:
            yield parameter, path


def derived_attributes(call: LocalCall, inner: set[str]) -> set[str]:
    """Get the attributes that a function has set to something derived, as its caller knows them."""
    return {
        f"{path}{name[len(parameter) :]}"
        for parameter, path in _passed_paths(call)
        for name in inner
        if name.startswith(f"{parameter}.")
    }


def names_inside(call: LocalCall, names: set[str]) -> set[str]:
    """Return the names as the function of the file that is called knows them."""
    function = call.function
    found: set[str] = set()
    for parameter, path in _passed_paths(call):
        found |= {f"{parameter}{n[len(path) :]}" for n in names if n.startswith(f"{path}.")}
    if function.nonlocal_names or function.global_names or function.outer is not None:
        own = {parameter.name for parameter in function.parameters}
        free = names - own
        found |= free & contents_of(function.node.body).names if free else set()
    return found


@kept_for_file  # checks ask for one parameter after the other
def written_arguments(
    call: cst.Call, function: FunctionInfo, *, is_bound: bool
) -> dict[str, cst.BaseExpression] | None:
    """Return the arguments of a call by the parameters of a function; None where one has a star."""
    if any(argument.star for argument in call.args):
        return None
    pairs = ((a.keyword.value if a.keyword else None, a.value) for a in call.args)
    return by_parameter(function, pairs, is_bound=is_bound)


@kept_for_file
def assignment_counts(module: Module) -> Counter[str]:
    """Return how often a file assigns to an attribute of each name, of whatever object."""
    targets = contents_of(module.tree).targets
    return Counter(target.attr.value for target in targets if isinstance(target, cst.Attribute))


class AssignedValue(NamedTuple):
    """A statement that assigns to an attribute, its method, and the value if that is plain."""

    value: cst.BaseExpression | None
    statement: cst.CSTNode
    setter: FunctionInfo


@kept_for_file
def assignments_of(cls: ClassInfo, name: str) -> tuple[AssignedValue, ...]:
    """Return the statements of a class's methods that assign to ``self.<name>``."""
    found: list[AssignedValue] = []
    for setter in cls.setters.get(name, ()):
        path = f"{setter.parameters[0].name}.{name}"
        found += [
            AssignedValue(_assigned_value(statement, path), statement, setter)
            for statement in contents_of(setter.node.body).statements
            if path in map(dotted, targets_of(statement))
        ]
    return tuple(found)


def _assigned_value(statement: cst.CSTNode, path: str) -> cst.BaseExpression | None:
    """The value that a statement assigns to a path, None for one that is updated or unpacked."""
    pairs: list[tuple[cst.BaseExpression, cst.BaseExpression | None]] = []
    if isinstance(statement, cst.Assign):
        pairs = [(target.target, statement.value) for target in statement.targets]
    elif isinstance(statement, cst.AnnAssign):
        pairs = [(statement.target, statement.value)]
    while pairs:
        target, value = pairs.pop()
        if dotted(target) == path:
            return value
        targets, values = display(target) or [], display(value) or []
        pairs += zip(targets, values, strict=False) if len(targets) == len(values) else ()
    return None


def made_in_init(cls: ClassInfo, name: str) -> cst.BaseExpression | None:
    """Return what the constructor of a class assigns to ``self.<name>``, if it does so once."""
    found = [one.value for one in assignments_of(cls, name) if one.setter.name in CONSTRUCTORS]
    return found[0] if len(found) == 1 else None


def fixed_attribute(
    node: cst.CSTNode, function: FunctionInfo | None, module: Module
) -> cst.BaseExpression | None:
    """Return what ``self.<name>`` is, if ``__init__`` sets it and nothing else in the file does."""
    path = dotted(node) if isinstance(node, cst.Attribute) else None
    if path is None or function is None or function.cls is None:
        return None
    owner, _, name = path.partition(".")
    if owner != "self" or "." in name or assignment_counts(module)[name] != 1:
        return None
    return made_in_init(function.cls, name)


def resolve_name(expression: Expression) -> Expression:
    """Follow names to the expression that they are bound to."""
    for _ in range(MAX_STEPS):
        if not isinstance(expression.node, cst.Name):
            break
        found = expression.scope.find(expression.node.value)
        if found is None or found[1] is None:
            break
        expression = found[1]
    return expression


def display(node: cst.CSTNode | None) -> list[cst.BaseExpression] | None:
    """Return the items of a list or tuple as written, None for anything else."""
    if not isinstance(node, (cst.Tuple, cst.List)):
        return None
    if any(isinstance(element, cst.StarredElement) for element in node.elements):
        return None
    return [element.value for element in node.elements]


def resolved(node: cst.CSTNode, function: FunctionInfo | None, module: Module) -> cst.CSTNode:
    """Return the expression that a name of a function is bound to, or the node itself."""
    return resolve_name(Expression(node, scope_of(module, function))).node


class Bound(NamedTuple):
    """The bindings of a name that may hold, and the function that binds it."""

    function: FunctionInfo | None
    bindings: tuple[Binding, ...]


def bindings_at(
    name: str, statement: cst.CSTNode, function: FunctionInfo | None, module: Module
) -> Bound | None:
    """Return the bindings of a name that may hold where a statement begins; None if unknown.

    A function may run at any time: of a name of a scope around it, only a single binding is known.
    """
    if name in _declared(module):
        return None
    reaching = scope_of(module, function).reaching
    if name in reaching.bindings:
        is_lambda = function is not None and isinstance(function.node, cst.Lambda)
        all_of_them = tuple(reaching.bindings[name])
        found = all_of_them if is_lambda else reaching.before(statement, name)
        return Bound(function, found) if found else None
    while function is not None:
        function = function.outer
        held = scope_of(module, function).reaching.bindings.get(name)
        if held:
            return Bound(function, tuple(held)) if len(held) == 1 else None
    return None


@kept_for_file
def _declared(module: Module) -> frozenset[str]:
    """Return names that are ``global`` or ``nonlocal`` somewhere: other functions may bind them."""
    if "global " not in module.source and "nonlocal " not in module.source:
        return frozenset()
    return frozenset(item.name.value for item in contents_of(module.tree).of(cst.NameItem))


def items(expression: Expression) -> list[Expression] | None:
    """Return the items of a list or tuple as written, here or where its name is bound."""
    whole = resolve_name(expression)
    nodes = display(whole.node)
    return None if nodes is None else [whole.at(node) for node in nodes]


def called(node: cst.Call, scope: Scope) -> str | None:
    """Return the name of what is called, if no assignment of the file stands for it."""
    name = dotted(node.func)
    if name is None:
        return None
    found = scope.find(name.partition(".")[0])
    return name if found is None or found[1] is None else None


def returned(expression: Expression) -> Expression | None:
    """Return a call's result for a function of one expression, arguments bound."""
    call = expression.node
    assert isinstance(call, cst.Call)
    function = resolve_name(expression.at(call.func))
    definition = function.node
    if not isinstance(definition, (cst.FunctionDef, cst.Lambda)):
        return None
    names = [p.name.value for p in definition.params.params]
    passed: dict[str, Expression | None] = {}
    for index, argument in enumerate(call.args):
        if argument.keyword is not None:
            passed[argument.keyword.value] = expression.at(argument.value)
        elif index < len(names):
            passed[names[index]] = expression.at(argument.value)
    body = _returned(definition)
    if body is None or not passed.keys() >= set(names):
        return None
    return Expression(body, Scope(expression.scope.module, function.scope, bindings=passed))


def _returned(definition: cst.FunctionDef | cst.Lambda) -> cst.BaseExpression | None:
    """Return the expression that a function returns, if that is all that it does."""
    if isinstance(definition, cst.Lambda):
        return definition.body
    lines = definition.body.body
    statements = [s for li in lines if isinstance(li, cst.SimpleStatementLine) for s in li.body]
    first = statements[0] if statements else None
    if isinstance(first, cst.Expr) and isinstance(first.value, cst.SimpleString):
        statements, lines = statements[1:], lines[1:]
    last = statements[0] if len(statements) == len(lines) == 1 else None
    return last.value if isinstance(last, cst.Return) else None
