"""The system clock."""

from datetime import UTC, datetime


class SystemClock:
    """The operating system's clock."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware, in UTC."""
        return datetime.now(UTC)
