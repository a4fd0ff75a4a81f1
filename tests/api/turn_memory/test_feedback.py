"""Feedback on turns over HTTP (`docs/turn-memory.md`)."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from app.bootstrap import Doubles
from app.config.settings import Settings
from app.domain.outages import EmbedderUnavailable
from app.ports import Embedder, Vector
from tests.api.calls import refused, sql
from tests.api.turn_memory.talking import MAYA, TALK, artifacts, get_turn, put_fingerprint, put_turn
from tests.conftest import Database
from tests.factories import Caller, make_caller, serve

REACTION = "artifact:turn.log.reaction"


async def react(http: httpx.AsyncClient, turn_id: str = "turn_1", key: str | None = None, **fields: Any) -> Any:
    """Send a reaction of the user, unless `origin` says otherwise."""
    body = MAYA | {"origin": "user", "reaction": "not_ok", "text": "Wrong colours."} | fields
    headers = {"Idempotency-Key": key} if key else {}
    return await http.post(f"{TALK}/turns/{turn_id}/feedback", json=body, headers=headers)


async def judge(http: httpx.AsyncClient, key: str | None = None, **fields: Any) -> Any:
    """Send a gate's feedback."""
    body = MAYA | {"reaction": "not_ok", "text": "The cake was too sweet.", "confidence": 0.9} | fields
    return await http.post(f"{TALK}/feedback", json=body, headers={"Idempotency-Key": key} if key else {})


async def reactions(http: httpx.AsyncClient) -> list[Any]:
    """Return what the index has of the reactions, newest first."""
    return [item["content"] for item in (await artifacts(http, kind=REACTION))["items"]]


async def mirrored(http: httpx.AsyncClient, turn_id: str = "turn_1") -> list[str]:
    """Return the texts of the feedback in the turn's log, which its two lists agree on."""
    log = (await get_turn(http, turn_id))["content"]["turn_log"]
    texts = [entry["text"] for entry in log["entries"] if entry["area"] == "feedback"]
    assert texts == [given["text"] for given in log["feedbacks"]]
    return texts


async def test_a_reaction_is_an_index_row_with_a_prefix_and_the_tag_of_its_origin(http: httpx.AsyncClient) -> None:
    await put_turn(http, "turn_1")
    await put_fingerprint(http, "turn_1", objective="fix the diagram")
    answer = (await react(http)).json()
    [row] = (await artifacts(http, kind=REACTION))["items"]
    assert row["text"].startswith("[turn.log.reaction]")
    stored = json.loads(row["text"].removeprefix("[turn.log.reaction]"))
    assert stored == {
        "turn_id": "turn_1",
        "ts": answer["ts"],
        "origin": "user",
        "reaction": "not_ok",
        "text": "Wrong colours.",
        "objective": "fix the diagram",
    }
    assert (row["tags"], row["turn_id"], row["hosted_uri"]) == ([REACTION, "origin:user"], "turn_1", None)
    assert await mirrored(http) == []


async def test_a_user_has_one_reaction_to_a_turn_and_null_clears_it(http: httpx.AsyncClient) -> None:
    for turn_id in ("turn_1", "turn_2"):
        await put_turn(http, turn_id)
        await react(http, turn_id)
    assert (await react(http, reaction="ok", text="")).status_code == 200
    assert {(one["turn_id"], one["reaction"]) for one in await reactions(http)} == {
        ("turn_1", "ok"),
        ("turn_2", "not_ok"),
    }
    cleared = await react(http, reaction=None, text="")
    assert (cleared.status_code, cleared.json()["reaction"]) == (200, None)
    assert [one["turn_id"] for one in await reactions(http)] == ["turn_2"]
    assert (await react(http, reaction=None)).status_code == 200


async def test_reactions_of_machines_add_up(http: httpx.AsyncClient) -> None:
    await put_turn(http, "turn_1")
    await react(http)
    for text in ("Too long.", "Too long.", "Too short."):
        assert (await react(http, origin="machine", text=text, confidence=0.7)).status_code == 200
    given = await reactions(http)
    assert sorted(one["text"] for one in given) == ["Too long.", "Too long.", "Too short.", "Wrong colours."]
    assert {one.get("confidence") for one in given if one["origin"] == "machine"} == {0.7}
    assert len((await artifacts(http, tag="origin:machine"))["items"]) == 3


@pytest.mark.parametrize("confidence", [None, 0, 0.6999])
async def test_a_machine_needs_confidence(http: httpx.AsyncClient, confidence: float | None) -> None:
    await put_turn(http, "turn_1")
    refused(await react(http, origin="machine", confidence=confidence), 422, "low_confidence")
    if confidence is not None:
        refused(await judge(http, confidence=confidence), 422, "low_confidence")
    assert await reactions(http) == []


async def test_a_machine_cannot_clear(http: httpx.AsyncClient) -> None:
    await put_turn(http, "turn_1")
    refused(await react(http, origin="machine", reaction=None, confidence=0.9), 422, "invalid_request")


async def test_an_unknown_turn_gets_no_reaction(http: httpx.AsyncClient) -> None:
    await put_turn(http, "turn_2")
    for reaction in ("ok", None):
        refused(await react(http, reaction=reaction), 404, "not_found")
    refused(await react(http, origin="machine", confidence=0.9), 404, "not_found")
    refused(await judge(http, candidate_turn_ids=["turn_1"]), 404, "not_found")
    elsewhere = await http.post(
        "/conversations/new/feedback", json=MAYA | {"reaction": "ok", "text": "x", "confidence": 1}
    )
    refused(elsewhere, 404, "not_found")
    refused(await react(http, "turn_2", user_id="ben"), 404, "not_found")
    assert await reactions(http) == []


async def test_machines_react_to_a_turn_sixteen_times_even_at_once(http: httpx.AsyncClient) -> None:
    await put_turn(http, "turn_1")
    for number in range(12):
        assert (await react(http, origin="machine", text=str(number), confidence=0.9)).status_code == 200
    answers = await asyncio.gather(
        *(react(http, origin="machine", text=f"at once {number}", confidence=0.9) for number in range(8))
    )
    assert sorted(answer.status_code for answer in answers) == [200] * 4 + [409] * 4
    refused(next(answer for answer in answers if answer.status_code == 409), 409, "too_many_reactions")
    assert len(await reactions(http)) == 16
    assert (await react(http)).status_code == 200  # the user's does not count


async def test_a_retry_of_a_machine_adds_once(http: httpx.AsyncClient) -> None:
    for turn_id in ("turn_1", "turn_2"):
        await put_turn(http, turn_id)
    one = {"origin": "machine", "confidence": 0.9}
    first = [(await react(http, key="k", **one)).json() for _ in range(2)]
    assert first[0] == first[1]
    at_once = await asyncio.gather(*(react(http, key="other", **one) for _ in range(6)))
    assert {answer.status_code for answer in at_once} == {200}
    assert len(await reactions(http)) == 2
    refused(await react(http, key="k", **one | {"text": "Another."}), 409, "idempotency_key_reused")
    refused(await react(http, "turn_2", key="k", **one), 409, "idempotency_key_reused")
    gate = (await judge(http, key="k")).json()
    await put_turn(http, "turn_3", "The cake was too sweet.")
    again = (await judge(http, key="k")).json()
    assert (again["turn_id"], again["ts"], again["candidates"]) == (gate["turn_id"], gate["ts"], [])
    refused(await judge(http, key="k", text="Another."), 409, "idempotency_key_reused")
    assert len(await reactions(http)) == 3


async def test_the_log_shows_feedback_on_request_and_stays_in_step(http: httpx.AsyncClient) -> None:
    await put_turn(http, "turn_1")
    await react(http, text="Not shown.")
    assert await mirrored(http) == []
    await react(http, text="One.", apply_feedback_to_turn_log=True)
    await react(http, origin="machine", text="Machine.", confidence=0.8, apply_feedback_to_turn_log=True)
    await react(http, origin="machine", text="Unseen.", confidence=0.8)
    assert await mirrored(http) == ["One.", "Machine."]
    await put_fingerprint(http, "turn_1", objective="stays")
    await put_turn(http, "turn_1", "another text")
    await react(http, reaction="ok", text="Two.")
    assert await mirrored(http) == ["Machine.", "Two."]
    assert [item["content"]["feedbacks"] for item in (await artifacts(http, kind="artifact:turn.log"))["items"]] == [2]
    await react(http, reaction=None, text="")
    assert await mirrored(http) == ["Machine."]
    await judge(http, text="another text", apply_feedback_to_turn_log=True)
    assert await mirrored(http) == ["Machine.", "another text"]


@pytest.mark.long
async def test_a_deleted_turn_takes_its_reactions_along(http: httpx.AsyncClient, database: Database) -> None:
    await put_turn(http, "turn_1")
    await react(http)
    await react(http, origin="machine", confidence=0.9)
    answers = await asyncio.gather(
        http.delete(f"{TALK}/turns/turn_1", params=MAYA),
        *(react(http, origin="machine", text=str(number), confidence=0.9) for number in range(6)),
    )
    assert answers[0].status_code == 200
    assert await sql(database, "SELECT kind, place FROM conv_messages WHERE turn_id IS NOT NULL") == []
    refused(await react(http), 404, "not_found")


async def test_the_server_chooses_the_turn_by_similarity_and_recency(http: httpx.AsyncClient) -> None:
    texts = {"cake": "Bake me a sweet cake.", "boat": "Draw a boat.", "train": "Which train goes to Porto?"}
    for turn_id, text in texts.items():
        await put_turn(http, turn_id, text)
    chosen = (await judge(http)).json()
    assert (chosen["turn_id"], chosen["degraded"], chosen["origin"]) == ("cake", None, "machine")
    assert {one["turn_id"]: one["recency"] for one in chosen["candidates"]} == {"cake": 0, "boat": 0.5, "train": 1}
    for one in chosen["candidates"]:
        assert one["score"] == pytest.approx(0.85 * one["similarity"] + 0.15 * one["recency"])
    assert chosen["score"] == max(one["score"] for one in chosen["candidates"])
    assert [one["turn_id"] for one in await reactions(http)] == ["cake"]


async def test_candidates_restrict_the_choice_and_may_be_unique_beginnings(http: httpx.AsyncClient) -> None:
    for turn_id, text in {"turn_a1": "Bake a sweet cake.", "turn_a2": "Sail.", "turn_b": "Ski."}.items():
        await put_turn(http, turn_id, text)
    chosen = (await judge(http, candidate_turn_ids=["turn_a2", "turn_b", "turn_a"])).json()
    assert {one["turn_id"] for one in chosen["candidates"]} == {"turn_a2", "turn_b"}


async def test_only_the_newest_ten_turns_are_candidates(http: httpx.AsyncClient) -> None:
    for number in range(12):
        await put_turn(http, f"turn_{number:02}", "The cake was too sweet." if number < 2 else f"Number {number}.")
    chosen = (await judge(http)).json()
    assert {one["turn_id"] for one in chosen["candidates"]} == {f"turn_{number:02}" for number in range(2, 12)}
    named = (await judge(http, candidate_turn_ids=["turn_01"])).json()
    assert named["turn_id"] == "turn_01"


class Away:
    """An embedder that does not answer; everything else is the real one's."""

    def __init__(self, real: Embedder) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def embed_query(self, text: str) -> Vector:
        raise EmbedderUnavailable


async def test_without_the_embedder_common_words_decide(settings: Settings, embedder: Embedder, caller: Caller) -> None:
    doubles = Doubles(embedder=Away(embedder))
    async with serve(settings, doubles) as url, caller.client(url) as http:
        await put_turn(http, "cake", "Bake a sweet cake.")
        await put_turn(http, "boat", "Draw a boat.")
        chosen = (await judge(http, text="sweet cake?")).json()
    assert (chosen["turn_id"], chosen["degraded"]) == ("cake", "embedder_unavailable")
    assert [one["similarity"] for one in chosen["candidates"]] == [1, 0]


async def test_a_key_of_agents_without_the_category_gives_no_feedback(
    http: httpx.AsyncClient, server: str, app: Any, caller: Caller
) -> None:
    await put_turn(http, "turn_1")
    bound = await make_caller(app, ["query", "write"], ["researcher"], tenant=caller)
    async with bound.client(server) as agent:
        for answer in (await react(agent), await react(agent, "nosuch"), await judge(agent)):
            refused(answer, 403, "category_not_allowed")
