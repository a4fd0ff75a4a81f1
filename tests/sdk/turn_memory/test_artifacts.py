"""Saving and fetching artifacts with the context client, against a real server."""

from typing import Any

import pytest
from mnema_client import CannotBeSent, NotFound

from tests.sdk.turn_memory.conftest import EitherMemory

PLACE: dict[str, Any] = {"user_id": "maya", "conversation_id": "talk", "turn_id": "turn_1", "track_id": "main"}
FINGERPRINT = "artifact:turn.fingerprint.v1"
REACTION = "artifact:turn.log.reaction"
ACTIVE_SET = "conversation.active_set.v1"


class Context:
    """The context client of either module, with methods to await."""

    def __init__(self, memory: EitherMemory) -> None:
        self._memory = memory
        self._client = memory.module.ContextClient(memory.client)

    async def save(self, kind: str, content: dict[str, Any], **fields: Any) -> Any:
        """Save an artifact of the turn."""
        return await self._memory.run(self._client.save_artifact, kind=kind, content=content, **PLACE | fields)

    async def fetch(self, **choice: Any) -> dict[str, Any]:
        """Fetch the artifacts of the conversation."""
        found = await self._memory.run(self._client.fetch_conversation_artifacts, "maya", "talk", **choice)
        return await self._memory.run(dict, found)

    async def fetch_title(self) -> Any:
        """Fetch the title of the conversation alone."""
        later = self._client.fetch_conversation_artifacts(user_id="maya", conversation_id="talk")
        return await self._memory.run(later.get, "conversation_title")


@pytest.fixture
def context(memory: EitherMemory) -> Context:
    """Return the context client of either module."""
    return Context(memory)


async def test_each_kind_is_saved_and_fetched_as_it_was(context: Context) -> None:
    await context.save("artifact:turn.log", {"user_text": "Draw it.", "extra": {"n": 1}})
    signals = [{"key": "pro_plan", "value": 39, "severity": "mention", "scope": "conversation"}]
    print_ = {"objective": "draw", "conversation_title": "Diagrams", "assistant_signals": signals}
    tags = [FINGERPRINT, "assistant_signal", "assistant_signal:pro_plan", "mine"]
    await context.save(FINGERPRINT, print_, extra_tags=tags, index_only=True)
    await context.save(REACTION, {"origin": "user", "reaction": "ok", "text": "Good."}, index_only=True)
    await context.save(ACTIVE_SET, {"selected_local_memories_turn_ids": ["turn_1"]}, turn_id=None)
    found = await context.fetch(materialize=True, days=365)
    assert found["conversation_title"] == await context.fetch_title() == "Diagrams"
    by_kind = {item["kind"]: item for item in found["items"]}
    assert set(by_kind[FINGERPRINT]["tags"]) == set(tags)
    assert by_kind[FINGERPRINT]["content"] | print_ == by_kind[FINGERPRINT]["content"]
    assert by_kind["artifact:turn.log"]["content"]["turn_log"]["user_text"] == "Draw it."
    assert by_kind[ACTIVE_SET]["content"]["selected_local_memories_turn_ids"] == ["turn_1"]
    for kind, item in by_kind.items():
        if kind != "conv.start":  # what was fetched can be saved again, and changes nothing
            await context.save(kind, item["content"])
    again = {item["kind"]: item for item in (await context.fetch(materialize=True))["items"]}
    assert {kind: item["content"] for kind, item in again.items() if kind != REACTION} == {
        kind: item["content"] for kind, item in by_kind.items() if kind != REACTION
    }


async def test_all_pages_are_fetched_and_the_title_takes_one_artifact(
    context: Context, memory: EitherMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnema_client.turn_memory.artifacts.PAGE", 2)
    for number in range(5):
        await context.save(FINGERPRINT, {"objective": f"draw {number}"}, turn_id=f"turn_{number}")
    found = await context.fetch(kind=FINGERPRINT)
    assert [item["content"]["objective"] for item in found["items"]] == [f"draw {n}" for n in (4, 3, 2, 1, 0)]
    sent: list[Any] = []
    send = memory.client.send
    monkeypatch.setattr(memory.client, "send", lambda call: sent.append(call.params) or send(call))
    assert await context.fetch_title() == "draw 0"  # of the start of the conversation
    assert [params["limit"] for params in sent] == ["1"]


async def test_what_a_kind_cannot_have_is_refused_before_it_is_sent(context: Context) -> None:
    with pytest.raises(CannotBeSent, match=r"the server alone writes artifacts of kind 'conversation\.memory"):
        await context.save("conversation.memory.bucket.v1", {})
    with pytest.raises(CannotBeSent, match="index_only=False"):
        await context.save("artifact:turn.log", {"user_text": "x"}, index_only=True)
    with pytest.raises(CannotBeSent, match="needs a turn_id"):
        await context.save(FINGERPRINT, {}, turn_id=None)
    with pytest.raises(CannotBeSent, match="extra_tags"):
        await context.save(REACTION, {"reaction": "ok"}, extra_tags=["mine"])
    with pytest.raises(CannotBeSent, match="the content is of turn 'turn_2', turn_id is 'turn_1'"):
        await context.save(FINGERPRINT, {"turn_id": "turn_2"})
    with pytest.raises(CannotBeSent, match="urgency: unknown field"):
        await context.save(FINGERPRINT, {"urgency": 1})
    assert (await context.fetch())["items"] == []


async def test_tenant_and_project_are_the_name_of_the_keys_tenant(context: Context) -> None:
    with pytest.raises(NotFound):
        await context.save(FINGERPRINT, {"objective": "draw"}, tenant="acme", project="support")
    with pytest.raises(CannotBeSent):
        await context.save(FINGERPRINT, {"objective": "draw" * 200})
    assert (await context.fetch())["items"] == []
