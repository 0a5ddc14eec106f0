"""Imports among the files of a project: packages, relative, cyclic, star; dependencies."""

from __future__ import annotations

import gc
import textwrap
import weakref
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path

import pytest

from embercoach.analysis.project.driver import analyse_module
from embercoach.analysis.project.project import Project
from embercoach.checks import check_source
from tests.analysis.inference import all_revealed, revealed

PACKAGE = {
    "proj/pyproject.toml": "",
    "proj/pkg/__init__.py": "from .layers import Net\nVERSION = '1'\n",
    "proj/pkg/layers.py": """
        import mlx.core as mx
        import mlx.nn as nn
        from .ops import scaled
        SCALE = 0.5
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.w = mx.ones((2, 2))
            def __call__(self, x):
                return scaled(x), x.shape
    """,
    "proj/pkg/ops.py": """
        import mlx.core as mx
        def scaled(x: mx.array, by=2):
            return x * by
        def norm(x):
            return x / x.sum()
        EPS = mx.array(1e-6)
    """,
    "proj/pkg/sub/__init__.py": "",
    "proj/pkg/sub/deep.py": "import mlx.core as mx\ndef make():\n    return mx.ones(2, mx.int8)\n",
}
CASES = {
    "a module": ("pkg/main.py", "import pkg.ops\nreveal(pkg.ops.EPS)", "array[float32]"),
    "a module from its package": (
        "pkg/main.py",
        "from pkg import ops\nreveal(ops.EPS)",
        "array[float32]",
    ),
    "the package itself": ("pkg/main.py", "from . import ops\nreveal(ops.EPS)", "array[float32]"),
    "from above": ("pkg/sub/main.py", "from ..ops import EPS\nreveal(EPS)", "array[float32]"),
    "the package above": ("pkg/sub/main.py", "from .. import Net\nreveal(Net)", "class Net"),
    "beyond the top": ("pkg/main.py", "from .....ops import EPS\nreveal(EPS)", "?"),
    "a name that is not there": ("pkg/main.py", "from .ops import nothing\nreveal(nothing)", "?"),
    "a module that is not there": ("pkg/main.py", "from .nothing import x\nreveal(x)", "?"),
    "star": ("pkg/main.py", "from .ops import *\nreveal(EPS)", "array[float32]"),
    "star with a private name": ("pkg/main.py", "from ._ops import *\nreveal(_x)", "?"),
}


@pytest.mark.parametrize(("place", "source", "expected"), CASES.values(), ids=CASES)
def test_an_import_brings(tmp_path: Path, place: str, source: str, expected: str) -> None:
    files = {**PACKAGE, "proj/pkg/_ops.py": "_x = 3\n"}
    assert run(tmp_path, place, source, files) == [expected]


def run(tmp_path: Path, place: str, source: str, files: Mapping[str, str]) -> list[str]:
    root = tmp_path / "proj"
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    up = "/".join([".."] * len(Path("proj", place).parent.parts))
    return all_revealed(source, path=path, files={f"{up}/{name}": t for name, t in files.items()})


def test_cyclic_imports_end(tmp_path: Path) -> None:
    files = {
        "a.py": """
            import b
            import mlx.core as mx
            def f(): return mx.ones(2)
            def g(): return b.h()
        """,
        "b.py": "import a\ndef h(): return a.f()\nclass B: pass\n",
    }
    source = "import a\nimport b\nreveal(a.g())\nreveal(b.B)"
    found = all_revealed(source, path=tmp_path / "main.py", files=files)
    assert found == ["array[float32]", "class B"]


def test_names_of_a_cycle_are_found_either_way(tmp_path: Path) -> None:
    files = {
        "a.py": "from b import B\nclass A:\n    def b(self): return B()\n",
        "b.py": "from a import A\nclass B:\n    def a(self): return A()\n",
    }
    source = "from a import A\nreveal(A().b().a().b())"
    assert revealed(source, path=tmp_path / "main.py", files=files) == "B()"


def test_a_star_import_that_cannot_be_followed_hides_builtins(tmp_path: Path) -> None:
    source = "from elsewhere import *\nreveal(max(mx.ones(2)))"
    assert revealed(source, path=tmp_path / "main.py") == "?"


@pytest.mark.parametrize("broken", ["def f(:\n", "\0", "(" * 300, "x = 'ä'".encode("latin-1")])
def test_a_broken_file_is_an_unknown_module(tmp_path: Path, broken: str | bytes) -> None:
    data = broken.encode() if isinstance(broken, str) else broken
    (tmp_path / "other.py").write_bytes(data)
    source = "from other import x\nreveal(x)"
    assert revealed(source, path=tmp_path / "main.py") in ("?", "other.x")


def test_a_name_too_long_for_the_file_system(tmp_path: Path) -> None:
    name = "a" * 300
    assert revealed(f"import {name}\nreveal({name}.x)", path=tmp_path / "main.py")


def test_libraries_elsewhere_are_never_read() -> None:
    # ``markdown_it`` is installed here, in pure Python: its names must stay unknown.
    assert revealed("import markdown_it.main\nreveal(markdown_it.main.MarkdownIt())") == "?"


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_an_installed_package_is_a_project_of_its_own(tmp_path: Path, folder: str) -> None:
    package = tmp_path / folder / "mine"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    files = {"sizes.py": "WIDTH = 3\n", "../library/__init__.py": "WIDTH = 4\n"}
    source = "import library\nfrom mine.sizes import WIDTH\nreveal(WIDTH)\nreveal(library.WIDTH)"
    own, neighbour = all_revealed(source, path=package / "main.py", files=files)
    assert own == "int 3"
    assert "4" not in neighbour


def test_one_file_does_not_change_what_another_finds(tmp_path: Path) -> None:
    """Facts of a module are the same whether it was imported before it was checked, or not."""
    library = tmp_path / "lib.py"
    text = "import mlx.core as mx\ndef f(x):\n    return float(x.sum())\ny = f(mx.ones(2))\n"
    library.write_text(text)
    main = tmp_path / "main.py"
    alone = Project().open(library, text)
    analyse_module(alone)
    project = Project()
    analyse_module(project.open(main, "import mlx.core as mx\nfrom lib import f\nf('text')\n"))
    after = project.open(library, text)
    analyse_module(after)

    def kinds(module: object) -> list[str]:
        return [type(fact).__name__ for fact in module.facts()]  # type: ignore[attr-defined]

    assert kinds(alone) == kinds(after)


ENTANGLED = {
    "lib.py": """
        import mlx.core as mx
        class Box:
            def __init__(self):
                self.kept = None
        def same(x):
            return x
        def read(box):
            return float(box.kept)
    """,
    "stores.py": """
        import mlx.core as mx
        from lib import Box, read
        box = Box()
        box.kept = mx.ones(2)
        read(box)
    """,
    "asks.py": """
        import mlx.core as mx
        from lib import same
        for_all = [same(1), same("a"), same(None), same(2.0), same((1, 2)), same([1]), same({})]
    """,
    "uses.py": """
        import mlx.core as mx
        from lib import Box, same
        float(same(mx.ones(2)))
        float(Box().kept)
        @mx.compile
        def step(x):
            return same(x)
    """,
}


CYCLE = {
    "net/__init__.py": "from .parts import Base\nfrom .sizes import SIZE\n",
    "net/parts.py": """
        import mlx.core as mx
        from use import Sub
        class Base:
            def __call__(self, x):
                return mx.ones(2)
    """,
    "net/sizes.py": "import use\nimport mlx.core as mx\nSIZE = mx.array(2)\nWIDTH = use.WIDTH\n",
    "use.py": """
        import mlx.core as mx
        from net import SIZE, Base
        WIDTH = SIZE
        class Sub(Base):
            pass
        @mx.compile
        def step(x):
            return float(Sub()(x))
    """,
    "wide.py": """
        import mlx.core as mx
        from net.sizes import WIDTH
        for _ in range(3):
            float(WIDTH)
    """,
}


DEEP = {
    "lib.py": "import mlx.core as mx\n"
    + "".join(f"def f{n}(x):\n    return f{n + 1}(x)\n" for n in range(8))
    + "def f8(x):\n    return mx.ones(2)\n",
    "asks.py": "import mlx.core as mx\nfrom lib import f0\nf0(1)\n",
    "uses.py": "import mlx.core as mx\nfrom lib import f7\nfloat(f7(1))\n",
}
MANY = {
    "lib.py": """
        import mlx.core as mx
        def same(x):
            return x
        def also(x):
            return same(x)
    """,
    "names.py": "import mlx.core as mx\nfrom lib import also\n"
    + "".join(f"also('{n}')\n" for n in range(70)),
    "asks.py": "import mlx.core as mx\nimport names\nprint(names.also)\n",
    "uses.py": "import mlx.core as mx\nfrom lib import also\nfloat(also(mx.ones(2)))\n",
}
RECURSIVE = {
    "lib.py": """
        import mlx.core as mx
        def pair(x):
            both = last(x), mx.ones(2)
            return both
        def last(x):
            return pair(x)[1]
    """,
    "asks.py": "import mlx.core as mx\nfrom lib import pair\npair(1)\n",
    "uses.py": "import mlx.core as mx\nfrom lib import last\nfloat(last(1))\n",
}


@pytest.mark.parametrize(
    ("files", "asked", "codes"),
    [
        pytest.param(ENTANGLED, "uses.py", ["GRAPH-BREAK-002"], id="entangled"),
        pytest.param(CYCLE, "use.py", ["GRAPH-BREAK-002"], id="cycle"),
        pytest.param(DEEP, "uses.py", ["GRAPH-BREAK-002"], id="nested too deeply"),
        pytest.param(MANY, "uses.py", ["GRAPH-BREAK-002"], id="many values"),
        pytest.param(RECURSIVE, "uses.py", ["GRAPH-BREAK-002"], id="recursive"),
    ],
)
def test_findings_do_not_depend_on_the_order_of_files(
    tmp_path: Path, files: Mapping[str, str], asked: str, codes: list[str]
) -> None:
    """A third file gets nothing that checking one file finds out about another."""
    texts = {tmp_path / name: textwrap.dedent(text) for name, text in files.items()}
    for path, text in texts.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    alone = {path: check_source(text, path, Project()).findings for path, text in texts.items()}
    assert [f.code for f in alone[tmp_path / asked]] == codes
    for order in list(permutations(texts))[::2]:
        project = Project()
        for path in order:
            assert check_source(texts[path], path, project).findings == alone[path], order


def test_what_was_let_go_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither importers nor caches of values keep modules beyond the limit."""
    monkeypatch.setattr("embercoach.analysis.project.project.KEPT_CHARACTERS", 2_000)
    project = Project()
    checked = []
    for number in range(12):
        library, main = tmp_path / f"lib{number}.py", tmp_path / f"main{number}.py"
        library.write_text("class Box:\n    pass\ndef same(x):\n    return x\n" + "# .\n" * 40)
        text = (
            f"from lib{number} import Box, same\nboxes = [same(Box()), same('a')]\nx = boxes[0]\n"
        )
        check_source(text + "def f(y=boxes):\n    return y[0] or 1\nf(x)\n", main, project)
        checked.append(weakref.ref(project.load(library, tmp_path)))
    gc.collect()
    alive = [number for number, module in enumerate(checked) if module() is not None]
    assert alive
    assert len(alive) <= 8


def chain_of_imports(folder: Path) -> dict[Path, str]:
    """Files that import the next one, at the top or in a function, and pull what it gives."""
    texts = {}
    for number in range(6):
        imports = f"from link{number + 1} import made as inner"
        # A comment of 1000 characters, so that the lengths of the statements don't matter.
        text = "import mlx.core as mx\n" + f"#{'.' * 1000}\n"
        if number % 2:
            text += f"{imports}\ndef made():\n    return inner()\nif made():\n    pass\n"
        else:
            text += f"def made():\n    {imports}\n    return inner()\nif made():\n    pass\n"
        texts[folder / f"link{number}.py"] = text
    last = "import mlx.core as mx\ndef made():\n    return mx.ones(3)\n"
    return {**texts, folder / "link6.py": last}


def test_modules_that_reach_too_much_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Imports in functions count, and neither the order of files nor what is loaded does."""
    monkeypatch.setattr("embercoach.analysis.project.import_graph.MOST_REACHED", 3_600)
    texts = chain_of_imports(tmp_path)
    for path, text in texts.items():
        path.write_text(text)
    expected = {f"link{number}.py": number >= 2 for number in range(6)}
    for order in (list(texts), list(reversed(texts))):
        project = Project()
        reports = {path: check_source(texts[path], path, project) for path in order}
        found = {path.name: bool(reports[path].findings) for path in texts}
        assert found == {**expected, "link6.py": False}
    # Had link2 been smaller, link0 would have been told of the array.
    assert str(tmp_path / "link2.py") in reports[tmp_path / "link0.py"].dependencies


def test_a_cycle_of_imports_ends_where_it_reaches_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("embercoach.analysis.project.import_graph.MOST_REACHED", 150)
    loop = "from {} import other\nimport mlx.core as mx\ndef made():\n    return mx.ones(3)\n"
    (tmp_path / "a.py").write_text(loop.format("b"))
    (tmp_path / "b.py").write_text(loop.format("a"))
    (tmp_path / "c.py").write_text("import mlx.core as mx\ndef made():\n    return mx.ones(3)\n")
    text = "from {} import made\nif made():\n    pass\n"
    found = [
        bool(check_source(text.format(name), tmp_path / "main.py", Project()).findings)
        for name in "abc"
    ]
    assert found == [False, False, True]
