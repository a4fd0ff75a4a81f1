"""Turns are found by more than their words: by neighbouring turns, by the speaker, by the time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from app.bootstrap import Application
from app.bootstrap.spaces import build_embed_missing
from app.domain.filters import Filters
from app.domain.memory.memory import MemoryType, NewMemory
from app.usecases.recall.answer import Answer
from app.usecases.recall.request import Query
from tests.factories import Caller
from tests.usecases.stored import VECTORS

OFTEN = ("the harbour", "a choir", "her garden", "the market", "old maps", "a kiln", "the ferry", "spring rain")
START = datetime(2023, 1, 10, 9, tzinfo=UTC)


def turn(text: str, seq: int, actor: str = "Maya", thread: str = "t", at: datetime = START) -> NewMemory:
    """Return a turn of a conversation."""
    return NewMemory(
        "maya", "activity", text, MemoryType.turn, thread_id=thread, seq=seq, actor_id=actor, created_at=at
    )


async def said(app: Application, caller: Caller, *turns: NewMemory) -> None:
    """Store turns without a write, so that nothing changes them."""
    embeddings = await app.memory.write.embed_drafts(caller.scope, turns)
    for answer in await app.memory.write.store_many(
        caller.scope, [(t, e, None) for t, e in zip(turns, embeddings, strict=True)]
    ):
        assert not isinstance(answer, Exception), answer


async def ask(app: Application, caller: Caller, question: str, top_k: int = 3, **filters: object) -> Answer:
    """Query maya's conversation with `explain`."""
    of_maya = Filters(user_id="maya", **filters)
    query = Query("supervisor", question, ("activity",), of_maya, top_k, 8192, explain=True)
    return await app.recall.query.answer_query(caller.scope, query)


@pytest.fixture
async def talk(app: Application, caller: Caller) -> None:
    """A question and its answer, which share no word, among more turns than a query considers."""
    for place in OFTEN:
        await said(app, caller, *(turn(f"Maya saw the boat near {place}, {n}.", n, "Ben", place) for n in range(8)))
    asked, told = turn("Where did you buy the boat, Maya?", 1, "Ben"), turn("In Porto, for next to nothing!", 2)
    await said(app, caller, asked, told)


@pytest.mark.usefixtures("talk")
async def test_an_answer_is_looked_at_beside_its_question(app: Application, caller: Caller) -> None:
    answer = await ask(app, caller, "Where did Maya buy the boat?")
    assert answer.items[0].memory.text == "In Porto, for next to nothing!"
    seen = [s for s in (*(i.scored for i in answer.items), *(d.scored for d in answer.dropped)) if s is not None]
    [reply] = [s for s in seen if (s.candidate.thread_id, s.candidate.seq) == ("t", 2)]
    assert min(reply.parts[cue] for cue in ("neighbours", "actor", "asks", "session")) > 0
    for scored in seen:
        assert scored.total == pytest.approx(sum(scored.parts.values()), abs=1e-9)
        assert "late" in scored.parts


@pytest.mark.long
@pytest.mark.usefixtures("talk")
async def test_what_stands_beside_obeys_filters_user_and_tenant(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    await said(app, caller, replace(turn("In Lisbon, says somebody else!", 2), user_id="ben"))
    of_others = {row["id"] for row in await sql.fetch("SELECT id FROM memories WHERE user_id <> 'maya'")}
    for filters in ({"actor_id": "Ben"}, {"updated_after": START + timedelta(days=1)}, {}):
        answer = await ask(app, caller, "Where did Maya buy the boat?", 50, **filters)
        assert all(item.memory.user_id == "maya" for item in answer.items)
        seen = [s.candidate for s in (*(i.scored for i in answer.items), *(d.scored for d in answer.dropped)) if s]
        assert not {c.id for c in seen} & of_others
        assert all(c.actor_id == filters.get("actor_id", c.actor_id) for c in seen)
        assert all(c.updated_at >= filters.get("updated_after", c.updated_at) for c in seen)


async def test_a_day_in_the_question_prefers_what_was_said_then(app: Application, caller: Caller) -> None:
    days = [START + timedelta(days=30 * n) for n in range(6)]
    await said(app, caller, *(turn("Tonight I cook soup.", n, thread=f"d{n}", at=day) for n, day in enumerate(days)))
    for day in days[1:4]:
        answer = await ask(app, caller, f"What did Maya cook on {day:%-d %B %Y}?", 1)
        assert [item.memory.created_at for item in answer.items] == [day]


@pytest.mark.long
async def test_what_has_no_tokens_yet_is_found_all_the_same(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    await said(
        app, caller, turn("I bought the boat in Porto.", 1), turn("It rains again.", 2), turn("The choir sang.", 3)
    )
    await sql.execute(f"UPDATE {VECTORS} SET tokens = NULL WHERE memory_id IN (SELECT id FROM memories WHERE seq = 1)")
    answer = await ask(app, caller, "Where did Maya buy the boat?", 1)
    assert [item.memory.seq for item in answer.items] == [1]
    embed = build_embed_missing(app.parts.uow, VECTORS.removeprefix("vec_"), app.parts.embedder, 100)
    assert await embed.embed_all(caller.scope) == {"embedded": 1, "items": 0, "indexed": 0, "refused": 0, "past": 0}
    assert await embed.embed_all(caller.scope) == {"embedded": 0, "items": 0, "indexed": 0, "refused": 0, "past": 0}
