"""What operators watch, in one text (SPEC §19)."""

import asyncio
import time
from collections import Counter

from app.config.logs import lines_lost
from app.domain.errors import MnemaError
from app.domain.principal import Principal
from app.providers.metrics import CONTENT_TYPE, Metrics
from app.storage.engine import Engine
from app.storage.jobs.jobs import JobStorage
from app.storage.tenancy.tenants import TenantStorage
from app.storage.uow import UnitOfWork
from app.usecases.tenancy.limits import Limits

__all__ = ["CONTENT_TYPE", "ReadMetrics"]
FRESH_S = 15.0
PATIENCE_S = 2.0
MOST_TENANTS = 500


class ReadMetrics:
    """What was counted as it happened, with the state of pool, limits and jobs at this moment."""

    def __init__(self, metrics: Metrics, uow: UnitOfWork, engine: Engine, limits: Limits, jobs: JobStorage) -> None:
        self._metrics = metrics
        self._uow = uow
        self._jobs = jobs
        self._tenants = TenantStorage(uow)
        self._behind: float | None = None
        self._tally: Counter[tuple[str, str]] = Counter()
        self._asked = float("-inf")
        self._asking = asyncio.Lock()
        _watch_pool(metrics, engine)
        watch = metrics.register_collector
        watch(
            "counter",
            "mnema_limit_refusals",
            "What limits refused, by what is limited and of whom.",
            lambda: [((what, of), count) for (what, of), count in limits.refused.items()],
            ("what", "of"),
        )
        watch("gauge", "mnema_limits_away", "1 while nothing is refused.", lambda: [((), float(limits.away))])
        watch("counter", "mnema_log_lines_lost", "Lines that stderr did not take.", lambda: [((), lines_lost())])
        watch("counter", "mnema_limits_unenforced", "Admitted unchecked.", lambda: [((), limits.unenforced)])
        watch(
            "gauge",
            "mnema_jobs_oldest_due_seconds",
            "How long the oldest due job has waited; missing while the database does not tell.",
            lambda: [] if self._behind is None else [((), self._behind)],
        )
        watch(
            "gauge",
            "mnema_jobs",
            "Jobs of all tenants by kind and state; missing where there are more than 500 tenants.",
            lambda: list(self._tally.items()),
            ("kind", "state"),
        )

    async def render_text(self) -> bytes:
        """In Prometheus' text format. The database is asked every 15 seconds at most, and not waited for long."""
        async with self._asking:
            if time.monotonic() - self._asked > FRESH_S:
                self._behind = await self._jobs_behind()
                self._tally = await self._count_jobs()
                self._asked = time.monotonic()
        return self._metrics.render_text()

    async def _jobs_behind(self) -> float | None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                rows = await self._uow.call_definer("SELECT jobs_behind() AS seconds")
        except (MnemaError, TimeoutError):
            return None
        return rows[0]["seconds"] or 0.0

    async def _count_jobs(self) -> Counter[tuple[str, str]]:
        """Tenant by tenant: nothing that a server may do looks at all of them. A part of them would be no number."""
        counted: Counter[tuple[str, str]] = Counter()
        try:
            async with asyncio.timeout(PATIENCE_S):
                tenants = await self._tenants.list_tenants()
                if len(tenants) > MOST_TENANTS:
                    return Counter()
                for tenant in tenants:
                    for kind, state, jobs in await self._jobs.tally_jobs(Principal(tenant.id)):
                        counted[kind, state] += jobs
        except (MnemaError, TimeoutError):
            return Counter()
        return counted


def _watch_pool(metrics: Metrics, engine: Engine) -> None:
    watch, shares = metrics.register_collector, engine.shares
    watch("gauge", "mnema_db_pool_size", "Connections open.", lambda: [((), engine.connection_count)])
    watch("gauge", "mnema_db_pool_limit", "Connections at most.", lambda: [((), shares.limit)])
    watch("gauge", "mnema_db_pool_in_use", "Connections at work.", lambda: [((), shares.in_use)])
    watch("gauge", "mnema_db_pool_waiting", "Who waits for one.", lambda: [((), shares.waiting_count)])
    watch("counter", "mnema_db_pool_waits", "How often one had to wait.", lambda: [((), shares.waits)])
