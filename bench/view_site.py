"""The data of `mnema bench views`: one long conversation beside many others of the same tenant."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import asyncpg

from app.domain.turn_memory.active_set import ActiveSet
from app.domain.turn_memory.artifacts import ArtifactKind
from app.domain.turn_memory.fingerprint import format_time, read_fingerprint
from app.domain.turn_memory.turn_state import TurnLog
from app.storage.identity import new_id
from bench.throwaway import Site
from bench.view_workload import CONVERSATION, USER, turn_name

OTHER_TURNS: Final = 5
USERS: Final = 1000
REACTION_EVERY: Final = 5
_COLUMNS: Final = (
    *("tenant_id", "id", "user_id", "conversation_id", "turn_id", "kind", "place", "text", "tags", "hosted_uri"),
    "made_at",
)


def load_turns(site: Site, turns: int, conversations: int) -> None:
    """Load a conversation of `turns` turns, and `conversations` others of five turns, of 1,000 other users."""
    asyncio.run(_load_rows(site, turns, conversations))


async def _load_rows(site: Site, turns: int, conversations: int) -> None:
    connection = await asyncpg.connect(site.superuser_url)
    try:
        tenant = await connection.fetchval("SELECT id FROM tenants")
        users = [USER, *(f"user {number}" for number in range(USERS))]
        await connection.executemany(
            "INSERT INTO users (tenant_id, user_id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            [(tenant, user) for user in users],
        )
        rows = [*_conversation_rows(tenant, USER, CONVERSATION, turns)]
        for number in range(conversations):
            rows += _conversation_rows(tenant, users[1 + number % USERS], f"other {number}", OTHER_TURNS)
        uris = [(tenant, user, uri) for _tenant, _id, user, *_rest, uri, _made_at in rows if uri]
        await connection.copy_records_to_table("blobs", records=uris, columns=("tenant_id", "user_id", "uri"))
        await connection.copy_records_to_table("conv_messages", records=rows, columns=_COLUMNS)
        await connection.execute("VACUUM (ANALYZE)")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()


def _conversation_rows(tenant: UUID, user: str, conversation: str, turns: int) -> Iterator[tuple[Any, ...]]:
    """Yield the index rows of a conversation whose last turn is a minute old; five turns are selected."""
    now = datetime.now(UTC)

    def artifact(kind: ArtifactKind, place: str, turn: str | None, text: str, tags: list[str], at: datetime) -> Any:
        uri = f"bench:{new_id()}" if kind is ArtifactKind.turn_log else None
        return tenant, new_id(), user, conversation, turn, kind.value, place, text, tags, uri, at

    for number in range(turns):
        name = turn_name(number)
        made_at = now - timedelta(minutes=turns - number)
        given = read_fingerprint(name, made_at, _make_fingerprint(number))
        log = TurnLog(name, made_at, f"{number}: " + "a question about the plan " * 20, "an answer " * 60, "done " * 40)
        log_text = log.with_fingerprint(given).as_snapshot()
        yield artifact(ArtifactKind.turn_log, name, name, log_text, [ArtifactKind.turn_log.value], made_at)
        text = json.dumps(given.as_json(), ensure_ascii=False)
        yield artifact(ArtifactKind.fingerprint, name, name, text, given.tags(), made_at)
        if number % REACTION_EVERY == 0:
            reaction = {
                "turn_id": name,
                "ts": format_time(made_at),
                "origin": "user",
                "reaction": "ok",
                "text": "thanks",
            }
            text = "[turn.log.reaction]" + json.dumps(reaction)
            yield artifact(ArtifactKind.reaction, f"user:{name}", name, text, ["origin:user"], made_at)
    chosen = tuple(turn_name(number) for number in range(0, turns, max(1, turns // 5)))[:5]
    active = ActiveSet((), chosen, now - timedelta(minutes=4), 3, "the plan")
    yield artifact(ArtifactKind.active_set, "", None, json.dumps(active.as_json()), [], now)


def _make_fingerprint(number: int) -> dict[str, Any]:
    """Return a fingerprint with four signals of the user and one of the assistant."""
    return {
        "objective": f"Finish part {number} of the deployment plan",
        "topics": ["deployment", f"part {number % 40}"],
        "assertions": [
            {"key": "format", "value": "table", "severity": "must", "scope": "objective"},
            {"key": "tone", "value": f"short, no more than {number} words", "severity": "prefer"},
        ],
        "exceptions": [{"key": "colour", "value": "red", "severity": "do_not", "applies_to": "charts"}],
        "facts": [{"key": "team.size", "value": number % 9, "severity": "high"}],
        "assistant_signals": [{"key": "product.export", "value": f"offer {number}", "severity": "recommend"}],
    }
