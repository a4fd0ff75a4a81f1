"""A reader of the pages: a tenant of a server, and what each page takes for granted."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from app.bootstrap import Application
from app.cli.tour import load_sample, run_tour
from app.embedded.home import Home
from tests.factories import Caller

OPERATOR_KEY = "operator-0123456789abcdef0123456789abcdef"


@dataclass
class Reader:
    """A reader with a key. `values` stand for texts of the pages, such as `$ID`, in calls of curl."""

    url: str
    app: Application
    caller: Caller
    home: Path
    values: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values |= {
            "$MNEMA_URL": self.url,
            "http://127.0.0.1:8000": self.url,
            "http://127.0.0.1:8001": self.url,
            "$MNEMA_API_KEY": self.caller.key,
            "mnema_…": self.caller.key,
            "acme": f"acme-{self.caller.scope.tenant_id}",
            "$TENANT_ID": str(self.caller.scope.tenant_id),
            "$(cat operator.key)": OPERATOR_KEY,
        }

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the reader's shell."""
        file = self.home / "operator.key"
        file.write_text(OPERATOR_KEY)
        named = {"MNEMA_URL": self.url, "MNEMA_API_KEY": self.caller.key, "MNEMA_OPERATOR_KEY_FILE": str(file)}
        return named | {"MNEMA_HOME": str(self.home)}

    def fill_in(self, text: str) -> str:
        """Return a text of a page with this reader's values."""
        for name, value in self.values.items():
            text = text.replace(name, value)
        return text

    async def post(self, path: str, **body: Any) -> dict[str, Any]:
        """Post this body; return the answer."""
        async with self.caller.client(self.url) as client:
            response = await client.post(path, json=body)
        assert response.status_code < 300, response.text
        found: dict[str, Any] = response.json()
        return found

    def take_tour(self) -> None:
        """Load the sample and take the tour of `make run`, in a thread of its own: the server runs in this one."""
        with httpx.Client(base_url=self.url, headers=self.caller.headers, timeout=60) as client:
            load_sample(client, Home(self.home))
            run_tour(client)


async def nothing(reader: Reader) -> None:
    """Take nothing for granted."""


async def take_tour(reader: Reader) -> None:
    """Do what `make run` does, and have the files that the README names."""
    await asyncio.to_thread(reader.take_tour)
    async with reader.caller.client(reader.url) as client:
        listed = await client.get("/memory", params={"user_id": "maya", "limit": 1})
    reader.values["ID"] = known = listed.json()["items"][0]["id"]
    turn = {"user_id": "maya", "thread_id": "launch", "role": "user", "content": "The lamp is ready."}
    (reader.home / "turns.jsonl").write_text(json.dumps(turn))
    memory = {"id": known, "memory": "Maya likes linen.", "user_id": "maya", "created_at": "2026-01-02T03:04:05Z"}
    (reader.home / "mem0.json").write_text(json.dumps({"results": [memory]}))
    (reader.home / "notes").mkdir()
    (reader.home / "notes" / "maya.md").write_text("- Maya likes linen.\n")
    (reader.home / "manuals").mkdir()
    (reader.home / "manuals" / "tap.md").write_text("# Tap\n\nTurn the tap to the left.\n")


async def remember_two_turns(reader: Reader) -> None:
    """Store what the search of docs/agents.md finds."""
    about = {"user_id": "maya", "thread_id": "launch"}
    due = "Maya wants the deployment checklist reviewed by Friday."
    await reader.post("/memory", **about, category="tasks", text=due)
    done = "The deployment checklist is done, apart from the rollback step."
    await reader.post("/turns", **about, seq=8, role="assistant", content=done)


async def ask_once(reader: Reader) -> None:
    """Leave a receipt; `$QUERY_ID` and `$ID` are the query and a memory of its answer."""
    reader.values["$ID"] = (await reader.post("/memory", user_id="maya", category="tasks", text="Maya deploys."))["id"]
    answer = await reader.post("/memory/query", agent="planner", query="deploys", filters={"user_id": "maya"})
    reader.values["$QUERY_ID"] = answer["query_id"]


async def change_a_drink(reader: Reader) -> None:
    """Change a memory; `$ID` is it, and `$THEN` a time before the change."""
    written = await reader.post("/memory", user_id="maya", category="preferences", text="Maya drinks green tea.")
    async with reader.caller.client(reader.url) as client:
        history = (await client.get(f"/memory/{written['id']}/history")).json()
        await client.patch(f"/memory/{written['id']}", json={"text": "Maya drinks black coffee."})
    reader.values |= {"$ID": written["id"], "$THEN": history["items"][0]["ts"]}


PREPARATIONS: Mapping[str, Callable[[Reader], Awaitable[None]]] = {
    "README.md": take_tour,
    "docs/agents.md": remember_two_turns,
    "docs/facts.md": nothing,
    "docs/receipts.md": ask_once,
    "docs/time.md": change_a_drink,
}
"""The state that each page with console blocks takes for granted."""
