"""mnema llm: what the chat model was asked, how well it answered and what it cost."""

from typing import Annotated

import typer
from rich.markup import escape

from app.bootstrap import tenancy
from app.bootstrap.reflection import accounting
from app.cli.client import out, show, table
from app.cli.operators import TenantOption, run, settings
from app.domain.scope import Scope

llm_app = typer.Typer(no_args_is_help=True, help="The chat model.")


@llm_app.callback()
def group() -> None:
    """The chat model."""


@llm_app.command("report")
def report(
    tenant: TenantOption,
    days: Annotated[int, typer.Option(min=1, max=3650, help="of the last so many days")] = 7,
) -> None:
    """Calls, tokens and the share of answers that kept every rule at once, by version of each prompt."""

    async def work() -> None:
        found = settings()
        async with tenancy(found) as tenants:
            owner = await tenants.find(tenant)
        async with accounting(found) as accounts:
            told = await accounts.of(Scope(owner.id), days)
        rows = table("prompt", "calls", "failed", "first pass", "items", "tokens in", "tokens out")
        for one in told.prompts:
            rate = "" if one.rate is None else f"{one.rate:.1%}"
            counts = (one.calls, one.failed, rate, one.items, one.input_tokens, one.output_tokens)
            rows.add_row(escape(f"{one.prompt}.v{one.version}"), *map(str, counts))
        if told.prompts:
            show(rows, whole=True)
        out.print(f"today {told.spent_today} of {told.daily_tokens} tokens", highlight=False)

    run(work())
