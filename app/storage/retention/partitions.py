"""The partitions of events and receipts by week (`docs/adr/0025-old-weeks-are-dropped.md`)."""

from dataclasses import dataclass

from app.domain.retention.forgetting import ForgettingPolicy, LongestKept
from app.domain.trusted_time import TrustedTime
from app.storage.uow import UnitOfWork


@dataclass(frozen=True, slots=True)
class AddedPartitions:
    """The partitions that were made.

    `moved`: rows that left the default partitions. `skipped`: weeks of which the default partitions hold too many rows
    to move. `busy`: a lock could not be taken in time.
    """

    added: list[str]
    moved: int
    skipped: list[str]
    busy: bool


@dataclass(frozen=True, slots=True)
class OldWeek:
    """A week that no tenant keeps any longer. `rows`: the number by table."""

    week: str
    rows: dict[str, int]


class PartitionStorage:
    """Statements on partitions. None of them names a table: the functions know which ones there are."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    async def add_partitions(self) -> AddedPartitions:
        """Make the missing partitions of this week and the next ones."""
        done = [row["done"] for row in await self._uow.call_everywhere("SELECT add_partitions() AS done")]
        return AddedPartitions(
            added=[name for one in done for name in one["added"]],
            moved=sum(one["moved"] for one in done),
            skipped=[name for one in done for name in one["skipped"]],
            busy=any(one["busy"] for one in done),
        )

    async def longest_kept(self, defaults: ForgettingPolicy) -> LongestKept:
        """Return the longest time that any tenant keeps rows. `defaults`: the installation's policy."""
        rows = await self._uow.call_everywhere(
            "SELECT * FROM longest_kept($1, $2)", defaults.events_days, defaults.receipts_days
        )
        return LongestKept(max(row["events"] for row in rows), max(row["receipts"] for row in rows))

    async def drop_partitions(
        self, defaults: ForgettingPolicy, now: TrustedTime, *, dry_run: bool
    ) -> list[OldWeek] | None:
        """Drop the oldest week that no tenant keeps any longer; return it alone, or nothing if there is none.

        Each cluster drops one.

        Return None if a lock could not be taken in time. If `dry_run`, drop nothing and return all such weeks.
        """
        rows = await self._uow.call_everywhere(
            "SELECT drop_partitions($1, $2, $3, $4) AS weeks",
            defaults.events_days,
            defaults.receipts_days,
            now.moment,
            dry_run,
        )
        weeks = [OldWeek(**week) for row in rows for week in row["weeks"] or ()]
        return None if not weeks and any(row["weeks"] is None for row in rows) else weeks
