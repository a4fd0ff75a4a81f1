"""The words of the API in plain English, one table for all pages. A word that is not here is shown as the API has it.

Each entry has the text and, if it says good, warning or bad, the colour of its mark.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from mnema_wire.limits import SHARED_USER

from console.texts import shorten_text

LONGEST_WORD = 60
KEY_USER = re.compile("key-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The user of chats that name none: the key that they come with."""


class Word(NamedTuple):
    """A word as people read it. `mark`: its colour; "": none."""

    text: str
    mark: Literal["", "good", "warn", "bad"] = ""


Words = Mapping[str, Word]


def _plain(**texts: str) -> Words:
    return MappingProxyType({name: Word(text) for name, text in texts.items()})


MEMORY_STATES: Words = {
    "active": Word("Active", "good"),
    "superseded": Word("Was true; no longer", "warn"),
    "retracted": Word("Was wrong", "bad"),
    "expired": Word("Expired", "warn"),
    "soft_deleted": Word("In the bin", "bad"),
}
MEMORY_TYPES = _plain(
    semantic="Statement",
    episodic="Episode",
    procedural="How-to",
    insight="Insight",
    turn="Turn",
    summary="Summary",
    chunk="Part of a document",
)
ORIGINS = _plain(
    api="Written by a client",
    mirror="Markdown mirror",
    **{"import": "Imported"},
    turn="Turn of a client",
    chat="Chat",
    capture="Learnt from a turn",
    facts="States facts",
    reflection="Written by a model about several memories",
    document="File of a source",
)
CHANGES = _plain(
    ADD="created",
    UPDATE="changed",
    DELETE="moved to the bin",
    MERGE="merged",
    LINK="linked to others",
    TTL="aged out",
    RESTORE="restored",
    PURGE="deleted for good",
    CONSENT="changed by a consent",
)
"""Events of a memory's history."""
FACT_ACTIONS = _plain(store="stated", update="changed", remove="deleted")
JOB_STATES: Words = {
    "queued": Word("Waiting"),
    "running": Word("Running", "warn"),
    "done": Word("Done", "good"),
    "failed": Word("Failed", "bad"),
    "dead": Word("Failed for good", "bad"),
}
"""States of background jobs, and of index jobs."""
JOB_KINDS = _plain(
    ttl="Move aged memories to the bin",
    purge="Empty the bin",
    evict="Keep to the limit of memories",
    retention="Delete what is too old to keep",
    consolidate="Merge memories that say the same",
    consent="Let old proposals expire",
    after_turn="Follow up a turn",
    reflect_turn="Learn from a turn",
    reflect="Reflect on what is known",
    same_fact="Compare two memories",
    embed="Make missing vectors",
    blobs="Delete unused files",
    memory_reconcile="Bring the memory of a conversation up to date",
    index_source="Index a source",
    turn_chunks="Cut a long turn into parts",
)
OPERATIONS = MappingProxyType(
    {
        **JOB_KINDS,
        **_plain(
            create="Write",
            update="Change",
            delete="Move to the bin",
            restore="Restore",
            recreate="Write again",
            search="Search",
            list="List",
            put="Store an item",
            merge="Merge",
            link="Relate memories",
            classify="Examine a new text",
            capture="Look for memories in a turn",
            extract="Take a memory from a turn",
            insight="Guess about the user",
            summary="Summarise a thread",
            reconcile="Bring a conversation up to date",
            llm="Call of the chat model",
            ttl="Age out",
            purge="Delete for good",
            embed="Make a vector",
            rate_limit="Too many requests",
            quota="Limit of memories reached",
            fact_answer="Answer from a fact",
            fact_store="State a fact",
            fact_update="Change a fact",
            fact_remove="Delete a fact",
        ),
    }
)
"""Operations of events. The event of a failed job has the job's kind."""
PARTS = _plain(hotpath="Answers and writes", context="Context", episodic="Episodes", worker="Background work")
OUTCOMES: Words = {"ok": Word("Done", "good"), "error": Word("Failed", "bad"), "skipped": Word("Skipped", "warn")}
SOURCE_STATES: Words = {
    "ready": Word("Ready", "good"),
    "indexing": Word("Indexing", "warn"),
    "failed": Word("Failed", "bad"),
    "removing": Word("Being removed", "warn"),
}
FILE_STATES: Words = {
    "rejected": Word("Rejected", "bad"),
    "waiting": Word("Waiting"),
    "indexed": Word("Indexed", "good"),
}
INDEX_KINDS = _plain(sync="Index", removal="Remove")
INDEX_CAUSES = _plain(
    added="the source was added",
    request="somebody asked for it",
    upload="a file was uploaded",
    watch="a file changed",
    schedule="by schedule",
    removed="the source was removed",
)
DROP_REASONS = _plain(
    threshold="less similar to the question than most",
    score_threshold="scored too low",
    rag_length="its category has enough items already",
    rank="others scored higher",
    diversity="too close to an item that is in",
    relevance="unlikely to help",
    question="a question itself, no statement",
    duplicate="says the same as an item that is in",
    budget="no room left in the answer",
)
"""Reasons that keep a candidate out of an answer."""
SCORE_PARTS = _plain(
    dense="its meaning is close to the question's",
    lexical="it has words of the question",
    late="its words match the question's one by one",
    context="it fits what was said before",
    top_words="it has the rarest words of the question",
    rerank="the reranker found that it answers",
    relevance="it is likely to help",
    recency="it is recent",
    importance="it is important",
    pinned="it is pinned",
    relation="it is related to another match",
    thread="it is of this thread",
    insight="it is an insight",
)
"""Reasons for an item, by the part of its score."""
LEFT_REASONS = _plain(
    unchanged="had it already",
    chunk="part of a document",
    fact_memory="of a fact",
    procedural="a how-to, which stays in its category",
    duplicate_text="would say the same as another one",
    too_many_tags="would have too many tags",
    metadata_too_large="would have too much metadata",
    changed="changed since",
    undone="undone before",
    unknown_category="of a category that is gone",
)
"""Reasons that a batch left a memory as it was."""
DELIVERY_STATES: Words = {
    "pending": Word("Waiting", "warn"),
    "delivered": Word("Delivered", "good"),
    "dead": Word("Failed for good", "bad"),
}
PROPOSAL_STATES: Words = {
    "pending": Word("Waiting for a decision", "warn"),
    "approved": Word("Approved", "good"),
    "rejected": Word("Rejected", "bad"),
    "applied": Word("Applied without a question", "good"),
    "expired": Word("Expired"),
}
CHECKS = _plain(
    database="Database",
    locks="Locked tables",
    chat_spool="Turns of chats on disk",
    clock="Clocks",
    migrations="Database schema",
    role="Rights in the database",
    embedding_space="Vectors in the database",
    secret="Secret key",
    embedder="Embedding model",
    reranker="Reranker",
    llm="Chat model",
    blobs="File store",
    broker="Message broker (Redis)",
    workers="Workers",
    pauses="Paused jobs",
)
"""The checks of the server's readiness."""
HEALTH: Words = {
    "ready": Word("Ready", "good"),
    "degraded": Word("Degraded", "warn"),
    "unavailable": Word("Unavailable", "bad"),
}


def explain_user(user_id: str) -> str:
    """Return what a user is that is no person; "" for a person."""
    if user_id == SHARED_USER:
        return "shared by all users"
    return "chats of a key without a user" if KEY_USER.fullmatch(user_id) else ""


def name_word(words: Words, raw: str) -> str:
    """Return the plain name of a word of the API; a text that people may safely see."""
    known = words.get(raw)
    return known.text if known else shorten_text(raw.replace("_", " "), LONGEST_WORD)


def name_choices(words: Words, everything: str, *more: str) -> dict[str, str]:
    """Return the choices of a filter: "" for `everything`, then each word. `more`: words that must be among them."""
    raw = [*words, *(word for word in more if word and word not in words)]
    return {"": everything, **{word: name_word(words, word) for word in raw}}
