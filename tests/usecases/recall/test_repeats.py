"""Questions asked before in chats, with or without a question mark, hide nothing that was stored."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.bootstrap import Application
from app.domain.filters import Filters
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.memory.moments import Moments
from app.usecases.recall.answer import Answer
from app.usecases.recall.request import Query
from tests.factories import Caller

QUESTION = "Where does the dog sleep?"
START = datetime(2023, 1, 10, 9, tzinfo=UTC)
FACT = NewMemory("maya", "preferences", "The dog sleeps in the old greenhouse.", created_at=START)


def turns(text: str, count: int, role: str = "user", user: str = "maya") -> list[NewMemory]:
    """Return turns of chats with one text, a day between each two, without a place in their threads."""
    first = NewMemory(user, "activity", text, MemoryType.turn, role=role, created_at=START)
    return [
        replace(first, thread_id=f"{role}{n}", created_at=START + timedelta(days=n), updated_at=None)
        for n in range(count)
    ]


async def store(app: Application, caller: Caller, *drafts: NewMemory) -> None:
    """Store memories as they are; each text is embedded once."""
    first = list({draft.text: draft for draft in drafts}.values())
    embeddings = await app.memory.write.embed_drafts(caller.scope, first)
    of_text = dict(zip([draft.text for draft in first], embeddings, strict=True))
    answers = await app.memory.write.store_many(caller.scope, [(draft, of_text[draft.text], None) for draft in drafts])
    assert not [answer for answer in answers if isinstance(answer, Exception)]


async def ask(app: Application, caller: Caller, question: str = QUESTION, user: str | None = "maya") -> Answer:
    """Ask all that the supervisor may see."""
    return await app.recall.query.answer_query(caller.scope, Query("supervisor", question, (), Filters(user), 10, 8192))


def texts(answer: Answer) -> list[str]:
    """Return the texts of the items of an answer."""
    return [item.memory.text for item in answer.items]


async def test_sixty_copies_of_a_question_without_its_mark_hide_no_fact(app: Application, caller: Caller) -> None:
    asked, told = "where does the dog sleep", "I do not know where the dog sleeps, sorry."
    await store(app, caller, FACT, *turns(asked, 60), *turns(told, 60, "assistant"))
    answer = await ask(app, caller)
    assert sorted(texts(answer)) == sorted([FACT.text, told])
    reasons = [dropped.reason for dropped in answer.dropped]
    assert (reasons.count("question"), reasons.count("duplicate")) == (60, 59)


async def test_of_equal_turns_the_newest_is_answered(app: Application, caller: Caller) -> None:
    await store(app, caller, *turns("The dog sleeps in the old greenhouse.", 3), *turns("The dog eats at six.", 1))
    answer = await ask(app, caller)
    assert sorted(texts(answer)) == ["The dog eats at six.", FACT.text]
    [kept] = [item.memory for item in answer.items if item.memory.text == FACT.text]
    assert kept.created_at == START + timedelta(days=2)


async def test_a_question_about_a_day_finds_what_was_said_that_day(app: Application, caller: Caller) -> None:
    await store(app, caller, *turns("The dog sleeps in the old greenhouse.", 3))
    answer = await ask(app, caller, "Where did the dog sleep on 11 January 2023?")
    assert answer.items[0].memory.created_at == START + timedelta(days=1)


@pytest.mark.parametrize(
    "question",
    [
        "When did I first say that the dog sleeps in the old greenhouse?",
        "How often did I say that the dog sleeps in the old greenhouse?",
        "In which order did I tell you about the dog and the greenhouse?",
    ],
)
async def test_a_question_about_times_finds_each_of_them(app: Application, caller: Caller, question: str) -> None:
    await store(app, caller, *turns("The dog sleeps in the old greenhouse.", 3))
    answer = await ask(app, caller, question)
    assert {item.memory.created_at for item in answer.items} == {START + timedelta(days=n) for n in range(3)}


async def test_equal_turns_of_the_user_and_a_tool_are_both_answered(app: Application, caller: Caller) -> None:
    await store(app, caller, *turns(FACT.text, 1), *turns(FACT.text, 1, "tool"))
    assert {item.memory.role for item in (await ask(app, caller)).items} == {"user", "tool"}


async def test_equal_turns_of_two_users_are_both_answered(app: Application, caller: Caller) -> None:
    both = (*turns(FACT.text, 2), *turns(FACT.text, 1, user="ben"))
    await store(app, caller, *both)
    assert {item.memory.user_id for item in (await ask(app, caller, user=None)).items} == {"maya", "ben"}


async def test_a_statement_with_the_words_of_the_question_is_answered(app: Application, caller: Caller) -> None:
    await store(app, caller, *turns("The dog sleeps there.", 1), *turns("does the dog sleep there", 1))
    assert texts(await ask(app, caller, "Does the dog sleep there?")) == ["The dog sleeps there."]


async def test_a_question_about_the_past_reaches_past_copies_too(app: Application, caller: Caller) -> None:
    asked = "where does the dog sleep"
    await store(app, caller, FACT, *turns(asked, 60))
    now = datetime.now(UTC)
    query = Query("supervisor", QUESTION, (), Filters("maya"), 10, 8192, moments=Moments(as_of=now))
    assert texts(await app.recall.query.answer_query(caller.scope, query)) == [FACT.text]
