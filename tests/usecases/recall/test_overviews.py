"""A question about a subject as a whole is searched by the words of its subject."""

from datetime import UTC, datetime

import pytest

from app.bootstrap import Application
from app.domain.filters import Filters
from app.domain.memory.memory import MemoryType, NewMemory
from app.usecases.recall.answer import Answer
from app.usecases.recall.request import Query
from tests.factories import Caller

TOLD = ("The roof leaks above the stairs.", "Two tiles of the roof are broken.", "The roof is mended at last.")
ABOUT_TELLING = (
    "I can list the items in order.",
    "We mentioned different aspects in our conversations.",
    "They discussed the topics of a session.",
    "He told us in which order things happened.",
)
ORDER = "Can you list the order in which I mentioned different aspects of the roof in our conversations?"


async def ask(app: Application, caller: Caller, question: str, top_k: int = 3) -> Answer:
    query = Query("supervisor", question, ("activity",), Filters("maya"), top_k, 8192, min_relevance=0.0, explain=True)
    return await app.recall.query.answer_query(caller.scope, query)


@pytest.fixture
async def talk(app: Application, caller: Caller) -> None:
    turns = [
        NewMemory(
            "maya",
            "activity",
            text,
            MemoryType.turn,
            thread_id=f"t{number}",
            seq=0,
            actor_id="Maya",
            created_at=datetime(2024, 1, 1 + number, tzinfo=UTC),
        )
        for number, text in enumerate((*TOLD, *ABOUT_TELLING))
    ]
    embeddings = await app.memory.write.embed_drafts(caller.scope, turns)
    items = [(one, embedding, None) for one, embedding in zip(turns, embeddings, strict=True)]
    for written in await app.memory.write.store_many(caller.scope, items):
        assert not isinstance(written, Exception), written


@pytest.mark.usefixtures("talk")
async def test_words_about_telling_find_nothing(app: Application, caller: Caller) -> None:
    answer = await ask(app, caller, ORDER)
    assert {item.memory.text for item in answer.items} == set(TOLD)
    scored = [item.scored for item in answer.items if item.scored is not None]
    assert all("feedback" in one.parts for one in scored)
    lexical = {one.candidate.id for one in scored if one.candidate.lexical}
    assert len(lexical) == len(TOLD)
    others = [dropped.scored.candidate for dropped in answer.dropped]
    assert not any(candidate.lexical for candidate in others)


@pytest.mark.usefixtures("talk")
async def test_another_question_is_searched_as_it_is(app: Application, caller: Caller) -> None:
    answer = await ask(app, caller, "What did they discuss in the session?", 7)
    assert answer.items[0].memory.text == "They discussed the topics of a session."
    assert all("feedback" not in item.scored.parts for item in answer.items if item.scored is not None)
