"""Versions of names: the same as copies of a dictionary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from embercoach.analysis.evaluate.names import Names
from embercoach.analysis.values.joins import join
from embercoach.analysis.values.lattice import FLOAT, INT, NONE, STR, Value
from embercoach.analysis.values.persistent_maps import Version

KEYS = st.sampled_from(["a", "b", "a.x", "a.x.y", "a.z", *(f"n{i}" for i in range(40))])
VALUES = st.sampled_from([INT, FLOAT, NONE, STR])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, VALUES),
        st.tuples(st.just("remove"), KEYS, st.none()),
        st.tuples(st.just("forget"), KEYS, st.none()),
        st.tuples(st.just("keep"), st.none(), st.none()),
        st.tuples(st.just("restore"), st.integers(0, 9), st.none()),
        st.tuples(st.just("join"), st.integers(0, 9), st.integers(0, 9)),
    ),
    max_size=40,
)


def joined(one: dict[str, Value], other: dict[str, Value]) -> dict[str, Value]:
    """What either of two branches may have bound."""
    found = {k: join(one[k], other[k]) if k in other else one[k] for k in one}
    found |= {k: v for k, v in other.items() if k not in one}
    return {k: v for k, v in found.items() if "." not in k or (k in one and k in other)}


@given(STEPS)
def test_versions_are_copies(steps: list[tuple[str, object, object]]) -> None:
    names = Names()
    model: dict[str, Value] = {}
    kept: list[tuple[Version, dict[str, Value]]] = [(names.version(), {})]
    for kind, first, second in steps:
        if kind == "set":
            assert isinstance(first, str)
            assert isinstance(second, Value)
            names[first] = model[first] = second
        elif kind == "remove":
            names.remove(str(first))
            model.pop(str(first), None)
        elif kind == "forget":
            names.forget_below(str(first))
            model = {k: v for k, v in model.items() if not k.startswith(f"{first}.")}
        elif kind == "keep":
            kept.append((names.version(), dict(model)))
        elif kind == "restore":
            assert isinstance(first, int)
            version, known = kept[first % len(kept)]
            names.restore(version)
            model = dict(known)
        else:
            assert isinstance(first, int)
            assert isinstance(second, int)
            one, other = kept[first % len(kept)], kept[second % len(kept)]
            names.join([one[0], other[0]])
            model = joined(one[1], other[1])
        assert dict(names) == model
