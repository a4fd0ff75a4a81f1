"""Turn logs, fingerprints, artifacts and the active set over HTTP (`docs/turn-memory.md`)."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from app.bootstrap import Application
from app.domain.turn_memory.artifacts import ArtifactChange, ArtifactKind, Conversation
from app.storage.turn_memory.artifacts import ArtifactStorage
from tests.api.calls import refused
from tests.api.turn_memory.talking import MAYA, TALK, active_set, artifacts, get_turn, put_fingerprint, put_turn
from tests.factories import Caller

LOG, FINGERPRINT = "artifact:turn.log", "artifact:turn.fingerprint.v1"
FORMAT = {"key": "format", "value": "mermaid", "severity": "must", "scope": "objective"}
PROMO = {"key": "Product Capability", "value": "exports", "severity": "recommend"}


async def test_a_fingerprint_stands_in_log_artifact_and_tags(http: httpx.AsyncClient) -> None:
    created = await put_turn(http, "turn_1", assistant_text="Here it is.", extra={"model": "m"}, track_id="main")
    stored = await put_fingerprint(
        http, "turn_1", objective="fix the diagram", topics=["mermaid"], assertions=[FORMAT], assistant_signals=[PROMO]
    )
    assert (created["created"], created["track_id"]) == (True, "main")
    fingerprint = stored["fingerprint"]
    assert fingerprint["version"] == "v1"
    assert fingerprint["assertions"] == [FORMAT]
    log = (await get_turn(http, "turn_1"))["content"]
    assert log["turn_log"]["state"]["fingerprint"] == fingerprint
    assert log["turn_log"]["extra"] == {"model": "m"}
    assert log["turn_summary"] == {
        "objective": "fix the diagram",
        "prefs": {"assertions": [FORMAT], "exceptions": []},
        "facts": [],
        "assistant_signals": fingerprint["assistant_signals"],
    }
    [artifact] = (await artifacts(http, kind=FINGERPRINT))["items"]
    assert artifact["content"] == fingerprint
    assert artifact["hosted_uri"] is None
    assert artifact["tags"] == [FINGERPRINT, "assistant_signal", "assistant_signal:product_capability"]
    [found] = (await artifacts(http, tag="assistant_signal:product_capability"))["items"]
    assert found["id"] == artifact["id"]


async def test_a_new_fingerprint_replaces_the_one_before(http: httpx.AsyncClient) -> None:
    await put_turn(http, "turn_1")
    first = await put_fingerprint(http, "turn_1", assistant_signals=[PROMO], extra_tags=["mine"])
    await put_fingerprint(http, "turn_1", objective="another", facts=[{"key": "city", "value": "Porto"}])
    [artifact] = (await artifacts(http, kind=FINGERPRINT))["items"]
    assert artifact["version"] == 2
    assert artifact["tags"] == [FINGERPRINT]
    assert artifact["content"]["made_at"] == first["fingerprint"]["made_at"]
    log = (await get_turn(http, "turn_1"))["content"]
    assert log["turn_log"]["state"]["fingerprint"] == artifact["content"]
    assert (await active_set(http))["since_last_reconcile"] == 1


async def test_a_turn_written_again_keeps_what_it_does_not_name(http: httpx.AsyncClient) -> None:
    first = await put_turn(http, "turn_1", "Hello", summary="A greeting.", track_id="main")
    await put_fingerprint(http, "turn_1", objective="greet")
    again = await put_turn(http, "turn_1", "Hello there", assistant_text="Hi!")
    assert (again["created"], again["made_at"], again["track_id"]) == (False, first["made_at"], "main")
    log = (await get_turn(http, "turn_1"))["content"]["turn_log"]
    assert (log["user_text"], log["assistant_text"], log["summary"]) == ("Hello there", "Hi!", "A greeting.")
    assert log["state"]["fingerprint"]["objective"] == "greet"
    assert [entry["area"] for entry in log["entries"]] == ["user", "assistant", "summary"]


async def test_eight_fingerprints_at_once_leave_one(http: httpx.AsyncClient) -> None:
    await put_turn(http, "turn_1")
    await asyncio.gather(
        *(
            put_fingerprint(
                http,
                "turn_1",
                objective=f"number {n}",
                assistant_signals=[{"key": f"k{n}", "value": n}],
                topics=[str(n)],
            )
            for n in range(8)
        )
    )
    [artifact] = (await artifacts(http, kind=FINGERPRINT))["items"]
    content = artifact["content"]
    number = content["objective"].removeprefix("number ")
    assert artifact["version"] == 8
    assert content["topics"] == [number]
    assert artifact["tags"] == [FINGERPRINT, "assistant_signal", f"assistant_signal:k{number}"]
    log = await get_turn(http, "turn_1")
    assert log["content"]["turn_log"]["state"]["fingerprint"] == content
    assert (await active_set(http))["since_last_reconcile"] == 1


async def test_a_fingerprint_without_a_log_makes_one(http: httpx.AsyncClient) -> None:
    await put_fingerprint(http, "turn_1", objective="alone")
    log = (await get_turn(http, "turn_1"))["content"]["turn_log"]
    assert (log["user_text"], log["state"]["fingerprint"]["objective"]) == ("", "alone")


async def test_the_title_is_that_of_the_active_set_then_of_the_start(http: httpx.AsyncClient) -> None:
    assert (await artifacts(http))["conversation_title"] == ""
    await put_turn(
        http, "turn_1", "Plan the garden party for my aunt,\nplease, and keep it small and cheap, would you?"
    )
    title = (await artifacts(http))["conversation_title"]
    assert title == "Plan the garden party for my aunt, please, and keep it smal…"
    await put_turn(http, "turn_2", "And a cake.")
    assert (await artifacts(http))["conversation_title"] == title
    await put_fingerprint(http, "turn_2", conversation_title="Garden party")
    assert (await artifacts(http))["conversation_title"] == "Garden party"


async def test_a_list_of_artifacts_has_pages_and_filters(http: httpx.AsyncClient) -> None:
    for number in range(5):
        await put_turn(http, f"turn_{number}", f"text {number}")
    await put_turn(http, "old", made_at="2020-01-01T00:00:00Z")
    seen: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        page = await artifacts(http, kind=LOG, limit=2, **cursor)
        seen += [item["turn_id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert seen == [f"turn_{number}" for number in reversed(range(5))]
    [one] = (await artifacts(http, turn_id="turn_3", materialize=True))["items"]
    assert one["content"]["turn_log"]["user_text"] == "text 3"
    assert [item["turn_id"] for item in (await artifacts(http, kind=LOG, days=3650))["items"]][-1] == "old"


async def test_a_deleted_turn_is_gone(http: httpx.AsyncClient) -> None:
    await put_turn(http, "turn_1")
    await put_fingerprint(http, "turn_1")
    answer = await http.delete(f"{TALK}/turns/turn_1", params=MAYA)
    assert answer.json() == {"deleted": 3}
    refused(await http.get(f"{TALK}/turns/turn_1", params=MAYA), 404, "not_found")
    refused(await http.delete(f"{TALK}/turns/turn_1", params=MAYA), 404, "not_found")


async def test_a_selection_takes_partial_ids_with_a_unique_beginning(http: httpx.AsyncClient) -> None:
    for turn_id in ("turn_a1", "turn_a2", "turn_b"):
        await put_turn(http, turn_id)
    body = MAYA | {"selected_local_memories_turn_ids": ["turn_b", "turn_a", "turn_a2", "nosuch"]}
    chosen = (await http.put(f"{TALK}/active-set", json=body)).json()
    assert chosen["selected_local_memories_turn_ids"] == ["turn_b", "turn_a2"]
    assert chosen["unknown_turn_ids"] == ["turn_a", "nosuch"]
    assert (await active_set(http))["selected_local_memories_turn_ids"] == ["turn_b", "turn_a2"]


async def test_at_most_five_turns_and_three_buckets_are_selected(
    http: httpx.AsyncClient, app: Application, caller: Caller
) -> None:
    names = [f"turn_{number}" for number in range(6)]
    for turn_id in names:
        await put_turn(http, turn_id)
    made = [await put_bucket(app, caller, f"obj-{number}") for number in range(4)]
    body = {"selected_local_memories_turn_ids": names, "picked_bucket_ids": ["obj-", "nosuch", *made]}
    chosen = (await http.put(f"{TALK}/active-set", json=MAYA | body)).json()
    assert chosen["selected_local_memories_turn_ids"] == names[:5]
    assert chosen["picked_bucket_ids"] == made[:3]
    assert chosen["unknown_bucket_ids"] == ["obj-", "nosuch"]


async def put_bucket(app: Application, caller: Caller, bucket_id: str) -> str:
    """Store the index of a bucket in Maya's conversation; return its id."""
    uri = await app.turn_memory.blobs.store_blob(caller.scope, "maya", b"{}")
    kind = ArtifactKind.bucket
    row = ArtifactChange(kind, bucket_id, "{}", datetime.now(UTC), tags=[kind.value], hosted_uri=uri)
    await ArtifactStorage(app.parts.uow).put_artifacts(caller.scope, Conversation("maya", "talk"), [row])
    return bucket_id


async def test_a_deleted_turn_is_selected_no_more(http: httpx.AsyncClient) -> None:
    for turn_id in ("turn_1", "turn_2"):
        await put_turn(http, turn_id)
    body = MAYA | {"selected_local_memories_turn_ids": ["turn_1", "turn_2"]}
    assert (await http.put(f"{TALK}/active-set", json=body)).status_code == 200
    assert (await http.delete(f"{TALK}/turns/turn_2", params=MAYA)).status_code == 200
    assert (await active_set(http))["selected_local_memories_turn_ids"] == ["turn_1"]


@pytest.mark.parametrize(
    "fields",
    [
        {"assertions": [{"key": ""}]},
        {"assertions": [{"key": " \u200b "}]},
        {"assertions": [{"key": "a", "severity": "avoid"}]},
        {"facts": [{"key": "a", "scope": "world"}]},
        {"facts": [{"key": "a", "value": "x" * 1001}]},
        {"facts": [{"key": "a", "value": ["x" * 1000]}]},
        {"facts": [{"key": "a"}] * 33},
        {"topics": ["x"] * 17},
        {"objective": "x" * 501},
        {"extra_tags": ["_t1"]},
        {"objective": "a\x00b"},
        {"made_at": "2999-01-01T00:00:00Z"},
        {"objektive": "x"},
    ],
)
async def test_a_bad_fingerprint_is_refused_and_nothing_is_stored(
    http: httpx.AsyncClient, fields: dict[str, Any]
) -> None:
    answer = await http.put(f"{TALK}/turns/turn_1/fingerprint", json=MAYA | fields)
    assert answer.status_code == 422, answer.text
    assert (await artifacts(http))["items"] == []


async def test_another_tenants_project_is_unknown(http: httpx.AsyncClient) -> None:
    body = MAYA | {"user_text": "Hello", "project_id": "acme/support"}
    refused(await http.put(f"{TALK}/turns/turn_1", json=body), 404, "unknown_project")


async def test_an_id_with_a_line_break_is_refused(http: httpx.AsyncClient) -> None:
    refused(await http.delete("/conversations/a%0Ab"), 422, "invalid_request")
    refused(await http.get("/conversations/a%0Ab/active-set", params=MAYA), 422, "invalid_request")
    refused(await http.get(f"{TALK}/turns/a%0Ab", params=MAYA), 422, "invalid_request")


async def test_ids_may_hold_slashes(http: httpx.AsyncClient) -> None:
    talk = "/conversations/a/b%2Fc"
    await put_fingerprint(http, "t%2F1", talk=talk, objective="slashes")
    assert (await get_turn(http, "t/1", talk))["turn_id"] == "t/1"
    assert (await artifacts(http, "/conversations/a/b/c", kind=FINGERPRINT))["items"][0]["turn_id"] == "t/1"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", f"{TALK}/active-set"),
        ("DELETE", f"{TALK}/artifacts"),
        ("GET", f"{TALK}/turns/turn_1/fingerprint"),
        ("DELETE", f"{TALK}/turns/turn_1/fingerprint"),
    ],
)
async def test_a_part_of_a_conversation_is_no_conversation(http: httpx.AsyncClient, method: str, path: str) -> None:
    answer = await http.request(method, path, params={"user": "maya"})
    refused(answer, 405, "method_not_allowed")
    assert method not in answer.headers["allow"]


@pytest.mark.long
async def test_thirty_two_writers_of_one_turn_all_succeed(http: httpx.AsyncClient) -> None:
    await asyncio.gather(*(put_turn(http, "turn_1", f"text {number}") for number in range(32)))
    [log] = (await artifacts(http, kind=LOG))["items"]
    assert log["version"] == 32
