"""Functions and classes as the source defines them, and what inference learns about each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from msgspec import Struct, field

from embercoach.analysis.syntax.trees import parameters_of
from embercoach.analysis.values.lattice import UNKNOWN, Value, join

if TYPE_CHECKING:
    from embercoach.analysis.evaluate.frame import Frame
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.memo import CallKey, Summary

PROPERTIES = frozenset({"builtins.property", "functools.cached_property"})
#: A node, and the statement or the decorator that contains it.
Site = tuple[cst.CSTNode, cst.CSTNode]


class FunctionParameter(Struct):
    """One parameter: ``star`` is ``""``, ``"*"`` or ``"**"``."""

    name: str
    node: cst.Param
    annotation: cst.BaseExpression | None
    default: cst.BaseExpression | None
    star: str
    keyword_only: bool
    evidence: Value | None = None  # join of what callers in the same file pass

    def observe(self, value: Value) -> bool:
        """Add what a caller passes; True if that is news."""
        known = self.evidence
        self.evidence = value if known is None else join(known, value)
        return self.evidence != known


class FunctionInfo(Struct, eq=False):
    """A function, method or lambda. Roles and results are filled in while inference runs."""

    name: str
    node: cst.FunctionDef | cst.Lambda
    module: Module
    cls: ClassInfo | None
    outer: FunctionInfo | None
    parameters: tuple[FunctionParameter, ...]
    closure: Frame | None = None
    decorators: tuple[str, ...] = ()
    # Roles: how the function is used, from decorators, transforms and calls.
    compiled: bool = False
    vmapped: bool = False
    differentiated: bool = False
    threaded: bool = False  # runs in a thread other than the one that imports the module
    differentiated_compiled: bool = False  # what mx.compile returns of it: that runs uncompiled
    # By role: what gives it, or the function that hands it down.
    role_sites: dict[str, Site] = field(default_factory=dict)
    role_givers: dict[str, FunctionInfo] = field(default_factory=dict)
    calls: dict[FunctionInfo, None] = field(default_factory=dict)  # in order
    #: By name, parameters that are arrays or modules, as the function is differentiated.
    seeds: dict[str, Value] = field(default_factory=dict)
    analysed_with: tuple[Value, ...] | None = None
    #: What its annotations say, once that has been asked for.
    annotated: dict[cst.BaseExpression, Value] = field(default_factory=dict)
    returned: Value = UNKNOWN  # by the body, as it has been analysed
    summaries: dict[tuple[Value, ...], Value] = field(default_factory=dict)
    exact: dict[tuple[Value, ...], Value] = field(default_factory=dict)  # run for constants
    #: Of a shared function, by the call, and by the depth of the call where that matters.
    results: dict[CallKey | tuple[int, CallKey], Summary] = field(default_factory=dict)
    #: Names that the body binds, as it has been analysed.
    rebound: set[str] = field(default_factory=set)
    global_names: set[str] = field(default_factory=set)
    nonlocal_names: set[str] = field(default_factory=set)
    # Parameters that the body uses as only an array can be used.
    shown_arrays: set[str] = field(default_factory=set)
    denied_arrays: set[str] = field(default_factory=set)  # asked for what no array has
    statement: cst.CSTNode | None = None  # the one that contains a lambda

    def forget(self) -> None:
        """Drop the results of its calls: more is known of what they depend on."""
        self.summaries.clear()
        self.exact.clear()

    @property
    def in_progress(self) -> bool:
        """Return whether the body is being run."""
        return self in self.module.project.calls.functions

    @property
    def qualified_name(self) -> str:
        """``Class.method`` or ``outer.inner`` within the module."""
        if self.cls is not None:
            return f"{self.cls.name}.{self.name}"
        return f"{self.outer.qualified_name}.{self.name}" if self.outer else self.name

    @property
    def is_method(self) -> bool:
        """Return whether the first parameter is bound to the instance or the class."""
        return self.cls is not None and "builtins.staticmethod" not in self.decorators

    @property
    def is_property(self) -> bool:
        """Return whether reading an attribute calls it."""
        return not PROPERTIES.isdisjoint(self.decorators)

    @property
    def is_async(self) -> bool:
        """Return whether a call of it makes a coroutine."""
        return isinstance(self.node, cst.FunctionDef) and self.node.asynchronous is not None

    @property
    def is_test(self) -> bool:
        """Return whether pytest collects its file, or the file serves tests."""
        return self.module.is_test


class ClassInfo(Struct, eq=False):
    """A class: its bases, fields, methods, and the attributes its methods set."""

    name: str
    node: cst.ClassDef
    module: Module
    bases: tuple[Value, ...] = ()
    methods: dict[str, FunctionInfo] = field(default_factory=dict)
    annotations: dict[str, cst.BaseExpression] = field(default_factory=dict)
    variables: dict[str, Value] = field(default_factory=dict)
    attributes: dict[str, Value] = field(default_factory=dict)
    setters: dict[str, list[FunctionInfo]] = field(default_factory=dict)
    #: The attributes that each method sets.
    set_by: dict[FunctionInfo, tuple[str, ...]] = field(default_factory=dict)
    explored: set[FunctionInfo] = field(default_factory=set)
    frame: Frame | None = None
    #: Attributes that a use shows to be modules, whatever is assigned to them.
    shown_modules: set[str] = field(default_factory=set)

    def record(self, name: str, value: Value) -> None:
        """Note that a method sets ``self.<name>``."""
        if name in self.shown_modules and value is UNKNOWN:
            return
        known = self.attributes.get(name)
        self.attributes[name] = value if known is None else join(known, value)


def function_parameters(node: cst.FunctionDef | cst.Lambda) -> tuple[FunctionParameter, ...]:
    """Return the parameters of a function in order."""
    params = node.params
    return tuple(
        FunctionParameter(
            param.name.value,
            param,
            param.annotation.annotation if param.annotation else None,
            param.default,
            "*" if param is params.star_arg else "**" if param is params.star_kwarg else "",
            param in params.kwonly_params,
        )
        for param in parameters_of(params)
    )
