"""Tables of invalid requests with their expected answers: never a 500, and nothing is stored."""

import json
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.api.calls import ask, listed, refused, remember, row_counts, send, verdict
from tests.conftest import Database
from tests.factories import body

INVALID, MALFORMED = (422, "invalid_request"), (400, "malformed_body")
NAN = float("nan")
SURROGATE = "\ud800"
IDENTIFIERS = ("user_id", "category", "thread_id", "agent_id", "run_id", "actor_id", "role")
BAD_IDENTIFIERS = ["", " ", " a", "a ", "a\nb", "a\x00b", "\x7f", "\u200b", SURROGATE, "x" * 201, 1, True, [], {}]


def nested(depth: int) -> str:
    """Return a body whose metadata is nested that deep."""
    return json.dumps(body(metadata={"a": 1})).replace("1}", "[" * depth + "]" * depth + "}")


WRITES: list[tuple[str, Any, tuple[int, str]]] = [
    ("no body", "", INVALID),
    ("null", "null", INVALID),
    ("a list", "[]", INVALID),
    ("a string", '"text"', INVALID),
    ("an empty object", "{}", INVALID),
    ("not JSON", "{", MALFORMED),
    ("two documents", "{}{}", MALFORMED),
    ("a trailing comma", '{"user_id": "maya",}', MALFORMED),
    ("single quotes", "{'user_id': 'maya'}", MALFORMED),
    ("not UTF-8", b'{"user_id": "\xff"}', MALFORMED),
    ("a form", "user_id=maya&text=x", MALFORMED),
    ("deep metadata", nested(17), INVALID),
    ("very deep metadata", nested(800), INVALID),
    ("hopelessly deep metadata", nested(40_000), MALFORMED),
    ("a tower of brackets", "[" * 90_000, MALFORMED),
    ("a huge integer", json.dumps(body(importance=1)).replace("1}", "9" * 5000 + "}"), MALFORMED),
    ("an unknown field", body(colour="red"), INVALID),
    ("a field of another case", body(User_Id="maya"), INVALID),
    ("a tenant", body(tenant_id=str(uuid4())), INVALID),
    ("an id", body(id=str(uuid4())), INVALID),
    ("a state", body(state="soft_deleted"), INVALID),
    ("an unknown field that is no text", body(**{SURROGATE: 1}), INVALID),
    ("no text", {"user_id": "maya", "category": "tasks"}, INVALID),
    ("no user", {"text": "x", "category": "tasks"}, INVALID),
    ("an unknown category", body(category="nonsense"), (422, "unknown_category")),
    ("a category of another case", body(category="Tasks"), (422, "unknown_category")),
    ("an empty text", body(""), (422, "empty_text")),
    ("a blank text", body(" \t\r\n\u00a0\u2003"), (422, "empty_text")),
    ("a zero-width text", body("\u200b\u200c\u200d\u2060\ufeff\u00ad"), (422, "empty_text")),
    ("a text of control characters", body("\x00\x01\x1f\x7f\x9f\u202e"), (422, "empty_text")),
    ("a text of accents alone", body("\u0301\u0301"), (422, "empty_text")),
    ("a text one too long", body("x" * 281), (422, "text_too_long")),
    ("an unknown type", body(type="poem"), INVALID),
    ("steps without a procedure", body(steps_text="1. Go."), INVALID),
    ("NaN in metadata", body(metadata={"a": [NAN]}), INVALID),
    ("infinity in metadata", body(metadata={"a": {"b": float("inf")}}), INVALID),
    ("an overflow in metadata", json.dumps(body(metadata={"a": 1})).replace("1}", "1e999}"), INVALID),
    ("a NUL in metadata", body(metadata={"a": "x\x00"}), INVALID),
    ("a NUL in a metadata key", body(metadata={"\x00": 1}), INVALID),
    ("a lone surrogate in metadata", body(metadata={"a": [SURROGATE]}), INVALID),
    ("a lone surrogate in a metadata key", body(metadata={SURROGATE: 1}), INVALID),
    ("metadata over 16 KiB", body(metadata={"a": "x" * 16_384}), INVALID),
    ("a list for metadata", body(metadata=[1]), INVALID),
    ("a source without turn", body(source={"quote": "x"}), INVALID),
    ("a source with more", body(source={"turn_id": "1", "page": 2}), INVALID),
    ("a quote too long", body(source={"turn_id": "1", "quote": "x" * 2001}), INVALID),
    ("a quote with a lone surrogate", body(source={"turn_id": "1", "quote": SURROGATE}), INVALID),
    ("51 tags", body(tags=[f"t{n}" for n in range(51)]), INVALID),
    ("a tag too long", body(tags=["x" * 201]), INVALID),
    ("an empty tag", body(tags=["a", ""]), INVALID),
    ("a string for tags", body(tags="a"), INVALID),
    ("a NUL in a tag", body(tags=["a\x00"]), INVALID),
    ("null for tags", body(tags=None), INVALID),
    *((f"{n!r} for importance", body(importance=n), INVALID) for n in (0, 6, -1, "3", 6.0, 2.5, True, NAN, 10**30, [])),
    *((f"{n!r} for seq", body(seq=n), INVALID) for n in (-1, 2**62 + 1, 10**30, "1", 1.5, 1e300, True)),
    *((f"{v!r} for pinned", body(pinned=v), INVALID) for v in (0, 1, "true", "yes", None)),
    *((f"{v!r} for text", body(v), INVALID) for v in (None, 1, True, ["x"], {"x": 1})),
    *(
        (f"{v!r} for created_at", body(created_at=v), INVALID)
        for v in (
            0,
            1700000000,
            True,
            "",
            "soon",
            "2025-13-01",
            "2025-02-30",
            "2025-07-01T25:00:00",
            "+10000-01-01",
            [],
        )
    ),
    *((f"{name} = {str(v)[:5]!r}", body(**{name: v}), INVALID) for name in IDENTIFIERS for v in BAD_IDENTIFIERS),
]

PATCHES: list[tuple[str, Any, tuple[int, str]]] = [
    ("no body", "", INVALID),
    ("a list", "[]", INVALID),
    ("not JSON", "{", MALFORMED),
    ("an unknown field", {"colour": "red"}, INVALID),
    ("a fixed field", {"user_id": "nadia"}, INVALID),
    ("a version", {"version": 7}, INVALID),
    ("an empty text", {"text": "\u200b"}, (422, "empty_text")),
    ("a long text", {"text": "x" * 281}, (422, "text_too_long")),
    ("an unknown category", {"category": "nonsense"}, (422, "unknown_category")),
    ("NaN", {"metadata": {"a": NAN}}, INVALID),
    *(
        (f"{name} = {value!r}", {name: value}, INVALID)
        for name in ("text", "category", "importance", "pinned", "tags", "metadata", "steps_text")
        for value in (None, 1.5, "\n" + "x" * 300, [1], {"a": SURROGATE})
        if name not in ("text", "steps_text") or not isinstance(value, str)
    ),
]

FILTERS: list[dict[str, Any]] = [
    {"updated_after": "2025-07-02", "updated_before": "2025-07-01"},
    {"importance_min": 4, "importance_max": 2},
    {"importance_min": 0},
    {"importance_max": 6},
    {"importance_min": "3"},
    {"importance_min": True},
    {"pinned": 1},
    {"pinned": "false"},
    {"updated_after": 1751328000},
    {"updated_after": "yesterday"},
    {"updated_before": "2025-07-32"},
    {"colour": "red"},
    {"thread_id": "t"},
    *({name: value} for name in ("user_id", "role", "category") for value in ("", "a\x00", SURROGATE, "x" * 201, 1)),
]
FIELDS: list[dict[str, Any]] = [
    *({"top_k": value} for value in (0, -1, 51, 10**30, "3", 3.5, True, NAN)),
    *({"budget_tokens": value} for value in (0, -1, 8193, "512", 512.5, False)),
    *({"threshold": value} for value in (-0.1, 1.1, NAN, float("inf"), -float("inf"), "high", [], {})),
    *({"since_rev": value} for value in (-1, 2**62 + 1, 10**40, "0", 0.5, True)),
    *({"return": value} for value in ("prose", "", None, 1)),
    *({"explain": value} for value in (1, "true", None)),
    *({"categories": value} for value in ("tasks", [1], [""], [None], {}, ["x"] * 101, [SURROGATE])),
    *({"agent": value} for value in ("", " ", 1, "x" * 201, "a\x00", SURROGATE)),
    *({"query": value} for value in ("", " \n", "\u200b\ufeff", None, 1, ["x"], "x" * 8001, SURROGATE)),
    *({"thread_id": value} for value in ("", "a\x00", "x" * 201, 7)),
    *({"profile": value} for value in ("best", "", 1)),
    *({"filters": value} for value in ([], "x", 1)),
    {"budget": 10},
]
QUERIES: list[tuple[str, Any, tuple[int, str]]] = [
    ("no body", "", INVALID),
    ("not JSON", '{"agent":', MALFORMED),
    ("no query", {"agent": "planner"}, INVALID),
    *((str(f)[:60], {"agent": "planner", "query": "x", "filters": f}, INVALID) for f in FILTERS),
    *((str(f)[:60], {"agent": "planner", "query": "x"} | f, INVALID) for f in FIELDS),
]


async def wrong_answers(
    client: httpx.AsyncClient, method: str, path: str, table: list[tuple[str, Any, tuple[int, str]]]
) -> dict[str, str]:
    """Return the rows of the table whose answer was not the expected one."""
    wrong = {}
    for name, content, expected in table:
        response = await send(client, content, path, method)
        if verdict(response) != expected:
            wrong[name] = response.text[:300]
    return wrong


@pytest.mark.long
async def test_invalid_writes_are_refused_and_store_nothing(http: httpx.AsyncClient, database: Database) -> None:
    before = await row_counts(database)
    assert await wrong_answers(http, "POST", "/memory", WRITES) == {}
    assert await row_counts(database) == before


async def test_invalid_patches_are_refused_and_change_nothing(http: httpx.AsyncClient) -> None:
    url = f"/memory/{(await remember(http))['id']}"
    before = (await http.get(url)).json()
    assert await wrong_answers(http, "PATCH", url, PATCHES) == {}
    for content in ({"pinned": 1}, {"pinned": None}, {"unpin": True}, [], '"x"'):
        refused(await send(http, content, f"{url}/pin"), *INVALID)
    assert (await http.get(url)).json() == before


@pytest.mark.long
async def test_invalid_queries_are_refused(http: httpx.AsyncClient) -> None:
    await remember(http, category="tasks")
    assert await wrong_answers(http, "POST", "/memory/query", QUERIES) == {}


@pytest.mark.parametrize("threshold", ["0.65", True])
async def test_a_threshold_that_is_no_number_is_refused(http: httpx.AsyncClient, threshold: object) -> None:
    response = await http.post("/memory/query", json={"agent": "planner", "query": "x", "threshold": threshold})
    refused(response, *INVALID)


async def test_a_text_that_is_no_unicode_is_refused(http: httpx.AsyncClient) -> None:
    url = f"/memory/{(await remember(http))['id']}"
    answers = [
        await send(http, body(f"Maya {SURROGATE}")),
        await send(http, body("Maya \udfff\ud800 x", type="turn", category="activity")),
        await send(http, {"text": SURROGATE}, url, "PATCH"),
    ]
    for response in answers:
        assert verdict(response) in (INVALID, (422, "invalid_characters"))


async def test_a_quote_with_a_nul_is_refused(http: httpx.AsyncClient) -> None:
    response = await http.post("/memory", json=body(source={"turn_id": "1", "quote": "oat\x00milk"}))
    refused(response, 422, "invalid_request")


async def test_a_text_far_too_long_is_refused_like_one_a_little_too_long(http: httpx.AsyncClient) -> None:
    response = await http.post("/memory", json=body("word " * 20_001))
    refused(response, 422, "text_too_long")
    trimmed = await http.post("/memory", json=body("word " * 20_001), params={"trim": True})
    assert trimmed.status_code == 201


MARKS = {"few": "x" + "\u0316\u0301" * 20, "many": "\u0316\u0301" * 80_000}


@pytest.mark.parametrize(("marks", "code"), [("few", "too_many_marks"), ("many", "text_too_long")])
async def test_runs_of_combining_marks_are_refused_on_every_way_in(
    http: httpx.AsyncClient, marks: str, code: str
) -> None:
    text = MARKS[marks]
    url = f"/memory/{(await remember(http))['id']}"
    turn = {"user_id": "maya", "thread_id": "t", "role": "user", "content": text}
    refused(await send(http, body(text)), 422, code)
    refused(await send(http, turn, "/turns"), 422, code)
    refused(await send(http, {"text": text}, url, "PATCH"), 422, code)
    steps = {"category": "procedural", "type": "procedural", "steps_text": f"1. {text}"}
    refused(await send(http, body("Water the bees", **steps)), 422, code)
    bulk = await http.post("/memory/bulk", content=json.dumps(body(text)))
    assert [json.loads(line)["error"]["code"] for line in bulk.text.splitlines()] == [code]
    found = await http.post("/memory/query", json={"agent": "planner", "query": text[:8000]})
    assert found.status_code == 200


async def test_an_import_from_before_the_calendar_does_not_break_the_tenant(http: httpx.AsyncClient) -> None:
    response = await http.post("/memory", json=body(created_at="0001-01-01T00:00:00+14:00"))
    after = [await http.get("/memory"), await http.post("/memory", json=body("Maya plays chess."))]
    assert [answer.is_success for answer in after] == [True, True]
    assert response.status_code in (201, 422)


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
async def test_times_at_the_edge_of_the_calendar_break_no_read(http: httpx.AsyncClient, moment: str) -> None:
    await remember(http)
    wrong = {}
    for path, name in (("/memory", "updated_after"), ("/memory", "updated_before"), ("/events/counts", "since")):
        response = await http.get(path, params={name: moment})
        if response.status_code not in (200, 422):
            wrong[path, name] = verdict(response)
    for name in ("updated_after", "updated_before"):
        query = {"agent": "supervisor", "query": "x", "filters": {name: moment}}
        response = await http.post("/memory/query", json=query)
        if response.status_code not in (200, 422):
            wrong["/memory/query", name] = verdict(response)
    assert wrong == {}


async def test_a_whole_number_may_be_written_with_a_point(http: httpx.AsyncClient) -> None:
    written = await remember(http, importance=3.0, seq=1.0, thread_id="t", category="tasks")
    stored = (await http.get(f"/memory/{written['id']}")).json()
    assert (stored["importance"], stored["seq"]) == (3, 1)
    query = {"agent": "planner", "query": "x", "top_k": 3.0, "since_rev": 0.0, "budget_tokens": 64.0}
    assert (await http.post("/memory/query", json=query)).status_code == 200


async def test_a_field_has_one_name(http: httpx.AsyncClient) -> None:
    for query in ({"returns": "full"}, {"return": "bullets", "returns": "full"}):
        response = await http.post("/memory/query", json={"agent": "planner", "query": "x"} | query)
        refused(response, *INVALID)


async def test_an_empty_list_of_categories_means_all(http: httpx.AsyncClient) -> None:
    await remember(http)
    assert (await ask(http, categories=[]))["items"] == (await ask(http))["items"] != []


@pytest.mark.parametrize("name", IDENTIFIERS[:1] + IDENTIFIERS[2:])
async def test_identifiers_may_have_two_hundred_characters(http: httpx.AsyncClient, name: str) -> None:
    for value in ("x" * 200, "🦉" * 200, "a" * 199 + "ü"):
        written = await remember(http, f"Note of {value[0]}.", **{name: value, "type": "episodic"})
        assert (await http.get(f"/memory/{written['id']}")).json()[name] == value
        assert [m["id"] for m in await listed(http, **{name: value})] == [written["id"]]
    with_tag = await remember(http, "Tagged.", tags=["x" * 200])
    assert [m["id"] for m in await listed(http, tag="x" * 200)] == [with_tag["id"]]
