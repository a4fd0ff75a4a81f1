"""`mnema changes` and `mnema webhook`: what they print, and how they end when something is wrong."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from app.bootstrap import Application
from app.domain.principal import Principal
from tests.api.calls import remember
from tests.cli.in_process import mnema
from tests.factories import Caller
from tests.receivers import open_receiver

NOBODY = "01a22447-0000-7000-8000-000000000000"
POLLS = 200


@pytest.fixture
def env(server: str, caller: Caller, tmp_path: Path) -> dict[str, Any]:
    """Return the environment of a shell with the server's address."""
    return {"MNEMA_URL": server, "MNEMA_API_KEY": caller.key, "MNEMA_HOME": tmp_path}


@pytest.fixture
async def http(server: str, caller: Caller) -> AsyncIterator[httpx.AsyncClient]:
    """Return an HTTP client with an admin key."""
    async with caller.client(server) as client:
        yield client


async def run(env: dict[str, Any], *args: str) -> str:
    """Return what a command prints. It must succeed."""
    done = await mnema(*args, **env)
    assert done.exit_code == 0, done.output
    return done.stdout


async def read_changes(env: dict[str, Any], count: int, *args: str) -> list[dict[str, Any]]:
    """Return the changes, once there are `count`: a transaction of another test may hide them for a moment."""
    for _poll in range(POLLS):
        lines = (await run(env, "changes", "--after", "start", "--json", *args)).splitlines()
        if len(lines) >= count:
            return [json.loads(line) for line in lines]
        await asyncio.sleep(0.05)
    raise AssertionError(f"{len(lines)} of {count} changes")


async def serve_until(app: Application, caller: Caller, http: httpx.AsyncClient, webhook: str, state: str) -> None:
    """Serve the webhook as a worker does, until a delivery has this state."""
    principal = Principal(caller.scope.tenant_id)
    for _poll in range(POLLS):
        async with app.parts.uow.write(principal) as tx:
            await tx.execute("UPDATE webhooks SET due_at = now() WHERE tenant_id = $1", principal.tenant_id)
            await tx.execute(
                "UPDATE webhook_deliveries SET next_attempt = now() WHERE tenant_id = $1", principal.tenant_id
            )
        await app.webhooks.deliver.serve_webhook(principal, UUID(webhook))
        if (await http.get(f"/webhooks/{webhook}/deliveries", params={"state": state})).json()["items"]:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"no delivery is {state}")


async def test_changes_are_printed_from_an_event_on(env: dict[str, Any], http: httpx.AsyncClient) -> None:
    tea = (await remember(http, "Maya likes [bold]tea[/bold].", user_id="maya"))["id"]
    await remember(http, "Ben paints.", user_id="ben")
    first, second = await read_changes(env, 2)
    assert (first["event"], first["memory_id"], first["memory"], second["user_id"]) == ("ADD", tea, None, "ben")
    rest = await mnema("changes", "--after", first["id"], "--memory", **env)
    assert rest.stdout.startswith(second["time"])
    assert rest.stdout.endswith("  ben  Ben paints.\n")
    assert rest.stderr == f"next: --after {second['id']}\n"
    assert "Maya likes [bold]tea[/bold]." in await run(
        env, "changes", "--after", "start", "--user", "maya", "--memory", "--limit", "1"
    )
    assert await run(env, "changes") == ""


@pytest.mark.long  # a process of its own, because nothing else ends it
async def test_changes_are_followed_from_an_event_on(env: dict[str, Any], http: httpx.AsyncClient) -> None:
    await remember(http, "Maya likes tea.", user_id="maya")
    await remember(http, "Ben paints.", user_id="ben")
    first, second = await read_changes(env, 2)
    settings = os.environ | {name: str(value) for name, value in env.items()}
    command = ("-m", "mnema_cli", "changes", "--follow", "--json", "--after", first["id"])
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, env=settings, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        assert json.loads(await process.stdout.readline()) == second
    finally:
        process.kill()
        await process.wait()


async def test_a_wrong_place_ends_changes(env: dict[str, Any]) -> None:
    for way in ((), ("--follow",)):
        wrong = await mnema("changes", "--after", "nonsense", *way, **env)
        assert (wrong.exit_code, "422" in wrong.stderr, wrong.stdout) == (1, True, "")


async def test_a_webhook_is_added_changed_and_deleted(env: dict[str, Any]) -> None:
    url = "http://127.0.0.1:9/hook"
    added = json.loads(
        await run(env, "webhook", "add", url, "--event", "ADD", "--category", "tasks", "--user", "maya", "--json")
    )
    assert (added["events"], added["categories"], added["user_id"]) == (["ADD"], ["tasks"], "maya")
    told = await run(env, "webhook", "rotate", added["id"])
    assert f"id      {added['id']}\n" in told
    assert added["secret"] not in told
    assert "secret  whsec_" in told
    assert "state   disabled (by hand)\n" in await run(env, "webhook", "change", added["id"], "--disable")
    changed = json.loads(await run(env, "webhook", "change", added["id"], "--enable", "--url", f"{url}s", "--json"))
    assert (changed["enabled"], changed["url"]) == (True, f"{url}s")
    conditions = ("--where", '{"pinned": true}')
    chosen = json.loads(await run(env, "webhook", "change", added["id"], *conditions, "--json"))
    assert (chosen["where"], chosen["user_id"]) == ({"pinned": True}, "maya")
    both = await mnema("webhook", "change", added["id"], *conditions, "--any-memory", **env)
    assert (both.exit_code, "exclude each other" in both.stderr) == (2, True)
    assert json.loads(await run(env, "webhook", "change", added["id"], "--any-memory", "--json"))["where"] is None
    [listed] = json.loads(await run(env, "webhook", "list", "--json"))["items"]
    assert (listed["id"], "secret" in listed) == (added["id"], False)
    assert await run(env, "webhook", "delete", added["id"]) == "deleted\n"
    assert added["id"] not in await run(env, "webhook", "list")


async def test_a_test_message_is_sent_and_a_refusal_is_told(env: dict[str, Any]) -> None:
    async with open_receiver(204, 500) as receiver:
        webhook = json.loads(await run(env, "webhook", "add", receiver.url, "--json"))["id"]
        assert "taken: status 204, " in await run(env, "webhook", "test", webhook)
        failed = await mnema("webhook", "test", webhook, **env)
        assert (failed.exit_code, "status 500" in failed.stderr) == (1, True)


async def test_deliveries_are_shown_and_sent_again(
    env: dict[str, Any], app: Application, caller: Caller, http: httpx.AsyncClient
) -> None:
    async with open_receiver(410, 204) as receiver:
        webhook = (await http.post("/webhooks", json={"url": receiver.url})).json()["id"]
        memory = (await remember(http, "Maya likes tea."))["id"]
        await serve_until(app, caller, http, webhook, "pending")
        assert memory in await run(env, "webhook", "deliveries", webhook)
        assert "disabled (gone)" in await run(env, "webhook", "list")
        await http.patch(f"/webhooks/{webhook}", json={"enabled": True})
        await serve_until(app, caller, http, webhook, "delivered")
        assert await run(env, "webhook", "replay", webhook) == "sent again: 0\n"
        [sent] = (await http.get(f"/webhooks/{webhook}/deliveries")).json()["items"]
        assert await run(env, "webhook", "replay", webhook, sent["id"]) == "sent again: 1\n"


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (("change", NOBODY), 2, "name at least one change"),
        (("change", NOBODY, "--disable"), 1, "404 not_found"),
        (("delete", NOBODY), 1, "404 not_found"),
        (("test", NOBODY), 1, "404 not_found"),
        (("replay", NOBODY), 1, "404 not_found"),
        (("deliveries", NOBODY, "--limit", "0"), 2, "--limit"),
        (("add", "ftp://127.0.0.1/hook"), 1, "422"),
        (("rotate", "nonsense"), 2, "UUID"),
    ],
)
async def test_a_wrong_command_about_a_webhook_says_what_is_wrong(
    env: dict[str, Any], args: tuple[str, ...], code: int, told: str
) -> None:
    done = await mnema("webhook", *args, **env)
    assert (done.exit_code, done.stdout) == (code, "")
    assert told in done.stderr
