"""A filter that three of 1,503 memories match finds these three, whatever face asks."""

import json
import random
from pathlib import Path
from typing import Any

import httpx
import pytest
from mnema_client import AsyncMnema

from app.bootstrap import Application
from tests.api.calls import edit_matching, remember
from tests.api.changes import read_changes
from tests.cli.in_process import mnema
from tests.factories import Caller
from tests.mcp.connections import answered, ask, by_http
from tests.where_trees import HOSTILE, random_where, spoil_tree

OTHERS, FEW = 1500, 3
WHERE: dict[str, Any] = {"and": [{"metadata.origin": "vault"}, {"not": {"tags": {"contains": "old"}}}]}
QUESTION = "Who sold the number of a lamp?"
ASKED: dict[str, Any] = {"query": QUESTION, "min_relevance": 0, "top_k": 10}


async def store(client: httpx.AsyncClient, others: int) -> set[str]:
    """Store memories that answer the question, and three that do not, which the filter finds; return their texts."""
    found = {f"Maya keeps paper {number} in the vault." for number in range(FEW)}
    lines = [
        {"text": f"Somebody sold lamp number {number}.", "metadata": {"origin": "shop"}} for number in range(others)
    ]
    lines += [{"text": text, "metadata": {"origin": "vault", "n": 1}} for text in sorted(found)]
    lines.append({"text": "Maya kept an old paper in the vault.", "metadata": {"origin": "vault"}, "tags": ["old"]})
    common = {"user_id": "maya", "category": "event", "type": "episodic"}
    body = "\n".join(json.dumps(common | line) for line in lines)
    response = await client.post(
        "/memory/bulk", content=body.encode(), headers={"Content-Type": "application/x-ndjson"}, timeout=300
    )
    assert response.status_code == 200, response.text
    assert "error" not in response.text
    return found


async def by_http_routes(client: httpx.AsyncClient, where: dict[str, Any]) -> dict[str, set[str]]:
    """Return what each route finds."""
    of_maya = {"filters": {"user_id": "maya"}, "agent": "supervisor", "dates": False, "return": "full"}
    asked = (await client.post("/memory/query", json=ASKED | of_maya | {"where": where})).json()["items"]
    everyone = ASKED | {"agent": "supervisor", "dates": False, "where": where, "return": "full"}
    wide = (await client.post("/memory/query", json=everyone)).json()["items"]
    searched = (await client.post("/search", json=ASKED | {"where": where})).json()["results"]
    listed = (await client.get("/memory", params={"where": json.dumps(where)})).json()["items"]
    exported = await client.get("/users/maya/export", params={"where": json.dumps(where | {"state": "active"})})
    records = [json.loads(line) for line in exported.text.splitlines()]
    changed: set[str] = set()
    cursor, more = "start", True
    while more or len(changed) < len(listed):  # older transactions come first
        page = await read_changes(client, cursor, where=json.dumps(where))
        changed |= {memory["text"] for memory in page["items"]}
        cursor, more = page["next_cursor"], page["more"]
    return {
        "query": {item["text"].removeprefix("[event] ") for item in asked},
        "query of all": {item["text"].removeprefix("[event] ") for item in wide},
        "search": {result["text"] for result in searched},
        "list": {memory["text"] for memory in listed},
        "changes": changed,
        "export": {record["text"] for record in records if record["kind"] == "memory"},
    }


async def by_mem0(client: httpx.AsyncClient) -> dict[str, set[str]]:
    """Return what mem0's routes find with its operators."""
    filters = {
        "AND": [{"user_id": "maya"}, {"metadata": {"origin": "vault"}}, {"metadata": {"n": {"gte": 1}}}],
    }
    search = await client.post("/v3/memories/search/", json={"query": QUESTION, "filters": filters})
    listed = await client.post("/v3/memories/", json={"filters": filters})
    return {
        "mem0 search": {memory["memory"] for memory in search.json()["results"]},
        "mem0 list": {memory["memory"] for memory in listed.json()["results"]},
    }


async def by_clients(server: str, caller: Caller, home: Path) -> dict[str, set[str]]:
    """Return what MCP, the Python client and the command line find."""
    async with by_http(server, caller.key) as tools:
        told = answered(await ask(tools, QUESTION, where=WHERE, min_relevance=0, top_k=10, dates=False))
    async with AsyncMnema(server, caller.key) as memory:
        of_maya = {"agent": "supervisor", "filters": {"user_id": "maya"}, "where": WHERE, "dates": False}
        asked = await memory.query(QUESTION, min_relevance=0, top_k=10, **of_maya)
        searched = await memory.search(QUESTION, where=WHERE, min_relevance=0, top_k=10)
        listed = [found async for found in memory.list(where=WHERE)]
        exported = [record async for record in memory.export("maya", where=WHERE)]
    env = {"MNEMA_URL": server, "MNEMA_API_KEY": caller.key, "MNEMA_HOME": home}
    text = json.dumps(WHERE)
    printed = await mnema("list", "--where", text, "--json", **env)
    search = ("search", QUESTION, "--where", text, "--min-relevance", "0", "--top-k", "10", "--json")
    cited = await mnema(*search, **env)
    query = ("query", QUESTION, "--where", text, "--min-relevance", "0", "--top-k", "10", "--no-dates", "--json")
    told_again = await mnema(*query, **env)
    file = home / "maya.ndjson"
    await mnema("export", "--user", "maya", "--to", str(file), "--where", text, **env)
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {
        "MCP": {item["text"].removeprefix("[event] ") for item in told["items"]},
        "client's query": {item.text.removeprefix("[event] ") for item in asked.items},
        "client's search": {result.text for result in searched.results},
        "client's list": {found.text for found in listed},
        "client's export": {record["text"] for record in exported if record["kind"] == "memory"},
        "mnema query": {item["text"].removeprefix("[event] ") for item in json.loads(told_again.stdout)["items"]},
        "mnema export": {record["text"] for record in lines if record["kind"] == "memory"},
        "mnema list": {found["text"] for found in json.loads(printed.stdout)["items"]},
        "mnema search": {found["text"] for found in json.loads(cited.stdout)["results"]},
    }


@pytest.mark.long
async def test_every_face_finds_three_of_1503(
    http: httpx.AsyncClient, server: str, caller: Caller, app: Application, tmp_path: Path
) -> None:
    expected = await store(http, OTHERS)
    found = await by_http_routes(http, WHERE) | await by_mem0(http) | await by_clients(server, caller, tmp_path)
    assert found == dict.fromkeys(found, expected)
    matched = await edit_matching(http, {"where": WHERE}, importance=5)
    assert matched["matched"] == FEW


async def test_each_route_filters(http: httpx.AsyncClient) -> None:
    expected = await store(http, 8)
    found = await by_http_routes(http, WHERE) | await by_mem0(http)
    assert found == dict.fromkeys(found, expected)
    matched = await edit_matching(http, {"where": WHERE}, importance=5)
    assert matched["matched"] == FEW


async def test_a_wrong_filter_is_422_with_its_place(http: httpx.AsyncClient) -> None:
    wrong = {"and": [{"pinned": True}, {"importanse": 3}]}
    question = {"agent": "supervisor", "query": "tea", "where": wrong}
    problems = {
        "where.": await http.post("/memory/query", json=question),
        "where. ": await http.post("/search", json={"query": "tea", "where": wrong}),
        "where.  ": await http.get("/memory", params={"where": json.dumps(wrong)}),
        "filters.where.": await http.post("/memory/batches", json={"filters": {"where": wrong}, "action": "delete"}),
    }
    for place, response in problems.items():
        assert (response.status_code, response.json()["code"]) == (422, "invalid_request")
        assert response.json()["detail"] == (
            f"{place.strip()}and[1].importanse: unknown field; did you mean 'importance'?"
        )
    text = await http.get("/memory", params={"where": "pinned"})
    assert (text.status_code, text.json()["detail"]) == (422, "where: expected an object as JSON")


async def test_hostile_texts_are_values_and_names_of_keys(http: httpx.AsyncClient) -> None:
    for number, text in enumerate(HOSTILE):
        found = {"tags": [f"tag {text.strip() or number}"], "metadata": {text.replace(".", ""): text}}
        await remember(http, f"Note {number}.", type="episodic", category="event", **found)
    for number, text in enumerate(HOSTILE):
        wheres: list[dict[str, Any]] = [
            {"tags": f"tag {text.strip() or number}"},
            {f"metadata.{text.replace('.', '')}": text},
            {f"metadata.{text.replace('.', '')}": {"contains": text}},
        ]
        for where in wheres:
            listed = (await http.get("/memory", params={"where": json.dumps(where)})).json()["items"]
            assert [memory["text"] for memory in listed] == [f"Note {number}."], where


@pytest.mark.long
async def test_three_hundred_malformed_filters_are_422_in_every_reader(http: httpx.AsyncClient) -> None:
    rng = random.Random(4)
    trees = [tree for _ in range(40) for tree in spoil_tree(random_where(rng), rng)][:300]
    question = {"agent": "supervisor", "query": "tea"}
    lists = ("/memory", "/changes", "/queries", "/users/maya/export")
    for tree in trees:
        text = {"where": json.dumps(tree)}
        answers = [
            await http.get(path, params=text | {"user_id": "maya"} if path == "/facts" else text) for path in lists
        ]
        answers += [
            await http.post("/memory/query", json=question | {"where": tree}),
            await http.post("/search", json={"query": "tea", "where": tree}),
            await http.post("/memory/batches", json={"filters": {"where": tree}, "action": "delete"}),
            await http.post("/webhooks", json={"url": "https://example.org/hook", "where": tree}),
        ]
        for answer in answers:
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), (answer.url, tree)
            assert "where" in answer.json()["detail"], (answer.url, tree)
