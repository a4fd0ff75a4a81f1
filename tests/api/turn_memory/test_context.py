"""Views and assistant signals over HTTP: the golden files, the limits, and the choice of turns."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from app.bootstrap import Application
from app.domain.turn_memory.active_set import ActiveSet
from app.domain.turn_memory.artifacts import ArtifactChange, ArtifactKind, Conversation
from app.domain.turn_memory.fingerprint import read_fingerprint
from app.storage.turn_memory.artifacts import ArtifactStorage
from tests import twenty_turns
from tests.api.calls import refused
from tests.factories import Caller, Clock, make_caller
from tests.twenty_turns import CURRENT, DIAGRAM, NOW, TRAVEL

pytestmark = pytest.mark.usefixtures("own")
GOLDEN = Path(__file__).parents[2] / "domain" / "turn_memory" / "golden"
VIEWS = ("gate", "reconciler", "downstream", "final")


class FixedClock(Clock):
    """A clock that stands still."""

    def __init__(self) -> None:
        super().__init__()
        self.at = NOW

    def now(self) -> Any:
        """Return the same time."""
        return self.at


@pytest.fixture
def clock() -> FixedClock:
    """Return a clock that stands still at the time of the golden files."""
    return FixedClock()


class Shelf:
    """A writer of artifacts of a tenant."""

    def __init__(self, app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
        self._artifacts = ArtifactStorage(app.parts.uow)
        self._scope = caller.scope
        self._sql = sql

    async def store(self, place: Conversation, changes: Sequence[ArtifactChange]) -> None:
        """Store artifacts; their blobs are in the ledger, and have no content."""
        enter = "INSERT INTO blobs (tenant_id, user_id, uri) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
        uris = [change.hosted_uri for change in changes if change.hosted_uri]
        await self._sql.executemany(enter, [(self._scope.tenant_id, place.user_id, uri) for uri in uris])
        await self._artifacts.put_artifacts(self._scope, place, changes)

    async def store_turns(self, place: Conversation, *minutes: int, **fields: Any) -> None:
        """Store fingerprints of turns that were made so many minutes ago, named by them."""
        raw = {"assistant_signals": [{"key": "offer", "value": "x"}]} | fields
        made = [(f"m{ago:04d}", NOW - timedelta(minutes=ago)) for ago in minutes]
        await self.store(
            place, [twenty_turns.fingerprint_change(read_fingerprint(name, made_at, raw)) for name, made_at in made]
        )


@pytest.fixture
def shelf(app: Application, caller: Caller, sql: asyncpg.Connection) -> Shelf:
    """Return a writer of the caller's artifacts."""
    return Shelf(app, caller, sql)


async def read_view(http: httpx.AsyncClient, view: str, place: Conversation = DIAGRAM, **params: Any) -> Any:
    """Return a view of a conversation."""
    params = {"user_id": place.user_id, "view": view} | params
    answer = await http.get(f"/conversations/{place.conversation_id}/context", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def read_turns(http: httpx.AsyncClient, view: str, header: str, **params: Any) -> list[str]:
    """Return the turns of one block, in their order."""
    blocks = (await read_view(http, view, **params))["blocks"]
    [text] = [block["text"] for block in blocks if block["header"].startswith(f"[{header}")]
    lines = [line.removeprefix("- ").removeprefix("turn_id=") for line in text.split("\n") if line.startswith("- ")]
    return [line.split()[0] for line in lines]


@pytest.mark.long
@pytest.mark.parametrize("reconciled", [False, True], ids=["before", "after"])
async def test_the_views_of_20_turns_are_the_golden_files(
    http: httpx.AsyncClient, shelf: Shelf, reconciled: bool
) -> None:
    await shelf.store(DIAGRAM, twenty_turns.list_changes(reconciled=reconciled))
    await shelf.store(TRAVEL, twenty_turns.list_travel())
    await shelf.store(DIAGRAM._replace(user_id="ben"), twenty_turns.list_travel())
    for view in VIEWS:
        golden = (GOLDEN / f"{view}_{'after' if reconciled else 'before'}.txt").read_text(encoding="utf-8")
        answer = await read_view(http, view, turn_id=CURRENT)
        assert answer["text"] == golden
        assert answer["view"] == view
        assert "\n\n".join(block["text"] for block in answer["blocks"]) == golden
        assert [block["header"] for block in answer["blocks"]] == [
            block["text"].split("\n")[0] for block in answer["blocks"]
        ]


@pytest.mark.long
async def test_the_window_has_the_newest_turns_and_those_not_reconciled(http: httpx.AsyncClient, shelf: Shelf) -> None:
    await shelf.store_turns(DIAGRAM, *range(1, 31))
    memories = "TURN MEMORIES"
    assert await read_turns(http, "gate", memories) == [f"m{ago:04d}" for ago in range(1, 11)]
    for ago, shown in ((13, 12), (5, 10), (25, 16)):
        reconciled = ActiveSet((), None, NOW - timedelta(minutes=ago))
        await shelf.store(DIAGRAM, [twenty_turns.active_set_change(reconciled)])
        for view in VIEWS:
            assert await read_turns(http, view, memories) == [f"m{ago:04d}" for ago in range(1, shown + 1)]


@pytest.mark.long
async def test_a_selected_turn_is_named_by_a_unique_beginning(http: httpx.AsyncClient, shelf: Shelf) -> None:
    await shelf.store_turns(DIAGRAM, *range(1, 40), 200, 201, 3000, 3100)
    chosen = replace(ActiveSet(), selected_local_memories_turn_ids=("m0201", "m30", "m020", "m31x"))
    await shelf.store(DIAGRAM, [twenty_turns.active_set_change(chosen)])
    memories = "TURN MEMORIES"
    assert await read_turns(http, "downstream", memories) == ["m0201", "m3000"]
    assert (await read_turns(http, "gate", memories))[10:] == ["m0201", "m3000"]
    for named, shown in (
        (["m31"], ["m3100"]),
        (["m3"], []),
        ([""], []),
        (["%"], []),
        (["m0005", "m30"], ["m0005", "m3000"]),
    ):
        assert await read_turns(http, "final", memories, local_memories_turn_ids=named) == shown
    many = [f"m{ago:04d}" for ago in range(1, 9)]
    assert await read_turns(http, "downstream", memories, local_memories_turn_ids=many) == many[:5]
    assert await read_turns(http, "downstream", memories, turn_id="m0030") == ["m0030", "m0201", "m3000"]


async def test_an_old_turn_still_makes_a_beginning_ambiguous(http: httpx.AsyncClient, shelf: Shelf) -> None:
    year = 366 * 24 * 60
    await shelf.store_turns(DIAGRAM, year, year + 1, 5270)
    assert str(year).startswith("5270")
    memories = "TURN MEMORIES"
    assert await read_turns(http, "downstream", memories) == ["m5270"]
    for named in ("m527", f"m{year}"):
        assert await read_turns(http, "downstream", memories, local_memories_turn_ids=[named]) == []


@pytest.mark.long
async def test_the_limits_of_prior_turns_feedback_and_signals(
    http: httpx.AsyncClient, shelf: Shelf, app: Application
) -> None:
    policy = app.parts.policies.defaults.turn_memory
    await shelf.store(DIAGRAM, twenty_turns.list_changes(reconciled=True))
    prior = await read_turns(http, "gate", "PRIOR TURNS", turn_id=CURRENT)
    assert prior == [f"turn_{number:02d}" for number in range(19, 19 - policy.last_turns, -1)]
    assert (await read_turns(http, "gate", "PRIOR TURNS"))[0] == CURRENT
    row = twenty_turns.list_changes(reconciled=True)[-2]
    assert row.kind is ArtifactKind.reaction
    rows = [replace(row, place=f"machine:{n}", made_at=NOW - timedelta(minutes=n)) for n in range(60)]
    await shelf.store(DIAGRAM, rows)
    assert len(await read_turns(http, "final", "USER FEEDBACK")) == policy.feedback_items == 50
    await shelf.store_turns(TRAVEL, *range(1, 31))
    signals = await read_turns(http, "final", "ASSISTANT SIGNALS")
    assert signals == [f"m{ago:04d}" for ago in range(1, policy.signal_turns + 1)]
    assert policy.signal_turns == 16


@pytest.mark.long
async def test_what_is_too_old_is_in_no_view(
    http: httpx.AsyncClient, shelf: Shelf, clock: FixedClock, app: Application
) -> None:
    await shelf.store(DIAGRAM, twenty_turns.list_changes(reconciled=True))
    clock.at = twenty_turns.make_turns()[-1][1].made_at + timedelta(days=app.parts.policies.defaults.turn_memory.days)
    assert "turn_20" in (await read_view(http, "final", turn_id=CURRENT))["text"]
    clock.at += timedelta(seconds=1)
    for view in VIEWS:
        text = (await read_view(http, view, turn_id=CURRENT))["text"]
        assert "turn_" not in text.replace(f"turn_id: {CURRENT}\n", "")
        assert text.count("(none)") == (3 if view == "final" else 4)


async def test_an_unknown_conversation_has_empty_blocks(http: httpx.AsyncClient) -> None:
    for view in VIEWS:
        blocks = (await read_view(http, view, Conversation("nobody", "no/such one")))["blocks"]
        assert all(block["text"].endswith("\n(none)") for block in blocks)


RAIL = {"key": "Product.Rail Pass"}
"""Another spelling of a signal's key, with the same tag."""


async def test_assistant_signals_are_listed_over_all_conversations(http: httpx.AsyncClient, shelf: Shelf) -> None:
    await shelf.store(DIAGRAM, twenty_turns.list_changes(reconciled=True))
    await shelf.store(TRAVEL, twenty_turns.list_travel())
    [empty] = [twenty_turns.fingerprint_change(read_fingerprint("bare", NOW, {}))]
    await shelf.store(TRAVEL, [replace(empty, tags=[*empty.tags, "assistant_signal"])])
    answer = await http.get("/users/maya/assistant-signals")
    assert answer.status_code == 200, answer.text
    items = answer.json()["items"]
    assert [(item["conversation_id"], item["turn_id"]) for item in items] == [
        *[("diagram", f"turn_{number:02d}") for number in (18, 12, 6)],
        ("travel", "trip_1"),
    ]
    assert items[-1]["assistant_signals"][0] == {
        **{"key": "product.rail_pass", "value": "Rail pass", "severity": "strong_promote"},
        **{"scope": "conversation", "applies_to": "Portugal"},
    }
    for params, shown in (({"days": 2}, ["turn_18"]), ({"limit": 3}, ["turn_18", "turn_12"]), (RAIL, ["trip_1"])):
        answer = await http.get("/users/maya/assistant-signals", params=params)
        assert [item["turn_id"] for item in answer.json()["items"]] == shown
    assert (await http.get("/users/ben/assistant-signals", params=RAIL)).json() == {"items": []}


@pytest.mark.long
@pytest.mark.parametrize(
    "params",
    [{"view": "all"}, {}, {"view": "gate", "turn_id": ""}, {"view": "gate", "local_memories_turn_ids": ["t"] * 17}],
    ids=str,
)
async def test_a_bad_request_for_a_view_is_refused(http: httpx.AsyncClient, params: dict[str, Any]) -> None:
    refused(await http.get("/conversations/talk/context", params={"user_id": "maya"} | params), 422, "invalid_request")


@pytest.mark.long
async def test_a_key_of_agents_needs_the_category_of_turn_memory(
    app: Application, server: str, caller: Caller, shelf: Shelf
) -> None:
    await shelf.store(DIAGRAM, twenty_turns.list_changes(reconciled=True))
    view = ("/conversations/diagram/context", {"user_id": "maya", "view": "final"})
    for agent, may in (("supervisor", True), ("planner", False)):
        bound = await make_caller(app, ["query"], [agent], tenant=caller)
        async with bound.client(server) as client:
            for path, params in (view, ("/users/maya/assistant-signals", {})):
                answer = await client.get(path, params=params)
                if may:
                    assert "PDF in 18 sizes" in answer.text
                else:
                    refused(answer, 403, "category_not_allowed")
