"""mnema llm: what the chat model was asked, how well it answered and what it cost; and a turn read by hand."""

from collections.abc import Iterator
from typing import Annotated
from uuid import UUID

import typer
from rich.markup import escape

from app.bootstrap.reflection import open_fact_extraction, open_model_report
from app.bootstrap.tenancy import open_tenants
from app.cli.client import exit_with_error, out, plain_table, print_table
from app.cli.operators import TenantOption, resolve_settings, run_use_case
from app.domain.principal import Principal
from app.usecases.reflection.reconcile import PlannedReconcile

llm_app = typer.Typer(no_args_is_help=True, help="The chat model.")


@llm_app.callback()
def llm_group() -> None:
    """The chat model."""


@llm_app.command("report")
def llm_report(
    tenant: TenantOption,
    days: Annotated[int, typer.Option(min=1, max=3650, help="of the last so many days")] = 7,
) -> None:
    """Calls, tokens and the share of answers that kept every rule at once, by version of each prompt."""

    async def print_report() -> None:
        found = resolve_settings()
        async with open_tenants(found) as tenants:
            owner = await tenants.find_tenant(tenant)
        async with open_model_report(found) as accounts:
            told = await accounts.build_report(Principal(owner.id), days)
        rows = plain_table("prompt", "calls", "failed", "first pass", "items", "tokens in", "tokens out")
        for one in told.prompts:
            rate = "" if one.pass_rate is None else f"{one.pass_rate:.1%}"
            counts = (one.calls, one.failed, rate, one.items, one.input_tokens, one.output_tokens)
            rows.add_row(escape(f"{one.prompt}.v{one.version}"), *map(str, counts))
        if told.prompts:
            print_table(rows, whole=True)
        out.print(f"today {told.spent_today} of {told.daily_tokens} tokens", highlight=False)

    run_use_case(print_report())


@llm_app.command("extract")
def llm_extract(
    tenant: TenantOption,
    turn: Annotated[UUID, typer.Option(help="memory id of a turn")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would be written")] = False,
) -> None:
    """Read a turn for facts now. A dry run asks the model, too, and takes its tokens."""

    async def print_extraction() -> None:
        found = resolve_settings()
        async with open_tenants(found) as tenants:
            owner = await tenants.find_tenant(tenant)
        async with open_fact_extraction(found) as facts:
            made = await facts.extract_from_turn(Principal(owner.id), turn, dry_run=dry_run)
        if made.why is not None:
            exit_with_error(f"nothing was asked: {made.why}")
        for number, one in enumerate(made.candidates):
            out.print(escape(f'  [{one.category}] {one.text} (imp={one.importance}) "{one.quote}"'), highlight=False)
            for line in _decision_lines(made.planned, number):
                out.print(escape(f"    {line}"), highlight=False)
        counts = ", ".join(f"{name} {count}" for name, count in made.as_json().items())
        out.print(f"{counts}{' (dry run: nothing was changed)' if dry_run else ''}", highlight=False)

    run_use_case(print_extraction())


def _decision_lines(made: PlannedReconcile | None, number: int) -> Iterator[str]:
    """What becomes of a fact, and of the memories it bears on; nothing where it is simply added."""
    if made is None or number not in made.facts:
        yield "written by an earlier run"
        return
    for one in made.plan.writes:
        if one.fact == number and one.memory is not None:
            composed = f" with: {one.text}" if one.text else ""
            yield f"UPDATE of: {made.neighbours[one.memory].memory.text}{composed}"
    if number in made.plan.known:
        yield f"NONE, known by: {made.neighbours[made.plan.known[number]].memory.text}"
    if number in made.plan.left:
        yield "left out: no room"
    for forget in made.plan.forgets:
        if forget.fact == number:
            yield f"DELETE of: {made.neighbours[forget.memory].memory.text}"
