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
        rows = await self._uow.call_definer("SELECT add_partitions() AS done")
        return AddedPartitions(**rows[0]["done"])

    async def longest_kept(self, defaults: ForgettingPolicy) -> LongestKept:
        """Return the longest time that any tenant keeps rows. `defaults`: the installation's policy."""
        rows = await self._uow.call_definer(
            "SELECT * FROM longest_kept($1, $2)", defaults.events_days, defaults.receipts_days
        )
        return LongestKept(**rows[0])

    async def drop_partitions(
        self, defaults: ForgettingPolicy, now: TrustedTime, *, dry_run: bool
    ) -> list[OldWeek] | None:
        """Drop the oldest week that no tenant keeps any longer; return it alone, or nothing if there is none.

        Return None if a lock could not be taken in time. If `dry_run`, drop nothing and return all such weeks.
        """
        rows = await self._uow.call_definer(
            "SELECT drop_partitions($1, $2, $3, $4) AS weeks",
            defaults.events_days,
            defaults.receipts_days,
            now.moment,
            dry_run,
        )
        weeks = rows[0]["weeks"]
        return None if weeks is None else [OldWeek(**week) for week in weeks]
