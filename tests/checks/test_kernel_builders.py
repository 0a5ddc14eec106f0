"""Wrappers of metal_kernel that the settings declare: their calls are kernels, and no launches."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from textwrap import dedent

import pytest

from embercoach.analysis.project.driver import analyse_module
from embercoach.checks import Project, check_source
from embercoach.checks.programs.kernels import PythonKernel, definitions
from embercoach.kernel_builder import Fixed, KernelBuilder

MAPPED = (
    ("name", "name"),
    ("input_names", "inputs"),
    ("output_names", "outputs"),
    ("source", "body"),
    ("header", "header"),
    ("ensure_row_contiguous", "contiguous"),
)
CLASS = KernelBuilder("pack.kernel.Kernel", MAPPED)
PACK = {
    "pack/__init__.py": "from pack.kernel import Kernel\n",
    "pack/kernel.py": """
        from __future__ import annotations
        from collections.abc import Callable
        from dataclasses import dataclass, field
        from typing import ClassVar

        import mlx.core as mx

        @dataclass(frozen=True)
        class Kernel:
            made: ClassVar[int] = 0
            name: str
            inputs: tuple[str, ...]
            outputs: tuple[str, ...]
            body: str
            cache: dict = field(default_factory=dict, init=False)
            header: str = "// none"
            contiguous: bool = True
            launch: Callable | None = None

            def __call__(self, *inputs: mx.array, backend: str | None = None) -> list[mx.array]:
                return list(inputs)

            @classmethod
            def elementwise(cls, name: str, body: str) -> Kernel:
                return cls(name, ("x",), ("y",), body)

        def build(name, /, body, *, inputs=("x",), outputs=("y",), header=""):
            return Kernel(name, inputs, outputs, body, header)
        """,
    "pack/texts.py": 'HALF = "inline float half_of(float v) { return v / 2; }"\nONE = "\\n// 1"\n',
}
BODY = "y[thread_position_in_grid.x] = x[0];"


def kernels_of(
    folder: Path, program: str, *builders: KernelBuilder, name: str = "user.py"
) -> list[PythonKernel]:
    """The kernels of a program that stands beside the package."""
    module = Project(builders or (CLASS,)).open(_written(folder, program, name), dedent(program))
    return definitions(module, analyse_module(module))


def texts_of(folder: Path, program: str, *builders: KernelBuilder) -> list[tuple[str, str] | None]:
    """Body and header of each of them, None where some of it is not known."""
    return [kernel.readable for kernel in kernels_of(folder, program, *builders)]


def codes_of(folder: Path, program: str, *builders: KernelBuilder) -> list[tuple[str, int]]:
    """Codes of rules about kernels, with their lines."""
    path = _written(folder, program, "user.py")
    found = check_source(dedent(program), path, Project(builders or (CLASS,))).findings
    return sorted(
        [(f.code, f.line) for f in found if f.code.startswith("KERNEL")], key=itemgetter(1)
    )


def _written(folder: Path, program: str, name: str) -> Path:
    for other, text in PACK.items():
        path = folder / other
        path.parent.mkdir(exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    (folder / "pyproject.toml").touch()
    path = folder / name
    path.write_text(dedent(program), encoding="utf-8")
    return path


CALL = f'Kernel(name="k", inputs=("x",), outputs=("y",), body="{BODY}")'


@pytest.mark.parametrize(
    "program",
    [
        f"from pack import Kernel\nK = {CALL}",
        f"from pack.kernel import Kernel\nK = {CALL}",
        f"import pack\nK = pack.{CALL}",
        f"import pack.kernel\nK = pack.kernel.{CALL}",
        f"import pack.kernel as made\nK = made.{CALL}",
        f"from pack.kernel import *\nK = {CALL}",
        f"from pack import Kernel as Made\nK = {CALL.replace('Kernel', 'Made')}",
        f"from pack import Kernel\nMade = Kernel\nK = {CALL.replace('Kernel', 'Made')}",
    ],
)
@pytest.mark.parametrize("symbol", ["pack.kernel.Kernel", "pack.Kernel"])
def test_a_wrapper_is_known_however_it_is_imported(
    program: str, symbol: str, tmp_path: Path
) -> None:
    (kernel,) = kernels_of(tmp_path, program, KernelBuilder(symbol, MAPPED))
    assert kernel.own
    assert kernel.inputs == ("x",)
    assert kernel.outputs == ("y",)


OWN = "pack/kernel.py"


def test_a_wrapper_is_known_in_its_own_file_and_by_a_relative_import(tmp_path: Path) -> None:
    own = f"{dedent(PACK['pack/kernel.py'])}\nK = {CALL}\n"
    names = [k.inputs for k in kernels_of(tmp_path, own, name=OWN)]
    # K and what `elementwise` makes; `build` makes one of any names.
    assert sorted(names, key=str) == [("x",), ("x",), None]
    beside = f"from .kernel import Kernel\nK = {CALL}"
    assert len(kernels_of(tmp_path, beside, name="pack/others.py")) == 1


@pytest.mark.parametrize(
    ("arguments", "header"),
    [
        ('**{"name": "k", "inputs": ("x",), "outputs": ("y",)}, body=BODY', "// none"),
        ('"k", *NAMES, body=BODY', None),
        ('"k", ("x",), ("y",), BODY, **more()', None),
    ],
)
def test_fields_are_given_by_place_keyword_or_default(
    arguments: str, header: str | None, tmp_path: Path
) -> None:
    program = f'from pack import Kernel\nBODY = "{BODY}"\nK = Kernel({arguments})\n'
    (kernel,) = kernels_of(tmp_path, program)
    source, known = kernel.source, kernel.header_source
    assert source is not None
    assert source.text.text == BODY
    assert (None if known is None else known.text.text) == header


@pytest.mark.parametrize(
    ("symbol", "origins", "call", "expected"),
    [
        # A function, whose parameters are read where it is defined.
        ("pack.kernel.build", MAPPED[:5], 'pack.kernel.build("k", BODY)', (BODY, "")),
        ("pack.kernel.build", (("source", 1),), 'pack.kernel.build("k", body=BODY)', None),
        # An alternative constructor.
        ("pack.Kernel.elementwise", (("source", "body"), ("header", Fixed(""))),
         'pack.Kernel.elementwise("k", BODY)', (BODY, "")),
        # A library, which is not read: by its keywords and places as written.
        ("lib.build", (("source", "body"), ("header", Fixed("//"))), "lib.build(body=BODY)",
         (BODY, "//")),
        ("lib.build", (("source", 1), ("header", 2)), 'lib.build("k", BODY, "//")', (BODY, "//")),
        ("lib.build", (("source", "body"), ("header", "header")), "lib.build(body=BODY)", None),
        ("lib.build", (("source", "body"),), "lib.build(body=BODY)", None),
    ],
)  # fmt: skip
def test_other_wrappers(
    symbol: str,
    origins: tuple[tuple[str, str | int | Fixed], ...],
    call: str,
    expected: tuple[str, str] | None,
    tmp_path: Path,
) -> None:
    program = f'import lib\nimport pack.kernel\nBODY = "{BODY}"\nK = {call}\n'
    assert texts_of(tmp_path, program, KernelBuilder(symbol, origins)) == [expected]


def test_what_a_wrapper_passes_is_unknown_unless_the_setting_tells(tmp_path: Path) -> None:
    program = f"from pack import Kernel\nK = {CALL}"
    (kernel,) = kernels_of(tmp_path, program)
    given = {a.keyword: a.value for a in kernel.fact.arguments}
    contiguous = given["ensure_row_contiguous"]
    assert getattr(contiguous, "const", None) is True
    assert given["atomic_outputs"] is given["compile_options"]
    fixed = KernelBuilder(CLASS.symbol, (*MAPPED, ("atomic_outputs", Fixed(True))))
    (kernel,) = kernels_of(tmp_path, program, fixed)
    atomic = next(a.value for a in kernel.fact.arguments if a.keyword == "atomic_outputs")
    assert getattr(atomic, "const", None) is True


def test_one_string_of_names_is_the_wrappers_to_split(tmp_path: Path) -> None:
    program = f'from pack import Kernel\nK = Kernel("k", "x", "y", "{BODY}")\n'
    (kernel,) = kernels_of(tmp_path, program)
    assert kernel.inputs is None
    assert codes_of(tmp_path, program) == []


def test_texts_are_joined_from_constants_of_other_modules(tmp_path: Path) -> None:
    program = """
        from pack import Kernel, texts
        from pack.texts import HALF
        K = Kernel("k", ("x",), ("y",), "y[0] = half_of(x[0]);", header=HALF + texts.ONE)
        """
    half = "inline float half_of(float v) { return v / 2; }"
    assert texts_of(tmp_path, program) == [("y[0] = half_of(x[0]);", f"{half}\n// 1")]


FACTORY = """
    from pack import Kernel
    SIZES = {"a": "1", "b": "2"}

    def _kernel(masked: bool, size: str = "") -> Kernel:
        options = {key: value for key, value in SIZES.items() if key in size}
        return Kernel(
            name="k" + "_masked" * masked + size,
            inputs=("x",) + ("mask",) * masked,
            outputs=("y",),
            body=f"y[0] = x[0]{' + mask[0]' if masked else ''};{''.join(key for key in options)}",
        )

    """
PLAIN, MASKED = ("k", "y[0] = x[0];", ("x",)), ("k_masked", "y[0] = x[0] + mask[0];", ("x", "mask"))


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ("A = _kernel(False)", [PLAIN]),
        ("A = (_kernel(False), _kernel(masked=True))", [PLAIN, MASKED]),
        ("A = {m: _kernel(m) for m in (False, True)}", [PLAIN, MASKED]),
        ("A = [_kernel(m) for m in (False, True) if m]", [MASKED]),
        ("A = {s: _kernel(False, size=s) for s in SIZES}",
         [("ka", "y[0] = x[0];a", ("x",)), ("kb", "y[0] = x[0];b", ("x",))]),
        ("A = {(m, s): _kernel(m, s) for m in (False, True) for s in ('a', '')}",
         [("ka", "y[0] = x[0];a", ("x",)), PLAIN,
          ("k_maskeda", "y[0] = x[0] + mask[0];a", ("x", "mask")), MASKED]),
        ("A = {n: _kernel(False, 'ab' * n) for n in range(12)}",
         [("k" + "ab" * n, f"y[0] = x[0];{'ab' * (n > 0)}", ("x",)) for n in range(12)]),
        ("def launch(x, m):\n    return _kernel(bool(m))(x)", []),
    ],
)  # fmt: skip
def test_functions_that_build_kernels_are_run_for_what_they_are_given(
    calls: str, expected: list[tuple[str, str, tuple[str, ...]]], tmp_path: Path
) -> None:
    found = set()
    for kernel in kernels_of(tmp_path, dedent(FACTORY) + calls + "\n"):
        name, source = kernel.argument("name"), kernel.source
        text = getattr(name and name.value, "text", None)
        if text is not None and source is not None and not source.holes:
            found.add((text, source.text.text, kernel.inputs))
    assert found == set(expected)


def test_the_rules_look_at_such_kernels(tmp_path: Path) -> None:
    program = '''
        from pack import Kernel

        K = Kernel(
            name="a-b",
            inputs=("x", "x"),
            outputs=("y",),
            body="""
            y[0] = z[0];
            x[0] = 1;
            """,
        )
        '''
    assert codes_of(tmp_path, program) == [
        ("KERNEL-NAME-001", 5),
        ("KERNEL-NAME-001", 6),
        ("KERNEL-SIG-005", 9),
        ("KERNEL-WRITE-001", 10),
    ]


def test_calls_of_what_is_built_are_no_launches(tmp_path: Path) -> None:
    program = f"""
        import mlx.core as mx
        from pack import Kernel

        K = {CALL}

        def run(x: mx.array) -> mx.array:
            local = {CALL}
            both = [K, local]
            for kernel in both:
                x = kernel(x, backend="metal")[0]
            return K(x)[0] + local(x, x)[0] + mx.grad(lambda v: K(v)[0].sum())(x)
        """
    kernels = kernels_of(tmp_path, program)
    assert len(kernels) == 2
    module = Project((CLASS,)).open(tmp_path / "user.py", dedent(program))
    for kernel in definitions(module, analyse_module(module)):
        assert kernel.launches == ()
    assert codes_of(tmp_path, program) == []


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("threadgroup float part[SIZE]; part[0] = x[0]; y[0] = part[0];", []),
    ],
)
def test_names_of_templates_are_unknown(body: str, found: list[str], tmp_path: Path) -> None:
    program = f'from pack import Kernel\nK = Kernel("k", ("x",), ("y",), "{body}")\n'
    assert [code for code, _ in codes_of(tmp_path, program)] == found


def test_what_is_built_is_still_an_object_of_its_class(tmp_path: Path) -> None:
    program = f"""
        import mlx.core as mx
        from pack import Kernel

        K = {CALL}

        def run(x: mx.array):
            if K(x)[0].sum() > 1:
                return float(K(x)[0])
            return K.elementwise("k", "y[0] = x[0];")
        """
    path = _written(tmp_path, program, "user.py")
    reported = [
        [(f.code, f.line) for f in check_source(dedent(program), path, Project(builders)).findings]
        for builders in ((), (CLASS,))
    ]
    assert reported[0]
    assert reported[0] == reported[1]
