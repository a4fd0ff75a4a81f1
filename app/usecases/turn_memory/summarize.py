"""The turn summarizer: a chat model sums up a turn and finds what the assistant mentioned or promoted in it."""

from dataclasses import dataclass, replace
from functools import partial

from app.config.tenant_policies import TenantPolicies
from app.domain.outages import NoChatModel, UnusableAnswer
from app.domain.principal import Principal
from app.domain.reflection.model_usage import Usage
from app.domain.turn_memory.artifacts import Conversation
from app.domain.turn_memory.extraction import NO_SPEC, SignalSpec, SummarisedTurn
from app.domain.turn_memory.fingerprint import Fingerprint
from app.domain.turn_memory.turn_state import TurnLog, TurnState
from app.ports import AnswerListener
from app.prompts.turn_summary import read_turn_summary, turn_summary_prompt
from app.usecases.reflection.model_gateway import ModelGateway
from app.usecases.turn_memory.journal import ReadJournal, require_text
from app.usecases.turn_memory.turns import ChangeTurns


@dataclass(frozen=True, slots=True)
class TurnToSummarise:
    """The turn. A text that is None is read from the stored turn. With `stores` the result is stored in the turn."""

    turn_id: str
    user_text: str | None = None
    assistant_text: str | None = None
    spec: SignalSpec = NO_SPEC
    stores: bool = False


class SummariseTurn:
    """The use-case that sums up one turn."""

    def __init__(
        self, gateway: ModelGateway, journals: ReadJournal, turns: ChangeTurns, policies: TenantPolicies
    ) -> None:
        self._gateway = gateway
        self._journals = journals
        self._turns = turns
        self._policies = policies

    async def summarise_turn(
        self,
        principal: Principal,
        conversation: Conversation,
        turn: TurnToSummarise,
        listener: AnswerListener | None = None,
    ) -> tuple[SummarisedTurn, Usage]:
        """Sum up the turn with the chat model. A `listener` gets the model's answer as it is written.

        Raise NoChatModel, NotFound or InvalidInput for a turn without texts, CategoryNotAllowed, TokensSpent,
        ChatModelUnavailable; when it is to be stored also what `ChangeTurns` raises.
        """
        principal.require_categories([self._policies.of(principal).turn_memory.category])
        if not self._gateway.has_model:
            raise NoChatModel()
        user_text, assistant_text = await self._find_texts(principal, conversation, turn)
        prompt = turn_summary_prompt(user_text, assistant_text, turn.spec)
        answer = await self._gateway.ask_model(
            principal,
            prompt,
            partial(read_turn_summary, user_text, assistant_text, turn.spec),
            listener=listener,
            user_id=conversation.user_id,
        )
        if answer.value is None:
            raise UnusableAnswer()
        if turn.stores:
            await self._store_summary(principal, conversation, turn, answer.value)
        return answer.value, answer.usage

    async def _find_texts(
        self, principal: Principal, conversation: Conversation, turn: TurnToSummarise
    ) -> tuple[str, str]:
        user_text = turn.user_text
        assistant_text = turn.assistant_text
        if user_text is None or assistant_text is None:
            log = await self._journals.read_texts(principal, conversation, turn.turn_id)
            user_text = log.user_text if user_text is None else user_text
            assistant_text = log.assistant_text if assistant_text is None else assistant_text
        require_text(f"{user_text}{assistant_text}", "the turn")
        return user_text, assistant_text

    async def _store_summary(
        self, principal: Principal, conversation: Conversation, turn: TurnToSummarise, found: SummarisedTurn
    ) -> None:
        """Put the summary into the turn's log, and the signals into its fingerprint. What is empty stays as it was."""

        def change(state: TurnState) -> TurnState:
            log = state.log or TurnLog(turn.turn_id, state.now, turn.user_text or "", turn.assistant_text or "")
            changed = replace(state, log=replace(log, summary=found.summary or log.summary))
            if not found.assistant_signals:
                return changed
            before = state.fingerprint or Fingerprint(turn.turn_id, log.made_at)
            fingerprint = replace(before, assistant_signals=found.assistant_signals)
            return changed.with_fingerprint(fingerprint, state.tags)

        await self._turns.change_turn(principal, conversation, turn.turn_id, change)
