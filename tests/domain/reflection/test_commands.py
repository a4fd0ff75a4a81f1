"""Commands of a message about what is stored, and what they do to it."""

from datetime import UTC, datetime, timedelta

import pytest

from app.domain.recall.closing import tells_all
from app.domain.recall.supersession import Statement
from app.domain.reflection.commands import StoredStatement, TurnCommands, read_commands
from bench import time_rules

EARLY = datetime(2025, 1, 1, tzinfo=UTC)
LATE = EARLY + timedelta(days=1)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Forget that I have a dog.", TurnCommands(forgotten=("I have a dog",))),
        ("Please forget my old address.", TurnCommands(topics=("old address",))),
        ("Can you forget what I told you about my knee?", TurnCommands(topics=("my knee",))),
        ("Scratch that.", TurnCommands(takes_back=True)),
        ("That was wrong.", TurnCommands(takes_back=True)),
        ("No, that's not right.", TurnCommands(takes_back=True, if_unanswered=True)),
        ("Vergiss, dass ich einen Hund habe.", TurnCommands(forgotten=("ich einen hund habe",))),
        ("Das war falsch.", TurnCommands(takes_back=True)),
        ("Das stimmt nicht.", TurnCommands(takes_back=True, if_unanswered=True)),
        ("What I said about my physio was wrong.", TurnCommands(wrong_topics=("my physio",))),
        ("You don't have to answer in German any more.", TurnCommands(ended_rules=("answer in German",))),
        ("Ok, no need to cite sources any longer, thanks.", TurnCommands(ended_rules=("cite sources",))),
        ("You can stop greeting me.", TurnCommands(ended_rules=("greeting me",))),
        ("You can stop answering in German now.", TurnCommands(ended_rules=("answering in German",))),
        ("Please don't answer in German any more.", TurnCommands(ended_rules=("answer in German",))),
        ("You no longer need to use TypeScript for code.", TurnCommands(ended_rules=("use TypeScript for code",))),
        ("Please don't answer in German.", TurnCommands()),
        ("You don't need to shout.", TurnCommands()),
        ("You don't have to answer in German any more?", TurnCommands()),
        ("Actually, I live in Bergen.", TurnCommands(statements=("I live in Bergen.",))),
    ],
)
def test_commands_are_read(message: str, expected: TurnCommands) -> None:
    assert read_commands(message) == expected


@pytest.mark.parametrize(
    "message",
    [
        "Forget it, let us talk of something else?",
        "Should I forget that I have a dog?",
        'She said: "forget that I have a dog".',
        "That's wrong, you should use a loop.",
        "Translate this: I no longer have a dog.",
        "Oublie que j'ai un chien.",
        "def forget(): pass  # scratch that",
        "",
    ],
)
def test_a_look_alike_is_no_command(message: str) -> None:
    commands = read_commands(message)
    assert commands == TurnCommands(statements=commands.statements)


def stored(text: str, **fields: bool) -> StoredStatement:
    """Return a statement stored before the message."""
    return StoredStatement(Statement(text, EARLY), **fields)


def choose(message: str, *before: StoredStatement) -> dict[int, str]:
    """Return what a message does to the statements."""
    return dict(read_commands(message).choose_actions(before, Statement(message, LATE)))


def test_a_turn_of_several_sentences_stays() -> None:
    turn = stored("I have a dog. I live in Oslo.", is_turn=True)
    assert choose("I no longer have a dog.", turn, stored("I have a dog.")) == {1: "supersede"}


def test_scratch_that_takes_back_the_previous_turn_alone() -> None:
    before = stored("I have a dog.", is_turn=True, from_previous=True), stored("I have a cat.", is_turn=True)
    assert choose("Scratch that.", *before) == {0: "retract"}


def test_a_question_is_not_taken_back() -> None:
    assert choose("Scratch that.", stored("Shall I get a dog?", is_turn=True, from_previous=True)) == {}


def test_what_was_drawn_from_a_closed_turn_shares_its_fate() -> None:
    turn = StoredStatement(Statement("I have a dog.", EARLY), is_turn=True, turn="t1")
    drawn = StoredStatement(Statement("The user's pet is a dog.", EARLY), turn="t1")
    assert choose("I no longer have a dog.", turn, drawn) == {0: "supersede", 1: "supersede"}


def test_no_development_dialogue_is_obeyed_wrongly() -> None:
    results = [
        time_rules.play_dialogue(dialogue)
        for language in time_rules.LANGUAGES
        for dialogue in time_rules.load_lines("dialogues", language, "development")
    ]
    assert not any(result.is_wrong for result in results)
    assert sum(result.acted for result in results) >= 7


def test_a_question_forgets_nothing() -> None:
    assert read_commands("Forget that I have a dog.").forgotten == ("I have a dog",)
    assert not read_commands("Forget that I have a dog?")


def test_a_turn_that_says_more_is_not_forgotten() -> None:
    assert tells_all("I have a dog named Max.", "I have a dog")
    assert not tells_all("I have a dog and two children.", "I have a dog")


@pytest.mark.parametrize(
    ("rule", "ends"),
    [
        ("Always answer in German.", True),
        ("Always reply to me in German.", True),
        ('The user\'s rule: "Always answer in German".', True),
        ("The user's rule is always to answer in German.", True),
        ("Always answer in Spanish.", False),
        ("Never answer my mail.", False),
        ("Maya answers in German at work.", False),
    ],
)
def test_what_need_not_be_done_any_more_ends_its_instruction(rule: str, *, ends: bool) -> None:
    said = Statement("You don't have to answer in German any more.", LATE)
    for is_turn in (False, True):
        stored = StoredStatement(Statement(rule, EARLY), is_turn=is_turn)
        assert read_commands(said.text).choose_actions([stored], said) == ({0: "supersede"} if ends else {})


@pytest.mark.parametrize("words", ["answer", "use it", "ask"])
def test_a_verb_of_many_instructions_ends_none(words: str) -> None:
    said = Statement(f"You don't have to {words} any more.", LATE)
    for rule in (
        "Always answer in German.",
        "Never use emojis in your replies.",
        "When I ask for code, use TypeScript.",
    ):
        stored = StoredStatement(Statement(rule, EARLY), is_turn=True)
        assert read_commands(said.text).choose_actions([stored], said) == {}
