"""A filter that names one key twice in an object is refused by every face, with the key."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from mnema_wire.unique_keys import RepeatedKey, check_unique_keys, load_json

from tests.api.calls import refused, remember
from tests.cli.in_process import mnema
from tests.factories import Caller
from tests.mcp.connections import HEADERS, call

WHERE = '{"type": "fact", "type": "turn"}'
INNER = '{"or": [{"pinned": true}, {"importance": {"gte": 4, "lt": 9, "gte": 1}}]}'
BODIES = [
    ("POST", "/memory/query", '{"query": "tea", "where": %s}'),
    ("POST", "/search", '{"query": "tea", "where": %s}'),
    ("POST", "/memory/batches", '{"action": "delete", "filters": {"where": %s}}'),
    ("POST", "/webhooks", '{"url": "https://example.org/", "where": %s}'),
    ("PATCH", "/webhooks/01a1fc04-bdad-7502-8255-01a1fc04bdad", '{"where": %s}'),
]


@pytest.mark.parametrize(("method", "path", "content"), BODIES)
@pytest.mark.parametrize(("where", "key"), [(WHERE, "type"), (INNER, "gte")])
async def test_a_body_with_equal_keys_is_refused(
    http: httpx.AsyncClient, method: str, path: str, content: str, where: str, key: str
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await http.request(method, path, content=content % where, headers=headers)
    assert f"the key '{key}' is given twice" in refused(answer, 422, "invalid_request")["detail"]


@pytest.mark.parametrize("path", ["/memory", "/changes", "/queries", "/facts?user_id=maya", "/users/maya/export"])
async def test_a_parameter_with_equal_keys_is_refused(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(str(httpx.URL(path).copy_merge_params({"where": '{"user_id": "a", "user_id": "b"}'})))
    assert "where: the key 'user_id' is given twice" in refused(answer, 422, "invalid_request")["detail"]


async def test_a_memory_whose_metadata_has_equal_keys_is_not_stored(http: httpx.AsyncClient) -> None:
    fields = '"user_id": "maya", "category": "tasks", "text": "Maya rows."'
    content = f'{{{fields}, "metadata": {{"a": 1, "\\u0061": 2}}}}'
    answer = await http.post("/memory", content=content, headers={"Content-Type": "application/json"})
    assert "'a'" in refused(answer, 422, "invalid_request")["detail"]
    assert (await http.get("/memory")).json()["items"] == []


async def test_a_patch_of_a_route_with_an_id_keeps_its_other_errors(http: httpx.AsyncClient) -> None:
    path = f"/memory/{(await remember(http))['id']}"
    headers = {"Content-Type": "application/json"}
    refused(
        await http.patch(path, content='{"pinned": true, "pinned": false}', headers=headers), 422, "invalid_request"
    )
    refused(await http.patch(path, content='{"pinned": ', headers=headers), 400, "malformed_body")
    refused(await http.patch(path, content=b'{"a": "\xff"}', headers=headers), 400, "malformed_body")
    assert (await http.patch(path, json={"pinned": True})).json()["pinned"] is True


@pytest.mark.parametrize("as_text", [False, True])
async def test_mcp_refuses_equal_keys(server: str, caller: Caller, as_text: bool) -> None:
    sent = json.dumps(call({"query": "tea", "where": "WHERE"}, name="memory_query"))
    sent = sent.replace('"WHERE"', json.dumps(WHERE) if as_text else WHERE)
    async with caller.client(server) as client:
        result = (await client.post("/mcp", content=sent, headers=HEADERS)).json()["result"]
    assert (result["isError"], result["structuredContent"]["code"]) == (True, "invalid_request")
    assert "the key 'type' is given twice" in result["structuredContent"]["detail"]


@pytest.mark.parametrize("command", [("query", "tea"), ("search", "tea"), ("list",), ("changes", "--after", "start")])
async def test_commands_refuse_equal_keys(
    server: str, caller: Caller, tmp_path: Path, command: tuple[str, ...]
) -> None:
    env: dict[str, Any] = {"MNEMA_URL": server, "MNEMA_API_KEY": caller.key, "MNEMA_HOME": tmp_path}
    run = await mnema(*command, "--where", WHERE, **env)
    assert run.exit_code in (1, 2)
    assert "the key 'type' is given twice" in run.stderr


def test_equal_keys_of_different_objects_are_read_as_ever() -> None:
    text = '[{"a": {"a": 1}}, {"a": [{"a": 2}], "b": null}]'
    assert load_json(text) == json.loads(text)
    check_unique_keys("{")
    check_unique_keys("[" * 100_000)
    with pytest.raises(RepeatedKey, match=r"'\?' is given twice"):
        load_json('{"\\ud800": 1, "\\ud800": 2}')
