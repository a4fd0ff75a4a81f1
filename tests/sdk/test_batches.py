"""Batches with both clients, against a real server."""

from datetime import date
from typing import Any

import pytest
from mnema_client import BatchFilters, CannotBeSent, Conflict, InvalidRequest, NotFound

from tests.sdk.conftest import Either

MAYA: dict[str, Any] = {"user_id": "maya", "category": "tasks"}


async def test_memories_are_edited_deleted_and_put_back_together(either: Either) -> None:
    texts = ["Maya books the venue.", "Maya prints the posters."]
    written = [await either.remember(text, tags=["launch"], **MAYA) for text in texts]
    tried = await either.edit_matching(BatchFilters(tag="launch"), importance=5, add_tags=["late"], dry_run=True)
    assert (tried.batch_id, tried.dry_run, tried.matched, tried.changed) == (None, True, 2, 2)
    done = await either.edit_matching(
        {"tag": "launch"}, importance=5, add_tags=["late"], metadata={"by": "ops"}, expected=tried.matched
    )
    assert {memory.id for memory in done.sample} == {w.id for w in written}
    assert all((m.importance, m.tags, m.metadata) == (5, ["launch", "late"], {"by": "ops"}) for m in done.sample)
    deleted = await either.delete_matching({"tag": "late"}, idempotency_key="once")
    assert (await either.delete_matching({"tag": "late"}, idempotency_key="once")).batch_id == deleted.batch_id
    assert await either.list() == []
    undone = await either.undo_batch(deleted.batch_id)
    assert (undone.action, undone.undoes, undone.changed) == ("undo", deleted.batch_id, 2)
    assert [batch.batch_id for batch in await either.list_batches(limit=1)] == [
        undone.batch_id,
        deleted.batch_id,
        done.batch_id,
    ]
    stored = await either.get_batch(done.batch_id)
    assert (stored.filters, stored.changes["importance"], stored.user_id) == ({"tag": "launch"}, 5, "maya")
    await either.edit(written[0].id, importance=1)
    undone = await either.undo_batch(done.batch_id)
    assert {left.reason for left in undone.left} == {"changed"}


async def test_a_batch_takes_the_filters_of_a_list(either: Either) -> None:
    for number, kind in enumerate(("semantic", "episodic", "turn")):
        await either.remember(
            f"Maya books venue {number}.", type=kind, metadata={"n": number, "done": True, "by": "ops"}, **MAYA
        )
    filters: dict[str, Any] = {
        "q": "venue",
        "category": ["tasks", "goals"],
        "type": ("episodic", "turn"),
        "metadata": {"done": True, "n": 1},
        "created_after": date(2020, 1, 1),
        "created_before": "2999-01-01",
    }
    [shown] = await either.list(**filters)
    for given in (filters, BatchFilters(**filters)):
        tried = await either.edit_matching(given, pinned=True, dry_run=True)
        assert [memory.id for memory in tried.sample] == [shown.id]
    done = await either.edit_matching(BatchFilters(category="tasks", type="turn"), pinned=True)
    assert done.changed == 1
    named = await either.delete_matching(filters)
    assert (await either.get_batch(named.batch_id)).filters["not_kept"] == ["metadata", "q"]
    with pytest.raises(ValueError, match="has a colon"):
        await either.delete_matching({"metadata": {"a:b": "c"}})
    with pytest.raises(CannotBeSent, match="has a colon"):
        await either.list(metadata={"a:b": "c"})


async def test_a_batch_that_cannot_be_is_refused(either: Either) -> None:
    with pytest.raises(InvalidRequest, match="name at least one filter"):
        await either.delete_matching({})
    with pytest.raises(InvalidRequest, match="name at least one change"):
        await either.edit_matching({"user_id": "maya"})
    with pytest.raises(Conflict, match="0 memories match; expected 3") as refused:
        await either.delete_matching({"user_id": "maya"}, expected=3)
    assert refused.value.problem["matched"] == 0
    with pytest.raises(NotFound):
        await either.undo_batch("01a1fc6a-13da-7474-b3f6-cb098cae46b6")
