"""`mnema list`, `get`, `edit`, `users`, `threads`, `categories` and `receipts`, and what becomes of a memory."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.processes import mnema
from tests.factories import Caller

REMEMBER = ("remember", "--user", "maya", "--category", "tasks", "--thread", "cafe")


@pytest.fixture
def env(server: str, caller: Caller, tmp_path: Path) -> dict[str, Any]:
    """Return the environment of a shell with the server's address."""
    return {"MNEMA_URL": server, "MNEMA_API_KEY": caller.key, "MNEMA_HOME": tmp_path}


async def run(env: dict[str, Any], *args: str) -> str:
    """Return what a command prints. It must succeed."""
    done = await mnema(*args, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
async def test_a_memory_is_shown_changed_forgotten_and_restored(env: dict[str, Any]) -> None:
    memory = (await run(env, *REMEMBER, "Maya likes [bold]tea[/bold].", "--tag", "drinks")).split()[1]
    shown = await run(env, "get", memory)
    assert "user        maya\n" in shown
    assert "text        Maya likes [bold]tea[/bold].\n" in shown
    changed = json.loads(
        await run(env, "edit", memory, "--text", "Maya likes coffee.", "--pin", "--importance", "5", "--json")
    )
    assert (changed["text"], changed["pinned"], changed["importance"]) == ("Maya likes coffee.", True, 5)
    assert (changed["tags"], changed["version"]) == (["drinks"], 2)
    late = await mnema("edit", memory, "--unpin", "--if-version", "1", **env)
    assert (late.returncode, "version_conflict" in late.stderr) == (1, True)
    assert f"{memory} is in the bin until 20" in await run(env, "forget", memory, "--yes")
    assert memory not in await run(env, "list")
    assert memory in await run(env, "list", "--state", "soft_deleted")
    assert "state       active\n" in await run(env, "restore", memory)
    assert await run(env, "forget", memory, "--purge", "--yes") == f"{memory} Maya likes coffee.\ndeleted for good\n"
    gone = await mnema("get", memory, **env)
    assert (gone.returncode, "404 not_found" in gone.stderr) == (1, True)


async def test_a_memory_is_ended_and_restored(env: dict[str, Any]) -> None:
    memory = (await run(env, *REMEMBER, "Maya lives in Porto.", "--valid-from", "2026-03-01")).split()[1]
    assert "state       superseded\n" in await run(env, "supersede", memory, "--valid-to", "2026-07-01")
    assert "true until" in await run(env, "get", memory)
    assert "state       retracted\n" in await run(env, "retract", memory)
    restored = json.loads(await run(env, "restore", memory, "--json"))
    assert (restored["state"], restored["valid_to"]) == ("active", None)
    opened = json.loads(await run(env, "edit", memory, "--valid-from", "open", "--json"))
    assert opened["valid_from"] is None


async def test_a_description_shows_what_would_go_and_asks(env: dict[str, Any]) -> None:
    tea = (await run(env, *REMEMBER, "Maya likes green tea.")).split()[1]
    described = ("forget", "--description", "green tea", "--user", "maya")
    asked = await mnema(*described, **env)
    assert (asked.returncode, "Maya likes green tea." in asked.stdout) == (1, True)
    assert f"{tea} is in the bin until 20" in await run(env, *described, "--yes")
    assert await run(env, *described, "--yes") == "no memory matches\n"
    for wrong in (("forget",), ("forget", tea, "--description", "tea"), ("forget", "--description", "tea")):
        assert (await mnema(*wrong, **env)).returncode == 2


async def test_a_correction_ends_the_stored_text_or_takes_it_back(env: dict[str, Any]) -> None:
    porto = (await run(env, *REMEMBER, "Maya lives in Porto.")).split()[1]
    told = (await run(env, "correct", porto, "Maya lives in Braga.", "--was", "superseded")).split()
    assert (told[0], told[2:]) == ("created", ["superseded", porto])
    wrong = json.loads(await run(env, "correct", told[1], "Maya lives in Faro.", "--was", "wrong", "--json"))
    assert (wrong["corrected_id"], wrong["state"]) == (told[1], "retracted")
    assert "Maya lives in Faro." in await run(env, "get", wrong["id"])


async def test_a_purge_asks_first_and_an_edit_needs_a_change(env: dict[str, Any]) -> None:
    memory = (await run(env, *REMEMBER, "Maya likes tea.")).split()[1]
    asked = await mnema("forget", memory, "--purge", **env)
    assert (asked.returncode, "cannot be undone" in asked.stdout + asked.stderr) == (1, True)
    assert memory in await run(env, "get", memory)
    empty = await mnema("edit", memory, **env)
    assert (empty.returncode, "name at least one change" in empty.stderr) == (2, True)


@pytest.mark.long
async def test_lists_filter_and_continue(env: dict[str, Any]) -> None:
    for number in range(3):
        await run(env, *REMEMBER, f"Task number {number} is to paint wall {number}.")
    await run(env, "remember", "--user", "ben", "--category", "preferences", "Ben likes green walls.")
    page = json.loads(await run(env, "list", "paint", "--user", "maya", "--limit", "2", "--json"))
    assert len(page["items"]) == 2
    rest = json.loads(
        await run(env, "list", "paint", "--user", "maya", "--limit", "2", "--cursor", page["next_cursor"], "--json")
    )
    assert [item["text"][:13] for item in page["items"] + rest["items"]] == [f"Task number {n}" for n in (2, 1, 0)]
    first = await mnema("list", "--limit", "1", **env)
    assert first.stderr.startswith("more: --cursor ")
    rows = [line.split() for line in (await run(env, "list", "--category", "preferences")).splitlines()]
    assert rows[0] == ["id", "user", "category", "type", "updated", "text"]
    assert [row[1] for row in rows[1:]] == ["ben"]
    assert rows[1][5].endswith("Z")
    assert len((await run(env, "list", "--language", "en")).splitlines()) == 5
    assert (await run(env, "list", "--language", "de")).splitlines()[1:] == []


@pytest.mark.long
async def test_receipts_tell_who_was_told(env: dict[str, Any]) -> None:
    await run(env, *REMEMBER, "Maya likes tea.")
    await run(env, "query", "what does Maya like?", "--agent", "planner", "--user", "maya")
    [head, row] = (await run(env, "receipts", "--agent", "planner")).splitlines()
    assert head.split() == ["query", "time", "via", "agent", "user", "thread", "memories", "tokens"]
    assert row.split()[3:6] == ["query", "planner", "maya"]
    [receipt] = json.loads(await run(env, "receipts", "--user", "maya", "--json"))["items"]
    assert (receipt["query_id"], receipt["memories"]) == (row.split()[0], 1)
    assert len((await run(env, "receipts", "--agent", "stylist")).splitlines()) == 1


@pytest.mark.long
async def test_users_threads_and_categories_are_counted(env: dict[str, Any]) -> None:
    await run(env, *REMEMBER, "Maya likes tea.")
    await run(env, "remember", "--user", "ben", "--category", "tasks", "Ben paints the wall.")
    users = [line.split()[:3] for line in (await run(env, "users")).splitlines()]
    assert users == [["user", "memories", "threads"], ["ben", "1", "0"], ["maya", "1", "1"]]
    threads = json.loads(await run(env, "threads", "--user", "maya", "--json"))["items"]
    assert [(one["thread_id"], one["user_ids"], one["memories"]) for one in threads] == [("cafe", ["maya"], 1)]
    categories = {line.split()[0]: line.split()[1] for line in (await run(env, "categories")).splitlines()}
    assert categories["tasks"] == "2"
