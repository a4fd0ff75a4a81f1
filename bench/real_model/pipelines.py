"""The pipelines that a weak model's own findings seldom reach: each is driven once for each set of texts.

They work for a user of their own, whose memories do not count, so that the ways stay comparable. A pipeline that
fails, for example because an outage keeps it from the model, is counted by its error's code.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from app.bootstrap import Application
from app.bootstrap.reflection import build_model_gateway
from app.domain.days import start_of_day
from app.domain.errors import MnemaError
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.principal import Principal
from app.domain.turn_memory.artifacts import Conversation
from app.storage.memory.memories import MemoryStorage
from app.storage.reflection.fact_extraction import TurnFactStorage
from app.storage.reflection.reconcile import ReconcileStorage
from app.storage.reflection.transcripts import ReflectionStorage
from app.usecases.consent.proposals import ProposeProfileFields
from app.usecases.reflection.episodes import CaptureEpisodes
from app.usecases.reflection.generated_memories import GeneratedMemoryWriter
from app.usecases.reflection.insights import DrawInsights
from app.usecases.reflection.model_gateway import ModelGateway
from app.usecases.reflection.read_cursor import ReadCursor
from app.usecases.reflection.reconcile import Reconcile
from app.usecases.reflection.summaries import SummariseThreads
from app.usecases.turn_memory.reconcile import TurnToReconcile
from app.usecases.turn_memory.summarize import TurnToSummarise
from app.usecases.turn_memory.turns import NewTurn

USER: Final = "otto"
"""The user whose texts the pipelines read."""
ROUTE: Final = "multi_fact"
Work = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts of a user: a turn, the fact in it, the memory that it corrects, an episode, and a pair of equal memories.

    The two memories of the pair share their words, but no rule joins them, so the model is asked.
    """

    said: str
    answer: str
    fact: str
    before: str
    episode: str
    pair: tuple[str, str]


SETS: Final = (
    Texts(
        said="I moved from Trieste to Udine in April, and I still teach chemistry there. Please keep it short.",
        answer="All right. I recommend the train pass for the region.",
        fact="The user lives in Udine.",
        before="The user lives in Trieste.",
        episode="The user asked for help with the plan of a new laboratory and was worried about its costs.",
        pair=("The user drinks espresso after lunch.", "After lunch the user always has a cup of espresso."),
    ),
    Texts(
        said="Our dog Bruno is nine now, and the vet says that he must lose 3 kilograms. Never suggest raw meat.",
        answer="All right. You could weigh him once a week.",
        fact="The user's dog Bruno is 9 years old.",
        before="The user's dog Bruno is 8 years old.",
        episode="The user planned the diet of a dog with the vet and was glad that it is in good health.",
        pair=("The user swims in the lake on Sundays.", "On Sundays the user goes for a swim in the lake."),
    ),
)


class Pipelines:
    """The pipelines of one application and tenant."""

    def __init__(self, app: Application, principal: Principal) -> None:
        self._app = app
        self._principal = principal
        self.results = Counter[str]()

    async def drive_all(self, number: int) -> None:
        """Drive all pipelines with a set of texts. The turn's jobs are left to the caller."""
        texts = SETS[number % len(SETS)]
        thread = f"side-{number}"
        turn_id = await self._store_turn(texts, thread)
        await self._count("episode", lambda: self._read_episode(thread))
        await self._count("summary", lambda: self._read_summary(thread))
        await self._count("insights", lambda: self._draw_insights(texts))
        await self._count("same_fact", lambda: self._compare_pair(texts))
        await self._count("reconcile", lambda: self._reconcile_fact(texts, turn_id))
        turns = self._app.turn_memory
        conversation = Conversation(USER, thread)
        await turns.turns.put_turn(self._principal, conversation, NewTurn("turn_1", texts.said, texts.answer))
        to_sum, to_read = TurnToSummarise("turn_1"), TurnToReconcile("turn_1")
        await self._count("turn_summary", lambda: turns.summarise.summarise_turn(self._principal, conversation, to_sum))
        await self._count(
            "ctx_reconciler", lambda: turns.reconcile.reconcile_turn(self._principal, conversation, to_read)
        )

    async def _count(self, name: str, work: Work) -> None:
        try:
            await work()
        except MnemaError as error:
            self.results[f"{name} {error.code}"] += 1
        else:
            self.results[f"{name} ok"] += 1

    async def _store_turn(self, texts: Texts, thread: str) -> UUID:
        turn = NewMemory(USER, "activity", texts.said, MemoryType.turn, thread_id=thread, role="user", seq=1)
        stored = await self._app.memory.turns.store_turn(self._principal, turn)
        if stored.id is None:
            raise RuntimeError("the turn was not stored")
        return stored.id

    async def _store_memory(self, text: str, type_: MemoryType = MemoryType.semantic) -> None:
        category = "activity" if type_ is MemoryType.episodic else "profile"
        await self._app.memory.write.write_memory(self._principal, NewMemory(USER, category, text, type_))

    def _open_gateway(self) -> ModelGateway:
        """Return a gateway as a new worker has it: it does not know yet that the model failed a probe."""
        parts = self._app.parts
        return build_model_gateway(parts.uow, parts.journal, parts.chat, parts.policies.defaults, parts.clock)

    def _open_writer(self) -> GeneratedMemoryWriter:
        parts = self._app.parts
        cursor = ReadCursor(parts.uow, ReflectionStorage(parts.space.name), parts.policies, parts.clock)
        return GeneratedMemoryWriter(cursor, parts.journal, parts.embedder)

    async def _read_episode(self, thread: str) -> None:
        episodes = CaptureEpisodes(self._open_gateway(), self._open_writer())
        await episodes.read_thread(self._principal, USER, thread, again=True)

    async def _read_summary(self, thread: str) -> None:
        summaries = SummariseThreads(self._open_gateway(), self._open_writer())
        await summaries.read_thread(self._principal, USER, thread, again=True)

    async def _draw_insights(self, texts: Texts) -> None:
        """Draw insights as a dry run, since a user's are drawn once a day."""
        await self._store_memory(texts.episode, MemoryType.episodic)
        consent = ProposeProfileFields(self._app.consent.proposals, self._app.parts.policies)
        insights = DrawInsights(self._open_gateway(), self._open_writer(), consent)
        await insights.draw_for_user(self._principal, USER, dry_run=True)

    async def _compare_pair(self, texts: Texts) -> None:
        for text in texts.pair:
            await self._store_memory(text)
        await self._app.consolidation.consolidate_users(self._principal, user_id=USER)

    async def _reconcile_fact(self, texts: Texts, turn_id: UUID) -> None:
        """Reconcile the fact of the turn with the memory that it corrects."""
        await self._store_memory(texts.before)
        parts = self._app.parts
        space = parts.space.name
        storage = TurnFactStorage(parts.uow, MemoryStorage(parts.uow, space))
        state = await storage.load_state(self._principal, turn_id, start_of_day(parts.clock.now()), ROUTE)
        if state.turn is None:
            raise RuntimeError("the turn was not found")
        near = ReconcileStorage(parts.uow, space)
        write = self._app.memory.write
        reconcile = Reconcile(self._open_gateway(), write, near, parts.journal, parts.policies, parts.clock)
        draft = NewMemory(USER, "profile", texts.fact)
        await reconcile.decide_writes(self._principal, state.turn, {0: draft}, None, 1)
