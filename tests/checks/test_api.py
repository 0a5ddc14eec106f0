"""API, DEPRECATED, INDEX-001 and NN-001: what is reported, and near misses."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from embercoach.analysis import mlx_api
from embercoach.analysis.evaluate.missing_members import COMPLETE, IMPORTED_BY_MLX
from embercoach.analysis.mlx_api import replacements
from embercoach.checks import Project, check_source
from tests.checks.findings import codes, findings, pointed
from tests.rows import each_row

if TYPE_CHECKING:
    from pathlib import Path

FAMILIES = ("API", "DEPRECATED", "INDEX-001", "NN-001")


def function(body: str) -> str:
    """A function of an array ``x``, a matrix ``m`` of 3 rows and 4 columns, and unknown ``y``."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    start = "import mlx.optimizers as optim\nimport numpy as np\n"
    return f"{start}def f(x: mx.array, y):\n    m = mx.ones((3, 4))\n{lines}\n"


@each_row(
    "expression, code",
    [
        ("mx.norm(x)", "API-001"),
        ("mx.linalg.lstsq(x, x)", "API-001"),
        ("mx.metal.empty_cache()", "API-001"),
        ("nn.ModuleList([])", "API-001"),
        ("nn.QuantizedLinear.quantize_module(y)", "API-001"),
        ("optim.Adam.from_config(y)", "API-001"),
        ("nn.losses.BCELoss()", "API-001"),
        ("mx.nn.Linear(2, 2)", "API-001"),
        ("x.astype(mx.bool)", "API-001"),
        ("x.clone()", "API-002"),
        ("mx.exp(x).detach()", "API-002"),
        ("x.mul_(x)", "API-002"),
        ("x.device", "API-002"),
        ("x.norm(dim=1)", "API-002"),
        ("mx.sum(x, dim=0)", "API-003"),
        ("x.sum(keepdim=True)", "API-003"),
        ("mx.roll(x, shifts=1)", "API-003"),
        ("mx.where(x)", "API-003"),
        ("mx.concat(x, m, axis=1)", "API-003"),
        ("mx.stack(x, m)", "API-003"),
        ("mx.concatenate([x, m], 0, axis=1)", "API-003"),
        ("mx.zeros((m.sum(), 3))", "API-003"),
        ("mx.topk(x, m[0, 0])", "API-003"),
        ("x.reshape(m, 3)", "API-003"),
        ("x.transpose(m, 0)", "API-003"),
        ("mx.repeat(x, 1, 2, 3)", "API-003"),
        ("mx.ones(3, 4)", "API-003"),
        ("mx.array([1], np.float32)", "API-003"),
        ("x.astype('float16')", "API-003"),
        ("x.astype(float)", "API-003"),
        ("np.mean(x)", "API-003"),
        ("np.max(x, axis=0)", "API-003"),
        ("nn.Linear(2, 3, device='gpu')", "API-003"),
        ("nn.ReLU(inplace=True)", "API-003"),
        ("mx.random.uniform((3, 4))", "API-003"),
        ("optim.Adam(nn.Linear(1, 1).parameters(), 0.1)", "API-003"),
        ("optim.SGD(lr=0.1)", "API-003"),
        ("nn.Linear(1, 1).state_dict()", "API-002"),
        ("optim.SGD(0.1).zero_grad()", "API-002"),
        ("optim.SGD(0.1).step()", "API-004"),
        ("x.size(0)", "API-004"),
        ("m.shape()", "API-004"),
        ("mx.exp(x).T()", "API-004"),
        ("x[mx.isnan(x)]", "API-005"),
        ("x[:, x > 0]", "API-005"),
        ("x[1.5]", "API-005"),
        ("x[mx.array([0.5])]", "API-005"),
        ("x[np.array([0, 1])]", "API-005"),
        ("x[np.arange(3), 0]", "API-005"),
        ("mx.softmax(m)", "API-006"),
        ("m.logsumexp()", "API-006"),
        ("mx.linalg.inv(x)", "API-007"),
        ("mx.linalg.svd(m)[0]", "API-007"),
        ("m[3]", "INDEX-001"),
        ("m[-4]", "INDEX-001"),
        ("m[0, 4]", "INDEX-001"),
        ("m[..., 4]", "INDEX-001"),
        ("m[None, 3]", "INDEX-001"),
        ("m[m.shape[0]]", "INDEX-001"),
        ("mx.metal.clear_cache()", "DEPRECATED-001"),
        ("mx.metal.device_info()", "DEPRECATED-001"),
    ],
)
def test_reported(expression: str, code: str) -> None:
    assert codes(function(f"return {expression}"), FAMILIES) == [code]


def test_an_index_is_reported_once() -> None:
    assert codes(function("m[m > 0]\nreturn m[m > 1]"), ("API", "SHAPE")) == ["API-005"] * 2


@each_row(
    "body",
    [
        "return mx.linalg.norm(x), nn.losses.mse_loss(x, x), mx.metal.is_available()",
        "return mx._private(x), y.clone(), y.norm(), y.size(), y.shape()",
        "z: mx.Tensor = y\nreturn z",
        "if hasattr(mx, 'foo'):\n    return mx.foo(x)",
        "g = getattr(mx, 'foo', None)\nreturn g(x) if g else mx.foo(x)",
        "return x.detach() if hasattr(x, 'detach') else x",
        "try:\n    return mx.foo(x)\nexcept AttributeError:\n    return x",
        "try:\n    return mx.foo(x)\nexcept Exception:\n    return x",
        "try:\n    pass\nexcept Exception:\n    return mx.foo(x)",
        "if mx.__version__ >= '9':\n    return mx.foo(x)",
        "assert mx.__version__ == '0.10.0'\nreturn mx.foo(x)",
        "if MLX_VERSION > 3:\n    pass\nelse:\n    return mx.foo(x)",
        "with contextlib.suppress(AttributeError):\n    mx.foo(x)",
        "with mock.patch.object(mx, name, len):\n    mx.foo(x)",
        "mx.foo = len\nreturn mx.foo(x)",
        "setattr(mx, 'foo', len)\nreturn mx.foo(x)",
        "mx.array.clone = mx.array\nreturn x.clone()",
        "f = dict(y)\nif y:\n    f = mx.load('w')\nreturn [v.copy() for v in f.values()]",
        "with pytest.raises(AttributeError):\n    mx.foo(x)",
        "return x.inputs_embeds, x.offset",  # no array has these: it is something else
        "return mx.sum(x, **y), mx.sum(*y), mx.where(*y), mx.roll(x, shift=1, axis=0)",
        "try:\n    return mx.sum(x, dim=0)\nexcept TypeError:\n    return x",
        "return nn.Conv2d.__call__(y, x), nn.Linear.__call__(y, x)",
        "return mx.concat(x, axis=0), mx.concat([x, m], y), mx.concat(y, 1), mx.stack([x, m], 0)",
        "return x.reshape(x), x.reshape((x, 3)), mx.zeros((x, 3)), mx.zeros(y), mx.topk(x, y)",
        "return x.astype(y), x.astype(y.dtype), mx.zeros((3, 4), y), mx.zeros([3], mx.int32)",
        "return y.at[:, 0].add(x), y.at[..., 0].subtract(x), x.at[0].add(x)",
        "x[x > 0] = 1\nx[np.array([True, False])] = 0",
        "return x[[0, 1]], x[mx.array([0, 1])], x[np.int64(0)], x[y], x[y > 0], x[None], x[...]",
        "return y[x > 0], np.zeros(3)[np.arange(2)]",
        "return mx.softmax(x), mx.softmax(m[0]), mx.softmax(m, -1), mx.softmax(m, axis=None)",
        "return mx.softmax(mx.ones((1, 4))), nn.softmax(m), mx.argmax(m)",
        "return mx.linalg.inv(x, stream=mx.cpu)",
        "mx.set_default_device(mx.cpu)\nreturn mx.linalg.inv(x)",
        "return m[2], m[-3], m[:, 3], m[1:9], m[y], x[9], m[None][0]",
        "rows = [[], []]\nrows[1].append(1)\nreturn mx.array(rows)[1][-1]",
        "for i in range(9):\n    m = mx.concatenate([m, m])\nreturn m[5]",
        "if y:\n    m = mx.ones((9, 4))\nreturn m[5]",
        "if hasattr(mx, 'clear_cache'):\n    mx.clear_cache()\nelse:\n    mx.metal.clear_cache()",
        "try:\n    mx.clear_cache()\nexcept AttributeError:\n    mx.metal.clear_cache()",
        "clear = getattr(mx, 'clear_cache', None) or mx.metal.clear_cache\nclear()",
    ],
)
def test_near_misses(body: str) -> None:
    assert codes(function(body), FAMILIES) == []


@each_row(
    "owner, found",
    [
        ("mx.fast", []),
        ("mx.random", ["API-001"]),
    ],
)
def test_names_that_the_package_sets(tmp_path: Path, owner: str, found: list[str]) -> None:
    (tmp_path / "pack").mkdir(exist_ok=True)
    source = f"import mlx.core as mx\nfor name in NAMES:\n    setattr({owner}, name, str)\n"
    (tmp_path / "pack" / "__init__.py").write_text(source)
    use = tmp_path / "pack" / "use.py"
    use.write_text("import mlx.core as mx\n\ndef f(x):\n    return mx.fast.foo(x)\n")
    checked = check_source(use.read_text(), use, Project()).findings
    assert [one.code for one in checked if one.code == "API-001"] == found


def test_names_that_a_file_asks_for(tmp_path: Path) -> None:
    use = tmp_path / "use.py"
    use.write_text(
        "import mlx.core as mx\n\ndef has(name):\n    return hasattr(mx.fast, name)\n"
        "\ndef f(x):\n    return mx.fast.foo(x)\n"
    )
    assert check_source(use.read_text(), use, Project()).findings == ()


def test_a_transform_that_lacks_its_function_is_reported_once() -> None:
    body = "f = nn.value_and_grad(lambda p: x)\nreturn f(dict(y))"
    assert codes(function(body), FAMILIES) == ["API-003"]


def test_a_name_that_no_release_has_is_never_found() -> None:
    body = "try:\n    mx.clear_memory_cache()\nexcept Exception:\n    pass"
    assert codes(function(body), FAMILIES) == ["API-001"]


def test_a_guard_of_the_device_is_no_guard_of_a_name() -> None:
    body = "if mx.metal.is_available():\n    mx.metal.clear_cache()\n    mx.norm(x)"
    assert codes(function(body), FAMILIES) == ["DEPRECATED-001", "API-001"]


def test_a_missing_library() -> None:
    program = "try:\n    import mlx.core as m\nexcept ImportError:\n    m = None\nm.norm(1)\n"
    assert pointed(program, FAMILIES) == [("API-001", "m.norm")]


@each_row(
    "expression, help_text",
    [
        ("mx.norm(x)", "Use `mx.linalg.norm`"),
        ("mx.simplify(x)", "Remove it: `mx.compile` simplifies graphs (last in MLX 0.0.11)"),
        ("mx.nonzero(x)", "Keep the shape static with `mx.where`, or use `np.nonzero`"),
        ("mx.shape(x)", "Use `x.shape`"),
        ("mx.concatenat(x)", "Did you mean `mx.concatenate`?"),
        ("nn.Conv2D(1, 1, 1)", "Did you mean `nn.Conv2d`?"),
        ("x.numpy()", "Use `np.array(x)`"),
        ("x.float()", "Use `x.astype(mx.float32)`"),
        ("x.softmax(-1)", "Use `mx.softmax(x, ...)`"),
        ("mx.zeros((2,), device=y)", "MLX 0.32.4 takes: `shape`, `dtype`, `stream`"),
        ("x.astype(np.float32)", "Pass a dtype of MLX, such as `mx.float32`"),
        ("mx.zeros((mx.mean(m), 4))", "Pass Python ints, such as those of `.shape`"),
        ("mx.sum(x, dim=0)", "MLX 0.32.4 takes: `a`, `axis`, `keepdims`, `stream`"),
        (
            "y\noptim.clip_grad_norm(y, 1.0)",
            "Assign both results: `y, norm = optim.clip_grad_norm(y, ...)`",
        ),
    ],
)
def test_helps_name_the_replacement(expression: str, help_text: str) -> None:
    (finding,) = findings(function(f"n = {expression}"), FAMILIES)
    assert finding.help == help_text


@each_row(
    "expression, fixed, safe",
    [
        ("mx.norm(x)", "mx.linalg.norm(x)", False),
        ("mx.cat([x, x], 1)", "mx.concatenate([x, x], 1)", False),
        ("x.clone() + 1", "mx.array(x) + 1", False),
        ("x.unsqueeze(0)", "mx.expand_dims(x, 0)", False),
        ("m.permute(1, 0)", "m.transpose(1, 0)", False),
        (
            "(\n    mx.exp(\n        m,  # rows\n    )\n    .unsqueeze(0)\n)",
            "(\n    mx.expand_dims(mx.exp(\n        m,  # rows\n    ), 0)\n)",
            False,
        ),
        ("mx.random.uniform((y, 2))", "mx.random.uniform(shape=(y, 2))", False),
        ("x.numel()", "x.size", False),
        ("mx.sum(x, dim=0, keepdim=True)", "mx.sum(x, axis=0, keepdims=True)", False),
        ("x.size(0)", "x.shape[0]", False),
        ("x.size()", "x.shape", False),
        ("m.ndim()", "m.ndim", False),
        ("optim.SGD(lr=0.1)", "optim.SGD(learning_rate=0.1)", False),
        ("mx.softmax(m)", "mx.softmax(m, axis=-1)", False),
        ("mx.metal.get_peak_memory()", "mx.get_peak_memory()", True),
        ("mx.metal.device_info()", "mx.device_info()", False),
    ],
)
def test_fixes(expression: str, fixed: str, safe: bool) -> None:
    program = function(f"return {expression}")
    (finding,) = findings(program, FAMILIES)
    assert finding.fix is not None
    assert finding.fix.safe is safe
    source = "import mlx.core as mx\nimport mlx.nn as nn\n" + program
    for edit in sorted(finding.fix.edits, key=lambda e: -e.start):
        source = source[: edit.start] + edit.text + source[edit.end :]
    assert source.rstrip().endswith(f"return {fixed}".replace("\n", "\n    "))


def test_all_members_of_a_chain_are_reported_at_once() -> None:
    chain = "mx.cat([x, x]).float().abs().clone().numpy().unsqueeze(0)"
    found = [text.rpartition(".")[2] for _, text in pointed(function(f"return {chain}"), "API")]
    assert found == ["cat", "float", "clone", "numpy"]


def test_members_of_torch_that_a_layer_or_its_base_may_have() -> None:
    program = """
        from elsewhere import Base

        class A(nn.Module):
            def to(self, device):
                return self

        class B(Base, nn.Module):
            pass

        class C(nn.Module):
            def __init__(self):
                super().__init__()
                self.state_dict = dict

        def f(model, optimizer: nn.Module):
            A().to(1), B().to(1), C().state_dict(), model.to(1), optimizer.zero_grad()
            A().cuda()
    """
    assert pointed(program, FAMILIES) == [("API-002", "A().cuda")]


def test_layers_without_a_base_constructor() -> None:
    program = """
        class A(nn.Module):
            def __init__(self, n):
                '''Doc.'''
                self.n = n

        class B(A):
            def __init__(self):
                super(B, self).__init__(1)

        class C(A):
            def __init__(self):
                self.n = 1

        class D:
            def __init__(self):
                self.n = 1
    """
    found = findings(program, FAMILIES)
    assert [(f.code, "fix" if f.fix else None) for f in found] == [
        ("NN-001", "fix"),
        ("NN-001", None),
    ]


@each_row("owner", sorted(COMPLETE))
def test_the_table_has_all_names_of_a_module(owner: str) -> None:
    package, _, name = owner.removeprefix("mlx.").partition(".")
    module = importlib.import_module(f"mlx.{package}")
    module = getattr(module, name) if name else module
    names = [n for n in dir(module) if not n.startswith("_") and n not in IMPORTED_BY_MLX]
    assert [n for n in names if mlx_api.lookup(f"{owner}.{n}") is None] == []


def test_replacements_exist_and_what_they_replace_does_not() -> None:
    for name, other in replacements.RENAMED.items():
        assert mlx_api.lookup(name) is None, name
        assert mlx_api.lookup(other) is not None, name
    for name in (*replacements.ADVICE, *replacements.REMOVED):
        assert mlx_api.lookup(name) is None, name
    for name in (
        *replacements.MEMBERS,
        *replacements.MEMBERS_WITH_ARGUMENTS,
        *replacements.MEMBER_ADVICE,
    ):
        assert mlx_api.array_member(name) is None, name
    for name, new in replacements.DEPRECATED.items():
        assert mlx_api.lookup(name) is not None, name
        assert mlx_api.lookup(new.name) is not None, name


@each_row(
    "asking, found",
    [
        ("def convert(t):\n    return t.numpy() if hasattr(t, 'numpy') else t", 1),
        ("def convert(t):\n    return t.numpy() if hasattr(mx.array, 'numpy') else t", 0),
        ("HAS = hasattr(mx.array, 'numpy')", 0),
        ("mx.array.numpy = to_numpy", 0),
    ],
)
def test_members_that_a_file_asks_other_objects_for(asking: str, found: int) -> None:
    program = f"{asking}\n\ndef f(x: mx.array):\n    return x.numpy()\n"
    assert codes(program, "API-002") == ["API-002"] * found
    given = f"{asking}\n\ndef f(x: mx.array):\n    return x.numpy() if convert(x) else x\n"
    assert codes(given, "API-002") == []


@each_row(
    "lines, found",
    [
        ("def f(x):\n    return x.unsqueeze(0)", 1),
        ("def f(x):\n    return x.dtype.itemsize", 1),
        ("def f(x):\n    return x.itemsize, x.size(), x.unsqueeze", 0),
        ("import numpy as np\n\ndef f(x):\n    return x.unsqueeze(0), x.dtype.itemsize", 0),
        (
            (
                "class T:\n    def unsqueeze(self, axis):\n        return self\n\n"
                "def f(x):\n    return x.unsqueeze(0)"
            ),
            0,
        ),
    ],
)
def test_members_of_unknown_values_where_mlx_alone_has_arrays(lines: str, found: int) -> None:
    assert codes(lines, "API-002") == ["API-002"] * found


@each_row(
    "body, helps",
    [
        (
            "return sum(p.numel() for p in model.parameters())",
            ["Write `for name, array in tree_flatten(tree)`, and `array.size`"],
        ),
        (
            "for p in model.parameters():\n        p.requires_grad = False",
            ["Use `model.freeze()` or `model.unfreeze()` in place of the loop"],
        ),
        ("return sum(p.numel() for p in model.arrays())", ["Use `x.size`"]),
        ("import numpy\n    return sum(p.numel() for p in model.parameters())", []),
    ],
)
def test_loops_over_parameters_as_torch_has_them(body: str, helps: list[str]) -> None:
    found = findings(f"def f(model):\n    {body}\n", FAMILIES)
    assert [one.help for one in found] == helps


@each_row(
    "lines, found",
    [
        ("model.load_weights(p)\nmodel.update(read(p))", 1),
        ("tree.update(read(p))", 0),
        ("model.freeze()\nmodel.update(tree_unflatten(list(read(p).items())))", 0),
        ("net = nn.Sequential(nn.Linear(2, 2))\nnet.update(mx.load(p))", 1),
        ("net = nn.Linear(2, 2)\nnet.save_weights(p)\nnet.update(mx.load(p))", 0),
        ("net = Net()\nnet.update(mx.load(p))", 1),
        ("net = Flat()\nnet.save_weights(p)\nnet.update(mx.load(p))", 0),
        ("net = None\nif p:\n    net = Net()\n    net.update(mx.load(p))", 1),
        ("net = Net() if p else Flat()\nnet.update(mx.load(p))", 0),
    ],
)
def test_files_in_updates(lines: str, found: int) -> None:
    start = (
        "from mlx.utils import tree_unflatten\n\ndef read(p):\n    weights = None\n    try:\n"
        "        weights = mx.load(p)\n    except OSError:\n        pass\n    return weights\n\n"
        "class Flat(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.weight = mx.ones((2,))\n\n"
        "class Net(Flat):\n    def __init__(self):\n        super().__init__()\n"
        "        self.out = nn.Linear(2, 2)\n\n"
    )
    body = "\n".join(f"    {line}" for line in lines.splitlines())
    program = f"{start}def f(model, tree, p):\n{body}\n"
    assert codes(program, "API-022") == ["API-022"] * found
