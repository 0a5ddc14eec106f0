"""HOST-COPY and TORCH-KERNEL-004: PyTorch extensions that only launch kernels, or copy to do so."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from embercoach.checks.programs.metal_checks import MetalReport
from embercoach.checks.registry import check
from embercoach.metal.objective_c import ObjectiveC, embedded_units
from embercoach.metal.program.nodes import Spot
from embercoach.metal.program.texts import Parsed, SyntaxNode
from embercoach.terminal_text import quoted

TORCH = ("torch/", "ATen/", "c10/")
TENSORS = frozenset({"torch::Tensor", "at::Tensor"})
POINTERS = frozenset({"data_ptr", "mutable_data_ptr", "const_data_ptr"})
COPIES = frozenset({"memcpy", "std::memcpy", "memmove", "std::memmove"})
OWN_BUFFER = "Bind the tensor's own buffer: `__builtin_bit_cast(id<MTLBuffer>, t.storage().data())`"
OWN_OUTPUT = "Allocate the output on the GPU (`torch::empty_like`), and bind its own buffer"
#: Characters of a tensor's expression in a message.
MOST_QUOTED = 30
#: Variables followed from a pointer to its tensor.
STEPS = 3


@check("HOST-COPY-001", "HOST-COPY-002", "HOST-COPY-003")
def host_copies(file: ObjectiveC) -> Iterator[MetalReport]:
    """Yield the copies of a PyTorch extension; nothing in other files."""
    if uses_torch(file.parsed):
        yield from _Host(file).reports()


def uses_torch(parsed: Parsed) -> bool:
    """Test whether a file includes PyTorch, or uses its tensors through another header."""
    for part in parsed.of_kinds("preproc_include", "preproc_call"):
        words = parsed.word(part)
        if words.startswith(("#include", "#import")) and any(t in words for t in TORCH):
            return True
    return any(parsed.word(part) in TENSORS for part in parsed.of_kinds("qualified_identifier"))


class _Tensor(Struct, frozen=True):
    """A tensor whose address is taken; ``by_cpu`` if ``.cpu()`` made it."""

    name: str
    by_cpu: bool


class _Host:
    """The host code of one file."""

    def __init__(self, file: ObjectiveC) -> None:
        self.file = file
        self.parsed = file.parsed
        self.functions = list(self.parsed.of_kinds("function_definition"))
        self.scopes = list(self.parsed.of_kinds("function_definition", "lambda_expression"))
        self.values: dict[str, list[SyntaxNode]] = {}
        for part in self.parsed.of_kinds("init_declarator"):
            self.values.setdefault(self._declared(part), []).append(part)
        self.contents = {m.start for m in file.messages if m.selector == "contents"}

    def reports(self) -> Iterator[MetalReport]:
        """Yield the copies and synchronizations of the file."""
        yield from self._new_buffers()
        for call in self.parsed.of_kinds("call_expression"):
            yield from self._memory_copies(call)
            yield from self._blobs(call)
        yield from self._waits()

    def _new_buffers(self) -> Iterator[MetalReport]:
        for message in self.file.messages:
            if not message.selector.startswith("newBufferWithBytes:"):
                continue
            tensor = self._tensor(self.parsed.spanning(*message.arguments[0]))
            if tensor is not None:
                yield self._copied_in(tensor, "newBufferWithBytes", message.start, message.end)

    def _copied_in(self, tensor: _Tensor, copy: str, start: int, end: int) -> MetalReport:
        how = "once more after `.cpu()`" if tensor.by_cpu else "in every call"
        message = f"`{copy}` copies the tensor `{_shown(tensor)}` {how}"
        return self._report("HOST-COPY-001", start, end, message, OWN_BUFFER)

    def _memory_copies(self, call: SyntaxNode) -> Iterator[MetalReport]:
        arguments = self._arguments(call, COPIES)
        if len(arguments) != 3:
            return
        target, source = arguments[:2]
        if self._is_contents(source):
            tensor = self._tensor(target)
            if tensor is not None:
                message = f"`memcpy` copies the result to the host, into `{_shown(tensor)}`"
                start, end = call.start, call.end
                yield self._report("HOST-COPY-002", start, end, message, OWN_OUTPUT)
        elif self._is_contents(target):
            tensor = self._tensor(source)
            if tensor is not None:
                yield self._copied_in(tensor, "memcpy", call.start, call.end)

    def _blobs(self, call: SyntaxNode) -> Iterator[MetalReport]:
        """``torch::from_blob([buffer contents], ...)`` that is cloned or moved afterwards."""
        arguments = self._arguments(call, frozenset({"torch::from_blob", "at::from_blob"}))
        if not arguments or not self._is_contents(arguments[0]) or not self._is_cloned(call):
            return
        yield self._report(
            "HOST-COPY-002",
            call.start,
            call.end,
            "`from_blob` copies the result to the host, into a tensor on the CPU",
            OWN_OUTPUT,
        )

    def _is_cloned(self, call: SyntaxNode) -> bool:
        parent = self.parsed.parent(call)
        if parent is not None and parent.kind == "field_expression":
            return self._field(parent) in ("clone", "to")
        if parent is None or parent.kind != "init_declarator":
            return False
        name = self._declared(parent)
        function = self._enclosing(self.functions, call.start)
        for node in self.parsed.of_kinds("field_expression"):
            if self._field(node) not in ("clone", "to"):
                continue
            argument = node.get("argument")
            inside = self._enclosing(self.functions, node.start) is function
            if inside and argument is not None and self.parsed.word(argument) == name:
                return True
        return False

    def _waits(self) -> Iterator[MetalReport]:
        for message in self.file.messages:
            if message.selector != "waitUntilCompleted":
                continue
            scope = self._enclosing(self.scopes, message.start)
            if scope is None or not self._dispatches(scope) or self._reads_back(scope):
                continue
            yield self._report(
                "HOST-COPY-003",
                message.start,
                message.end,
                "`waitUntilCompleted` synchronizes with the GPU in every call",
                "Encode into `torch::mps::get_command_buffer()`, end with `torch::mps::commit()`",
            )

    def _dispatches(self, scope: SyntaxNode) -> bool:
        return any(
            message.selector.startswith(("dispatchThreads:", "dispatchThreadgroups:"))
            and scope.start <= message.start < scope.end
            for message in self.file.messages
        )

    def _reads_back(self, scope: SyntaxNode) -> bool:
        """Test whether the host reads a buffer in the same function: then it must synchronize."""
        if any(scope.start <= start < scope.end for start in self.contents):
            return True
        return any(
            node.kind == "field_expression" and self._field(node) == "contents"
            for node in scope.below()
        )

    def _tensor(self, node: SyntaxNode) -> _Tensor | None:
        """Return the tensor whose address is taken, directly or through variables."""
        for inner in self._with_values(node):
            field = inner.get("function") if inner.kind == "call_expression" else None
            if field is None or field.kind != "field_expression":
                continue
            owner = field.get("argument")
            if self._field(field) in POINTERS and owner is not None:
                name = " ".join(self.parsed.word(owner).split())
                return _Tensor(name, self._is_by_cpu(owner))
        return None

    def _is_by_cpu(self, node: SyntaxNode) -> bool:
        return any(
            (inner.kind == "field_expression" and self._field(inner) == "cpu")
            or (inner.kind == "qualified_identifier" and self.parsed.word(inner).endswith("kCPU"))
            for inner in self._with_values(node)
        )

    def _is_contents(self, node: SyntaxNode) -> bool:
        return any(
            inner.start in self.contents
            or (inner.kind == "field_expression" and self._field(inner) == "contents")
            for inner in self._with_values(node)
        )

    def _with_values(self, node: SyntaxNode) -> Iterator[SyntaxNode]:
        """Yield the parts of an expression; of a variable also those of its value, and so on."""
        following: SyntaxNode | None = node
        for _ in range(1 + STEPS):
            if following is not None:
                yield from following.below()
                following = self._value(following)

    def _value(self, node: SyntaxNode) -> SyntaxNode | None:
        """Return the value of a variable's last declaration before its use in the same function."""
        while node.kind in ("cast_expression", "parenthesized_expression"):
            inner = node.get("value") or next(iter(node.inner), None)
            if inner is None:
                return None
            node = inner
        if node.kind != "identifier":
            return None
        function = self._enclosing(self.functions, node.start)
        for declarator in reversed(self.values.get(self.parsed.word(node), [])):
            start = declarator.start
            if start < node.start and self._enclosing(self.functions, start) is function:
                return declarator.get("value")
        return None

    def _declared(self, declarator: SyntaxNode) -> str:
        name = declarator.get("declarator")
        return "" if name is None else self.parsed.word(name).lstrip("*& ")

    def _arguments(self, call: SyntaxNode, names: frozenset[str]) -> list[SyntaxNode]:
        callee = call.get("function")
        arguments = call.get("arguments")
        if callee is None or arguments is None or self.parsed.word(callee) not in names:
            return []
        return arguments.inner

    def _field(self, node: SyntaxNode) -> str:
        field = node.get("field")
        if field is not None and field.kind == "template_method":
            field = field.get("name")
        return "" if field is None else self.parsed.word(field)

    def _enclosing(self, nodes: list[SyntaxNode], byte: int) -> SyntaxNode | None:
        """Return the innermost of the nodes that contain a byte."""
        around = [node for node in nodes if node.start <= byte < node.end]
        return around[-1] if around else None

    def _report(self, code: str, start: int, end: int, what: str, advice: str) -> MetalReport:
        return MetalReport(code, Spot("file", self.parsed.stretch(start, end)), what, advice)


def _shown(tensor: _Tensor) -> str:
    return quoted(tensor.name, MOST_QUOTED)


#: Prefixes of classes whose operations a shader does not replace.
_OTHER_WORK = ("MPSGraph", "MPSMatrix", "MPSNDArray", "MPSCNN", "MPSImage", "MTLBlit", "MTLTexture")


@check("TORCH-KERNEL-004")
def only_launches(file: ObjectiveC) -> Iterator[MetalReport]:
    """``[device newLibraryWithSource:...]`` of text in the file, and launches of its kernels."""
    compiled = [m for m in file.messages if m.selector.startswith("newLibraryWithSource:")]
    launches = [m for m in file.messages if m.selector.startswith("dispatchThread")]
    if len(compiled) != 1 or not launches or not uses_torch(file.parsed):
        return
    names = (file.parsed.word(p) for p in file.parsed.tree.below() if p.kind.endswith("identifier"))
    if any(name.startswith(_OTHER_WORK) for name in names):
        return
    if any(True for _ in embedded_units(file)):
        message = compiled[0]
        yield MetalReport(
            "TORCH-KERNEL-004",
            Spot("file", file.parsed.stretch(message.start, message.end)),
            "this extension only launches kernels, which PyTorch can do without C++",
            "Pass the source to `torch.mps.compile_shader` in Python, and launch its kernels there",
        )
