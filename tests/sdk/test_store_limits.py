"""MnemaStore: times to live, the user of an item, access to it, and limits."""

import asyncio
import json
import random

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)
from mnema_client import InvalidRequest, Mnema, NotAllowed
from mnema_client.langgraph import MnemaStore
from mnema_wire.store import BatchOut

from app.bootstrap import Application
from app.domain.agent_state.store_items import Batch, GetItem, PutItem
from app.domain.errors import QuotaExceeded
from app.domain.principal import Principal
from tests.api.calls import sql
from tests.conftest import Database
from tests.factories import Caller, Clock, KeepOpen, make_caller
from tests.sdk.conftest import apart


async def test_an_expired_item_is_not_there_and_reading_begins_its_time_anew(store: MnemaStore, clock: Clock) -> None:
    await store.aput(("d",), "read", {"v": 1}, ttl=10)
    await store.aput(("d",), "searched", {"v": 2}, ttl=10)
    await store.aput(("d",), "left", {"v": 3}, ttl=10)
    await store.aput(("d",), "kept", {"v": 4})
    clock.move(minutes=9)
    assert await store.aget(("d",), "read") is not None
    assert len(await store.asearch(("d",), filter={"v": 2})) == 1
    assert await store.aget(("d",), "left", refresh_ttl=False) is not None
    clock.move(minutes=2)
    assert {item.key for item in await store.asearch(("d",))} == {"read", "searched", "kept"}
    assert await store.aget(("d",), "left") is None
    clock.move(minutes=11)
    assert [item.key for item in await store.asearch(("d",))] == ["kept"]
    await store.aput(("gone",), "k", {"v": 1}, ttl=1)
    clock.move(minutes=2)
    assert await store.alist_namespaces() == [("d",)]
    began = clock.now()
    await store.aput(("gone",), "k", {"v": 2})
    again = await store.aget(("gone",), "k")
    assert again is not None
    assert again.created_at >= began  # an expired item counts as absent


async def test_retention_sweeps_what_has_expired(
    app: Application, caller: Caller, store: MnemaStore, clock: Clock, database: Database
) -> None:
    await store.aput(("d",), "mortal", {"text": "A violin."}, ttl=1)
    await store.aput(("d",), "kept", {"text": "A cello."})
    clock.move(minutes=2)
    dry = await app.retention.forget.delete_old_records(caller.scope, dry_run=True)
    assert dry.counts["store_items"] == 1
    assert len(await sql(database, "SELECT 1 FROM store_items")) == 2
    assert (await app.retention.forget.delete_old_records(caller.scope)).counts["store_items"] == 1
    assert [
        row["key"] for row in await sql(database, "SELECT key FROM store_items JOIN store_vectors ON id = item_id")
    ] == ["kept"]


async def test_the_default_time_to_live_is_langgraphs_setting(server: str, caller: Caller, clock: Clock) -> None:
    store = MnemaStore(server, caller.key, ttl={"default_ttl": 5, "refresh_on_read": False})
    await store.aput(("d",), "k", {"v": 1})
    await store.aput(("d",), "ever", {"v": 1}, ttl=None)
    clock.move(minutes=4)
    assert await store.aget(("d",), "k") is not None
    clock.move(minutes=2)
    assert await store.aget(("d",), "k") is None
    assert await store.aget(("d",), "ever") is not None
    await store.aclose()


async def test_what_is_a_persons_is_exported_and_erased_with_them(
    app: Application, store: MnemaStore, caller: Caller, server: str
) -> None:
    await store.aput(("notes", "maya"), "k", {"text": "A violin."})
    await store.aput(("notes", "ben"), "k", {"text": "A cello."})
    with Mnema(server, caller.key) as memory:
        records = await apart(lambda: list(memory.export("maya")))
        items = [record for record in records if record["kind"] == "item"]
        assert [(item["namespace"], item["value"]) for item in items] == [(["notes", "maya"], {"text": "A violin."})]
        receipt = await apart(lambda: memory.erase("maya"))
    assert receipt.counts["store_items"] == 1
    assert await store.aget(("notes", "maya"), "k") is None
    assert await store.aget(("notes", "ben"), "k") is not None


async def test_a_key_bound_to_agents_is_refused(app: Application, server: str, caller: Caller) -> None:
    bound = await make_caller(app, ["query", "write"], ["planner"], tenant=caller)
    store = MnemaStore(server, bound.key)
    for call in (store.aput(("d",), "k", {}), store.aget(("d",), "k"), store.asearch(()), store.alist_namespaces()):
        with pytest.raises(NotAllowed) as refused:
            await call
        assert refused.value.code == "agent_not_allowed"
    await store.aclose()


@pytest.mark.parametrize(("scope", "reads", "writes"), [("query", True, False), ("write", False, True)])
async def test_reading_and_putting_need_their_scopes(
    app: Application, server: str, caller: Caller, scope: str, reads: bool, writes: bool
) -> None:
    key = await make_caller(app, [scope], tenant=caller)
    store = MnemaStore(server, key.key)
    answers = await asyncio.gather(store.aget(("d",), "k"), store.aput(("d",), "k", {}), return_exceptions=True)
    assert [getattr(answer, "code", "allowed") for answer in answers] == [
        "allowed" if may else "scope_required" for may in (reads, writes)
    ]
    await store.aclose()


REFUSED: list[tuple[str, Op]] = [
    ("too long a label", GetOp(("x" * 201,), "k")),
    ("too many labels", SearchOp(tuple("x" * 21))),
    ("too long a place", PutOp(tuple("ü" * 200 for _ in range(6)), "k", {})),
    ("too long a key", GetOp(("d",), "x" * 501)),
    ("an empty key", PutOp(("d",), "", {})),
    ("a label with what ends labels", GetOp(("a\x01b",), "k")),
    ("a prefix with it", SearchOp(("a\x01b",))),
    ("a condition with it", ListNamespacesOp((MatchCondition("suffix", ("a\x01b",)),))),
    ("too large a value", PutOp(("d",), "k", {"v": "x" * 262_144})),
    ("too deep a value", PutOp(("d",), "k", {"v": json.loads("[" * 65 + "]" * 65)})),
    ("a NUL in a value", PutOp(("d",), "k", {"v": "\x00"})),
    ("too long a time to live", PutOp(("d",), "k", {}, ttl=1e9)),
    ("no time to live", PutOp(("d",), "k", {}, ttl=0)),
    ("an unknown operator", SearchOp(("d",), {"v": {"$in": [1]}})),
    ("operators beside fields", SearchOp(("d",), {"v": {"$gt": 1, "w": 2}})),
    ("too many at once", SearchOp(("d",), limit=1001)),
    ("too many texts", PutOp(("d",), "k", {"parts": [{"note": "n"} for _ in range(1001)]})),
    ("too many paths", PutOp(("d",), "k", {}, index=["a"] * 21)),
]


async def test_what_is_too_much_is_refused_and_nothing_is_stored(store: MnemaStore, database: Database) -> None:
    answers = {}
    for name, op in REFUSED:
        [answers[name]] = await asyncio.gather(
            store.abatch([PutOp(("fine",), "k", {"v": 1}), op]), return_exceptions=True
        )
    assert {name for name, answer in answers.items() if not isinstance(answer, InvalidRequest)} == set(), answers
    assert await sql(database, "SELECT 1 FROM store_items") == []


async def test_too_many_operations_and_too_large_an_answer_are_refused(store: MnemaStore) -> None:
    with pytest.raises(InvalidRequest, match="1000 operations"):
        await store.abatch([GetOp(("d",), str(n)) for n in range(501)] + [SearchOp(("d",)) for _ in range(500)])
    for batch in range(5):
        puts = [PutOp(("d",), f"{batch}-{n}", {"v": "x" * 250_000}, index=False) for n in range(4)]
        await store.abatch(puts)
    with pytest.raises(InvalidRequest, match="ask for fewer"):
        await store.abatch([SearchOp(("d",), limit=100) for _ in range(4)])
    assert len(await store.asearch(("d",), limit=3)) == 3


async def test_values_are_handed_on_unread_in_the_shape_that_the_document_promises(
    app: Application, caller: Caller, server: str
) -> None:
    value = {"ö": [1, 0.25, 10**30, None, {"\u2028": "\\u0000"}], "": {}}
    puts = tuple(PutItem(("d", "é"), key, value, ("ö[*]",)) for key in "kl")
    await app.agent_state.store_items.run_batch(caller.scope, Batch(puts=puts))
    [item] = (await app.agent_state.store_items.run_batch(caller.scope, Batch(gets=(GetItem(("d", "é"), "k"),)))).gets
    assert item is not None
    assert isinstance(item.value, str)
    assert json.loads(item.value) == value
    place = {"namespace": ["d", "é"], "key": "k"}
    asked = {"gets": [place, {**place, "key": "n"}], "searches": [{"query": "violin"}, {}], "lists": [{}]}
    async with caller.client(server) as client:
        response = await client.post("/store/batch", json=asked)
    assert response.headers["content-type"] == "application/json"
    answer = response.json()
    assert [answer["gets"][0]["value"], answer["gets"][1], len(answer["searches"][0])] == [value, None, 2]
    assert answer == BatchOut.model_validate(answer).model_dump(mode="json")


@pytest.mark.long
async def test_an_answer_of_too_many_small_items_is_refused(store: MnemaStore) -> None:
    await store.abatch([PutOp(("d", str(n)), "k", {}, index=False) for n in range(20)])
    many: list[list[Op]] = [[SearchOp(("d",), limit=20)] * 501, [ListNamespacesOp(limit=20)] * 501]
    for ops in many:
        with pytest.raises(InvalidRequest, match="more than 10000 items"):
            await store.abatch(ops)
        assert len(await store.abatch(ops[:500])) == 500


@pytest.mark.long
async def test_nothing_is_stored_or_searched_by_meaning_while_the_embedder_is_away(
    store: MnemaStore, embedder: KeepOpen, database: Database
) -> None:
    await store.aput(("d",), "k", {"text": "A violin."})
    embedder.failing = True
    try:
        calls = store.aput(("d",), "new", {"text": "A cello."}), store.asearch(("d",), query="strings")
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [getattr(answer, "code", None) for answer in answers] == ["embedder_unavailable"] * 2
        await store.aput(("d",), "unindexed", {"text": "A flute."}, index=False)
    finally:
        embedder.failing = False
    assert {item.key for item in await store.asearch(("d",))} == {"k", "unindexed"}


async def test_what_is_stored_counts_against_the_quota_of_memories(
    app: Application, caller: Caller, database: Database
) -> None:
    counted: list[int] = []
    limits = app.tenancy.limits
    taken, given = limits.take_quota, limits.give_back

    async def take(scope: Principal) -> None:
        counted.append(1)
        if sum(counted) > 3:
            raise QuotaExceeded(retry_after=1)
        await taken(scope)

    def give_back(scope: Principal) -> None:
        counted.append(-1)
        given(scope)

    limits.take_quota, limits.give_back = take, give_back  # type: ignore[method-assign]  # the quota itself has tests of its own
    puts = tuple(PutItem(("d",), str(n), {"n": n}) for n in range(4))
    with pytest.raises(QuotaExceeded):
        await app.agent_state.store_items.run_batch(caller.scope, Batch(puts=puts))
    assert await sql(database, "SELECT 1 FROM store_items") == []
    counted.clear()
    await app.agent_state.store_items.run_batch(caller.scope, Batch(puts=(*puts[:3], PutItem(("d",), "9", None))))
    assert counted == [1, 1, 1]


async def test_names_that_langgraph_refuses_never_leave(store: MnemaStore) -> None:
    for place in (("a.b",), ("",), ("a", "\x00")):
        with pytest.raises(InvalidNamespaceError):
            await store.abatch([PutOp(place, "k", {})])
    with pytest.raises(InvalidNamespaceError):
        await store.aput((), "k", {})
    with pytest.raises(ValueError, match="Out of range"):
        await store.aput(("d",), "k", {"v": float("nan")})
    with pytest.raises(ValueError, match="only 'fields'"):
        MnemaStore("http://127.0.0.1:1", "key", index={"dims": 3, "embed": lambda texts: [[0.0] * 3 for _ in texts]})


@pytest.mark.long
async def test_many_batches_on_the_same_places_at_once_all_succeed(store: MnemaStore, database: Database) -> None:
    keys = [str(n) for n in range(12)]
    await store.abatch([PutOp(("d",), key, {"n": 0}, ttl=5, index=False) for key in keys])

    async def worker(number: int) -> None:
        chance = random.Random(number)
        for _ in range(5):
            chance.shuffle(keys_here := list(keys))
            ops: list[Op] = [GetOp(("d",), key) for key in keys_here[:4]]
            ops += [PutOp(("d",), key, {"n": number}, ttl=5, index=False) for key in keys_here[4:8]]
            ops += [PutOp(("d",), keys_here[8], None)]
            await store.abatch(ops)

    await asyncio.gather(*(worker(number) for number in range(1, 9)))
    assert {item.value["n"] for item in await store.asearch(("d",), limit=100)} <= set(range(9))
    print(
        "DEADLOCKS",
        await sql(
            database,
            "select deadlocks, xact_commit, xact_rollback from pg_stat_database where datname=current_database()",
        ),
    )
