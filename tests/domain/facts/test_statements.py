"""Statements of a user about favorites: what each form stores, and what looks like one and stores nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.facts.fact import FactOperation
from app.domain.facts.statements import read_statements
from bench.fact_rules import load_topics

TOPICS = load_topics()


def read_text(text: str) -> list[tuple[object, ...]]:
    """Return each operation as its name, topic and the ranked values, the values or the ranks."""
    return [_shortened(operation) for operation in read_statements(text, TOPICS)]


def _shortened(operation: FactOperation) -> tuple[object, ...]:
    ranked = {rank: value for rank, value in operation.entries if rank is not None}
    values = [value for rank, value in operation.entries if rank is None]
    return operation.op, operation.topic_key, ranked or values or list(operation.ranks)


RED_BLUE = {1: "red", 2: "blue"}


@pytest.mark.parametrize(
    "text",
    [
        "My favorite colors are red and blue.",
        "my favourite colours are red & blue",
        "My fav colors are: red; blue",
        "Favorite colors: red, blue",
        "My favorite colors = red, blue",
        "My favorite colors, in order, are red and blue",
        "Here are my favorite colors: red, blue",
        "My all-time favorite colors are definitely red and blue, thanks!",
        "Red and blue are my favorite colors, aren't they lovely.".replace("Red", "red"),
        "My favorite colors are 1) red 2) blue",
        "My favorite colors are 1)red, 2)blue",
        "My favorite colors are 1. red 2. blue. I like them.",
        "My favorite colors are 1: red 2: blue",
        "My favorite colors are #1 red #2 blue",
        "My favorite colors are first: red, second: blue",
        "My favorite colors:\n1) red\n2) blue",
        "My favorite colors:\n\n1. red\n\n2. blue\n\nThe weather is fine.",
        "## My favorite colors\n#1 red\n#2 blue",
        "My favorite colors:\n- red\n- blue",
        "**My favorite colors:**\n* **red**\n* `blue`",
        "My favorite colors are red because it glows.".replace("because it glows", "and blue because they glow"),
        "My favorite colors are red and blue, but I hate pink",
        "My favorite colors are red (like a rose) and blue (navy)",
        "My favorite colors are red and blue so use them",
        "Hi, I'm new :) My favorite colors are red and blue",
        "Can you remember that my favorite colors are red and blue?",
        "MY FAVORITE COLORS: red, blue",
        "I paint at night, and my favorite colors are red and blue.",
    ],
)
def test_a_list_in_every_form_has_its_ranks(text: str) -> None:
    assert read_text(text) == [("list", "favorite_colors", RED_BLUE)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("My favorite food is mac and cheese", "mac and cheese"),
        ("My favorite food is pizza, and I live in Lyon.", "pizza"),
        ("My favorite food is pizza because it is hot", "pizza"),
        ("My favorite food is pizza, which I bake", "pizza"),
        ("My favorite food is pizza but I like rice too", "pizza"),
        ('My favorite food is "pizza".', "pizza"),
        ("My favorite food is **pizza**!!!", "pizza"),
        ("My favorite food is pizza 🍕", "pizza 🍕"),
        ("My favorite food is pizza :)", "pizza"),
        ("My favorite food is 寿司", "寿司"),
        ("Pizza is my favorite food", "Pizza"),
        ("MY FAVORITE FOOD IS PIZZA AND I LIKE IT", "PIZZA"),
        ("My favorite food is pizza, what should I cook?", "pizza"),
    ],
)
def test_a_single_value_is_stored_as_the_user_spelled_it(text: str, value: str) -> None:
    assert read_text(text) == [("set", "favorite_foods", [value])]


@pytest.mark.parametrize(
    ("text", "topic", "value"),
    [
        ("My favorite movie is When Harry Met Sally", "favorite_movies", "When Harry Met Sally"),
        ("My favorite movie is E.T. I love it.", "favorite_movies", "E.T."),
        ("My favorite author is J.K. Rowling.", "favorite_authors", "J.K. Rowling"),
        ("My favorite song is Me, Myself and I", "favorite_songs", "Me, Myself and I"),
        ("My favorite number is 7. I like it.", "favorite_numbers", "7"),
        ("My favorite show is Mr. Robot.", "favorite_tv", "Mr. Robot"),
        ("My favorite rock song is Hush", "favorite_rock_songs", "Hush"),
    ],
)
def test_titles_and_names_stay_whole(text: str, topic: str, value: str) -> None:
    assert read_text(text) == [("set", topic, [value])]


@pytest.mark.parametrize(
    "text",
    [
        "My second favorite color is teal.",
        "My 2nd favorite color is teal, not green",
        "My #2 favorite color is teal",
        "My number two favorite color is teal",
        "My favorite color #2 is teal",
        "teal is my second favorite color",
        "Change my second favorite color to teal",
        "Can you change #2 of my favorite colors to teal?",
        "My favorite colors:\n2. teal",
    ],
)
def test_one_rank_is_put(text: str) -> None:
    assert read_text(text) == [("put", "favorite_colors", {2: "teal"})]


def test_a_value_is_the_first_one_if_its_message_names_other_ranks() -> None:
    assert read_text("My favorite color is red, and my second favorite color is blue.") == [
        ("put", "favorite_colors", {1: "red"}),
        ("put", "favorite_colors", {2: "blue"}),
    ]


def test_a_top_list_puts_its_ranks_only() -> None:
    assert read_text("My top 2 colors are red, blue and green") == [("put", "favorite_colors", RED_BLUE)]
    assert read_text("My top two favorite teas: mate, chai") == [("put", "favorite_teas", {1: "mate", 2: "chai"})]
    assert read_text("My top 2 teas: mate, chai") == []  # an unknown noun needs the word favorite


@pytest.mark.parametrize(
    "text",
    [
        "My favorite colors also include teal and gold",
        "Add teal and gold to my favorite colors",
        "Could you please add teal and gold to my list of favorite colors?",
        "teal and gold are also my favorite colors",
        "teal and gold are two of my favorite colors",
    ],
)
def test_values_are_appended(text: str) -> None:
    assert read_text(text) == [("append", "favorite_colors", ["teal", "gold"])]


def test_a_sentence_with_also_appends_to_the_statement_before_it() -> None:
    stored = ("list", "favorite_colors", RED_BLUE)
    assert read_text("My favorite colors are red and blue. Also teal.") == [
        stored,
        ("append", "favorite_colors", ["teal"]),
    ]
    assert read_text("My favorite colors are red and blue. Also remind me to call Ben.") == [stored]
    assert read_text("My favorite colors are red and blue. It rains. Also teal.") == [stored]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("Remove teal from my favorite colors", ["teal"]),
        ("teal is no longer my favorite color", ["teal"]),
        ("teal is no longer one of my favorite colors.", ["teal"]),
        ("My favorite colors no longer include teal", ["teal"]),
        ("Remove my third favorite color", [3]),
        ("Remove #3 from my favorite colors", [3]),
        ("Forget my favorite colors", []),
        ("I no longer have a favorite color", []),
    ],
)
def test_values_ranks_and_topics_are_removed(text: str, what: list[object]) -> None:
    assert read_text(text) == [("remove", "favorite_colors", what)]


@pytest.mark.parametrize("text", ["Swap my first and third favorite colors", "Swap #1 and #3 of my favorite colors"])
def test_two_ranks_are_swapped(text: str) -> None:
    assert read_text(text) == [("swap", "favorite_colors", [1, 3])]


def test_a_swap_and_a_removal_without_a_topic_need_a_whole_sentence() -> None:
    assert read_text("Thanks! Swap first and third.") == [("swap", None, [1, 3])]
    assert read_text("Remove #2.") == [("remove", None, [2])]
    assert read_text("Swap first and third paragraph.") == []
    assert read_text("Remove #2 from the agenda.") == []


def test_each_topic_of_a_message_is_read() -> None:
    text = "My favorite colors are red and blue, and my favorite food is pizza. Oslo is my favorite city."
    assert read_text(text) == [
        ("list", "favorite_colors", RED_BLUE),
        ("set", "favorite_foods", ["pizza"]),
        ("set", "favorite_cities", ["Oslo"]),
    ]


def test_the_first_value_of_a_rank_wins_unless_a_later_one_corrects_it() -> None:
    assert read_text("My favorite colors:\n1. red\n1. pink\n2. blue") == [("list", "favorite_colors", RED_BLUE)]
    assert read_text("My second favorite color is red. My second favorite color is pink.") == [
        ("put", "favorite_colors", {2: "red"})
    ]
    assert read_text("My favorite color is red. Wait, actually my favorite color is pink.")[1:] == [
        ("set", "favorite_colors", ["pink"])
    ]


@pytest.mark.parametrize("rank", ["#0", "11th", "#11", "#1000000000", "number 0"])
def test_ranks_that_do_not_exist_store_nothing(rank: str) -> None:
    assert read_text(f"My {rank} favorite color is teal") == []


def test_entries_with_ranks_that_do_not_exist_are_left_out() -> None:
    text = "My favorite colors:\n0) white\n1) red\n2) blue\n11) grey\n1000000000) pink"
    assert read_text(text) == [("list", "favorite_colors", RED_BLUE)]


def test_the_first_ten_of_five_hundred_are_stored() -> None:
    values = [f"shade {number}" for number in range(500)]
    listed = [("list", "favorite_colors", dict(enumerate(values[:10], 1)))]
    assert read_text(f"My favorite colors are {', '.join(values)}") == listed
    assert read_text("My favorite colors:\n" + "\n".join(f"- {value}" for value in values)) == listed
    numbered = "\n".join(f"{rank}. {value}" for rank, value in enumerate(values, 1))
    assert read_text(f"My favorite colors:\n{numbered}") == listed


@pytest.mark.parametrize(
    "text",
    [
        "My favorite colors are",
        "My favorite colors:",
        "My favorite color is ___",
        "My favorite color is [color]",
        "My favorite color is TBD",
        "My favorite color is <color>",
        "My favorite color is ???",
        "My favorite color is hard to choose",
        "My favorite colors are many",
        "My favorite color is the same as yours",
        "My favorite color is a secret 🤫",
        "My favorite movie is about a dog",
        "My favorite book is when they meet",
        "My favorite team is losing again",
        "My favorite color changes every day",
        "1) red 2) blue",
        "I like red and blue",
        "| rank | favorite color |\n|---|---|\n| 1 | red |",
    ],
)
def test_no_values_store_nothing(text: str) -> None:
    assert read_text(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Are my favorite colors 1) red? 2) blue?",
        "Is my favorite color blue?",
        "My favorite color is blue, right?",
        "Should I add teal to my favorite colors?",
        "My favorite color is beige, yeah right.",
        "My favorite color is beige /s",
        "My favorite color is beige. Just kidding!",
        "My favorite color is beige... NOT!",
        "My favorite color is beige 🙄",
        "My favorite color isn't blue",
        "My favorite color is not blue",
        "Don't remove teal from my favorite colors",
        "My favorite color was blue",
        "When I was a kid my favorite color was blue, and my favorite food is pizza",
        "If my favorite color is red, what then",
        "Suppose my favorite color is red.",
        "Let's say my favorite colors are red and blue.",
        "My favorite color would be red",
        "Maybe my favorite color is red",
        "I wish my favorite color was red",
        "My favorite color is red if it rains",
        "Ben says my favorite color is red",
        "You said my favorite color is red",
        "Ben: my favorite color is red",
        "Ben's favorite colors are red and blue",
        "My sister's favorite color is red",
        "Her favorite color is red. Our favorite color is red. Your favorite color is red.",
        "Translate: my favorite color is red",
        "Translate this:\n\nMy favorite color is red.",
        "Write a story where my favorite color is red",
        "Imagine you are me. My favorite color is red.",
        "My favorite color is blue, Ben claims",
        "My favorite color is blue. That's a lie.",
        "In this story, my favorite color is blue",
        "My favorite color - says Ben - is blue",
        "My favorite color is usually red",
        "Add milk to my list and pizza to my favorite foods",
        '"My favorite color is red"',
        'He wrote: "I sing. My favorite color is red. Bye."',
        "> my favorite color is red",
        "```\nmy favorite color is red\n```",
        "`my favorite color is red`",
        "Name: Bob\nFavorite color: red",
        "My least favorite color is red",
        "My favorite color for the kitchen is red",
        "My favorite part of the day is dawn",
        "My favorite place to eat is home",
        "My favorite thing is sleep",
        "My favorite is red",
        "Red is my favorite color for walls",
        "That movie is my favorite movie",
        "What you see is my favorite color",
        "My favorite color and my favorite food are red and pizza",
        "Make a palette from my favorite colors: red, blue",
        "Sort this list of my favorite colors: red, blue",
        "Mi color favorito es el azul",
        "Meine Lieblingsfarbe ist Grün",
    ],
)
def test_look_alikes_store_nothing(text: str) -> None:
    assert read_text(text) == []


@pytest.mark.parametrize(
    "state",
    [
        "teacher is sick",
        "player is injured",
        "coin is down 20%",
        "token is pumping",
        "song is stuck in my head",
        "food is spicy",
        "author is American",
        "book is 500 pages long",
        "film is streaming on Netflix",
        "city is 3 hours away",
        "park is near my house",
        "bar is next to the station",
        "cafe is around the corner from my office",
        "restaurant is closing down next week",
        "restaurant is hiring",
        "color is used in your logo",
        "team is 3-0",
        "show is a comedy about doctors",
        "shirt is dirty",
        "player is retiring",
        "player is leaving",
        "teacher is pregnant",
        "plant is dying",
        "plant is dead",
        "toy is lost",
        "game is crashing",
        "game is laggy",
        "website is slow",
        "library is deprecated",
        "bike is stolen",
        "park is full of dogs",
        "chair is uncomfortable",
        "snack is discontinued",
        "brand is bankrupt",
        "hotel is fully booked",
        "beach is crowded",
        "drink is cold",
        "candy is sugar free",
        "band is touring Europe",
        "city is an hour away",
        "coffee shop is two blocks from here",
        "token is up 5%",
    ],
)
def test_a_state_of_the_thing_is_no_value(state: str) -> None:
    assert read_text(f"My favorite {state}") == []


@pytest.mark.parametrize(
    ("noun", "value"),
    [
        ("color", "blue"),
        ("food", "pizza"),
        ("tea", "Earl Grey"),
        ("ice cream flavor", "mint chocolate chip"),
        ("coffee", "cold brew"),
        ("drink", "hot chocolate"),
        ("hobby", "swimming"),
        ("color", "dark red"),
        ("hobby", "hiking in the mountains"),
        ("food", "fried rice"),
        ("show", "breaking bad"),
        ("drink", "sparkling water"),
        ("taste", "sour"),
        ("movie", "127 hours"),
        ("food", "a burger with fries"),
        ("dessert", "bread pudding"),
        ("season", "spring"),
        ("color", "red"),
        ("sport", "boxing"),
        ("pastime", "reading"),
        ("cuisine", "Italian"),
        ("store", "7-11"),
        ("book", "a tale of two cities"),
        ("movie", "the girl with the dragon tattoo"),
        ("color", "navy blue"),
        ("drink", "iced coffee"),
        ("candy", "salted caramel"),
        ("number", "7"),
        ("food", "hot dogs"),
        ("animal", "big cats"),
    ],
)
def test_a_name_that_resembles_a_state_is_stored(noun: str, value: str) -> None:
    assert [operation[2] for operation in read_text(f"My favorite {noun} is {value}.")] == [[value]]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("My favorite movies are:\n1. Alien (1979)\n2. Heat (1995)", ["Alien (1979)", "Heat (1995)"]),
        ("My favorite color is red and so is my car", ["red"]),
        ("My favorite colors are red, blue, and so on", ["red", "blue"]),
        ('My favorite song is "Hey Jude" (The Beatles)', ["Hey Jude (The Beatles)"]),
        ("My favorite colors are, drumroll, red and blue", ["red", "blue"]),
        ("My favorite colors are red and blue in no particular order", ["red", "blue"]),
        ("My favorite color is green now that I moved", ["green"]),
        ("My favorite cities are Paris, France; Rome, Italy", ["Paris, France", "Rome, Italy"]),
        ("My favorite city is Washington, D.C.", ["Washington, D.C."]),
        ("My favorite languages are C++, C# and F#.", ["C++", "C#", "F#"]),
        ("My favorite keys are F# minor and B-flat", ["F# minor", "B-flat"]),
        ("My favorite colors are 1st red 2nd blue 3rd green", ["red", "blue", "green"]),
        ("My favorite foods are (1) pizza (2) sushi", ["pizza", "sushi"]),
        ("My favorite foods are a) pizza b) sushi", ["pizza", "sushi"]),
        ("My favorite foods are 1 pizza, 2 sushi, 3 pho", ["pizza", "sushi", "pho"]),
        ("My favorite fruits: mango > banana > apple", ["mango", "banana", "apple"]),
        ("My favorite colors are red/blue/green", ["red", "blue", "green"]),
        ("My favorite colors are red then blue then green", ["red", "blue", "green"]),
        ("My favorite bands are AC/DC and Queen", ["AC/DC", "Queen"]),
    ],
)
def test_values_end_where_the_user_ends_them(text: str, values: list[str]) -> None:
    assert [value for _, value in read_statements(text, TOPICS)[0].entries] == values


@pytest.mark.parametrize(
    "text",
    [
        "My favorite food is pizza, no wait, sushi",
        "My favorite food is pizza, I mean sushi",
        "My favorite food is pizza, or rather sushi",
        "My favorite food is pizza - sorry, sushi",
    ],
)
def test_a_correction_within_a_sentence_stores_the_later_value(text: str) -> None:
    assert read_text(text) == [("set", "favorite_foods", ["sushi"])]


@pytest.mark.parametrize(
    "text",
    [
        "My favorite color is red. Scratch that, blue.",
        "My favorite food is pizza. Wait, no. It's sushi.",
        "Subject: hello\nFrom: bob@example.org\n\nMy favorite color is red.",
        "My favorite color is my mom's favorite color",
        "My favorite color is yours",
        "My favorite color is obvious",
        "My favorite colors are above",
        "My favorite color is blue according to Ben",
        "My favorite color is blue as a child",
        "Two truths and a lie. My favorite color is red.",
    ],
)
def test_what_is_taken_back_or_not_said_of_oneself_stores_nothing(text: str) -> None:
    assert read_text(text) == []


def test_a_value_that_is_not_a_favorite_anymore_is_removed() -> None:
    assert read_text("green isn't one of my favorite colors anymore") == [("remove", "favorite_colors", ["green"])]
    assert read_text("green isn't one of my favorite colors") == []


def test_only_the_first_characters_are_read() -> None:
    text = "My favorite color is red. "
    assert read_text(text.ljust(40_000, "x") + " My favorite food is pizza.") == [("set", "favorite_colors", ["red"])]


_PIECES = st.sampled_from(
    [
        *(
            "my favorite ",
            "color ",
            "colors ",
            "is ",
            "are ",
            "red",
            ", ",
            " and ",
            "\n",
            "1) ",
            "- ",
            "#2 ",
            "first: ",
        ),
        *(
            "Also ",
            "swap ",
            "remove ",
            "add ",
            "to ",
            "from ",
            "my second favorite ",
            '"',
            "?",
            ". ",
            "’",
            "\u0301",
            "🙄",
        ),
        *("top 3 ", "no longer ", "#0", "1000000000", "```", "> ", "| ", "[M1]", "Model: ", "__", "İ", "ǅ", "²", "١"),
    ]
)


@given(st.one_of(st.text(max_size=300), st.lists(_PIECES, max_size=30).map("".join)))
def test_no_text_raises_and_every_operation_is_valid(text: str) -> None:
    for operation in read_statements(f"{text} my favorite colors {text}", TOPICS):
        assert all(rank is None or 1 <= rank <= 10 for rank, _ in operation.entries)
        assert all(1 <= rank <= 10 for rank in operation.ranks)
        assert all(value.strip() == value != "" and "\n" not in value for _, value in operation.entries)
        assert operation.topic_key or operation.op in {"remove", "swap", "move", "replace", "put"}
        assert operation.op != "swap" or len(operation.ranks) == 2
        assert operation.op not in {"put", "list"} or all(rank for rank, _ in operation.entries)


def test_headings_that_are_entries_of_a_list_take_linear_time() -> None:
    nested = "* My favorite colors:\n"
    assert read_statements(nested * 300 + "* teal", TOPICS)[0].entries == ((1, "teal"),)
