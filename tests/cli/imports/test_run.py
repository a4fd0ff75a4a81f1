"""Runs of `mnema import --from`: killed, repeated, with wrong options, and with a key that may only write."""

import asyncio
import csv
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from app.bootstrap import Application
from tests.acceptance.processes import DEADLINE_S, MNEMA, REPOSITORY, environment
from tests.cli.gate import Gate
from tests.cli.imports.conftest import Stored
from tests.cli.in_process import mnema
from tests.factories import Caller, make_caller

THREADS = 3
UNKNOWN = "unknown category 'nosuch'; the tenant has: activity, "


def write_turns(file: Path, total: int) -> Path:
    with file.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["id", "user_id", "thread_id", "role", "text"])
        rows.writerows([n, "ana", f"t{n % THREADS}", "user", f"Turn {n}."] for n in range(total))
    return file


def start(command: tuple[str, ...], env: dict[str, Any]) -> subprocess.Popen[bytes]:
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([*MNEMA, *command], cwd=REPOSITORY, env=environment(**env), **pipes)


@pytest.mark.long
async def test_a_killed_import_goes_on_and_stores_every_turn_once_in_order(
    env: dict[str, Any], stored: Stored, tmp_path: Path
) -> None:
    total = 200
    file = write_turns(tmp_path / "turns.csv", total)
    command = ("import", str(file), "--from", "csv", "--workers", str(THREADS))
    with start(command, env) as running:
        for _poll in range(DEADLINE_S * 20):
            if len(await stored()) >= 40:
                break
            await asyncio.sleep(0.05)
        running.send_signal(signal.SIGKILL)
        await asyncio.to_thread(running.wait, DEADLINE_S)
    before = len(await stored())
    assert 40 <= before < total
    done = await mnema(*command, **env)
    assert done.exit_code == 0, done.output
    sent, already = (int(part.split()[0]) for part in done.stdout.splitlines()[0].split(", ")[:2])
    assert 0 < already <= before
    assert sent + already == total
    restarted = await mnema(*command, "--restart", **env)  # the server's idempotency keys alone
    assert f"{total} turns stored from turns.csv, 0 already imported" in restarted.stdout
    found = await stored()
    assert Counter(each["text"] for each in found) == Counter(f"Turn {n}." for n in range(total))
    for thread in range(THREADS):
        ids = [each["metadata"]["id"] for each in sorted(found, key=lambda each: each["id"])]
        own = [int(number) for number in ids if int(number) % THREADS == thread]
        assert own == sorted(own)


async def test_a_server_that_goes_away_stops_the_import(
    env: dict[str, Any], server: str, stored: Stored, tmp_path: Path
) -> None:
    file = write_turns(tmp_path / "turns.csv", 3)
    gate = Gate(server)
    await gate.open()
    try:
        command = ("import", str(file), "--from", "csv")
        reader = asyncio.create_task(mnema(*command, **env | {"MNEMA_URL": gate.url}))
        first = await reader
        assert ("3 turns stored" in first.stdout, "3 sent" in first.stderr) == (True, True), first.output
        await gate.shut()
        away = await mnema(*command, **env | {"MNEMA_URL": gate.url})
        assert (away.exit_code, away.stderr.startswith(f"error {gate.url}: ")) == (1, True), away.stderr
        assert "; start the server with `mnema up` or `make run`, or correct MNEMA_URL" in away.stderr
    finally:
        await gate.shut()
    assert len(await stored()) == 3


@pytest.mark.long
async def test_options_of_another_product_and_unknown_categories_are_refused(
    env: dict[str, Any], tmp_path: Path
) -> None:
    file = str(write_turns(tmp_path / "turns.csv", 1))
    for arguments, said in [
        ((file, "--trim"), "--trim needs --from"),
        ((file, "--from", "csv", "--group", "g"), "--group belongs to --from graphiti, not to csv"),
        ((file, "--from", "zep", "--as", "items"), "--as belongs to --from langgraph, not to zep"),
        ((file, "--from", "csv", "--category", "nosuch"), UNKNOWN),
        ((file, "--from", "csv", "--map-category", "a=nosuch"), UNKNOWN),
        ((file, "--from", "csv", "--map-category", "a"), "--map-category 'a' is not THEIRS=OURS"),
        ((), "name the file: mnema import turns.jsonl"),
        (("nowhere.jsonl",), "nowhere.jsonl does not exist or is no file"),
    ]:
        done = await mnema("import", *arguments, **env)
        assert (done.exit_code, said in done.stderr) == (2, True), done.output
    for arguments, said in [
        (("nowhere.csv", "--from", "csv"), "nowhere.csv does not exist or is no file"),
        (("--from", "letta", "--user", "u"), "name the file: mnema import PATH --from letta"),
        (("--from", "langgraph"), "name the store: mnema import package.module:name --from langgraph"),
    ]:
        done = await mnema("import", *arguments, **env)
        assert (done.exit_code, said in done.stderr) == (1, True), done.output


async def test_a_key_that_may_only_write_is_enough(
    env: dict[str, Any], app: Application, caller: Caller, stored: Stored, tmp_path: Path
) -> None:
    writer = await make_caller(app, ["write"], tenant=caller)
    file = write_turns(tmp_path / "turns.csv", 2)
    done = await mnema("import", str(file), "--from", "csv", **env | {"MNEMA_API_KEY": writer.key})
    assert (done.exit_code, "2 turns stored" in done.stdout) == (0, True), done.output
    reader = await make_caller(app, ["query"], tenant=caller)
    done = await mnema("import", str(file), "--from", "csv", **env | {"MNEMA_API_KEY": reader.key})
    assert (done.exit_code, "stopped: line 2: 403 scope_required" in done.stderr) == (1, True), done.output
    assert done.stderr.endswith("; check the key, then run the same command again\n")
    assert len(await stored()) == 2
