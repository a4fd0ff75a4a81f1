"""The copy of a tenant by PostgreSQL's logical replication: publication, slots and subscription of a move.

What real servers taught:
- A publication whose row filter names `tenant_id` needs it in each table's primary key, which all have.
- Partitioned tables are published as their root, so the two clusters may have other partitions.
- Identity columns take the copied values; the tables' own triggers and foreign keys do not act on what is replicated.
- The worker computes generated columns, checks and indexes as the subscription's owner, who must be allowed to call
  their functions. mnema_mover may, as a member of mnema_app.
- A worker that fails tries again every five seconds for ever. Its errors are counted; only the server's log has them.
- A killed server leaves its slots. A table that is being copied has one of its own, on the source.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import asyncpg

from app.domain.clusters.move import Move
from app.domain.clusters.room import Room
from app.domain.errors import WrongState
from app.storage.clusters.move_session import MOVER, OWNER, PARTITIONS, MoveSession

LEAST_SLOTS = 3
"""The slots that must be free on the source: one for the move, and some for the tables that are copied at once."""
LEAST_WORKERS = 2
DROP_S = 30.0
"""The seconds that a slot may stay in use by a sender that was told to end."""


@dataclass(frozen=True, slots=True)
class CopyState:
    """The state of a copy: `ready` of `tables` follow the source; `errors` of the workers since the beginning.

    `waits`: no worker of the target does what is next.
    """

    ready: int
    tables: int
    errors: int
    waits: bool


async def list_tables(session: MoveSession) -> dict[str, list[str]]:
    """Return the tables that move, with their stored columns as a comparison selects them."""
    return {row["name"]: row["columns"] for row in await session.fetch_rows("tables")}


async def find_problems(source: MoveSession, target: MoveSession, tables: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what forbids a move now, each as a sentence."""
    different = []
    for name, noun in (("schema", "schemas"), ("spaces", "embedding spaces")):
        if await source.fetch_rows(name) != await target.fetch_rows(name):
            different.append(noun)
    if await list_tables(target) != tables:
        different.append("tables")
    both = f"{source.cluster.name} and {target.cluster.name}"
    problems = [f"the {noun} of {both} differ: run `mnema migrate`" for noun in different]
    [there] = await source.fetch_rows("capacity")
    [here] = await target.fetch_rows("capacity")
    if there["wal_level"] != "logical":
        problems.append(f"wal_level of {source.cluster.name} is {there['wal_level']!r}; a move needs 'logical'")
    for setting, free in (("max_replication_slots", there["slots"]), ("max_wal_senders", there["senders"])):
        if free < LEAST_SLOTS:
            problems.append(f"{source.cluster.name} has {free} of {LEAST_SLOTS} free places: raise {setting} there")
    if here["workers"] < LEAST_WORKERS:
        problems.append(
            f"{target.cluster.name} has {here['workers']} of {LEAST_WORKERS} free workers: raise "
            "max_logical_replication_workers and max_worker_processes there"
        )
    return problems


async def estimate_bytes(source: MoveSession, rows: Mapping[str, int]) -> int:
    """Return about how many bytes the tenant's `rows` by table take: its share of each table with the indexes."""
    sizes = await source.fetch_rows("table_sizes", list(rows))
    return sum(row["bytes"] * rows[row["name"]] // max(row["rows"], rows[row["name"]], 1) for row in sizes)


async def read_room(target: MoveSession) -> Room:
    """Return how large the target's database is, and may be."""
    used = await target.fetch_value("database_size")
    assert isinstance(used, int)
    return Room(used, target.cluster.max_bytes)


async def add_missing_weeks(source: MoveSession, target: MoveSession) -> None:
    """Make partitions on the target for the weeks that the source has, so that old rows lie in their week there too."""
    known = {(tuple(row["tables"]), row["week"]) for row in await target.fetch_rows("weeks", role=PARTITIONS)}
    for row in await source.fetch_rows("weeks", role=PARTITIONS):
        if (tuple(row["tables"]), row["week"]) not in known:
            await target.fetch_rows("add_week", row["tables"], row["keys"], row["week"], role=PARTITIONS)


async def start_copy(source: MoveSession, target: MoveSession, move: Move, tables: Sequence[str]) -> int:
    """Create publication, slot and subscription, as far as they are missing; return the subscription's oid."""
    if not await source.fetch_value("publication", move.name):
        filtered = ", ".join(f"public.\"{table}\" WHERE (tenant_id = '{move.tenant_id}')" for table in tables)
        async with source.acting(OWNER) as connection:
            await connection.execute(
                f'CREATE PUBLICATION "{move.name}" FOR TABLE {filtered} WITH (publish_via_partition_root = true)'
            )
    if (known := await find_subscription(target, move)) is not None:
        return known
    if not await source.fetch_value("slot", move.name):
        await source.fetch_value("create_slot", move.name, role=MOVER)
    async with target.acting(MOVER) as connection:
        await connection.execute(
            f'CREATE SUBSCRIPTION "{move.name}" CONNECTION {quote_literal(source.cluster.mover_url)} '
            f'PUBLICATION "{move.name}" WITH (create_slot = false, run_as_owner = true)'
        )
    made = await find_subscription(target, move)
    assert made is not None
    return made


async def find_subscription(target: MoveSession, move: Move) -> int | None:
    """Return the oid of the move's subscription, None if there is none."""
    row = await target.fetch_row("subscription", move.name)
    return None if row is None else int(row["oid"])


async def read_copy_state(target: MoveSession, subscription: int) -> CopyState:
    """Return how far the copy is."""
    row = await target.fetch_row("copy_states", subscription)
    assert row is not None
    return CopyState(row["ready"], row["tables"], row["errors"], row["waits"])


async def explain_waiting(target: MoveSession) -> str:
    """Return why no worker of the target has copied for long."""
    [here] = await target.fetch_rows("capacity")
    name = target.cluster.name
    return (
        f"no worker of {name} copies, and {here['workers']} of its workers are free: raise"
        " max_logical_replication_workers and max_worker_processes there, let max_sync_workers_per_subscription be more"
        f" than 0, and move fewer tenants at once; otherwise the log of PostgreSQL in {name} says what fails"
    )


async def find_lost_slot(source: MoveSession, move: Move) -> str | None:
    """Return why the source no longer keeps the log that the move needs, None if it does.

    The subscription would ask for it for ever, and its errors are not counted.
    """
    row = await source.fetch_row("slot_state", move.name)
    if row is None:
        return f"the slot of the move is gone from {source.cluster.name}: somebody dropped it"
    if row["wal_status"] == "lost":
        return (
            f"{source.cluster.name} no longer keeps the log that the move needs: max_slot_wal_keep_size is "
            f"{row['bound']} there; raise it, or move the tenant when less is written"
        )
    return None


async def drop_copying(source: MoveSession, target: MoveSession, move: Move) -> None:
    """Drop the move's subscription, its slots and its publication, as far as they are there."""
    subscription = await find_subscription(target, move)
    if subscription is not None:
        async with target.acting(MOVER) as connection:
            await connection.execute(f'ALTER SUBSCRIPTION "{move.name}" DISABLE')
            await connection.execute(f'ALTER SUBSCRIPTION "{move.name}" SET (slot_name = NONE)')
        async with target.acting(MOVER) as connection:
            await connection.execute(f'DROP SUBSCRIPTION "{move.name}"')
    await drop_slots(source, move.name, subscription or move.details.get("subscription", 0))
    if await source.fetch_value("publication", move.name):
        async with source.acting(OWNER) as connection:
            await connection.execute(f'DROP PUBLICATION "{move.name}"')


async def list_left_overs(session: MoveSession) -> list[str]:
    """Return the names of the publications, subscriptions and slots of moves in this cluster."""
    return [row["name"] for row in await session.fetch_rows("left_overs")]


async def drop_slots(source: MoveSession, name: str, subscription: int) -> None:
    """Drop the slot `name`, and those of tables that the subscription with this oid copies.

    End the senders that still use them, such as those of a target that was killed.
    """
    until = time.monotonic() + DROP_S
    while slots := await source.fetch_rows("slots", name, subscription, role=MOVER):
        for slot in slots:
            try:
                if slot["active_pid"] is not None:
                    await source.fetch_value("end_sender", slot["active_pid"], role=MOVER)
                else:
                    await source.fetch_value("drop_slot", slot["slot_name"], role=MOVER)
            except (asyncpg.ObjectInUseError, asyncpg.UndefinedObjectError):
                pass  # a sender came or went meanwhile
        if time.monotonic() > until:
            raise WrongState(f"slots of {source.cluster.name} are still in use; run the command again")
        await asyncio.sleep(0.05)


def quote_literal(text: str) -> str:
    """Return a literal of PostgreSQL; utility statements take no parameters."""
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"
