"""Products of tiles that share an instruction of the tensor cores: which ones do, in PTX."""

from __future__ import annotations

import pytest

from embercoach.cuda.tile_products import joined

ROWS = "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32"
DEPTH = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"


def product(total: str, first: str, second: str) -> str:
    """An instruction that uses eight rows: its sum and factors are named by letters."""
    sums = f"{{%{total}0, %{total}1, %{total}2, %{total}3}}"
    return f"{ROWS} {sums}, {{%{first}, %{first}x}}, {{%{second}}}, {sums};"


def whole(totals: str, first: str, second: str, name: str = ROWS) -> str:
    """An instruction of two sums, and registers of its factors."""
    sums = ", ".join(f"%{total}{i}" for total in totals for i in (0, 1))
    factors = (", ".join(f"%{one}" for one in names) for names in (first, second))
    return f"{name} {{{sums}}}, {', '.join(f'{{{one}}}' for one in factors)}, {{{sums}}};"


def lines_of(*lines: str) -> list[str]:
    return joined("\n".join(lines)).splitlines()


def test_products_of_one_second_factor_share_the_rows():
    found = lines_of(product("p", "a", "b"), product("q", "a", "c"), product("r", "d", "b"))
    assert found == [whole("pr", "ad", "b"), product("q", "a", "c")]


def test_products_that_follow_in_one_sum_share_the_depth():
    first = [product("p", "a", "b"), product("q", "c", "b")]
    second = [product("p", "d", "e"), product("q", "f", "e")]
    load = "ld.shared.b32 \t%e, [%address];"
    assert lines_of(*first, load, *second) == [load, whole("pq", "acdf", "be", DEPTH)]


@pytest.mark.parametrize(
    "between",
    [
        "st.global.b32 \t[%address], %q1;",
        "ld.shared.b32 \t%a, [%address];",
        "ld.shared.v2.b32 \t{%z, %b}, [%address];",
        product("q", "g", "h"),
        "$L__BB0_2:",
        "@%p1 bra \t$L__BB0_2;",
        "bra.uni \t$L__BB0_2;",
    ],
    ids=["sum read", "first changed", "second changed", "sum goes on", "label", "branch", "jump"],
)
def test_nothing_moves_past_what_it_depends_on(between: str):
    first = [product("p", "a", "b"), product("q", "c", "b")]
    second = [product("p", "d", "e"), product("q", "f", "e")]
    expected = [whole("pq", "ac", "b"), between, whole("pq", "df", "e")]
    assert lines_of(*first, between, *second) == expected


def test_products_of_one_sum_stay_in_order():
    lines = [product("p", "a", "b"), product("q", "c", "d"), product("q", "e", "b")]
    assert lines_of(*lines) == lines


def test_other_text_is_kept():
    lines = [".version 8.0", "add.f32 \t%f1, %f2, %f3;", "ret;"]
    assert lines_of(*lines) == lines
