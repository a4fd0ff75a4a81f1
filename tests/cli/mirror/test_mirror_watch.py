"""`mnema mirror --watch` as a process: it follows both sides, outlives the server, and ends when it is told to."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.acceptance.processes import DEADLINE_S
from tests.cli.gate import Gate
from tests.cli.mirror.conftest import MirrorRoom


async def until(is_true: Callable[[], Awaitable[bool]], what: str) -> None:
    for _poll in range(DEADLINE_S * 20):
        if await is_true():
            return
        await asyncio.sleep(0.05)
    raise TimeoutError(f"waited in vain for {what}")


async def until_text(path: Path, text: str) -> None:
    def has_text() -> bool:
        return path.exists() and path.read_text().rstrip().endswith(text)

    await until(lambda: asyncio.to_thread(has_text), f"{text!r} in {path}")


async def until_stored(room: MirrorRoom, text: str) -> None:
    async def is_stored() -> bool:
        return text in await room.texts()

    await until(is_stored, f"{text!r} on the server")


async def until_files(room: MirrorRoom, count: int) -> None:
    async def are_there() -> bool:
        return len(room.bodies()) == count

    await until(are_there, f"{count} files")


async def read_line(process: "subprocess.Popen[str]", words: str) -> str:
    assert process.stderr is not None
    line = await asyncio.wait_for(asyncio.to_thread(process.stderr.readline), DEADLINE_S)
    assert words in line
    return line


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_watch_follows_both_sides_until_a_signal(room: MirrorRoom, number: signal.Signals) -> None:
    first = await room.add("Maya rows.")
    watch = room.start("--watch")
    await until_files(room, 1)
    file = room.file(first)
    file.write_text(file.read_text().replace("Maya rows.", "Maya rows fast."))
    await until_stored(room, "Maya rows fast.")
    await room.http.patch(f"/memory/{first}", json={"text": "Maya rows slowly."})
    await until_text(file, "Maya rows slowly.")
    second = await room.add("Maya sails.", thread_id="sea")
    await until_files(room, 2)
    room.write("sea/turns/user/new.md", "I was at sea.\n")
    await until_stored(room, "I was at sea.")
    sea = room.file(second)
    await room.http.delete(f"/memory/{second}")

    async def is_gone() -> bool:
        return not sea.exists()

    await until(is_gone, "the deletion of the file")
    file.unlink()

    async def is_deleted() -> bool:
        return (await room.memory(first))["state"] == "soft_deleted"

    await until(is_deleted, "the deletion on the server")
    code, printed = await room.end(watch, number)
    assert code == 0
    assert "stopped\nserver  1 created, 1 updated, 1 deleted\nfiles   2 written, 1 updated, 1 deleted" in printed
    actors = [actor.partition(":")[0] for _event, actor in await room.actors(first)]
    assert actors == ["mirror", "key", "mirror", "key"]


@pytest.mark.long
async def test_restored_and_purged_memories_are_followed(room: MirrorRoom) -> None:
    first = await room.add("Maya rows.")
    watch = room.start("--watch")
    await until_files(room, 1)
    await room.http.delete(f"/memory/{first}")
    await until_files(room, 0)
    await room.http.post(f"/memory/{first}/restore")
    await until_files(room, 1)
    assert (await room.end(watch, signal.SIGTERM))[0] == 0
    await room.http.delete(f"/memory/{first}", params={"purge": True})
    await room.run()
    assert room.bodies() == []


@pytest.mark.long
async def test_only_one_mirror_may_use_a_root(room: MirrorRoom) -> None:
    await room.add("Maya rows.")
    watch = room.start("--watch")
    await until_files(room, 1)
    assert "another mirror uses this folder" in await room.run(code=1)
    assert "nothing was changed" in await room.run("--dry-run")
    assert (await room.end(watch, signal.SIGTERM))[0] == 0
    await room.run()


@pytest.mark.long
async def test_a_watch_outlives_the_server_and_says_so_once(room: MirrorRoom) -> None:
    gate = Gate(room.env["MNEMA_URL"])
    await gate.open()
    try:
        room.env["MNEMA_URL"] = gate.url
        first = await room.add("Maya rows.")
        watch = room.start("--watch")
        await until_files(room, 1)
        await gate.shut()
        file = room.file(first)
        file.write_text(file.read_text().replace("Maya rows.", "Maya sails."))
        await room.add("Maya swims.")
        await read_line(watch, "the server is away")
        await asyncio.sleep(2)
        await gate.open()
        await read_line(watch, "the server is back")
        await until_stored(room, "Maya sails.")
        await until_files(room, 2)
        code, printed = await room.end(watch, signal.SIGTERM)
        assert (code, "away" in printed) == (0, False)
    finally:
        await gate.shut()


async def test_a_conflict_during_a_watch_is_told_and_changes_its_exit_code(room: MirrorRoom) -> None:
    first = await room.add("Maya rows.")
    watch = room.start("--watch")
    await until_files(room, 1)
    file = room.file(first)
    watch.send_signal(signal.SIGSTOP)  # so that both sides change between two looks
    file.write_text(file.read_text().replace("Maya rows.", "Maya sails."))
    await room.http.patch(f"/memory/{first}", json={"text": "Maya swims."})
    watch.send_signal(signal.SIGCONT)
    await until_text(file, "Maya swims.")
    room.write("talk/facts/broken.md", "---\nid: x\n")
    await asyncio.sleep(1)
    code, printed = await room.end(watch, signal.SIGTERM)
    assert code == 3
    assert f"conflict          entries/talk/facts/{file.name}: the file and the server changed" in printed
    assert printed.count("not done          entries/talk/facts/broken.md") == 1
    assert f"{first}.conflict.md" in printed


@pytest.mark.long
@pytest.mark.parametrize("watching", [False, True])
async def test_killed_again_and_again_every_entry_has_one_file(room: MirrorRoom, watching: bool) -> None:
    lines = "\n".join(
        f'{{"user_id": "maya", "category": "activity", "type": "episodic", "text": "Crate {n} is full."}}'
        for n in range(150)
    )
    await room.http.post("/memory/bulk", content=lines)
    for at_least in (20, 70):
        process = room.start(*(["--watch"] if watching else []))
        await until_count(lambda: len(list(room.root.glob("entries/**/*.md"))), at_least)
        os.kill(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.wait)
    await room.run()
    assert room.bodies() == await room.texts()
    assert list(room.root.glob("entries/**/.mnema-*")) == []


@pytest.mark.long
async def test_killed_while_new_files_are_stored_each_is_stored_once(room: MirrorRoom) -> None:
    for number in range(60):
        room.write(f"talk/turns/user/{number}.md", f"I count to {number}.\n")

    async def are_stored(at_least: int) -> None:
        async def enough() -> bool:
            return len(await room.texts()) >= at_least

        await until(enough, f"{at_least} entries")

    for at_least in (5, 30):
        process = room.start()
        await are_stored(at_least)
        os.kill(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.wait)
    await room.run()
    assert room.bodies() == await room.texts() == sorted(f"I count to {number}." for number in range(60))


async def until_count(count: Callable[[], int], at_least: int) -> None:
    async def enough() -> bool:
        return count() >= at_least

    await until(enough, f"{at_least} files")
