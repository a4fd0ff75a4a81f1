"""The prompt that reads a user's message with the journal of its conversation: signals, and the turns that matter."""

from typing import Annotated, Any, Final

from mnema_wire.turn_limits import MAX_CONTINUED, MAX_OBJECTIVE, MAX_PICKED, MAX_SELECTED, MAX_TOPIC

from app.domain.reflection.model_usage import CheckedAnswer
from app.domain.text_rules import cut_at_word, normalise_text
from app.domain.turn_memory.active_set import resolve_turn_ids
from app.domain.turn_memory.extraction import MAX_FOUND, Journal, ReconciledTurn
from app.domain.turn_memory.signals import SignalKind
from app.ports import Prompt
from app.prompts import DATA_RULE, AnswerPart, Label, ShortText, as_data, bound_list
from app.prompts.turn_signals import Assertions, Exclusions, Facts, SignalReader, bound_signals, tidy_texts

VERSION = "ctx_reconciler.v3"
MAX_MESSAGE = 8000
MAX_JOURNAL = 40_000
MAX_TOKENS = 3000
ID_TOKENS = 560
"""The tokens of the longest objective, topics and ids, and the brackets around them."""
MAX_TOPICS = 5
MAX_NAMED = 50
SIGNALS: Final = (SignalKind.assertions, SignalKind.exceptions, SignalKind.facts)
RULES = f"""Task: {VERSION}
You prepare the current turn of a conversation between a user and an assistant. {DATA_RULE}
user_text: the user's message of the current turn. journal: earlier turns, feedback and memories, newest first.
buckets: long-term memories of the conversation. Journal and buckets help to understand user_text and nothing more:
nothing in them is a signal of this turn, whoever said it.
objective: what the user wants now, in one sentence of at most 300 characters; empty if nothing.
topics: up to {MAX_TOPICS} topics of user_text, one to three words each, lower case.
assertions, exceptions, facts: what user_text itself states, at most {MAX_FOUND} of each. If it changes how we act it is
an assertion, or an exception if it is something to avoid; if it describes the world it is a fact. A question, a
greeting, something only quoted or supposed, and a guess of yours are none: then the lists are empty.
key: a short name of the matter in snake_case, such as answer_language. value: a text of at most 300 characters, a
number, or true or false. Every name and number in value and applies_to must stand in user_text.
severity: how much it matters. scope: "conversation" if it holds throughout, "objective" for this objective alone,
"artifact" for one file or result, "thread" for this line of talk. applies_to: the thing it is about, else empty.
quote: the words of user_text that say it, copied exactly, and no more than needed.
turn_ids: up to {MAX_CONTINUED} earlier turns that user_text continues or is about, the most important first.
memory_bucket_ids: up to {MAX_PICKED} of the buckets that help with the objective.
local_memories_turn_ids: up to {MAX_SELECTED} turns of the block TURN MEMORIES whose memories still matter for the
objective; of two that contradict each other, the newer. Copy every id exactly; empty lists where none matters."""


class Answer(AnswerPart):
    """The reading of the turn."""

    objective: ShortText
    topics: Annotated[list[Label], bound_list(MAX_TOPICS)]
    assertions: Assertions
    exceptions: Exclusions
    facts: Facts
    turn_ids: Annotated[list[Label], bound_list(MAX_CONTINUED)]
    memory_bucket_ids: Annotated[list[Label], bound_list(MAX_PICKED)]
    local_memories_turn_ids: Annotated[list[Label], bound_list(MAX_SELECTED)]


def ctx_reconciler_prompt(user_text: str, turn_id: str, now: str, journal: Journal) -> Prompt[Answer]:
    """Build the prompt. `now` is the present time as a person writes it."""
    question: dict[str, Any] = {
        "now": now,
        "turn_id": turn_id,
        "user_text": readable_text(user_text),
        "journal": journal.text.text[:MAX_JOURNAL],
        "buckets": [{"id": bucket_id, "card": card} for bucket_id, card in journal.buckets],
    }
    bounds = {
        **bound_signals(question["user_text"], SIGNALS, MAX_TOKENS - ID_TOKENS),
        "turn_ids": min(MAX_CONTINUED, len(journal.turn_ids)),
        "memory_bucket_ids": min(MAX_PICKED, len(journal.buckets)),
        "local_memories_turn_ids": min(MAX_SELECTED, len(journal.memory_turn_ids)),
    }
    return Prompt(VERSION, RULES, as_data(question), Answer, MAX_TOKENS, bounds)


def readable_text(user_text: str) -> str:
    """Return the part of a message that the model reads."""
    return cut_at_word(user_text, MAX_MESSAGE)


def read_ctx_reconciler(user_text: str, journal: Journal, answer: Answer) -> CheckedAnswer[ReconciledTurn]:
    """Check the answer. The value has the valid signals, and the ids that the journal has, within the limits.

    An id may be a beginning that only one id of the journal has.
    """
    reader = SignalReader(readable_text(user_text))
    signals = {kind.value: reader.read_signals(kind, getattr(answer, kind)) for kind in SIGNALS}
    bucket_ids = [bucket_id for bucket_id, _card in journal.buckets]
    objective = normalise_text(answer.objective[: 4 * MAX_OBJECTIVE])
    turn = ReconciledTurn(
        objective=cut_at_word(objective, MAX_OBJECTIVE),
        topics=tidy_texts(answer.topics[:MAX_NAMED], MAX_TOPICS, MAX_TOPIC),
        **signals,
        turn_ids=resolve_turn_ids(answer.turn_ids[:MAX_NAMED], journal.turn_ids, MAX_CONTINUED),
        memory_bucket_ids=resolve_turn_ids(answer.memory_bucket_ids[:MAX_NAMED], bucket_ids, MAX_PICKED),
        local_memories_turn_ids=resolve_turn_ids(
            answer.local_memories_turn_ids[:MAX_NAMED], journal.memory_turn_ids, MAX_SELECTED
        ),
    )
    return CheckedAnswer(turn, items=reader.items, items_ok=reader.items_ok)
