"""The material that a chat model reads of a conversation: its journal, its buckets and the texts of a turn."""

import json
from collections.abc import Sequence

from app.config.tenant_policies import TenantPolicies
from app.domain.errors import InvalidInput, NotFound
from app.domain.principal import Principal
from app.domain.rendering.model_text import join_blocks
from app.domain.rendering.views import shorten_block
from app.domain.turn_memory.artifacts import Conversation
from app.domain.turn_memory.buckets import BucketStatus
from app.domain.turn_memory.extraction import Journal
from app.domain.turn_memory.turn_state import TurnLog
from app.domain.turn_memory.views import ViewName, ViewRequest
from app.usecases.turn_memory.context import ReadBuckets, ReadContext
from app.usecases.turn_memory.turns import NO_SUCH_TURN, ChangeTurns

MOST_BUCKETS = 24
"""The buckets whose cards are read: those that changed last."""
MAX_CARD = 600
MAX_BLOCK = 8000
"""The most characters of one block of the journal. The oldest lines are left out."""


class ReadJournal:
    """The use-cases that read what a prompt about a turn needs."""

    def __init__(
        self, turns: ChangeTurns, context: ReadContext, buckets: ReadBuckets, policies: TenantPolicies
    ) -> None:
        self._turns = turns
        self._context = context
        self._buckets = buckets
        self._policies = policies

    async def read_journal(self, principal: Principal, conversation: Conversation, turn_id: str) -> Journal:
        """Return the reconciler's view of the conversation, with the ids that a selection may name."""
        view = await self._context.read_view(principal, conversation, ViewRequest(ViewName.reconciler, turn_id))
        memories = [str(row["turn_id"]) for row in (*view.rows.window, *view.rows.named)]
        turns = [str(row["turn_id"]) for row in view.rows.logs]
        buckets = await self._read_cards(principal, conversation)
        return Journal(
            join_blocks(shorten_block(block.shown, MAX_BLOCK) for block in view.blocks),
            _without(turn_id, [*turns, *memories]),
            _without(turn_id, memories),
            buckets,
        )

    async def read_texts(self, principal: Principal, conversation: Conversation, turn_id: str) -> TurnLog:
        """Return the stored log of a turn. Raise NotFound, or BlobStoreUnavailable."""
        principal.require_categories([self._policies.of(principal).turn_memory.category])
        log = (await self._turns.read_turn(principal, conversation, turn_id)).log
        if log is None:
            raise NotFound(f"{NO_SUCH_TURN}; store it first, or send its texts")
        return log

    async def _read_cards(self, principal: Principal, conversation: Conversation) -> list[tuple[str, str]]:
        """Return the cards of the active buckets, the latest change first; none if buckets are switched off."""
        found = await self._buckets.list_buckets(principal, conversation, BucketStatus.active)
        cards = found.items[:MOST_BUCKETS]
        return [(str(card["bucket_id"]), json.dumps(card, ensure_ascii=False)[:MAX_CARD]) for card in cards]


def require_text(text: str, name: str) -> str:
    """Return the text. Raise InvalidInput if it has nothing to read."""
    if not text.strip():
        raise InvalidInput(f"{name} is empty", param=name)
    return text


def _without(turn_id: str, ids: Sequence[str]) -> list[str]:
    return [one for one in dict.fromkeys(ids) if one != turn_id]
