"""Invalid requests to the routes of facts: each has its status and code, and stores nothing."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import refused, row_counts, send, verdict
from tests.api.cursors import ID, MALFORMED, encoded
from tests.conftest import Database
from tests.factories import Caller, make_caller

COLORS = "favorite_colors"
NAN = float("nan")
SURROGATE = "\ud800"
INVALID, EMPTY, LONG = (422, "invalid_request"), (422, "empty_text"), (422, "text_too_long")
RANGE, MARKS = (422, "rank_out_of_range"), (422, "too_many_marks")
SOON = (datetime.now(UTC) + timedelta(days=1)).isoformat()
SECRET = "Xylophone-4711"

FACTS: list[tuple[dict[str, Any], tuple[int, str]]] = [
    *(({"rank": rank}, RANGE) for rank in (0, -1, 11, 10**9, -(2**31), 2**31 - 1, 11.0)),
    *(({"rank": rank}, INVALID) for rank in (2**31, -(2**31) - 1, 10**30, 1.5, "1", True, [], {}, NAN)),
    ({"kind": "ranked", "rank": None}, INVALID),
    ({"kind": "single", "rank": 1}, INVALID),
    *(({"kind": kind}, INVALID) for kind in ("Ranked", "list", "", None, 1, SURROGATE)),
    *(({"value": value}, EMPTY) for value in ("", " \t\n", "\u200b\u2060", "\x00", "\x01\x7f", "\u0301\u0301")),
    *(({"value": value}, LONG) for value in ("x" * 201, "x" * 4000, "word " * 50)),
    *(({"value": value}, INVALID) for value in ("x" * 4001, None, 1, True, ["blue"], {"a": 1})),
    ({"value": f"blue {SURROGATE}"}, INVALID),
    ({"value": "x" + "\u0316\u0301" * 20}, MARKS),
    *(
        ({"topic_key": key}, INVALID)
        for key in ("", "Favorite_colors", "favorite colors", "favorite-colors", "fávorite")
    ),
    *(
        ({"topic_key": key}, INVALID)
        for key in ("x" * 101, "colors\n", "\ncolors", "a\x00b", SURROGATE, None, 1, ["a"])
    ),
    ({"colour": "red"}, INVALID),
]
"""Changes of a valid fact, with the answer. They hold for a fact in a list and for one that is stored by itself."""
WHOLE: list[tuple[dict[str, Any], tuple[int, str]]] = [
    *(({"user_id": user}, INVALID) for user in ("", " ", "a\x00", "x" * 201, None, 1, SURROGATE)),
    *(({"source_message_id": message}, INVALID) for message in ("", "a\x00b", "x" * 201, 1, SURROGATE)),
    *(
        ({"created_at": moment}, INVALID)
        for moment in (SOON, "9999-12-31T23:59:59-14:00", "soon", "", 1700000000, True)
    ),
    ({"tenant_id": str(uuid4())}, INVALID),
]
"""The same for the fields of the whole request."""
MESSAGES: list[tuple[Any, tuple[int, str]]] = [
    ("", INVALID),
    ("[]", INVALID),
    ('"text"', INVALID),
    ("{", (400, "malformed_body")),
    ({"user_id": "maya"}, INVALID),
    ({"user_id": "maya", "text": "I like tea.", "facts": [{"topic_key": COLORS, "rank": 1, "value": "red"}]}, INVALID),
    ({"user_id": "maya", "text": None, "facts": None}, INVALID),
    *(({"user_id": "maya", "text": text}, INVALID) for text in ("", "x" * 32_001, 1, ["x"], SURROGATE)),
    *(({"user_id": "maya", "facts": facts}, INVALID) for facts in ([], "x", {}, [None], ["x"], [{}])),
    ({"user_id": "maya", "facts": [{"topic_key": "t", "rank": 1, "value": str(n)} for n in range(101)]}, INVALID),
    *(
        ({"user_id": "maya", "text": "Hi", "model": model}, INVALID)
        for model in ("", "x" * 101, "a\nb", None, SURROGATE)
    ),
    *(({"user_id": "maya", "text": "Hi", "thread_id": thread}, INVALID) for thread in ("", "a\x00", "x" * 201, 7)),
]
QUESTIONS: list[dict[str, Any]] = [
    *({"query": query} for query in ("", "x" * 8001, None, 1, ["x"], SURROGATE)),
    *({"model": model} for model in ("", "x" * 101, "a\x00", 1)),
    *(
        {"memory_actions": actions}
        for actions in ({"S": -1}, {"U": 1.5}, {"R": "1"}, {"S": 10**7}, {"F": 1}, {"X": 1}, [])
    ),
    *({"meta": meta} for meta in ({"usedWebSearch": 1}, {"usedWebSearch": None}, {"used": True}, [], "x")),
    *({"thread_id": thread} for thread in ("", "a\x00", "x" * 201)),
    {"user_id": None},
    {"colour": "red"},
]
PATHS: list[tuple[str, tuple[int, str]]] = [
    (f"/facts/{COLORS}/0?user_id=maya", (404, "not_found")),
    (f"/facts/{COLORS}/11?user_id=maya", (404, "not_found")),
    (f"/facts/{COLORS}/{'9' * 9}?user_id=maya", (404, "not_found")),
    (f"/facts/{COLORS}/{2**31}?user_id=maya", (404, "no_such_route")),
    (f"/facts/{COLORS}/{'9' * 5000}?user_id=maya", (404, "no_such_route")),
    (f"/facts/{COLORS}/-1?user_id=maya", (404, "no_such_route")),
    (f"/facts/{COLORS}/1.5?user_id=maya", (404, "no_such_route")),
    (f"/facts/{COLORS}/%C2%B2?user_id=maya", (404, "no_such_route")),
    (f"/facts/{COLORS}/1", INVALID),
    (f"/facts/{COLORS}/1?user_id=a%00b", INVALID),
    (f"/facts/{COLORS}/1?user_id=maya&thread_id=", INVALID),
    (f"/facts/{COLORS}/1?user_id=maya&colour=red", INVALID),
    ("/facts/Colors/1?user_id=maya", INVALID),
    ("/facts/%00/1?user_id=maya", INVALID),
    (f"/facts/{'x' * 101}/1?user_id=maya", INVALID),
    ("/facts", INVALID),
    ("/facts?user_id=", INVALID),
    ("/facts?user_id=maya&topic_key=Colors", INVALID),
    ("/facts?user_id=maya&limit=0", INVALID),
    ("/facts?user_id=maya&limit=201", INVALID),
    ("/facts?user_id=maya&thread_id=a%00", INVALID),
    ("/facts/answer", (405, "method_not_allowed")),
    ("/facts/store", (405, "method_not_allowed")),
    ("/index-chat-message", (405, "method_not_allowed")),
    (f"/facts/{uuid4()}", (404, "not_found")),
    (f"/facts/{uuid4()}/history", (404, "not_found")),
    (f"/facts/{uuid4()}/restore", (404, "no_such_route")),
]
MESSAGE = {"chat_id": "c", "message_id": "m", "role": "user", "content": "I like tea."}
CHAT: list[tuple[dict[str, Any], tuple[int, str]]] = [
    *(
        ({name: value}, INVALID)
        for name in ("chat_id", "message_id", "role")
        for value in ("", None, 1, "a\x00", "x" * 201)
    ),
    *(({"content": content}, INVALID) for content in (None, 1, ["x"])),
    ({"content": SURROGATE}, (422, "invalid_characters")),
    *(({"content": content}, EMPTY) for content in ("", " ", "\u200b")),
    ({"content": "x" * 32_001}, LONG),
    *(({"message_index": index}, INVALID) for index in (-1, 1.5, "1", True, 2**62 + 1)),
    *(({"timestamp": moment}, INVALID) for moment in (SOON, "soon", 1700000000, "9999-12-31T23:59:59-14:00")),
    *(({"metadata": metadata}, INVALID) for metadata in ([], "x", {"a": "x\x00"}, {"a": NAN}, {"a": "x" * 16_384})),
    ({"project_id": "another"}, (404, "unknown_project")),
    ({"project_id": ""}, INVALID),
    ({"user_id": ""}, INVALID),
    ({"colour": "red"}, INVALID),
]


async def wrong_answers(
    client: httpx.AsyncClient, requests: list[tuple[str, str, Any, tuple[int, str]]]
) -> dict[str, tuple[int, str | None]]:
    """Return the requests (method, path, body, expected) whose answer was not the expected one."""
    wrong = {}
    for method, path, content, expected in requests:
        response = await (client.request(method, path) if content is None else send(client, content, path, method))
        if verdict(response) != expected:
            wrong[f"{method} {path[:60]} {str(content)[:200]}"] = verdict(response)
    return wrong


async def stored(client: httpx.AsyncClient, **fields: Any) -> str:
    """Store a fact; return its id."""
    sent = {"user_id": "maya", "facts": [{"topic_key": COLORS, "rank": 1, "value": "red"} | fields]}
    response = await client.post("/facts", json=sent)
    assert response.status_code == 201, response.text
    fact_id: str = response.json()["facts"][0]["id"]
    return fact_id


@pytest.mark.long
async def test_invalid_requests_are_refused_and_store_nothing(http: httpx.AsyncClient, database: Database) -> None:
    fact, fact_id = {"topic_key": COLORS, "kind": "ranked", "rank": 1, "value": "blue"}, await stored(http)
    question = {"user_id": "maya", "query": "What is my favorite color?"}
    requests: list[tuple[str, str, Any, tuple[int, str]]] = []
    for change, answer in FACTS:
        requests.append(("POST", "/facts", {"user_id": "maya", "facts": [fact | change]}, answer))
        requests.append(("POST", "/facts", {"user_id": "maya", "facts": [fact, fact | {"rank": 2} | change]}, answer))
        requests.append(("POST", "/facts/store", fact | change, answer))
    for change, answer in WHOLE:
        requests.append(("POST", "/facts", {"user_id": "maya", "facts": [fact]} | change, answer))
        requests.append(("POST", "/facts/store", fact | change, answer))
    requests += [("POST", "/facts", content, answer) for content, answer in MESSAGES]
    requests += [("POST", "/facts/answer", question | change, INVALID) for change in QUESTIONS]
    requests += [("POST", "/index-chat-message", MESSAGE | change, answer) for change, answer in CHAT]
    requests += [
        ("POST", "/facts/get", change, INVALID) for change in ({"rank": 1}, {"topic_key": "A"}, {"user_id": 1})
    ]
    requests += [
        ("PATCH", f"/facts/{fact_id}", {"value": change["value"]}, answer)
        for change, answer in FACTS
        if "value" in change
    ]
    requests += [("PATCH", f"/facts/{fact_id}", content, INVALID) for content in ({}, "[]", {"value": "x", "rank": 2})]
    requests += [("GET", path, None, answer) for path, answer in PATHS]
    before = await row_counts(database)
    assert await wrong_answers(http, requests) == {}
    assert await row_counts(database) == before
    assert (await http.get(f"/facts/{fact_id}")).json()["value"] == "red"


@pytest.mark.long
async def test_the_largest_requests_are_accepted(http: httpx.AsyncClient) -> None:
    facts = [{"topic_key": f"{n:_>100}", "rank": 10, "value": "x" * 200} for n in range(100)]
    answer = await http.post("/facts", json={"user_id": "m" * 200, "thread_id": "t" * 200, "facts": facts})
    assert (answer.status_code, answer.json()["memory_actions"]["S"]) == (201, 100)
    text = await http.post("/facts", json={"user_id": "maya", "text": "My favorite color is teal. " + "x" * 31_973})
    assert text.status_code == 201, text.text
    asked = await http.post("/facts/answer", json={"user_id": "maya", "query": "x" * 8000})
    assert (asked.status_code, asked.json()["answered"]) == (200, False)


async def test_a_time_just_now_is_accepted_and_the_first_value_of_a_rank_is_stored(http: httpx.AsyncClient) -> None:
    now = datetime.now(UTC).isoformat()
    facts = [{"topic_key": COLORS, "rank": 1, "value": value} for value in ("red", "blue")]
    answer = await http.post("/facts", json={"user_id": "maya", "facts": facts, "created_at": now})
    assert [fact["value"] for fact in answer.json()["facts"]] == ["red"]


async def test_an_invisible_message_states_nothing(http: httpx.AsyncClient) -> None:
    for text in ("\u200b", "\x00\x00", " ", "My favorite color is \x00."):
        answer = await send(http, {"user_id": "maya", "text": text}, "/facts")
        assert (answer.status_code, answer.json()["facts"]) == (201, []), text


@pytest.mark.parametrize(
    ("scope", "path"), [("query", "/facts"), ("query", "/facts/store"), ("write", "/facts/answer")]
)
async def test_a_wrong_scope_is_refused_before_the_content(
    app: Application, server: str, caller: Caller, scope: str, path: str
) -> None:
    limited = await make_caller(app, [scope], tenant=caller)
    async with limited.client(server) as client:
        for content in ({"user_id": "maya"}, {}, {"user_id": "maya", "query": "What is my favorite color?"}):
            refused(await client.post(path, json=content), 403, "scope_required")


async def test_cursors_of_facts_that_are_none_of_ours_are_refused(http: httpx.AsyncClient) -> None:
    fact_id = await stored(http)
    odd = {
        "infinity": encoded([COLORS, "", float("inf"), ID]),
        "a rank too high": encoded([COLORS, "", "1001", ID]),
        "a rank below zero": encoded([COLORS, "", "-1", ID]),
        "a rank of many digits": encoded([COLORS, "", "9" * 400, ID])[:500],
        "a NUL": encoded(["a\x00", "", "1", ID]),
        "a lone surrogate": encoded([SURROGATE, "", "1", ID]),
    }
    wrong = {}
    for name, cursor in (MALFORMED | odd).items():
        for path in ("/facts", f"/facts/{fact_id}/history"):
            params = {"cursor": cursor} | ({"user_id": "maya"} if path == "/facts" else {})
            response = await http.get(path, params=params)
            if verdict(response) != (422, "invalid_cursor"):
                wrong[path, name] = response.text
    assert wrong == {}


async def test_a_fact_that_does_not_exist_has_no_history_on_any_page(http: httpx.AsyncClient) -> None:
    fact_id = await stored(http)
    await http.patch(f"/facts/{fact_id}", json={"value": "blue"})
    cursor = (await http.get(f"/facts/{fact_id}/history", params={"limit": 1})).json()["next_cursor"]
    for _page in range(2):
        page = (await http.get(f"/facts/{fact_id}/history", params={"cursor": cursor, "limit": 1})).json()
        cursor = page["next_cursor"] or cursor
    assert [row["event"] for row in page["items"]] == ["ADD"]
    last = encoded(["2020-01-01T00:00:00+00:00", ID])
    assert (await http.get(f"/facts/{fact_id}/history", params={"cursor": last})).json()["items"] == []
    refused(await http.get(f"/facts/{uuid4()}/history", params={"cursor": last}), 404, "not_found")


async def test_an_error_never_repeats_what_was_sent(http: httpx.AsyncClient) -> None:
    fact = {"topic_key": COLORS, "rank": 1, "value": "red"}
    wrong = {"value": SECRET * 20}, {"value": [SECRET]}, {"topic_key": SECRET}, {"rank": SECRET}, {"kind": SECRET}
    bodies: list[tuple[str, Any]] = [("/facts/store", fact | change) for change in wrong]
    bodies += [("/facts", {"user_id": "maya", "facts": [fact | change]}) for change in wrong]
    bodies += [
        ("/facts", {"user_id": "maya", "facts": [fact], name: [SECRET]}) for name in ("text", "model", "created_at")
    ]
    bodies += [("/facts/answer", {"user_id": "maya", "query": SECRET * 700}), ("/facts", f'{{"text": {SECRET}')]
    bodies += [("/index-chat-message", MESSAGE | {name: [SECRET]}) for name in MESSAGE]
    for path, content in bodies:
        response = await send(http, content, path)
        assert response.status_code in (400, 422), json.dumps(content)
        assert SECRET not in response.text + str(response.headers), response.text
