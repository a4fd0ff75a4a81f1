"""All methods of both clients, against a real server."""

import asyncio
import json
import typing
from base64 import b64decode, urlsafe_b64encode
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from mnema_client import (
    AsyncMnema,
    CannotBeSent,
    Conflict,
    CursorOfOtherDatabase,
    Filters,
    InvalidRequest,
    Mnema,
    NewMemory,
    NotAllowed,
    NotConfigured,
    NotFound,
    Unauthenticated,
    VersionConflict,
    batches,
    citations,
    requests,
    sources,
)
from mnema_wire.batches import BatchChanges
from mnema_wire.memory import Changes, Memory, NewTurn, Written
from mnema_wire.recall import Question, SearchRequest
from mnema_wire.sources import NewSource, SourceChanges

from app.bootstrap import Application
from tests.factories import Caller, make_caller
from tests.sdk.conftest import Either, apart

MAYA: dict[str, Any] = {"user_id": "maya", "category": "tasks"}


async def test_what_is_remembered_is_found_changed_and_taken_back(either: Either) -> None:
    written = await either.remember("Maya books the venue.", thread_id="launch", tags=["venue"], importance=4, **MAYA)
    assert (written.action, written.revision) == ("created", 1)
    again = await either.remember("Maya books the venue.", **MAYA)
    assert (again.action, again.matched_id) == ("unchanged", written.id)
    memory = await either.get(written.id)
    assert (memory.text, memory.tags, memory.importance, memory.state) == (
        "Maya books the venue.",
        ["venue"],
        4,
        "active",
    )
    edited = await either.edit(written.id, version=memory.version, text="Maya booked the venue.", tags=[])
    assert (edited.text, edited.tags, edited.version) == ("Maya booked the venue.", [], memory.version + 1)
    with pytest.raises(VersionConflict) as stale:
        await either.edit(written.id, version=memory.version, importance=1)
    assert (stale.value.status, stale.value.code) == (412, "version_conflict")
    assert stale.value.request_id
    assert (await either.pin(written.id)).pinned
    assert not (await either.pin(written.id, False)).pinned
    assert (await either.delete(written.id)).state == "soft_deleted"
    assert (await either.restore(written.id)).state == "active"
    events = [entry.event for entry in await either.history(written.id, limit=2)]
    assert events[0] == "RESTORE"
    assert events[-1] == "ADD"
    assert len(events) == 6
    assert await either.purge(written.id) is None
    with pytest.raises(NotFound):
        await either.get(written.id)


async def test_a_user_with_a_text_or_a_question_is_enough(either: Either) -> None:
    await either.remember("Maya plays the cello.", user_id="maya")
    answer = await either.query("What does Maya play?", user_id="maya", dates=False)
    assert [item.text for item in answer.items] == ["[knowledge] Maya plays the cello."]


async def test_a_memory_is_ended_corrected_and_forgotten(either: Either) -> None:
    old = (await either.remember("Maya lives in Porto.", valid_from="2026-03-01", **MAYA)).id
    closed = await either.supersede(old, valid_to="2026-07-01", version=1)
    assert (closed.state, closed.valid_to and closed.valid_to.month) == ("superseded", 7)
    assert (await either.retract(old)).state == "retracted"
    await either.restore(old)
    corrected = await either.correct(old, "Maya lives in Braga.", user_id="maya", was="wrong")
    assert (corrected.corrected_id, corrected.state) == (old, "retracted")
    shown = await either.forget(user_id="maya", id=corrected.id)
    assert [memory.id for memory in shown.matches] == [corrected.id]
    gone = await either.forget(user_id="maya", confirm=[corrected.id])
    assert [memory.state for memory in gone.forgotten] == ["soft_deleted"]


async def test_a_question_is_answered_with_header_items_and_a_prompt(either: Either) -> None:
    await either.remember("Maya books the venue.", thread_id="launch", **MAYA)
    await either.remember("Ben repairs the roof.", user_id="ben", category="tasks")
    answer = await either.query(
        "the venue", agent="planner", filters={"user_id": "maya"}, thread_id="launch", top_k=3, dates=False
    )
    assert [item.text for item in answer.items] == ["[tasks] Maya books the venue."]
    assert answer.header.startswith("Memory updates since rev 0:")
    assert answer.prompt().splitlines() == [*answer.header.splitlines(), "[tasks] Maya books the venue."]
    assert (answer.delta.rev, answer.tokens > 0) == (1, True)
    full = await either.query("venue", agent="planner", filters=Filters(user_id="maya"), returns="full", explain=True)
    [item] = full.items
    assert (item.user_id, item.type, item.importance) == ("maya", "semantic", 2)
    assert item.score is not None
    assert item.score.total == pytest.approx(sum(item.score.parts.values()))
    assert full.dropped == []
    since = {"updated_after": date(2020, 1, 1), "updated_before": datetime.now(UTC) + timedelta(hours=1)}
    roof = await either.query("roof", agent="planner", filters=since, dates=False)
    assert [item.text for item in roof.items] == ["[tasks] Ben repairs the roof."]
    assert roof.answerable >= roof.items[0].relevance
    everything = await either.query("roof", agent="planner", filters=since, min_relevance=0)
    assert len(everything.items) == 2
    without = await either.query("roof", agent="planner", exclude_ids=[roof.items[0].id], min_relevance=0, dates=False)
    assert [item.text for item in without.items] == ["[tasks] Maya books the venue."]
    assert (await either.query("roof", agent="planner", threshold=0.99)).items == []
    with pytest.raises(NotAllowed) as refused:
        await either.query("venue", agent="stylist", categories=["tasks"])
    assert (refused.value.code, refused.value.categories) == ("category_not_allowed", ["tasks"])


async def test_a_conversation_is_remembered_found_and_deleted(either: Either) -> None:
    turn = await either.chat_add("My favorite tea is mint.", memory_id="trip/1", user="maya", idempotency_key="k")
    assert turn.memory_actions is not None
    assert turn.memory_actions.S == 1
    again = await either.chat_add("My favorite tea is mint.", memory_id="trip/1", user="maya", idempotency_key="k")
    assert again.id == turn.id
    await either.chat_add("The wall is wet.", memory_id="trip/1", user="maya")
    found = await either.chat_search("Which tea?", memory_id="trip/1", user="maya", memory_top_k=1)
    assert [(entry.role, entry.content) for entry in found.entries] == [("user", "My favorite tea is mint.")]
    assert (found.summary, found.degraded) == (None, None)
    page = await either.conversation("trip/1", user="maya", limit=1)
    rest = await either.conversation("trip/1", user="maya", cursor=page.next_cursor)
    assert [entry.content for entry in (*page.items, *rest.items)] == ["My favorite tea is mint.", "The wall is wet."]
    assert (page.memory_id, page.user, page.summary, rest.next_cursor) == ("trip/1", "maya", None, None)
    elsewhere = (await either.chat_search("tea", user="maya")).entries
    assert [(entry.role, entry.content) for entry in elsewhere] == [("memory", "The user's favorite tea is mint.")]
    done = await either.delete_conversation("trip/1", user="maya")
    assert (done.deleted, done.facts) == (2, 1)
    assert (await either.chat_search("tea", user="maya")).entries == []
    assert (await either.delete_conversation("trip/1", user="maya", purge=True)).deleted == 2


async def test_turns_deltas_jobs_and_counts(either: Either) -> None:
    turn = await either.add_turn("Can we move the demo?", user_id="maya", thread_id="launch", role="user", seq=1)
    assert turn.revision == 1
    assert (await either.job(turn.jobs[0])).state in ("queued", "running", "done")
    assert turn.jobs[0] in [job.id for job in await either.jobs(kind="after_turn", limit=1)]
    assert sum(count.count for count in (await either.job_counts()).counts) >= 1
    assert (await either.delta("launch", since_rev=0, agent="supervisor")).rev == 1
    counts = await either.event_counts(["op", "node"], since=date(2020, 1, 1))
    assert {"op": "create", "node": "hotpath"} in [dict(count.group) for count in counts]
    assert (await either.health()).status == "ok"
    assert (await either.ready()).checks["database"] == "ok"


async def test_receipts_and_usage(either: Either) -> None:
    written = await either.remember("Maya books the venue.", thread_id="launch", **MAYA)
    asked = {"agent": "supervisor", "filters": Filters(user_id="maya"), "thread_id": "launch"}
    answers = [await either.query("Who books the venue?", **asked) for _ in range(3)]
    assert all(answer.query_id is not None for answer in answers)
    listed = await either.list_queries(user_id="maya", thread_id="launch", agent="supervisor", limit=2)
    assert [receipt.query_id for receipt in listed] == [answer.query_id for answer in reversed(answers)]
    assert (await either.query_page(limit=1)).next_cursor is not None
    assert await either.list_queries(until=datetime(2020, 1, 1, tzinfo=UTC)) == []
    told = await either.get_query(answers[0].query_id)
    assert (told.header, told.tokens, told.memories) == (answers[0].header, answers[0].tokens, 1)
    assert [(item.part, item.text) for item in told.items] == [(p, "Maya books the venue.") for p in ("header", "item")]
    uses = await either.memory_uses(written.id, limit=1)
    assert [use.query_id for use in uses] == [a.query_id for a in (*reversed(answers), answers[0])]
    [today] = await either.usage("day", since=date(2020, 1, 1))
    assert (today.queries, today.tokens, today.writes) == (3, sum(answer.tokens for answer in answers), 1)
    assert [(row.user_id, row.queries) for row in await either.usage("user", user_id="maya")] == [("maya", 3)]
    with pytest.raises(NotFound):
        await either.get_query(uuid4())


async def test_changes_follow_a_cursor_and_a_deletion_may_name_its_version(either: Either) -> None:
    start = await either.changes_page("maya")
    written = await either.remember("Maya books the venue.", **MAYA)
    with pytest.raises(VersionConflict):
        await either.delete(written.id, version=2)
    assert (await either.delete(written.id, version=1)).state == "soft_deleted"
    cursor, found = start.end.next_cursor, []
    while not found or found[-1].version < 2:  # older transactions come first
        page = await either.changes_page("maya", after=cursor, memory=True, limit=1)
        cursor, found = page.end.next_cursor, found + page.events
    assert [(e.memory_id, e.event, e.version) for e in found] == [
        (str(written.id), "ADD", 1),
        (str(written.id), "DELETE", 2),
    ]
    assert found[-1].memory.state == "soft_deleted"
    _epoch, *place = json.loads(b64decode(f"{cursor}==", altchars=b"-_"))
    of_other = urlsafe_b64encode(json.dumps([str(uuid4()), *place]).encode()).decode().rstrip("=")
    with pytest.raises(CursorOfOtherDatabase):
        await either.changes_page("maya", after=of_other)


async def test_a_filter_chooses_changes_exports_and_facts(either: Either) -> None:
    start = (await either.changes_page()).end.next_cursor
    written = await either.remember("Maya books the venue.", tags=["work"], **MAYA)
    await either.remember("Maya rows.", **MAYA)
    await either.store_facts("maya", text="My favorite colors are red and blue.")
    where = {"tags": {"contains": "work"}}
    exported = await either.export("maya", where=where)
    assert [record["id"] for record in exported if record["kind"] == "memory"] == [str(written.id)]
    assert [fact.value for fact in await either.facts("maya", where={"text": "blue"})] == ["blue"]
    found: list[Any] = []
    while not found:  # older transactions come first
        found = (await either.changes_page(after=start, where=where)).events
    assert [change.memory_id for change in found] == [str(written.id)]


async def test_a_webhook_is_set_back_to_all_users_and_any_memory(either: Either) -> None:
    made = await either.create_webhook("http://127.0.0.1:1", user_id="maya", where={"pinned": True})
    kept = await either.change_webhook(made.id, with_memory=True)
    assert (kept.user_id, kept.where, kept.with_memory) == ("maya", {"pinned": True}, True)
    cleared = await either.change_webhook(made.id, user_id=None, where=None)
    assert (cleared.user_id, cleared.where, cleared.with_memory) == (None, None, True)


async def test_changes_come_as_they_happen(server: str, caller: Caller) -> None:
    async with AsyncMnema(server, caller.key) as client:
        start = (await client.changes_page()).end.next_cursor
        first = await client.remember("Maya books the venue.", **MAYA)
        stream = client.changes(after=start, memory=True)
        told = await anext(stream)
        assert (told.memory_id, told.memory.text if told.memory else None) == (str(first.id), "Maya books the venue.")
        await client.delete(first.id)
        assert (await anext(stream)).event == "DELETE"


async def test_lists_run_through_all_their_pages(either: Either) -> None:
    lines = [NewMemory(text=f"Maya labels crate {n}.", metadata={"n": n}, **MAYA) for n in range(25)]
    results = await either.remember_many(lines)
    assert [result.line for result in results] == list(range(1, 26))
    found = await either.list(user_id="maya", limit=10)
    assert [memory.id for memory in found] == [result.id for result in reversed(results)]
    page = await either.page(user_id="maya", limit=10)
    assert (len(page.items), page.next_cursor is None) == (10, False)
    rest = await either.list(user_id="maya", limit=10, cursor=page.next_cursor)
    assert len(rest) == 15
    assert await either.list(tag="none", pinned=True, updated_before=date(2020, 1, 1)) == []
    assert [memory.metadata["n"] for memory in await either.list(q="crate", metadata={"n": 7})] == [7]
    oldest = await either.page(sort="updated_at", order="asc", type=["semantic", "turn"], category=["tasks"], limit=1)
    assert oldest.items[0].id == results[0].id


async def test_a_bad_line_of_many_is_told_by_its_number_and_the_others_are_written(
    either: Either, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnema_client.bulk.LINES_A_REQUEST", 2)
    lines: list[Any] = [{**MAYA, "text": f"Maya numbers chair {n}."} for n in range(5)]
    lines[2]["text"] = "   "
    lines[3]["text"] = "x " * 300
    results = await either.remember_many(iter(lines))
    assert [(r.line, r.action, r.error.code if r.error else None) for r in results] == [
        (1, "created", None),
        (2, "created", None),
        (3, None, "empty_text"),
        (4, None, "text_too_long"),
        (5, "created", None),
    ]
    assert [r.action for r in await either.remember_many([lines[3]], trim=True)] == ["created"]
    assert await either.remember_many([]) == []
    with pytest.raises(CannotBeSent, match="did you mean 'user_id'"):
        await either.remember_many([{"text": "x", "user": "maya"}])


async def test_export_and_erasure(either: Either) -> None:
    odd = "a/b ../é?#%.."
    await either.remember("Separators\u2028and\x85others stay in their line.", user_id=odd, category="tasks")
    await either.add_turn("Hello.", user_id=odd, thread_id="..", role="user")
    records = await either.export(odd)
    assert [record["kind"] for record in records][:3] == ["user", "memory", "memory"]
    assert (await either.delta("..", since_rev=0)).rev == 1
    receipt = await either.erase(odd)
    assert (receipt.user_id, receipt.counts["memories"]) == (odd, 2)
    with pytest.raises(NotFound):
        await either.export(odd)


async def test_refusals_say_what_the_server_said(either: Either, server: str) -> None:
    with pytest.raises(InvalidRequest) as empty:
        await either.remember("", **MAYA)
    assert (empty.value.code, empty.value.status) == ("empty_text", 422)
    assert str(empty.value) == f"empty_text: {empty.value.detail}"
    with pytest.raises(InvalidRequest) as wrong:
        await either.history(uuid4(), limit=201)
    assert wrong.value.problem["errors"][0]["loc"] == ["query", "limit"]
    with pytest.raises(CannotBeSent, match="top_k: Input should be less than or equal to 50"):
        await either.query("x", agent="planner", top_k=51)
    with pytest.raises(NotFound):
        await either.get(uuid4())
    await either.remember("Maya owns a kite.", idempotency_key="once", **MAYA)
    with pytest.raises(Conflict) as reused:
        await either.remember("Maya owns a boat.", idempotency_key="once", **MAYA)
    assert reused.value.code == "idempotency_key_reused"
    same = await either.remember("Maya owns a kite.", idempotency_key="once", **MAYA)
    assert same.action == "created"
    with pytest.raises(ValueError, match="user: "):
        await either.remember("Maya owns a kite.", user="maya", **MAYA)


async def test_a_wrong_key_is_refused_and_never_shown(server: str) -> None:
    secret = "mnema_wrong-key-that-must-not-show"
    memory = AsyncMnema(server, secret)
    with pytest.raises(Unauthenticated) as refused:
        await memory.get(uuid4())
    shown = f"{memory!r} {memory.connection!r} {Mnema(server, secret)!r} {refused.value!r} {refused.value.__dict__}"
    assert "must-not-show" not in shown
    await memory.close()
    for key in ("", "two words", "line\nfeed", "ключ", secret + "\r\n"):
        with pytest.raises(NotConfigured) as bad:
            AsyncMnema(server, key)
        assert "must-not-show" not in str(bad.value)
    with pytest.raises(NotConfigured, match="http or https"):
        Mnema("127.0.0.1:8000", "key")


async def test_the_environment_says_where_and_as_whom(
    server: str, caller: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMA_HOME", str(tmp_path))  # `make run` in this folder leaves a demo.env
    with pytest.raises(NotConfigured, match="MNEMA_URL and MNEMA_API_KEY"):
        Mnema()
    monkeypatch.setenv("MNEMA_URL", f"{server}/")
    monkeypatch.setenv("MNEMA_API_KEY", caller.key)
    with Mnema() as memory:
        assert await apart(lambda: list(memory.list())) == []


async def test_two_lines_remember_and_recall_with_the_server_of_mnema_up(
    server: str, caller: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "demo.env").write_text(f"export MNEMA_URL={server}\nexport MNEMA_API_KEY={caller.key}\n")
    monkeypatch.setenv("MNEMA_HOME", str(tmp_path))
    with Mnema() as memory:
        await apart(lambda: memory.remember("Maya deploys on Thursdays.", user_id="maya", category="tasks"))
        await apart(lambda: memory.remember("Tom deploys on Mondays.", user_id="tom", category="tasks"))
        answer = await apart(lambda: memory.recall("when do we deploy?", user_id="maya", agent="planner"))
    assert [item.category for item in answer.items] == ["tasks"]
    assert str(answer) == answer.prompt()
    assert "Maya deploys on Thursdays." in str(answer)
    assert "Tom" not in str(answer)
    monkeypatch.setenv("MNEMA_API_KEY", "of-another-server")
    with pytest.raises(NotConfigured):  # a key of the environment never goes to an address of the file
        Mnema()


async def test_a_bound_key_speaks_as_its_agent(app: Application, server: str, caller: Caller) -> None:
    bound = await make_caller(app, ["query", "write"], ["planner"], tenant=caller)
    async with AsyncMnema(server, bound.key) as memory:
        written = await memory.remember("Maya orders the stage lights.", **MAYA)
        assert written.id is not None
        assert (await memory.get(written.id)).agent_id == "planner"
        with pytest.raises(NotAllowed):
            await memory.query("lights", agent="supervisor")


async def test_many_threads_may_share_one_client(server: str, caller: Caller) -> None:
    with Mnema(server, caller.key) as memory:
        numbers = range(16)
        written = await asyncio.gather(
            *(apart(lambda n=n: memory.remember(f"Maya waters plant {n}.", **MAYA)) for n in numbers)
        )
    assert len({w.id for w in written}) == 16


KEYWORDS = {
    requests.MemoryFields: (NewMemory, {"text", "idempotency_key"}),
    requests.TurnFields: (NewTurn, {"content"}),
    requests.ChangeFields: (Changes, set()),
    requests.QuestionFields: (Question, {"query"}),
    citations.SearchFields: (SearchRequest, {"query"}),
    sources.SourceFields: (NewSource, {"root_path"}),
    sources.SourceChangeFields: (SourceChanges, set()),
    batches.BatchChangeFields: (BatchChanges, set()),
}


@pytest.mark.parametrize("keywords", KEYWORDS, ids=lambda keywords: keywords.__name__)
def test_the_keywords_are_the_fields_of_the_body(keywords: Any) -> None:
    model, apart_from = KEYWORDS[keywords]
    assert set(typing.get_type_hints(keywords)) == set(model.model_fields) - apart_from
    assert keywords.__required_keys__ == {
        name for name, field in model.model_fields.items() if field.is_required() and name not in apart_from
    }


async def test_the_keywords_of_lists_are_the_parameters_of_the_route(server: str) -> None:
    async with httpx.AsyncClient(base_url=server) as http:
        parameters = (await http.get("/openapi.json")).json()["paths"]["/memory"]["get"]["parameters"]
    assert {p["name"] for p in parameters} == set(typing.get_type_hints(requests.ListFields)) | {"cursor"}


def test_both_clients_have_the_same_methods_and_each_says_what_it_does() -> None:
    def public(client: type) -> dict[str, Any]:
        named = {name: getattr(client, name) for name in dir(client) if not name.startswith("_")}
        return {name: value for name, value in named.items() if callable(value)}

    waiting, awaited = public(Mnema), public(AsyncMnema)
    assert waiting.keys() == awaited.keys()
    for name, method in (waiting | awaited).items():
        assert method.__doc__, name
        assert typing.get_type_hints(method)["return"] is not None
    assert typing.get_type_hints(Mnema.get)["return"] is Memory
    assert typing.get_type_hints(Mnema.get)["memory_id"] == UUID | str


def test_answers_may_hold_what_this_package_does_not_know() -> None:
    answered = {"id": None, "action": "foreseen", "reason": None, "novel": {"x": 1}}
    assert Written.model_validate_json(json.dumps(answered)).action == "foreseen"
