"""Known strings: their text, and the way back to the literals that they were made of."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from embercoach.analysis.project.driver import analyse_module
from embercoach.analysis.project.project import Project
from embercoach.analysis.values import strings
from embercoach.analysis.values.lattice import Str, Value
from embercoach.checks.programs.kernels import definitions


def value_of(program: str, name: str = "S") -> Value:
    module = Project().open(Path("program.py"), dedent(program))
    module.run()
    return module.frame.names[name]


KNOWN = {
    "escapes": r'S = "a\tb\x41\N{BULLET}\\"',
    "implicit": 'S = "a" "b"',
    "f-string": 'N = 4\nS = f"n = {N}; {{}}\\n"',
    "raw f-string": 'N = 4\nS = rf"\\d{N}{{"',
    "format specification": 'N = 4\nS = f"{N:03d}"',
    "dedent": 'import textwrap\nS = textwrap.dedent("""\n    a\n      b\n""")',
    "dedent of an f-string": 'from textwrap import dedent\nN = 4\nS = dedent(f"""\n  a{N}\n  b""")',
    "strip": 'S = "  a  ".strip()',
    "strip characters": 'S = "--a".lstrip("-")',
    "replace": 'T = "new"\nS = "an OLD, OLD word".replace("OLD", T)',
    "format": 'S = "{} {name} {{}}".format("a", name=3)',
    "repeated": 'S = 2 * "ab" + "c" * 3',
    "percent": 'S = "%s: %03d %%" % ("a", 7)',
    "percent of one": 'S = "n = %d" % 7',
    "percent of a dictionary": 'D = {"a": "x", "b": 2}\nS = "%(a)s %(b)d" % D',
    "format of a dictionary": 'D = {"a": "x", "b": 2}\nS = "{a} {b}".format(**D)',
    "a chain": 'S = "a B c C".replace("B", "b").replace("C", "d", 1).removeprefix("a ")',
    "removed suffix": 'S = "abc".removesuffix("c")',
    "template": 'from string import Template\nS = Template("$a ${b}!").substitute(a="x", b=2)',
    "template of a dictionary": """
        import string
        S = string.Template("$a $$").substitute({"a": "x"})
    """,
    "safe template": 'import string\nT = string.Template("$a $b")\nS = T.safe_substitute(a="x")',
    "cleandoc": 'import inspect\nS = inspect.cleandoc("""  a\n      b\n    c\n    """)',
    "a dictionary of texts": 'D = {"x": "a", "y": "b"}\nS = D["y"] + D.get("x")',
    "a joined list": 'L = ["a"]\nL.append("b")\nL += ["c"]\nL.extend(("d", "e"))\nS = "-".join(L)',
    "enumerated and zipped": """
        metal_kernel = None
        P = [f"{i}{a}" for i, a in enumerate(("a", "b"))]
        S = "".join(P) + "".join(a + b for a, b in zip(("c", "d"), P))
    """,
    "a builder": """
        metal_kernel = None
        def body(name: str, vec: int = 4, *, mask: bool = False) -> str:
            guard = "if (i >= n) return;" if vec > 2 else ""
            if mask:
                guard = "never"
            elif name in ("a", "b"):
                guard += "known"
            return f"{guard} {name}[{vec}] {'yes' if not mask and name == 'a' else 'no'}"
        S = body("a") + body("b", vec=2) + body("c", mask=True)
    """,
    "a builder with loops": """
        metal_kernel = None
        def body(n):
            lines = []
            for i in range(n):
                if i == 1:
                    continue
                for j in range(i, n):
                    if j == 3:
                        break
                    lines.append(f"{i}{j}")
                else:
                    lines.append("end")
            return ";".join(lines)
        S = body(5)
    """,
    "a builder of a builder": """
        metal_kernel = None
        DTYPES = {"f16": "half", "f32": "float"}
        def inner(t, bits=None):
            def name():
                return DTYPES[t]
            return name() if bits is None else f"{name()}{bits}"
        def outer(t):
            return inner(t) + inner(t, 8)
        S = outer("f32") + outer("f16")
    """,
    "a loop that returns": """
        metal_kernel = None
        def find(n):
            for i in range(n):
                if i > 2:
                    return f"found {i}"
            return "none"
        S = find(2) + find(9)
    """,
}


@pytest.mark.parametrize("program", KNOWN.values(), ids=KNOWN)
def test_known_strings_are_what_python_makes_of_them(program: str) -> None:
    names: dict[str, str] = {}
    exec(dedent(program), names)
    value = value_of(program)
    assert isinstance(value, Str)
    assert names["S"]
    assert value.text == names["S"]


@pytest.mark.parametrize("program", KNOWN.values(), ids=KNOWN)
def test_letters_point_at_themselves_in_their_literals(program: str) -> None:
    value = value_of(program)
    assert isinstance(value, Str)
    folded = strings.fold(value)
    assert folded is not None
    assert folded.text.text == value.text
    for offset, letter in enumerate(folded.text.text):
        position = folded.text.position(offset)
        if position is not None and letter.isascii() and letter.isalpha():
            source = folded.literals[position[0]].node.value
            assert source[position[1]] in (letter, "\\", "O", "{", "$", "%")


UNKNOWN = {
    "a format that looks into its value": 'S = "{0.a}".format("b")',
    "an unknown part": 'S = "".join(["a", input()])',
    "slices": 'S = "abc"[1:]',
    "too few values": 'S = "%s %s" % "a"',
    "a list that an inner function adds to": """
        metal_kernel = None
        def body():
            lines = ["a"]
            def emit(text):
                lines.append(text)
            emit("b")
            return "".join(lines)
        S = body()
    """,
    "a list that a function is given": """
        metal_kernel = None
        def emit(to):
            to.append("b")
        L = ["a"]
        emit(L)
        S = "".join(L)
    """,
    "a list of the module that functions add to": """
        metal_kernel = None
        L = ["a"]
        def emit():
            L.append("b")
        def body():
            emit()
            return "".join(L)
        S = body()
    """,
    "a list of an object": """
        metal_kernel = None
        class Lines:
            def __init__(self):
                self.lines = ["a"]
            def emit(self):
                self.lines.append("b")
            def text(self):
                self.emit()
                return "".join(self.lines)
        S = Lines().text()
    """,
    "a loop of unknown length": """
        metal_kernel = None
        def body(n):
            s = ""
            for i in range(n):
                s += "x"
            return s
        S = body(len(input()))
    """,
    "a loop that something unknown ends": """
        metal_kernel = None
        def body(stop):
            s = ""
            for i in range(3):
                if stop:
                    break
                s += "x"
            return s
        S = body(input())
    """,
    "arguments that are spread": """
        metal_kernel = None
        def body(a="a", b="b"):
            return a + b
        S = body(*input())
    """,
    "a closure that is called later": """
        metal_kernel = None
        def outer(n):
            def inner():
                return f"{n}"
            return inner
        F = outer(1)
        outer(2)
        S = F()
    """,
    "a template without a value": """
        import string
        S = string.Template("$a $b").substitute(a=input(), b="x")
    """,
    "a key that a dictionary may hold": """
        D = {}
        D[input()] = "a"
        S = "%(b)s" % D
    """,
}


@pytest.mark.parametrize("program", UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_not_known_is_not_guessed(program: str) -> None:
    value = value_of(program)
    assert not isinstance(value, Str) or value.text is None


def test_a_literal_that_python_refuses_is_unknown() -> None:
    assert value_of(r'S = "\x4"') == Str()


def alternatives_of(program: str) -> list[str | None]:
    value = value_of(program)
    assert isinstance(value, Str)
    assert value.text is None
    return [option.text for option in value.either]


def test_texts_that_one_branch_decides_go_together() -> None:
    program = """
        import sys
        if sys.argv:
            head, body = "h1", "b1"
        else:
            head, body = "h2", "b2"
        S = "%s %s" % (head, body)
    """
    assert alternatives_of(program) == ["h1 b1", "h2 b2"]


def test_texts_that_several_branches_decide_are_not_mixed() -> None:
    program = """
        import sys
        A = "a" if sys.argv else "b"
        B = "c" if sys.argv else "d"
        S = A + B
    """
    value = value_of(program)
    assert isinstance(value, Str)
    assert not value.either


READS = {
    "a path": 'from pathlib import Path\nS = Path(__file__).with_name("k.metal").read_text()',
    "a folder": """
        from pathlib import Path
        HERE = Path(__file__).resolve().parent
        S = (HERE / "sub" / ".." / "k.metal").read_text(encoding="utf-8")
    """,
    "os.path": """
        import os
        HERE = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(HERE, "k.metal")) as file:
            S = file.read()
    """,
    "open": 'import os\nS = open(os.path.join(os.path.dirname(__file__), "k.metal"), "r").read()',
    "a function": """
        from pathlib import Path
        def load(name: str) -> str:
            return (Path(__file__).parent / f"{name}.metal").read_text()
        S = load("k")
    """,
}


@pytest.mark.parametrize("program", READS.values(), ids=READS)
def test_files_next_to_the_file_are_read(program: str, tmp_path: Path) -> None:
    (tmp_path / "k.metal").write_text("out[0] = 1;\n", encoding="utf-8")
    (tmp_path / "sub").mkdir()
    source = "metal_kernel = None\n" + dedent(program)
    module = Project().open(tmp_path / "program.py", source)
    module.run()
    value = module.frame.names["S"]
    assert isinstance(value, Str)
    assert value.text == "out[0] = 1;\n"
    assert any(Path(path).name == "k.metal" for path in module.all_dependencies())


UNREAD = [
    'S = Path("k.metal").read_text()',
    'S = Path(__file__).with_name("missing.metal").read_text()',
    "S = Path(__file__).with_name(input()).read_text()",
    'S = Path(__file__).with_name("k.metal").read_text("latin-1")',
    'S = open(Path(__file__).with_name("k.metal"), "rb").read()',
    'S = open(Path(__file__).with_name("k.metal")).read(3)',
    "S = Path(__file__).parent.read_text()",
]


@pytest.mark.parametrize("line", UNREAD)
def test_other_files_are_unknown(line: str, tmp_path: Path) -> None:
    (tmp_path / "k.metal").write_text("out[0] = 1;\n", encoding="utf-8")
    source = f"from pathlib import Path\nmetal_kernel = None\n{line}\n"
    module = Project().open(tmp_path / "program.py", source)
    module.run()
    value = module.frame.names["S"]
    assert not isinstance(value, Str) or value.text is None


def kernels_of(program: str) -> list[tuple[str | None, str | None]]:
    """Body and header of each kernel that a program builds, where they are known."""
    module = Project().open(Path("program.py"), dedent(program))
    found = []
    for kernel in definitions(module, analyse_module(module)):
        texts = [kernel.source, kernel.header_source]
        source, header = (None if t is None or t.holes else t.text.text for t in texts)
        found.append((source, header))
    return found


@pytest.mark.parametrize(
    "built",
    [
        "{n: kernel(n) for n in SIZES}",
        "{(n, 1): kernel(n) for n in SIZES.keys() if n != 'c'}",
        "[kernel(size) for size in ALIASES.values()]",
        "{n: kernel('a' * (n == 1) + 'b' * (n == 2)) for n in (1, 2)}",
    ],
)
def test_kernels_of_a_comprehension_are_built_one_by_one(built: str) -> None:
    program = f"""
    import mlx.core as mx
    SIZES = {{"a": 1, "b": 2}}
    ALIASES = {{"one": "a", "two": "b"}}
    def kernel(name):
        return mx.fast.metal_kernel(name, ["x"], ["y"], f"y[0] = {{name}};")
    KERNELS = {built}
    """
    found = {source for source, _ in kernels_of(program) if source is not None}
    assert found == {"y[0] = a;", "y[0] = b;"}


def test_a_dictionary_that_may_have_grown_is_not_gone_through() -> None:
    program = """
    import mlx.core as mx
    SIZES = {"a": 1}
    def add(name):
        SIZES[name] = 2
    add(input())
    KERNELS = {n: mx.fast.metal_kernel("k", ["x"], ["y"], f"y[0] = {n};") for n in SIZES}
    """
    assert all(source is None for source, _ in kernels_of(program))


def test_a_text_may_be_one_of_several() -> None:
    program = """
        import sys
        A = "a" if sys.argv else "b"
        if sys.path:
            B = A + A
        else:
            B = "c"
        S = f"<{B}>".replace("b", "bb") + "!"
    """
    assert alternatives_of(program) == ["<aa>!", "<bbbb>!", "<c>!"]
