"""Unknown fields of a body are refused with the name that was meant."""

from typing import Any

import httpx
import pytest
from mnema_wire.bases import MAX_REPORTED

from tests.api.calls import refused
from tests.factories import Caller

TEXT = {"user_id": "maya", "category": "tasks", "text": "Maya books a room."}


@pytest.fixture
async def client(server: str, caller: Caller) -> Any:
    async with caller.client(server) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "body", "place", "meant"),
    [
        ("/memory", {**TEXT, "importanse": 3}, ["importanse"], "did you mean 'importance'?"),
        ("/memory", {**TEXT, "source": {"turn_id": "t", "qoute": "x"}}, ["source", "qoute"], "did you mean 'quote'?"),
        ("/memory/query", {"agent": "planner", "query": "x", "retrun": "full"}, ["retrun"], "did you mean 'return'?"),
        (
            "/memory/query",
            {"agent": "planner", "query": "x", "filters": {"user": "maya"}},
            ["filters", "user"],
            "did you mean 'user_id'?",
        ),
        ("/memory/query", {"agent": "planner", "query": "x", "{zq}": 1}, ["{zq}"], "these fields exist: agent, "),
    ],
)
async def test_the_nearest_name_is_in_the_message(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], place: list[str], meant: str
) -> None:
    problem = refused(await client.post(path, json=body), 422, "invalid_request")
    assert problem["errors"][0]["loc"] == ["body", *place]
    assert f"unknown field; {meant}" in problem["detail"]


async def test_few_unknown_fields_of_one_object_are_reported(client: httpx.AsyncClient) -> None:
    body = {**TEXT, **{f"importance{number}": 1 for number in range(9)}}
    problem = refused(await client.post("/memory", json=body), 422, "invalid_request")
    assert len(problem["errors"]) == MAX_REPORTED


async def test_a_change_of_one_field_leaves_the_others(client: httpx.AsyncClient) -> None:
    written = (await client.post("/memory", json=TEXT)).json()
    changed = (await client.patch(f"/memory/{written['id']}", json={"importance": 5})).json()
    assert (changed["text"], changed["importance"]) == (TEXT["text"], 5)
