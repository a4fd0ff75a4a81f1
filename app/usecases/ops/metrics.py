"""What operators watch, in one text (SPEC §19)."""

import asyncio
import time

from app.domain.errors import MnemaError
from app.providers.metrics import CONTENT_TYPE, Metrics
from app.storage.engine import Engine
from app.storage.uow import UnitOfWork
from app.usecases.ops.limits import Limits

__all__ = ["CONTENT_TYPE", "ReadMetrics"]
FRESH_S = 15.0
PATIENCE_S = 2.0


class ReadMetrics:
    """What was counted as it happened, with the state of pool, limits and jobs at this moment."""

    def __init__(self, metrics: Metrics, uow: UnitOfWork, engine: Engine, limits: Limits) -> None:
        self._metrics = metrics
        self._uow = uow
        self._behind: float | None = None
        self._asked = float("-inf")
        self._asking = asyncio.Lock()
        watch, usage = metrics.watch, engine.usage
        watch("gauge", "mnema_db_pool_size", "Connections open.", lambda: [((), engine.size)])
        watch("gauge", "mnema_db_pool_limit", "Connections at most.", lambda: [((), usage.limit)])
        watch("gauge", "mnema_db_pool_in_use", "Connections at work.", lambda: [((), usage.in_use)])
        watch("gauge", "mnema_db_pool_waiting", "Who waits for one.", lambda: [((), usage.waiting)])
        watch("counter", "mnema_db_pool_waits", "How often one had to wait.", lambda: [((), usage.waits)])
        watch(
            "counter",
            "mnema_limit_refusals",
            "What limits refused, by what is limited and of whom.",
            lambda: [((what, of), count) for (what, of), count in limits.refused.items()],
            ("what", "of"),
        )
        watch("gauge", "mnema_limits_away", "1 while nothing is refused.", lambda: [((), float(limits.away))])
        watch("counter", "mnema_limits_unenforced", "Admitted unchecked.", lambda: [((), limits.unenforced)])
        watch(
            "gauge",
            "mnema_jobs_oldest_due_seconds",
            "How long the oldest due job has waited; missing while the database does not tell.",
            lambda: [] if self._behind is None else [((), self._behind)],
        )

    async def text(self) -> bytes:
        """In Prometheus' text format. The database is asked every 15 seconds at most, and not waited for long."""
        async with self._asking:
            if time.monotonic() - self._asked > FRESH_S:
                self._behind = await self._jobs_behind()
                self._asked = time.monotonic()
        return self._metrics.text()

    async def _jobs_behind(self) -> float | None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                rows = await self._uow.definer("SELECT jobs_behind() AS seconds")
        except (MnemaError, TimeoutError):
            return None
        return rows[0]["seconds"] or 0.0
