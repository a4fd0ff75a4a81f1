"""Upkeep of the partitions of events and receipts: make those of the next weeks, drop those that nobody keeps."""

from dataclasses import dataclass, field

from app.config.tenant_policies import TenantPolicies
from app.ports import TrustedClock
from app.storage.retention.partitions import OldWeek, PartitionStorage


@dataclass(slots=True)
class PartitionReport:
    """The result of a run, or of a dry run.

    `added`: names of new partitions. `dropped`: weeks with the number of rows by table, of all tenants. `moved`: rows
    that left the default partitions. `skipped`: weeks whose rows stay in the default partitions. `busy`: a lock was not
    free in time, so the next run continues.
    """

    dry_run: bool
    added: list[str] = field(default_factory=list)
    dropped: list[OldWeek] = field(default_factory=list)
    moved: int = 0
    skipped: list[str] = field(default_factory=list)
    busy: bool = False

    @property
    def is_empty(self) -> bool:
        """True if there was nothing to do."""
        return not (self.added or self.dropped or self.skipped or self.busy)


class KeepPartitions:
    """The upkeep for the whole installation. Any number of processes may run it at the same time."""

    def __init__(self, storage: PartitionStorage, policies: TenantPolicies, clock: TrustedClock) -> None:
        self._storage = storage
        self._policies = policies
        self._clock = clock

    async def keep_partitions(self, *, dry_run: bool = False) -> PartitionReport:
        """Make the missing partitions and drop the old ones, each week in a transaction of its own.

        While this waits for a lock, it delays other statements by at most a fifth of a second. If `dry_run`, only
        report what would be dropped. Raise ClockSkew, with nothing dropped, if the clocks cannot be trusted.
        """
        report = PartitionReport(dry_run)
        if not dry_run:
            done = await self._storage.add_partitions()
            report.added = done.added
            report.moved = done.moved
            report.skipped = done.skipped
            report.busy = done.busy
        now = await self._clock.trusted_time()
        while True:
            weeks = await self._storage.drop_partitions(self._policies.defaults.lifecycle, now, dry_run=dry_run)
            report.dropped += weeks or []
            report.busy |= weeks is None
            if dry_run or not weeks:
                return report
