"""The state of lowering one text: its scopes and its variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct, field

from embercoach.metal.contract import (
    ATTRIBUTES,
    MSL_TYPES,
    Input,
    KernelArguments,
    Output,
    TemplateArgument,
    shape_names,
)
from embercoach.metal.library import constant_type, is_known
from embercoach.metal.program.nodes import (
    Declare,
    Expression,
    MetalFunction,
    MetalStruct,
    Name,
    Opaque,
    OpaqueExpression,
    Spot,
    Statement,
    Variable,
    VariableKind,
)
from embercoach.metal.program.types import BOOL, INT, LONG, NAMED, UNKNOWN, Type
from embercoach.metal.unknown_numbers import is_unknown_integer, is_unknown_number

if TYPE_CHECKING:
    from embercoach.metal.program.texts import Parsed, SyntaxNode

# Nested expressions and statements that are followed; Python's stack is finite.
_MAX_NESTING = 120


_KINDS: dict[str, Literal["type", "value"]] = {
    "typename": "type",
    "int": "value",
    "bool": "value",
}


class DeepTextError(Exception):
    """The text nests deeper than is followed."""


class MisreadError(Exception):
    """The parser took ``a < b`` for a template, or ``(a) - b`` for a cast.

    Attributes:
        exchange: what to read in place of single characters, by their offset in the parsed text: a
            ``>`` for the ``<``, as it never opens a template, and blanks for the parentheses.
    """

    def __init__(self, exchange: dict[int, str]) -> None:
        super().__init__(exchange)
        self.exchange = exchange


class SignatureNames(Struct, frozen=True):
    """The names that MLX's signature brings into a body, and what is known of them.

    Attributes:
        template: the template pairs of the launch, None when they are unknown.
        atomic_outputs: the outputs are declared ``device atomic<T>*``.
    """

    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    template: tuple[TemplateArgument, ...] | None = ()
    atomic_outputs: bool = False

    @classmethod
    def of(cls, kernel: KernelArguments) -> SignatureNames:
        """Return the names of a kernel as ``contract`` describes it."""
        return cls(kernel.inputs, kernel.outputs, kernel.template, kernel.atomic_outputs)


class Field(Struct, frozen=True):
    """A field of the struct whose method is lowered: ``owner.field``."""

    owner: Variable
    variable: Variable


#: What a name represents: a variable, a type, functions of that name, or a field.
Meaning: TypeAlias = Variable | Type | tuple[MetalFunction, ...] | Field


class Rules(Struct, frozen=True):
    """The rules that lower parts; their modules call each other through these."""

    expression: Callable[[Lowering, SyntaxNode], Expression]
    statement: Callable[[Lowering, SyntaxNode], list[Statement]]
    named_lambda: Callable[[Lowering, SyntaxNode, SyntaxNode], list[Statement]]


class Twins(Struct):
    """Functions of one name with the same parameters, and those of them without a body so far."""

    all: list[MetalFunction] = field(default_factory=list)
    prototypes: list[MetalFunction] = field(default_factory=list)


class Lowering:
    """The state of lowering one text."""

    def __init__(
        self,
        parsed: Parsed,
        rules: Rules,
        names: SignatureNames | None = None,
        around: Lowering | None = None,
    ) -> None:
        self.parsed = parsed
        self.rules = rules
        self.names = names
        self.loops = 0
        self.nesting = 0
        self.scopes: list[dict[str, Meaning]] = [dict(around.scopes[0]) if around else {}, {}]
        self.structs: dict[str, MetalStruct] = dict(around.structs) if around else {}
        self.namespaces: set[str] = set(around.namespaces) if around else set()
        self.functions: dict[str, tuple[MetalFunction, ...]] = (
            dict(around.functions) if around else {}
        )
        #: Numbers that variables certainly hold wherever they are used.
        self.values: dict[Variable, int | float] = dict(around.values) if around else {}
        self.variables: dict[str, Variable] = {}
        self.constants: list[Declare] = list(around.constants) if around else []
        self.problems: list[Opaque] = list(around.problems) if around else []
        #: Bodies of functions, lowered when every function is known.
        self.later: list[Callable[[], None]] = []
        #: Parameters of the templates around what is declared.
        self.templates: list[dict[str, Meaning]] = []
        #: By name, types of parameters and number of the template's parameters.
        self.twins: dict[tuple[str, tuple[Type, ...], int], Twins] = (
            {key: Twins(list(twins.all)) for key, twins in around.twins.items()} if around else {}
        )
        self._unknown: dict[str, Variable] = {}
        if around is None:
            self.scopes.pop()

    # Texts

    def word(self, part: SyntaxNode) -> str:
        """Return the text of a part."""
        return self.parsed.word(part)

    def words(self, part: SyntaxNode | None) -> str:
        """Return the text of a part without white space."""
        return "" if part is None else "".join(self.parsed.word(part).split())

    def spot(self, part: SyntaxNode) -> Spot:
        """Return the place of a part."""
        return self.parsed.spot(part.start, part.end)

    # Rules

    def enter(self) -> None:
        """Go one level deeper.

        Raises:
            TooDeepError: the text nests too deep.
        """
        self.nesting += 1
        if self.nesting > _MAX_NESTING:
            raise DeepTextError

    def expression(self, part: SyntaxNode) -> Expression:
        """Lower an expression."""
        self.enter()
        found = self.rules.expression(self, part)
        self.nesting -= 1
        return found

    def statement(self, part: SyntaxNode) -> list[Statement]:
        """Lower a statement; a declaration gives several, a ``typedef`` none."""
        self.enter()
        found = self.rules.statement(self, part)
        self.nesting -= 1
        return found

    def opaque(self, part: SyntaxNode, why: str, *parts: Expression) -> OpaqueExpression:
        """Return an expression that is not understood."""
        return OpaqueExpression(why, parts, UNKNOWN, self.spot(part))

    def problem(self, part: SyntaxNode, why: str) -> Opaque:
        """Note that a text is not understood."""
        found = Opaque(why, self.spot(part))
        self.problems.append(found)
        return found

    # Scopes

    @property
    def at_file_scope(self) -> bool:
        """Return whether what is declared now lands at file scope."""
        return len(self.scopes) == 1

    def declare(self, name: str, meaning: Meaning) -> None:
        """Declare a name in the innermost scope; functions of one name come together."""
        scope = self.scopes[-1]
        old = scope.get(name)
        if isinstance(meaning, tuple) and isinstance(old, tuple):
            meaning = (*old, *meaning)
        scope[name] = meaning

    def lookup(self, name: str) -> Meaning | None:
        """Return the meaning of a name here, None when no text declares it."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def variable(self, name: str, part: SyntaxNode) -> Variable:
        """Return the variable of a name that no text declares: MLX's, Metal's, or nobody's."""
        found = self.variables.get(name) or self._unknown.get(name)
        if found is not None:
            return found
        spot = self.spot(part)
        given = _given(self.names, name)
        if given is None:
            found = Variable(name, "unknown", constant_type(name), spot)
            self._unknown[name] = found
            return found
        kind, type_, attribute, value = given
        found = Variable(name, kind, type_, spot, attribute=attribute, constant=kind != "output")
        self.variables[name] = found
        if value is not None:
            self.values[found] = value
        return found

    def is_variable(self, name: str) -> bool:
        """Return whether a text or MLX's signature declares a variable of this name."""
        meaning = self.lookup(name)
        if meaning is None:
            return _given(self.names, name) is not None
        return isinstance(meaning, Variable | Field)

    def in_parentheses(self, name: str) -> Literal["type", "value", "unknown"]:
        """Return the kind of a name that the grammar leaves open, as in ``(name) - 1``."""
        meaning = self.lookup(name)
        if meaning is not None:
            return "type" if isinstance(meaning, Type) else "value"
        for argument in (self.names.template or ()) if self.names is not None else ():
            if argument.name == name:
                return _KINDS.get(argument.kind or "", "unknown")
        if self.is_variable(name):
            return "value"
        if name in NAMED:
            return "type"
        return "value" if is_known(name, "value") else "unknown"

    def use(self, variable: Variable, part: SyntaxNode) -> Name:
        """Return a use of a variable."""
        kind = variable.type
        if kind.reference:
            kind = Type(kind.scalar, kind.width, kind.pointer, kind.space, kind.dimensions)
        return Name(variable, kind, self.spot(part))

    def named_type(self, name: str) -> Type | None:
        """Return the type that a single word names, None when it names none."""
        meaning = self.lookup(name)
        if meaning is not None:
            return meaning if isinstance(meaning, Type) else None
        if self.names is not None:
            for argument in self.names.template or ():
                if argument.name == name:
                    return _template_type(argument)
        return NAMED.get(name)


def _template_type(argument: TemplateArgument) -> Type | None:
    """Return the type that a template argument is, None when it is a number."""
    if argument.value is None:
        return Type(argument.name)
    if isinstance(argument.value, str):
        return dtype_type(argument.value)
    return None


def dtype_type(name: str | None) -> Type:
    """Return the type of an MLX dtype."""
    return NAMED.get(MSL_TYPES.get(name or "", ""), UNKNOWN)


def _given(
    names: SignatureNames | None, name: str
) -> tuple[VariableKind, Type, str, int | float | None] | None:
    """Kind, type, attribute and value of a name that MLX declares, or of a number formatted in."""
    if is_unknown_number(name):
        # Python writes a whole number of type float as it writes others, but not always.
        return "template", INT if is_unknown_integer(name) else UNKNOWN, "", None
    if names is None:
        return None
    for argument in names.template or ():
        if argument.name == name:
            number = argument.value if isinstance(argument.value, int) else None
            kind = {"bool": BOOL, "int": INT}.get(argument.kind or "", UNKNOWN)
            return "template", kind, "", number
    for given in names.inputs:
        if given.name == name:
            # One of unknown rank counts as a pointer.
            scalar, reference = dtype_type(given.dtype).scalar, given.declarator == "&"
            space = given.address_space
            kind = Type(scalar, pointer=not reference, space=space, reference=reference)
            return "input", kind, "", None
        if name in shape_names(given.name):
            return "metadata", _metadata_type(given.name, name), "", None
    for output in names.outputs:
        if output.name == name:
            scalar = dtype_type(output.dtype).scalar
            if scalar and names.atomic_outputs:
                scalar = f"atomic_{scalar}"
            return "output", Type(scalar, pointer=True, space="device"), "", None
    if name in ATTRIBUTES:
        return "attribute", NAMED[ATTRIBUTES[name]], name, None
    return None


def _metadata_type(owner: str, name: str) -> Type:
    _, strides, ndim = shape_names(owner)
    if name == ndim:
        return Type("int", space="constant", reference=True)
    return Type(LONG.scalar if name == strides else INT.scalar, pointer=True, space="constant")
