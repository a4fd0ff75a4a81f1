"""Measure a growing tenant: mnema bench scale --rows 10000,100000,1000000 --json FILE.

Each size has an installation of its own: a large tenant with so many memories, one with 1,000 and others that share a
tenth as many. The vectors of all of them lie in one partition if PostgreSQL's hash puts them there; those of the small
tenant always lie beside the large one's.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import asyncpg

from app.bootstrap.tenancy import open_tenants
from app.storage.identity import new_id
from bench import throwaway
from bench.scale import served, upkeep
from bench.scale.loading import MODEL, ids_beside, load_tenants
from bench.scale.report import Plan, Report
from bench.scale.shapes import LARGE, SHAPES, SMALL, ShapeBench, Truth
from bench.scale.tenants import Tenant, large_users, small_users

SMALL_ROWS, OTHERS_SHARE = 1000, 10


def run(plan: Plan, say: Callable[[str], None]) -> Report:
    """Measure each size on its own throw-away installation. The requests go to all of them in turn."""
    report = Report(plan)
    loaded = []
    with throwaway.using_model(MODEL), ExitStack() as sites:
        for rows in plan.rows:
            site = sites.enter_context(throwaway.open_site(0, plan.settings))
            large, small = asyncio.run(load_site(site, plan, rows, report, say))
            truths = {LARGE: Truth(large), SMALL: Truth(small)}
            asyncio.run(_measure_sql(site, plan, ShapeBench(site, truths), truths[LARGE], report, say))
            user = "middle" if "middle" in large.users else large.users[0]
            loaded.append(served.LoadedSite(site, rows, asyncio.run(_make_key(site, small)), user))
        report.served = served.measure_requests(loaded, plan.warmup, plan.seconds, say)
        for one in loaded:
            report.work += asyncio.run(served.measure_work(one, say))
    return report


async def load_site(
    site: throwaway.Site, plan: Plan, rows: int, report: Report, say: Callable[[str], None]
) -> Sequence[Tenant]:
    """Load all tenants; return the large and the small one."""
    sql = await asyncpg.connect(site.superuser_url)
    try:
        tenant = await sql.fetchval("SELECT id FROM tenants")
        [beside] = await ids_beside(sql, tenant, 1)
        share = max(1, rows // OTHERS_SHARE // max(1, plan.tenants - 2))
        sizes = [min(SMALL_ROWS, rows)] + [share] * max(0, plan.tenants - 2)
        tenants = [Tenant(tenant, large_users(rows))]
        first = rows
        for number, size in enumerate(sizes):
            other = beside if number == 0 else new_id()
            await sql.execute("INSERT INTO tenants (id, name) VALUES ($1, $2)", other, f"other {number}")
            tenants.append(Tenant(other, small_users(size), seed=number + 1, first=first))
            first += size
        report.loads.append(await load_tenants(sql, tenants, memory=plan.index_memory, say=say))
        return tenants[:2]
    finally:
        await sql.close()


async def _measure_sql(
    site: throwaway.Site, plan: Plan, bench: ShapeBench, truth: Truth, report: Report, say: Callable[[str], None]
) -> None:
    sql = await asyncpg.connect(site.superuser_url)
    try:
        await bench.create_free_role(sql)
        say(f"{len(truth.tenant)}: queries in PostgreSQL")
        report.shapes += await bench.measure_shapes(SHAPES)
        changed = min(plan.changed, len(truth.tenant) // 10)
        report.upkeep += await upkeep.measure_upkeep(sql, bench, truth, changed, say)
    finally:
        await sql.close()


async def _make_key(site: throwaway.Site, tenant: Tenant) -> str:
    async with open_tenants(site.home.server_settings(site.cluster)) as tenants:
        return (await tenants.create_key(tenant.id, "bench", ["query", "write", "read_all"]))[1]
