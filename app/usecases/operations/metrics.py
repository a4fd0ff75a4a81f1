"""Metrics for operators, in the Prometheus text format (`docs/limits.md`)."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Literal

from app.config.logs import lines_lost
from app.domain.errors import MnemaError
from app.domain.principal import Principal
from app.providers.metrics import CONTENT_TYPE, Metrics
from app.providers.worker_metrics import WorkerMetrics, join_metrics
from app.storage.clusters.routing import ClusterUnitOfWork
from app.storage.engine import Engine
from app.storage.jobs.jobs import JobStorage
from app.storage.replicas import Replicas
from app.storage.tenancy.tenants import TenantStorage
from app.storage.uow import UnitOfWork
from app.usecases.tenancy.limits import Limits

__all__ = ["CONTENT_TYPE", "ReadMetrics"]
FRESH_S = 15.0
PATIENCE_S = 2.0
MOST_TENANTS = 500


class ReadMetrics:
    """The use-case that renders the metrics: counters, and the current state of pool, limits and jobs."""

    def __init__(
        self,
        metrics: Metrics,
        others: WorkerMetrics,
        uow: UnitOfWork,
        engines: Mapping[str, Engine],
        limits: Limits,
        jobs: JobStorage,
        replicas: Mapping[str, Replicas],
    ) -> None:
        """`engines` and `replicas` are those of each cluster by name; without clusters there is one with no name."""
        self._metrics = metrics
        self._others = others
        self._uow = uow
        self._jobs = jobs
        self._tenants = TenantStorage(uow)
        self._behind: float | None = None
        self._stopped_moves: int | None = None
        self._tally: Counter[tuple[str, str]] = Counter()
        self._refreshed_at = float("-inf")
        self._refreshing = asyncio.Lock()
        _watch_pools(metrics, engines)
        _watch_limits(metrics, limits)
        if any(found.members for found in replicas.values()):
            _watch_replicas(metrics, replicas)
        watch = metrics.register_collector
        watch("counter", "mnema_log_lines_lost", "Log lines that stderr did not accept.", lambda: [((), lines_lost())])
        watch(
            "gauge",
            "mnema_jobs_oldest_due_seconds",
            "Seconds the oldest due job has waited; missing while the database does not answer.",
            lambda: [] if self._behind is None else [((), self._behind)],
            shared=True,
        )
        watch(
            "gauge",
            "mnema_moves_stopped",
            "Moves of tenants that no process runs; missing without clusters and while their directory is away.",
            lambda: [] if self._stopped_moves is None else [((), self._stopped_moves)],
            shared=True,
        )
        watch(
            "gauge",
            "mnema_jobs",
            "Jobs of all tenants by kind and state; missing if there are more than 500 tenants.",
            lambda: list(self._tally.items()),
            ("kind", "state"),
            shared=True,
        )

    async def render_text(self) -> bytes:
        """Return the metrics of all workers of this server as text.

        Query the database at most every FRESH_S seconds, for PATIENCE_S at most.
        """
        async with self._refreshing:
            if time.monotonic() - self._refreshed_at > FRESH_S:
                self._behind = await self._jobs_behind()
                self._tally = await self._count_jobs()
                self._stopped_moves = await self._count_stopped_moves()
                self._refreshed_at = time.monotonic()
        texts = [self._metrics.render_text(), *await self._others.collect_texts()]
        return join_metrics(texts) + self._metrics.render_shared()

    async def _jobs_behind(self) -> float | None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                rows = await self._uow.call_everywhere("SELECT jobs_behind() AS seconds")
        except (MnemaError, TimeoutError):
            return None
        return max(row["seconds"] or 0.0 for row in rows)

    async def _count_stopped_moves(self) -> int | None:
        if not isinstance(self._uow, ClusterUnitOfWork):
            return None
        try:
            async with asyncio.timeout(PATIENCE_S):
                return len(await self._uow.homes.list_stopped_moves())
        except (MnemaError, TimeoutError):
            return None

    async def _count_jobs(self) -> Counter[tuple[str, str]]:
        """Count jobs tenant by tenant, because a server may not read across tenants. Return nothing if it fails."""
        counts: Counter[tuple[str, str]] = Counter()
        try:
            async with asyncio.timeout(PATIENCE_S):
                tenants = await self._tenants.list_reachable_tenants()
                if len(tenants) > MOST_TENANTS:
                    return Counter()
                for tenant in tenants:
                    for kind, state, jobs in await self._jobs.tally_jobs(Principal(tenant.id)):
                        counts[kind, state] += jobs
        except (MnemaError, TimeoutError):
            return Counter()
        return counts


def _watch_pools(metrics: Metrics, engines: Mapping[str, Engine]) -> None:
    """Watch each pool. Where there are clusters, a label names them."""
    names = () if "" in engines else ("cluster",)

    def watch(kind: Literal["counter", "gauge"], metric: str, text: str, value: Callable[[Engine], float]) -> None:
        metrics.register_collector(
            kind, metric, text, lambda: [((name,) if names else (), value(one)) for name, one in engines.items()], names
        )

    watch("gauge", "mnema_db_pool_size", "Open connections.", lambda engine: engine.connection_count)
    watch("gauge", "mnema_db_pool_limit", "Maximum of connections.", lambda engine: engine.shares.limit)
    watch("gauge", "mnema_db_pool_in_use", "Connections in use.", lambda engine: engine.shares.in_use)
    watch(
        "gauge",
        "mnema_db_pool_waiting",
        "Requests that wait for a connection.",
        lambda engine: engine.shares.waiting_count,
    )
    watch(
        "counter",
        "mnema_db_pool_waits",
        "Requests that had to wait for a connection.",
        lambda engine: engine.shares.waits,
    )


def _watch_replicas(metrics: Metrics, replicas: Mapping[str, Replicas]) -> None:
    """Watch the replicas. Where there are clusters, a replica's name begins with that of its cluster."""
    watch = metrics.register_collector
    named = [
        (f"{cluster} {replica.name}".lstrip(), found, replica)
        for cluster, found in replicas.items()
        for replica in found.members
    ]

    def count_all(counts: Callable[[Replicas], Counter[str]]) -> list[tuple[tuple[str, ...], float]]:
        summed = sum((counts(found) for found in replicas.values()), Counter[str]())
        return [((key,), float(count)) for key, count in summed.items()]

    watch(
        "counter",
        "mnema_reads",
        "Reads that a replica may answer, by the place that did (replica or primary).",
        lambda: count_all(lambda found: found.reads),
        ("place",),
    )
    watch(
        "counter",
        "mnema_read_fallbacks",
        "Reads that fell back to the primary, by reason.",
        lambda: count_all(lambda found: found.fallbacks),
        ("reason",),
    )
    watch(
        "gauge",
        "mnema_replica_resting",
        "1 while no read goes to the replica.",
        lambda: [((name,), float(replica.rests_for is not None)) for name, _, replica in named],
        ("replica",),
    )
    watch(
        "gauge",
        "mnema_replica_behind_bytes",
        "Bytes of WAL between the newest known positions of primary and replica.",
        lambda: [
            ((name,), behind) for name, found, replica in named if (behind := found.bytes_behind(replica)) is not None
        ],
        ("replica",),
    )


def _watch_limits(metrics: Metrics, limits: Limits) -> None:
    watch = metrics.register_collector
    watch(
        "counter",
        "mnema_limit_refusals",
        "Refused requests and writes, by limit and subject (key or tenant).",
        lambda: [((what, of), count) for (what, of), count in limits.refused.items()],
        ("what", "of"),
    )
    watch("gauge", "mnema_limits_away", "1 while no limit is enforced.", lambda: [((), float(limits.away))])
    watch("counter", "mnema_limits_unenforced", "Admitted without a check.", lambda: [((), limits.unenforced)])
