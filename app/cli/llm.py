"""mnema llm: a report on the calls of the chat model, and fact extraction from one turn."""

from collections.abc import Iterator, Sequence
from typing import Annotated
from uuid import UUID

import typer
from mnema_cli.output import exit_with_error, out, plain_table, print_table
from rich.markup import escape

from app.bootstrap.reflection import open_fact_extraction, open_model_report
from app.cli.operators import TenantOption, run_for_tenant
from app.domain.reflection.turn_trace import Rejection
from app.usecases.reflection.reconcile import PlannedReconcile

llm_app = typer.Typer(no_args_is_help=True, help="The chat model.")


@llm_app.callback()
def llm_group() -> None:
    """The chat model."""


@llm_app.command("report")
def llm_report(
    tenant: TenantOption = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="period in days, up to now")] = 7,
) -> None:
    """Show calls, tokens and the share of valid first answers by prompt, and the turns and facts refused by each rule.

    The codes are those of `mnema why` and of docs/operations.md.
    """
    report = run_for_tenant(
        open_model_report, tenant, lambda accounts, owner: accounts.build_report(owner.principal, days)
    )
    rows = plain_table("prompt", "calls", "failed", "first pass", "items", "tokens in", "tokens out")
    for prompt in report.prompts:
        rate = "" if prompt.pass_rate is None else f"{prompt.pass_rate:.1%}"
        counts = (prompt.calls, prompt.failed, rate, prompt.items, prompt.input_tokens, prompt.output_tokens)
        rows.add_row(escape(f"{prompt.prompt}.v{prompt.version}"), *map(str, counts))
    if report.prompts:
        print_table(rows, whole=True)
    _print_rejections(report.rejections)
    if report.waiting:
        out.print(f"{report.waiting} turns wait for a day, or for a model that can read them", highlight=False)
    out.print(f"today {report.spent_today} of {report.daily_tokens} tokens", highlight=False)


def _print_rejections(rejections: Sequence[Rejection]) -> None:
    if rejections:
        rows = plain_table("not remembered", "number", "of", "reader")
        for one in rejections:
            rows.add_row(*map(escape, (one.code, str(one.number), one.unit, one.reader)))
        print_table(rows, whole=True)


@llm_app.command("extract")
def llm_extract(
    turn: Annotated[UUID, typer.Option(help="memory id of a turn")],
    tenant: TenantOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only show what would be written")] = False,
) -> None:
    """Extract facts from a turn now. A dry run also calls the model and spends tokens."""
    result = run_for_tenant(
        open_fact_extraction,
        tenant,
        lambda facts, owner: facts.extract_from_turn(owner.principal, turn, dry_run=dry_run),
    )
    if result.why is not None:
        exit_with_error(f"the model was not called: {result.why}")
    for number, fact in enumerate(result.candidates):
        line = f'  [{fact.category}] {fact.text} (imp={fact.importance}) "{fact.quote}"'
        out.print(escape(line), highlight=False)
        for line in _decision_lines(result.planned, number):
            out.print(escape(f"    {line}"), highlight=False)
    counts = ", ".join(f"{name} {count}" for name, count in result.as_json().items())
    out.print(f"{counts}{' (dry run: nothing was changed)' if dry_run else ''}", highlight=False)


def _decision_lines(reconcile: PlannedReconcile | None, number: int) -> Iterator[str]:
    """Yield the decisions on fact `number` and on the memories it concerns; nothing if the fact is just added."""
    if reconcile is None or number not in reconcile.facts:
        yield "written by an earlier run"
        return
    plan = reconcile.plan
    for write in plan.writes:
        if write.fact == number and write.memory is not None:
            composed = f" with: {write.text}" if write.text else ""
            yield f"UPDATE of: {reconcile.neighbours[write.memory].memory.text}{composed}"
    if number in plan.known:
        yield f"NONE, known by: {reconcile.neighbours[plan.known[number]].memory.text}"
    if number in plan.left:
        yield "left out: no room"
    for forget in plan.forgets:
        if forget.fact == number:
            yield f"DELETE of: {reconcile.neighbours[forget.memory].memory.text}"
