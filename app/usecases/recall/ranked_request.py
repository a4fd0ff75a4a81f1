"""The fields of a request that ranking reads."""

from datetime import tzinfo
from typing import Any, Protocol

from app.domain.filters import Filters


class RankedRequest(Protocol):
    """The fields of a request that ranking reads. None means the default of the configuration."""

    @property
    def query(self) -> str:
        """The text to rank for."""
        ...

    @property
    def filters(self) -> Filters:
        """The conditions on memories."""
        ...

    @property
    def left_out(self) -> dict[str, Any] | None:
        """Further conditions for the database function `memory_matches()`."""
        ...

    @property
    def top_k(self) -> int | None:
        """The number of items wanted."""
        ...

    @property
    def profile(self) -> str | None:
        """The name of the ranking profile."""
        ...

    @property
    def threshold(self) -> float | None:
        """The minimum cosine similarity; None: no minimum."""
        ...

    @property
    def min_relevance(self) -> float | None:
        """The minimum relevance of an item."""
        ...

    @property
    def thread_id(self) -> str | None:
        """The thread that decides near ties."""
        ...

    @property
    def zone(self) -> tzinfo:
        """The time zone of times that the text names."""
        ...
