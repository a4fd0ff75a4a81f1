"""A key that may write and not read learns nothing from a write: no answer has a stored text that it did not send."""

from collections.abc import Iterator
from typing import Any, get_args

import httpx
import pytest
from fastapi.routing import APIRoute
from mnema_wire.bases import Stored
from pydantic import BaseModel

from app.api.deps import RequireScope
from app.api.main import ROUTERS
from app.api.schemas.stored import withhold_contents
from app.api.transport.signature import signature_of
from app.bootstrap import Application
from tests.api.calls import remember
from tests.factories import Caller, make_caller

SECRET = "Maya keeps a spare key under the zebrafish tank."
TAG = "zebrafish"
OWN = {
    "Written": "ids and counts",
    "Turn": "ids and counts",
    "MemoryActions": "counts",
    "StoredFacts": "facts are Stored",
    "StoredProjectFact": "an id and counts",
    "IndexedMessage": "ids and counts",
    "FingerprintOut": "what the request has",
    "StoredTurnOut": "ids and times",
    "DeletedTurnOut": "a count",
    "FeedbackOut": "what the request has",
    "GateFeedbackOut": "what the request has, and ids with scores",
    "CandidateOut": "ids with scores",
    "IndexJob": "counts and codes",
    "UploadedFile": "the file is Stored",
    "StateOut": "ids and times",
    "CheckpointCountOut": "a count",
    "Mem0AddedOut": "the results are Stored",
    "Mem0MessageOut": "a sentence without texts",
    "BatchDone": "the sample is Stored",
    "LeftMemory": "ids and codes",
    "Corrected": "ids and a state",
    "Forgotten": "the memories are Stored",
}
"""The parts of answers to writes that have no stored contents, with the reason."""


@pytest.fixture
async def writer(app: Application, caller: Caller, server: str) -> Any:
    """Return a client whose key may write alone."""
    key = await make_caller(app, ["write"], tenant=caller)
    async with key.client(server) as client:
        yield client


async def test_no_change_of_a_memory_tells_its_text(http: httpx.AsyncClient, writer: httpx.AsyncClient) -> None:
    memory = await remember(http, SECRET, tags=[TAG], metadata={TAG: TAG})
    path = f"/memory/{memory['id']}"
    filters = {"user_id": "maya"}
    answers = [
        await writer.patch(path, json={}),
        await writer.patch(path, json={"importance": 2}),
        await writer.post(f"{path}/pin", json={"pinned": False}),
        await writer.post(f"{path}/pin"),
        await writer.post("/memory/batches", json={"filters": filters, "action": "delete", "dry_run": True}),
        await writer.post("/memory/batches", json={"filters": filters, "action": "edit", "set": {"importance": 4}}),
        await writer.put(f"/v1/memories/{memory['id']}/", json={"metadata": {"a": 1}}),
        await writer.delete(path),
        await writer.post(f"{path}/restore"),
    ]
    for answer in answers:
        assert answer.status_code in {200, 422}, answer.text
        assert TAG not in answer.text
        assert "maya" not in answer.text.lower()
    assert answers[-1].json()["id"] == memory["id"]
    assert answers[-1].json()["withheld"] is True
    assert "withheld" not in (await http.get(path)).text


async def test_no_change_of_a_fact_tells_its_value(http: httpx.AsyncClient, writer: httpx.AsyncClient) -> None:
    told = {"user_id": "maya", "facts": [{"topic_key": "favorite_fish", "rank": 1, "value": TAG}]}
    fact = (await http.post("/facts", json=told)).json()["facts"][0]
    for answer in (
        await writer.patch(f"/facts/{fact['id']}", json={"value": "carp"}),
        await writer.delete(f"/facts/{fact['id']}"),
    ):
        assert answer.status_code == 200, answer.text
        assert answer.json()["id"] == fact["id"]
        assert not {TAG, "carp"} & set(answer.json().values())


def models_in(model: Any) -> Iterator[type[BaseModel]]:
    """Yield a model and those of its fields; what a Stored one has is withheld with it."""
    if isinstance(model, type) and issubclass(model, BaseModel):
        yield model
        if not issubclass(model, Stored):
            for field in model.model_fields.values():
                yield from models_in(field.annotation)
    for part in get_args(model):
        yield from models_in(part)


def test_every_part_of_an_answer_to_a_write_is_stored_or_the_writers_own() -> None:
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    needs = [(route, signature_of(route.endpoint).dependencies.values()) for route in routes]
    writes = [
        route
        for route, calls in needs
        if any(isinstance(call, RequireScope) and call.scope_name == "write" for call in calls)
    ]
    assert len(writes) > 25
    found = {model for route in writes for model in models_in(route.response_model)}
    assert sorted(model.__name__ for model in found if not issubclass(model, Stored)) == sorted(OWN)


def every_stored(model: type[Stored] = Stored) -> Iterator[type[Stored]]:
    for child in model.__subclasses__():
        yield child
        yield from every_stored(child)


@pytest.mark.parametrize("model", list(every_stored()), ids=lambda model: model.__name__)
def test_what_is_withheld_is_empty(model: type[Stored]) -> None:
    filled = model.model_construct(**dict.fromkeys(model.model_fields, SECRET))
    hidden = withhold_contents(filled)
    assert hidden.withheld
    for name in model.model_fields.keys() - model.told - {"withheld"}:
        assert not getattr(hidden, name)
