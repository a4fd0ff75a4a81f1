"""Natural forms of statements about favorites: spelling of chats, lists of every style, several statements, names."""

import pytest

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
THREE = {1: "red", 2: "blue", 3: "green"}


@pytest.mark.parametrize(
    "text",
    [
        "my fav colours r red n blue",
        "My favrite colors are red and blue",
        "my favourtie colers are red & blue",
        "my fav. colors are red, blue",
        "my fav colors: red + blue",
        "My favorite colors are red,blue",
        "my favorite colors -> red | blue",
        "red n blue r my fav colors",
        "My favorite colors rn are red and blue tbh",
        "My favorite colors:\n1 - red\n2 - blue",
        "My favorite colors:\n1.) red\n2.) blue",
        "My favorite colors:\nFirst: red\nSecond: blue",
        "My favorite colors:\nnumber 1 - red\nnumber 2 - blue",
        "My favorite colors:\na) red\nb) blue",
        "My favorite colors:\ni. red\nii. blue",
        "My favorite colors:\n① red\n② blue",
        "My favorite colors:\n🔴 red\n🔵 blue",
        "My favorite colors:\n• red\n• blue",
        "My favorite colors:\n-red\n-blue",
        "My favorite colors are\nred\nblue\n\nCan you paint?",
        "My favorite colors are\nred and blue",
        "My favorite colors are red,\nblue",
        "My favorite colors\n1 red\n2 blue",
        "My favorite colors are 1 - red, 2 - blue",
        "My favorite colors are: (a) red (b) blue",
        "My favorite colors are red (1), blue (2)",
        "My favorite colors are red first, blue second",
        "My favorite colors: first is red, then blue",
        "As for my favorite colors, first is red, then blue.",
        "My favorite colors from best to worst: red, blue",
        "My favorite color is red, then blue",
        "I have two favorite colors: red and blue.",
        "I've got two favorite colors, red and blue",
        "I have a couple of favorite colors - red and blue",
        "I have two favorite colors. They are red and blue.",
        "My favorite colors? Red and blue.".replace("Red", "red"),
        "Favorite colors of mine: first: red, second: blue",
        "Favourite colours of mine are red and blue",
        "My top colors:\n#1 red\n#2 blue",
        "#1 red\n#2 blue are my favorite colors",
        "- red\n- blue\n\nThose are my favorite colors.",
        "red\nblue\nare my favorite colors",
        "red and blue. These are my favorite colors!",
        "red and blue - these are my favorite colors!",
        "My favorite colors are not only red but also blue",
    ],
)
def test_a_list_is_stored_whole(text: str) -> None:
    assert read_text(text) == [("list", "favorite_colors", RED_BLUE)]


@pytest.mark.parametrize(
    "text",
    [
        "My favorite colors are red, blue and, of course, green",
        "My favorite colors are red, blue, and last but not least green",
        "My favorite colors:\nred,\nblue,\nand green.",
        "First red, second blue, third green: those are my favorite colors.".replace(": those", ", those").lower(),
    ],
)
def test_remarks_between_values_are_no_values(text: str) -> None:
    assert read_text(text) == [("list", "favorite_colors", THREE)]


@pytest.mark.parametrize(
    "text",
    [
        "my fav color's red",
        "red's my fav color",
        "red is def my favorite color",
        "my favorit colr is red",
        "my fave color has gotta be red",
        "My favorite color? red!",
        "My favorite color is:\nred",
        "My favorite color isn't green. It's red.",
        "I love red, it's my favorite color",
        "I keep telling her that my favorite color is red, but she forgets.",
        "One more thing before I forget: my favorite color is red.",
        "On Sundays I read: my favorite color is red.",
        "My favorite color, by the way, is red",
        "I have one favorite color: red",
    ],
)
def test_one_value_is_stored(text: str) -> None:
    assert read_text(text) == [("set", "favorite_colors", ["red"])]


@pytest.mark.parametrize(
    ("noun", "topic"),
    [
        ("television shows", "favorite_tv"),
        ("TV-shows", "favorite_tv"),
        ("tvshows", "favorite_tv"),
        ("tv programmes", "favorite_tv"),
        ("crypto currencies", "favorite_cryptos"),
        ("crypto-currencies", "favorite_cryptos"),
        ("candy bars", "favorite_candies"),
        ("motion pictures", "favorite_movies"),
        ("moives", "favorite_movies"),
        ("tunes", "favorite_songs"),
        ("coulors", "favorite_colors"),
        ("citys", "favorite_cities"),
        ("sports clubs", "favorite_teams"),
        ("stages", "favorite_stages"),
        ("shoes", "favorite_shoes"),
        ("boots", "favorite_boots"),
        ("teas", "favorite_teas"),
        ("moves", "favorite_moves"),
    ],
)
def test_each_form_of_a_noun_names_its_topic(noun: str, topic: str) -> None:
    assert read_text(f"My favorite {noun} are Alpha and Beta") == [("list", topic, {1: "Alpha", 2: "Beta"})]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "My 1st favorite color is red, my 2nd is blue",
            [("put", "favorite_colors", {1: "red"}), ("put", "favorite_colors", {2: "blue"})],
        ),
        ("My first favorite color is red, second is blue", [("put", "favorite_colors", RED_BLUE)]),
        ("Favorite color #1: red, #2: blue", [("put", "favorite_colors", RED_BLUE)]),
        (
            "My favorite color is red, favorite food is pho and favorite city is Rome.",
            [
                ("set", "favorite_colors", ["red"]),
                ("set", "favorite_foods", ["pho"]),
                ("set", "favorite_cities", ["Rome"]),
            ],
        ),
        (
            "my fav food is pho n my fav color is red",
            [("set", "favorite_foods", ["pho"]), ("set", "favorite_colors", ["red"])],
        ),
        (
            "My favorite color is red while my favorite food is pho",
            [("set", "favorite_colors", ["red"]), ("set", "favorite_foods", ["pho"])],
        ),
        ("Some favorite colors of mine: red, blue", [("append", "favorite_colors", ["red", "blue"])]),
        ("Not only red but also blue is a favorite color of mine.", [("append", "favorite_colors", ["red", "blue"])]),
        ("I also love red, add it to my favorite colors", [("append", "favorite_colors", ["red"])]),
    ],
)
def test_several_statements_of_one_sentence(text: str, expected: list[tuple[object, ...]]) -> None:
    assert [(op, topic, _red(values)) for op, topic, values in read_text(text)] == expected


def _red(values: object) -> object:
    return [value.lower() if value == "Red" else value for value in values] if isinstance(values, list) else values


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ("Earth, Wind & Fire, Queen and ABBA", ["Earth, Wind & Fire", "Queen", "ABBA"]),
        ("Queen, Crosby, Stills, Nash & Young and Toto", ["Queen", "Crosby, Stills, Nash & Young", "Toto"]),
        ("Guns N Roses n Queen", ["Guns N Roses", "Queen"]),
        ("The Good, the Bad and the Ugly, Heat and Up", ["The Good, the Bad and the Ugly", "Heat", "Up"]),
        ('"I, Robot", "Up" and "Heat"', ["I, Robot", "Up", "Heat"]),
        ("mac n cheese, rice and beans, and pho", ["mac n cheese", "rice and beans", "pho"]),
        ("Austin, TX and Washington, D.C.", ["Austin, TX", "Washington, D.C."]),
        ("teal, ebony and ivory", ["teal", "ebony", "ivory"]),
    ],
)
def test_a_name_with_separators_stays_whole(values: str, found: list[str]) -> None:
    assert read_text(f"My favorite names are {values}") == [("list", "favorite_names", dict(enumerate(found, 1)))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Put teal second in my favorite colors", ("insert", "favorite_colors", {2: "teal"})),
        ("Insert teal at number 2 in my favorite colors, please", ("insert", "favorite_colors", {2: "teal"})),
        ("Add teal to my favorite colors as number two", ("insert", "favorite_colors", {2: "teal"})),
        ("Can you put teal at the top of my favorite colors?", ("insert", "favorite_colors", {1: "teal"})),
        ("Put teal at the end of my favorite colors", ("insert", "favorite_colors", ["teal"])),
        ("Make teal my number one color", ("insert", "favorite_colors", {1: "teal"})),
        ("Make teal my second favorite color", ("insert", "favorite_colors", {2: "teal"})),
        ("In my favorite colors, put teal second.", ("insert", "favorite_colors", {2: "teal"})),
        ("Move teal to the top of my favorite colors", ("move", "favorite_colors", {1: "teal"})),
        ("move teal up to #2", ("move", None, {2: "teal"})),
        ("Replace red with blue in my favorite colors", ("replace", "favorite_colors", ["red", "blue"])),
        ("Swap red for blue in my favorite colors", ("replace", "favorite_colors", ["red", "blue"])),
        ("Substitute blue for red in my favorite colors", ("replace", "favorite_colors", ["red", "blue"])),
        ("Replace red in my favorite colors with blue", ("replace", "favorite_colors", ["red", "blue"])),
        ("In my favorite colors, replace red with blue", ("replace", "favorite_colors", ["red", "blue"])),
        ("Replace red with blue", ("replace", None, ["red", "blue"])),
        ("My second isn't red, it's blue", ("replace", None, ["red", "blue"])),
        ("My second favorite color isn't red, it's blue", ("put", "favorite_colors", {2: "blue"})),
        ("Replace my second favorite color with blue", ("put", "favorite_colors", {2: "blue"})),
        ("Actually, my second is blue", ("put", None, {2: "blue"})),
        ("My favorite color isn't red anymore", ("remove", "favorite_colors", ["red"])),
        ("My favorite colors don't include red anymore", ("remove", "favorite_colors", ["red"])),
        ("Forget that my favorite color is red", ("remove", "favorite_colors", ["red"])),
        ("Forget that red is one of my favorite colors", ("remove", "favorite_colors", ["red"])),
    ],
)
def test_a_value_gets_another_place_or_goes(text: str, expected: tuple[object, ...]) -> None:
    assert read_text(text) == [expected]


def test_what_is_no_longer_so_gives_its_place() -> None:
    topic = "favorite_colors"
    found = read_statements("My favorite color is no longer red but blue", TOPICS)
    assert found == (FactOperation("replace", topic, ((None, "red"), (1, "blue"))),)
    assert read_text("My favorite colors are no longer red and pink but blue and gold") == [
        ("replace", topic, ["red", "blue"]),
        ("replace", topic, ["pink", "gold"]),
        ("append", topic, ["blue", "gold"]),
    ]
    assert read_text("My favorite colors are no longer red and pink but blue") == [
        ("replace", topic, ["red", "blue"]),
        ("remove", topic, ["pink"]),
        ("append", topic, ["blue"]),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Don't replace red with blue in my favorite colors!",
        "Move the meeting to third on the agenda.",
        "Put the kettle on first, then the pasta.",
        "My second is due in May",
        "My second is better, by the way",
        "My favorite team's captain is injured",
        "My favorite band's new album, which rocks, is out",
        "My favorite color isn't red",
        "My favorite color? Why do you ask?",
        "My favorite colors? Let me think.",
        "My favorite color? No idea.",
        "She has two favorite colors: red and blue",
        "I don't have two favorite colors: red is the only one",
        "I have two favorite sons, which is silly",
        "Favorit Farbe: rot",
        "Favoriete kleur: rood",
        "Assistant: my favorite color is red",
        "The form reads: my favorite color is red",
        "My favorite foods\n\nHi team\nSee you on Monday",
        "My favorite movies:\nplease make a list of them\nand send it to me",
        "Red is popular. These are my favorite colors",
        "Forget that my sister's favorite color is red",
        "first is the login page, then the dashboard, then the settings. can you sketch that?",
        "My favorite color would be red, but only on Tuesdays",
    ],
)
def test_what_only_looks_like_it_stores_nothing(text: str) -> None:
    assert read_text(text) == []
