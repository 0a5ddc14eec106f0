"""Tasks in chunks: each given once, groups kept together, nobody idle while there is work."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from embercoach.engine.workers import CHUNK_BYTES, CHUNK_TASKS, Chunks

TASKS = st.lists(st.tuples(st.integers(0, 2 * CHUNK_BYTES), st.sampled_from("abc")))


def taken(chunks: Chunks, last: str | None = None) -> list[tuple[object, list[int]]]:
    """Everything, as one process would take it."""
    found: list[tuple[object, list[int]]] = []
    group: object = last
    while chunks:
        group, chunk = chunks.take(group)
        found.append((group, chunk))
    return found


@given(TASKS)
def test_every_task_is_given_once_with_its_group(tasks: list[tuple[int, str]]) -> None:
    sizes, groups = [size for size, _ in tasks], [group for _, group in tasks]
    found = taken(Chunks(range(len(tasks)), sizes, groups))
    assert sorted(n for _, chunk in found for n in chunk) == list(range(len(tasks)))
    for group, chunk in found:
        assert {groups[n] for n in chunk} == {group}
        assert len(chunk) <= CHUNK_TASKS
        assert len(chunk) == 1 or sum(sizes[n] for n in chunk) <= CHUNK_BYTES
    order = [group for group, _ in found]
    assert len(set(order)) == len(list(groupby(order)))


def test_a_second_process_takes_up_another_group_and_then_helps() -> None:
    chunks = Chunks(range(5), [CHUNK_BYTES] * 5, "aaabb")
    assert chunks.take() == ("a", [0])
    assert chunks.take() == ("b", [3])
    assert chunks.take("b") == ("b", [4])
    assert chunks.take("b") == ("a", [1])
    assert chunks.take("a") == ("a", [2])
    assert not chunks


def test_what_a_dead_process_left_is_given_again_one_by_one() -> None:
    chunks = Chunks(range(3), [1, 1, 1], "aaa")
    group, numbers = chunks.take()
    assert not chunks
    chunks.put_back(group, numbers[1:])
    assert taken(chunks, "b") == [("a", [numbers[1]]), ("a", [numbers[2]])]
