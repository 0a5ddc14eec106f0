"""KERNEL-SIG and KERNEL-BUFFER: what a kernel's ``source`` may hold, and which names it has."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from embercoach.analysis.values.lattice import Dict, Str, StringLiteral
from embercoach.analysis.values.strings import Folded
from embercoach.checks.programs.kernels import KernelBody, PythonKernel
from embercoach.checks.programs.launches import has_spread
from embercoach.checks.programs.metal_checks import MetalFix, MetalReport
from embercoach.checks.registry import Report, check
from embercoach.metal import contract
from embercoach.metal.contract import ATTRIBUTES, MAX_BUFFERS
from embercoach.metal.cuda_names import CALLS, NAMES, RENAMED, VARIABLES, cuda_help
from embercoach.metal.library import FUNCTIONS, OTHER_SCALARS, is_standard_header, scalar_help
from embercoach.metal.preprocessor import directives
from embercoach.metal.program.written_facts import MetalText, undeclared
from embercoach.metal.source import TextPiece
from embercoach.metal.text_facts import PreprocessorLine, TextSpan, Use, WrittenFunction
from embercoach.metal.tokens import Token, line_comment, tokens, tokens_of, whole_number

#: Characters of code that a message shows.
_SHOWN = 40
_CONDITIONS = frozenset({"if", "ifdef", "ifndef"})


class _Breaks:
    """The escapes that end a comment or a string of a text, if the rest can't be meant as code."""

    def __init__(self, source: Folded, facts: MetalText) -> None:
        self._text = source.text
        self._literals = source.literals
        self._facts = facts
        self._faults = [place.start for place in facts.doubtful]
        self._tokens = list(tokens_of(facts.text))

    def found(self) -> Iterator[MetalReport]:
        if all(piece.exact for piece in self._text.pieces):
            return  # no character of it stems from an escape
        line: list[Token] = []
        depth = reported = 0
        for token in self._tokens:
            if token.kind != "newline":
                line.append(token)
                continue
            depth += _nesting(line)
            # Text under a condition may never be compiled.
            is_checked = depth == 0 and token.start >= reported
            found = self._broken(line, token.start) if is_checked else None
            if found is not None:
                reported, escape, what = found
                yield MetalReport(
                    "KERNEL-SIG-010",
                    self._facts.at(TextSpan(token.start, token.start + 1, 1, 1)),
                    what,
                    f'Use a raw string (`r"..."`), or double the backslash: `\\{escape}`',
                )
            line = []

    def _broken(self, line: list[Token], at: int) -> tuple[int, str, str] | None:
        """The fault of the line break after a line: where the next one ends, escape and message."""
        escape = self._escape(at)
        if escape is None:
            return None
        if line and line_comment(line[-1]) is not None:
            end = self._end(at + 1)
            rest = self._text.text[at + 1 : end].strip()
            plain = rest and not rest.startswith(("//", "/*"))
            if plain and self._is_known(at, end) and self._is_refused(at + 1, end):
                shown = " ".join(rest.split())
                shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."
                return end, escape, f"`{escape}` ends the `//` comment: `{shown}` becomes code"
            return None
        quote = next((token.start for token in line if _is_quote(token)), None)
        if quote is None:
            return None
        end = self._next(at + 1)
        if '"' in self._text.text[at + 1 : end] and self._is_known(quote, end):
            return end, escape, f"`{escape}` breaks a string of the kernel over two lines"
        return None

    def _escape(self, at: int) -> str | None:
        """Return the escape that a line break is written as, None for other line breaks."""
        start, end = self._text.position(at), self._text.end_position(at + 1)
        source = None if start is None else self._source_of(start[0])
        if start is None or end is None or source is None or source[start[1]] != "\\":
            return None
        return source[start[1] : end[1]]

    def _source_of(self, number: int) -> str | None:
        """The source of the literal that the text numbers so, None for text of no literal."""
        literal = self._literals[number]
        return literal.node.value if isinstance(literal, StringLiteral) else None

    def _is_known(self, start: int, end: int) -> bool:
        """Return whether a stretch of the text is in one literal."""
        first = self._text.position(start)
        return first is not None and all(
            (place := self._text.position(i)) is not None and place[0] == first[0]
            for i in range(start, end)
        )

    def _next(self, start: int) -> int:
        """Return the end of a line of the text."""
        end = self._text.text.find("\n", start)
        return len(self._text.text) if end < 0 else end

    def _end(self, start: int) -> int:
        """Return the end of a line: of the literal, if that has several, else of the text."""
        end = self._next(start)
        while self._has_lines(start) and end < len(self._text.text) and self._escape(end):
            end = self._next(end + 1)
        return end

    def _has_lines(self, at: int) -> bool:
        """Return whether the literal has line breaks that are not escapes."""
        place = self._text.position(at)
        source = None if place is None else self._source_of(place[0])
        return source is not None and ("\n" in source or "\r" in source)

    def _is_refused(self, start: int, end: int) -> bool:
        """Return whether a stretch can't be code: it has half a string, or a syntax error.

        In a literal of one line escapes are how lines are written, so only the string counts there.
        """
        if any(_is_quote(t) and start <= t.start < end for t in self._tokens):
            return True
        return self._has_lines(start) and any(start <= fault <= end for fault in self._faults)


def _is_quote(token: Token) -> bool:
    """Return whether it opens a string that the line does not close."""
    if token.kind != "string" or not token.text.startswith('"'):
        return False
    inside = token.text[1:].removesuffix('"')
    is_escaped = (len(inside) - len(inside.rstrip("\\"))) % 2 == 1
    return is_escaped or not token.text[1:].endswith('"')


def _nesting(line: list[Token]) -> int:
    """Return the change in depth of conditions that a directive brings."""
    words = [token.text for token in line if token.kind != "space"]
    if len(words) < 2 or words[0] != "#":
        return 0
    return 1 if words[1] in _CONDITIONS else -1 if words[1] == "endif" else 0


@check("KERNEL-SIG-010")
def kernel_escapes(kernel: PythonKernel) -> Iterator[MetalReport]:
    """Yield the body and the header of a kernel."""
    for source, text in ((kernel.source, kernel.text), (kernel.header_source, kernel.header)):
        if source is not None:
            yield from _Breaks(source, text).found()


#: The specification's words, section 1.6.3: no NaNs, no INFs.
FAST = "fast"
CONSTANTS = frozenset({"INFINITY", "NAN", "HUGE_VALF", "HUGE_VALH", "HUGE_VAL"})
TESTS = frozenset({"isnan", "isinf", "isfinite", "isnormal", "isordered", "isunordered"})


@check("KERNEL-MATH-001")
def math_modes(kernel: KernelBody) -> Iterator[MetalReport]:
    """``compile_options={"math_mode": "fast"}`` with infinities in the kernel."""
    options = kernel.fact.keyword("compile_options")
    given = options.value if options is not None else None
    mode = given.get("math_mode") if isinstance(given, Dict) else None
    if not isinstance(mode, Str) or mode.text != FAST:
        return
    for text in kernel.texts:
        for what, place in _uses(text):
            yield MetalReport(
                "KERNEL-MATH-001",
                text.at(place),
                f"`{what}` with math mode `fast`, which assumes no infinities or NaNs",
                "Drop `math_mode` (default: `safe`), or use `relaxed`, which honors infinities",
            )
            return


def _uses(text: MetalText) -> Iterator[tuple[str, TextSpan]]:
    """Infinities and NaNs, and tests for them, in the order of the text."""
    found = [(u.name, u.place) for u in text.free if u.name in CONSTANTS]
    for call in text.calls:
        name = call.name.rpartition("::")[2]
        if name in TESTS or name in ("infinity", "quiet_NaN"):
            found.append((name, call.place))
    yield from sorted(found, key=lambda pair: pair[1].start)


#: Attributes of parameters, besides those of threads.
PARAMETER_ATTRIBUTES = ATTRIBUTES.keys() | frozenset(
    ("buffer", "texture", "sampler", "threadgroup", "stage_in", "function_constant", "payload")
)


@check(
    "KERNEL-SIG-001",
    "KERNEL-SIG-002",
    "KERNEL-SIG-003",
    "KERNEL-SIG-004",
    "KERNEL-SIG-005",
    "KERNEL-BUFFER-001",
)
def kernel_sources(kernel: PythonKernel) -> Iterator[Report | MetalReport]:
    """Yield the problems of a kernel's source; of a whole function only that it is one."""
    text = kernel.text
    for directive in text.directives:
        yield from _directive(text, directive)
    function = _function(text)
    if function is not None:
        yield _function_report(text, function)
        return
    for mark in text.marks:
        if mark.name in PARAMETER_ATTRIBUTES:
            yield MetalReport(
                "KERNEL-SIG-002",
                text.at(mark.place),
                f"parameter attribute `[[{mark.name}]]` in a kernel body",
                f"Write the name alone where you need the value: `{mark.name}`"
                if mark.name in ATTRIBUTES
                else "Use the names of `input_names` and `output_names`; MLX numbers them",
            )
    if kernel.inputs is not None and kernel.outputs is not None:
        yield from _undeclared(kernel, kernel.inputs, kernel.outputs)
        yield from _too_many_buffers(kernel, kernel.inputs, kernel.outputs)


def _directive(text: MetalText, directive: PreprocessorLine) -> Iterator[MetalReport]:
    code = "KERNEL-SIG-003"
    what = f"`#include {directive.target}` in a kernel body has no effect"
    advice = "Drop the line, or move it into `header`"
    if directive.kind == "using namespace":
        code, what = "KERNEL-SIG-004", f"`using namespace {directive.target}` in a kernel body"
    elif directive.kind != "include":
        return
    elif not is_standard_header(directive.target):
        what = f"`#include {directive.target}` in a kernel body: pasted into a function"
        advice = "Move it into `header`, or paste its declarations there"
    yield MetalReport(code, text.at(directive.place), what, advice)


def _function(text: MetalText) -> WrittenFunction | None:
    """Return a function that the body defines: the kernel itself, or else the first helper."""
    written = [f for f in text.functions if f.body and not f.member]
    entry = next((f for f in written if f.entry is not None), None)
    return entry if entry is not None or not text.parse_ok else next(iter(written), None)


def _function_report(text: MetalText, function: WrittenFunction) -> MetalReport:
    if function.entry is not None:
        what = f"`source` holds the {function.entry} function `{function.name}`, must be a body"
        advice = (
            "Pass only its statements; `embercoach port FILE.metal` turns a file into such a kernel"
        )
    else:
        what = f"`source` defines the function `{function.name}` inside a function"
        advice = "Move helper functions into `header`"
    return MetalReport("KERNEL-SIG-001", text.at(function.place), what, advice)


def _undeclared(
    kernel: PythonKernel, inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> Iterator[MetalReport]:
    text = kernel.text
    if not all(t is not None and _has_all_names(t) for t in (kernel.source, kernel.header_source)):
        return
    templates = [launch.template for launch in kernel.launches]
    are_known = bool(templates) and None not in templates
    template = {name for pairs in templates for name in pairs or ()} if are_known else None
    made = contract.KernelArguments(
        name="",
        inputs=tuple(contract.Input(n, ndim=0 if _is_scalar(kernel, n) else None) for n in inputs),
        outputs=tuple(map(contract.Output, outputs)),
        source=text.text,
        template=None if template is None else tuple(map(contract.TemplateArgument, template)),
    )
    scope = contract.signature(made).names
    # One of several texts that the same call builds may never be built.
    elsewhere = {declared.name for other in kernel.siblings for declared in other.text.declarations}
    uses: dict[str, list[Use]] = {}
    for use in undeclared(text, scope):
        # What is never indexed or assigned may be a template argument that is not seen here.
        known = template is not None or use.variable or use.name in OTHER_SCALARS.keys() | NAMES
        if use.name not in elsewhere and known:
            uses.setdefault(use.name, []).append(use)
    for name, found in uses.items():
        first, other = found[0], _renamed(found[0], inputs, outputs)
        again = f" ({len(found)} times)" if len(found) > 1 else ""
        fix = None if other is None else _replacement(text, found, other)
        yield MetalReport(
            "KERNEL-SIG-005",
            text.at(first.place),
            f"undeclared identifier `{name}` in kernel body{again}{_why(first, inputs, outputs)}",
            _way_out(first, inputs, outputs, scope),
            fix=fix,
        )


def _replacement(text: MetalText, uses: list[Use], other: str) -> MetalFix | None:
    """Return the fix that writes another name or call; None for a call with arguments."""
    old = uses[0].name + ("()" if other.endswith(")") else "")
    places = [use.place._replace(end=use.place.start + len(old)) for use in uses]
    if not all(text.text.startswith(old, place.start) for place in places):
        return None
    return MetalFix(f"Use `{other}`", tuple((text.at(place), old, other) for place in places))


#: Conditions of the preprocessor, and what they are where a name is not a macro.
_TESTS = {"ifdef": "false", "ifndef": "true", "if": "", "elif": ""}


@check("KERNEL-SIG-011")
def preprocessor_names(kernel: PythonKernel) -> Iterator[MetalReport]:
    """Yield names of MLX's signature under ``#if``, which reads macros alone."""
    sources = (kernel.source, kernel.header_source)
    if not all(t is not None and _has_all_names(t) for t in sources):
        return
    if not (kernel.text.names_known and kernel.header.names_known):
        return
    roles = {name: "template argument" for la in kernel.launches for name in la.template or ()}
    for name in kernel.inputs or ():
        roles |= dict.fromkeys((name, *contract.shape_names(name)), "input")
    roles |= dict.fromkeys(kernel.outputs or (), "output")
    macros = kernel.text.macros.mentioned
    reported: set[str] = set()
    for text in kernel.texts:
        for name, test, place in _tested(text):
            if name in roles and name not in macros and name not in reported:
                reported.add(name)
                yield MetalReport(
                    "KERNEL-SIG-011",
                    text.at(place),
                    f"{test}: {roles[name]} `{name}` is not a macro",
                    "Use `if (...)`, which the compiler decides too, or `#define` it in `header`",
                )


def _tested(text: MetalText) -> Iterator[tuple[str, str, TextSpan]]:
    """Yield the names that conditions of the preprocessor test, with the result of the test."""
    if "#" not in text.text:
        return
    for directive in directives(tokens(text.text)):
        if directive.name not in _TESTS:
            continue
        is_defined = False
        for word in directive.words:
            if word.kind == "name" and word.text != "defined":
                always = _TESTS[directive.name] or ("false" if is_defined else "")
                test = (
                    f"`#{directive.name}` is always {always}"
                    if always
                    else (f"`#{directive.name}` reads 0")
                )
                yield word.text, test, TextSpan(word.start, word.end, 1, 1)
            is_defined = word.text == "defined" or (is_defined and word.text == "(")


def _is_scalar(kernel: PythonKernel, name: str) -> bool:
    """Return whether every launch passes a number for an input."""
    given = kernel.given(name)
    return bool(given) and all(one.ndim == 0 for one in given)


def _has_all_names(text: Folded) -> bool:
    """Return whether only numbers of a text are unknown, and none is part of a name."""
    if text.holes <= {"number"}:
        holes = (p for p in text.text.pieces if _is_hole(text, p))
        return not any(_is_glued(text.text.text, p.start, p.end) for p in holes)
    return False


def _is_hole(text: Folded, piece: TextPiece) -> bool:
    return piece.origin is not None and isinstance(text.literals[piece.origin], str)


def _is_glued(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start], text[end:].lstrip("uUlLfFhH")[:1]
    return any(c == "_" or c.isalnum() for c in before + after)


_SIZES = frozenset({"size", "length", "len", "numel", "count", "stride", "dim", "dims", "dtype"})
#: What signatures of CUDA, and of MLX's own kernels, call the attributes of threads.
_OTHER_NAMES = {
    **VARIABLES,
    "simd_lane_id": "thread_index_in_simdgroup",
    "simd_lid": "thread_index_in_simdgroup",
    "simd_group_id": "simdgroup_index_in_threadgroup",
    "simd_gid": "simdgroup_index_in_threadgroup",
    "thread_position_in_simdgroup": "thread_index_in_simdgroup",
}


def _why(use: Use, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> str:
    """Return why a name is undeclared, to follow the message; "" if unknown."""
    owner, _, kind = use.name.rpartition("_")
    if owner in outputs and kind in ("shape", "strides", "ndim"):
        return f": outputs have no {kind}"
    if owner in inputs and kind in ("shape", "strides", "ndim"):
        return f": scalar `{owner}` has no {kind}"
    if owner in (*inputs, *outputs) and kind in _SIZES:
        return f": MLX passes no {kind}"
    if use.elsewhere is not None:
        return ": declared in another scope or later"
    return ""


def _way_out(
    use: Use, inputs: tuple[str, ...], outputs: tuple[str, ...], scope: frozenset[str]
) -> str:
    """Return the help for an undeclared name."""
    if help_text := scalar_help(use.name):
        return help_text
    owner, _, kind = use.name.rpartition("_")
    if owner in outputs and kind in ("shape", "strides", "ndim"):
        return "Pass the sizes as an input or as template arguments"
    if owner in inputs and kind in _SIZES:
        return f"Compute it from `{owner}_shape`, or pass it as an input"
    if use.elsewhere is not None:
        return "Declare it where every use can see it"
    numbered = _numbered(use.name, inputs, outputs)
    if numbered is not None:
        return f"Use the declared name: `{numbered}`"
    if use.name in _OTHER_NAMES:
        return f"Use `{_OTHER_NAMES[use.name]}`"
    if help_text := cuda_help(use.name):
        return help_text
    is_called = use.kind == "call"
    known = FUNCTIONS if is_called else scope | ATTRIBUTES.keys()
    close = get_close_matches(use.name, known, 1, 0.8)
    if close:
        return f"Did you mean `{close[0]}`?"
    if is_called:
        return f"Define `{use.name}` in `header`, or use a function of Metal's library"
    return f'Declare it, or add "{use.name}" to `input_names` or to the template of the launch'


def _renamed(use: Use, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> str | None:
    """Return the declared name that an undeclared one certainly stands for."""
    if use.elsewhere is not None:
        return None
    numbered = _numbered(use.name, inputs, outputs)
    if numbered is not None and (numbered in outputs or not use.name.startswith("out")):
        return numbered
    return _OTHER_NAMES.get(use.name) or CALLS.get(use.name) or RENAMED.get(use.name)


def _numbered(name: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> str | None:
    """Return the parameter that ``inp0`` or ``out1`` refers to by its number."""
    for stem, names in (("inp", inputs), ("input", inputs), ("out", outputs), ("output", outputs)):
        for end in ("", "_shape", "_strides", "_ndim"):
            number = name.removeprefix(stem).removesuffix(end)
            position = whole_number(number) if number.isdecimal() else None
            if f"{stem}{number}{end}" == name and position is not None and position < len(names):
                return names[position] + end
    return None


def _too_many_buffers(
    kernel: PythonKernel, inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> Iterator[Report]:
    """More buffers than Metal's table has entries, whatever the ranks of the inputs are."""
    if not kernel.own or has_spread(kernel.fact):
        return
    used = {use.name for use in kernel.text.free}
    made = contract.KernelArguments(
        name="",
        # An input whose shape the body reads has a rank, or the body would not compile.
        inputs=tuple(
            contract.Input(n, ndim=None if used.isdisjoint(contract.shape_names(n)) else 1)
            for n in inputs
        ),
        outputs=tuple(map(contract.Output, outputs)),
        source=kernel.text.text,
    )
    fewest, _ = contract.signature(made).buffers
    if fewest > MAX_BUFFERS:
        yield Report.at(
            kernel.fact,
            "KERNEL-BUFFER-001",
            message=f"kernel needs {fewest} buffers, the limit is {MAX_BUFFERS}",
            help="Pass sizes as one array: each `x_shape`, `x_strides` and `x_ndim` takes a buffer",
        )
