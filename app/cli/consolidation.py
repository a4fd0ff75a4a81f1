"""mnema run consolidate: run the job and print its report."""

from collections.abc import Mapping
from uuid import UUID

from mnema_cli.client import out
from rich.markup import escape

from app.bootstrap.consolidation import open_consolidation
from app.config.settings import Settings
from app.domain.consolidation.plan import PairDecision, Report
from app.domain.principal import Principal


async def run_consolidation(settings: Settings, tenants: Mapping[str, UUID], user: str | None, dry_run: bool) -> None:
    """Consolidate one tenant after another and print each report. `tenants` maps names to ids."""
    async with open_consolidation(settings) as work:
        for name, tenant_id in tenants.items():
            _print_report(
                name, await work.consolidate_users(Principal(tenant_id), dry_run=dry_run, user_id=user), dry_run
            )


def _print_report(tenant: str, report: Report, dry_run: bool) -> None:
    counts = ", ".join(f"{name} {count}" for name, count in report.as_json().items() if name != "decisions")
    note = " (dry run: nothing was changed)" if dry_run else ""
    out.print(f"{escape(tenant)}: consolidate: {counts}{note}", highlight=False)
    for decision in report.decisions:
        _print_decision(decision)


def _print_decision(decision: PairDecision) -> None:
    rule = f" {decision.rule}" if decision.rule else ""
    user = f" {decision.user_id}" if decision.user_id is not None else ""
    ids = " ".join(str(memory_id) for memory_id in decision.ids)
    line = f"  {decision.action} {decision.score:.2f}{rule}{user} [{decision.category}] {ids}"
    out.print(escape(line), highlight=False)
    for text in decision.texts or ():
        out.print(escape(f"      {text}"), highlight=False)
