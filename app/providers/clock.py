"""The machine's clock."""

from datetime import UTC, datetime


class SystemClock:
    """Clock of the operating system."""

    def now(self) -> datetime:
        """The present instant, timezone-aware UTC."""
        return datetime.now(UTC)
