"""Daily consolidation on the real database: merges, relations, and pairs that stay apart."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.consolidation.comparison import Judgement, Pair, judge_by_rule
from app.domain.consolidation.plan import Report
from app.domain.errors import DuplicateText, ErasedText
from app.domain.memory.memory import Memory, MemoryState
from app.domain.outages import EmbedderUnavailable
from app.domain.principal import Principal
from app.ports import Embedder, Vector
from app.storage.consolidation.comparison import ConsolidationStorage
from app.storage.journal import Journal
from app.usecases.consolidation.consolidate import Consolidate
from tests.consolidation_cases import memory
from tests.consolidation_corpus import Corpus, load_corpus
from tests.factories import Caller, Clock, draft, make_caller
from tests.usecases.conftest import Configured
from tests.usecases.notebook import embedded, store
from tests.usecases.stored import active_texts, edges, history_of, in_line, recorded, vector_of

BEES, TWIN = "The user keeps three hives of bees.", "User keeps three hives of bees"
HONEY = "The user sells honey from the bees at the market."


@pytest.fixture(scope="session")
def corpus_vectors(local_model: Embedder) -> dict[UUID, Vector]:
    """The vectors of the labelled memories, by the real model."""
    return asyncio.run(embedded(local_model, load_corpus().memories))


@pytest.fixture
async def corpus(
    app: Application, caller: Caller, sql: asyncpg.Connection, clock: Clock, corpus_vectors: dict[UUID, Vector]
) -> Corpus:
    """The labelled memories, stored for the caller's tenant."""
    corpus = load_corpus(clock.now())
    await store(sql, caller.scope.tenant_id, corpus.memories, corpus_vectors)
    return corpus


@pytest.fixture
def job(caller: Caller) -> Principal:
    """The principal that runs consolidation."""
    return Principal(caller.scope.tenant_id)


Notes = Callable[..., Awaitable[list[UUID]]]


@pytest.fixture
def notes(sql: asyncpg.Connection, job: Principal, embedder: Embedder, clock: Clock) -> Notes:
    """A function that stores memories of ana in the category profile, each older than the one before.

    Each is a text or the fields of a Memory; the function returns their ids.
    """

    async def write(*some: str | dict[str, Any], tenant: UUID | None = None, first: int = 1) -> list[UUID]:
        made: list[Memory] = []
        for number, one in enumerate(some, first):
            born = clock.now() - timedelta(hours=number)
            fields = {"text": one} if isinstance(one, str) else one
            made.append(memory(number, **{"created_at": born, "updated_at": born} | fields))
        await store(sql, tenant or job.tenant_id, made, await embedded(embedder, made))
        return [one.id for one in made]

    return write


class Meanwhile:
    """A judge that runs another action first, then decides by the deterministic rule."""

    def __init__(self, happens: Callable[[], Awaitable[Any]]) -> None:
        self._happens = happens
        self.asked: list[Sequence[Pair]] = []

    async def judge_pairs(self, _scope: Principal, pairs: Sequence[Pair]) -> Judgement:
        """Return the rule's verdicts, at one token for each pair."""
        self.asked.append(pairs)
        await self._happens()
        return Judgement(judge_by_rule(pairs), len(pairs))


def judged_by(app: Application, clock: Clock, judge: Meanwhile) -> Consolidate:
    """Build a consolidation with this judge."""
    space = "minilm_l6_v2"
    journal = Journal(app.parts.uow, space, app.parts.settings.erasure_secret())
    return Consolidate(app.parts.uow, ConsolidationStorage(space), journal, app.parts.policies, clock, judge)


async def heirs(sql: asyncpg.Connection, tenant_id: UUID) -> dict[UUID, UUID]:
    """Return the survivor's id of each superseded memory."""
    rows = await sql.fetch(
        "SELECT id, superseded_by FROM memories WHERE state = 'superseded' AND tenant_id = $1", tenant_id
    )
    return {row["id"]: row["superseded_by"] for row in rows}


async def events(sql: asyncpg.Connection) -> list[tuple[str, str]]:
    """Return op and status of the workers' events, in order."""
    rows = await sql.fetch("SELECT op, status FROM events WHERE node = 'worker' ORDER BY op, status")
    return [tuple(row) for row in rows]


async def pairs_of(sql: asyncpg.Connection) -> int:
    """Return the number of fingerprints."""
    count: int = await sql.fetchval("SELECT count(*) FROM consolidation_pairs")
    return count


# --- the labelled memories


@pytest.mark.long
async def test_the_corpus_loses_its_duplicates_and_no_fact(
    app: Application, job: Principal, corpus: Corpus, sql: asyncpg.Connection, clock: Clock
) -> None:
    duplicates = {pair.ids for pair in corpus.duplicates}
    began, total, days = time.monotonic(), Report(), 0
    while (today := await app.consolidation.consolidate_users(job)).checked:
        again = await app.consolidation.consolidate_users(job)
        assert (again.checked, again.merged, again.linked) == (0, 0, 0)
        total, days = total + today, days + 1
        clock.move(days=1)
    gone = await heirs(sql, job.tenant_id)
    assert all(frozenset(two) in duplicates for two in gone.items()), "two different facts were merged"
    print(f"{total.as_json() | {'decisions': 0}} in {days} days, {time.monotonic() - began:.1f} s")
    assert total.merged == len(gone) >= 0.85 * len(corpus.decidable)
    assert total.skipped == 0
    assert await sql.fetchval("SELECT count(*) FROM memories WHERE state = 'active'") == len(corpus.memories) - len(
        gone
    )
    assert total.linked == len(await edges(sql)) > 0
    assert await sql.fetchval("SELECT count(*) FROM history WHERE event = 'MERGE'") > 0


@pytest.mark.long
async def test_no_more_pairs_are_checked_of_a_user_in_a_day_than_the_policy_says(
    configured: Configured, job: Principal, corpus: Corpus, sql: asyncpg.Connection, clock: Clock
) -> None:
    app = await configured(policies={"consolidation": {"pairs_per_user_day": 3}})
    users = len({one.user_id for one in corpus.memories})
    first = await app.consolidation.consolidate_users(job)
    assert 0 < first.checked <= 3 * users
    assert await sql.fetchval("SELECT max(c) FROM (SELECT count(*) c FROM consolidation_pairs GROUP BY user_pk) x") == 3
    again = await app.consolidation.consolidate_users(job)
    assert again.checked <= 3 * users - first.checked
    assert again.left == first.left - again.checked > 0, "the report counts the pairs beyond the day's limit"
    clock.move(days=1)
    foreseen = await app.consolidation.consolidate_users(job, dry_run=True)
    assert foreseen.checked + foreseen.left == again.left
    assert (await app.consolidation.consolidate_users(job)).checked > 0
    assert await sql.fetchval("SELECT max(c) FROM (SELECT count(*) c FROM consolidation_pairs GROUP BY user_pk) x") == 6


@pytest.mark.long
async def test_a_dry_run_tells_every_decision_and_changes_nothing(
    app: Application, job: Principal, corpus: Corpus, sql: asyncpg.Connection
) -> None:
    before = await recorded(sql)
    dry = await app.consolidation.consolidate_users(job, dry_run=True)
    assert await recorded(sql) == before
    assert (await pairs_of(sql), await events(sql)) == (0, [])
    texts = {one.id: one.text for one in corpus.memories}
    assert len(dry.decisions) == dry.checked > dry.merged > 0
    assert all(one.texts == (texts[one.ids[0]], texts[one.ids[1]]) for one in dry.decisions)
    alone = await app.consolidation.consolidate_users(job, dry_run=True, user_id="mara")
    assert {one.user_id for one in alone.decisions} == {"mara"}
    wet = await app.consolidation.consolidate_users(job)
    assert wet.merged >= dry.merged
    assert all(one.texts is None and one.user_id is None for one in wet.decisions)


# --- one merge and all its records


async def test_a_merge_takes_over_what_both_had_and_is_told_to_their_threads(
    app: Application, caller: Caller, job: Principal, notes: Notes, sql: asyncpg.Connection, clock: Clock
) -> None:
    bees, twin = await notes(
        {"text": BEES, "thread_id": "t1", "importance": 2, "tags": ("a",)},
        {"text": TWIN, "thread_id": "t2", "importance": 4, "pinned": True, "tags": ("b",)},
    )
    before = await vector_of(sql, twin)
    report = await app.consolidation.consolidate_users(job)
    assert (report.checked, report.merged, report.linked) == (1, 1, 0)
    [decision] = report.as_json()["decisions"]
    assert (decision.keys(), decision["ids"]) == (
        {"category", "ids", "score", "rule", "action"},
        sorted([str(bees), str(twin)]),
    )
    survivor = await app.memory.read.get_memory(caller.scope, twin)  # equally complete: the older memory survives
    absorbed = await app.memory.read.get_memory(caller.scope, bees)
    assert (survivor.text, survivor.importance, survivor.pinned, survivor.tags) == (TWIN, 4, True, ("b", "a"))
    assert (survivor.version, survivor.created_at) == (2, min(survivor.created_at, absorbed.created_at))
    assert (absorbed.state, absorbed.superseded_by) == (MemoryState.superseded, twin)
    merged, superseded = (await history_of(sql, twin))[-1], (await history_of(sql, bees))[-1]
    assert (merged["event"], merged["old_ref"], merged["new_ref"], merged["actor"]) == (
        "MERGE",
        str(bees),
        str(twin),
        "system",
    )
    [told] = merged["meta"]["absorbed"]
    assert (told["id"], told["rule"]) == (str(bees), "same_words")
    assert (merged["meta"]["before"]["importance"], merged["meta"]["after"]["importance"]) == (4, 4)
    assert (superseded["event"], superseded["new_ref"]) == ("UPDATE", str(twin))
    assert superseded["meta"]["before"]["text"] == BEES
    for thread in ("t1", "t2"):
        delta = await app.recall.delta.read_delta(caller.scope, thread, 0, None)
        assert delta.header is not None
        assert delta.header.text.text.splitlines()[1:] == [f"- ↔merged: Combined 2 notes about {TWIN}"]
    assert await events(sql) == [("merge", "ok")]
    assert (await vector_of(sql, twin) == before).all()
    assert [tuple(row) for row in await sql.fetch("SELECT low, high, same FROM consolidation_pairs")] == [
        (min(bees, twin), max(bees, twin), True)
    ]


async def test_near_facts_are_related_and_the_survivor_inherits_relations(
    app: Application, job: Principal, notes: Notes, sql: asyncpg.Connection
) -> None:
    twin, bees, honey, old = await notes(
        TWIN, BEES, HONEY, {"text": "The user's uncle was a carpenter.", "category": "history"}
    )
    relation = (
        "INSERT INTO relations (tenant_id, id, from_id, to_id, strength) VALUES ($1, gen_random_uuid(), $2, $3, 0.6)"
    )
    await sql.execute(relation, job.tenant_id, str(twin), str(old))
    report = await app.consolidation.consolidate_users(job)
    assert (report.merged, report.linked) == (1, 1)
    assert await edges(sql) == {(twin, old), (bees, old), (bees, honey)}
    linked = [row["meta"]["edges"] for row in await history_of(sql, bees) if row["event"] == "LINK"]
    assert [[(edge["id"], edge["category"]) for edge in some] for some in linked] == [
        [(str(old), "history")],
        [(str(honey), "profile")],
    ]
    assert await events(sql) == [("link", "ok"), ("merge", "ok")]


async def test_a_merge_is_undone_whatever_became_of_the_survivors_text(
    app: Application, caller: Caller, job: Principal, notes: Notes, sql: asyncpg.Connection
) -> None:
    twin, bees, old = await notes(TWIN, BEES, {"text": "The user's uncle was a carpenter.", "category": "history"})
    relation = (
        "INSERT INTO relations (tenant_id, id, from_id, to_id, strength) VALUES ($1, gen_random_uuid(), $2, $3, 0.6)"
    )
    await sql.execute(relation, job.tenant_id, str(twin), str(old))
    assert (await app.consolidation.consolidate_users(job)).merged == 1
    assert await edges(sql) == {(twin, old), (bees, old)}
    await app.memory.edit.patch_memory(
        caller.scope, bees, {"text": "The parcel from Ghent arrived broken."}, version=None
    )
    back = await app.memory.edit.restore_memory(caller.scope, twin)
    assert (back.state, back.superseded_by, back.text) == (MemoryState.active, None, TWIN)
    assert await edges(sql) == {(twin, old)}


async def test_the_later_number_stands_where_the_category_says_so(
    configured: Configured, job: Principal, notes: Notes, sql: asyncpg.Connection
) -> None:
    five, three = await notes(
        {"text": "The user runs 5 km a day.", "category": "goals"},
        {"text": "The user runs 3 km a day.", "category": "goals"},
    )
    plain = await configured()
    assert (await plain.consolidation.consolidate_users(job, dry_run=True)).merged == 0
    numeric = await configured(categories={"goals": {"numeric_update": True}})
    assert (await numeric.consolidation.consolidate_users(job)).merged == 1
    assert await heirs(sql, job.tenant_id) == {three: five}


# --- restoring


async def test_a_restored_memory_stays_apart_from_what_it_gave_way_to(
    app: Application, caller: Caller, job: Principal, notes: Notes, sql: asyncpg.Connection, clock: Clock
) -> None:
    bees, _twin = await notes(BEES, {"text": TWIN, "importance": 4})
    await app.consolidation.consolidate_users(job)
    back = await app.memory.edit.restore_memory(caller.scope, bees)
    assert (back.state, back.superseded_by, back.text, back.importance) == (MemoryState.active, None, BEES, 2)
    assert [row["event"] for row in await history_of(sql, bees)] == ["ADD", "UPDATE", "RESTORE"]
    for _day in range(3):
        clock.move(days=15)
        await app.memory.edit.pin_memory(caller.scope, bees, True)
        await app.memory.edit.pin_memory(caller.scope, bees, False)
        report = await app.consolidation.consolidate_users(job)
        assert (report.pairs_seen, report.checked, report.merged) == (1, 0, 0)
    assert await active_texts(sql, "ana") == sorted([BEES, TWIN])


async def test_restored_siblings_stay_apart_too_also_when_their_survivor_gives_way_itself(
    app: Application, caller: Caller, job: Principal, notes: Notes, sql: asyncpg.Connection, clock: Clock
) -> None:
    ids = await notes(BEES, TWIN, "User keeps the three hives of bees", "The user keeps the three hives of bees")
    assert (await app.consolidation.consolidate_users(job)).merged == 3
    first = await heirs(sql, job.tenant_id)
    assert first == dict.fromkeys(ids[:3], ids[3])
    for one in ids[:2]:
        await app.memory.edit.restore_memory(caller.scope, one)
    [older] = await notes("User keeps three hives of the bees", first=9)
    assert (await app.consolidation.consolidate_users(job)).merged == 1
    second = await heirs(sql, job.tenant_id)
    assert second.items() >= {(ids[3], older), (ids[2], ids[3])}
    clock.move(days=15)
    for one in (*ids[:2], older):
        await app.memory.edit.pin_memory(caller.scope, one, True)
    report = await app.consolidation.consolidate_users(job)
    assert (report.pairs_seen, report.checked, report.merged) == (3, 0, 0)
    assert await heirs(sql, job.tenant_id) == second


async def test_what_has_been_said_again_since_cannot_be_restored_beside_itself(
    app: Application, caller: Caller, job: Principal, notes: Notes
) -> None:
    bees, twin = await notes(BEES, TWIN)
    await app.consolidation.consolidate_users(job)
    said = await app.memory.write.write_memory(caller.scope, draft(BEES, user_id="ana", category="profile"))
    assert (said.action, said.id) == ("updated", twin)
    with pytest.raises(DuplicateText):
        await app.memory.edit.restore_memory(caller.scope, bees)


# --- concurrent changes, and memories that stay untouched


async def test_an_edit_during_the_run_wins_and_the_pair_comes_again(
    app: Application, caller: Caller, job: Principal, notes: Notes, sql: asyncpg.Connection, clock: Clock
) -> None:
    bees, twin = await notes(BEES, TWIN)

    async def edit() -> None:
        await app.memory.edit.patch_memory(caller.scope, bees, {"importance": 5}, version=None)

    report = await judged_by(app, clock, Meanwhile(edit)).consolidate_users(job)
    assert (report.checked, report.merged, report.skipped, report.tokens) == (1, 0, 1, 1)
    assert report.duplicates_after == report.duplicates_before
    assert (await events(sql), await pairs_of(sql)) == ([("merge", "skipped")], 0)
    assert await heirs(sql, job.tenant_id) == {}
    assert (await app.consolidation.consolidate_users(job)).merged == 1
    assert (await app.memory.read.get_memory(caller.scope, twin)).importance == 5


async def test_neither_a_relation_nor_a_fingerprint_of_what_was_edited_meanwhile(
    app: Application, caller: Caller, job: Principal, notes: Notes, sql: asyncpg.Connection, clock: Clock
) -> None:
    bees, _honey = await notes(BEES, HONEY)

    async def edit() -> None:
        await app.memory.edit.pin_memory(caller.scope, bees, True)

    assert (await judged_by(app, clock, Meanwhile(edit)).consolidate_users(job)).linked == 0
    assert (await edges(sql), await pairs_of(sql)) == (set(), 0)
    assert (await app.consolidation.consolidate_users(job)).linked == 1


async def test_a_run_that_breaks_off_has_lost_nothing(
    app: Application, job: Principal, notes: Notes, sql: asyncpg.Connection, clock: Clock
) -> None:
    await notes(BEES, TWIN)
    await notes({"text": BEES, "user_id": "ben"}, {"text": TWIN, "user_id": "ben"}, first=5)
    users = iter(["ana", "ben"])

    async def crash() -> None:
        if next(users) == "ben":
            raise EmbedderUnavailable

    with pytest.raises(EmbedderUnavailable):
        await judged_by(app, clock, Meanwhile(crash)).consolidate_users(job)
    assert len(await heirs(sql, job.tenant_id)) == 1
    report = await app.consolidation.consolidate_users(job)
    assert (report.checked, report.merged) == (1, 1)


async def test_one_who_is_erased_during_the_run_leaves_no_trace(
    app: Application, caller: Caller, job: Principal, notes: Notes, sql: asyncpg.Connection, clock: Clock
) -> None:
    await notes(BEES, TWIN, HONEY)

    async def erase() -> None:
        await app.retention.erase.erase_user(caller.scope, "ana")

    report = await judged_by(app, clock, Meanwhile(erase)).consolidate_users(job)
    assert (report.merged, report.linked, report.skipped) == (0, 0, 1)
    counts = [await sql.fetchval(f"SELECT count(*) FROM {table}") for table in ("memories", "users", "relations")]
    assert (counts, await pairs_of(sql), await events(sql)) == ([0, 0, 0], 0, [])


async def test_an_erased_users_pairs_are_gone(
    app: Application, caller: Caller, job: Principal, notes: Notes, sql: asyncpg.Connection
) -> None:
    await notes(BEES, HONEY)
    await app.consolidation.consolidate_users(job)
    assert await pairs_of(sql) == 1
    await app.retention.erase.erase_user(caller.scope, "ana")
    assert await pairs_of(sql) == 0


async def test_another_tenants_memories_are_untouched(
    app: Application, job: Principal, notes: Notes, sql: asyncpg.Connection
) -> None:
    other = await make_caller(app)
    await notes(BEES, TWIN, tenant=other.scope.tenant_id)
    assert await app.consolidation.consolidate_users(job) == Report()
    assert await heirs(sql, other.scope.tenant_id) == {}
    await notes(BEES, TWIN)
    assert (await app.consolidation.consolidate_users(job)).merged == 1
    assert (await heirs(sql, other.scope.tenant_id), len(await heirs(sql, job.tenant_id))) == ({}, 1)


async def test_a_key_bound_to_an_agent_sees_and_moves_only_its_categories(
    app: Application, caller: Caller, notes: Notes, sql: asyncpg.Connection
) -> None:
    stylist = await make_caller(app, scopes=("query", "write"), agents=["stylist"], tenant=caller)
    bees, twin = await notes({"text": BEES, "thread_id": "t"}, {"text": TWIN, "thread_id": "t"})
    assert await app.consolidation.consolidate_users(stylist.scope) == Report()
    assert (await app.consolidation.consolidate_users(Principal(caller.scope.tenant_id))).merged == 1
    delta = await app.recall.delta.read_delta(stylist.scope, "t", 0, None)
    assert (delta.header, delta.entries) == (None, ())
    tone = {"category": "tone", "thread_id": "t"}
    await notes({"text": "The user likes a calm tone.", **tone}, {"text": "User likes a calm tone", **tone}, first=5)
    assert (await app.consolidation.consolidate_users(stylist.scope)).merged == 1
    seen = await app.recall.delta.read_delta(stylist.scope, "t", 0, None)
    assert [one.category for one in seen.entries] == ["tone"]
    assert set((await heirs(sql, caller.scope.tenant_id)).items()) >= {(bees, twin)}


async def test_old_fingerprints_are_dropped(
    app: Application, job: Principal, notes: Notes, sql: asyncpg.Connection, clock: Clock
) -> None:
    await notes(BEES, HONEY)
    await app.consolidation.consolidate_users(job)
    clock.move(days=13)
    assert (await app.consolidation.consolidate_users(job)).checked == 0
    clock.move(days=200)
    assert await app.consolidation.consolidate_users(job) == Report()
    assert await pairs_of(sql) == 0


async def test_two_runs_at_once_merge_once(
    app: Application, job: Principal, notes: Notes, sql: asyncpg.Connection
) -> None:
    bees, twin = await notes(BEES, TWIN)
    runs = await in_line(sql, twin, app.consolidation.consolidate_users(job), app.consolidation.consolidate_users(job))
    assert sorted((one.merged, one.skipped) for one in runs) == [(0, 1), (1, 0)]
    assert await heirs(sql, job.tenant_id) == {bees: twin}
    assert [row["event"] for row in await history_of(sql, twin)] == ["ADD", "MERGE"]


@pytest.mark.parametrize("erased_first", [True, False])
async def test_an_erasure_and_a_merge_wait_for_each_other(
    app: Application, caller: Caller, job: Principal, notes: Notes, sql: asyncpg.Connection, erased_first: bool
) -> None:
    _bees, twin = await notes(BEES, TWIN)
    calls = [app.consolidation.consolidate_users(job), app.retention.erase.erase_user(caller.scope, "ana")]
    ended = await in_line(sql, twin, *(reversed(calls) if erased_first else calls))
    assert not [one for one in ended if isinstance(one, BaseException)]
    assert (await sql.fetchval("SELECT count(*) FROM memories"), await pairs_of(sql)) == (0, 0)
    assert await sql.fetchval("SELECT count(*) FROM events WHERE user_id = 'ana'") == 0


async def test_an_error_is_kept_as_an_event(
    app: Application, job: Principal, notes: Notes, sql: asyncpg.Connection
) -> None:
    await notes(BEES, TWIN)
    await sql.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'MN410'; END $$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON consolidation_pairs FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    with pytest.raises(ErasedText):
        await app.consolidation.consolidate_users(job)
    assert await events(sql) == [("merge", "error")]
    assert (await heirs(sql, job.tenant_id), len(await active_texts(sql, "ana"))) == ({}, 2)
