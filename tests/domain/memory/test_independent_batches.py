"""Batches of texts that can be written together."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from app.domain.memory.independent_batches import independent_batches

CLOSEST, MOST = 0.5, 4


def unit(*angles: float) -> list[NDArray[np.float32]]:
    return [np.array([np.cos(a), np.sin(a)], dtype=np.float32) for a in angles]


def test_texts_far_apart_go_together_and_a_close_one_begins_a_new_run() -> None:
    vectors = unit(0, np.pi / 2, np.pi, 0.1)
    assert independent_batches(vectors, [b"a", b"b", b"c", b"d"], CLOSEST, 9) == [range(3), range(3, 4)]


def test_equal_texts_never_go_together_however_far_their_vectors() -> None:
    assert independent_batches(unit(0, np.pi / 2), [b"a", b"a"], CLOSEST, 9) == [range(1), range(1, 2)]


def test_what_is_compared_with_nothing_goes_with_everything() -> None:
    assert independent_batches(unit(0, 0, 0), [None, b"a", None], CLOSEST, 9) == [range(3)]


def test_nothing_makes_no_run() -> None:
    assert independent_batches([], [], CLOSEST, 9) == []


@given(st.lists(st.tuples(st.floats(0, 6.28), st.sampled_from([None, b"a", b"b", b"c", b"d"])), max_size=30))
def test_runs_cover_everything_in_order_and_hold_no_two_close_ones(texts: list[tuple[float, bytes | None]]) -> None:
    vectors, keys = unit(*(angle for angle, _ in texts)), [key for _, key in texts]
    runs = independent_batches(vectors, keys, CLOSEST, MOST)
    assert [at for run in runs for at in run] == list(range(len(texts)))
    for run in runs:
        assert 1 <= len(run) <= MOST
        compared = [at for at in run if keys[at] is not None]
        pairs = [(a, b) for a in compared for b in compared if a < b]
        assert all(keys[a] != keys[b] and float(vectors[a] @ vectors[b]) < CLOSEST for a, b in pairs)
