"""Reaching bindings: what a name holds at run time is always among those that may hold."""

from __future__ import annotations

import contextlib
import sys

import libcst as cst
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from libcst.metadata import MetadataWrapper, PositionProvider

from embercoach.analysis.dataflow.reaching import Reaching
from embercoach.analysis.syntax.trees import statements_below

NAMES = ("a", "b")
#: Every binding gives its name the number of its line; ``probe`` tells what a name holds.
SIMPLE = st.one_of(
    st.sampled_from([f"{name} = LINE" for name in NAMES]),
    st.sampled_from(["probe(a)", "probe(b)"]),
    st.sampled_from(
        [
            "a, b = LINE, LINE",
            "[a, (b, *_)] = LINE, (LINE, 0)",
            "a: int = LINE",
            "if (b := LINE) and decide(): pass",
            "pass",
        ]
    ),
    st.sampled_from(["if decide(): break", "if decide(): continue", "if decide(): raise Stop"]),
    st.sampled_from(["break", "continue", "return", "raise Stop", "del a"]),
)


def blocks(depth: int) -> st.SearchStrategy[list[str]]:
    """Statements as lines, those of bodies indented."""
    if depth == 0:
        return SIMPLE.map(lambda line: [line])
    inner = st.lists(blocks(depth - 1), min_size=2, max_size=4).map(
        lambda found: [f"    {line}" for lines in found for line in lines]
    )
    heads = st.sampled_from(
        [
            ("if decide():",),
            ("if decide():", "else:"),
            ("if decide():", "elif decide():", "else:"),
            ("while decide():",),
            ("while True:", "else:"),
            ("for a in times(LINE):",),
            ("for a, b in twice(LINE):", "else:"),
            ("try:", "except Stop:"),
            ("try:", "except Stop as b:", "else:"),
            ("try:", "finally:"),
            ("try:", "except Stop:", "finally:"),
            ("with suppress(Stop):",),
            ("with manager(LINE) as a:",),
            ("match decide():", "    case True:", "    case b:"),
        ]
    )

    def filled(head: tuple[str, ...], bodies: list[list[str]]) -> list[str]:
        lines = []
        for part, body in zip(head, bodies, strict=False):
            shift = "    " if part[0] == " " else ""
            # What is decided comes to an end, and so does the loop.
            first = ["    decide()"] if part == "while True:" else []
            given = [] if part.startswith("match") else [*first, *body]
            lines += [part, *(shift + line for line in given)]
        return lines

    compound = st.builds(filled, heads, st.lists(inner, min_size=3, max_size=3))
    return st.one_of(blocks(0), compound, compound)


#: All of it stands in a loop, so that every ``break`` has one.
PROGRAMS = st.lists(blocks(3), min_size=4, max_size=8).map(
    lambda found: [
        "while True:",
        "    decide()",
        *(f"    {line}" for lines in found for line in lines),
    ]
)


#: More bindings of ``a`` may hold at the probe than are kept.
SIX_BINDINGS = """\
while True:
    decide()
    a = LINE
    match decide():
        case True:
            a = LINE
        case b:
            a = LINE
            if (b := LINE) and decide():
                a = LINE
            elif decide():
                a = LINE
            else:
                match decide():
                    case True:
                        a = LINE
                    case b:
                        a = LINE
    probe(a)
    continue
""".splitlines()


class Stop(Exception):  # noqa: N818
    """What the programs raise."""


class Spent(BaseException):
    """A program has run long enough."""


def numbered(lines: list[str]) -> str:
    """A function of two parameters, which are numbers of its first line."""
    body = [f"    {line}" for line in [*lines, "probe(a)", "probe(b)"]]
    text = [line.replace("LINE", str(number)) for number, line in enumerate(body, 2)]
    return "\n".join(["def program(a, b):", *text]) + "\n"


def bindings_at_probes(source: str) -> dict[tuple[int, str], set[int]]:
    """The lines of the bindings that may hold at each probe, by line and name."""
    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    positions = wrapper.resolve(PositionProvider)
    function = wrapper.module.body[0]
    assert isinstance(function, cst.FunctionDef)
    reaching = Reaching(function, has_walrus=":=" in source)
    found = {}
    for node in statements_below(function.body):
        if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call) and node.value.args:
            (argument,) = node.value.args
            assert isinstance(argument.value, cst.Name)
            name = argument.value.value
            bindings = reaching.before(node, name)
            if bindings is not None:
                lines = {positions[b.node].start.line for b in bindings}
                found[positions[node].start.line, name] = lines
    return found


@settings(max_examples=settings().max_examples // 7)
@given(lines=PROGRAMS, decisions=st.lists(st.booleans(), min_size=20, max_size=60))
@example(lines=SIX_BINDINGS, decisions=[False] * 20)
def test_what_a_name_holds_is_among_the_bindings_that_may(
    lines: list[str], decisions: list[bool]
) -> None:
    source = numbered(lines)
    code = compile(source, "<program>", "exec")
    known = bindings_at_probes(source)
    left = iter(decisions)

    def decide() -> bool:
        try:
            return next(left)
        except StopIteration:
            raise Spent from None

    def probe(value: object) -> None:
        line = sys._getframe(1).f_lineno
        names = [name for name in NAMES if (line, name) in known]
        if names and isinstance(value, int) and not isinstance(value, bool):
            assert any(value in known[line, name] for name in names), (source, line, value, known)

    @contextlib.contextmanager
    def manager(value: int):  # type: ignore[no-untyped-def]
        yield value

    scope: dict[str, object] = {
        "decide": decide,
        "probe": probe,
        "times": lambda line: [line] * (1 + decide()),
        "twice": lambda line: [(line, line)] * (1 + decide()),
        "suppress": contextlib.suppress,
        "manager": manager,
        "Stop": Stop,
    }
    exec(code, scope)
    program = scope["program"]
    assert callable(program)
    with contextlib.suppress(Spent, Stop, UnboundLocalError):
        program(1, 1)


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("try:\n    a = 1\nfinally:\n    probe(a)", {1, 3}),
        ("del a\nprobe(a)", set()),
        ("import a.b\nprobe(a)", {2}),
    ],
)
def test_the_bindings_that_may_hold(body: str, lines: set[int]) -> None:
    text = body.replace("\n", "\n    ")
    found = bindings_at_probes(f"def program(a, b):\n    {text}\n")
    assert [*found.values()] == [lines]
