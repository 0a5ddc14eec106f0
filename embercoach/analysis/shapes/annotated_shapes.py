"""Shapes that authors write, in annotations, comments and docstrings, compared with arrays."""

from __future__ import annotations

import ast
import io
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from embercoach.analysis.shapes.arrays import (
    UNKNOWN,
    ArrayShape,
    AxesSymbol,
    DType,
    DTypeSymbol,
    ShapedArray,
    dtype_symbol,
    shape_text,
)
from embercoach.analysis.shapes.attributes import classes_of
from embercoach.analysis.shapes.python_values import FunctionValue, LibraryName, Options, Place
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Comparison,
    Integer,
    SizeExpr,
    SizeSymbol,
    add,
    compare,
    floor_divide,
    multiply,
    subtract,
    symbol,
)
from embercoach.analysis.shapes.table_calls import array_of_place

if TYPE_CHECKING:
    from embercoach.analysis.shapes.interpreter import Machine
    from embercoach.analysis.shapes.path_states import Frame

#: The longest annotation or comment that is read.
LONGEST = 200


class WrittenShape(Struct, frozen=True):
    """A shape as it is written.

    Attributes:
        text: for messages, ``(B, S, D)``.
        head: the sizes before unknown axes, as expressions; None for one that is not checked.
        middle: the name of unknown axes, empty for ``...``; None where there are none.
        tail: the sizes after them.
        is_typed: whether it is an annotation, whose names have one size each in a call.
        is_described: whether it is from a description, which names sizes that the program does not.
    """

    text: str
    head: tuple[ast.expr | None, ...]
    middle: str | None = None
    tail: tuple[ast.expr | None, ...] = ()
    is_typed: bool = False
    is_described: bool = False

    def pairs(self, shape: ArrayShape) -> list[tuple[ast.expr | None, Integer]]:
        """Return the written sizes with those of a shape, as far as both are known."""
        if self.middle is None and shape.middle is None:
            return list(zip(self.head, shape.head, strict=False))
        ends = self.head if self.middle is None else self.tail
        sizes = shape.head if shape.middle is None else shape.tail
        after = zip(reversed(ends), reversed(sizes), strict=False)
        return [*zip(self.head, shape.head, strict=False), *after]

    def fits_rank(self, shape: ArrayShape) -> bool:
        """Return whether a shape may have as many axes."""
        least = len(self.head) + len(self.tail)
        if self.middle is None:
            return shape.least_rank <= least if shape.rank is None else shape.rank == least
        return shape.rank is None or shape.rank >= least

    def shape(
        self, size_of: Callable[[str], Integer], axes: Mapping[str, AxesSymbol]
    ) -> ArrayShape:
        """Return the shape where names have these sizes."""
        head, tail = (
            tuple(ANY_INT if size is None else evaluated(size, size_of) for size in part)
            for part in (self.head, self.tail)
        )
        if self.middle is None:
            return ArrayShape(head)
        return ArrayShape(head, axes.get(self.middle) or AxesSymbol(self.middle), tail)


def evaluated(size: ast.expr, size_of: Callable[[str], Integer]) -> Integer:
    """Return the integer of an expression of names and numbers."""
    if isinstance(size, ast.Constant):
        return size.value if type(size.value) is int else ANY_INT
    if isinstance(size, ast.Name):
        return size_of(size.id)
    if isinstance(size, ast.UnaryOp):
        return multiply(evaluated(size.operand, size_of), -1)
    assert isinstance(size, ast.BinOp)
    compute = _OPERATIONS[type(size.op)]
    return compute(evaluated(size.left, size_of), evaluated(size.right, size_of))


_OPERATIONS: dict[type[ast.operator], Callable[[Integer, Integer], Integer]] = {
    ast.Add: add,
    ast.Sub: subtract,
    ast.Mult: multiply,
    ast.FloorDiv: floor_divide,
    ast.Div: floor_divide,
}


def expression_of(text: str) -> ast.expr | None:
    """Return the expression that a text is, None if it is none, or long."""
    if len(text) > LONGEST:
        return None
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _parsed(text: str) -> ast.expr | None:
    """An expression of names, numbers and their sums, products and quotients; None for others."""
    found = expression_of(text)
    return found if found is not None and _is_simple(found) else None


def _is_simple(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return type(node.op) in _OPERATIONS and _is_simple(node.left) and _is_simple(node.right)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _is_simple(node.operand)
    return isinstance(node, ast.Name) or type(getattr(node, "value", None)) is int


# -- annotations -----------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def typed_shape(text: str) -> WrittenShape | None:
    """Return the shape of an annotation ``Float[mx.array, "*batch S D"]``."""
    if len(text) > LONGEST:
        return None
    parts: list[list[ast.expr | None]] = [[]]
    middle = None
    for token in text.split():
        size = token.rpartition("=")[2]
        name = size.lstrip("*#?")
        modifiers = size[: len(size) - len(name)]
        if size == "..." or "*" in modifiers:
            if middle is not None:
                return None
            middle = "" if size == "..." or name.startswith("_") or "#" in modifiers else name
            parts.append([])
        else:
            is_checked = not modifiers and not name.startswith("_")
            parts[-1].append(_parsed(name) if is_checked else None)
    tail = () if middle is None else tuple(parts[1])
    return WrittenShape(shape_text(text.split()), tuple(parts[0]), middle, tail, is_typed=True)


def typed_dtype(kind: str, name: str) -> DType:
    """Return the dtype of an annotation's class, such as ``Float32`` or ``Float``."""
    known = kind.lower()
    if known in _DTYPES:
        return known
    return dtype_symbol(DTypeSymbol(name, is_floating=kind == "Float"))


_DTYPES = frozenset(
    ["bool", "float16", "bfloat16", "float32", "float64", "complex64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


# -- comments --------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def _commented_lines(source: str) -> dict[int, bytes]:
    """Return the lines that may end with a comment about a shape, by their numbers."""
    if "# (" not in source and "# [" not in source:
        return {}
    lines = enumerate(io.StringIO(source, newline=None), 1)
    return {at: line.encode() for at, line in lines if "# (" in line or "# [" in line}


def comment_of_parameter(source: str, parameter: ast.arg, end: ast.AST) -> WrittenShape | None:
    """Return the shape in the comment after a parameter that is alone in its line.

    ``end`` is its default, or the parameter.
    """
    line = _commented_lines(source).get(parameter.lineno)
    if line is None or getattr(end, "end_lineno", 0) != parameter.lineno:
        return None
    if line[: parameter.col_offset].strip():
        return None
    after = line[getattr(end, "end_col_offset", 0) :].lstrip()
    return commented_shape(after.removeprefix(b","))


@lru_cache(maxsize=1024)
def commented_shape(text: bytes) -> WrittenShape | None:
    """Return the shape of a comment ``# (B, S, D)``, if it is about nothing else."""
    if len(text) > LONGEST:
        return None
    comment = text.decode(errors="replace").strip()
    group = comment.removeprefix("#").lstrip()
    if group == comment or group[:1] not in ("(", "["):
        return None
    parts, rest = _split(group)
    if not _is_about_shape(parts, rest, group[0]):
        return None
    if not parts[-1]:
        parts.pop()  # ``(B,)``
    sizes: list[list[ast.expr | None]] = [[]]
    middle = None
    for part in parts:
        if part in ("...", "*", "…") or (part.startswith("*") and part[1:].isidentifier()):
            if middle is not None:
                return None
            middle = part.strip("*.…")
            sizes.append([])
            continue
        size = None if part in _UNKNOWN else _parsed(part.rstrip("'").rpartition("=")[2])
        if size is None and part not in _UNKNOWN:
            return None
        # What follows ``T`` in time, ``T'``, is not ``T``.
        sizes[-1].append(None if part.endswith("'") else size)
    tail = sizes[-1] if middle is not None else []
    return WrittenShape(shape_text(parts), tuple(sizes[0]), middle, tuple(tail))


_UNKNOWN = frozenset(("_", "?", "-1", "None"))


def _split(group: str) -> tuple[list[str], str]:
    """Return the parts of a group in brackets, and what follows it; no parts if it does not end."""
    depth = start = 0
    parts: list[str] = []
    for at, char in enumerate(group):
        if char in "([":
            depth += 1
            start = start or at + 1
        elif char in ")]":
            depth -= 1
        if (char == "," and depth == 1) or depth == 0:
            parts.append(group[start:at].strip())
            start = at + 1
        if depth == 0:
            return parts, group[at + 1 :]
    return [], ""


#: Words after a group that is not, or not alone, the shape at hand.
_OTHERS = frozenset(("or", "if", "when", "else", "for", "x", "and", "to", "unless", "in")) | {
    *("range", "interval", "order", "format", "tuple", "pair", "pairs")
}


def _is_about_shape(parts: list[str], rest: str, bracket: str) -> bool:
    """Return whether a group of a comment is a shape, and the only one."""
    if not parts or (rest and rest[0] not in " \t-:;,.") or any(one in rest for one in "([→"):
        return False
    if "->" in rest or "=>" in rest or (rest[:1] == "-" and rest[1:2].isdigit()):
        return False
    words = rest.replace(",", " ").split()
    if words and (words[0].lower() in _OTHERS or words[0][0] in "*+/@|&<>=%^"):
        return False
    if len(parts) == 1 and (bracket == "(" or len(parts[0]) > 2 or not parts[0].isupper()):
        return False
    if all(part.isdecimal() for part in parts):
        return bracket == "(" and "0" not in parts  # others list values, or are a range
    return True


#: Lines of a docstring that are read.
MOST_LINES = 200
#: Words between a parameter's name and its shape that say that it is one.
_OF_SHAPE = ("shape", "shaped", "shape:", "array", "tensor", "mx.array", "size")


def described_shapes(
    function: ast.AST, names: frozenset[str], source: str
) -> dict[str, WrittenShape]:
    """Read the shapes of parameters from a function's docstring and the comments after it.

    Args:
        function: that has a body.
        names: of its parameters.
        source: of its file.
    """
    body = getattr(function, "body", None)
    if not isinstance(body, list) or not body:
        return {}
    found: dict[str, WrittenShape] = {}
    described = _docstring_lines(body[0])
    comments = _first_comments(function, body, source)
    for at, line in enumerate((*described, *comments)):
        if len(line) <= LONGEST and ("(" in line or "[" in line):
            # Further down, a parameter is described where its name begins a line.
            is_alone = 0 < at < len(described)
            for name, shape in _shapes_in(line, names, is_alone=is_alone):
                # One that is described in two ways is of neither for certain.
                known = found.setdefault(name, shape)
                if known.text != shape.text:
                    found[name] = replace(known, head=(), middle="", tail=())
    return {name: shape for name, shape in found.items() if shape.head or shape.tail}


def _docstring_lines(node: ast.stmt) -> list[str]:
    value = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
        return []
    return value.value.splitlines()[:MOST_LINES]


@lru_cache(maxsize=8)
def _lines(source: str) -> list[str]:
    return source.splitlines()


def _first_comments(function: ast.AST, body: list[ast.stmt], source: str) -> list[str]:
    """Return the lines of comments before a function's first statement, and after its docstring."""
    found: list[str] = []
    before = getattr(function, "lineno", 0)
    for node in body[:2]:
        lines = _lines(source)[before : node.lineno - 1]
        found += [text[1:] for line in lines[-MOST_LINES:] if (text := line.strip())[:1] == "#"]
        if not _docstring_lines(node):
            break
        before = node.end_lineno or node.lineno
    return found


def _shapes_in(
    line: str, names: frozenset[str], *, is_alone: bool
) -> list[tuple[str, WrittenShape]]:
    """Return the parameters that a line names, each with the shape after its name.

    ``is_alone``: one begins the line, or follows a comma or semicolon and precedes a colon.
    """
    found: list[tuple[str, WrittenShape]] = []
    listed: list[str] = []
    at, is_first = 0, True
    while at < len(line):
        end = at
        while end < len(line) and (line[end].isalnum() or line[end] == "_"):
            end += 1
        if end == at:
            at += 1
            continue
        name, before, after = line[at:end], line[:at].rstrip(), line[end:].lstrip("`* ")
        is_own = is_first or not is_alone or (before[-1:] in ",;." and after[:1] == ":")
        if (name in names and line[at - 1 : at] not in (".", "'", '"')) or (
            name in names and not at
        ):
            shape = _shape_after(line[end:], starts_line=is_first) if is_own else None
            if shape is not None:
                found += [(one, shape) for one in (*listed, name)]
                listed = []
            elif after[:1] == "," and (is_first or listed):
                listed.append(name)  # ``x, y: (B, S)``
        else:
            listed = []
        at, is_first = end, False
    return found


def _shape_after(text: str, *, starts_line: bool) -> WrittenShape | None:
    """The shape in ``: (B, S)``, `` (B, S)``, or ``: queries of shape (B, S)`` in its own line."""
    rest = text.lstrip("`* ")
    if starts_line and rest[:1] == "(" and _shape_of(rest) is None:
        rest = rest.partition(")")[2].lstrip()  # ``x (mx.array): (B, S)``
    direct = rest.lstrip(":= `")
    if direct[:1] in ("(", "["):
        return _shape_of(direct)
    start = min((at for at in map(rest.find, "([") if at >= 0), default=0)
    words = rest[1:start].lower().replace("`", " ").rstrip(" =:").split()
    if not starts_line or rest[:1] != ":" or not words or words[-1] not in _OF_SHAPE:
        return None
    return _shape_of(rest[start:])


def _shape_of(group: str) -> WrittenShape | None:
    """Return the shape that a text begins with, if it is one of several axes."""
    end = next((at for at, char in enumerate(group) if char in ")]"), 0) + 1
    rest = group[end:]
    if " or (" in rest or " or [" in rest:
        return None
    words = rest.lstrip(",;. ")
    is_other = words.startswith(("or ", "if ", "when ", "and (", "and ["))
    if not is_other and (rest[:1] in (",", ";", ".") or words.startswith("and ")):
        group = group[:end]  # what follows is of something else
    found = commented_shape(f"# {group}".encode())
    if found is None or not found.text.startswith("(") or "," not in found.text:
        return None
    return replace(found, is_described=True)


CODE = "SHAPE-006"


def written_type(
    machine: Machine, frame: Frame, node: ast.expr | None, depth: int = 0
) -> WrittenShape | None:
    """Get the shape of an annotation: ``Float[mx.array, "B S D"]``, also if it may be ``None``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and depth < 4:
        return written_type(machine, frame, expression_of(node.value), depth + 1)
    if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant):
        return written_type(machine, frame, node.left, depth + 1)
    if not isinstance(node, ast.Subscript):
        return None
    kind = _library_name(machine, frame, node.value)
    if kind in ("typing.Optional", "typing_extensions.Optional"):
        return written_type(machine, frame, node.slice, depth + 1)
    if not kind.startswith("jaxtyping.") or not isinstance(node.slice, ast.Tuple):
        return None
    array, *sizes = node.slice.elts
    if len(sizes) != 1 or _library_name(machine, frame, array) != "mlx.core.array":
        return None
    text = sizes[0].value if isinstance(sizes[0], ast.Constant) else None
    return typed_shape(text) if isinstance(text, str) else None


def _library_name(machine: Machine, frame: Frame, node: ast.expr) -> str:
    value = machine.peek(frame, node)
    return value.name if type(value) is LibraryName else ""


def _of_parameters(machine: Machine, function: FunctionValue) -> dict[str, WrittenShape]:
    """Return the shapes that a function names for its parameters."""
    known = machine.written.get(function.node)
    if known is not None:
        return known
    found = machine.written[function.node] = {}
    frame, given = function.frame, function.node.args
    parameters = [*given.posonlyargs, *given.args]
    first = len(parameters) - len(given.defaults)
    defaults: list[ast.expr | None] = [*([None] * first), *given.defaults, *given.kw_defaults]
    for parameter, default in zip([*parameters, *given.kwonlyargs], defaults, strict=True):
        written = written_type(machine, frame, parameter.annotation)
        if written is None:
            end = parameter if default is None else default
            written = comment_of_parameter(frame.module.source, parameter, end)
        if written is not None:
            found[parameter.arg] = written
    names = frozenset(one.arg for one in (*parameters, *given.kwonlyargs)) - found.keys()
    # Descriptions may be out of date: they make warnings, and no errors, and are not shown.
    is_trusted = machine.assumes and not machine.keeps_records
    for one in _with_overridden(function) if is_trusted else ():
        described = described_shapes(one.node, names, one.frame.module.source)
        if described:
            found.update(described)
            break
    return found


def _with_overridden(function: FunctionValue) -> Iterator[FunctionValue]:
    """Yield a function, and the methods of base classes whose documentation it shares."""
    yield function
    node = function.node
    if isinstance(node, ast.Lambda) or function.cls is None:
        return
    if ast.get_docstring(node, clean=False) is None:
        members = (one.members.get(function.name) for one in classes_of(function.cls)[1:])
        yield from (one for one in members if type(one) is FunctionValue)


# -- parameters ------------------------------------------------------------------------------


def apply_annotations(machine: Machine, frame: Frame, function: FunctionValue) -> None:
    """Compare what is passed with the annotations; give arrays of unknown shapes theirs."""
    written = _of_parameters(machine, function)
    if not written:
        return
    passed = {name: _array_of(machine, frame.names.get(name)) for name in written}
    for name, shape in written.items():
        array = passed[name]
        if array is not None and not is_unknown(array.shape) and not shape.is_described:
            _compare_passed(machine, frame, name, shape, array.shape)
            _learn_names(frame, shape, array.shape)
    axes: dict[str, AxesSymbol] = {}
    for name, shape in written.items():
        frame.names[name] = _with_shape(machine, frame, frame.names.get(name), shape, axes)


def is_unknown(shape: ArrayShape) -> bool:
    """Return whether nothing is known of a shape."""
    return shape.middle is not None and not shape.least_rank


def _array_of(machine: Machine, value: Any) -> ShapedArray | None:
    found = machine.heap.value(value)
    if type(found) is Options:
        arrays = [one for one in found.values if one is not None]
        found = arrays[0] if len(arrays) == 1 else None
    return found if type(found) is ShapedArray else None


def _learn_names(frame: Frame, written: WrittenShape, shape: ArrayShape) -> None:
    """Keep the sizes that names of an annotation have in a call; the first ones, if typed."""
    if not written.fits_rank(shape):
        return
    for size, number in written.pairs(shape):
        if isinstance(size, ast.Name) and number is not ANY_INT:
            held = frame.dims.setdefault(size.id, number)
            if not written.is_typed and held != number:
                frame.dims[size.id] = ANY_INT  # comments use a name for this and that


def _compare_passed(
    machine: Machine, frame: Frame, name: str, written: WrittenShape, shape: ArrayShape
) -> None:
    shape = machine.heap.shape(shape)

    def size_of(dim: str) -> Integer:
        return machine.heap.integer(frame.dims.get(dim, ANY_INT)) if written.is_typed else ANY_INT

    wrong = difference(machine, written, shape, size_of)
    caller = frame.caller
    if wrong is None or caller is None or frame.function is None:
        return
    where = "" if caller.module is frame.module else f"{caller.module.path.name}:"
    where = f"{where}{frame.call_line}" if where else f"line {frame.call_line}"
    given = frame.function.node.args
    parameters = (*given.posonlyargs, *given.args, *given.kwonlyargs)
    node = next(one for one in parameters if one.arg == name)
    reason = f"{name} is annotated {written.text}{wrong}, and {where} passes {shape}"
    machine.add_event(frame, node, reason, None, name, CODE)


def _with_shape(
    machine: Machine,
    frame: Frame,
    value: Any,
    written: WrittenShape,
    axes: dict[str, AxesSymbol],
) -> Any:
    """Return an argument that is an array of the shape that is written, where it is not known."""
    value = machine.heap.value(value)
    if type(value) is Options:
        options = [_with_shape(machine, frame, one, written, axes) for one in value.values]
        return Options(tuple(options))
    is_place = type(value) is Place and not value.is_setting and value.shape is None
    if not is_place and not (type(value) is ShapedArray and is_unknown(value.shape)):
        return value
    if written.middle:
        axes.setdefault(written.middle, AxesSymbol(written.middle))
    function = None if frame.function is None else frame.function.node

    def size_of(dim: str) -> Integer:
        if dim not in frame.dims:
            frame.dims[dim] = symbol(dim, place=None if written.is_described else function)
        return frame.dims[dim]

    made = replace(value, shape=written.shape(size_of, axes))
    is_computed_with = is_place and function is not None and value.name in _computed_with(function)
    return array_of_place(made) if is_computed_with else made


@lru_cache(maxsize=512)
def _computed_with(function: ast.AST) -> frozenset[str]:
    """Names that a function adds, multiplies and the like: arrays, where a comment names axes."""
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.BinOp):
            sides = (node.left, node.right)
            if not any(isinstance(one, (ast.Tuple, ast.List, ast.Constant)) for one in sides):
                found |= {one.id for one in sides if isinstance(one, ast.Name)}
    return frozenset(found)


# -- results and assignments -----------------------------------------------------------------


def compare_returned(machine: Machine, frame: Frame, function: FunctionValue, value: Any) -> Any:
    """Return what a function returns, with the shape of its annotation where that is not known."""
    annotation = getattr(function.node, "returns", None)
    if annotation is None:
        return value
    array = _array_of(machine, value)
    written = None if array is None else written_type(machine, function.frame, annotation)
    if written is None or array is None:
        return value

    def size_of(dim: str) -> Integer:
        return machine.heap.integer(frame.dims.get(dim, ANY_INT))

    if is_unknown(array.shape):
        return replace(array, shape=written.shape(size_of, {})) if array is value else value
    shape = machine.heap.shape(array.shape)
    wrong = difference(machine, written, shape, size_of)
    if wrong is not None:
        reason = f"the result is annotated {written.text}{wrong}, and is {shape}"
        machine.add_event(frame, annotation, reason, None, function.name, CODE)
    return value


def compare_assigned(machine: Machine, frame: Frame, node: ast.stmt, value: Any) -> Any:
    """Return what is assigned, with the shape of its comment where nothing else is known."""
    source = frame.module.source
    target = _sole_target(node)
    if target is None:
        return value
    written, kind = None, "annotation"
    if isinstance(node, ast.AnnAssign):
        written = written_type(machine, frame, node.annotation)
    if written is None:
        line, kind = _commented_lines(source).get(node.end_lineno or 0), "comment"
        written = None if line is None else commented_shape(line[node.end_col_offset :])
    if written is None:
        return value

    def size_of(dim: str) -> Integer:
        local = machine.heap.value(frame.names.get(dim, frame.dims.get(dim, ANY_INT)))
        return local if type(local) in (int, SizeExpr) else ANY_INT

    name = target.id if isinstance(target, ast.Name) else target.attr
    if value is UNKNOWN:
        return Place(name, shape=written.shape(size_of, {}))
    array = _array_of(machine, value)
    if array is not None and not is_unknown(array.shape):
        shape = machine.heap.shape(array.shape)
        wrong = difference(machine, written, shape, size_of)
        if wrong is not None and not _names_elements(written, shape, size_of):
            reason = f"{name} is {shape}, and its {kind} says {written.text}{wrong}"
            machine.add_event(frame, target, reason, None, name, CODE)
    return value


def _sole_target(node: ast.stmt) -> ast.Name | ast.Attribute | None:
    """Return the name or attribute that a statement assigns; None of several, and of items."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    target = targets[0] if len(targets) == 1 else None
    return target if isinstance(target, (ast.Name, ast.Attribute)) else None


def _names_elements(
    written: WrittenShape, shape: ArrayShape, size_of: Callable[[str], Integer]
) -> bool:
    """Return whether a comment may name what an axis holds: ``boxes  # (x, y, w, h)``."""
    if written.middle is not None:
        return shape.rank == 1 and not written.is_typed  # ``p - mx.arange(p)  # [p, p-1, ..., 1]``
    if written.is_typed or shape.rank == len(written.head) or not (shape.head or shape.tail):
        return False
    names = [one.id for one in written.head if isinstance(one, ast.Name)]
    if any(size_of(name) is not ANY_INT for name in names):
        return False
    last = shape.size(-1)
    found = last.symbol if type(last) is SizeExpr else None
    if type(last) is SizeExpr:
        return found is None or not found.is_named
    return last in (len(written.head), ANY_INT)


# -- comparison ------------------------------------------------------------------------------


def difference(
    machine: Machine, written: WrittenShape, shape: ArrayShape, size_of: Callable[[str], Integer]
) -> str | None:
    """Find what contradicts a shape, empty if it is plain; None if nothing does for certain.

    Args:
        machine: the interpreter.
        written: what its author says.
        shape: what it is.
        size_of: the sizes of names, ``ANY_INT`` where they are not known.
    """
    if not written.fits_rank(shape):
        return ""
    expected = written.shape(size_of, {})
    sizes = [n for part in (expected.head, expected.tail) for n in part]
    names = [one for part in (written.head, written.tail) for one in part]
    by_node = dict(zip(map(id, names), sizes, strict=True))
    for size, number in written.pairs(shape):
        meant = ANY_INT if size is None else by_node[id(size)]
        if compare(meant, number) is Comparison.DIFFERENT:
            if isinstance(size, ast.Name) and type(meant) is int:
                return f" with {size.id} = {meant}"
            return ""
        if _are_apart(machine, meant, number):
            return ""
    return None


def _are_apart(machine: Machine, a: Integer, b: Integer) -> bool:
    """Return whether two sizes are different elements of one shape, by their names."""
    first, second = _named(a), _named(b)
    if first is None or second is None or first is second or first.place is not second.place:
        return False
    return frozenset((first, second)) not in machine.heap.compared


def _named(size: Integer) -> SizeSymbol | None:
    found = size.symbol if type(size) is SizeExpr else None
    if found is None or not found.is_named or found.is_joined or found.is_loop:
        return None
    return None if found.place is None or found.quotient is not None else found
