"""Layers: parameters of ``nn.Module.__call__``, sublayers, weights."""

from __future__ import annotations

from tests.analysis.inference import all_revealed, revealed


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
