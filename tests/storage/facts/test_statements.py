"""Statements and stored facts: every operation, and any order of arrival."""

import asyncio
import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.facts.fact import FactFilter, FactKind, FactOperation, FactOutcome, FactStatement
from app.domain.principal import Principal
from app.storage.facts.facts import FactStorage
from app.storage.journal import Journal
from app.storage.uow import UnitOfWork
from tests.storage.building import bind, new_tenant

COLORS = "favorite_colors"
START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(minute: float) -> datetime:
    return START + timedelta(minutes=minute)


def a_list(*values: str, topic: str = COLORS) -> FactOperation:
    return FactOperation("list", topic, tuple(enumerate(values, 1)))


def put(rank: int | None, value: str) -> FactOperation:
    return FactOperation("put", COLORS, ((rank, value),))


def first(value: str) -> FactOperation:
    return FactOperation("set", COLORS, ((None, value),))


def append(*values: str) -> FactOperation:
    return FactOperation("append", COLORS, tuple((None, value) for value in values))


def remove(*values: str, ranks: tuple[int, ...] = ()) -> FactOperation:
    return FactOperation("remove", COLORS, tuple((None, value) for value in values), ranks)


def swap(one: int, other: int, topic: str | None = COLORS) -> FactOperation:
    return FactOperation("swap", topic, ranks=(one, other))


def insert(rank: int | None, value: str) -> FactOperation:
    return FactOperation("insert", COLORS, ((rank, value),))


def move(rank: int | None, value: str, topic: str | None = COLORS) -> FactOperation:
    return FactOperation("move", topic, ((rank, value),))


def replaced(old: str, new: str, rank: int | None = None, topic: str | None = COLORS) -> FactOperation:
    return FactOperation("replace", topic, ((None, old), (rank, new)))


class Talk:
    """One user's thread, and what the user states in it."""

    def __init__(self, uow: UnitOfWork, journal: Journal, scope: Principal, thread: str | None = "talk") -> None:
        self.uow, self.journal, self.scope, self.thread = uow, journal, scope, thread

    async def state(self, minute: float, *operations: FactOperation) -> list[str | None]:
        return [stated.action for stated in (await self.outcome(minute, *operations)).stated]

    async def outcome(self, minute: float, *operations: FactOperation) -> FactOutcome:
        statement = FactStatement("maya", self.thread, "preferences", operations, at(minute))
        return (await self.journal.record(self.scope, [], facts=[statement])).facts[0]

    async def facts(self, topic: str = COLORS) -> dict[int | None, str]:
        async with self.uow.read(self.scope) as tx:
            found = await FactStorage(self.uow).list_facts(
                tx, self.scope, FactFilter("maya", self.thread, topic), None, 100
            )
        assert all((fact.rank is None) == (fact.kind is FactKind.single) for fact in found)
        assert len({fact.rank for fact in found}) == len(found)
        return {fact.rank: fact.value for fact in found}


@pytest.fixture
def talk(uow: UnitOfWork, journal: Journal, a: Principal) -> Talk:
    """Return a thread of tenant a."""
    return Talk(uow, journal, a)


async def test_a_list_stores_each_rank_and_the_same_again_counts_as_nothing(talk: Talk) -> None:
    assert await talk.state(1, a_list("red", "white", "blue")) == ["store"] * 3
    assert await talk.facts() == {1: "red", 2: "white", 3: "blue"}
    assert await talk.state(2, a_list("Red", "white", "blue")) == [None] * 3
    assert await talk.facts() == {1: "red", 2: "white", 3: "blue"}


async def test_a_value_without_a_rank_corrects_the_first_of_a_list(talk: Talk) -> None:
    await talk.state(1, a_list("red", "white"))
    assert await talk.state(2, first("green")) == ["update"]
    assert await talk.facts() == {1: "green", 2: "white"}


async def test_a_value_without_a_list_is_single_until_a_list_replaces_it(talk: Talk) -> None:
    assert await talk.state(1, first("teal")) == ["store"]
    assert await talk.state(2, first("green")) == ["update"]
    assert await talk.facts() == {None: "green"}
    assert await talk.state(3, a_list("red", "white")) == ["remove", "store", "store"]
    assert await talk.facts() == {1: "red", 2: "white"}


async def test_a_shorter_list_replaces_the_longer_one(talk: Talk) -> None:
    await talk.state(1, a_list("red", "white", "blue"))
    assert await talk.state(2, a_list("black", "white")) == ["update", None, "remove"]
    assert await talk.facts() == {1: "black", 2: "white"}


async def test_what_is_added_comes_after_the_highest_rank_and_only_once(talk: Talk) -> None:
    await talk.state(1, a_list("red", "white"))
    assert await talk.state(2, append("Red", "pink", "pink")) == ["store"]
    assert await talk.facts() == {1: "red", 2: "white", 3: "pink"}


async def test_a_value_added_to_a_single_one_makes_a_list(talk: Talk) -> None:
    await talk.state(1, first("teal"))
    assert await talk.state(2, append("pink")) == [None, "store"]
    assert await talk.facts() == {1: "teal", 2: "pink"}


async def test_a_list_grows_to_the_highest_rank_only(talk: Talk) -> None:
    await talk.state(1, a_list(*(f"color {n}" for n in range(1, 10))))
    assert await talk.state(2, append("ten", "eleven")) == ["store"]
    assert (await talk.facts())[10] == "ten"
    assert len(await talk.facts()) == 10


async def test_a_removed_value_leaves_the_other_ranks_and_comes_back_as_stored(talk: Talk) -> None:
    await talk.state(1, a_list("red", "white", "blue"))
    assert await talk.state(2, remove("White")) == ["remove"]
    assert await talk.facts() == {1: "red", 3: "blue"}
    assert await talk.state(3, remove(ranks=(2,)), remove("mauve")) == []
    assert await talk.state(4, append("pink"), put(2, "white")) == ["store", "store"]
    assert await talk.facts() == {1: "red", 2: "white", 3: "blue", 4: "pink"}
    assert await talk.state(5, remove()) == ["remove"] * 4
    assert await talk.facts() == {}


async def test_a_swap_needs_both_ranks(talk: Talk) -> None:
    await talk.state(1, a_list("red", "white"), a_list("tea", "juice", topic="favorite_drinks"))
    assert await talk.state(2, swap(1, 2)) == ["update", "update"]
    assert await talk.facts() == {1: "white", 2: "red"}
    assert await talk.state(3, swap(1, 3)) == []


async def test_a_swap_without_a_topic_is_about_the_topic_stated_last(talk: Talk) -> None:
    assert await talk.state(0, swap(1, 2, None)) == []
    await talk.state(1, a_list("tea", "juice", topic="favorite_drinks"))
    await talk.state(2, a_list("red", "white"))
    assert await talk.state(3, swap(1, 2, None)) == ["update", "update"]
    assert await talk.facts() == {1: "white", 2: "red"}
    assert await talk.facts("favorite_drinks") == {1: "tea", 2: "juice"}


async def test_an_older_statement_changes_nothing_that_a_newer_one_decided(talk: Talk) -> None:
    await talk.state(5, a_list("red", "white"))
    assert await talk.state(1, a_list("black", "grey", "brown")) == [None, None]
    assert await talk.state(2, append("pink"), swap(1, 2), remove("red"), first("teal")) == [None]
    assert await talk.facts() == {1: "red", 2: "white"}


async def test_an_older_statement_does_not_bring_back_what_was_removed(talk: Talk) -> None:
    await talk.state(1, a_list("red", "white"))
    await talk.state(5, remove())
    assert await talk.state(3, a_list("red", "white")) == []
    assert await talk.facts() == {}
    assert await talk.state(6, a_list("red")) == ["store"]
    assert await talk.facts() == {1: "red"}


async def test_an_older_list_does_not_bring_back_a_topic_whose_single_value_was_removed(talk: Talk) -> None:
    await talk.state(1, first("teal"))
    await talk.state(5, remove())
    assert await talk.state(3, a_list("red", "white")) == []
    assert await talk.state(3, put(2, "white")) == []
    assert await talk.facts() == {}
    assert await talk.state(6, a_list("red", "white")) == ["store", "store"]


async def test_a_single_value_that_a_rank_replaced_leaves_room_for_older_ranks(talk: Talk) -> None:
    await talk.state(1, first("teal"))
    assert await talk.state(3, put(1, "red")) == ["remove", "store"]
    assert await talk.state(2, put(2, "white")) == ["store"]
    assert await talk.facts() == {1: "red", 2: "white"}


async def test_a_given_single_value_is_rank_one_of_a_list(talk: Talk) -> None:
    await talk.state(1, a_list("red", "white"))
    assert await talk.state(2, put(None, "pink")) == ["update"]
    assert await talk.facts() == {1: "pink", 2: "white"}


async def test_an_older_list_fills_the_ranks_that_a_newer_value_left(talk: Talk) -> None:
    await talk.state(5, first("teal"))
    assert await talk.state(1, a_list("red", "white")) == [None, None, "store"]
    assert await talk.facts() == {1: "teal", 2: "white"}


async def test_twins_of_one_moment_leave_one_of_them_whole(talk: Talk) -> None:
    lists = [[f"{name} {n}" for n in range(1, size)] for name, size in (("a", 4), ("b", 3), ("c", 6))]
    await asyncio.gather(*(talk.state(1, a_list(*values)) for values in lists))
    assert list((await talk.facts()).values()) in lists


@pytest.mark.long
async def test_sixteen_writers_of_one_topic_leave_the_latest_statement(
    talk: Talk, superuser: asyncpg.Connection
) -> None:
    lists = {minute: [f"m{minute} {n}" for n in range(1, 2 + minute % 5)] for minute in range(1, 65)}

    async def write(minutes: list[int]) -> None:
        for minute in minutes:
            await talk.state(minute, a_list(*lists[minute]))
            await talk.state(minute + 0.5, first(f"corrected {minute}"))

    order = sorted(lists, key=lambda minute: minute * 37 % 64)
    await asyncio.gather(*(write(order[lane::16]) for lane in range(16)))
    assert list((await talk.facts()).values()) == ["corrected 64", *lists[64][1:]]
    rows = await superuser.fetch("SELECT id, value, removed_at FROM facts WHERE tenant_id = $1", talk.scope.tenant_id)
    for row in rows:
        steps = await superuser.fetch(
            "SELECT meta FROM history WHERE tenant_id = $1 AND memory_id = $2 ORDER BY ts, id",
            talk.scope.tenant_id,
            str(row["id"]),
        )
        changes = [_decoded(step["meta"]) for step in steps]
        for one, two in itertools.pairwise(changes):
            assert (one["after"]["value"], one["after"].get("removed_at")) == (
                two["before"]["value"],
                two["before"].get("removed_at"),
            )
        assert changes[-1]["after"]["value"] == row["value"]


def _decoded(meta: Any) -> dict[str, Any]:
    return json.loads(meta) if isinstance(meta, str) else meta


async def test_facts_without_a_thread_are_one_place(uow: UnitOfWork, journal: Journal, a: Principal) -> None:
    nowhere = Talk(uow, journal, a, None)
    await nowhere.state(1, first("teal"))
    assert await nowhere.state(2, first("green")) == ["update"]
    assert await nowhere.facts() == {None: "green"}


async def test_tenants_and_threads_stay_apart(uow: UnitOfWork, journal: Journal, a: Principal, b: Principal) -> None:
    talks = [Talk(uow, journal, scope, thread) for scope in (a, b) for thread in ("one", "two")]
    for minute, talk in enumerate(talks):
        await talk.state(minute, a_list(f"value {minute}", "same"))
    assert [await talk.facts() for talk in talks] == [{1: f"value {n}", 2: "same"} for n in range(4)]


async def run_alone(raw: asyncpg.Connection, scope: Principal, statement: str) -> str:
    async with raw.transaction():
        await bind(raw, scope.tenant_id)
        return str(await raw.execute(statement))


@pytest.mark.parametrize(
    "statement", ["UPDATE facts SET value = 'x'", "UPDATE facts SET removed_at = now()", "DELETE FROM facts"]
)
async def test_a_change_without_history_is_refused(talk: Talk, raw: asyncpg.Connection, statement: str) -> None:
    await talk.state(1, a_list("red", "white"))
    with pytest.raises(asyncpg.PostgresError, match="without a history row"):
        await run_alone(raw, talk.scope, statement)
    said_again = "UPDATE facts SET created_at = now()"
    assert await run_alone(raw, talk.scope, said_again) == "UPDATE 2"
    assert await talk.facts() == {1: "red", 2: "white"}


LISTS = st.lists(st.sampled_from("abcdef"), min_size=2, max_size=5, unique=True).map(lambda values: a_list(*values))
STATEMENTS = st.one_of(LISTS, st.sampled_from("abcdef").map(first))


@pytest.mark.long
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(STATEMENTS, min_size=2, max_size=5), order=st.randoms())
async def test_the_order_of_arrival_does_not_matter(
    uow: UnitOfWork, journal: Journal, said: list[Any], order: Any
) -> None:
    """Whole lists and corrections give the same facts in whatever order they arrive."""
    in_order, shuffled = [Talk(uow, journal, await new_tenant(uow)) for _ in range(2)]
    moments = list(enumerate(said))
    for minute, operation in moments:
        await in_order.state(minute, operation)
    order.shuffle(moments)
    for minute, operation in moments:
        await shuffled.state(minute, operation)
    assert await shuffled.facts() == await in_order.facts()


@pytest.mark.parametrize(
    ("operation", "after"),
    [
        (insert(2, "teal"), {1: "red", 2: "teal", 3: "blue", 4: "green"}),
        (insert(1, "Green"), {1: "Green", 2: "red", 3: "blue"}),
        (insert(None, "red"), {1: "blue", 2: "green", 3: "red"}),
        (insert(5, "teal"), {1: "red", 2: "blue", 3: "green", 5: "teal"}),
        (insert(2, "blue"), {1: "red", 2: "blue", 3: "green"}),
        (move(3, "red"), {1: "blue", 2: "green", 3: "red"}),
        (move(3, "red", topic=None), {1: "blue", 2: "green", 3: "red"}),
        (move(1, "pink"), {1: "red", 2: "blue", 3: "green"}),
        (replaced("blue", "teal"), {1: "red", 2: "teal", 3: "green"}),
        (replaced("BLUE", "teal", topic=None), {1: "red", 2: "teal", 3: "green"}),
        (replaced("blue", "red"), {1: "red", 3: "green"}),
        (replaced("pink", "teal"), {1: "red", 2: "blue", 3: "green"}),
        (replaced("pink", "teal", rank=1), {1: "teal", 2: "blue", 3: "green"}),
    ],
)
async def test_a_value_gets_another_place_or_gives_its_place(
    talk: Talk, operation: FactOperation, after: dict[int, str]
) -> None:
    await talk.state(0, a_list("red", "blue", "green"))
    await talk.state(1, operation)
    assert await talk.facts() == after


async def test_a_place_in_a_full_list_drops_the_last_value(talk: Talk) -> None:
    await talk.state(0, a_list(*"abcdefghij"))
    await talk.state(1, insert(1, "z"))
    assert await talk.facts() == dict(enumerate("zabcdefghi", 1))


async def test_a_place_after_a_gap_fills_it_first(talk: Talk) -> None:
    await talk.state(0, put(1, "red"), put(2, "blue"), put(4, "green"))
    await talk.state(1, insert(1, "teal"))
    assert await talk.facts() == {1: "teal", 2: "red", 3: "blue", 4: "green"}


async def test_a_place_or_a_replacement_of_a_single_value(talk: Talk) -> None:
    await talk.state(0, first("red"))
    await talk.state(1, replaced("red", "blue", rank=1))
    assert await talk.facts() == {None: "blue"}
    await talk.state(2, insert(1, "teal"))
    assert await talk.facts() == {1: "teal", 2: "blue"}


async def test_an_older_place_or_replacement_changes_nothing_that_is_newer(talk: Talk) -> None:
    await talk.state(5, a_list("red", "blue", "green"))
    assert await talk.state(1, insert(1, "teal"), move(1, "green")) == []
    await talk.state(1, replaced("red", "teal"))
    assert await talk.facts() == {1: "red", 2: "blue", 3: "green"}


async def test_a_place_tells_what_it_changed(talk: Talk) -> None:
    await talk.state(0, a_list("red", "blue"))
    assert await talk.state(1, insert(1, "teal")) == ["update", "update", "store"]
    assert await talk.state(2, move(3, "teal")) == ["update", "update", "update"]
