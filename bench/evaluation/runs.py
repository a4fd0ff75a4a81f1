"""One evaluation: store the data on a throw-away installation, ask with each configuration, ask the baselines."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import asyncpg

from app.bootstrap import Application, Doubles, build_application
from app.bootstrap.adapters import embedder_settings
from app.config.loader import load_policies
from app.config.settings import Settings
from app.domain.principal import Principal
from app.domain.recall.profiles import profile_name
from app.providers.embeddings import build_embedder
from bench import throwaway
from bench.evaluation.asking import Asked, Asker, Row
from bench.evaluation.baselines import DEEPEST, VECTORS_PROFILE, ask_baselines
from bench.evaluation.data import Conversation, DataError, DataSet
from bench.evaluation.sizes import fit_sizes, make_stores, name_size
from bench.evaluation.storing import StoredUnits, UnitWriter, categories_of
from bench.evaluation.sweeps import Change, write_config
from bench.throwaway import MovableClock

Pairs: TypeAlias = Sequence[tuple[Conversation, StoredUnits]]
SHIPPED: Final = "shipped"
"""The name of the run with the shipped policies."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of an evaluation: embedding model, ranking profile, depth, changed policies, baselines and sizes."""

    model: str
    profile: str = "default"
    top_k: int = 10
    changes: Sequence[Change] = ()
    baselines: Sequence[str] = ()
    sizes: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """The asked questions of each run by its name, the rows of baselines and sizes, and the number of stored units.

    `notes` are lines about sizes that are not measured.
    """

    asked: dict[str, list[Asked]]
    others: dict[str, list[Row]]
    stored: int
    notes: Sequence[str] = ()


def check_plan(plan: Plan) -> None:
    """Check the model, the profile and each change before anything is stored. Raise DataError or ConfigError."""
    build_embedder(embedder_settings(Settings()))  # loads nothing, and refuses an unknown model
    profiles = load_policies(plan.model).profiles
    if profile_name(plan.profile) not in profiles:
        raise DataError(f"--profile takes one of {', '.join(sorted(profiles))}; not {plan.profile!r}")
    for change in plan.changes:
        with tempfile.TemporaryDirectory() as folder:
            load_policies(plan.model, write_config(Path(folder), [], change))


class _Evaluation:
    """One evaluation on one installation."""

    def __init__(self, site: throwaway.Site, plan: Plan, data: DataSet, say: Callable[[str], None]) -> None:
        self._site = site
        self._plan = plan
        self._data = data
        self._say = say
        self._clock = MovableClock()
        self._pairs: Pairs = []

    async def measure_all(self) -> Measured:
        """Store the data once, then measure the shipped policies, the baselines, each change and each size."""
        asked: dict[str, list[Asked]] = {}
        others: dict[str, list[Row]] = {}
        async with self._open_application(None) as (app, principal):
            stored = await UnitWriter(app, principal, self._clock, self._say).store_all(self._data)
            self._pairs = list(zip(self._data.conversations, stored, strict=True))
            count = sum(one.unit_count for one in stored)
            self._say(f"{count} stored; {self._data.question_count} questions follow")
            sql = await asyncpg.connect(self._site.superuser_url)
            try:
                for one in stored:
                    await one.add_fact_memories(sql)
                await sql.execute("VACUUM (ANALYZE)")  # as autovacuum does within minutes
                asked[SHIPPED] = await self._ask(app, principal, self._pairs)
                if self._plan.baselines:
                    self._say(f"baselines: {', '.join(self._plan.baselines)}")
                    dense = Asker(app, principal, self._clock, DEEPEST, VECTORS_PROFILE)
                    names, depth = self._plan.baselines, self._plan.top_k
                    others |= await ask_baselines(names, sql, dense, self._pairs, depth)
            finally:
                await sql.close()
        for change in self._plan.changes:
            self._say(str(change))
            async with self._open_application(change) as (app, principal):
                asked[str(change)] = await self._ask(app, principal, self._pairs)
        sizes, notes = fit_sizes(self._data, self._plan.sizes)
        for size in sizes:
            others[name_size(size)] = await self._measure_size(size, smallest=sizes[0])
        return Measured(asked, others, count, notes)

    async def _measure_size(self, size: int, *, smallest: int) -> list[Row]:
        """Ask the questions again of stores of this size, each the memories of a user of its own."""
        async with self._open_application(None) as (app, principal):
            writer = UnitWriter(app, principal, self._clock, self._say)
            pairs = []
            for number, store in enumerate(make_stores(self._data, size, smallest), start=1):
                stored = await writer.store_conversation(f"store-{size}-{number}", store)
                pairs.append((Conversation(store.id, [], store.questions), stored))  # the units are written
            self._say(f"{len(pairs)} stores of {name_size(size)}")
            sql = await asyncpg.connect(self._site.superuser_url)
            try:
                for _, stored in pairs:
                    await stored.add_fact_memories(sql)
                await sql.execute("VACUUM (ANALYZE)")
            finally:
                await sql.close()
            return [one.row for one in await self._ask(app, principal, pairs)]

    async def _ask(self, app: Application, principal: Principal, pairs: Pairs) -> list[Asked]:
        asker = Asker(app, principal, self._clock, self._plan.top_k, self._plan.profile)
        return await asker.ask_all(pairs)

    @asynccontextmanager
    async def _open_application(self, change: Change | None) -> AsyncIterator[tuple[Application, Principal]]:
        with tempfile.TemporaryDirectory() as folder:
            config = write_config(Path(folder), categories_of(self._data), change)
            settings = self._site.home.server_settings(self._site.cluster).model_copy(update={"config_dir": config})
            async with build_application(settings, Doubles(clock=self._clock)) as app:
                principal = await app.tenancy.tenants.authenticate(self._site.key)
                assert principal is not None
                yield app, principal


def run(plan: Plan, data: DataSet, say: Callable[[str], None]) -> Measured:
    """Measure on a throw-away installation, which is removed at the end. Raise DataError or MnemaError."""
    with throwaway.using_model(plan.model):
        check_plan(plan)
        with throwaway.open_site(0) as site:
            return asyncio.run(_Evaluation(site, plan, data, say).measure_all())
