"""mnema run episodes, summaries and insights: generate memories from conversations, or preview them."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from mnema_cli.client import out
from rich.markup import escape

from app.bootstrap.reflection import open_reflection
from app.config.settings import Settings
from app.domain.outages import NoChatModel
from app.domain.principal import Principal
from app.domain.reflection.transcript import ReflectionKind

KINDS: Final[Mapping[str, ReflectionKind]] = {"episodes": "episode", "summaries": "summary", "insights": "insight"}
"""The kind of reflection for each job name."""


async def run_reflection(
    settings: Settings, tenants: Mapping[str, UUID], job: str, user: str | None, dry_run: bool
) -> None:
    """Run a reflection job for one tenant after another and print each text. `tenants` maps names to ids.

    Raise NoChatModel, TokensSpent or ChatModelUnavailable.
    """
    note = " (dry run: nothing was changed)" if dry_run else ""
    async with open_reflection(settings) as work:
        if not work.has_model:
            raise NoChatModel()
        for name, tenant_id in tenants.items():
            counts = dict.fromkeys(("read", "created", "updated", "tokens"), 0)
            async for result in work.reflect_waiting(Principal(tenant_id), KINDS[job], user_id=user, dry_run=dry_run):
                accepted = result.why is None
                increments = (1, result.created * accepted, result.updated * accepted, result.tokens)
                counts = {key: counts[key] + more for key, more in zip(counts, increments, strict=True)}
                for text in result.texts if accepted else ():
                    source = result.user_id if result.thread_id is None else f"{result.user_id} {result.thread_id}"
                    out.print(escape(f"  {source}: {text}"), highlight=False)
            totals = ", ".join(f"{key} {count}" for key, count in counts.items())
            out.print(f"{escape(name)}: {job}: {totals}{note}", highlight=False)
