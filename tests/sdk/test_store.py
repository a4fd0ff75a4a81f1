"""MnemaStore against LangGraph's own in-memory store: the same operations, the same results."""

import asyncio
import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchItem,
    SearchOp,
    get_text_at_path,
)
from langgraph.store.memory import InMemoryStore
from mnema_client.langgraph import MnemaStore

from app.domain.agent_state.store_items import texts_at
from app.ports import Embedder
from tests.api.calls import sql
from tests.conftest import Database
from tests.factories import Caller, Clock
from tests.sdk.conftest import apart

FIELDS = ["text", "parts[*].note"]


@pytest.fixture
def model(embedder: Embedder) -> InMemoryStore:
    """Return LangGraph's in-memory store with the server's model."""

    async def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[float(x) for x in vector] for vector in await embedder.embed_texts(texts)]

    return InMemoryStore(index={"dims": embedder.dimension, "embed": embed, "fields": FIELDS})


def plain(result: Any) -> Any:
    """Return a result without times; unordered parts are sorted, scores rounded to half floats."""
    if isinstance(result, SearchItem):
        return result.namespace, result.key, result.value, None if result.score is None else round(result.score, 2)
    if isinstance(result, Item):
        return result.namespace, result.key, result.value
    if isinstance(result, list) and any(isinstance(item, SearchItem) for item in result):
        ranked = [plain(item) for item in result if item.score is not None]
        return ranked + sorted((plain(item) for item in result if item.score is None), key=repr)
    return result


async def both(store: MnemaStore, model: BaseStore, ops: Sequence[Op]) -> list[Any]:
    """Run operations on both stores, assert equal results and return them."""
    ours, theirs = await store.abatch(ops), await model.abatch(ops)
    assert [plain(r) for r in ours] == [plain(r) for r in theirs]
    return ours


VALUES: list[dict[str, Any]] = [
    {"text": "The venue has room for eighty.", "n": 3, "tags": ["a", "b"], "deep": {"x": 1, "y": {"z": "q"}}},
    {"text": "Jonas bakes rye bread.", "n": 3.5, "tags": ["a"], "deep": {"x": None}},
    {"text": "The moon rises late.", "n": "4", "tags": [], "parts": [{"note": "A telescope on the roof."}, {"x": 1}]},
    {"text": "Eighty chairs are rented.", "n": 0, "done": True, "none": None, "ünï": "cödé ✓"},
    {"n": -1, "tags": [{"k": 1}, "b"]},
]
PLACES = [("docs",), ("docs", "maya"), ("docs", "maya", "drafts"), ("docs2",), ("a b", "maya"), ("ü", "*")]
FILTERS: list[dict[str, Any] | None] = [
    None,
    {},
    {"n": 3},
    {"n": 3.0},
    {"n": {"$eq": 3}},
    {"n": {"$ne": 3}},
    {"n": {"$gt": 3}},
    {"n": {"$gte": 3, "$lt": 4}},
    {"n": {"$lte": "3.5"}},
    {"missing": None},
    {"missing": {"$ne": 1}},
    {"none": None},
    {"done": True},
    {"tags": ["a"]},
    {"tags": ["a", "b"]},
    {"tags": []},
    {"tags": [{"k": 1}, "b"]},
    {"tags": {"$eq": ["a", "b"]}},
    {"deep": {"x": 1}},
    {"deep": {}},
    {"deep": {"y": {"z": "q"}}},
    {"deep": {"y": {"z": {"$ne": "q"}}}},
    {"deep": {"$eq": {"x": None}}},
    {"n": 3, "tags": ["a", "b"]},
    {"ünï": "cödé ✓"},
]


async def furnish(store: MnemaStore, model: BaseStore) -> None:
    puts = [PutOp(place, f"k{n}", VALUES[n]) for place in PLACES for n in range(len(VALUES))]
    texts = itertools.count()
    puts = [  # LangGraph's in-memory store refuses two equal texts in one batch
        op._replace(
            value={**(op.value or {}), **({"text": f"{op.value['text']} {next(texts)}"} if "text" in op.value else {})}
        )
        for op in puts
        if op.value is not None and "parts" not in op.value
    ]
    puts.append(PutOp(("docs", "maya"), "k2", VALUES[2]))
    await both(store, model, puts)


async def test_filters_mean_what_they_mean_to_langgraph(store: MnemaStore, model: InMemoryStore) -> None:
    await furnish(store, model)
    seen = []
    for wanted in FILTERS:
        [found] = await both(store, model, [SearchOp(("docs",), wanted, limit=100)])
        seen.append(len(found))
    assert len(set(seen)) > 4, seen


async def test_an_operator_without_numbers_to_compare_matches_nothing_and_dates_compare(store: MnemaStore) -> None:
    await store.aput(("d",), "k", {"at": "2026-03-01", "n": 5})
    assert len(await store.asearch(("d",), filter={"at": {"$gt": "2026-01-31"}})) == 1
    assert await store.asearch(("d",), filter={"at": {"$gt": 5}}) == []
    assert await store.asearch(("d",), filter={"missing": {"$gt": 5}}) == []
    assert await store.asearch(("d",), filter={"n": {"$gt": [1]}}) == []


async def test_a_prefix_holds_whole_labels(store: MnemaStore, model: InMemoryStore) -> None:
    await furnish(store, model)
    prefixes: list[tuple[str, ...]] = [(), ("docs",), ("docs", "maya"), ("doc",), ("ü",), ("a b",), ("nothing",)]
    found = [await both(store, model, [SearchOp(prefix, limit=1000)]) for prefix in prefixes]
    assert len({len(items) for [items] in found}) > 3


async def test_search_by_meaning_ranks_as_langgraph_does(store: MnemaStore, model: InMemoryStore) -> None:
    await furnish(store, model)
    for query in ("stars and telescopes", "how many chairs", "baker"):
        for limit in (1, 3, 100):
            [found] = await both(store, model, [SearchOp(("docs", "maya"), query=query, limit=limit)])
            assert found[0].score is not None
    [top] = await store.abatch([SearchOp((), query="a telescope", limit=1)])
    assert top[0].key == "k2"  # found by one of its parts
    assert len(await store.asearch((), query="chairs", offset=2, limit=3)) == 3


@pytest.mark.long
async def test_namespaces_are_listed_alike(store: MnemaStore, model: InMemoryStore) -> None:
    await furnish(store, model)
    paths: list[tuple[str, ...]] = [("docs",), ("docs", "*"), ("*", "maya"), ("*",), ("maya",), ("drafts",), ("x",), ()]
    conditions: list[tuple[MatchCondition, ...] | None] = [None, ()]
    conditions += [(MatchCondition(kind, path),) for kind in ("prefix", "suffix") for path in paths]
    conditions.append((MatchCondition("prefix", ("docs",)), MatchCondition("suffix", ("maya",))))
    for wanted in conditions:
        for depth in (None, 1, 2):
            for limit, offset in ((100, 0), (2, 1)):
                [listed] = await both(store, model, [ListNamespacesOp(wanted, depth, limit, offset)])
    assert listed is not None


async def test_a_batch_reads_before_it_writes_and_the_last_put_counts(store: MnemaStore, model: InMemoryStore) -> None:
    place = ("docs",)
    await both(store, model, [PutOp(place, "k", {"v": 1}), GetOp(place, "k"), PutOp(place, "k", {"v": 2})])
    ops: list[Op] = [
        PutOp(place, "k", {"v": 3}),
        GetOp(place, "k"),
        SearchOp(place),
        PutOp(place, "other", {"v": 4}),
        PutOp(place, "other", None),
        GetOp(("nowhere",), "k"),
    ]
    answered = await both(store, model, ops)
    assert answered[1].value == {"v": 2}
    await both(store, model, [GetOp(place, "k"), GetOp(place, "other")])
    await both(store, model, [PutOp(place, "k", None), PutOp(place, "never was", None)])
    assert (await both(store, model, [GetOp(place, "k")]))[0] is None


async def test_random_batches_are_answered_alike(store: MnemaStore, model: InMemoryStore) -> None:
    chance = random.Random(7)
    spaces = [("a",), ("a", "b"), ("a", "b", "c"), ("b",)]

    def operation() -> Op:
        place, key = chance.choice(spaces), chance.choice("xyz")
        kind = chance.choice(("get", "put", "put", "delete", "search", "list"))
        if kind == "get":
            return GetOp(place, key)
        if kind == "put":
            return PutOp(place, key, {"n": chance.randint(0, 3), "s": chance.choice("pq")}, index=False)
        if kind == "delete":
            return PutOp(place, key, None)
        if kind == "search":
            return SearchOp(place, chance.choice([None, {"n": 1}, {"s": "p", "n": {"$gte": 1}}]), limit=100)
        return ListNamespacesOp(max_depth=chance.choice([None, 1]), match_conditions=(MatchCondition("prefix", place),))

    for _ in range(40):
        ops = [operation() for _ in range(chance.randint(1, 8))]
        for space in [space for space, kept in model._data.items() if not kept]:
            del model._data[space]  # it would list an empty namespace
        ops = [op for op in ops if not isinstance(op, GetOp) or op.namespace in model._data]
        if ops:
            await both(store, model, ops)


async def test_indexing_of_one_put_may_differ(store: MnemaStore, model: InMemoryStore) -> None:
    for target in (store, model):
        await target.aput(("d",), "none", {"text": "A violin."}, index=False)
        await target.aput(("d",), "other", {"text": "Nothing.", "title": "A cello."}, index=["title"])
    [found] = await both(store, model, [SearchOp(("d",), query="string instruments")])
    assert [(item.key, item.score is None) for item in found] == [("other", False), ("none", True)]
    await store.aput(("d",), "other", {"text": "Nothing.", "title": "A cello."}, index=False)
    assert [item.score for item in await store.asearch(("d",), query="cello")] == [None, None]


async def test_without_an_index_nothing_is_embedded_and_a_query_is_not_asked(
    server: str, caller: Caller, database: Database
) -> None:
    bare, model = MnemaStore(server, caller.key), InMemoryStore()
    for target in (bare, model):
        await target.aput(("d",), "k", {"text": "A violin."}, index=["text"])
    assert plain(await bare.asearch(("d",), query="violin")) == plain(await model.asearch(("d",), query="violin"))
    assert await sql(database, "SELECT 1 FROM store_vectors") == []
    await bare.aclose()


PATHS = [
    *("$", "", "text", "deep.x", "deep.y.z", "tags[0]", "tags[-1]", "tags[*]", "tags[9]", "tags[x]", "parts[*].note"),
    *(
        "*",
        "deep.*",
        "{n,text}",
        "deep.{x,y.z}",
        "parts[0].{note}",
        "tags[*].k",
        "none",
        "done",
        "[0]",
        "a[",
        "{n",
        ".",
    ),
]


@pytest.mark.parametrize("path", PATHS)
def test_texts_at_paths_are_those_langgraph_finds(path: str) -> None:
    for value in VALUES:
        assert texts_at(value, path) == get_text_at_path(value, path)


async def test_the_waiting_face_does_the_same(server: str, caller: Caller) -> None:
    store = MnemaStore(server, caller.key)
    await apart(lambda: store.put(("a",), "k", {"v": 1}))
    item = await apart(lambda: store.get(("a",), "k"))
    assert item is not None
    assert (item.value, item.key, item.namespace) == ({"v": 1}, "k", ("a",))
    assert item.created_at == item.updated_at
    assert await apart(lambda: store.list_namespaces()) == [("a",)]
    await apart(lambda: store.delete(("a",), "k"))
    assert await apart(lambda: store.search(("a",))) == []
    store.close()


async def test_a_put_keeps_when_it_began_and_the_last_changed_come_first(store: MnemaStore, clock: Clock) -> None:
    await store.aput(("d",), "one", {"v": 1})
    first = await store.aget(("d",), "one")
    clock.move(minutes=1)
    await store.aput(("d",), "two", {"v": 1})
    clock.move(minutes=1)
    await store.aput(("d",), "one", {"v": 2})
    again = await store.aget(("d",), "one")
    assert first is not None
    assert again is not None
    assert (again.created_at, again.updated_at > first.updated_at) == (first.created_at, True)
    assert [item.key for item in await store.asearch(("d",))] == ["one", "two"]


async def test_it_serves_one_event_loop_after_the_other(store: MnemaStore) -> None:
    async def used(number: int) -> None:
        await store.aput(("d",), str(number), {"n": number})
        await store.aclose()

    for number in range(2):
        await apart(lambda number=number: asyncio.run(used(number)))
    assert len(await store.asearch(("d",))) == 2


def test_half_floats_are_as_exact_as_the_comparison_needs() -> None:
    vector = np.random.default_rng(1).standard_normal(384)
    vector /= np.linalg.norm(vector)
    assert abs(float(vector @ vector.astype(np.float16).astype(np.float64)) - 1) < 0.001
