"""A double of `torch.mps.compile_shader`: the text runs in the simulator, on tensors of the CPU.

It takes what PyTorch takes: tensors, of which it gets the memory from element 0 on, without shape
and strides; a float, which is float32; a list of integers, which are int64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from embercoach.simulator.build import objects
from embercoach.simulator.build.toolchain import find_toolchain
from embercoach.simulator.child_process import host
from embercoach.simulator.model import Buffer, BuiltKernel, Limits
from embercoach.simulator.reporting.messages import described

LIMITS = Limits()


class TextParts(NamedTuple):
    header: str
    name: str
    body: str


def parts_of(text: str) -> TextParts:
    """The text before the kernel, its name and its body."""
    before, _, rest = text.partition("[[kernel]] void ")
    lines = before.splitlines(keepends=True)
    if lines[-1].startswith("template <"):
        lines = lines[:-1]
    name, _, _ = rest.partition("(")
    body = rest.partition(") {\n")[2].partition("\n}\n\ntemplate [[host_name")[0]
    return TextParts("".join(lines), name, body.removesuffix("\n}\n"))


def built(text: str, *, checks: bool = True) -> BuiltKernel:
    """Compile a text for this machine's CPU."""
    header, name, body = parts_of(text)
    return objects.build(
        *(text, name, body, header), checks=checks, toolchain=find_toolchain(), seconds=60
    )


class Shaders:
    """Compiles texts, and remembers what it found in launches."""

    def __init__(self) -> None:
        self.findings: list[str] = []
        self.launched: list[str] = []

    def compile_shader(self, text: str) -> Library:
        return Library(self, text)


class Library:
    """What `compile_shader` returns: a function for each kernel of the text."""

    def __init__(self, shaders: Shaders, text: str) -> None:
        self._shaders = shaders
        self._built = built(text)

    def __getattr__(self, name: str) -> Any:
        if name != self._built.name:
            raise AttributeError(name)
        return self._call

    def _call(self, *arguments: Any, threads: list[int], group_size: list[int]) -> None:
        kernel = self._built
        assert len(threads) == len(group_size) == 3
        buffers = [p for p in kernel.parameters if p.index is not None]
        assert [p.index for p in buffers] == list(range(len(arguments)))
        bound = [_buffer(p, argument) for p, argument in zip(buffers, arguments, strict=True)]
        result = host(None).run(kernel, bound, tuple(threads), tuple(group_size), limits=LIMITS)
        found = [described(raw, kernel, bound, None) for raw in result.findings]
        self._shaders.findings += [f"{f.kernel}: {f.kind}: {f.message}" for f in found]
        self._shaders.launched.append(kernel.name)
        written = [a for p, a in zip(buffers, arguments, strict=True) if not p.is_const]
        for tensor, data in zip(written, result.outputs, strict=True):
            _memory(tensor)[:] = data


def _buffer(parameter: Any, argument: Any) -> Buffer:
    name, index = parameter.name, parameter.index
    if isinstance(argument, float):
        assert parameter.declarator == "&"
        assert parameter.type == "float"
        return Buffer(name, index, "input", _bytes(argument, np.float32), 4)
    if isinstance(argument, list):
        assert all(type(number) is int for number in argument)
        return Buffer(name, index, "info", _bytes(argument, np.int64), 8)
    role = "input" if parameter.is_const else "output"
    return Buffer(name, index, role, _memory(argument), argument.element_size(), role == "input")


def _bytes(numbers: Any, dtype: type) -> np.ndarray:
    return np.atleast_1d(np.array(numbers, dtype)).view(np.uint8)


def _memory(tensor: Any) -> np.ndarray:
    """The bytes from a tensor's element 0 to its last one in memory, not copied."""
    import torch

    if not tensor.numel():
        return np.empty(0, np.uint8)
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    size = 1 + sum((extent - 1) * stride for extent, stride in pairs)
    return tensor.detach().as_strided((size,), (1,)).view(torch.uint8).numpy()
