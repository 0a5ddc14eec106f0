"""The function that CUDA launches: it calls the one that MLX generated for Metal."""

from __future__ import annotations

import hashlib
import math

from msgspec import Struct

from embercoach.installation import install_command
from embercoach.simulator.model import SimulatorError
from embercoach.simulator.rewrite.translation import Layout, attribute_argument, buffer_argument

#: The command that installs all that kernels on CUDA need.
INSTALL = install_command("cuda")

Extent = tuple[int, int, int]

#: Threadgroups along y and z, and threads of one along z, that CUDA takes at most.
_MOST_BLOCKS, _DEEPEST = 65_535, 64
#: Of any kernel a block of so many threads finds enough registers: 255 a thread at most, 65,536 in
#: all. A kernel that is launched with more is compiled for so many.
ALWAYS_FIT = 256
_STEP, _SIMDGROUP = 128, 32
#: Characters of a kernel's name in that of the function, which is part of file names.
_LONGEST_NAME = 64


class CudaError(RuntimeError):
    """A kernel can't be run on this GPU; the message says why and what helps."""


class Info(Struct, frozen=True):
    """Facts of an input besides its elements, which the body may ask for.

    Attributes:
        ndim: its dimensions.
        asked: whether the body names the shape, the strides and the number of dimensions.
    """

    ndim: int
    asked: tuple[bool, bool, bool]


class EntryForm(Struct, frozen=True):
    """Everything that the launched function depends on, besides the source that MLX generates.

    Attributes:
        infos: one for each input.
        threads: the most threads of a threadgroup that it is compiled for.
        whole: whether the grid has whole threadgroups alone.
        flat: whether blocks and threads are in one dimension.
        resident: threadgroups that a multiprocessor should hold at once.
    """

    infos: tuple[Info, ...]
    threads: int
    whole: bool
    flat: bool
    resident: int = 1

    @property
    def measured(self) -> bool:
        """True if a buffer has the grid and the threadgroup, since the launch has others."""
        return self.flat or not self.whole

    @property
    def bounds(self) -> str:
        """The directives of PTX that bound its registers, "" where any number fits."""
        if self.threads <= ALWAYS_FIT and self.resident == 1:
            return ""
        threads = max(ALWAYS_FIT, _rounded(self.threads, _STEP))
        # Without the second the assembler leaves registers for as many threads as fit.
        return f".maxntid {threads}\n.minnctapersm {self.resident}\n"


def _rounded(count: int, step: int) -> int:
    return -(-count // step) * step


def clamped(grid: Extent, threadgroup: Extent) -> Extent:
    """Return the threadgroup that is launched: no larger than the grid."""
    x, y, z = map(min, grid, threadgroup)
    return x, y, z


def form_of(infos: tuple[Info, ...], grid: Extent, group: Extent, resident: int = 1) -> EntryForm:
    """Return the form of the function for a launch; threadgroups of many sizes share one.

    Args:
        infos: one for each input.
        grid: threads along each axis.
        group: threads of a threadgroup, from ``clamped``.
        resident: threadgroups that a multiprocessor should hold at once.
    """
    threads = math.prod(group)
    blocks = [-(-extent // size) for extent, size in zip(grid, group, strict=True)]
    return EntryForm(
        infos=infos,
        threads=_rounded(threads, _SIMDGROUP),
        whole=all(extent % size == 0 for extent, size in zip(grid, group, strict=True)),
        flat=max(blocks[1:]) > _MOST_BLOCKS or group[2] > _DEEPEST,
        resident=resident,
    )


def entry_name(kernel: str, *parts: object) -> str:
    """Return the name of the launched function, of one text, form and compiler alone.

    Args:
        kernel: the name that the user gave.
        parts: all that the code depends on.
    """
    digest = hashlib.sha256(repr(parts).encode(errors="surrogatepass")).hexdigest()
    return f"ember_{kernel[:_LONGEST_NAME]}_{digest[:16]}"


def write_entry(layout: Layout, name: str, form: EntryForm) -> str:
    """Return the C++ of the launched function.

    Its parameters are those that MLX gives a CUDA kernel: for each input a pointer, and what the
    body asks to know of it; a buffer of grid and threadgroup where that is needed; the outputs.

    Args:
        layout: of the generated source.
        name: of the function.
        form: its form.

    Raises:
        SimulatorError: the source is not what MLX generates for such inputs.
    """
    rest = iter([p for p in layout.parameters if p.index is not None])
    pointers: dict[str, str] = {}
    parameters, locals_, inputs = [], [], []
    for info in form.infos:
        array = next(rest).name
        pointers[array] = own = f"ember_{array}"
        parameters.append(f"const device void* __restrict {own}")
        inputs.append(own)
        for asked, what in zip(info.asked, ("shape", "strides", "ndim"), strict=True):
            if not asked or info.ndim == 0:
                continue
            if next(rest).name != f"{array}_{what}":
                raise SimulatorError(f"the generated source has no parameter {array}_{what}")
            pointers[f"{array}_{what}"] = found = f"{own}_{what}"
            element = "long" if what == "strides" else "int"
            parameters.append(f"ember::{what} {found}_given")
            count = 1 if what == "ndim" else info.ndim
            values = ", ".join(f"{found}_given.at[{axis}]" for axis in range(count))
            locals_.append(f"const {element} {found}[] = {{{values}}};")
    if form.measured:
        parameters.append("const device uint* __restrict ember_geometry")
    for parameter in rest:
        pointers[parameter.name] = own = f"ember_{parameter.name}"
        parameters.append(f"device void* __restrict {own}")
    arguments = ", ".join(
        attribute_argument(p) if p.index is None else buffer_argument(p, pointers[p.name])
        for p in layout.parameters
    )
    # So a load is not moved over a barrier, where its value would take a register for long.
    escaped = "".join(f'asm volatile("" :: "l"({p}) : "memory"); ' for p in inputs)
    kind = f"{str(form.whole).lower()}, {str(form.flat).lower()}, {form.threads}"
    geometry = "ember_geometry" if form.measured else "nullptr"
    return (
        f'extern "C" EMBER_ENTRY void {name}({", ".join(parameters)}) {{ '
        "ember::thread_attributes ember_thread, *ember_self = &ember_thread; "
        f"if (!ember::find_thread<{kind}>({geometry}, ember_thread)) return; "
        f"{' '.join(locals_)} {escaped} {layout.function}({arguments}); }}\n"
    )


def bounded(ptx: str, name: str, form: EntryForm) -> str:
    """Return a module whose function has bounds on its registers, and no comments.

    Raises:
        SimulatorError: the compiler's text has another form than that of LLVM 22.
    """
    lines = [line.partition("//")[0].rstrip() for line in ptx.splitlines()]
    text = "\n".join(line for line in lines if line) + "\n"
    start = text.find(f".entry {name}(")
    body = text.find("\n{\n", start)
    if start < 0 or body < 0:
        raise SimulatorError(f"the compiler's PTX has no function {name}")
    return f"{text[: body + 1]}{form.bounds}{text[body + 1 :]}"
