"""The facts of Metal text: frozen, with their places in the text."""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

DeclarationKind = Literal[
    "local", "parameter", "function", "type", "alias", "constant", "field", "enumerator",
    "namespace", "template", "macro", "binding",
]  # fmt: skip
UseKind = Literal["value", "type", "call", "namespace"]
DirectiveKind = Literal["include", "using namespace", "using"]
ForeignKind = Literal[
    "double", "long long", "new", "delete", "exception", "goto", "lambda", "virtual", "storage",
    "dynamic_cast", "typeid", "std", "include", "asm", "static", "file scope", "order",
    "cuda",
]  # fmt: skip


class TextSpan(NamedTuple):
    """A stretch of the text: character offsets ``start`` to ``end``, line and column from 1."""

    start: int
    end: int
    line: int
    column: int


class Declaration(Struct, frozen=True):
    """A name that the text declares.

    Attributes:
        type: the type as written, without qualifiers (``float4``); empty where there is none.
        address_space: ``device``, ``constant``, ``threadgroup``, ``thread`` or None as written; of
            a pointer it is the space that it points to.
        pointer: declared with ``*`` or ``&``.
        dimensions: texts between the brackets of an array, outermost first.
        value: text of the initializer, None without one.
        depth: nesting of scopes, 0 for the outermost of the text.
    """

    name: str
    kind: DeclarationKind
    place: TextSpan
    type: str = ""
    address_space: str | None = None
    pointer: bool = False
    dimensions: tuple[str, ...] = ()
    value: str | None = None
    depth: int = 0


class Use(Struct, frozen=True):
    """A name that is used where no declaration of the text is in scope.

    Attributes:
        kind: where it stands; a guess in the places where C++ itself is ambiguous.
        elsewhere: a declaration of the same name that is out of scope, or comes later.
        variable: it is indexed or assigned, so it can be neither a constant nor a type.
        component: of a thread attribute ``x``, another swizzle, or None.
    """

    name: str
    kind: UseKind
    place: TextSpan
    elsewhere: TextSpan | None = None
    variable: bool = False
    component: str | None = None


class PreprocessorLine(Struct, frozen=True):
    """An ``#include`` (target ``<metal_stdlib>``) or a ``using`` (target ``metal``)."""

    kind: DirectiveKind
    target: str
    place: TextSpan


class AttributeMark(Struct, frozen=True):
    """``[[name(arguments)]]``; ``arguments`` holds the text between the parentheses."""

    name: str
    arguments: str | None
    place: TextSpan


class WrittenParameter(Struct, frozen=True):
    """A parameter of a function written in the text; its name is empty where it has none.

    Attributes:
        pointer: declared with ``*`` or ``&``.
        reference: declared with ``&``.
        constant: what it is, or points to, is ``const``.
    """

    name: str
    type: str
    address_space: str | None
    pointer: bool
    reference: bool
    constant: bool
    attributes: tuple[AttributeMark, ...]
    place: TextSpan


class WrittenFunction(Struct, frozen=True):
    """A function definition (``body`` True) or declaration written in the text.

    Attributes:
        entry: ``kernel``, ``vertex`` or ``fragment``, as qualifier or as attribute, or the
            attribute ``mesh`` or ``object``, else None.
        result: the type that it returns, as ``Declaration.type``; of a pointer with a ``*``.
        place: of the name.
        extent: of the whole definition.
        member: it is a method, written inside its class.
    """

    name: str
    entry: str | None
    body: bool
    parameters: tuple[WrittenParameter, ...]
    place: TextSpan
    extent: TextSpan
    member: bool = False
    result: str = ""


class WrittenCall(Struct, frozen=True):
    """A call: the callee as written without template arguments, and these."""

    name: str
    template: tuple[str, ...]
    place: TextSpan


class Foreign(Struct, frozen=True):
    """A piece of C++ that Metal has not: its kind, and its text as written."""

    kind: ForeignKind
    text: str
    place: TextSpan


class Splat(Struct, frozen=True):
    """A vector whose components are read apart, and that one element of an array was put into.

    Attributes:
        type: of the vector, as written.
        source: the name of the array.
        declaration: of the array, None where the text does not declare it.
        place: of the element.
    """

    type: str
    source: str
    declaration: Declaration | None
    place: TextSpan


class BareCast(Struct, frozen=True):
    """A cast to a pointer without an address space; ``type`` is the type that it points to."""

    type: str
    place: TextSpan


class SizeName(Struct, frozen=True):
    """A name in the size of an array that decides whether the size is a constant expression.

    Attributes:
        array: the declaration of the array.
        name: a variable that is read when the program runs, or a name that the text does not
            declare (``free``), which may be such a variable.
        place: of the size.
    """

    array: Declaration
    name: str
    free: bool
    place: TextSpan
