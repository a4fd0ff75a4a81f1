"""Candidates of a ranking."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from app.domain.memory.memory import MemoryType
from app.domain.recall.candidates import Candidate

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def candidate(
    number: int, age_days: float = 0.0, category: str = "event", importance: int = 2, **fields: object
) -> Candidate:
    """A memory last changed so many days ago."""
    at = NOW - timedelta(days=age_days)
    base = Candidate(UUID(int=number), category, MemoryType.semantic, importance, False, at, at)
    return base._replace(**fields)
