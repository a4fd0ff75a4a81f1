"""A folder that `mnema mirror` keeps in step with the memories of one user on a real server."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.processes import DEADLINE_S, MNEMA, REPOSITORY, environment, mnema
from tests.factories import Caller

USER = "maya"


@dataclass
class MirrorRoom:
    """A root, the server and the client of an administrator."""

    root: Path
    http: httpx.AsyncClient
    env: dict[str, Any]
    processes: list["subprocess.Popen[str]"] = field(default_factory=list)

    async def run(self, *options: str, code: int = 0, user: str = USER) -> str:
        """Run the command to its end; check its exit code and return what it printed."""
        done = await mnema("mirror", "--root", str(self.root), "--user", user, *options, **self.env)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def start(self, *options: str) -> "subprocess.Popen[str]":
        """Start the command as a process of its own."""
        process = subprocess.Popen(
            [*MNEMA, "mirror", "--root", str(self.root), "--user", USER, *options],
            cwd=REPOSITORY,
            env=environment(**self.env) | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    async def end(self, process: "subprocess.Popen[str]", number: signal.Signals) -> tuple[int, str]:
        """Send a signal; return the exit code and what the process printed."""
        process.send_signal(number)
        out, err = await asyncio.to_thread(process.communicate, timeout=DEADLINE_S)
        assert "Traceback" not in out + err
        return process.returncode, out + err

    async def add(self, text: str, **fields: Any) -> str:
        """Write a memory; return its id."""
        body = {"user_id": USER, "category": "activity", "type": "episodic", "thread_id": "talk", "text": text} | fields
        response = await self.http.post("/memory", json=body)
        assert response.status_code == 201, response.text
        return str(response.json()["id"])

    async def memory(self, memory_id: str) -> dict[str, Any]:
        """Return a memory."""
        found: dict[str, Any] = (await self.http.get(f"/memory/{memory_id}")).json()
        return found

    async def texts(self, **params: Any) -> list[str]:
        """Return the texts of the user's active memories, sorted."""
        found, cursor = [], None
        while True:
            given = {"user_id": USER, "limit": 200} | params | ({"cursor": cursor} if cursor else {})
            page = (await self.http.get("/memory", params=given)).json()
            found += [memory["text"] for memory in page["items"]]
            if (cursor := page["next_cursor"]) is None:
                return sorted(found)

    async def actors(self, memory_id: str) -> list[tuple[str, str]]:
        """Return event and actor of each history row, newest first."""
        rows = (await self.http.get(f"/memory/{memory_id}/history")).json()["items"]
        return [(row["event"], row["actor"]) for row in rows]

    def file(self, memory_id: str) -> Path:
        """Return the file of an entry."""
        [path] = [path for path in self.root.glob("entries/**/*.md") if f"id: {memory_id}\n" in path.read_text()]
        return path

    def write(self, path: str, content: str) -> Path:
        """Write a file below `entries`."""
        file = self.root / "entries" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
        return file

    def bodies(self) -> list[str]:
        """Return the texts of all files of entries, sorted."""
        files = [path for path in self.root.glob("entries/**/*.md") if ".conflict" not in path.name]
        return sorted(path.read_text().split("\n---\n", 1)[-1].strip() for path in files)

    def tree(self, folder: str = "") -> dict[str, bytes]:
        """Return the content of every file below a folder of the root."""
        return {str(path): path.read_bytes() for path in (self.root / folder).glob("**/*") if path.is_file()}


@pytest.fixture
async def room(server: str, caller: Caller, tmp_path: Path) -> AsyncIterator[MirrorRoom]:
    """Yield a room whose root does not exist yet."""
    env = {"MNEMA_URL": server, "MNEMA_API_KEY": caller.key, "MNEMA_HOME": tmp_path / "home"}
    async with caller.client(server) as http:
        made = MirrorRoom(tmp_path / "mirror", http, env)
        yield made
    for process in made.processes:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.communicate)
