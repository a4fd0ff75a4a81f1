"""The report of `mnema bench scale`, of all sizes."""

import os
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from bench.scale.loading import LoadFigures
from bench.scale.served import ServedLine, WorkLine
from bench.scale.shapes import Line
from bench.scale.upkeep import UpkeepLine

SETTINGS: Final = {"shared_buffers": "2GB", "max_wal_size": "8GB", "checkpoint_timeout": "30min"}


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters: sizes of the large tenant, number of tenants, seconds of each load, number of changed vectors.

    `warmup`: seconds of queries of the whole tenant before the first load, so that PostgreSQL has its pages in memory.
    At most a tenth of the vectors change. `index_memory` is maintenance_work_mem, `settings` are PostgreSQL's.
    """

    rows: tuple[int, ...]
    tenants: int = 1000
    seconds: float = 5.0
    warmup: float = 60.0
    changed: int = 10_000
    index_memory: str = "2500MB"
    settings: dict[str, str] = field(default_factory=lambda: dict(SETTINGS))


@dataclass(slots=True)
class Report:
    """All measurements of a run, in the order of the sizes."""

    plan: Plan
    loads: list[LoadFigures] = field(default_factory=list)
    shapes: list[Line] = field(default_factory=list)
    served: list[ServedLine] = field(default_factory=list)
    work: list[WorkLine] = field(default_factory=list)
    upkeep: list[UpkeepLine] = field(default_factory=list)
    profile: None = None

    def growth(self) -> dict[str, dict[str, float]]:
        """Return, by shape and request, p95 and CPU at each size as multiples of the first size's that has them."""
        figures: dict[str, list[tuple[int, float, float]]] = {}
        for line in self.shapes:
            figures.setdefault(line.shape, []).append((line.rows, line.p95_ms, line.cpu_ms))
        for served in self.served:
            cpu = (served.server_cpu_ms or 0.0) + (served.postgres_cpu_ms or 0.0)
            figures.setdefault(f"HTTP: {served.request}", []).append((served.rows, served.figures.p95, cpu))
        return {
            name: {
                key: round(value, 2)
                for rows, p95, cpu in found[1:]
                for key, value in (
                    (f"p95 at {rows}", p95 / found[0][1]),
                    (f"CPU at {rows}", cpu / (found[0][2] or 1.0)),
                )
            }
            for name, found in figures.items()
        }

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values for `--json`."""
        return asdict(self) | {"growth": self.growth(), "cores": os.cpu_count()}
