"""Baselines on the same stored units: BM25, vectors alone, and both by reciprocal rank fusion."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import asyncpg

from bench.bm25 import Bm25
from bench.evaluation.asking import Asker, Row, measure_ranking
from bench.evaluation.data import Conversation, Question
from bench.evaluation.storing import StoredUnits

BM25: Final = "bm25"
VECTORS: Final = "vectors"
FUSED: Final = "rrf"
BASELINES: Final = (BM25, VECTORS, FUSED)
VECTORS_PROFILE: Final = "dense"
DEEPEST: Final = 50
"""The items of each ranking that are fused."""
FUSION_K: Final = 60
"""The constant of reciprocal rank fusion (Cormack, Clarke and Büttcher 2009)."""
_STORED_WORDS: Final = """
SELECT m.id, w.lexeme, coalesce(cardinality(w.positions), 0) AS count
FROM memories m, unnest(m.tsv) w WHERE m.id = ANY ($1::uuid[])
"""
_QUESTION_WORDS: Final = "SELECT tsvector_to_array(to_tsvector('english', searched_text($1)))"


class WordIndex:
    """BM25 over the words of a conversation's memories, stemmed by PostgreSQL as they are for Mnema's search."""

    def __init__(self, sql: asyncpg.Connection, units: Sequence[set[str]], words: Sequence[Counter[str]]) -> None:
        self._sql = sql
        self._units = units
        self._bm25 = Bm25(words)

    @classmethod
    async def load_words(cls, sql: asyncpg.Connection, stored: StoredUnits) -> "WordIndex":
        """Return the index of the stored memories. Words without a place are marks of the owner and do not count."""
        words: dict[object, Counter[str]] = {id_: Counter() for id_ in stored.units_of}
        for row in await sql.fetch(_STORED_WORDS, list(words)):
            if row["count"]:
                words[row["id"]][row["lexeme"]] = row["count"]
        return cls(sql, list(stored.units_of.values()), list(words.values()))

    async def rank_units(self, question: Question) -> list[set[str]]:
        """Return the units of the best memories that share a word with the question, best first."""
        words = await self._sql.fetchval(_QUESTION_WORDS, question.text)
        return [self._units[at] for at in self._bm25.best_texts(words, DEEPEST)]


def fuse_rankings(*rankings: Sequence[set[str]]) -> list[set[str]]:
    """Return the items of all rankings by the sum of 1 / (60 + place)."""
    scores: dict[frozenset[str], float] = {}
    for ranking in rankings:
        for place, units in enumerate(ranking, start=1):
            key = frozenset(units)
            scores[key] = scores.get(key, 0.0) + 1 / (FUSION_K + place)
    return [set(key) for key in sorted(scores, key=lambda key: -scores[key])]


async def ask_baselines(
    names: Sequence[str],
    sql: asyncpg.Connection,
    dense: Asker,
    pairs: Sequence[tuple[Conversation, StoredUnits]],
    depth: int,
) -> dict[str, list[Row]]:
    """Rank the units for every answerable question. `dense` asks with the profile VECTORS_PROFILE and DEEPEST items."""
    rows: dict[str, list[Row]] = {name: [] for name in names}
    for conversation, stored in pairs:
        asked = [one for one in conversation.questions if one.evidence]
        index = await WordIndex.load_words(sql, stored) if asked and {BM25, FUSED} & rows.keys() else None
        for question in asked:
            found: dict[str, list[set[str]]] = {}
            if index is not None:
                found[BM25] = await index.rank_units(question)
            if {VECTORS, FUSED} & rows.keys():
                found[VECTORS] = await dense.rank_units(conversation, stored, question)
            if FUSED in rows:
                found[FUSED] = fuse_rankings(found[BM25], found[VECTORS])
            for name in names:
                values = measure_ranking(question.evidence, found[name], depth)
                row = Row(conversation.id, question.place, question.kind, len(question.evidence), values)
                rows[name].append(row)
    return rows
