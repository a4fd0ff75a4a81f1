"""mnema run consolidate: its report, and what a dry run would do."""

from collections.abc import Mapping
from uuid import UUID

from rich.markup import escape

from app.bootstrap.consolidation import open_consolidation
from app.cli.client import out
from app.config.settings import Settings
from app.domain.consolidation.plan import PairDecision, Report
from app.domain.principal import Principal


async def run_consolidation(settings: Settings, tenants: Mapping[str, UUID], user: str | None, dry_run: bool) -> None:
    """One tenant after the other; `tenants` are ids by name."""
    async with open_consolidation(settings) as work:
        for name, tenant_id in tenants.items():
            _print_report(
                name, await work.consolidate_users(Principal(tenant_id), dry_run=dry_run, user_id=user), dry_run
            )


def _print_report(tenant: str, report: Report, dry_run: bool) -> None:
    counts = ", ".join(f"{name} {count}" for name, count in report.as_json().items() if name != "decisions")
    note = " (dry run: nothing was changed)" if dry_run else ""
    out.print(f"{escape(tenant)}: consolidate: {counts}{note}", highlight=False)
    for one in report.decisions:
        _print_decision(one)


def _print_decision(one: PairDecision) -> None:
    rule = f" {one.rule}" if one.rule else ""
    whose = f" {one.user_id}" if one.user_id is not None else ""
    line = f"  {one.action} {one.score:.2f}{rule}{whose} [{one.category}] {' '.join(str(id_) for id_ in one.ids)}"
    out.print(escape(line), highlight=False)
    for text in one.texts or ():
        out.print(escape(f"      {text}"), highlight=False)
