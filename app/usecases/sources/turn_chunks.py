"""Chunks of long turns: a query finds the part of a long message that answers it."""

from dataclasses import dataclass, replace
from uuid import UUID

from app.domain.memory.memory import Memory, MemoryState, MemoryType, NewMemory, Origin
from app.domain.principal import Principal
from app.domain.sources.document import Chunk, join_heading
from app.domain.sources.rejection import Rejection
from app.domain.sources.source_policy import SourcePolicy
from app.source_ports import DocumentParser
from app.storage.identity import new_id
from app.storage.journal import Journal
from app.storage.memory.memories import MemoryStorage
from app.storage.sources.files import FileStorage
from app.storage.uow import UnitOfWork
from app.usecases.sources.embed_chunks import EmbedChunks, create_chunk

NAME = "turn.md"
"""The name under which the parser gets a turn's text: people and models write Markdown."""


@dataclass(frozen=True)
class CutTurns:
    """The use-case that cuts long turns into chunks. The database deletes the chunks when the turn's text goes."""

    uow: UnitOfWork
    memories: MemoryStorage
    files: FileStorage
    journal: Journal
    parser: DocumentParser
    embed: EmbedChunks
    policy: SourcePolicy

    async def cut_turn(self, principal: Principal, memory_id: UUID) -> int:
        """Store the chunks of a turn longer than `turn_characters`, unless it has some. Return how many.

        A turn that is not active, or changes meanwhile, gets none. Raise EmbedderUnavailable.
        """
        async with self.uow.read(principal) as tx:
            turn = await self.memories.get_memory(tx, principal, memory_id)
            if turn is None or not self._is_long(turn) or await self.files.has_chunks(tx, principal, memory_id):
                return 0
        parsed = await self.parser.parse_document(turn.text.encode(), NAME, self.policy.parsing)
        if isinstance(parsed, Rejection):
            return 0
        return await self._store_chunks(principal, turn, parsed.chunks)

    def _is_long(self, turn: Memory) -> bool:
        is_turn = turn.type is MemoryType.turn and turn.state is MemoryState.active
        return is_turn and len(turn.text) > self.policy.turn_characters

    async def _store_chunks(self, principal: Principal, turn: Memory, chunks: tuple[Chunk, ...]) -> int:
        new = NewMemory(
            user_id=turn.user_id,
            category=turn.category,
            text="",
            type=MemoryType.chunk,
            thread_id=turn.thread_id,
            agent_id=turn.agent_id,
            run_id=turn.run_id,
            actor_id=turn.actor_id,
            role=turn.role,
            created_at=turn.created_at,
            origin=turn.origin or Origin.turn,
        )
        memories = [replace(new, text=chunk.text, source=_chunk_source(turn, chunk)) for chunk in chunks]
        embeddings = await self.embed.embed_memories(memories)
        placed = [(new_id(), chunk) for chunk in chunks]
        rows = zip(placed, memories, embeddings, strict=True)
        changes = [create_chunk(chunk_id, memory, principal.actor_name, v) for (chunk_id, _), memory, v in rows]
        async with self.uow.write(principal) as tx:
            if not await self.files.lock_turn(tx, principal, turn.id, turn.user_id, turn.version):
                return 0
            await self.journal.record(principal, changes, tx=tx)
            await self.files.place_chunks(tx, principal, placed, turn_id=turn.id)
        return len(chunks)


def _chunk_source(turn: Memory, chunk: Chunk) -> dict[str, str]:
    return {"turn_id": str(turn.id)} | ({"heading": join_heading(chunk.heading)} if chunk.heading else {})
