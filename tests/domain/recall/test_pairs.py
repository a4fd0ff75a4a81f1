"""Pairs of texts that agree."""

import numpy as np

from app.domain.recall.pairs import equal_pairs


def test_equal_keys_are_pairs_and_what_is_unknown_equals_nothing() -> None:
    found = equal_pairs([("a", "b"), None, ("a", "b"), (), None])
    expected = np.eye(5, dtype=np.bool_)
    expected[[0, 2], [2, 0]] = True
    expected[[1, 4], [1, 4]] = False
    np.testing.assert_array_equal(found, expected)


def test_no_keys_are_no_pairs() -> None:
    assert equal_pairs([]).shape == (0, 0)
