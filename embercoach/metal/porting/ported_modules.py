"""The Python module with the ports of a file's kernels. ``embercoach port`` calls this.

Text of the file gets into the module as string literals alone; names are checked to be plain.
"""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING

from msgspec import Struct

from embercoach.metal.porting.bodies import ported
from embercoach.metal.porting.entry_points import PortError, chosen, read_kernels
from embercoach.metal.porting.flat_texts import flat_text
from embercoach.metal.tokens import tokens_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from embercoach.metal.porting.bodies import PortedKernel
    from embercoach.metal.porting.entry_points import EntryPoint, KernelFile
    from embercoach.metal.porting.flat_texts import Read
    from embercoach.metal.porting.port_arguments import ArrayArgument, ArrayRole

_HEAD = '''\
"""Metal kernels for mx.fast.metal_kernel, ported by `embercoach port`.

`grid` counts threads in each dimension, as Metal's dispatchThreads does. A host that calls
dispatchThreadgroups counts threadgroups: multiply its counts by the size of a threadgroup.
"""

from __future__ import annotations

import mlx.core as mx
'''
_CHECKS = '''\
def _check(
    name: str, array: mx.array, dtype: mx.Dtype, space: str = "", size: int | None = None
) -> None:
    """Refuse an array that the kernel would not compile for, or would misread."""
    if array.dtype != dtype:
        raise TypeError(f"{name} must be {dtype}, got {array.dtype}")
    if array.ndim == 0:
        raise ValueError(f"{name} must have a dimension")
    if size is not None and array.size != size:
        raise ValueError(f"{name} must have {size} elements, got {array.size}")
    if space and (space == "constant") != (array.size < 8):
        # MLX passes arrays of fewer than 8 elements in constant memory, others in device memory.
        bound = "fewer than 8" if space == "constant" else "8 or more"
        raise ValueError(f"{name} must have {bound} elements, got {array.size}")
'''
_WIDTH = 92
_BLANK = ("space", "newline")
#: Names that a wrapper uses itself.
_OWN = frozenset({"mx", "grid", "threadgroup", "init_value", "outputs", "zip", "any", "ValueError"})


def _unread(_includer: str, _target: str) -> None:
    """Return no file."""


class PortedFile(Struct, frozen=True):
    """The module of a ``.metal`` file.

    Attributes:
        refused: the kernels that are not in it, each with the reason.
    """

    module: str
    refused: Mapping[str, PortError]


def ported_file(
    text: str, names: Sequence[str], roles: Mapping[str, ArrayRole], read: Read = _unread
) -> PortedFile:
    """Return the Python module of a ``.metal`` file.

    Args:
        text: the file.
        names: the kernels to port; for none, all that can be ported.
        roles: of writable arrays, by name, where the body does not show them.
        read: returns a file that the text includes.

    Raises:
        PortError: the file, all of its kernels or one of those named cannot be ported.
    """
    flat = flat_text(text, read)
    try:
        file = read_kernels(flat)
        kernels, refused = _kernels(file, names, roles)
        return PortedFile(_module(file, kernels, roles), refused)
    except PortError as error:
        raise error.located(flat.origin) from error


def _kernels(
    file: KernelFile, names: Sequence[str], roles: Mapping[str, ArrayRole]
) -> tuple[list[PortedKernel], dict[str, PortError]]:
    """Return the kernels that can be ported, and the others with the reasons."""
    refused = {} if names else dict(file.refused)
    kernels = []
    for kernel in chosen(file, names):
        found = _attempt(file, kernel, roles)
        if isinstance(found, PortError):
            if names:
                raise found
            refused[kernel.name] = found
        else:
            kernels.append(found)
    if not kernels:
        raise min(refused.values(), key=lambda error: error.line)
    located = {name: error.located(file.flat.origin) for name, error in refused.items()}
    return kernels, located


def _attempt(
    file: KernelFile, kernel: EntryPoint, roles: Mapping[str, ArrayRole]
) -> PortedKernel | PortError:
    try:
        return ported(file, kernel, roles)
    except PortError as error:
        return error


def _module(
    file: KernelFile, kernels: Sequence[PortedKernel], roles: Mapping[str, ArrayRole]
) -> str:
    writable = {
        one.parameter.name
        for kernel in kernels
        for one in kernel.arrays
        if not one.parameter.constant
    }
    if unknown := roles.keys() - writable:
        raise PortError(f"no writable array `{min(unknown)}`")
    parts = [_HEAD]
    header = file.header([kernel.source for kernel in kernels])
    if header and all(token.kind in _BLANK for token in tokens_of(header)):
        # A license stays; other comments have lost what they were about.
        first = next((t.start for t in tokens_of(file.flat.text) if t.kind not in _BLANK), 0)
        start = file.flat.text[:first].strip()
        parts[:0] = [_commented(start)] if start and header.startswith(start) else []
        header = ""
    if header:
        parts.append(f"HEADER = {_literal(header)}\n")
    taken = {"mx", "HEADER", "_check", "any", "zip", "TypeError", "ValueError"}
    taken.update(map(_constant, kernels))
    has_arrays = any(not one.is_scalar for kernel in kernels for one in kernel.inputs)
    functions = [_CHECKS] if has_arrays else []
    for kernel in kernels:
        parts.append(_built(kernel, has_header=bool(header)))
        name = _python_name(kernel.kernel.name, taken)
        taken.add(name)
        functions.append(_Wrapper(kernel).text(name))
    return "\n".join(parts) + "\n\n" + "\n\n".join(functions)


def _commented(text: str) -> str:
    """Return the comments of a text as comments of Python, without what a runner of CI reads."""
    lines = [line.strip().strip("/*").strip() for line in text.splitlines()]
    shown = [line for line in lines if line.isprintable() and "##" not in line]
    return "".join(f"# {line}".rstrip() + "\n" for line in shown)


def _literal(text: str) -> str:
    """Return a text as a string literal: as written if that is harmless, else with escapes."""
    lines = text.split("\n")
    is_plain = all(line.replace("\t", " ").isprintable() for line in lines)
    # A runner of CI would take a line of the module for a command.
    is_plain &= not any(line.lstrip().startswith("::") or "##" in line for line in lines)
    if is_plain and '"""' not in text and not text.endswith(('"', "\\")):
        prefix = "r" if "\\" in text else ""
        return f'{prefix}"""\n{text}\n"""'
    pieces = "\n".join(f"    {line + chr(10)!a}" for line in lines)
    return f"(\n{pieces}\n)"


def _constant(kernel: PortedKernel) -> str:
    return f"_{kernel.kernel.name}_kernel"


def _built(kernel: PortedKernel, *, has_header: bool) -> str:
    """Return the statement that builds a kernel."""
    inputs = [one.initial if one.role == "updated" else one.name for one in kernel.inputs]
    outputs = [one.name for one in kernel.outputs]
    outputs += [one.written for one in kernel.outputs if one.written]
    comments = f"{kernel.kernel.comments}\n" if kernel.kernel.comments else ""
    lines = [
        f"{_constant(kernel)} = mx.fast.metal_kernel(",
        f'    name="{kernel.kernel.name}",',
        f"    input_names={_names(inputs)},",
        f"    output_names={_names(outputs)},",
        f"    source={_literal(comments + kernel.source)},",
        *(["    header=HEADER,"] if has_header else []),
        "    ensure_row_contiguous=True,",
        *(["    atomic_outputs=True,"] if kernel.is_atomic else []),
        ")",
    ]
    return "\n".join(lines) + "\n"


def _names(names: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, names))}]"


def _quoted(name: str) -> str:
    return f'"{name}"'


class _Wrapper:
    """The Python function that launches a kernel."""

    def __init__(self, kernel: PortedKernel) -> None:
        self._kernel = kernel
        self._taken = set(_OWN)
        self._known: dict[str, str] = {}

    def text(self, name: str) -> str:
        """Return the definition of the function, under a name that is free."""
        kernel = self._kernel
        result = (
            "mx.array"
            if len(kernel.outputs) == 1
            else f"tuple[{', '.join('mx.array' for _ in kernel.outputs)}]"
        )
        lines = [
            f"def {name}(",
            *(f"    {line}," for line in self._parameters()),
            f") -> {result}:",
            *(f"    {line}" if line else "" for line in self._documentation()),
            *(f"    {line}" for line in (*self._checks(), *self._launch())),
        ]
        return "\n".join(lines) + "\n"

    def _name(self, name: str) -> str:
        """Return the name of a wrapper's parameter."""
        if name not in self._known:
            self._known[name] = _python_name(name, self._taken)
            self._taken.add(self._known[name])
        return self._known[name]

    def _parameters(self) -> Iterator[str]:
        kernel = self._kernel
        for one in kernel.inputs:
            kind = "bool | " if one.dtype == "bool_" else "float | " if _is_float(one) else "int | "
            yield f"{self._name(one.label)}: {kind if one.is_scalar else ''}mx.array"
        yield "*"
        for one in kernel.outputs:
            if one.role == "output":
                yield f"{self._shape(one)}: tuple[int, ...]"
        for argument in kernel.template:
            kind = "mx.Dtype" if argument.kind == "dtype" else argument.kind
            yield f"{self._name(argument.name)}: {kind}"
        yield "grid: tuple[int, int, int]"
        yield "threadgroup: tuple[int, int, int]"
        if self._has_undefined:
            keeps = any(one.keeps for one in kernel.outputs)
            default = " = 0" if kernel.adds_up else "" if keeps else " | None = None"
            yield f"init_value: float{default}"

    @property
    def _has_undefined(self) -> bool:
        return any(one.role == "output" for one in self._kernel.outputs)

    def _shape(self, array: ArrayArgument) -> str:
        return self._name(f"{array.label}_shape")

    def _documentation(self) -> list[str]:
        kernel = self._kernel
        lines = [f'"""Launch the kernel `{kernel.kernel.name}`.', ""]
        for one in kernel.inputs:
            what = "scalar" if one.is_scalar else "array"
            line = f"{self._name(one.label)}: {what} of dtype {one.dtype}{_remark(one)}"
            if one.role == "updated":
                line += ", which is copied: the result has the new values"
            lines.append(line + ".")
        lines += [
            f"Returns `{one.label}`: array of dtype {one.dtype}{_remark(one)}."
            for one in kernel.outputs
        ]
        if self._has_undefined:
            keeps = kernel.adds_up or any(one.keeps for one in kernel.outputs)
            rest = "" if keeps else ", undefined for None"
            lines.append(f"The output begins as `init_value`{rest}.")
        if any(one.role == "updated" for one in kernel.outputs):
            if kernel.is_one_threadgroup:
                lines.append(
                    "A launch must have one threadgroup: its threads copy the array first."
                )
            elif any(one.role == "updated" and not one.written for one in kernel.outputs):
                lines.append("Elements that no thread updates are undefined.")
        instances = [one for one in kernel.kernel.instances if _is_harmless(one)]
        if instances:
            lines.append(f"Instantiated in the file as: {'; '.join(instances)}.")
        return [*lines, '"""']

    def _checks(self) -> Iterator[str]:
        for one in self._kernel.inputs:
            if not one.is_scalar:
                name = self._name(one.label)
                space = self._kernel.spaces.get(one.name)
                last = f", {_quoted(space)}" if space else ""
                last += f", size={one.size}" if one.is_vector else ""
                yield f"_check({_quoted(name)}, {name}, {self._dtype(one)}{last})"
        for one in self._kernel.outputs:
            if one.each:
                name, each = self._name(one.label), f"{one.each} * " if one.each > 1 else ""
                yield f"if {each}grid[0] * grid[1] * grid[2] < {name}.size:"
                message = f"{name} must have a thread per element, got {{grid}}"
                yield f'    raise ValueError(f"{message}")'
        if self._kernel.is_one_threadgroup:
            yield "if any(threads > group for threads, group in zip(grid, threadgroup)):"
            yield '    raise ValueError(f"grid must be one threadgroup, got {grid}")'

    def _launch(self) -> Iterator[str]:
        kernel = self._kernel
        inputs = [
            f"mx.array({self._name(one.label)}, dtype={self._dtype(one)})"
            if one.is_scalar
            else self._name(one.label)
            for one in kernel.inputs
        ]
        shapes = [
            self._shape(one) if one.role == "output" else f"{self._name(one.label)}.shape"
            for one in kernel.outputs
        ]
        written = [one for one in kernel.outputs if one.written]
        dtypes = [*map(self._dtype, kernel.outputs), *("mx.bool_" for _ in written)]
        shapes += [f"{self._name(one.label)}.shape" for one in written]
        yield f"outputs = {_constant(kernel)}("
        yield from _listed("inputs", inputs)
        if kernel.template:
            pairs = (f'("{one.name}", {self._name(one.name)})' for one in kernel.template)
            yield f"    template=[{', '.join(pairs)}],"
        yield "    grid=grid,"
        yield "    threadgroup=threadgroup,"
        yield from _listed("output_shapes", shapes)
        yield from _listed("output_dtypes", dtypes)
        if self._has_undefined or written:
            yield f"    init_value={'init_value' if self._has_undefined else 0},"
        yield ")"
        results = [f"outputs[{at}]" for at in range(len(kernel.outputs))]
        for at, one in enumerate(written, len(results)):
            place = kernel.outputs.index(one)
            kept = self._name(one.label)
            results[place] = f"mx.where(outputs[{at}], {results[place]}, {kept})"
        yield f"return {', '.join(results)}"

    def _dtype(self, array: ArrayArgument) -> str:
        is_template = any(one.name == array.dtype for one in self._kernel.template)
        return self._name(array.dtype) if is_template else f"mx.{array.dtype}"


def _listed(name: str, items: Sequence[str]) -> Iterator[str]:
    """Yield the lines of an argument that is a list."""
    line = f"    {name}=[{', '.join(items)}],"
    if len(line) <= _WIDTH:
        yield line
    else:
        yield from (f"    {name}=[", *(f"        {item}," for item in items), "    ],")


def _remark(array: ArrayArgument) -> str:
    """Return what the docstring says of the elements of an array: their form, and its comment."""
    found = ""
    if array.struct is not None:
        size = f" ({array.size} values each)" if array.size > 1 else ""
        found = f", the memory of `{array.struct.name}` structs{size}"
    elif array.is_view and not array.is_atomic:
        found = f", seen as `{array.element}`"
    elif array.is_vector:
        found = f", the {array.size} components of a `{array.element}`"
    comment = array.parameter.comment
    if comment and len(comment) <= _WIDTH and not array.field:
        found += f" ({comment})"
    return found if _is_harmless(found) else ""


def _is_float(array: ArrayArgument) -> bool:
    return "float" in array.dtype or not any(character.isdigit() for character in array.dtype)


def _is_harmless(text: str) -> bool:
    """Return whether a text may be written into a docstring."""
    return text.isascii() and text.isprintable() and not set(text) & set("\\\"'")


def _python_name(name: str, taken: set[str]) -> str:
    while keyword.iskeyword(name) or name in taken:
        name += "_"
    return name
