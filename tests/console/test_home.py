"""The first page."""

import pytest
from mnema_client import AsyncMnema
from nicegui.testing import User

from console.words import CHECKS
from tests.console.people import sees


async def test_it_shows_health_recent_memories_and_operations(person: User, memory: AsyncMnema) -> None:
    await memory.remember("Maya drinks oat milk.", user_id="maya", category="preferences")
    await person.open("/")
    await sees(person, "Maya drinks oat milk.")
    await sees(person, "Degraded")  # the test has no broker
    await sees(person, "Message broker (Redis)")
    await sees(person, "no broker configured, background jobs wait: set MNEMA_REDIS_URL")
    await sees(person, "None is configured. Work that needs one is not done.")
    await person.should_not_see("none: this environment")  # that is no failure
    assert set((await memory.ready()).checks) <= CHECKS.keys(), "each check has a plain name"
    await sees(person, "Write")
    await sees(person, "No jobs yet")


async def test_it_counts_memories_and_shows_the_last_changed_first(person: User, memory: AsyncMnema) -> None:
    songs = ["Dawn", "Ember", "Fjord", "Grove", "Harbor", "Inlet", "Juniper", "Kestrel", "Lagoon", "Meadow", "Nettle"]
    texts = [f"Maya likes the song {song}." for song in songs]
    written = [await memory.remember(text, user_id="maya", category="preferences") for text in texts]
    await memory.remember("Maya plans a tour.", user_id="maya", category="tasks")
    assert written[0].id is not None
    await memory.edit(written[0].id, text="Maya sold a guitar.")
    await person.open("/")
    await sees(person, "12 active memories")
    await sees(person, "tasks")
    await sees(person, "Maya sold a guitar.")
    await sees(person, "Maya likes the song Nettle.")
    await person.should_not_see("Maya likes the song Ember.")  # ten are shown


@pytest.mark.long
async def test_an_empty_tenant_is_told_how_to_begin(person: User) -> None:
    await person.open("/")
    await sees(person, "No memories yet")
    await sees(person, "POST /memory")
