"""The audit of the directory against the file of the clusters and their databases."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from app.domain.errors import MnemaError
from app.storage.clusters.homes import Homes
from app.storage.statements import load_statements
from app.storage.uow import Row, UnitOfWork

MAX_NAMED: Final = 3
"""The tenants that a fault names; it counts the others."""
MAX_READ: Final = 1_000
"""The tenants of a cluster that are read."""
_SQL: Final = load_statements("clusters/audit.sql")


async def list_misplaced(homes: Homes) -> list[str]:
    """Return what is wrong, each with its remedy.

    These are clusters that the file misses, clusters that do not follow the directory, and tenants without a home. It
    reads all placements, so it is for an operator who asks. Raise DatabaseUnavailable if no cluster answers.
    """
    slots = await homes.ask_each(lambda part: part.call_definer(_SQL["subscribers"]))
    return [
        *await _find_unnamed(homes, slots),
        *await _find_standing(homes, slots),
        *await _find_unplaced(homes),
        *await _find_homeless(homes),
    ]


async def _find_unnamed(homes: Homes, slots: Mapping[str, Sequence[Row] | MnemaError]) -> list[str]:
    counts = await homes.ask_any(lambda part: part.call_definer(_SQL["named"]))
    tenants = {row["cluster"]: row["tenants"] for row in counts}
    subscribed = [row["cluster"] for rows in slots.values() if not isinstance(rows, MnemaError) for row in rows]
    return [
        f"the directory knows the cluster {name} with {tenants.get(name, 0)} tenants, and MNEMA_CLUSTERS does not name"
        f" it: add it to the file{'' if name in tenants else f', or drop its slot mnema_directory_{name}'}"
        for name in sorted({*tenants, *subscribed} - homes.parts.keys())
    ]


async def _find_standing(homes: Homes, slots: Mapping[str, Sequence[Row] | MnemaError]) -> list[str]:
    """Find the clusters whose copy of the directory stands still. One that does not answer may still have a slot."""
    first, *others = homes.parts
    if isinstance(rows := slots[first], MnemaError):
        return []
    lost = {row["cluster"]: row["is_lost"] for row in rows}
    follow = await homes.ask_each(lambda part: part.call_definer(_SQL["follows"]))
    faults = []
    for name in others:
        answer = follow[name]
        slot = f"its slot mnema_directory_{name} in {first}"
        if name not in lost:
            why = f"{slot} is gone"
        elif lost[name]:
            why = f"{slot} is lost, because its log was thrown away (max_slot_wal_keep_size)"
        elif not isinstance(answer, MnemaError) and not all(row["follows"] for row in answer):
            why = "its subscription mnema_directory is gone or disabled"
        else:
            continue
        faults.append(f"the cluster {name} no longer follows the directory: {why}: run `mnema migrate`")
    return faults


async def _find_unplaced(homes: Homes) -> list[str]:
    rows = await homes.ask_any(lambda part: part.call_definer(_SQL["unplaced"], MAX_READ))
    if not rows:
        return []
    unplaced = _name_some([row["id"] for row in rows])
    why = "the directory does not place them, as if a server without MNEMA_CLUSTERS had created them"
    return [f"{unplaced}: {why}: no cluster takes their writes, so delete them and create them again"]


async def _find_homeless(homes: Homes) -> list[str]:
    """Find the tenants that are not at home where the directory places them, and do not move."""

    async def ask(part: UnitOfWork) -> Sequence[Row]:
        return await part.call_definer(_SQL["homeless"], MAX_READ)

    answers = await homes.ask_each(ask)
    found = [
        (name, [row["tenant_id"] for row in rows])
        for name, rows in answers.items()
        if not isinstance(rows, MnemaError) and rows
    ]
    if not found:
        return []
    moving = {row["tenant_id"] for row in await homes.directory.call_definer(_SQL["moving"])}
    faults = []
    for name, tenants in found:
        homeless = [tenant for tenant in tenants if tenant not in moving and await _is_placed(homes, tenant, name)]
        if homeless:
            why = "is not their home, as after a restore of a backup from before a move: restore its newest one"
            faults.append(f"{_name_some(homeless)}: the directory places them in {name}, which {why}")
    return faults


async def _is_placed(homes: Homes, tenant_id: UUID, cluster: str) -> bool:
    """Return True if the directory itself places the tenant there: the cluster's own copy may be behind."""
    place = await homes.find_place(tenant_id)
    return place is not None and place.cluster == cluster


def _name_some(tenants: Sequence[UUID]) -> str:
    named = ", ".join(map(str, tenants[:MAX_NAMED]))
    count = f"{len(tenants)}{' or more' if len(tenants) == MAX_READ else ''}"
    return f"{count} tenants without a home ({named}{', …' if len(tenants) > MAX_NAMED else ''})"
