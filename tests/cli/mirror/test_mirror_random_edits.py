"""Random edits of both sides of a mirror of a real server, over HTTP, with runs that are killed at any step."""

import asyncio
import itertools
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mnema_cli.mirror.adapters.files import PosixMirrorFiles
from mnema_cli.mirror.adapters.http import HttpMirrorStore, entry_of
from mnema_cli.mirror.rules.actions import Refuse
from mnema_cli.mirror.rules.entries import parse_file
from mnema_cli.mirror.rules.mass_deletion import MassDeletionPolicy
from mnema_cli.mirror.usecases.sync import Mirror, SyncReport, sync_mirror

from tests.cli.mirror.usecases.edited_world import EDIT, RUN, Fuse, Killed, World, parse_id, snapshot_files
from tests.effort import tries
from tests.factories import Caller

_users = itertools.count()
WORDS = ("amber", "boats", "cedar", "drums", "ember", "flint", "grain", "hazel", "ivory", "jolly", "knots", "lemon")
REVERTS = ("store_revert", "file_revert")
"""Edits that give two entries one text, which the server refuses for facts."""

ROUNDS = st.lists(
    st.tuples(st.lists(EDIT.filter(lambda edit: edit[0] not in REVERTS), min_size=1, max_size=4), RUN), max_size=5
)
KINDS: dict[str, dict[str, Any]] = {
    "user": {"type": "turn", "role": "user"},
    "assistant": {"type": "turn", "role": "assistant"},
    "memory": {"type": "semantic"},
    "summary": {"type": "summary"},
}


@dataclass
class ServerStore:
    """The server's side for a test: other agents that write, change and delete a user's memories."""

    http: httpx.Client
    user: str
    ids: list[str] = field(default_factory=list)

    @property
    def entries(self) -> dict[str, Any]:
        """All active entries, by id."""
        found: dict[str, Any] = {}
        cursor: str | None = None
        while True:
            params = {"user_id": self.user, "limit": 200} | ({"cursor": cursor} if cursor else {})
            page = self.http.get("/memory", params=params).raise_for_status().json()
            found |= {entry.id: entry for entry in map(entry_of, page["items"]) if entry}
            if (cursor := page["next_cursor"]) is None:
                return found

    def add(self, text: str, conversation_id: str, role: str) -> None:
        body = {"user_id": self.user, "category": "activity", "thread_id": conversation_id, "text": text} | KINDS[role]
        self.http.post("/memory", json=body).raise_for_status()

    def edit(self, entry_id: str, text: str) -> None:
        self.http.patch(f"/memory/{entry_id}", json={"text": text}).raise_for_status()

    def drop(self, entry_id: str) -> None:
        self.http.delete(f"/memory/{entry_id}").raise_for_status()


@dataclass
class ServerWorld(World):
    """Both sides, with texts that the server stores as they are and never joins."""

    def new_text(self) -> str:
        self.texts += 1
        number, letters = self.texts, []
        while number:
            number, letter = divmod(number, len(WORDS))
            letters.append(WORDS[letter])
        return f"The {' '.join(letters)} of Maya."

    def sync(self, fuse: Fuse) -> SyncReport | None:
        store: Any = self.store
        mirrored = HttpMirrorStore(store.http, store.user, "activity", lambda _seconds: None)
        with PosixMirrorFiles(str(self.root)) as files, suppress(Killed):
            policy = MassDeletionPolicy()
            owner = mirrored.read_owner()
            return sync_mirror(Mirror(fuse.guard(files), fuse.guard(mirrored), owner, policy))
        return None


def assert_in_step(world: ServerWorld) -> None:
    before, entries = snapshot_files(world.root), world.store.entries
    report = world.sync(Fuse(None))
    assert report is not None
    assert [outcome for outcome in report.outcomes if not isinstance(outcome.action, Refuse)] == []
    assert (world.store.entries, snapshot_files(world.root)) == (entries, before)
    refused = {outcome.action.path for outcome in report.outcomes}
    accepted = [path for path in world.files() if path.relative_to(world.root).as_posix() not in refused]
    mirrored = {parse_file(path.read_bytes()).id: world.text_of(path) for path in accepted}
    hidden = {parse_id(path) for path in world.files()} - mirrored.keys()
    assert mirrored == {e.id: e.text for e in entries.values() if e.id not in hidden}


@pytest.mark.long
async def test_both_sides_converge_and_no_text_is_lost(server: str, caller: Caller) -> None:
    with httpx.Client(base_url=server, headers=caller.headers, timeout=60) as http:

        @settings(max_examples=tries(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(ROUNDS)
        def run_rounds(rounds: list[tuple[list[tuple[str, int]], Fuse]]) -> None:
            with tempfile.TemporaryDirectory(prefix="mnema-mirror-") as folder:
                store: Any = ServerStore(http, f"user {next(_users)}")
                world = ServerWorld(Path(folder), store)
                for edits, fuse in [([("store_add", 0), ("store_add", 2)], Fuse(None)), *rounds, ([], Fuse(None))]:
                    for name, number in edits:
                        world.act(name, number)
                    world.sync(replace(fuse))
                    assert world.live <= world.texts_now()
                    world.note_agreement()
                assert_in_step(world)

        await asyncio.to_thread(run_rounds)
