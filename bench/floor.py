"""The floor: the statements of one request, replayed by pgbench without any of Mnema's Python code.

The statements are recorded from real requests (bench/floor_recording.py), so that the floor always has the server's
own queries. Arguments that differ between requests come from a table with the arguments of many requests (a
primary-key look-up each, because pgbench has no binary parameters). The others are parameters of the prepared
statement. A write's ids, text and hash are created in SQL.

The floor includes the transaction as the use-case opens it, every statement with its arguments, row-level security, the
commit with fsync, and results sent over loopback as text. It does not include HTTP, JSON in the server, validation,
authentication, the embedder, ranking and the access log.
"""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
from pgvector.asyncpg import register_vector

from app.embedded.home import DATABASE
from bench import cpu_time
from bench.floor_recording import Call, Recording, record_requests
from bench.http_clients import HOST
from bench.http_load import WRITES, Load
from bench.throwaway import Site

GRACE_S = 60
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HASH = re.compile(r"\\x[0-9a-f]{64}")
_NOTHING = "nothing"
_BATCH, _NEW_IDS = "fresh.batch", "ARRAY[(fresh.batch#>>'{memories,0,id}')::uuid]"


@dataclass(slots=True)
class Floor:
    """A pgbench script and its variables."""

    script: str
    variables: dict[str, str]


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The measurement of pgbench. `cpu_ms` is the CPU time of PostgreSQL for one transaction."""

    latencies_ms: list[float]
    per_second: float
    cpu_ms: float | None


class _ScriptWriter:
    """A writer that turns recordings into a script, its variables and the table of varying arguments."""

    def __init__(self, connection: asyncpg.Connection, kind: str, recordings: Sequence[Recording]) -> None:
        self._connection = connection
        self._kind = kind
        self._recordings = recordings
        self._columns: dict[str, str] = {}
        self._values: list[list[Any]] = [[number] for number in range(len(recordings))]
        self.floor = Floor(f"\\set q random(0, {len(recordings) - 1})\n", {_NOTHING: _NOTHING})

    async def write_script(self) -> Floor:
        """Return the whole script and create the table in the database."""
        for number, call in enumerate(self._recordings[0].calls):
            self.floor.script += await self._render_statement(number, call) + ";\n"
        await self._fill_table()
        return self.floor

    async def _render_statement(self, number: int, call: Call) -> str:
        sql = re.sub(r"--[^\n]*", "", call.sql).strip()
        types = [parameter.name for parameter in (await self._connection.prepare(sql)).get_parameters()]
        written = [
            await self._render_argument(f"a{number}_{place}", place, number, kind) for place, kind in enumerate(types)
        ]
        if (batch := next((text for text in written if text.startswith("format(")), None)) is not None:
            written = [_BATCH if text is batch else text for text in written]
            sql += f" FROM (SELECT {batch} AS batch OFFSET 0) fresh"
        return re.sub(r"\$(\d+)", lambda found: written[int(found[1]) - 1], sql)

    async def _render_argument(self, name: str, place: int, number: int, type_: str) -> str:
        """Return the SQL of one argument: a variable, a look-up, or an expression for a new value."""
        values = [recording.calls[number].args[place] for recording in self._recordings]
        if all(value is None for value in values):
            return f"nullif(:{_NOTHING}, '{_NOTHING}')::{type_}"
        if all(value == values[0] for value in values):
            self.floor.variables[name] = await self._connection.fetchval(f"SELECT $1::{type_}::text", values[0])
            return f"(:{name})::{type_}"
        if self._kind in WRITES and type_ == "bytea":
            return "sha256(uuidv7()::text::bytea)"
        if self._kind in WRITES and type_ == "jsonb" and isinstance(values[0], dict):
            return self._fresh_json(name, values)
        if self._kind in WRITES and type_ == "_uuid":
            return _NEW_IDS
        return self._look_up(name, type_, values)

    def _look_up(self, name: str, type_: str, values: Sequence[Any]) -> str:
        self._columns[name] = type_
        for row, value in zip(self._values, values, strict=True):
            row.append(value)
        return f"((SELECT t.{name} FROM bench.{self._kind} t WHERE t.q = :q)::{type_})"

    def _fresh_json(self, name: str, values: Sequence[Any]) -> str:
        """Return SQL for a JSON argument with new ids, text and hash in every transaction."""
        drafts = [_JsonTemplate(recording) for recording in self._recordings]
        texts = [draft.template_text(value) for draft, value in zip(drafts, values, strict=True)]
        ids = max(len(draft.ids) for draft in drafts)
        fresh = ", ".join(["encode(sha256(uuidv7()::text::bytea), 'hex')", *["uuidv7()"] * ids])
        return f"format({self._look_up(name, 'text', texts)}, {fresh})::jsonb"

    async def _fill_table(self) -> None:
        columns = ", ".join(f"{name} {type_}" for name, type_ in self._columns.items())
        table = f"bench.{self._kind}"
        await self._connection.execute(f"""CREATE SCHEMA IF NOT EXISTS bench; GRANT USAGE ON SCHEMA bench TO mnema_app;
            CREATE TABLE {table} (q integer PRIMARY KEY, {columns}); GRANT SELECT ON {table} TO mnema_app""")
        places = ", ".join(f"${place}" for place in range(1, len(self._columns) + 2))
        await self._connection.executemany(f"INSERT INTO {table} VALUES ({places})", self._values)
        await self._connection.execute(f"VACUUM (ANALYZE) {table}")


class _JsonTemplate:
    """The JSON of a write as a template of format(): `%1$s` stands for its hash, `%2$s`, `%3$s` … for its new ids."""

    def __init__(self, recording: Recording) -> None:
        self._seen = recording.database_ids
        self.ids: dict[str, str] = {}

    def template_text(self, value: Any) -> str:
        """Return the template as text."""
        text = next((memory["text"] for memory in value.get("memories", ())), None)
        return re.sub(r"@@(\d+)@@", r"%\1$s", json.dumps(self._replace_fresh(value, text)).replace("%", "%%"))

    def _replace_fresh(self, value: Any, text: str) -> Any:
        if isinstance(value, dict):
            return {name: self._replace_fresh(part, text) for name, part in value.items()}
        if isinstance(value, list):
            return [self._replace_fresh(part, text) for part in value]
        if not isinstance(value, str) or value in self._seen:
            return value
        if _UUID.fullmatch(value):
            return self.ids.setdefault(value, f"@@{len(self.ids) + 2}@@")
        if value == text:
            return f"{text[:-40]} @@2@@"  # the same length, and a new text every time
        return r"\x@@1@@" if _HASH.fullmatch(value) else value


async def build_floor(site: Site, load: Load) -> Floor:
    """Record some real requests of the load and return their script."""
    recordings = await record_requests(site, load)
    connection = await asyncpg.connect(site.superuser_url)
    try:
        await register_vector(connection)
        await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
        return await _ScriptWriter(connection, load.kind, recordings).write_script()
    finally:
        await connection.close()


def replay_floor(site: Site, floor: Floor, clients: int, seconds: float, warmup: float) -> ReplayResult:
    """Run pgbench with `clients` clients as mnema_app. Raise RuntimeError if it fails."""
    postmaster = site.home.postgres.owner_pid() or 0
    with tempfile.TemporaryDirectory(prefix="mnema-floor-") as folder:
        script = Path(folder) / "floor.sql"
        script.write_text(floor.script, encoding="utf-8")
        _run_pgbench(site, floor, script, clients, max(1, round(warmup)), [])
        before = cpu_time.family_seconds(postmaster)
        output = _run_pgbench(
            site, floor, script, clients, max(1, round(seconds)), ["--log", f"--log-prefix={folder}/log"]
        )
        after = cpu_time.family_seconds(postmaster)
        files = Path(folder).glob("log.*")
        latencies = [int(line.split()[2]) / 1000 for file in files for line in file.read_text().splitlines()]
    rate = re.search(r"^tps = ([\d.]+)", output, re.MULTILINE)
    if rate is None or "number of failed transactions: 0 " not in output:
        raise RuntimeError(f"pgbench: {output.strip()}")
    return ReplayResult(latencies, float(rate[1]), cpu_time.milliseconds_each(before, after, len(latencies)))


def _run_pgbench(site: Site, floor: Floor, script: Path, clients: int, seconds: int, log: list[str]) -> str:
    where = ["--host", HOST, "--port", str(site.cluster.port), "--username", "mnema_app"]
    how = [
        "--no-vacuum",
        "--protocol=prepared",
        f"--client={clients}",
        f"--jobs={min(clients, 2)}",
        f"--time={seconds}",
    ]
    variables = [f"--define={name}={value}" for name, value in floor.variables.items()]
    result = subprocess.run(
        [site.home.postgres.binary_path("pgbench"), *where, *how, *variables, *log, f"--file={script}", DATABASE],
        env=os.environ | {"PGPASSWORD": site.home.load_passwords()["mnema_app"], "PGOPTIONS": "-c jit=off"},
        capture_output=True,
        text=True,
        timeout=seconds + GRACE_S,
        check=False,
    )
    if result.returncode != 0:
        raise RuntimeError(f"pgbench: {result.stderr.strip()}")
    return result.stdout
