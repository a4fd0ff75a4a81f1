"""The quick look of the same-fact rule at a neighbour: it only skips pairs that the whole rule finds different."""

from hypothesis import given
from hypothesis import strategies as st

from app.domain.memory import same_fact as rule
from app.domain.memory.phrases import read_words
from app.domain.memory.spellings import canonical_spelling

VOCABULARY = """a an the The user User's I I'm I've she's don't does do has have had goes go us won't will can't cannot
    not no two 2 3 12 12kg kg twelve first cat cats Cat box boxes bus jan January sept March today on in at and , and/or
    is are colour color Grey grey favourite e-mail email Nora Nora's likes like coffee tea . ? ! "quoted" Café ß"""
TEXTS = st.lists(st.sampled_from(VOCABULARY.split()), min_size=1, max_size=8).map(" ".join)


@given(TEXTS, TEXTS, st.sampled_from([str, str.upper, str.title]))
def test_only_skips_texts_with_words_of_their_own(a: str, b: str, spell: type[str]) -> None:
    a, b = canonical_spelling(a), canonical_spelling(spell(b))
    left, right = read_words(a), read_words(b)
    if rule._surely_differs(left, b):
        assert rule._has_own_words(left, right)
        assert not rule.only_amounts_differ(left, right)


def test_skips_most_neighbours() -> None:
    assert rule._surely_differs(read_words("Nora likes coffee in the morning"), "Nora plays tennis on Sundays")
    assert not rule._surely_differs(read_words("Nora has a cat"), "Nora has cats")
    assert not rule._surely_differs(read_words("Nora will have tea"), "Nora'll've tea")
