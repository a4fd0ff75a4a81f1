"""`mnema mirror --watch` is killed again and again while a person edits its files and others edit the memories.

MNEMA_MIRROR_DRILL sets the number of kills. `pytest -s` shows what happened.
"""

import asyncio
import contextlib
import itertools
import os
import random
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from mnema_cli.mirror.rules.entries import MirrorFile, parse_file, render_file

from tests.acceptance.processes import DEADLINE_S, MNEMA, REPOSITORY, environment, mnema
from tests.acceptance.serving import Server
from tests.background import until
from tests.conftest import Database
from tests.factories import Caller
from tests.usecases.crowd import SeededEmbedder

KILLS = int(os.environ.get("MNEMA_MIRROR_DRILL", "7"))
EDITED, DELETED = 16, 6
"""Entries that both sides edit, and entries of each side that it deletes and nobody edits."""

USER = "maya"
WHOLE = re.compile(r"Entry \d+ of the talk(, [sp]\d+)*\.")
"""A text: each edit of the server or of the person adds a mark before the full stop."""

NOTHING_DONE = "server  0 created, 0 updated, 0 deleted\nfiles   0 written, 0 updated, 0 deleted"
pytestmark = [pytest.mark.acceptance, pytest.mark.long, pytest.mark.xdist_group("workers")]


@pytest.fixture
def embedder() -> SeededEmbedder:
    """The embedder of this process; the server uses the real model."""
    return SeededEmbedder()


@dataclass
class Drill:
    """Both sides of a mirror. `marks`: those that each entry's text got, by id."""

    http: httpx.AsyncClient
    root: Path
    env: dict[str, Any]
    edited: list[str] = field(default_factory=list)
    drops: dict[str, list[str]] = field(default_factory=lambda: {"server": [], "person": []})
    marks: dict[str, set[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    stopped: bool = False

    async def add_entries(self) -> None:
        """Store the entries: those that are edited, and those that a side deletes."""
        for ids, count in ((self.edited, EDITED), (self.drops["server"], DELETED), (self.drops["person"], DELETED)):
            for _entry in range(count):
                ids.append(await self.add_entry())

    async def add_entry(self) -> str:
        """Store an entry; return its id."""
        text = f"Entry {next(self.numbers)} of the talk."
        place = {"user_id": USER, "category": "activity", "type": "episodic", "thread_id": "talk"}
        answer = await self.http.post("/memory", json={**place, "text": text})
        assert answer.status_code == 201, answer.text
        entry_id = str(answer.json()["id"])
        self.marks[entry_id] = set()
        return entry_id

    async def change_server(self) -> None:
        """Edit and add entries on the server as others do, and delete some. An edit is of the text that was read."""
        while not self.stopped:
            await asyncio.sleep(random.uniform(0, 0.3))
            chance = random.random()
            if chance < 0.05:
                self.edited.append(await self.add_entry())
                self.done["server added"] += 1
            elif chance < 0.1 and self.drops["server"]:
                entry_id = self.drops["server"].pop()
                assert (await self.http.delete(f"/memory/{entry_id}")).is_success
                self.done["server deleted"] += 1
            else:
                await self.edit_on_server(random.choice(self.edited))

    async def edit_on_server(self, entry_id: str) -> None:
        """Add a mark to the text on the server, unless somebody else changes it at this moment."""
        mark, read = f"s{next(self.numbers)}", (await self.http.get(f"/memory/{entry_id}")).json()
        change, headers = {"text": add_mark(read["text"], mark)}, {"If-Match": f'"{read["version"]}"'}
        answer = await self.http.patch(f"/memory/{entry_id}", json=change, headers=headers)
        assert answer.status_code in (200, 412), answer.text
        if answer.status_code == 200:
            self.marks[entry_id].add(mark)
            self.done["server edited"] += 1

    async def change_files(self) -> None:
        """Edit, add and delete files as a person does. Each file that is read is whole."""
        while not self.stopped:
            await asyncio.sleep(random.uniform(0, 0.3))
            found = self.read_files()
            if not found:
                continue
            chance = random.random()
            if chance < 0.05:
                self.add_note()
            elif chance < 0.1 and (ids := found.keys() & set(self.drops["person"])):
                self.delete_file(found[ids.pop()][0])
            elif ids := found.keys() & set(self.edited):
                self.edit_file(*found[random.choice(sorted(ids))])

    def read_files(self) -> dict[str, tuple[Path, bytes]]:
        """Return path and content of the files of entries, by id. Each must be whole."""
        found = {}
        for path in self.root.glob("entries/talk/facts/[!.]*.md"):
            with contextlib.suppress(FileNotFoundError):  # the mirror replaces it
                content = path.read_bytes()
                file = parse_file(content)
                assert WHOLE.fullmatch(file.text), f"{path} is half written: {content!r}"
                if ".conflict" not in path.name:
                    assert file.id, f"{path} is half written: {content!r}"
                    found[file.id] = path, content
        return found

    def edit_file(self, path: Path, content: bytes) -> None:
        """Save the file with one more mark, as an editor does that looks at the file before it replaces it."""
        file, mark = parse_file(content), f"p{next(self.numbers)}"
        saving = path.with_name(".saving.tmp")
        saving.write_bytes(render_file(replace(file, text=add_mark(file.text, mark))))
        with contextlib.suppress(FileNotFoundError):
            if path.read_bytes() == content:
                saving.replace(path)
                assert file.id is not None
                self.marks[file.id].add(mark)
                self.done["person edited"] += 1
        saving.unlink(missing_ok=True)

    def delete_file(self, path: Path) -> None:
        """Delete the file of an entry that nobody edits."""
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            self.done["person deleted"] += 1

    def add_note(self) -> None:
        """Save a new file: a turn of the user."""
        note = f"Note {next(self.numbers)} of a person."
        folder = self.root / "entries/talk/turns/user"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".saving.tmp").write_text(f"{note}\n")
        (folder / ".saving.tmp").rename(folder / f"{len(self.notes)}.md")
        self.notes.append(note)
        self.done["person added"] += 1

    def start(self) -> "subprocess.Popen[bytes]":
        """Start the mirror as a process that stays."""
        command = [*MNEMA, "mirror", "--root", str(self.root), "--user", USER, "--watch"]
        with (self.root.parent / "mirror.log").open("ab") as log:
            return subprocess.Popen(command, cwd=REPOSITORY, env=environment(**self.env), stdout=log, stderr=log)

    async def run(self) -> str:
        """Run the mirror once; return what it printed. Conflict files may be left."""
        done = await mnema("mirror", "--root", str(self.root), "--user", USER, **self.env)
        assert done.returncode in (0, 3), done.stdout + done.stderr
        return done.stdout + done.stderr

    async def entries(self) -> dict[str, str]:
        """Return the texts of all active entries on the server, by id."""
        found: dict[str, str] = {}
        cursor = None
        while True:
            params = {"user_id": USER, "limit": 200} | ({"cursor": cursor} if cursor else {})
            page = (await self.http.get("/memory", params=params)).raise_for_status().json()
            found |= {memory["id"]: memory["text"] for memory in page["items"]}
            if (cursor := page["next_cursor"]) is None:
                return found

    def files(self) -> list[MirrorFile]:
        """Return the files of entries."""
        paths = self.root.glob("entries/**/*.md")
        return [parse_file(path.read_bytes()) for path in paths if ".conflict" not in path.name]

    def conflicts(self) -> dict[Path, str]:
        """Return the texts of the conflict files. The name of each begins with the id of its entry."""
        paths = self.root.glob("entries/**/*.conflict*.md")
        return {path: parse_file(path.read_bytes()).text for path in paths}


def add_mark(text: str, mark: str) -> str:
    """Return the text with one more mark."""
    return f"{text.removesuffix('.')}, {mark}."


def marks_of(text: str) -> set[str]:
    """Return the marks of a text."""
    return set(re.findall(r", ([sp]\d+)", text))


async def test_a_killed_mirror_loses_no_edit_and_both_sides_are_equal_in_the_end(
    caller: Caller, database: Database, tmp_path: Path
) -> None:
    home = tmp_path / "server"
    home.mkdir()
    server = Server(database, home)
    try:
        await server.start()
        env = {"MNEMA_URL": server.url, "MNEMA_API_KEY": caller.key, "MNEMA_HOME": tmp_path / "home"}
        async with caller.client(server.url) as http:
            drill = Drill(http, tmp_path / "mirror", env)
            await drill.add_entries()
            gone = {*drill.drops["server"], *drill.drops["person"]}
            await edit_under_kills(drill)
            print(await drill.run())
            assert NOTHING_DONE in await drill.run(), "the first run settled everything"
            await check_sides(drill, gone)
        assert "Traceback" not in server.log + (tmp_path / "mirror.log").read_text()
    finally:
        server.kill()


async def edit_under_kills(drill: Drill) -> None:
    """Let both sides be edited while the mirror is killed and started again. It is dead at the end."""
    mirror = drill.start()
    try:

        async def has_written() -> bool:
            return bool(drill.read_files())

        await until(has_written, "the first files", DEADLINE_S)
        editing = asyncio.gather(drill.change_server(), drill.change_files())
        for _kill in range(KILLS):
            await asyncio.wait([editing], timeout=random.uniform(1, 7))
            assert mirror.poll() is None, (drill.root.parent / "mirror.log").read_text()
            if editing.done():
                break  # it failed
            mirror.send_signal(signal.SIGKILL)
            mirror.wait()
            mirror = drill.start()
        await asyncio.wait([editing], timeout=random.uniform(1, 7))
        drill.stopped = True
        await editing
    finally:
        mirror.kill()
        mirror.wait()


async def check_sides(drill: Drill, gone: set[str]) -> None:
    """Check that both sides are equal, that deletions and new files came over, and that no mark is lost."""
    entries, files, conflicts = await drill.entries(), drill.files(), drill.conflicts()
    print(f"{KILLS} kills; {dict(drill.done)}; {len(entries)} entries, {len(conflicts)} conflict files")
    assert sorted((str(file.id), file.text) for file in files) == sorted(entries.items())
    assert sorted(text for text in entries.values() if text.startswith("Note")) == sorted(drill.notes)
    still = gone - {*drill.drops["server"], *drill.drops["person"]}
    assert not still & entries.keys(), "a deletion came over"
    kept = 0
    for entry_id in drill.edited:
        texts = [entries[entry_id], *(text for path, text in conflicts.items() if path.name.startswith(entry_id))]
        lost = drill.marks[entry_id] - set().union(*map(marks_of, texts))
        assert not lost, f"edits {lost} of {entry_id} are lost: {texts}"
        kept += len(drill.marks[entry_id])
    print(f"each of {kept} edits is in the text or in a conflict file")
    assert not [path for path in drill.root.glob("entries/**/.*") if path.is_file()], "nothing is left of a killed run"
