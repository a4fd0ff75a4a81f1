"""`mnema import` from HTTP APIs: loopback servers of the documented shape, imported into the shared server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import pytest
from mnema_cli.imports.readers import Origin, Product, open_reader
from mnema_cli.imports.records import Choices, Found, Write

from tests.cli.imports.conftest import Stored
from tests.cli.imports.products import KEY, Graphiti, Honcho, Zep
from tests.cli.imports.products import Product as Served
from tests.cli.in_process import mnema
from tests.loopback import loopback

KEYS = {f"{name}_API_KEY": KEY for name in ("ZEP", "HONCHO", "GRAPHITI")}


@pytest.fixture
async def serve() -> AsyncIterator[Any]:
    """Return a function that serves a product and returns its address."""
    async with AsyncExitStack() as stack:

        async def start(product: Served) -> str:
            return await stack.enter_async_context(loopback(product.routes(), asyncio.Event()))

        yield start


def facts(found: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Return user, category, time and own metadata of each memory that is no turn."""
    return {
        each["text"]: (each["user_id"], each["category"], each["created_at"], each["metadata"])
        for each in found
        if each["type"] != "turn"
    }


def spoken(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return user, thread, role, speaker and text of each turn."""
    names = ("user_id", "thread_id", "role", "actor_id", "text")
    return [tuple(each[name] for name in names) for each in found if each["type"] == "turn"]


@pytest.mark.long
async def test_zep_threads_become_turns_and_facts_memories(env: dict[str, Any], stored: Stored, serve: Any) -> None:
    zep = Zep()
    url = await serve(zep)
    dry = await mnema("import", url, "--from", "zep", "--dry-run", **env, **KEYS)
    assert (await stored(), dry.exit_code) == ([], 1)
    done = await mnema("import", url, "--from", "zep", "--map-category", "LIVES_IN=profile", **env, **KEYS)
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        f"4 turns and 2 memories stored from {url}, 0 already imported, 2 left out, 5 failed",
        "  categories: activity 4, preferences 1, profile 1",
        "  left out: 1 × facts that are no longer true",
        "  left out: 1 × messages of the role tool",
        "  failed: thread trip, message m-5: missing text",
        "  failed: thread trip, item 2: not a JSON object",
        "  failed: thread lost: threads/t-3/messages: 404 Not Found",
        "  failed: users: a user without uuid",
        done.stdout.splitlines()[8],
        "  note: not read: graphs that belong to no user, summaries, observations, and text and JSON episodes",
    ]
    assert "facts of user ana, fact e-4: 422 text_too_long: " in done.stdout
    assert "4 turns and 2 memories would be stored" in dry.stdout
    assert "facts of user ana, fact e-4: text_too_long: " in dry.stdout
    found = await stored()
    assert spoken(found) == [
        ("ana", "trip", "user", "Ana", "I would like a window seat."),
        ("ana", "trip", "assistant", None, "Noted."),
        ("ana", "trip", "user", None, "Thanks."),
        ("ana", "t-2", "user", None, "And a quiet coach."),
    ]
    assert found[0]["created_at"] == "2025-03-01T01:00:00Z"
    assert found[0]["metadata"] == {"imported_from": "zep", "id": "m-1", "channel": "phone"}
    about = {"imported_from": "zep", "source_node": "Ana", "target_node": "seat"}
    assert {each["text"]: (each["valid_from"], each["valid_to"]) for each in found if each["type"] != "turn"} == {
        "Ana prefers window seats.": ("2025-03-01T00:00:00Z", None),
        "Ana lives in Porto.": ("2025-03-01T00:00:00Z", "2025-04-01T00:00:00Z"),
    }
    at = "2025-03-05T00:00:00Z"
    assert facts(found) == {
        "Ana prefers window seats.": ("ana", "preferences", at, about | {"id": "e-1", "relation": "PREFERENCES"}),
        "Ana lives in Porto.": ("ana", "profile", at, about | {"id": "e-2", "relation": "LIVES_IN"}),
    }
    again = await mnema("import", url, "--from", "zep", "--map-category", "LIVES_IN=profile", **env, **KEYS)
    assert f"nothing stored from {url}, 6 already imported, 2 left out, 5 failed" in again.stdout
    moved = await mnema("import", url, "--from", "zep", "--restart", "--trim", **env, **KEYS)
    assert f"4 turns and 2 memories stored from {url}, 0 already" in moved.stdout
    assert "fact e-2: was imported before with another text or with other options; it stays as it was" in moved.stdout
    texts = [each["text"] for each in await stored()]
    assert len(texts) == len(set(texts)) == 7
    assert KEY not in dry.output + done.output + again.output + moved.output


async def test_honcho_sessions_become_turns_and_conclusions_memories(
    env: dict[str, Any], stored: Stored, serve: Any
) -> None:
    url = await serve(Honcho())
    command = ("import", url, "--from", "honcho", "--workspace", "desk", "--assistant", "helper")
    done = await mnema(*command, "--category", "knowledge", **env, **KEYS)
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        f"5 turns and 2 memories stored from {url}, 0 already imported, 2 left out, 3 failed",
        "  categories: activity 5, knowledge 2",
        "  without a category that Mnema knows: 2; they get knowledge (see --category and --map-category)",
        "  left out: 1 × conclusions about an assistant",
        "  left out: 1 × conclusions that only note a contradiction",
        "  failed: session both, message m6: missing text",
        "  failed: session gone: v3/workspaces/desk/sessions/gone/peers: 404 Not Found",
        "  failed: conclusion c0: missing user; name the user with --user",
        "  note: not read: summaries, peer cards and representations, which Honcho derives from messages",
    ]
    found = await stored()
    assert spoken(found) == [
        ("ana", "trip", "assistant", "bot", "How can I help?"),
        ("ana", "trip", "user", "ana", "A window seat, please."),
        ("ana", "trip", "assistant", "bot", "Done."),
        ("ben", "both", "user", "ben", "Ben here."),
        ("ben", "both", "assistant", "helper", "Hello Ben."),
    ]
    about = {"imported_from": "honcho", "observer": "bot"}
    assert facts(found) == {
        "Ana prefers window seats.": (
            *("ana", "knowledge", "2025-03-04T00:00:00Z"),
            about | {"id": "c1", "level": "explicit"},
        ),
        "Ben travels with Ana.": (
            *("ben", "knowledge", "2025-03-04T00:00:00Z"),
            about | {"id": "c4", "level": "deductive"},
        ),
    }


async def test_graphiti_messages_become_turns_and_their_facts_memories(
    env: dict[str, Any], stored: Stored, serve: Any
) -> None:
    graphiti = Graphiti()
    url = await serve(graphiti)
    done = await mnema("import", url, "--from", "graphiti", "--group", "ana", "--last", "4", **env, **KEYS)
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        f"2 turns and 1 memory stored from {url}, 0 already imported, 2 left out, 2 failed",
        "  categories: activity 2, preferences 1",
        "  left out: 1 × episodes that are no messages",
        "  left out: 1 × facts that are no longer true",
        "  failed: group ana, episode p-4: the content is not `name(role): text`",
        "  failed: group ana, fact e-9: entity-edge/e-9: 404 Not Found",
        "  note: group ana has at least 4 episodes; older ones are not read unless --last is higher",
    ]
    found = await stored()
    assert spoken(found) == [
        ("ana", "ana", "user", "Ana", "I would like\na window seat."),
        ("ana", "ana", "assistant", "bot", "Noted."),
    ]
    assert facts(found)["Ana prefers window seats."][:2] == ("ana", "preferences")
    assert graphiti.asked.count("GET /entity-edge/e-1") == 1
    nothing = await mnema("import", url, "--from", "graphiti", **env, **KEYS)
    assert (nothing.exit_code, "name the groups to read with --group" in nothing.stderr) == (1, True)


@pytest.mark.long
async def test_a_busy_api_is_asked_again_and_a_failing_one_stops_the_import(
    env: dict[str, Any], stored: Stored, serve: Any
) -> None:
    zep = Zep()
    url = await serve(zep)
    zep.lists["/threads?u-1"][2]["thread_id"] = "lo\x1b[2Jst"  # it would clear a terminal
    zep.failing = {"/users/list": [503, 429], "/graphs/u-1/edges/list": [402]}
    stopped = await mnema("import", url, "--from", "zep", **env, **KEYS)
    assert stopped.exit_code == 1
    assert "4 turns stored" in stopped.stdout
    assert "failed: thread lo\\x1b[2Jst: threads/t-3/messages: 404" in stopped.stdout
    assert "stopped: 127.0.0.1: graphs/u-1/edges/list: 402 Payment Required; run the same" in stopped.stderr
    assert zep.asked.count("POST /users/list") == 3
    more = await mnema("import", url, "--from", "zep", **env, **KEYS)
    assert "2 memories stored" in more.stdout
    assert "4 already imported" in more.stdout
    assert len(await stored()) == 6


async def test_a_person_at_a_terminal_is_asked_for_the_key(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def prompt(text: str, *, hide_input: bool) -> str:
        asked.append((text, hide_input))
        return f" {KEY}\n"

    url = await serve(Zep())
    monkeypatch.delenv("ZEP_API_KEY", raising=False)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.prompt", prompt)
    choices = Choices("zep", (), "activity", "activity")

    def read_first() -> Found:
        with ExitStack() as stack:
            return next(open_reader(Origin(Product.zep, url), choices, stack))

    first = await asyncio.to_thread(read_first)
    assert isinstance(first, Write)
    assert asked == [("API key of zep", True)]


@pytest.mark.long
async def test_the_key_comes_from_the_environment_and_is_never_shown(env: dict[str, Any], serve: Any) -> None:
    url = await serve(Zep())
    for settings, said in [
        ({}, "set ZEP_API_KEY to the API key of zep"),
        ({"ZEP_API_KEY": "wrong-secret"}, "users/list: 401 Unauthorized; check the key, then run the same command"),
        ({"ZEP_API_KEY": "sécret"}, "ZEP_API_KEY has characters that no key has"),
    ]:
        done = await mnema("import", url, "--from", "zep", **env, **({"ZEP_API_KEY": ""} | settings))
        assert (done.exit_code, said in done.stderr) == (1, True), done.output
        assert "secret" not in done.output.replace("ZEP_API_KEY", "")
    for address in ("ftp://127.0.0.1/", f"http://name:{KEY}@127.0.0.1:9", f"http://127.0.0.1:9/?key={KEY}"):
        done = await mnema("import", address, "--from", "zep", **env, **KEYS)
        assert (done.exit_code, "the address must be http:// or https://" in done.stderr) == (1, True), done.output
