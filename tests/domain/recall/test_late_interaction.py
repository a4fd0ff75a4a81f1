"""Late interaction: the stored tokens of a text, and the comparison of two texts word by word."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.recall.late_interaction import (
    DIMENSION,
    drop_words,
    hashed_projection,
    is_content,
    match_words,
    max_sim,
    pack_tokens,
    tail_match,
)

TEXTS = st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, 2**32 - 1)))

HASHED = hashed_projection(384)


def tokens(shape: tuple[int, int]) -> np.ndarray:
    """Return `count` random token vectors of 384 numbers."""
    count, seed = shape
    return np.random.default_rng(seed).standard_normal((count, 384)).astype(np.float32)


def test_the_projection_is_orthonormal_and_never_another_one() -> None:
    for width in (384, 768, 1024):
        basis = hashed_projection(width).columns
        assert basis.shape == (width, DIMENSION)
        assert np.abs(basis.T @ basis - np.eye(DIMENSION)).max() < 1e-5
    # tokens stay stored for years: another projection would make them noise
    coarse = np.rint(hashed_projection(384).columns.astype(np.float64) * 1000).astype(np.int16)
    assert hashlib.sha256(coarse.tobytes()).hexdigest()[:16] == "98f36383d8888e50"


@given(TEXTS)
def test_a_text_is_one_int8_vector_a_token_close_to_the_projected_one(shape: tuple[int, int]) -> None:
    given_tokens = tokens(shape)
    packed = pack_tokens(given_tokens, HASHED)
    assert len(packed) == shape[0] * DIMENSION
    codes = np.frombuffer(packed, np.int8).reshape(-1, DIMENSION).astype(np.float32)
    exact = given_tokens @ hashed_projection(384).columns
    cosines = (codes * exact).sum(axis=1) / np.linalg.norm(codes, axis=1) / np.linalg.norm(exact, axis=1)
    assert cosines.min() > 0.99


@given(TEXTS, TEXTS)
def test_the_end_of_a_text_is_compared_place_by_place(asked: tuple[int, int], before: tuple[int, int]) -> None:
    query, other = (pack_tokens(tokens(shape), HASHED) for shape in (asked, before))
    assert tail_match(query, other + query) == pytest.approx(1, abs=0.02)
    both = (np.frombuffer(text, np.int8).reshape(-1, DIMENSION) / 254.0 for text in (query, other))
    words, last = next(both), next(both)[-asked[0] :]
    expected = (words * last).sum(axis=1).mean() if before[0] >= asked[0] else 0
    assert tail_match(query, other) == pytest.approx(expected, abs=1e-5)
    assert tail_match(query, None) == tail_match(b"", query) == 0


@given(TEXTS, st.lists(st.none() | TEXTS, max_size=8))
def test_max_sim_is_the_mean_of_each_words_best(asked: tuple[int, int], shapes: list[tuple[int, int] | None]) -> None:
    query = pack_tokens(tokens(asked), HASHED)
    documents = [None if shape is None else pack_tokens(tokens(shape), HASHED) for shape in shapes]
    found = max_sim(query, documents)
    asked_words = np.frombuffer(query, np.int8).reshape(-1, DIMENSION) / 254.0
    for value, document in zip(found, documents, strict=True):
        if document is None:
            assert value is None
            continue
        words = np.frombuffer(document, np.int8).reshape(-1, DIMENSION) / 254.0
        best = [max(float(a @ w) for w in words) for a in asked_words]
        assert value == pytest.approx(sum(best) / len(best), abs=1e-5)


@given(TEXTS, st.lists(st.none() | TEXTS, min_size=1, max_size=8))
def test_what_a_query_covers_is_the_match_of_the_document_with_it(
    asked: tuple[int, int], shapes: list[tuple[int, int] | None]
) -> None:
    query = pack_tokens(tokens(asked), HASHED)
    documents = [None if shape is None else pack_tokens(tokens(shape), HASHED) for shape in shapes]
    if (matches := match_words(query, documents)) is None:
        assert not any(documents)
        return
    for covered, document in zip(matches.covered.tolist(), documents, strict=True):
        assert (
            np.isnan(covered) if document is None else covered == pytest.approx(max_sim(document, [query])[0], abs=1e-5)
        )


def test_nothing_to_compare_is_no_value() -> None:
    some = pack_tokens(tokens((2, 1)), HASHED)
    assert max_sim(b"", [some, None]) == [None, None]
    assert max_sim(some, [b"", None]) == [None, None]
    assert max_sim(some, []) == []
    [same] = max_sim(some, [some])
    assert same == pytest.approx(1, abs=0.03)


def test_words_can_be_left_out_but_never_all_of_them() -> None:
    three = pack_tokens(tokens((3, 2)), HASHED)
    words = ("caroline", "paints", "caroline")
    assert drop_words(three, words, {"caroline"}) == three[DIMENSION : 2 * DIMENSION]
    assert drop_words(three, words, {"melanie"}) == three
    assert drop_words(three, words, {"caroline", "paints"}) == three
    assert drop_words(three, (), {"caroline"}) == three


def test_content_is_neither_grammar_nor_punctuation_nor_a_mark_of_the_model() -> None:
    assert [is_content(token) for token in ("oat", "##milk", "7", "née")] == [True] * 4
    assert [is_content(token) for token in ("the", "[CLS]", "[UNK]", "?", "'", "not")] == [False] * 6
