"""The names of a text as it is written: its declarations, and uses without one.

The preprocessor has not run: a macro is a name, and both branches of a condition count. One walk
of the tree notes where each declaration is visible, and where each name is used. A name is taken
for declared wherever C++ might find it in a way that is not followed here: a member of a base
class, a name that a macro may declare, a function at file scope that comes later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from embercoach.metal.contract import ATTRIBUTES
from embercoach.metal.library import ENTRY_QUALIFIERS
from embercoach.metal.program.texts import (
    FUNCTIONS,
    Declarator,
    Parsed,
    SyntaxNode,
    unpack,
    unpack_initialized,
)
from embercoach.metal.text_facts import (
    Declaration,
    DeclarationKind,
    DirectiveKind,
    PreprocessorLine,
    Use,
    UseKind,
    WrittenCall,
    WrittenFunction,
    WrittenParameter,
)

if TYPE_CHECKING:
    from embercoach.metal.preprocessor import Macros

#: Attributes of the entry points of a mesh pipeline.
_MESH_STAGES = frozenset({"mesh", "object"})


def type_words(parsed: Parsed, part: SyntaxNode) -> str:
    """Return the type of a declaration as written, without qualifiers and without a class body."""
    kind = part.get("type")
    if kind is not None and kind.get("body") is not None:
        kind = kind.get("name")
    return "" if kind is None else " ".join(parsed.word(kind).split())


def _parameter(parsed: Parsed, part: SyntaxNode) -> WrittenParameter:
    parts = unpack(part.get("declarator"))
    name = parts.names[0] if parts.names else None
    return WrittenParameter(
        name="" if name is None else parsed.word(name),
        type=type_words(parsed, part),
        address_space=parsed.space(part),
        pointer=parts.is_address,
        reference=parts.reference,
        constant=parsed.is_constant(part),
        attributes=tuple(parsed.declared_marks(part)),
        place=parsed.place(name or part),
    )


def function(
    parsed: Parsed, part: SyntaxNode, declarator: Declarator, *, member: bool
) -> WrittenFunction | None:
    """The function that a definition or declaration declares, None when it has no plain name."""
    if declarator.function is None or not declarator.names:
        return None
    name = declarator.names[0]
    marks = {
        mark.name
        for child in part.parts
        if child.kind == "attribute_declaration"
        for mark in parsed.attribute_marks(child)
    }
    words = [w for w in (*parsed.qualifiers_in(part), *sorted(marks)) if w in ENTRY_QUALIFIERS]
    words += sorted(marks & _MESH_STAGES)
    listed = declarator.function.get("parameters")
    return WrittenFunction(
        name=parsed.word(name),
        entry=words[0] if words else None,
        body=part.get("body") is not None,
        parameters=tuple(
            _parameter(parsed, child)
            for child in ([] if listed is None else listed.inner)
            if child.kind.endswith("parameter_declaration")
        ),
        place=parsed.place(name),
        extent=parsed.place(part),
        member=member,
        result=type_words(parsed, part) + "*" * declarator.is_address,
    )


def member_names(body: SyntaxNode) -> Iterator[SyntaxNode]:
    """Yield the names that a class body declares, methods and nested types included."""
    for member in body.inner:
        inner = member
        if member.kind == "template_declaration" and member.inner:
            inner = member.inner[-1]
        for declarator in inner.all("declarator"):
            yield from unpack(declarator).names
        name = inner.get("name")
        if name is not None and name.kind == "type_identifier":
            yield name


def callee_words(parsed: Parsed, callee: SyntaxNode) -> tuple[str, tuple[str, ...]]:
    """Return the callee without its template arguments, and these."""
    last = callee
    if callee.kind == "qualified_identifier":
        last = callee.get("name") or callee
    arguments = last.get("arguments")
    if arguments is None or arguments.kind != "template_argument_list":
        return "".join(parsed.word(callee).split()), ()
    before = parsed.text_between(callee.start, arguments.start)
    return "".join(before.split()), tuple(map(parsed.word, arguments.inner))


def is_include_guard(parsed: Parsed, part: SyntaxNode) -> bool:
    """Return whether a conditional is an include guard: it defines what it tests."""
    asked = part.get("name")
    defined = next((child for child in part.inner if child.kind == "preproc_def"), None)
    name = None if defined is None else defined.get("name")
    if asked is None or name is None or not part.parts[0].kind.startswith("#ifndef"):
        return False
    return parsed.word(asked) == parsed.word(name)


USED: Mapping[str, UseKind] = {
    "identifier": "value",
    "type_identifier": "type",
    "namespace_identifier": "namespace",
}
NAMES = USED.keys() | {"field_identifier"}
# Their contents are not names, or not names of this text.
SKIPPED = frozenset(
    {
        *("attribute_declaration", "attribute_specifier", "field_designator", "literal_suffix"),
        *("preproc_call", "preproc_def", "preproc_function_def", "string_literal"),
    }
)
SCOPES = frozenset(
    {
        *("compound_statement", "field_declaration_list", "for_range_loop", "for_statement"),
        *("function_definition", "if_statement", "lambda_expression", "switch_statement"),
        *("template_declaration", "template_instantiation", "while_statement"),
    }
)
CONDITIONS = frozenset({"preproc_if", "preproc_elif", "preproc_ifdef", "preproc_elifdef"})
# The one part of each that is followed; their names are declared, or none of this text.
FOLLOWED = {
    "type_parameter_declaration": "default_type",
    "optional_type_parameter_declaration": "default_type",
    "variadic_type_parameter_declaration": "default_type",
    "enumerator": "value",
    "alias_declaration": "type",
    "namespace_definition": "body",
    "namespace_alias_definition": "body",
    "using_declaration": "",
    "preproc_include": "",
}
# The child of each that is the name, and the kind of thing that it names.
NAMED: Mapping[str, tuple[str, DeclarationKind]] = {
    "alias_declaration": ("name", "alias"),
    "enum_specifier": ("name", "type"),
    "enumerator": ("name", "enumerator"),
    "lambda_capture_initializer": ("left", "local"),
    "namespace_alias_definition": ("name", "namespace"),
    "namespace_definition": ("name", "namespace"),
    "optional_type_parameter_declaration": ("name", "template"),
    "type_parameter_declaration": ("name", "template"),
    "variadic_type_parameter_declaration": ("name", "template"),
}
# The child of each that can be neither a constant nor a type.
OF_VARIABLES = {
    "assignment_expression": "left",
    "subscript_expression": "argument",
    "update_expression": "argument",
}


class NameScope(Struct, eq=False):
    """A part whose names are visible in it alone.

    Attributes:
        names: the declarations of each name, None where one is not known, each after the byte from
            which on it is visible.
        is_open: any name may be declared here, as in a class whose bases are not followed.
        template: holds template parameters; what a template declares lands outside.
    """

    depth: int = 0
    outer: NameScope | None = None
    template: bool = False
    is_open: bool = False
    names: dict[str, list[tuple[int, Declaration | None]]] = field(default_factory=dict)

    @property
    def lasting(self) -> NameScope:
        """The scope in which what is declared here can live."""
        scope = self
        while scope.template and scope.outer is not None:
            scope = scope.outer
        return scope


class Scopes(Struct):
    """The names of one text.

    Attributes:
        bindings: start byte of each used name to its declaration in the text.
        origins: of each declaration the part that declares it, and its initial value.
        free: uses that no declaration covers, in the order of the text.
    """

    macros: Macros
    declarations: list[Declaration] = field(default_factory=list)
    bindings: dict[int, Declaration] = field(default_factory=dict)
    origins: dict[Declaration, tuple[SyntaxNode | None, SyntaxNode | None]] = field(
        default_factory=dict
    )
    free: list[Use] = field(default_factory=list)
    attribute_uses: list[Use] = field(default_factory=list)
    calls: list[WrittenCall] = field(default_factory=list)
    functions: list[WrittenFunction] = field(default_factory=list)
    directives: list[PreprocessorLine] = field(default_factory=list)


# Nested names and statements that are followed.
_MAX_NESTING = 150


class NestingError(Exception):
    """The text nests deeper than is followed."""


class _ResolutionContext(NamedTuple):
    """The surroundings of a part.

    Attributes:
        nesting: the parts around it that count as nested.
        quiet: a name may be anything here.
    """

    scope: NameScope
    nesting: int
    quiet: bool


def names_of(parsed: Parsed, macros: Macros, outer: frozenset[str] = frozenset()) -> Scopes:
    """Resolve every name of a text.

    Args:
        parsed: the text as it is written.
        macros: those that the text and what is around it define.
        outer: names declared around the text, such as those of the kernel's header.

    Raises:
        NestingError: the text nests deeper than is followed.
    """
    return _Names(parsed, macros, outer | macros.mentioned).resolved()


class _Names:
    def __init__(self, parsed: Parsed, macros: Macros, outer: frozenset[str]) -> None:
        self.parsed = parsed
        self.found = Scopes(macros)
        self._outer = outer
        self._file = NameScope()
        self._is_unit = parsed.tree.kind == "translation_unit"
        self._free: list[tuple[SyntaxNode, str, UseKind]] = []
        self._callees: set[SyntaxNode] = set()
        self._components: dict[SyntaxNode, SyntaxNode] = {}
        #: Names that can be neither a constant nor a type.
        self._variables: set[SyntaxNode] = set()
        self._members: set[SyntaxNode] = set()
        #: Arguments of macros, which may be anything.
        self._quiet: set[SyntaxNode] = set()
        #: Declarators of functions that have a body, which sees the parameters.
        self._defined: set[SyntaxNode] = set()
        #: Of parts with a scope the names that are declared somewhere in it.
        self._inside: dict[SyntaxNode, dict[str, list[tuple[int, Declaration | None]]]] = {}
        self._open: set[SyntaxNode] = set()

    def resolved(self) -> Scopes:
        """Return the names, with the uses that are free."""
        first = _ResolutionContext(self._file, 0, quiet=False)
        pending = [(part, first) for part in reversed(self.parsed.tree.parts)]
        while pending:
            part, context = pending.pop()
            if part.kind not in SKIPPED:
                inside = self._entered(part, context)
                pending.extend([(c, inside) for c in self._followed(part)[::-1] if c.named])
        self._settle()
        return self.found

    def _entered(self, part: SyntaxNode, context: _ResolutionContext) -> _ResolutionContext:
        """Note what a part declares or uses; return the context of its children."""
        kind, (scope, nesting, quiet) = part.kind, context
        if kind in _NESTED:
            nesting += 1
            if nesting > _MAX_NESTING:
                raise NestingError
        rule = _RULES.get(kind)
        if rule is not None:
            rule(self, part, scope)
        elif kind in USED:
            self._use(part, scope, quiet=quiet)
        if kind in SCOPES or (kind in FUNCTIONS and part not in self._defined):
            is_template = kind == "template_declaration"
            scope = NameScope(scope.depth + 1, scope, is_template, part in self._open)
            scope.names |= self._inside.get(part, {})
        if kind in CONDITIONS:
            quiet = quiet or not is_include_guard(self.parsed, part)
        return _ResolutionContext(scope, nesting, quiet or part in self._quiet)

    def _followed(self, part: SyntaxNode) -> Sequence[SyntaxNode]:
        """Return the children of a part that hold names to look up."""
        kind = part.kind
        if kind in FOLLOWED:
            return tuple(part.all(FOLLOWED[kind])) if FOLLOWED[kind] else ()
        if kind in CONDITIONS:
            return [child for child in part.parts if child.role not in ("name", "condition")]
        if kind == "qualified_identifier" and part.get("scope") is not None:
            return _outermost(part, "scope", "name")
        if kind == "field_expression":
            self._components.update(zip(part.all("argument"), part.all("field"), strict=False))
            return _outermost(part, "argument", "field")
        if kind.endswith("_declarator"):
            # Of one that is not understood, the clear parts alone.
            return [child for child in part.parts if child.kind != "ERROR"]
        role = OF_VARIABLES.get(kind)
        if role is not None:
            self._variables.update(part.all(role))
        return part.parts

    def _use(self, part: SyntaxNode, scope: NameScope | None, *, quiet: bool) -> None:
        """Look a name up, and note it where nothing declares it."""
        if part.start in self.found.bindings:
            return  # it is declared here
        name = self.parsed.word(part)
        while scope is not None:
            for since, declaration in reversed(scope.names.get(name, ())):
                if since <= part.start:
                    if declaration is not None:
                        self.found.bindings[part.start] = declaration
                    return
            if scope.is_open:
                return
            scope = scope.outer
        if name in ATTRIBUTES:
            member = self._components.get(part)
            component = None if member is None else self.parsed.word(member)
            use = Use(name, "value", self.parsed.place(part), component=component)
            self.found.attribute_uses.append(use)
        if not quiet and name not in self._outer and self.parsed.holds(part):
            kind: UseKind = "call" if part in self._callees else USED[part.kind]
            self._free.append((part, name, kind))

    def _settle(self) -> None:
        """Note the uses that are free now that all names are known."""
        first: dict[str, Declaration] = {}
        for declaration in self.found.declarations:
            first.setdefault(declaration.name, declaration)
        for part, name, kind in self._free:
            # At file scope a template may find what comes later.
            if not (self._is_unit and name in self._file.names):
                other = first.get(name)
                place = self.parsed.place(part)
                elsewhere = other.place if other else None
                self.found.free.append(Use(name, kind, place, elsewhere, part in self._variables))

    # Rules

    def call(self, part: SyntaxNode, scope: NameScope) -> None:
        """A call; a macro may declare what it is given, from there on."""
        callee, arguments = part.get("function"), part.get("arguments")
        if callee is None or arguments is None:
            return
        name, template = callee_words(self.parsed, callee)
        self.found.calls.append(WrittenCall(name, template, self.parsed.place(part)))
        if callee.kind == "parenthesized_expression" and len(callee.inner) == 1:
            # (max)(a, b), or a cast: (half)(x)
            callee = callee.inner[0]
        self._callees.add(callee)
        if name in self.found.macros.functions:
            self._quiet.add(arguments)
            for inner in arguments.below():
                if inner.kind in NAMES:
                    scope.names.setdefault(self.parsed.word(inner), [(arguments.end, None)])

    def template_function(self, part: SyntaxNode, _scope: NameScope) -> None:
        """``f<T>``."""
        self._callees.update(part.all("name"))

    def declaration(self, part: SyntaxNode, scope: NameScope) -> None:
        """Variables and fields, in the order of their declarators."""
        value = part.get("value") or part.get("default_value")
        for declarator in part.all("declarator"):
            parts, initial = unpack_initialized(declarator, value)
            kind: DeclarationKind = "field" if part.kind == "field_declaration" else "local"
            if self._is_unit and scope.lasting is self._file:
                kind = "constant" if parts.function is None else "function"
            if kind == "function":
                self._function(part, parts)
            if len(parts.names) > 1:
                kind = "binding"
            self._declare(kind, scope, part, parts, initial)

    def function_definition(self, part: SyntaxNode, scope: NameScope) -> None:
        """A function: its name outside, its parameters and body inside."""
        parts = unpack(part.get("declarator"))
        self._function(part, parts)
        self._declare("function", scope, part, parts)
        if parts.function is not None:
            self._defined.add(parts.function)
        if parts.rest:
            # A member defined out of its class sees the class.
            self._open.add(part)

    def _function(self, part: SyntaxNode, parts: Declarator) -> None:
        made = function(self.parsed, part, parts, member=part in self._members)
        if made is not None and all(map(self.parsed.holds, parts.names)):
            self.found.functions.append(made)

    def parameter(self, part: SyntaxNode, scope: NameScope) -> None:
        """A parameter of a function, a lambda or a template."""
        kind: DeclarationKind = "template" if scope.template else "parameter"
        self._declare(kind, scope, part, unpack(part.get("declarator")))

    def named(self, part: SyntaxNode, scope: NameScope) -> None:
        """Declare the one name of a part, which is visible after it."""
        role, kind = NAMED[part.kind]
        name = part.get(role)
        if name is None and kind == "template":
            name = next((c for c in part.inner if c.kind == "type_identifier"), None)
        if name is not None and (kind != "namespace" or name.kind == "namespace_identifier"):
            owner = part if kind == "alias" else None
            since = part.start if kind in ("type", "namespace") else part.end
            self._declare_name(name, kind, scope, owner, since=since)

    def class_specifier(self, part: SyntaxNode, scope: NameScope) -> None:
        """A struct, class or union; its members are visible in the whole of it."""
        name, body = part.get("name"), part.get("body")
        if name is not None and name.kind == "type_identifier":
            self._declare_name(name, "type", scope)
        if body is not None:
            members = map(self.parsed.word, member_names(body))
            self._inside[body] = {member: [(body.start, None)] for member in members}
            self._members.update(body.parts)
            if part.has("base_class_clause"):
                self._open.add(body)

    def typedef(self, part: SyntaxNode, scope: NameScope) -> None:
        """``typedef type A``."""
        for declarator in part.all("declarator"):
            self._declare("alias", scope, part, unpack(declarator))

    def using_declaration(self, part: SyntaxNode, scope: NameScope) -> None:
        """``using namespace n`` and ``using n::name``."""
        target = next(iter(part.inner), None)
        if target is None:
            return
        whole = part.has("namespace")
        words, place = self.parsed.word(target), self.parsed.place(part)
        kind: DirectiveKind = "using namespace" if whole else "using"
        self.found.directives.append(PreprocessorLine(kind, words, place))
        name = None if whole else target.get("name")
        if name is not None:
            self._declare_name(name, "alias", scope)

    def include(self, part: SyntaxNode, _scope: NameScope) -> None:
        """``#include``."""
        path = part.get("path")
        if path is not None:
            # The part itself reaches to the next line.
            place = self.parsed.stretch(part.start, path.end)
            self.found.directives.append(PreprocessorLine("include", self.parsed.word(path), place))

    def range_loop(self, part: SyntaxNode, scope: NameScope) -> None:
        """``for (auto v : values)``, whose variable is visible in the body alone."""
        body, inner = part.get("body"), NameScope(scope.depth + 1, scope)
        since = part.end if body is None else body.start
        self._declare("local", inner, part, unpack(part.get("declarator")), since=since)
        self._inside[part] = inner.names

    def function_expression(self, part: SyntaxNode, _scope: NameScope) -> None:
        """A lambda expression."""
        self._defined.update(part.all("declarator"))

    # Declarations

    def _declare(
        self,
        kind: DeclarationKind,
        scope: NameScope,
        owner: SyntaxNode,
        parts: Declarator,
        value: SyntaxNode | None = None,
        since: int | None = None,
    ) -> None:
        """Declare the names of a declarator."""
        for name in parts.names:
            self._declare_name(name, kind, scope, owner, parts, value, since)

    def _declare_name(
        self,
        name: SyntaxNode,
        kind: DeclarationKind,
        scope: NameScope,
        owner: SyntaxNode | None = None,
        parts: Declarator | None = None,
        value: SyntaxNode | None = None,
        since: int | None = None,
    ) -> None:
        """Declare a name in the innermost scope that it can live in.

        Args:
            name: the part of the name.
            kind: the kind of thing that it names.
            scope: the scope around the declaration.
            owner: the declaration that holds its type.
            parts: its declarator, taken apart.
            value: its initializer.
            since: the byte from which on it is visible, if that is not after the declarator.
        """
        if kind != "template":
            scope = scope.lasting
        parsed = self.parsed
        declaration = Declaration(
            name=parsed.word(name),
            kind=kind,
            place=parsed.place(name),
            type=type_words(parsed, owner) if owner else "",
            address_space=parsed.space(owner) if owner else None,
            pointer=parts.is_address if parts else False,
            dimensions=tuple(parsed.word(d) for d in parts.dimensions if d) if parts else (),
            value=parsed.word(value) if value else None,
            depth=scope.depth,
        )
        if since is None:
            since = name.end if parts is None else parts.end
        scope.names.setdefault(declaration.name, []).append((since, declaration))
        if parsed.holds(name):
            self.found.declarations.append(declaration)
        self.found.bindings[name.start] = declaration
        self.found.origins[declaration] = owner, value


_RULES: Mapping[str, Callable[[_Names, SyntaxNode, NameScope], None]] = {
    "call_expression": _Names.call,
    "template_function": _Names.template_function,
    "declaration": _Names.declaration,
    "field_declaration": _Names.declaration,
    "function_definition": _Names.function_definition,
    "template_instantiation": _Names.function_definition,
    "parameter_declaration": _Names.parameter,
    "optional_parameter_declaration": _Names.parameter,
    "variadic_parameter_declaration": _Names.parameter,
    "struct_specifier": _Names.class_specifier,
    "class_specifier": _Names.class_specifier,
    "union_specifier": _Names.class_specifier,
    "type_definition": _Names.typedef,
    "using_declaration": _Names.using_declaration,
    "preproc_include": _Names.include,
    "for_range_loop": _Names.range_loop,
    "lambda_expression": _Names.function_expression,
    **dict.fromkeys(NAMED, _Names.named),
}
_NESTED = (
    (_RULES.keys() | USED.keys() | SCOPES | CONDITIONS)
    - {"field_declaration_list", "lambda_capture_initializer"}
) | {"qualified_identifier", "field_expression"}


def _outermost(part: SyntaxNode, outer: str, member: str) -> list[SyntaxNode]:
    """Return the part before a member, and the template arguments in the member's name."""
    found = list(part.all(outer))
    name = part.get(member)
    for below in () if name is None else name.below():
        if below.kind == "template_argument_list":
            return [*found, below]
    return found
