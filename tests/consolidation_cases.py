"""Memories and pairs for tests of consolidation, made by hand and by Hypothesis."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from app.domain.consolidation.comparison import ConsolidationPolicy, Pair
from app.domain.memory.memory import Memory, MemoryState, MemoryType
from app.domain.memory.merge_bands import MergeBands

NOW = datetime(2026, 4, 1, 3, tzinfo=UTC)
POLICY = ConsolidationPolicy()
BANDS = MergeBands()
NUMERIC = ("goals",)


def memory(number: int, text: str = "The user keeps bees", *, age: float = 1, **fields: Any) -> Memory:
    """Return a memory that is that many days old."""
    born = NOW - timedelta(days=age)
    values: dict[str, Any] = {
        "user_id": "ana",
        "category": "profile",
        "type": MemoryType.semantic,
        "importance": 2,
        "pinned": False,
        "tags": (),
        "state": MemoryState.active,
        "version": 1,
        "created_at": born,
        "updated_at": born,
    }
    return Memory(id=UUID(int=number), text=text, **(values | fields))


def all_pairs(memories: Sequence[Memory], score: float = 0.8) -> list[Pair]:
    """Return every two memories of one user and category."""
    return [
        Pair(a, b, score) for a, b in combinations(memories, 2) if (a.user_id, a.category) == (b.user_id, b.category)
    ]


TEXTS = [
    *("Likes tea", "The user likes tea", "Likes tea and milk", "Likes milk and tea", "Likes tea and rum", "Likes rum"),
    *("Does not like tea", "Likes a small tea", "Runs 3 km", "The user runs 4 km", "Runs 5 km", "Ana manages Bob"),
    *("Bob manages Ana", "Keeps bees", "红酒"),
]
INSTANTS = st.integers(0, 120).map(lambda days: NOW - timedelta(days=days))


@st.composite
def memories(draw: st.DrawFn) -> list[Memory]:
    """Draw a few memories of two users."""
    return [
        memory(
            number,
            draw(st.sampled_from(TEXTS)),
            user_id=draw(st.sampled_from(["ana", "ben"])),
            category=draw(st.sampled_from(["goals", "profile"])),
            importance=draw(st.integers(1, 5)),
            pinned=draw(st.booleans()),
            tags=tuple(draw(st.lists(st.sampled_from("abc"), unique=True))),
            created_at=(born := draw(INSTANTS)),
            updated_at=max(born, draw(INSTANTS)),
            hits=draw(st.integers(0, 9)),
        )
        for number in range(draw(st.integers(2, 9)))
    ]


@st.composite
def scored(draw: st.DrawFn) -> list[Pair]:
    """Draw pairs of some memories, in either order, with any cosine."""
    found = [Pair(a, b, draw(st.floats(-0.1, 1.01))) for a, b in combinations(draw(memories()), 2)]
    return [Pair(one.second, one.first, one.score) if draw(st.booleans()) else one for one in found]
