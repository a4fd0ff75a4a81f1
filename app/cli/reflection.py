"""mnema run episodes, summaries, insights: what a model made of what was said, or would make of it."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from rich.markup import escape

from app.bootstrap.reflection import open_reflection
from app.cli.client import out
from app.config.settings import Settings
from app.domain.outages import NoChatModel
from app.domain.principal import Principal
from app.domain.reflection.transcript import ReflectionKind

KINDS: Final[Mapping[str, ReflectionKind]] = {"episodes": "episode", "summaries": "summary", "insights": "insight"}
"""What it is called in the plural."""


async def run_reflection(
    settings: Settings, tenants: Mapping[str, UUID], job: str, user: str | None, dry_run: bool
) -> None:
    """One tenant after the other; `tenants` are ids by name. Raises NoChatModel, TokensSpent, ChatModelUnavailable."""
    note = " (dry run: nothing was changed)" if dry_run else ""
    async with open_reflection(settings) as work:
        if not work.has_model:
            raise NoChatModel()
        for name, tenant_id in tenants.items():
            counts = dict.fromkeys(("read", "created", "updated", "tokens"), 0)
            async for made in work.reflect_waiting(Principal(tenant_id), KINDS[job], user_id=user, dry_run=dry_run):
                kept = made.why is None
                of_it = (1, made.created * kept, made.updated * kept, made.tokens)
                counts = {key: counts[key] + more for key, more in zip(counts, of_it, strict=True)}
                for text in made.texts if kept else ():
                    where = made.user_id if made.thread_id is None else f"{made.user_id} {made.thread_id}"
                    out.print(escape(f"  {where}: {text}"), highlight=False)
            told = ", ".join(f"{key} {count}" for key, count in counts.items())
            out.print(f"{escape(name)}: {job}: {told}{note}", highlight=False)
