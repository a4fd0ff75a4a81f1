"""An installation in use goes over from all-MiniLM-L6-v2 to multilingual-e5-small, as docs/operations.md says.

Clients ask and write over HTTP while `mnema embeddings` adds, fills, switches and drops spaces, and while the only
server restarts. The old vectors are made up, the new ones are the real model's. 7 % of the memories are of one tenant,
which gets an index, the others of 31. Exit code 1 if a memory has no new vector or is not found by its own text, if an
acknowledged write is lost, or if a request fails at another time than during the restart.
"""

import argparse
import asyncio
import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import httpx
import numpy as np

from app.bootstrap.database import open_database
from app.bootstrap.tenancy import open_tenants
from app.domain.changes import ChangeKind, MemoryChange
from app.domain.memory.memory import NewMemory
from app.domain.principal import Principal
from app.embedded.postgres import free_port
from app.storage.identity import new_id
from app.storage.journal import Journal
from bench import workload
from bench.child_processes import ROOT, running_server
from bench.constant_embedder import ConstantEmbedder
from bench.http_clients import HOST
from bench.throwaway import Site, open_site, using_model

OLD = "all-MiniLM-L6-v2"
NEW = "multilingual-e5-small"
OLD_SPACE = "minilm_l6_v2"
DIMENSION = 384
TENANTS = {f"small-{number:02}": 6 for number in range(31)} | {"the-large-one": 14}
"""The number of users of each tenant. `migrate` fills the tenants in the order of their names."""
USERS = sum(TENANTS.values())
SAMPLE = 200
PHASE_S = 20.0
COMMAND = [sys.executable, "-m", "app.cli.main", "embeddings"]
RESTART = "restart"
WRITE = "/memory"
QUERY = "/memory/query"
RATE = 3.0
FIRST = {QUERY: 50_000_000, WRITE: 70_000_000}
"""The numbers of the first texts that the clients ask with and write."""
_FORMS = (
    "{person} wants to {task} the {thing} in {place} before {day}; it has number {number}.",
    "On {day} I {task} the {thing} of {person}, ticket {number}, in {place}.",
    "The {thing} in {place} costs {number} euros, and {person} comes on {day} to {task} it.",
    "{place} is where {person} keeps the {thing}, shelf {number}; on {day} I must {task} it.",
)
_WORDS = {
    "person": "Ada Bruno Carla Deniz Elif Farid Greta Hugo Ines Jonas Kaya Lena Mirko Nadia Olga Pavel Quinn Rosa Sami",
    "place": "Lisbon Oslo Ghent Kyoto Lima Tunis Porto Malmö Zagreb Quito Cork Turin Basel Riga Leeds Nice Accra Hanoi",
    "thing": "bicycle piano tent kettle lamp canoe camera violin desk drill sofa heater compass ladder",
    "task": "repair sell borrow paint return insure photograph replace clean measure order collect lend wrap weigh",
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday Easter Christmas midsummer payday",
}


def make_text(number: int) -> str:
    """Return the text with this number. No two are equal."""
    chance = random.Random(f"text {number}")
    chosen = {slot: chance.choice(words.split()) for slot, words in _WORDS.items()}
    return chance.choice(_FORMS).format(number=number, **chosen)


class LoadedTenant(NamedTuple):
    """A tenant with its key and users."""

    id: UUID
    key: str
    users: tuple[str, ...]


class Call(NamedTuple):
    """A request: the phase in which it began, or `RESTART` if it ended there. `error` is "" for a success."""

    path: str
    phase: str
    ms: float
    error: str


@dataclass(slots=True)
class Traffic:
    """Readers and writers, `clients` of each. `written` has the acknowledged texts by memory id."""

    port: int
    tenants: list[LoadedTenant]
    clients: int
    phase: str = "warm-up"
    calls: list[Call] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Send requests until the context ends."""
        with ThreadPoolExecutor(2 * self.clients) as pool:
            for number in range(2 * self.clients):
                pool.submit(self._send_requests, (QUERY, WRITE)[number % 2], number // 2)
            try:
                yield
            finally:
                self._ended.set()

    def _send_requests(self, path: str, client: int) -> None:
        chance = random.Random(f"{path} {client}")
        number = FIRST[path] + client
        with httpx.Client(base_url=f"http://{HOST}:{self.port}", timeout=60) as http:
            while not self._ended.wait(chance.uniform(0.5, 1.5) / RATE):
                tenant = chance.choice(self.tenants)
                text = make_text(number)
                user = chance.choice(tenant.users)
                self._call(http, path, tenant, write_body(user, number) if path == WRITE else query_body(text, user))
                number += self.clients

    def _call(self, http: httpx.Client, path: str, tenant: LoadedTenant, body: dict[str, Any]) -> None:
        phase = self.phase
        began = time.perf_counter()
        error = "no answer"
        with contextlib.suppress(httpx.TransportError):
            answer = http.post(path, json=body, headers={"Authorization": f"Bearer {tenant.key}"})
            error = "" if answer.is_success else str(answer.status_code)
            if path == WRITE and answer.is_success:
                self.written[answer.json()["id"]] = body["text"]
        phase = RESTART if self.phase == RESTART else phase
        self.calls.append(Call(path, phase, (time.perf_counter() - began) * 1000, error))


def write_body(user: str, number: int) -> dict[str, Any]:
    """Return the body of POST /memory for a text of a user."""
    return workload.write_body(number) | {"user_id": user, "text": make_text(number)}


def query_body(text: str, user: str | None = None, profile: str = "default") -> dict[str, Any]:
    """Return the body of POST /memory/query about one user, or about all users of the tenant."""
    return workload.query_body(0, profile) | {"query": text, "filters": {"user_id": user} if user else {}}


async def load_tenants(site: Site, rows: int) -> list[LoadedTenant]:
    """Load `rows` memories through the journal, with made-up vectors of the old model."""
    settings = site.home.server_settings(site.cluster)
    loaded = list[LoadedTenant]()
    numbers = iter(range(rows))
    async with open_tenants(settings) as tenants, open_database(settings) as uow:
        journal = Journal(uow, OLD_SPACE, settings.erasure_secret())
        embedder = ConstantEmbedder(OLD, DIMENSION)
        for name, size in TENANTS.items():
            tenant = await tenants.create_tenant(name)
            key = (await tenants.create_key(tenant.id, "bench", ["query", "write", "read_all"]))[1]
            loaded.append(LoadedTenant(tenant.id, key, tuple(f"{name}-{number}" for number in range(size))))
            for user in loaded[-1].users:
                bodies = [write_body(user, next(numbers)) for _ in range(rows // USERS)]
                embeddings = await embedder.encode_texts([body["text"] for body in bodies])
                changes = [
                    MemoryChange(
                        kind=ChangeKind.created,
                        memory_id=new_id(),
                        user_id=user,
                        actor=workload.AGENT,
                        new=NewMemory(**body, created_at=datetime.now(UTC)),
                        vector=embedding.vector,
                        tokens=embedding.tokens,
                    )
                    for body, embedding in zip(bodies, embeddings, strict=True)
                ]
                await journal.record(Principal(tenant.id), changes)
    await fetch_rows(site, "VACUUM (ANALYZE)")
    return loaded


async def fetch_rows(site: Site, statement: str) -> list[Any]:
    """Run a statement as the superuser, past row-level security."""
    connection = await asyncpg.connect(site.superuser_url)
    try:
        return list(await connection.fetch(statement))
    finally:
        await connection.close()


class Change:
    """The change of the model of a site with traffic, and its measurements."""

    def __init__(self, site: Site, traffic: Traffic) -> None:
        self.site, self.traffic = site, traffic
        self.env = os.environ | {
            "MNEMA_DATABASE_URL": site.home.role_url(site.cluster, "mnema_app"),
            "MNEMA_ADMIN_DATABASE_URL": site.home.role_url(site.cluster, "mnema_admin"),
            "MNEMA_HOME": str(site.home.path),
            "MNEMA_EMBEDDING_MODEL": NEW,
            "MNEMA_EMBEDDED": "1",
        }
        self.found = 0
        self.fill_s = 0.0
        self.restart_s = 0.0
        self.name = ""
        self.filled = ""
        self.listed = ""

    def go_over(self) -> None:
        """Change the model while the traffic goes on, then ask the sample."""
        traffic = self.traffic
        port = self.traffic.port
        log = self.site.home.path / "server.log"
        serve = partial(running_server, "app.api", "--port", str(port), log=log, port=port)
        with contextlib.ExitStack() as server:
            server.enter_context(serve(variables=self.env | {"MNEMA_EMBEDDING_MODEL": OLD}))
            with traffic.running():
                time.sleep(PHASE_S / 2)
                self._stay("before")
                traffic.phase = "add"
                self.name = self._run("add", "--model", NEW, "--dimension", str(DIMENSION)).split()[0]
                traffic.phase = "fill"
                with self._filling():
                    traffic.phase = "switch"
                    self._run("switch", self.name) or self._run("switch", self.name, "--force")
                    self._stay("switch")
                    traffic.phase = RESTART
                    started = time.perf_counter()
                    server.close()
                    server.enter_context(serve(variables=self.env))
                    self.restart_s = time.perf_counter() - started
                    self._stay("after")
                traffic.phase = "drop"
                while not self._run("drop", OLD_SPACE, "--yes"):
                    self._run("migrate", self.name)
                self._stay("drop")
            self.listed, self.found = self._run("list"), self._count_found()

    def _run(self, *arguments: str) -> str:
        """Run `mnema embeddings …`; return what it prints, "" if vectors are missing. Raise RuntimeError."""
        done = subprocess.run([*COMMAND, *arguments], cwd=ROOT, env=self.env, capture_output=True, text=True)
        print(f"mnema embeddings {' '.join(arguments)}\n{done.stdout}{done.stderr}", file=sys.stderr, flush=True)
        if done.returncode and "have no vector" not in done.stderr:
            raise RuntimeError(done.stderr)
        return "" if done.returncode else done.stdout

    @contextlib.contextmanager
    def _filling(self) -> Iterator[None]:
        """Run `migrate --follow` until the context ends. The context begins when the space is filled."""
        command = [*COMMAND, "migrate", self.name, "--follow"]
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=ROOT, env=self.env, stdout=subprocess.PIPE, text=True)
        try:
            self.filled = next(process.stdout or iter(())).strip()
            self.fill_s = time.perf_counter() - started
            yield
        finally:
            process.terminate()  # not SIGINT, which a shell's background jobs ignore
            process.communicate()

    def _stay(self, phase: str) -> None:
        self.traffic.phase = phase
        time.sleep(PHASE_S)

    def _count_found(self) -> int:
        """Ask for the texts of a sample by their vectors, in the whole tenant; count the memories that come first."""
        sample = f"SELECT tenant_id, id, text FROM memories ORDER BY md5(id::text) LIMIT {SAMPLE}"
        found = 0
        keys = {tenant.id: tenant.key for tenant in self.traffic.tenants}
        with httpx.Client(base_url=f"http://{HOST}:{self.traffic.port}", timeout=60) as http:
            for row in asyncio.run(fetch_rows(self.site, sample)):
                head = {"Authorization": f"Bearer {keys[row['tenant_id']]}"}
                answer = http.post("/memory/query", json=query_body(row["text"], profile="dense"), headers=head)
                items = answer.raise_for_status().json()["items"]
                found += bool(items) and items[0]["id"] == str(row["id"])
        return found

    def report(self) -> bool:
        """Print the figures; return False if one is not as it must be."""
        joined = f"memories m LEFT JOIN vec_{self.name} v ON v.tenant_id = m.tenant_id AND v.memory_id = m.id"
        stored = asyncio.run(fetch_rows(self.site, f"SELECT m.id, text, tokens IS NULL AS missing FROM {joined}"))
        texts = {str(row["id"]): row["text"] for row in stored}
        calls = self.traffic.calls
        missing = sum(row["missing"] for row in stored)
        written = self.traffic.written
        lost = sum(texts.get(memory) != text for memory, text in written.items())
        rate = int(self.filled.split()[1]) / self.fill_s
        print(f"migrate: {self.fill_s:.0f} s, {rate:.0f} a second; {self.filled}; restart {self.restart_s:.1f} s")
        print("phase       queries  p50 ms  p95 ms   writes  p50 ms  p95 ms  failed")
        for phase in dict.fromkeys(call.phase for call in calls):
            cells = ""
            for path in (QUERY, WRITE):
                times = [one.ms for one in calls if (one.phase, one.path, one.error) == (phase, path, "")]
                p50, p95 = np.quantile(times or [0], (0.5, 0.95))
                cells += f"{len(times):9}{p50:8.1f}{p95:8.1f}"
            print(f"{phase:10}{cells}{sum(bool(one.error) for one in calls if one.phase == phase):8}")
        errors = Counter(f"{one.phase}: {one.path} {one.error}" for one in calls if one.error)
        print("failed:", ", ".join(f"{error} {count} times" for error, count in errors.items()) or "none")
        print(f"{len(stored)} memories, {len(written)} of them written meanwhile: missing {missing}, lost {lost}")
        print(f"found first by their own text: {self.found} of {SAMPLE}\n{self.listed}")
        unexplained = any(one.error and one.phase != RESTART for one in calls)
        return self.found == SAMPLE and not (missing or lost or unexplained)


def main() -> None:
    """Read the command line, run, print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=2, help="readers, and as many writers")
    asked = parser.parse_args()
    with using_model(OLD), open_site(0) as site:
        change = Change(site, Traffic(free_port(), asyncio.run(load_tenants(site, asked.rows)), asked.clients))
        change.go_over()
        sys.exit(0 if change.report() else 1)


if __name__ == "__main__":
    main()
