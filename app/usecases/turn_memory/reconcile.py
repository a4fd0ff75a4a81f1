"""The ctx-reconciler: a chat model reads the user's message of a turn with the journal of its conversation."""

from dataclasses import dataclass
from functools import partial
from zoneinfo import ZoneInfo

from app.config.tenant_policies import TenantPolicies
from app.domain.outages import NoChatModel, UnusableAnswer
from app.domain.principal import Principal
from app.domain.reflection.model_usage import Usage
from app.domain.turn_memory.artifacts import Conversation
from app.domain.turn_memory.extraction import ReconciledTurn
from app.ports import AnswerListener, Clock
from app.prompts.ctx_reconciler import ctx_reconciler_prompt, read_ctx_reconciler
from app.usecases.reflection.model_gateway import ModelGateway
from app.usecases.turn_memory.active_set import ManageActiveSet, Selection
from app.usecases.turn_memory.journal import ReadJournal, require_text


@dataclass(frozen=True, slots=True)
class TurnToReconcile:
    """The current turn. `user_text` None is the text of the stored turn. `timezone` is the user's."""

    turn_id: str
    user_text: str | None = None
    timezone: str = "UTC"


@dataclass(frozen=True)
class ReconcileTurn:
    """The use-case that reads the user's message of a turn and selects the memories that matter for it."""

    gateway: ModelGateway
    journals: ReadJournal
    active_set: ManageActiveSet
    policies: TenantPolicies
    clock: Clock

    async def reconcile_turn(
        self,
        principal: Principal,
        conversation: Conversation,
        turn: TurnToReconcile,
        listener: AnswerListener | None = None,
    ) -> tuple[ReconciledTurn, Usage]:
        """Read the message with the chat model, and store the selected turns and buckets in the active set.

        The client writes the fingerprint. A `listener` gets the model's answer as it is written.

        Raise NoChatModel, NotFound or InvalidInput for a turn without a text, CategoryNotAllowed, TokensSpent,
        ChatModelUnavailable or WriteContention. Nothing is stored then.
        """
        principal.require_categories([self.policies.of(principal).turn_memory.category])
        if not self.gateway.has_model:
            raise NoChatModel()
        text = turn.user_text
        if text is None:
            text = (await self.journals.read_texts(principal, conversation, turn.turn_id)).user_text
        journal = await self.journals.read_journal(principal, conversation, turn.turn_id)
        prompt = ctx_reconciler_prompt(
            require_text(text, "user_text"), turn.turn_id, self._present_time(turn.timezone), journal
        )
        answer = await self.gateway.ask_model(
            principal,
            prompt,
            partial(read_ctx_reconciler, text, journal),
            listener=listener,
            user_id=conversation.user_id,
        )
        if answer.value is None:
            raise UnusableAnswer()
        selection = Selection(answer.value.local_memories_turn_ids, answer.value.memory_bucket_ids)
        await self.active_set.select_memories(principal, conversation, selection)
        return answer.value, answer.usage

    def _present_time(self, timezone: str) -> str:
        return f"{self.clock.now().astimezone(ZoneInfo(timezone)):%A %Y-%m-%d %H:%M} {timezone}"
