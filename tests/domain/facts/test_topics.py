"""Topics of facts: the nouns that name them, and their names for people."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.facts.nouns import to_plural, to_singular
from app.domain.facts.topics import FactTopics
from bench.fact_rules import load_topics

TOPICS = load_topics()


@pytest.mark.parametrize(
    ("noun", "key"),
    [
        ("show", "favorite_tv"),
        ("tv show", "favorite_tv"),
        ("colors", "favorite_colors"),
        ("colours", "favorite_colors"),
        ("crypto coin", "favorite_cryptos"),
        ("sports team", "favorite_teams"),
        ("us states", "favorite_states"),
        ("chocolate", "favorite_candies"),
        ("tea", "favorite_teas"),
        ("ice cream flavors", "favorite_ice_cream_flavors"),
        ("rock songs", "favorite_rock_songs"),
        ("hobby", "favorite_hobbies"),
        ("dish", "favorite_foods"),
        ("thing", None),
        ("", None),
    ],
)
def test_a_noun_names_its_topic(noun: str, key: str | None) -> None:
    assert TOPICS.find_topic(noun.split()) == key


@pytest.mark.parametrize(
    ("key", "name", "singular"),
    [
        ("favorite_colors", "favorite colors", "favorite color"),
        ("favorite_tv", "favorite tv shows", "favorite tv show"),
        ("favorite_candies", "favorite candies", "favorite candy"),
        ("favorite_movies", "favorite movies", "favorite movie"),
        ("favorite_ice_cream_flavors", "favorite ice cream flavors", "favorite ice cream flavor"),
        ("favorite_hobbies", "favorite hobbies", "favorite hobby"),
        ("favorite_music", "favorite music", "favorite music"),
    ],
)
def test_a_topic_has_a_name_for_people(key: str, name: str, singular: str) -> None:
    assert (TOPICS.topic_name(key), TOPICS.singular_name(key)) == (name, singular)


@given(st.text(max_size=30))
def test_a_plural_is_the_same_whichever_form_it_comes_from(word: str) -> None:
    word = word.casefold()
    assert to_plural(to_singular(word)) == to_plural(word)


@pytest.mark.parametrize("topics", [{"colors": ("color",)}, {"favorite_colors": ()}])
def test_a_topic_needs_the_prefix_and_a_noun(topics: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(ValueError, match="topic"):
        FactTopics(topics)


@given(st.text(max_size=200))
def test_no_text_raises(text: str) -> None:
    assert (TOPICS.find_topic(text.casefold().split()) or "favorite_").startswith("favorite_")


@given(st.from_regex(r"[a-z0-9_]{1,60}", fullmatch=True))
def test_a_canonical_key_is_its_own_canonical_key(key: str) -> None:
    if (known := TOPICS.canonical_key(key)) is not None:
        assert TOPICS.canonical_key(known) == known
