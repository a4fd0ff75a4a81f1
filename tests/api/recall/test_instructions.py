"""Standing instructions come with the answers that they apply to, and with no others."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.api.calls import ask, remember, say, texts

TAG = "standing-instruction"
GERMAN = "Always answer in German."
GRAMS = "When I ask for a recipe, list the ingredients in grams."
NO_EMOJIS = "Never use emojis in your replies."
FERRY = "Which ferry did Jonas take?"
RECIPE = "What is a good recipe for lentil soup?"


async def standing(client: httpx.AsyncClient, question: str, **fields: Any) -> list[dict[str, Any]]:
    """Return the items of an answer that are there as instructions."""
    fields = {"filters": {"user_id": "maya"}} | fields
    answer = await ask(client, question, explain=True, **fields)
    return [item for item in answer["items"] if "instruction" in item]


async def test_an_instruction_without_a_condition_comes_with_every_answer(http: httpx.AsyncClient) -> None:
    await remember(http, "Jonas took the ferry to Texel.", category="event")
    told = await remember(http, GERMAN, category="preferences")
    for question in (FERRY, RECIPE):
        [item] = await standing(http, question, top_k=1)
        assert item["id"] == told["id"]
        assert item["instruction"] == {}
    full = (await ask(http, FERRY, top_k=1, **{"return": "full"}))["items"]
    assert [item["text"] for item in full] == ["Jonas took the ferry to Texel.", GERMAN]  # beside the ranked one


async def test_a_condition_decides(http: httpx.AsyncClient) -> None:
    await remember(http, GRAMS, category="preferences")
    assert await standing(http, FERRY) == []
    [item] = await standing(http, RECIPE)
    assert item["instruction"]["condition"] == "When I ask for a recipe"
    assert item["instruction"]["nearness"] > 1


async def test_only_a_few_come_the_most_specific_and_the_newest(http: httpx.AsyncClient) -> None:
    for text in (GERMAN, NO_EMOJIS, "Always cite your sources.", GRAMS):
        await remember(http, text, category="preferences")
    found = {item["text"] for item in await standing(http, RECIPE)}
    assert found == {f"[preferences] {text}" for text in (GRAMS, "Always cite your sources.", NO_EMOJIS)}


async def test_only_a_user_has_instructions(http: httpx.AsyncClient) -> None:
    await remember(http, GERMAN, category="preferences")
    assert await standing(http, FERRY, filters={"user_id": "omar"}) == []
    assert await standing(http, FERRY, filters={}) == []
    assert await standing(http, FERRY, categories=["event"]) == []


async def test_the_mark_is_a_tag_that_people_change(http: httpx.AsyncClient) -> None:
    told = await remember(http, "From now on, keep your answers short.", category="preferences", tags=["mine"])
    path = f"/memory/{told['id']}"
    assert (await http.get(path)).json()["tags"] == ["mine", TAG]
    assert (await http.patch(path, json={"text": "Maya likes short answers."})).json()["tags"] == ["mine"]
    assert await standing(http, FERRY) == []
    assert (await http.patch(path, json={"tags": [TAG]})).status_code == 200
    assert [item["id"] for item in await standing(http, FERRY)] == [told["id"]]
    assert (await http.delete(path)).status_code == 200
    assert await standing(http, FERRY) == []


@pytest.mark.parametrize(
    "fields", [{"role": "assistant"}, {"actor_id": "omar"}, {"content": "Should I always answer in German?"}]
)
async def test_what_another_says_is_no_instruction(http: httpx.AsyncClient, fields: dict[str, str]) -> None:
    told = await say(http, **({"content": GERMAN} | fields))
    assert (await http.get(f"/memory/{told['id']}")).json()["tags"] == []


async def test_a_turn_states_an_instruction(http: httpx.AsyncClient) -> None:
    told = await say(http, f"Thanks! {GRAMS}")
    assert [item["id"] for item in await standing(http, RECIPE)] == [told["id"]]


async def test_a_tenant_may_want_none(http: httpx.AsyncClient) -> None:
    await remember(http, GERMAN, category="preferences")
    assert (await http.put("/tenant/config", json={"query": {"instructions": 0}})).status_code == 200
    assert await standing(http, FERRY) == []


async def test_instructions_take_at_most_half_of_the_budget(http: httpx.AsyncClient) -> None:
    await remember(http, "Jonas took the ferry to Texel.", category="event")
    for text in (GERMAN, NO_EMOJIS, "Always cite your sources."):
        await remember(http, text, category="preferences")
    for budget in (1, 20, 40, 60):
        answer = await ask(http, FERRY, budget_tokens=budget, explain=True)
        told = ["instruction" in item for item in answer["items"]]
        assert answer["tokens"] <= budget
        assert sum(told) <= budget // 20
        assert not all(told) or not told


async def test_an_instruction_in_the_answer_was_not_dropped(http: httpx.AsyncClient) -> None:
    await remember(http, "Jonas took the ferry to Texel.", category="event")
    turn = await say(http, GERMAN)
    told = await remember(http, GERMAN, category="preferences")
    for fields in ({}, {"top_k": 1}, {"min_relevance": 0.5}, {"budget_tokens": 20}):
        answer = await ask(http, FERRY, explain=True, **fields)
        [item] = [item for item in answer["items"] if "instruction" in item]
        assert item["also"] == [turn["id"]]
        assert told["id"] not in {dropped["id"] for dropped in answer.get("dropped", [])}


async def test_an_instruction_holds_within_its_span_alone(http: httpx.AsyncClient) -> None:
    now = datetime.now(UTC)
    day = timedelta(days=1)
    told = await remember(http, GERMAN, category="preferences", valid_to=(now - day).isoformat())
    before = (now - 2 * day).isoformat()
    assert await standing(http, FERRY) == []
    assert len(await standing(http, FERRY, valid_at=before)) == 1
    assert await standing(http, FERRY, as_of=datetime.now(UTC).isoformat()) == []
    span = {"valid_from": (now + day).isoformat(), "valid_to": None}
    assert (await http.patch(f"/memory/{told['id']}", json=span)).status_code == 200
    assert await standing(http, FERRY) == []


async def test_a_correction_takes_the_mark_away(http: httpx.AsyncClient) -> None:
    told = await remember(http, GERMAN, category="preferences")
    body = {"id": told["id"], "user_id": "maya", "text": "Maya learns German.", "was": "superseded"}
    assert (await http.post("/memory/correct", json=body)).status_code == 200
    assert await standing(http, FERRY) == []


async def test_the_past_had_its_own_instructions(http: httpx.AsyncClient) -> None:
    told = await remember(http, GERMAN, category="preferences")
    then = datetime.now(UTC).isoformat()
    assert (await http.delete(f"/memory/{told['id']}")).status_code == 200
    assert texts(await ask(http, FERRY, filters={"user_id": "maya"})) == []
    assert [item["id"] for item in await standing(http, FERRY, as_of=then)] == [told["id"]]
