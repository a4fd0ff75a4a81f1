"""Context fields in a generated fact. A sensitive field is never stored as a memory."""

import pytest

from app.domain.consent.profile_fields import MAX_TEXT, ProfileField, benign_fields, sensitive_fields

NAME, PRONOUNS, CITY, LANGUAGE = "preferred_name", "pronouns", "city", "language"
TOLD = [
    ("The user prefers to be called Leni.", "Call me Leni", "profile", {NAME: "Leni"}),
    ("The user is Leni to everybody.", "Call me Leni", "profile", {NAME: "Leni"}),
    ("The user's name is Ana Lima.", "My name is Ana Lima", "personal", {NAME: "Ana Lima"}),
    ("The user goes by Leni at work.", "I go by Leni at work", "tasks", {NAME: "Leni"}),
    ("The user uses they/them pronouns.", "they/them", "profile", {PRONOUNS: "they/them"}),
    ("The user's pronouns are they and them.", "they and them", "profile", {PRONOUNS: "they/them"}),
    ("The user is she/her.", "she / her please", "preferences", {PRONOUNS: "she/her"}),
    ("The user moved to Oslo.", "I moved to Oslo", "profile", {CITY: "Oslo"}),
    ("The user moved from Oslo to Bergen in 2024.", "moved to Bergen", "events", {CITY: "Bergen"}),
    ("Leni lives in Oslo.", "Leni lives in Oslo", "personal", {CITY: "Oslo"}),
    ("The user works as a nurse and lives in São Paulo, Brazil.", "", "tasks", {CITY: "São Paulo, Brazil"}),
    ("The user's home is in Rio de Janeiro.", "", "profile", {CITY: "Rio de Janeiro"}),
    ("The user is from New York City.", "", "interests", {CITY: "New York City"}),
    ("The user speaks German and French.", "I speak German", "profile", {LANGUAGE: "German and French"}),
    ("The user's native language is Spanish.", "", "profile", {LANGUAGE: "Spanish"}),
    ("The user prefers answers in Portuguese.", "", "preferences", {LANGUAGE: "Portuguese"}),
    ("The user is Leni, moved to Oslo.", "Call me Leni, I moved to Oslo", "profile", {NAME: "Leni", CITY: "Oslo"}),
    ("The user no longer lives in Porto.", "", "profile", {CITY: None}),
    ("The user lives in a small flat in the city.", "", "profile", {CITY: None}),
    ("The user likes Leni as a name.", "", "profile", {NAME: None}),
]
NOT_TOLD = [
    ("The user's sister lives in Oslo.", "My sister lives in Oslo", "relationships"),
    ("The user's daughter Lena is called Leni.", "My daughter Lena is called Leni", "profile"),
    ("The user has a sister who lives in Oslo.", "My sister lives in Oslo", "relationships"),
    ("Tom moved to Lima.", "My brother Tom moved to Lima", "activity"),
    ("Ana lives in Porto.", "Ana lives in Porto", "relationships"),
    ("The user works as a nurse in Porto.", "I work as a nurse in Porto", "profile"),
    ("The user is learning Greek.", "I am learning Greek", "goals"),
    ("The user plans to move to a house with a garden.", "", "goals"),
    ("The user loves skiing.", "I moved to Oslo and love skiing", "interests"),
    ("The user lives in a small flat.", "", "preferences"),
    ("The user speaks with Ana on Fridays.", "", "tasks"),
    ("The user has a dog called Rex.", "I have a dog called Rex", "preferences"),
]


@pytest.mark.parametrize(("text", "quote", "category", "expected"), TOLD)
def test_a_sensitive_field_is_recognised_wherever_the_model_files_it(
    text: str, quote: str, category: str, expected: dict[str, str | None]
) -> None:
    assert {told.field: told.value for told in sensitive_fields(text, quote, category)} == expected


@pytest.mark.parametrize(("text", "quote", "category"), NOT_TOLD)
def test_other_facts_and_other_people_are_none(text: str, quote: str, category: str) -> None:
    assert sensitive_fields(text, quote, category) == []


def test_a_tone_and_a_goal_are_recognised() -> None:
    assert benign_fields("The user prefers short answers.") == [ProfileField("tone", "short")]
    assert benign_fields("The user perhaps likes a warm, friendly tone.") == [ProfileField("tone", "warm, friendly")]
    assert benign_fields("The user wants to ship v1 by September.") == [
        ProfileField("goals_add", "ship v1 by September")
    ]
    for text in ("The user does not want to move.", "The user's sister wants to paint.", "The user likes warm soup."):
        assert benign_fields(text) == []


def test_only_the_beginning_of_a_text_is_read() -> None:
    assert sensitive_fields("the user " + "lives now " * MAX_TEXT + "in Oslo.") == []
