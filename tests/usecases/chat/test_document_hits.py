"""Chunks in a chat: they have slots of their own, those of both scopes answer, and each answers once."""

from collections import Counter

from app.bootstrap import Application
from app.domain.chat.memories import RetrievalOptions
from app.domain.memory.memory import MemoryType
from tests.factories import Caller, draft
from tests.placed_chunks import store_document

FERRY = "When does the harbour ferry leave?"
OPTIONS = RetrievalOptions(top_k=5, recency_weight=0.0, score_threshold=0.0)


async def test_chunks_of_both_scopes_answer_once_beside_memories(app: Application, caller: Caller) -> None:
    text = "The harbour ferry leaves at noon.\n\nThe ticket office of the ferry closes at nine."
    await store_document(app, caller.scope, text, path="docs/guide.md", heading=("Lisbon", "Ferry"), page=3)
    own = draft(
        "The night ferry leaves the harbour at two.", thread_id="c1", category="knowledge", type=MemoryType.chunk
    )
    fact = draft("Maya takes the harbour ferry.", category="knowledge", type=MemoryType.episodic)
    turn = draft("I missed the harbour ferry.", thread_id="c1", category="activity", type=MemoryType.turn, role="user")
    for memory in (own, fact, turn):
        await app.memory.write.write_memory(caller.scope, memory)
    everywhere = [
        "docs/guide.md, page 3, Lisbon > Ferry: The harbour ferry leaves at noon.",
        "docs/guide.md, page 3, Lisbon > Ferry: The ticket office of the ferry closes at nine.",
        fact.text,
    ]
    for conversation, texts in (("c1", [*everywhere, own.text, turn.text]), ("global", everywhere)):
        found = await app.chat.retrieve.retrieve_memories(caller.scope, "maya", conversation, FERRY, OPTIONS)
        assert Counter(hit.content for hit in found.hits) == Counter(texts)
