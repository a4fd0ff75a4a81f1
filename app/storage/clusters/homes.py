"""The homes of tenants, as this process knows them, and the writes that concern several clusters."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

import structlog

from app.domain.clusters.move import FORWARD_ONLY, MoveStep, OwedErasures, StoppedMove
from app.domain.clusters.room import Room
from app.domain.errors import InvalidInput, MnemaError
from app.domain.outages import ConnectionsBusy, DatabaseUnavailable
from app.domain.principal import Principal
from app.storage.statements import load_statements
from app.storage.uow import Row, UnitOfWork, WriteTx

log = structlog.get_logger(__name__)
T = TypeVar("T")

ANSWER_S: Final = 3.0
"""Seconds that a cluster may take where another one could answer, or where several are asked."""
REST_S: Final = 5.0
"""Seconds for which a cluster that did not answer is asked last."""
COPY_S: Final = 5.0
"""Seconds that a new tenant or key may take to reach the tenant's home."""
PAGE: Final = 5_000
"""Placements that a statement reads, because all of them would take longer than a cluster may take to answer."""
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
_POLL_S: Final = 0.02
_SQL: Final = load_statements("clusters/homes.sql")


class Place(NamedTuple):
    """The home of a tenant. `region`: the one that the tenant is bound to, or None."""

    cluster: str
    region: str | None


class Revocation(NamedTuple):
    """The result of a revocation. `was_valid`: the key was valid somewhere; `unreached`: clusters to be told later."""

    was_valid: bool
    unreached: tuple[str, ...]


class Homes:
    """The places of tenants. Reads about them go to the directory first, and to its copies while it is away."""

    def __init__(
        self,
        parts: Mapping[str, UnitOfWork],
        directories: Mapping[str, UnitOfWork],
        regions: Mapping[str, str | None],
        bounds: Mapping[str, int | None],
    ) -> None:
        """Take two units of work for each cluster, in the order of the file.

        Those of `parts` serve tenants that are at home there, those of `directories` do not ask. `bounds`: the most
        bytes of each cluster's database, if it has a bound.
        """
        self.parts = parts
        self.directories = directories
        self.regions = regions
        self.bounds = bounds
        self._homes: dict[UUID, str] = {}
        self._since: datetime | None = None
        self._resting: dict[str, float] = {}

    @property
    def directory(self) -> UnitOfWork:
        """The units of work where the directory is written."""
        return next(iter(self.directories.values()))

    def known_home(self, tenant_id: UUID) -> str | None:
        """Return the cluster where the tenant was at home a second ago, None if it is not known."""
        return self._homes.get(tenant_id)

    def list_homes(self) -> Mapping[UUID, str]:
        """Return the known cluster of each tenant."""
        return self._homes

    async def list_draining(self) -> dict[str, bool | MnemaError]:
        """Return by name whether a cluster takes no new tenants, or what is wrong with it."""
        answers = await self.ask_each(lambda part: part.call_definer(_SQL["draining"]))
        return {
            name: answer if isinstance(answer, MnemaError) else not answer or bool(answer[0]["draining"])
            for name, answer in answers.items()
        }

    async def list_misnamed(self) -> list[str]:
        """Return what the file says of the clusters that answer, and their databases do not."""
        answers = await self.ask_each(lambda part: part.call_definer(_SQL["identity"]))
        first = next(iter(answers))
        faults = []
        for name, answer in answers.items():
            if isinstance(answer, MnemaError) or not answer:
                continue
            if answer[0]["name"] != name:
                faults.append(f"{name}: its database is the cluster {answer[0]['name']}: mend the file")
            elif answer[0]["keeps_directory"] != (name == first):
                keeps = "keeps" if answer[0]["keeps_directory"] else "does not keep"
                faults.append(f"{name}: it {keeps} the directory: the cluster that does must be the first in the file")
        return faults

    async def list_rooms(self) -> dict[str, Room | None]:
        """Return the room of each cluster by name; None if it does not answer."""
        answers = await self.ask_each(lambda part: part.call_definer(_SQL["size"]))
        return {
            name: None if isinstance(answer, MnemaError) else Room(answer[0]["size"], self.bounds[name])
            for name, answer in answers.items()
        }

    async def ask_any(self, question: Callable[[UnitOfWork], Awaitable[T]], first: str | None = None) -> T:
        """Ask the clusters one after the other until one answers: `first`, then in their order.

        Raise DatabaseUnavailable if none does.
        """
        now = time.monotonic()
        names = sorted(self.directories, key=lambda name: (self._resting.get(name, 0.0) > now, name != first))
        for name in names:
            try:
                async with asyncio.timeout(ANSWER_S):
                    return await question(self.directories[name])
            except ConnectionsBusy:
                continue
            except (DatabaseUnavailable, TimeoutError):
                self._resting[name] = time.monotonic() + REST_S
        raise DatabaseUnavailable("no cluster answers; try again")

    async def ask_each(self, question: Callable[[UnitOfWork], Awaitable[T]]) -> dict[str, T | MnemaError]:
        """Ask all clusters at once, for ANSWER_S seconds; return the answers, or what is wrong, by name."""

        async def ask(part: UnitOfWork) -> T | MnemaError:
            try:
                async with asyncio.timeout(ANSWER_S):
                    return await question(part)
            except TimeoutError:
                return DatabaseUnavailable()
            except MnemaError as error:
                return error

        answers = await asyncio.gather(*map(ask, self.directories.values()))
        return dict(zip(self.directories, answers, strict=True))

    def part_of(self, cluster: str) -> UnitOfWork:
        """Return the units of work of a cluster. Raise DatabaseUnavailable if the file does not name it."""
        if (part := self.parts.get(cluster)) is None:
            raise DatabaseUnavailable(f"MNEMA_CLUSTERS does not name the cluster {cluster}")
        return part

    async def list_reachable(self) -> list[str]:
        """Return the clusters that answer now."""
        answers = await self.ask_each(lambda part: part.call_definer("SELECT FROM cluster"))
        return [name for name, answer in answers.items() if not isinstance(answer, MnemaError)]

    async def list_stopped_moves(self, *, requests: bool = False) -> list[StoppedMove]:
        """Return the unfinished moves that no process runs.

        `requests`: also those that nobody has begun, unless a process moves another tenant. Raise DatabaseUnavailable
        if the directory is away.
        """
        rows = await self.directory.call_definer(_SQL["stopped_moves"], requests)
        return [StoppedMove(row["tenant_id"], row["target"], MoveStep(row["step"])) for row in rows]

    async def find_place(self, tenant_id: UUID) -> Place | None:
        """Return the place that the directory names now; None for an unknown tenant."""

        async def ask(part: UnitOfWork) -> Row | None:
            async with part.read(Principal(tenant_id)) as tx:
                return await tx.fetchrow(_SQL["home"], tenant_id)

        row = await self.ask_any(ask)
        if row is None:
            self._homes.pop(tenant_id, None)
            return None
        self._homes[tenant_id] = row["cluster"]
        return Place(row["cluster"], row["region"])

    async def load_changes(self) -> None:
        """Read the places that changed since the last call, in pages; at first all. Raise DatabaseUnavailable.

        One cluster is read to the end. What it learns meanwhile is not older than the time `settled`.
        """

        async def begin(part: UnitOfWork) -> tuple[UnitOfWork, datetime | None]:
            rows = await part.call_definer(_SQL["settled"])
            return part, rows[0]["settled"] if rows else None

        part, settled = await self.ask_any(begin)
        position = self._since or _BEGINNING, UUID(int=0)
        while rows := await part.call_definer(_SQL["changed"], *position, PAGE):
            for row in rows:
                self._homes[row["tenant_id"]] = sys.intern(row["cluster"])
            position = rows[-1]["changed_at"], rows[-1]["tenant_id"]
            if len(rows) < PAGE:
                break
        self._since = settled

    async def choose_home(self, cluster: str | None, region: str | None) -> str:
        """Return the cluster of a new tenant: the named one, or that of the region with the fewest tenants.

        Raise InvalidInput if there is none, or DatabaseUnavailable.
        """
        names = [name for name, where in self.regions.items() if region in (None, where)]
        if not names:
            known = ", ".join(sorted({where for where in self.regions.values() if where})) or "none"
            raise InvalidInput(f"no cluster is in the region {region!r}; the regions are: {known}")
        if cluster is not None:
            if cluster not in names:
                raise InvalidInput(f"no such cluster {cluster!r}; it must be one of: {', '.join(names)}")
            names = [cluster]
        draining = await self.list_draining()
        usable = [name for name in names if draining[name] is False]
        if not usable:
            states = ", ".join(f"{name} is {'drained' if draining[name] is True else 'away'}" for name in names)
            raise DatabaseUnavailable(f"no cluster takes the new tenant: {states}; nothing was created")
        counts = {
            row["cluster"]: row["tenants"] for row in await self.ask_any(lambda part: part.call_definer(_SQL["counts"]))
        }
        return min(usable, key=lambda name: counts.get(name, 0))

    async def place_tenant(self, tx: WriteTx, tenant_id: UUID, place: Place) -> None:
        """Write the placement of a new tenant, in a transaction of the directory."""
        await tx.execute(_SQL["place"], tenant_id, place.cluster, place.region)

    async def settle_tenant(self, tenant_id: UUID, cluster: str) -> bool:
        """Make a new tenant at home in its cluster; return False if the directory has not reached the cluster yet."""
        self._homes[tenant_id] = cluster
        async with self.directories[cluster].write(Principal(tenant_id)) as tx:
            await tx.execute(_SQL["settle"], tenant_id)
            return bool(await tx.fetch(_SQL["has_home"], tenant_id))

    async def await_settled(self, tenant_id: UUID, cluster: str) -> None:
        """Settle a new tenant. Raise DatabaseUnavailable if the cluster does not know it in COPY_S seconds.

        The tenant exists then, and the first request that finds its placement there settles it.
        """
        try:
            await _repeat(lambda: self.settle_tenant(tenant_id, cluster))
        except DatabaseUnavailable as error:
            raise DatabaseUnavailable(
                f"the tenant was created; its cluster {cluster} does not know it yet, and serves it when it does"
            ) from error

    async def await_key(self, tenant_id: UUID, key_id: UUID) -> None:
        """Wait until a new key is known where its tenant is at home, for COPY_S seconds at most."""
        if (place := await self.find_place(tenant_id)) is None:
            return
        part = self.directories[place.cluster]

        async def is_there() -> bool:
            async with part.read(Principal(tenant_id)) as tx:
                return bool(await tx.fetch(_SQL["has_key"], tenant_id, key_id))

        try:
            await _repeat(is_there)
        except DatabaseUnavailable:
            log.warning("key_not_copied_yet", tenant=str(tenant_id), key_id=str(key_id), cluster=place.cluster)

    async def note_erasure(self, principal: Principal) -> list[str]:
        """Note in the directory that copies of the tenant from before a move owe an erasure; return their clusters.

        These include the clusters that do not answer.
        """
        answers = await self.ask_copies(principal.tenant_id)
        copies = [name for name, has_copy in answers.items() if has_copy is not False]
        if copies:
            try:
                async with self.directory.write(principal) as tx:
                    await tx.execute(_SQL["owe_erasure"], principal.tenant_id, copies, sorted(FORWARD_ONLY))
            except MnemaError as error:  # the erasure is done, and its answer names the copies
                log.warning("erasure_not_noted", tenant=str(principal.tenant_id), detail=error.detail)
        return copies

    async def list_owed(self) -> list[OwedErasures]:
        """Return the copies that owe erasures. Raise DatabaseUnavailable if the directory is away."""
        rows = await self.directory.call_definer(_SQL["owed"])
        return [OwedErasures(row["tenant_id"], row["cluster"], row["erasures"]) for row in rows]

    async def ask_copies(self, tenant_id: UUID) -> dict[str, bool | None]:
        """Return by name whether a cluster has a copy of the tenant from before a move; None if it does not answer."""

        async def ask(part: UnitOfWork) -> bool:
            async with part.read(Principal(tenant_id)) as tx:
                return bool(await tx.fetch(_SQL["left"], tenant_id))

        answers = await self.ask_each(ask)
        return {name: None if isinstance(answer, MnemaError) else answer for name, answer in answers.items()}

    async def revoke_key(self, tenant_id: UUID, key_id: UUID) -> Revocation:
        """Revoke a key in every cluster that answers, and in the directory. Raise DatabaseUnavailable if none does."""

        async def note(part: UnitOfWork) -> bool:
            async with part.write(Principal(tenant_id)) as tx:
                was_valid = bool(await tx.fetch(_SQL["note_revocation"], tenant_id, key_id))
                if part is self.directory:
                    await tx.execute(_SQL["revoke"], tenant_id, key_id, None)
                return was_valid

        answers = await self.ask_each(note)
        reached = [answer for answer in answers.values() if not isinstance(answer, MnemaError)]
        if not reached:
            raise DatabaseUnavailable("no cluster answers; the key is not revoked")
        unreached = tuple(name for name, answer in answers.items() if isinstance(answer, MnemaError))
        return Revocation(any(reached), unreached)

    async def spread_revocations(self) -> None:
        """Bring revocations that some clusters know to the directory, and to the clusters that were away."""
        found = await self.ask_each(lambda part: part.call_definer(_SQL["pending"]))
        known = {name: rows for name, rows in found.items() if not isinstance(rows, MnemaError)}
        pending = {(row["tenant_id"], row["key_id"]): row["revoked_at"] for rows in known.values() for row in rows}
        for name in known:
            part = self.directories[name]
            for (tenant_id, key_id), revoked_at in pending.items():
                async with part.write(Principal(tenant_id)) as tx:
                    await tx.fetch(_SQL["note_revocation"], tenant_id, key_id)
                    if part is self.directory:
                        await tx.execute(_SQL["revoke"], tenant_id, key_id, revoked_at)


async def _repeat(is_done: Callable[[], Awaitable[bool]]) -> None:
    """Ask until the answer is yes. Raise DatabaseUnavailable after COPY_S seconds."""
    try:
        async with asyncio.timeout(COPY_S):
            while True:
                if await is_done():
                    return
                await asyncio.sleep(_POLL_S)
    except TimeoutError as error:
        raise DatabaseUnavailable("the directory has not reached the tenant's cluster yet; try again") from error
