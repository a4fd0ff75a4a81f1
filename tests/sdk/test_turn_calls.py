"""The methods of both clients for turn memory, against a real server."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from mnema_client import CannotBeSent, InvalidRequest, NotFound

from app.bootstrap import Application
from app.domain.jobs.job import JobKind
from tests.factories import Caller
from tests.sdk.conftest import Either
from tests.turn_artifacts import queued_reconciles

JOB = JobKind.memory_reconcile.value
TALK, MAYA = "trip/a b?", {"user_id": "maya"}
MERMAID = {"key": "format", "value": "mermaid", "severity": "must", "scope": "objective"}


async def test_a_turn_is_stored_changed_read_and_deleted(either: Either) -> None:
    made_at = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    new = await either.put_turn(
        TALK, "t/1", user_text="Draw it.", made_at=made_at, track_id="main", extra={"model": "x"}, **MAYA
    )
    assert (new.turn_id, new.conversation_id, new.track_id, new.created) == ("t/1", TALK, "main", True)
    assert new.made_at == made_at
    again = await either.put_turn(TALK, "t/1", user_text="Draw it.", assistant_text="Here.", summary="Drawn.", **MAYA)
    assert (again.created, again.made_at) == (False, made_at)
    log = (await either.get_turn(TALK, "t/1", **MAYA)).content["turn_log"]
    assert (log["assistant_text"], log["extra"], log["state"]["fingerprint"]) == ("Here.", {"model": "x"}, None)
    assert (await either.delete_turn(TALK, "t/1", **MAYA)).deleted == 2
    for missing in (either.delete_turn, either.get_turn):
        with pytest.raises(NotFound):
            await missing(TALK, "t/1", **MAYA)


async def test_a_fingerprint_is_found_by_its_tags(either: Either) -> None:
    for number in range(3):
        await either.put_turn(TALK, f"t{number}", user_text=f"Draw {number}.", **MAYA)
    signal = {"key": "Pro plan", "value": "39 euros", "severity": "recommend"}
    stored = await either.put_fingerprint(
        TALK,
        "t1",
        objective="draw",
        topics=["diagrams"],
        assertions=[MERMAID],
        exceptions=[{"key": "colors", "value": False}],
        facts=[{"key": "deadline", "value": {"day": 3}}],
        assistant_signals=[signal],
        ctx_retrieval_queries=["diagram rules"],
        conversation_title="Diagrams",
        extra_tags=["mine"],
        **MAYA,
    )
    assert stored.fingerprint["assertions"] == [MERMAID]
    assert stored.fingerprint["facts"][0]["value"] == {"day": 3}
    assert set(stored.tags) >= {"assistant_signal", "assistant_signal:pro_plan", "mine"}
    kinds = ["artifact:turn.fingerprint.v1", "conv.start"]
    page = await either.artifact_page(TALK, kind=kinds, **MAYA)
    assert (page.conversation_title, {item.kind for item in page.items}) == ("Diagrams", set(kinds))
    logs = await either.conversation_artifacts(TALK, kind="artifact:turn.log", materialize=True, limit=1, **MAYA)
    assert [log.content["turn_log"]["user_text"] for log in logs] == ["Draw 2.", "Draw 1.", "Draw 0."]
    [mine] = await either.conversation_artifacts(TALK, tag="mine", turn_id="t1", days=1, **MAYA)
    assert mine.content == stored.fingerprint
    [turn] = await either.assistant_signals("maya", days=1, limit=5)
    assert (turn.conversation_id, turn.turn_id, turn.objective) == (TALK, "t1", "draw")
    assert turn.assistant_signals[0].value == "39 euros"


async def test_selected_memories_alone_are_in_the_views_after_the_reconciler(either: Either) -> None:
    for number in (1, 2):
        await either.put_fingerprint(TALK, f"turn_{number}", objective=f"draw {number}", **MAYA)
    assert (await either.active_set(TALK, **MAYA)).selected_local_memories_turn_ids is None
    chosen = await either.select_memories(TALK, ["turn_2", "turn_"], **MAYA, conversation_title="Diagrams")
    assert chosen.selected_local_memories_turn_ids == ["turn_2"]
    assert (chosen.unknown_turn_ids, chosen.since_last_reconcile) == (["turn_"], 2)
    assert (await either.active_set(TALK, **MAYA)).conversation_title == "Diagrams"

    async def objectives(view: str, **fields: Any) -> list[str]:
        text = (await either.context_view(TALK, view, **MAYA, **fields)).text
        return [line.split('"')[1] for line in text.splitlines() if "obj=" in line]

    assert await objectives("gate", turn_id="turn_3") == ["draw 2", "draw 1"]
    assert await objectives("downstream") == ["draw 2"]
    assert await objectives("downstream", local_memories_turn_ids=["turn_1", "turn_2"]) == ["draw 2", "draw 1"]
    assert await objectives("final", local_memories_turn_ids=[]) == []
    final = await either.context_view(TALK, "final", **MAYA)
    assert (final.view, str(final)) == ("final", final.text)
    assert final.blocks[2].header == "[ASSISTANT SIGNALS — CHRONOLOGICAL (scope=user_cross_conversation)]"


async def test_feedback_is_given_to_a_turn_and_by_text(either: Either) -> None:
    await either.put_turn(TALK, "t1", user_text="Draw the arrows of the diagram.", **MAYA)
    await either.put_turn(TALK, "t2", user_text="Which tea is the best?", **MAYA)
    given = await either.turn_feedback(TALK, "t1", "not_ok", "Wrong arrows.", apply_feedback_to_turn_log=True, **MAYA)
    assert (given.turn_id, given.origin, given.reaction) == ("t1", "user", "not_ok")
    assert (await either.get_turn(TALK, "t1", **MAYA)).content["turn_log"]["feedbacks"][0]["text"] == "Wrong arrows."
    assert (await either.turn_feedback(TALK, "t1", None, **MAYA)).reaction is None
    assert await either.conversation_artifacts(TALK, kind="artifact:turn.log.reaction", **MAYA) == []
    machine = {"origin": "machine", "confidence": 0.9, "idempotency_key": "once", **MAYA}
    for _ in range(2):
        await either.turn_feedback(TALK, "t1", "ok", "Fine.", **machine)
    found = await either.gate_feedback(TALK, "the arrows of the diagram", "not_ok", confidence=0.8, **MAYA)
    assert (found.turn_id, found.candidates[0].turn_id, len(found.candidates)) == ("t1", "t1", 2)
    assert len(await either.conversation_artifacts(TALK, tag="origin:machine", **MAYA)) == 2
    with pytest.raises(InvalidRequest, match=r"0\.70"):
        await either.turn_feedback(TALK, "t1", "ok", origin="machine", confidence=0.69, **MAYA)


async def test_a_project_of_another_tenant_is_refused(either: Either) -> None:
    with pytest.raises(NotFound):
        await either.put_turn(TALK, "t1", user_text="Draw.", project_id="acme/other", **MAYA)
    with pytest.raises(CannotBeSent, match="urgency"):
        await either.put_fingerprint(TALK, "t1", assertions=[{"key": "x", "urgency": "must"}], **MAYA)


async def test_the_buckets_of_a_conversation_are_read_with_their_signals(
    either: Either, app: Application, caller: Caller
) -> None:
    assert (await either.buckets(TALK, **MAYA)).items == []
    for number in range(5):
        await either.put_fingerprint(TALK, f"t{number}", objective="draw", assertions=[MERMAID], **MAYA)
    tenant = caller.scope.tenant_id
    queued = await queued_reconciles(app, caller.scope)
    assert [await app.jobs.run.run_job(tenant, job_id, "test") for job_id in queued] == ["done"]
    [bucket] = (await either.buckets(TALK, status="active", **MAYA)).items
    assert (bucket.objective, bucket.status, bucket.turn_count) == ("draw", "active", 5)
    assert [(signal.kind, signal.key, signal.value) for signal in bucket.signals] == [
        ("assertions", "format", "mermaid")
    ]
    off = await either.buckets(TALK, status="disabled", **MAYA)
    assert (off.enabled, off.items) == (True, [])
