"""Filters run before ranking, and a search with any filter finds what a full scan finds."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from statistics import NormalDist
from typing import Any
from uuid import UUID

import asyncpg
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.bootstrap import Application, Doubles, build_application
from app.config.settings import Settings
from app.domain.filters import Filters
from app.domain.where.parsing import parse_where
from app.storage.recall.search import Search, SearchStorage
from app.usecases.recall.answer import Answer
from app.usecases.recall.request import Query
from tests.effort import tries
from tests.factories import Caller, Clock, make_caller
from tests.usecases.crowd import (
    STEPS,
    STOP_WORDS,
    USERS,
    WORDS,
    Crowd,
    SeededEmbedder,
    admits,
    ids_of,
    moment,
    seeded,
    settle,
)
from tests.usecases.stored import VECTORS as TABLE

SIZE = 3_000
RANKED = ("preferences", "event", "goals", "tasks")
STORAGE = SearchStorage("minilm_l6_v2")
many = settings(max_examples=tries(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclass(frozen=True)
class Town:
    """A tenant with a crowd, in an application with random vectors."""

    app: Application = field(repr=False)
    caller: Caller
    crowd: Crowd = field(repr=False)
    embedder: SeededEmbedder

    async def candidates(self, search: Search) -> list[Any]:
        """Return the candidates that storage finds."""
        async with self.app.parts.uow.read(self.caller.scope) as tx:
            return await STORAGE.find_candidates(tx, self.caller.scope, search)

    async def ask(self, query: str, **fields: Any) -> Answer:
        """Return the answer for the agent `supervisor`, with the largest budget."""
        asked = Query(agent="supervisor", query=query, budget_tokens=8192, **fields)
        return await self.app.recall.query.answer_query(self.caller.scope, asked)


@pytest.fixture
async def town(settings: Settings, clock: Clock, sql: asyncpg.Connection) -> AsyncIterator[Town]:
    """The crowd, beside another tenant's crowd of the same users that must stay invisible."""
    embedder = SeededEmbedder()
    async with build_application(settings, Doubles(embedder=embedder, clock=clock)) as app:
        caller, stranger = await make_caller(app), await make_caller(app)
        crowd = await settle(sql, caller.scope.tenant_id, SIZE)
        await settle(sql, stranger.scope.tenant_id, 500)
        yield Town(app, caller, crowd, embedder)


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "user_id": st.sampled_from([*USERS, "nobody"]),
    "agent_id": st.sampled_from(["planner", "stylist", "rare"]),
    "run_id": st.sampled_from(["run-1", "rare"]),
    "actor_id": st.sampled_from(["maya", "rare"]),
    "role": st.sampled_from(["user", "assistant", "rare"]),
    "thread_id": st.sampled_from(["t1", "t2", "rare"]),
    "where": st.sampled_from(["semantic", "episodic", "insight", "turn", "chunk"]).map(
        lambda name: parse_where({"type": name})
    ),
    "tag": st.sampled_from(["red", "green", "rare"]),
    "pinned": st.booleans(),
    "importance_min": st.integers(1, 5),
    "importance_max": st.integers(1, 5),
    "updated_after": st.integers(0, STEPS).map(moment),
    "updated_before": st.integers(0, STEPS).map(moment),
}


@st.composite
def filters(draw: st.DrawFn) -> Filters:
    """Draw a subset of the filters, mostly a small one, with common, rare and absent values."""
    most = draw(st.sampled_from([1, 2, 3, len(_VALUES)]))
    chosen = draw(st.sets(st.sampled_from(sorted(_VALUES)), max_size=most))
    values = {name: draw(_VALUES[name]) for name in sorted(chosen)}
    for low, high in (("importance_min", "importance_max"), ("updated_after", "updated_before")):
        if low in values and high in values:
            values[low], values[high] = sorted((values[low], values[high]))
    return Filters(**values)


CATEGORIES = st.lists(st.sampled_from(RANKED), min_size=1, unique=True).map(tuple)
VECTORS = st.integers(0, 10_000).map(seeded)


@pytest.mark.long
@many
@given(wanted=filters(), categories=CATEGORIES, vector=VECTORS, k=st.integers(1, 150), with_vectors=st.booleans())
async def test_the_dense_candidates_are_those_of_a_full_scan(
    town: Town, wanted: Filters, categories: tuple[str, ...], vector: np.ndarray, k: int, with_vectors: bool
) -> None:
    places = town.crowd.matching(wanted, categories)
    sure, maybe = town.crowd.nearest(places, vector, k)
    search = Search(wanted, categories, STOP_WORDS, vector, k, 50, with_vectors)
    found = await town.candidates(search)
    assert len(found) == min(k, len(places))
    assert sure <= ids_of(found) <= maybe
    cosines = {town.crowd.rows[p]["id"]: c for p, c in zip(places, town.crowd.cosines(places, vector), strict=True)}
    for candidate in found:
        assert candidate.similarity == pytest.approx(cosines[candidate.id], abs=1e-4)
        assert candidate.lexical is None
        assert (candidate.embedding is not None) == with_vectors


@pytest.mark.long
@many
@given(wanted=filters(), categories=CATEGORIES, word=st.sampled_from(WORDS), k=st.integers(1, 60))
async def test_the_lexical_candidates_are_as_many_as_hold_the_word(
    town: Town, wanted: Filters, categories: tuple[str, ...], word: str, k: int
) -> None:
    places = town.crowd.matching(wanted, categories)
    holding = {town.crowd.rows[p]["id"] for p in places if word in town.crowd.rows[p]["text"]}
    found = await town.candidates(Search(wanted, categories, f"{word} nowhere", seeded(word), 1, k))
    lexical = [candidate for candidate in found if candidate.lexical is not None]
    assert len(lexical) == min(k, len(holding))
    assert ids_of(lexical) <= holding
    assert len(found) <= len(lexical) + 1


@pytest.mark.long
@many
@given(wanted=filters(), categories=CATEGORIES, k=st.integers(1, 60))
async def test_without_a_vector_as_many_are_found_the_pinned_and_most_important_first(
    town: Town, wanted: Filters, categories: tuple[str, ...], k: int
) -> None:
    places = town.crowd.matching(wanted, categories)
    rows = sorted(
        (town.crowd.rows[p] for p in places),
        key=_precedence,
        reverse=True,
    )
    found = await town.candidates(Search(wanted, categories, STOP_WORDS, None, k, 50))
    ranks = sorted(((c.pinned, c.importance, c.updated_at) for c in found), reverse=True)
    assert ranks == [(r["pinned"], r["importance"], r["updated_at"]) for r in rows[:k]]
    assert all(c.similarity is None for c in found)
    assert ids_of(found) <= {r["id"] for r in rows}


@pytest.mark.long
@many
@given(
    wanted=filters(),
    categories=CATEGORIES | st.just(()),
    top_k=st.integers(1, 30),
    words=st.sampled_from([*WORDS, STOP_WORDS, "saffron lantern"]),
    failing=st.booleans(),
)
async def test_an_answer_is_full_whenever_enough_matches_and_never_leaves_the_filters(
    town: Town, wanted: Filters, categories: tuple[str, ...], top_k: int, words: str, failing: bool
) -> None:
    town.embedder.failing = failing
    answer = await town.ask(words, filters=wanted, categories=categories, top_k=top_k)
    places = town.crowd.matching(wanted, categories or RANKED)
    assert len(answer.items) == min(top_k, len(places))
    assert answer.degraded == ("embedder_unavailable" if failing else None)
    visible = {town.crowd.rows[p]["id"] for p in places}
    for item in [*answer.items, *answer.related]:
        assert item.memory.id in visible
        assert admits(wanted, item.memory)
    for dropped in answer.dropped:
        assert dropped.scored.candidate.id in visible
    assert not {i.memory.id for i in answer.related} & {i.memory.id for i in answer.items}


def _precedence(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["pinned"], row["importance"], row["updated_at"]


@pytest.fixture
async def hardly_embedded(town: Town, sql: asyncpg.Connection) -> set[UUID]:
    """Return the ids of one crowd that have a vector: none of ben's, one in sixty of the others'."""
    kept = {row["id"] for at, row in enumerate(town.crowd.rows) if row["user_id"] != "ben" and at % 60 == 0}
    await sql.execute(f"DELETE FROM {TABLE} WHERE memory_id <> ALL ($1)", kept)
    return kept


@pytest.mark.long
@many
@given(wanted=filters(), categories=CATEGORIES, vector=VECTORS, k=st.integers(1, 150))
async def test_what_has_no_vector_yet_follows_those_that_do_the_pinned_and_most_important_first(
    town: Town, hardly_embedded: set[UUID], wanted: Filters, categories: tuple[str, ...], vector: np.ndarray, k: int
) -> None:
    places = town.crowd.matching(wanted, categories)
    near = [p for p in places if town.crowd.rows[p]["id"] in hardly_embedded]
    sure, maybe = town.crowd.nearest(near, vector, k)
    found = await town.candidates(Search(wanted, categories, STOP_WORDS, vector, k, 50, True))
    embedded, rest = (ids_of(c for c in found if (c.similarity is None) is none) for none in (False, True))
    assert sure <= embedded <= maybe
    assert len(embedded) == min(k, len(near))
    assert all((c.similarity is None) == (c.embedding is None) for c in found)
    order = sorted((town.crowd.rows[p] for p in places if p not in set(near)), key=_precedence, reverse=True)
    chosen = [_precedence(row) for row in order if row["id"] in rest]
    assert chosen == [_precedence(row) for row in order[: k - len(embedded)]]


@pytest.mark.long
async def test_the_category_filter_is_a_filter_like_the_others(town: Town) -> None:
    for category in RANKED:
        for failing in (False, True):
            town.embedder.failing = failing
            wanted = Filters(category=category, agent_id="planner")
            answer = await town.ask("violin", filters=wanted, top_k=30)
            assert {item.memory.category for item in answer.items} == {category}
            assert len(answer.items) == min(30, len(town.crowd.matching(wanted, [category])))


@pytest.mark.long
async def test_a_big_category_does_not_crowd_a_small_one_out_of_a_long_answer(town: Town) -> None:
    lengths = {
        name: town.app.parts.policies.defaults.categories.get_category(name).rag_length
        for name in ("preferences", "tasks", "goals")
    }
    matching = {name: len(town.crowd.matching(Filters(), [name])) for name in lengths}
    room = sum(min(lengths[name], matching[name]) for name in lengths)
    assert room > 50
    answer = await town.ask(STOP_WORDS, categories=tuple(lengths), top_k=50)
    assert len(answer.items) == 50


async def test_only_what_is_similar_enough_passes_the_threshold(town: Town) -> None:
    wanted = Filters(user_id="ana")
    places = town.crowd.matching(wanted, RANKED)
    cosines = np.sort(town.crowd.cosines(places, seeded(STOP_WORDS)))[::-1]
    threshold = float(cosines[6] + cosines[7]) / 2
    model = town.app.parts.policies.defaults.relevance
    assert model is not None
    share = NormalDist(model.dense.mean, model.dense.deviation).cdf(threshold)
    answer = await town.ask(STOP_WORDS, filters=wanted, top_k=30, threshold=share)
    assert len(answer.items) == 7
    assert {d.reason for d in answer.dropped} == {"threshold"}


@pytest.mark.long
async def test_a_bound_key_finds_only_its_agents_categories(town: Town) -> None:
    planner = await make_caller(town.app, ("query",), ["planner"], tenant=town.caller)
    query = Query(agent="planner", query="violin", top_k=50, budget_tokens=8192)
    answer = await town.app.recall.query.answer_query(planner.scope, query)
    assert {item.memory.category for item in [*answer.items, *answer.related]} == {"goals", "tasks"}


@pytest.mark.long
async def test_time_filters_include_the_start_and_exclude_the_end(town: Town) -> None:
    hour = Filters(updated_after=moment(5), updated_before=moment(6))
    answer = await town.ask(STOP_WORDS, filters=hour, top_k=30)
    assert {item.memory.updated_at for item in answer.items} == {moment(5)}
    before = replace(hour, updated_after=moment(5) + timedelta(microseconds=1))
    assert (await town.ask(STOP_WORDS, filters=before, top_k=30)).items == []
