"""Layers: parameters of ``nn.Module.__call__``, sublayers, weights."""

from __future__ import annotations

import pytest

from tests.analysis.inference import all_revealed, revealed


def in_call(body: str, init: str = "pass", signature: str = "self, x") -> str:
    return f"""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {init}
    def __call__({signature}):
        {body}
"""


def test_the_first_parameter_of_a_layer_is_an_array() -> None:
    assert revealed(in_call("reveal(x)")) == "array"


@pytest.mark.parametrize("base", ["nn.Module", "nn.Linear", "mlx.nn.Module", "Module", "Base"])
def test_any_way_to_be_a_layer(base: str) -> None:
    source = f"""
        import mlx.nn
        from mlx.nn import Module
        class Base(Module): pass
        class Net({base}):
            def __call__(self, x):
                reveal(x)
    """
    assert revealed(source) == "array"


@pytest.mark.parametrize("base", ["torch.nn.Module", "Foreign", "object"])
def test_no_layer_of_mlx(base: str) -> None:
    assert revealed(f"class Net({base}):\n    def __call__(self, x):\n        reveal(x)") == "?"


def test_no_call_method() -> None:
    assert revealed("class Net(nn.Module):\n    def prepare(self, x):\n        reveal(x)") == "?"


def test_a_body_that_asks_for_what_no_array_has() -> None:
    assert revealed(in_call("if x.startswith('a'): reveal(x)")) == "?"


def test_optional_parameters_stay_open() -> None:
    source = in_call("reveal(mask); reveal(cache)", signature="self, x, mask=None, *, cache=None")
    assert all_revealed(source) == ["? | None", "? | None"]


def test_an_annotation_says_otherwise() -> None:
    assert revealed(in_call("reveal(x)", signature="self, x: str")) == "str"


@pytest.mark.parametrize(
    ("layer", "expression"),
    [
        ("nn.Linear(2, 3)", "self.l(x)"),
        ("nn.Linear(2, 3)", "self.l.weight"),
        ("nn.Linear(2, 3)", "self.l.bias"),
        ("nn.RMSNorm(3)", "self.l(x)"),
        ("nn.Embedding(2, 3)", "self.l.as_linear(x)"),
        ("nn.Sequential(nn.Linear(2, 3), nn.ReLU())", "self.l(x)"),
        ("[nn.Linear(2, 3)]", "self.l[0](x)"),
        ("[nn.Linear(2, 3) for _ in range(3)]", "self.l[1](x)"),
        ("{'a': nn.Linear(2, 3)}", "self.l['a'](x)"),
        ("nn.silu", "self.l(x)"),
        ("mx.ones((2, 2))", "x @ self.l"),
        ("mx.ones((2, 2)) if c else None", "x @ self.l"),
        ("nn.Linear(2, 3)", "self.l(x).astype(mx.float16).sum(-1, keepdims=True)"),
    ],
)
def test_a_sublayer_yields_an_array(layer: str, expression: str) -> None:
    assert revealed(in_call(f"reveal({expression})", f"self.l = {layer}")).startswith("array")


def test_a_loop_over_sublayers() -> None:
    source = in_call(
        "for l in self.ls:\n            x = l(x)\n        reveal(x)",
        "self.ls = [nn.Linear(2, 3)]",
    )
    assert revealed(source) == "array"


def test_a_layer_of_the_file_inside_a_layer() -> None:
    source = """
        class A(nn.Module):
            def __call__(self, x):
                return x * 2, x.shape
        class B(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = A()
            def __call__(self, x):
                y, shape = self.a(x)
                reveal(y)
                reveal(shape)
    """
    assert all_revealed(source) == ["array", "shape[int]"]


def test_parameters_are_a_tree_of_arrays() -> None:
    source = """
        from mlx.utils import tree_flatten, tree_map
        net = nn.Linear(2, 3)
        reveal(net.parameters())
        for name, value in tree_flatten(net.parameters()):
            reveal(name)
            reveal(value)
        reveal(tree_map(lambda p: p.astype(mx.float16), net.parameters()))
        reveal(net.parameters()["weight"])
    """
    assert all_revealed(source) == ["tree", "str", "array", "tree", "array | tree"]


def test_super_call() -> None:
    source = """
        class Net(nn.Linear):
            def __call__(self, x):
                reveal(super().__call__(x))
    """
    assert revealed(source) == "array"


def test_functions_of_layers_keep_the_dtype() -> None:
    assert revealed("reveal(nn.relu(mx.ones(2, mx.float16)))") == "array[float16]"


def test_a_linear_layer_does_not_tell_its_dtype() -> None:
    # Its weights may have been cast or quantised.
    assert revealed("reveal(nn.Linear(2, 3)(mx.ones(2)))") == "array"
