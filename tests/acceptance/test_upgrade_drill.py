"""The next release upgrades a filled database while writers go on, and goes back: no acknowledged write is lost.

The next release is a copy of this tree with one revision more. `pytest -s` shows how long each step took.
"""

import asyncio
import itertools
import shutil
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import httpx
import pytest

from app.storage.operations.schema import expected_fingerprint, head_revision
from tests.acceptance.processes import REPOSITORY, environment
from tests.acceptance.serving import Server
from tests.background import until
from tests.conftest import Database
from tests.factories import Caller

pytestmark = [pytest.mark.acceptance, pytest.mark.long, pytest.mark.xdist_group("workers")]
FILLED = 2000
CLIENTS = 4
PATIENCE_S = 120
NEXT = "9999"
REVISION = f'''"""One column more."""

from alembic import op

revision = "{NEXT}"
down_revision = "{head_revision()}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE memories ADD COLUMN noted_at timestamptz")
    op.execute("CREATE INDEX memories_noted ON memories (tenant_id, noted_at)")


def downgrade() -> None:
    op.execute("ALTER TABLE memories DROP COLUMN noted_at")
'''


@pytest.fixture
def next_release(tmp_path: Path) -> Path:
    """Make a copy of this tree with one revision more, whose schema has another fingerprint."""
    tree = tmp_path / "next"
    for folder in ("app", "config", "migrations", "workers"):
        shutil.copytree(REPOSITORY / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("alembic.ini", "pyproject.toml"):
        shutil.copy(REPOSITORY / file, tree / file)
    (tree / f"migrations/versions/{NEXT}_noted_at.py").write_text(REVISION)
    (tree / "migrations/schema/tables/noted_at.sql").write_text("-- one column more\n")
    frozen = tree / "migrations/frozen.py"
    start = "FROZEN: Mapping[str, Frozen] = {\n"
    assert start in frozen.read_text()
    published = f'{start}    "{head_revision()}": Frozen("", "{expected_fingerprint()}"),\n'
    frozen.write_text(frozen.read_text().replace(start, published))
    return tree


@dataclass
class Writers:
    """Clients that write until they are stopped, to the servers in turn. Each text is written until it is stored."""

    key: str
    urls: list[str]
    numbers: Iterator[int] = field(default_factory=itertools.count)
    acknowledged: set[str] = field(default_factory=set)
    answers: Counter[str] = field(default_factory=Counter)
    is_over: bool = False

    async def write(self) -> None:
        """Write one text after the other."""
        headers = {"Authorization": f"Bearer {self.key}"}
        async with httpx.AsyncClient(headers=headers, timeout=30) as http:
            while not self.is_over:
                number = next(self.numbers)
                await self._store(http, f"Crate {number} stands in row {number}.", f"crate-{number}")

    async def _store(self, http: httpx.AsyncClient, text: str, key: str) -> None:
        for attempt in itertools.count():
            url = self.urls[attempt % len(self.urls)]
            memory = {"user_id": "maya", "category": "tasks", "text": text}
            try:
                answer = await http.post(f"{url}/memory", json=memory, headers={"Idempotency-Key": key})
            except httpx.TransportError as error:
                self.answers[type(error).__name__] += 1
            else:
                code = "" if answer.is_success else f" {answer.json()['code']}"
                self.answers[f"{answer.status_code}{code}"] += 1
                if answer.is_success:
                    self.acknowledged.add(text)
                    return
            await asyncio.sleep(0.05)


@asynccontextmanager
async def writing(writers: Writers) -> AsyncIterator[None]:
    """Run the clients during the block."""
    clients = asyncio.gather(*(writers.write() for _ in range(CLIENTS)))
    try:
        yield
    finally:
        writers.is_over = True
        await asyncio.wait_for(clients, PATIENCE_S)


async def run_in(tree: Path, database: Database, *command: str) -> None:
    """Run a command of a release to its end, and tell how long it took."""
    began = time.monotonic()
    env = environment(MNEMA_ADMIN_DATABASE_URL=database.admin)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        *command,
        cwd=tree,
        env=env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _nothing = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 0, output.decode()
    print(f"{' '.join(command)}: {time.monotonic() - began:.1f} s")


async def checks_of(url: str) -> tuple[int, str]:
    """Return the status of /ready and what it says of the schema."""
    async with httpx.AsyncClient(timeout=30) as http:
        answer = await http.get(f"{url}/ready")
    return answer.status_code, answer.json()["checks"]["migrations"]


async def test_writers_outlive_an_upgrade_and_the_way_back(
    database: Database, caller: Caller, next_release: Path, tmp_path: Path
) -> None:
    old, new = Server(database, tmp_path), Server(database, tmp_path, tree=next_release)
    await old.start()
    try:
        async with caller.client(old.url) as http:
            lines = "\n".join(
                f'{{"user_id": "maya", "category": "tasks", "text": "Box {n} is box {n}."}}' for n in range(FILLED)
            )
            assert (await http.post("/memory/bulk", content=lines)).is_success
        writers = Writers(caller.key, [old.url, new.url])
        async with writing(writers):
            await asyncio.sleep(1)
            await run_in(next_release, database, "app.cli.main", "migrate")
            await until(lambda: refused(old.url, NEXT), "the old server to say that the schema is another", PATIENCE_S)
            await new.start()
            old.kill()
            await asyncio.sleep(1)
            await run_in(next_release, database, "alembic", "downgrade", head_revision())
            await until(lambda: refused(new.url, head_revision()), "the new server to say so", PATIENCE_S)
            await old.start()
            new.kill()
            await asyncio.sleep(1)
        assert await checks_of(old.url) == (200, "ok")
        print(f"{len(writers.acknowledged)} writes acknowledged: {dict(writers.answers)}")
        stored = await stored_texts(database, "Crate")
        assert [text for text, count in stored.items() if count > 1] == []
        assert writers.acknowledged - stored.keys() == set()
        assert sum((await stored_texts(database, "Box")).values()) == FILLED
        assert not [answer for answer in writers.answers if answer.startswith("5") and not answer.startswith("503")]
    finally:
        old.kill()
        new.kill()


async def refused(url: str, revision: str) -> bool:
    """Tell whether a server says that the schema is at another revision than it needs."""
    status, told = await checks_of(url)
    return status == 503 and f"schema is at {revision}" in told


async def stored_texts(database: Database, word: str) -> Counter[str]:
    """Return the texts of memories that begin with a word, with their number."""
    sql = await asyncpg.connect(database.superuser)
    try:
        rows = await sql.fetch("SELECT text FROM memories WHERE text LIKE $1 || ' %'", word)
    finally:
        await sql.close()
    return Counter(row["text"] for row in rows)
