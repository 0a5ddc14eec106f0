"""The nodes of a Metal program: frozen data, made by ``lowering`` from the syntax tree.

Names are resolved to ``Variable`` objects, macros are expanded, and every expression has its type
as far as it is known. What could not be understood is an ``Opaque`` node that says why: whoever
walks a program decides whether it can go on past it. Nodes compare by identity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from msgspec import Struct, field

if TYPE_CHECKING:
    from embercoach.metal.program.types import Type
    from embercoach.metal.text_facts import TextSpan

#: Which of a kernel's texts a place counts in: ``source``, ``header`` or a whole file.
Text = Literal["body", "header", "file"]
VariableKind = Literal[
    "local",  # declared in a function or the body; threadgroup arrays are locals too
    "parameter",  # of a helper function or of an entry point, without a thread attribute
    "attribute",  # a thread attribute: MLX passes it by its name, an entry point by [[...]]
    "input",  # of the kernel; its type is known only when the launch is
    "metadata",  # ``x_shape``, ``x_strides``, ``x_ndim``
    "output",
    "template",  # a template argument of the launch, or of a helper function
    "constant",  # at file scope, in the constant address space; an enumerator
    "field",  # of a struct
    "unknown",  # a name that nothing declares, or a constant of Metal's library
]
LoopKind = Literal["for", "while", "do"]


class Spot(NamedTuple):
    """A stretch of one of the texts. An expansion has the place of the macro's use."""

    text: Text
    place: TextSpan


class Target(NamedTuple):
    """The target of a pointer or reference, as its declaration writes it.

    Attributes:
        space: its address space, None where none is written.
        constant: it is ``const``, or ``auto``, which may be.
    """

    space: str | None
    constant: bool


class Variable(Struct, frozen=True, eq=False):
    """A variable, one object for each declaration.

    Attributes:
        name: of a constant of Metal's library it may be qualified, without ``metal::``
            (``mem_flags::mem_threadgroup``).
        attribute: for the kind ``attribute`` Metal's name of it (``thread_position_in_grid``).
        constant: declared ``const``, ``constexpr`` or ``constant``.
        loops: how many loops of its function the declaration is in.
        target: of what the texts declare with ``*`` or ``&``.
    """

    name: str
    kind: VariableKind
    type: Type
    spot: Spot
    attribute: str = ""
    constant: bool = False
    loops: int = 0
    target: Target | None = None


# Expressions


class NumberLiteral(Struct, frozen=True, eq=False):
    """A literal; ``written`` is its text (``0.5f``). ``true`` is 1 of type bool."""

    value: int | float
    type: Type
    spot: Spot
    written: str = ""


class Name(Struct, frozen=True, eq=False):
    """A use of a variable."""

    variable: Variable
    type: Type
    spot: Spot


class Member(Struct, frozen=True, eq=False):
    """``base.field``, a swizzle (``.xyz``) or a member; ``->`` is an ``Index`` of 0 first."""

    base: Expression
    field: str
    type: Type
    spot: Spot


class Index(Struct, frozen=True, eq=False):
    """``base[index]``; ``*p`` is ``p[0]`` with a ``Number`` as its index."""

    base: Expression
    index: Expression
    type: Type
    spot: Spot


class Unary(Struct, frozen=True, eq=False):
    """``-``, ``+``, ``!``, ``~``, or ``&`` (address of)."""

    operator: str
    operand: Expression
    type: Type
    spot: Spot


class Binary(Struct, frozen=True, eq=False):
    """An arithmetic, comparing, shifting or logical operation, or ``,``."""

    operator: str
    left: Expression
    right: Expression
    type: Type
    spot: Spot


class Assign(Struct, frozen=True, eq=False):
    """``target = value``; ``operator`` is ``=``, ``+=`` and so on; ``i++`` is ``+=`` of 1.

    ``postfix``: the expression's value is the one before (``i++``).
    """

    operator: str
    target: Expression
    value: Expression
    type: Type
    spot: Spot
    postfix: bool = False


class Conditional(Struct, frozen=True, eq=False):
    """``condition ? then : otherwise``."""

    condition: Expression
    then: Expression
    otherwise: Expression
    type: Type
    spot: Spot


class Cast(Struct, frozen=True, eq=False):
    """``(float)x``, ``static_cast<float>(x)``, ``float(x)``, ``as_type<uint>(x)`` (``bits``)."""

    operand: Expression
    type: Type
    spot: Spot
    bits: bool = False


class Construct(Struct, frozen=True, eq=False):
    """``float4(a, b, c, d)``, ``uint2(i)``, ``{1, 2, 3}``, ``Item{...}``: a value of parts."""

    parts: tuple[Expression, ...]
    type: Type
    spot: Spot


class Call(Struct, frozen=True, eq=False):
    """A call of a function of Metal's library, of MLX's preamble, or of the header.

    Attributes:
        name: without namespaces (``simd_sum``); ``namespaces`` holds those (``metal::fast``).
        template: texts of explicit template arguments.
        functions: definitions in the texts that the call may mean, by name and number of arguments.
        method: the object, for ``object.name(...)``.
    """

    name: str
    arguments: tuple[Expression, ...]
    type: Type
    spot: Spot
    namespaces: str = ""
    template: tuple[str, ...] = ()
    functions: tuple[MetalFunction, ...] = ()
    method: Expression | None = None


class OpaqueExpression(Struct, frozen=True, eq=False):
    """An expression that is not followed (a lambda, ``sizeof`` of an unknown); its parts are."""

    why: str
    parts: tuple[Expression, ...]
    type: Type
    spot: Spot


Expression: TypeAlias = (
    NumberLiteral
    | Name
    | Member
    | Index
    | Unary
    | Binary
    | Assign
    | Conditional
    | Cast
    | Construct
    | Call
    | OpaqueExpression
)

# Statements


class Declare(Struct, frozen=True, eq=False):
    """The declaration of one variable, with its initial value if it has one."""

    variable: Variable
    initial: Expression | None
    spot: Spot


class Evaluate(Struct, frozen=True, eq=False):
    """An expression for its effect."""

    expression: Expression
    spot: Spot


class Block(Struct, frozen=True, eq=False):
    """Statements in braces, or several in the place of one."""

    statements: tuple[Statement, ...]
    spot: Spot


class If(Struct, frozen=True, eq=False):
    """``if (condition) then else otherwise``; ``if constexpr`` too."""

    condition: Expression
    then: Statement
    otherwise: Statement | None
    spot: Spot


class Loop(Struct, frozen=True, eq=False):
    """A loop; ``condition`` None is ``for (;;)``; ``start`` runs once before, in an own scope."""

    kind: LoopKind
    start: tuple[Statement, ...]
    condition: Expression | None
    step: Expression | None
    body: Statement
    spot: Spot


class Case(Struct, frozen=True, eq=False):
    """The statements after one label (``value`` None: ``default``), up to the next label."""

    value: Expression | None
    statements: tuple[Statement, ...]
    spot: Spot


class Switch(Struct, frozen=True, eq=False):
    """A switch; cases in order, each falls through unless its statements end in a ``Jump``."""

    value: Expression
    cases: tuple[Case, ...]
    spot: Spot


class Return(Struct, frozen=True, eq=False):
    """``return value;``."""

    value: Expression | None
    spot: Spot


class Jump(Struct, frozen=True, eq=False):
    """``break`` or ``continue``."""

    kind: Literal["break", "continue"]
    spot: Spot


class Opaque(Struct, frozen=True, eq=False):
    """A statement that is not understood (``goto``, ``asm``, an unexpandable macro)."""

    why: str
    spot: Spot


Statement: TypeAlias = Declare | Evaluate | Block | If | Loop | Switch | Return | Jump | Opaque


class MetalFunction(Struct, frozen=True, eq=False):
    """A function that a text defines; of an entry point the parameters may be attributes.

    A lambda that is given a name is one too; its body uses the variables around it.

    Attributes:
        defaults: values of the last parameters, for calls that leave them out.
        owner: of a method the object it is called on, a reference; its fields are ``Member`` of it.

    ``bodies`` holds the body, put there after all functions are known, as they call each other; it
    is empty for a function that is only declared.
    """

    name: str
    parameters: tuple[Variable, ...]
    template: tuple[Variable, ...]
    result: Type
    spot: Spot
    entry: bool = False
    defaults: tuple[Expression, ...] = ()
    owner: Variable | None = None
    bodies: list[Block] = field(default_factory=list)


class MetalStruct(Struct, frozen=True, eq=False):
    """A struct that a text defines.

    Attributes:
        fields: its data members in order.
        template: of a template its parameters; they may be in the types of the fields.
        methods: by name.
    """

    name: str
    fields: tuple[Variable, ...]
    template: tuple[Variable, ...]
    methods: dict[str, tuple[MetalFunction, ...]]
    spot: Spot


class Program(Struct, frozen=True, eq=False):
    """A kernel's body under its header, or a whole file (``body`` None).

    Attributes:
        variables: the inputs, outputs, metadata, attributes and template names that the body uses,
            by name.
        functions: those that the texts define, by name.
        constants: variables at file scope with their values, enumerators among them.
        structs: those that the texts define, by name.
        problems: why and where the texts were not understood; empty for a program that is whole.
        refusal: the problem to report of a text of which nothing is known, else None.
        steps: of the file's work budget, for macros of the text.
        header_steps: the same for the header of a body.
    """

    body: Block | None
    variables: dict[str, Variable]
    functions: dict[str, tuple[MetalFunction, ...]]
    constants: tuple[Declare, ...]
    problems: tuple[Opaque, ...]
    structs: dict[str, MetalStruct] = field(default_factory=dict)
    refusal: str | None = None
    steps: int = 0
    header_steps: int = 0
