"""Questions for stored favorites: which topics and ranks each asks for, and which fall through to search."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.facts.questions import parse_question
from app.domain.facts.statements import read_statements
from bench.fact_rules import load_topics

TOPICS = load_topics()
Part = tuple[str, str | None, int | None]


def parse_text(text: str) -> list[Part]:
    """Return the parts of a question."""
    return [(part.kind, part.topic_key, part.rank) for part in parse_question(text, TOPICS)]


SECOND: Part = ("rank", "favorite_colors", 2)
ALL: Part = ("list", "favorite_colors", None)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("what's my second favorite color?", SECOND),
        ("What is my #2 color?", SECOND),
        ("whats my 2nd fav colour pls", SECOND),
        ("my second favorite color", SECOND),
        ("Hi! Which color is my second favorite?", SECOND),
        ("what's number two on my list of favorite colors?", SECOND),
        ("which of my favorite colors is second?", SECOND),
        ("can you tell me what my second favorite color is?", SECOND),
        ("what are my favorite colors?", ALL),
        ("List my favorite colors, please.", ALL),
        ("list my colors", ALL),
        ("my favorite colors?", ALL),
        ("Do you remember my favorite colors?", ALL),
        ("I'm at the shop. Remind me, what are my favorite colors? Thanks!", ALL),
        ("what's on my list of favorite colors?", ALL),
        ("what are my top 3 colors?", ("slice", "favorite_colors", 3)),
        ("my top three favorite colors", ("slice", "favorite_colors", 3)),
        ("what's my favorite color?", ("first", "favorite_colors", None)),
        ("which color is my favorite?", ("first", "favorite_colors", None)),
        ("tell me my favorite series", ("list", "favorite_tv", None)),
        ("what's my favorite series?", ("first", "favorite_tv", None)),
        ("who is my favorite singer?", ("first", "favorite_singers", None)),
        ("what's my eleventh favorite color?".replace("eleventh", "11th"), ("rank", "favorite_colors", 11)),
    ],
)
def test_a_question_names_its_topic_and_rank(text: str, part: Part) -> None:
    assert parse_text(text) == [part]


def test_several_topics_are_asked_at_once() -> None:
    states: Part = ("list", "favorite_states", None)
    assert parse_text("what are my favorite colors and favorite states?") == [ALL, states]
    assert parse_text("what are my favorite colors and states?") == [ALL, states]
    assert parse_text("what are my favorite colors? And my favorite states?") == [ALL, states]
    assert parse_text("what's my favorite movie and my second favorite color?") == [
        ("first", "favorite_movies", None),
        SECOND,
    ]
    assert parse_text("what are my first and second favorite colors?") == [("rank", "favorite_colors", 1), SECOND]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("what's my second favorite?", ("rank", None, 2)),
        ("what's the second one?", ("rank", None, 2)),
        ("what was #2?", ("rank", None, 2)),
        ("and the second?", ("rank", None, 2)),
        ("what are my top 3?", ("slice", None, 3)),
        ("list them", ("list", None, None)),
        ("what's my favorite?", ("first", None, None)),
    ],
)
def test_a_question_without_a_topic_asks_for_the_last_one(text: str, part: Part) -> None:
    assert parse_text(text) == [part]


@pytest.mark.parametrize(
    "text",
    [
        "why is red my favorite color?",
        "how many favorite colors do I have?",
        "is blue my favorite color?",
        "do I have a favorite color?",
        "what's Ben's favorite color?",
        "what's your favorite color?",
        "what's our favorite color?",
        "what colors do I like?",
        "plan a dinner around my favorite foods",
        "Plan a dinner. What are my favorite foods?",
        "tell me about my favorite city",
        "what goes with my favorite color?",
        "what's my favorite color for walls?",
        "what was my favorite color last year?",
        "what's my favorite color called in French?",
        "what's my least favorite color?",
        "what's my favorite color and when did I tell you?",
        "what's my favorite part of the day?",
        "what's the second step?",
        "the second world war",
        "what is #3 on the agenda?",
        "list them by price",
        "second",
        "which what's is #2?",
        "translate: what's my favorite color?",
        "my favorite color is blue",
        "",
    ],
)
def test_everything_else_falls_through_to_search(text: str) -> None:
    assert parse_text(text) == []


_PIECES = st.sampled_from(
    [
        *("what's ", "my ", "favorite ", "second ", "color", "colors", " and ", "?", "list ", "them", "#2", "top 3 "),
        *("which ", " is ", "the ", "one", "number ", "show", "on my list of ", '"', "\n", "²", "İ", ". "),
    ]
)


@given(st.one_of(st.text(max_size=200), st.lists(_PIECES, max_size=20).map("".join)))
def test_no_text_raises_and_every_part_is_valid(text: str) -> None:
    for part in parse_question(f"what's my favorite {text}", TOPICS) + parse_question(text, TOPICS):
        assert (part.rank is None) == (part.kind in {"list", "first"})


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("can u list my fav movies plz", ["list"]),
        ("top 2 movies?", ["slice"]),
        ("what's my top color", ["first"]),
        ("I forgot my favorite color, what was it?", ["first"]),
        ("what is my favorite color 🎨?", ["first"]),
        ("Hi! Hope you are well. What is my favorite color? Thanks!", ["first"]),
        ("what's my favorite food and tea?", ["first", "first"]),
        ("Hi. What's my favorite color? What's my second favorite movie? Thanks", ["first", "rank"]),
    ],
)
def test_a_casual_question_is_answered(text: str, kinds: list[str]) -> None:
    assert [part.kind for part in parse_question(text, load_topics())] == kinds


@pytest.mark.parametrize(
    "text",
    [
        "what are all my favorite colors except blue?",
        "what are the top 10 movies?",
        "top 10 movies of 1999?",
        "what's my favorite color and birthday?",
    ],
)
def test_a_question_with_another_condition_falls_through(text: str) -> None:
    assert parse_question(text, load_topics()) == ()


def test_words_that_may_end_a_question_are_tried_once() -> None:
    assert parse_question(f"what is my favorite color {'right now ' * 50}?", TOPICS)
    assert not parse_question(f"what is my favorite color {'right now ' * 50}x", TOPICS)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "waht is my favorite color",
            "wat r my fav movies",
            "whihc is my favorite color",
            "wich are my favorite colors",
        ),
        *("wat's my fav movie", "wut r my fav movies", "whaat is my favorite food"),
    ],
)
def test_a_misspelt_question_states_nothing(text: str) -> None:
    assert parse_question(text, TOPICS)
    assert read_statements(text, TOPICS) == ()


@pytest.mark.parametrize(
    "value",
    [
        "teal",
        "Snow",
        "Lisp",
        "Lost",
        "wheat",
        "Wham",
        "Watt",
        "Show",
        "Gave",
        "Nape",
        "Till",
        "Show Me",
        "Recall",
        "Remind Me",
    ],
)
def test_a_value_that_resembles_the_opening_of_a_question_is_stated(value: str) -> None:
    text = f"{value} is my favorite color."
    assert parse_question(text, TOPICS) == ()
    (stated,) = read_statements(text, TOPICS)
    assert stated.entries == ((None, value),)


@pytest.mark.parametrize("text", ["my fav drink is wat", "my favorite color is what", "My favorite food: which"])
def test_a_question_word_is_no_value(text: str) -> None:
    assert read_statements(text, TOPICS) == ()
