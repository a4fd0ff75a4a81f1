"""The builder of the capability `chat`: the endpoint that remembers, its memories and its upstreams."""

from dataclasses import dataclass

from app.bootstrap.facts import FactUseCases, build_fact_memories
from app.bootstrap.memory import MemoryUseCases
from app.bootstrap.parts import SharedParts
from app.bootstrap.recall import build_instructions, build_ranking
from app.bootstrap.upstreams import build_key_cipher, build_upstreams
from app.ports import TurnSpool, UpstreamClient
from app.providers.file_turn_spool import FileTurnSpool
from app.storage.chat.conversations import ConversationStorage
from app.storage.chat.turns import ChatTurnStorage
from app.storage.facts.facts import FactStorage
from app.storage.recall.chunks import ChunkReader
from app.storage.recall.search import SearchStorage
from app.storage.recall.threads import ThreadStorage
from app.storage.reflection.transcripts import ReflectionStorage
from app.storage.turn_memory.artifacts import ArtifactRetention
from app.usecases.chat.chat import ChatWithMemory
from app.usecases.chat.conversations import Conversations
from app.usecases.chat.kept_turns import KeptTurns
from app.usecases.chat.retrieval import ReadSummary, RetrieveForChat
from app.usecases.chat.upstreams import FindUpstream
from app.usecases.recall.chunks import FindChunks
from app.usecases.retention.forgetting import ForgetMemories


@dataclass(frozen=True, slots=True)
class ChatUseCases:
    """The use-cases of the capability, and the client of its upstreams."""

    memory: ChatWithMemory
    kept: KeptTurns
    retrieve: RetrieveForChat
    conversations: Conversations
    upstreams: FindUpstream
    client: UpstreamClient


def build_retrieval(parts: SharedParts) -> RetrieveForChat:
    """Build the use-case that retrieves memories for a chat."""
    search = SearchStorage(parts.space.name)
    threads = ThreadStorage()
    ranking = build_ranking(parts)
    chunks = FindChunks(ChunkReader())
    summaries = _build_summaries(parts)
    instructions = build_instructions(parts)
    return RetrieveForChat(
        parts.uow, search, threads, chunks, ranking, summaries, parts.access, parts.policies, instructions
    )


def build_conversations(parts: SharedParts, forgetting: ForgetMemories) -> Conversations:
    """Build the use-cases that read and delete conversations."""
    return Conversations(
        uow=parts.uow,
        storage=ConversationStorage(),
        summaries=_build_summaries(parts),
        facts=FactStorage(parts.uow),
        artifacts=ArtifactRetention(parts.uow),
        forgetting=forgetting,
        journal=parts.journal,
        fact_memories=build_fact_memories(parts),
        policies=parts.policies,
        clock=parts.clock,
    )


def build_turn_spool(parts: SharedParts) -> FileTurnSpool:
    """Build the file of turns that wait for the database. It is made on first use."""
    settings = parts.settings
    folder = settings.chat_spool or settings.home
    cipher = build_key_cipher(settings)
    return FileTurnSpool(folder / "chat_turns.sqlite", settings.chat_spool_bytes, cipher.of_kept_turns)


def build_kept_turns(parts: SharedParts, memory: MemoryUseCases, spool: TurnSpool) -> KeptTurns:
    """Build the use-case that keeps turns on this server's disk while the database is away."""
    kept = KeptTurns(spool, memory.turns, ChatTurnStorage(parts.uow), parts.policies, parts.clock)
    register = parts.metrics.register_collector
    register("gauge", "mnema_chat_turns_waiting", "Turns of chats on disk.", lambda: [((), spool.waiting_count)])
    register("counter", "mnema_chat_turns_lost", "Turns neither stored nor kept.", lambda: [((), kept.lost_count)])
    return kept


def build_chat(
    parts: SharedParts, memory: MemoryUseCases, facts: FactUseCases, forgetting: ForgetMemories, kept: KeptTurns
) -> ChatUseCases:
    """Build the use-cases of chat. Raise ConfigError for an invalid endpoint of the installation."""
    retrieve = build_retrieval(parts)
    return ChatUseCases(
        memory=ChatWithMemory(memory.turns, kept, facts.answer, retrieve, parts.embedder, parts.policies, parts.clock),
        kept=kept,
        retrieve=retrieve,
        conversations=build_conversations(parts, forgetting),
        upstreams=build_upstreams(parts),
        client=parts.upstream,
    )


def _build_summaries(parts: SharedParts) -> ReadSummary:
    return ReadSummary(ReflectionStorage(parts.space.name), parts.policies)
