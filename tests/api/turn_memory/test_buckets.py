"""Buckets: the job that takes fingerprints into them, what it leaves in the database, and the list over HTTP."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from app.bootstrap import Application
from app.config.settings import Settings
from app.domain.jobs.job import JobKind
from app.domain.outages import WriteContention
from app.domain.turn_memory.artifacts import Conversation
from app.storage.turn_memory.artifacts import ArtifactStorage
from app.usecases.turn_memory import memory_reconcile
from tests.api.calls import refused, sql
from tests.api.turn_memory.talking import MAYA, TALK, active_set, artifacts, put_fingerprint, put_turn
from tests.conftest import Database
from tests.factories import Caller, make_caller, serve
from tests.turn_artifacts import queued_reconciles

BUCKET, RECONCILE = "conversation.memory.bucket.v1", JobKind.memory_reconcile.value
TALKED = Conversation("maya", "talk")


def fact(value: Any, key: str = "city", **more: Any) -> dict[str, Any]:
    return {"key": key, "value": value} | more


async def say(http: httpx.AsyncClient, number: int, objective: str = "travel", *facts: Any, **fields: Any) -> None:
    """Give turn `number` a fingerprint."""
    await put_fingerprint(http, f"turn_{number}", objective=objective, facts=list(facts or [fact("Porto")]), **fields)


async def buckets(http: httpx.AsyncClient, **params: Any) -> Any:
    answer = await http.get(f"{TALK}/buckets", params=MAYA | params)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def work(app: Application, caller: Caller) -> int:
    """Run the jobs that are due, and those that they queue; return how many."""
    count = 0
    while jobs := await queued_reconciles(app, caller.scope):
        for job_id in jobs:
            assert await app.jobs.run.run_job(caller.scope.tenant_id, job_id, "test") == "done"
            count += 1
    return count


async def test_every_five_fingerprints_go_into_buckets(
    http: httpx.AsyncClient, app: Application, caller: Caller
) -> None:
    for number in range(1, 5):
        await say(http, number)
    assert await queued_reconciles(app, caller.scope) == []
    await say(http, 5, "travel", fact("Lisbon"), topics=["trains"])
    before = await active_set(http)
    assert (before["since_last_reconcile"], before["last_reconciled_ts"]) == (5, None)
    assert await work(app, caller) == 1
    listed = await buckets(http)
    [card] = listed["items"]
    assert listed["enabled"] is True
    assert (card["objective"], card["topics"], card["status"]) == ("travel", ["trains"], "active")
    assert (card["turn_count"], card["signal_count"]) == (5, 2)
    assert {one["value"]: one["weight"] for one in card["signals"]} == {"Porto": 0.39, "Lisbon": 0.39}
    after = await active_set(http)
    newest = (await artifacts(http, turn_id="turn_5", kind="artifact:turn.fingerprint.v1"))["items"][0]["content"]
    assert (after["since_last_reconcile"], after["last_reconciled_ts"]) == (0, newest["made_at"])
    [row] = (await artifacts(http, kind=BUCKET, materialize=True))["items"]
    assert row["tags"] == [BUCKET, f"mem:bucket:{card['bucket_id']}"]
    assert row["content"]["bucket_id"] == json.loads(row["text"])["bucket_id"] == card["bucket_id"]
    assert row["content"]["signals"][-1]["turn_ids"] == ["turn_1", "turn_2", "turn_3", "turn_4"]
    assert [turn["turn_id"] for turn in row["content"]["turns"]] == [f"turn_{number}" for number in range(1, 6)]
    [found] = (await artifacts(http, tag=f"mem:bucket:{card['bucket_id']}"))["items"]
    assert found["id"] == row["id"]


async def test_what_does_not_fit_waits_and_the_job_queues_itself_again(
    http: httpx.AsyncClient, app: Application, caller: Caller
) -> None:
    for number, objective in enumerate(["cook", "sail", "ski", "paint", "dance"], 1):
        await say(http, number, objective)
    [job_id] = await queued_reconciles(app, caller.scope)
    assert await app.jobs.run.run_job(caller.scope.tenant_id, job_id, "test") == "done"
    assert {one["objective"] for one in (await buckets(http))["items"]} == {"cook", "sail"}
    part = await active_set(http)
    second = (await artifacts(http, turn_id="turn_2", kind="artifact:turn.fingerprint.v1"))["items"][0]["content"]
    assert (part["since_last_reconcile"], part["last_reconciled_ts"]) == (3, second["made_at"])
    assert await work(app, caller) == 2
    assert {one["objective"] for one in (await buckets(http))["items"]} == {"cook", "sail", "ski", "paint", "dance"}
    assert (await active_set(http))["since_last_reconcile"] == 0


@pytest.mark.long
async def test_fingerprints_that_are_older_than_the_last_run_are_taken_too(
    http: httpx.AsyncClient, app: Application, caller: Caller
) -> None:
    for number in range(1, 6):
        await say(http, number, made_at=f"2026-01-0{number}T00:00:00Z")
    assert await work(app, caller) == 1
    for round_ in range(1, 3):
        for number in range(5):
            await say(http, 10 * round_ + number, "travel", fact(f"old {round_}"), made_at="2025-01-01T00:00:00Z")
        assert await work(app, caller) == 1, (
            "the time of the active set does not move, and the job is queued all the same"
        )
    [card] = (await buckets(http))["items"]
    assert card["turn_count"] == 15
    assert (await active_set(http))["last_reconciled_ts"] == "2026-01-05T00:00:00.000Z"


async def test_a_replaced_fingerprint_counts_once_and_moves(
    http: httpx.AsyncClient, app: Application, caller: Caller
) -> None:
    for number in range(1, 6):
        await say(http, number)
    await work(app, caller)
    before = (await buckets(http))["items"]
    await say(http, 1)
    await say(http, 2, "cook", fact("salt", "taste"))
    for number in range(6, 11):
        await say(http, number, "cook", fact("salt", "taste"))
    await work(app, caller)
    cards = {one["objective"]: one for one in (await buckets(http))["items"]}
    assert (before[0]["turn_count"], cards["travel"]["turn_count"], cards["cook"]["turn_count"]) == (5, 4, 6)
    [city] = cards["travel"]["signals"]
    assert city["weight"] == 0.8


async def test_a_run_is_idempotent(http: httpx.AsyncClient, app: Application, caller: Caller) -> None:
    for number in range(1, 6):
        await say(http, number)
    await work(app, caller)
    before = await buckets(http), await active_set(http)
    counts = await app.turn_memory.reconcile_memory.reconcile_conversation(caller.scope, TALKED)
    assert counts == {"taken": 0, "changed": 0, "added": 0, "waiting": 0}
    assert (await buckets(http), await active_set(http)) == before


@pytest.mark.long
async def test_runs_at_once_with_fingerprints_lose_none(
    http: httpx.AsyncClient, app: Application, caller: Caller
) -> None:
    run = app.turn_memory.reconcile_memory.reconcile_conversation

    async def reconcile() -> None:
        for _ in range(6):
            await run(caller.scope, TALKED)

    await asyncio.gather(*(say(http, number) for number in range(20)), reconcile(), reconcile())
    await run(caller.scope, TALKED)
    [card] = (await buckets(http))["items"]
    assert card["turn_count"] == 20
    assert (await active_set(http))["since_last_reconcile"] == 0
    [row] = (await artifacts(http, kind=BUCKET, materialize=True))["items"]
    assert len(row["content"]["signals"][0]["turn_ids"]) == 20


async def test_a_fingerprint_that_is_replaced_during_a_run_waits_for_the_next(
    http: httpx.AsyncClient, app: Application, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await say(http, 1)
    put = ArtifactStorage.put_buckets

    async def after_a_change(self: ArtifactStorage, *args: Any) -> None:
        monkeypatch.setattr(ArtifactStorage, "put_buckets", put)
        await say(http, 1, "travel", fact("Braga"))
        await put(self, *args)

    monkeypatch.setattr(ArtifactStorage, "put_buckets", after_a_change)
    run = app.turn_memory.reconcile_memory.reconcile_conversation
    assert (await run(caller.scope, TALKED))["taken"] == 1
    assert (await run(caller.scope, TALKED))["taken"] == 1
    [card] = (await buckets(http))["items"]
    assert [one["value"] for one in card["signals"]] == ["Braga"]


async def test_a_run_reads_a_hundred_fingerprints(
    http: httpx.AsyncClient, app: Application, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert memory_reconcile.FINGERPRINTS == 100
    monkeypatch.setattr(memory_reconcile, "FINGERPRINTS", 3)
    for number in range(8):
        await say(http, number)
    assert await work(app, caller) == 3
    assert (await buckets(http))["items"][0]["turn_count"] == 8


@pytest.mark.long
async def test_a_failed_write_leaves_nothing(
    http: httpx.AsyncClient, app: Application, caller: Caller, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await say(http, 1)

    async def contended(*_args: Any) -> None:
        raise WriteContention

    with monkeypatch.context() as patched:
        patched.setattr(ArtifactStorage, "put_buckets", contended)
        patched.setattr(memory_reconcile, "ATTEMPTS", 2)
        with pytest.raises(WriteContention):
            await app.turn_memory.reconcile_memory.reconcile_conversation(caller.scope, TALKED)
    assert (await buckets(http))["items"] == []
    assert await sql(database, "SELECT 1 FROM conv_messages WHERE reconciled_version IS NOT NULL") == []


@pytest.mark.long
async def test_the_list_has_a_filter_and_no_other_users_buckets(
    http: httpx.AsyncClient, app: Application, caller: Caller, database: Database
) -> None:
    await say(http, 1, "travel")
    await say(http, 2, "cook")
    await app.turn_memory.reconcile_memory.reconcile_conversation(caller.scope, TALKED)
    await sql(
        database,
        """UPDATE conv_messages SET text = replace(text, '"active"', '"disabled"')
        WHERE text LIKE '%"travel"%' AND kind = $1""",
        BUCKET,
    )
    assert [one["objective"] for one in (await buckets(http, status="disabled"))["items"]] == ["travel"]
    assert [one["objective"] for one in (await buckets(http, status="active"))["items"]] == ["cook"]
    assert len((await buckets(http))["items"]) == 2
    for params in ({"user_id": "ben"}, {"user_id": "maya", "status": "active"}):
        talk = "/conversations/other" if "status" in params else TALK
        assert (await http.get(f"{talk}/buckets", params=params)).json()["items"] == []
    refused(await http.get(f"{TALK}/buckets", params=MAYA | {"status": "worn"}), 422, "invalid_request")


async def test_a_key_of_agents_without_the_category_sees_no_buckets(
    http: httpx.AsyncClient, app: Application, caller: Caller, server: str
) -> None:
    bound = await make_caller(app, ["query"], ["researcher"], tenant=caller)
    async with bound.client(server) as agent:
        refused(await agent.get(f"{TALK}/buckets", params=MAYA), 403, "category_not_allowed")


@pytest.mark.long
@pytest.mark.parametrize("switch", [{"memory_reconcile_enabled": False}])
async def test_a_switch_leaves_turn_memories_and_feedback(
    settings: Settings, app: Application, caller: Caller, switch: dict[str, Any], http: httpx.AsyncClient
) -> None:
    for number in range(5):
        await say(http, number)
    queued = await queued_reconciles(app, caller.scope)
    assert len(queued) == 1
    async with serve(settings.model_copy(update=switch)) as url, caller.client(url) as off:
        for number in range(10, 20):
            await say(off, number)
        await put_turn(off, "turn_1")
        body = MAYA | {"origin": "user", "reaction": "ok", "text": "Good."}
        assert (await off.post(f"{TALK}/turns/turn_1/feedback", json=body)).status_code == 200
        assert await buckets(off) == {"enabled": False, "items": []}
        assert len((await artifacts(off))["items"]) == 33  # logs, fingerprints, a reaction, the active set, the start
        assert (await active_set(off))["since_last_reconcile"] == 15
    assert await queued_reconciles(app, caller.scope) == queued


async def test_a_deleted_turn_leaves_its_buckets(http: httpx.AsyncClient, app: Application, caller: Caller) -> None:
    for number in range(1, 5):
        await say(http, number)
    await say(http, 5, "cooking", fact("nuts", "allergy"))
    await say(http, 6, "travel", fact("Lisbon"))
    for number in range(7, 11):
        await say(http, number)
    await work(app, caller)
    assert {card["objective"] for card in (await buckets(http))["items"]} == {"travel", "cooking"}
    for turn_id in ("turn_5", "turn_6"):
        assert (await http.delete(f"{TALK}/turns/{turn_id}", params=MAYA)).status_code == 200
    [bucket] = (await artifacts(http, kind=BUCKET, materialize=True))["items"]
    assert "turn_6" not in str(bucket["content"])
    assert [one["value"] for one in bucket["content"]["signals"]] == ["Porto"]
    assert len(bucket["content"]["turns"]) == 8
    assert bucket["tags"][1] == f"mem:bucket:{bucket['content']['bucket_id']}"


async def test_the_words_of_a_deleted_turn_are_in_no_title(http: httpx.AsyncClient) -> None:
    await put_turn(http, "turn_1", "My secret plan")
    await put_turn(http, "turn_2", "And a cake")
    assert (await artifacts(http))["conversation_title"] == "My secret plan"
    assert (await http.delete(f"{TALK}/turns/turn_1", params=MAYA)).json() == {"deleted": 2}
    assert (await artifacts(http))["conversation_title"] == ""
    await put_turn(http, "turn_3", "Thanks")
    assert (await artifacts(http))["conversation_title"] == "Thanks"
