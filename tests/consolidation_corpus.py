"""The labelled memories and pairs of bench/consolidation_corpus.jsonl, as domain objects.

The labels were written and committed before any rule ran on them, and none was changed to suit a rule. "duplicate": one
fact of one user; `needs_model`: no rule about words alone can detect it. "different": two facts that look alike. Two
memories without a label are two facts.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from app.domain.memory.memory import Memory, MemoryState, MemoryType

CORPUS_FILE = Path(__file__).resolve().parents[1] / "bench" / "consolidation_corpus.jsonl"
NOW = datetime(2026, 4, 1, 3, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Labelled:
    """Two memories, the label that says if they are one fact, and the difficulty of the pair."""

    first: Memory
    second: Memory
    duplicate: bool
    kind: str
    needs_model: bool

    @property
    def ids(self) -> frozenset[UUID]:
        """Both ids, without an order."""
        return frozenset((self.first.id, self.second.id))


@dataclass(frozen=True, slots=True)
class Corpus:
    """All memories in the order of the file, and all labelled pairs."""

    memories: Sequence[Memory]
    pairs: Sequence[Labelled]

    @property
    def duplicates(self) -> list[Labelled]:
        """The pairs of one fact."""
        return [pair for pair in self.pairs if pair.duplicate]

    @property
    def decidable(self) -> list[Labelled]:
        """The pairs of one fact that the deterministic rule should find."""
        return [pair for pair in self.duplicates if not pair.needs_model]

    @property
    def different(self) -> list[Labelled]:
        """The pairs of two facts that look alike."""
        return [pair for pair in self.pairs if not pair.duplicate]


def load_corpus(now: datetime = NOW) -> Corpus:
    """Return the corpus; the ages of its memories are relative to `now`."""
    rows = [json.loads(line) for line in CORPUS_FILE.read_text(encoding="utf-8").splitlines()]
    memories = {
        row["id"]: Memory(
            id=UUID(int=int(row["id"].removeprefix("m"))),
            user_id=row["user"],
            category=row["category"],
            text=row["text"],
            type=MemoryType.semantic,
            importance=row["importance"],
            pinned=False,
            tags=(),
            state=MemoryState.active,
            version=1,
            created_at=now - timedelta(days=row["days_old"]),
            updated_at=now - timedelta(days=row["days_old"]),
            hits=row["hits"],
        )
        for row in rows
        if "id" in row
    }
    pairs = [
        Labelled(
            first=memories[row["pair"][0]],
            second=memories[row["pair"][1]],
            duplicate={"duplicate": True, "different": False}[row["label"]],
            kind=row["kind"],
            needs_model=row["needs_model"],
        )
        for row in rows
        if "pair" in row
    ]
    return Corpus(list(memories.values()), pairs)
