"""Times as people read them: the distance from now, and the exact time in UTC."""

from datetime import UTC, datetime, timedelta
from typing import Final

FRESH: Final = timedelta(seconds=45)
STEPS: Final = (
    (timedelta(days=365), "year"),
    (timedelta(days=30), "month"),
    (timedelta(days=1), "day"),
    (timedelta(hours=1), "hour"),
    (timedelta(minutes=1), "minute"),
)
"""The units of a distance, the longest first."""


def format_time(moment: datetime | None) -> str:
    """Return a time such as `2026-11-23 08:30 UTC`; "never" for None."""
    return "never" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def format_distance(moment: datetime | None, now: datetime) -> str:
    """Return the distance of a time from now, such as `3 hours ago` or `in 2 days`; "never" for None."""
    if moment is None:
        return "never"
    distance = abs(moment - now)
    if distance < FRESH:
        return "just now"
    unit, name = next((step for step in STEPS if distance >= step[0]), STEPS[-1])
    count = max(1, distance // unit)
    words = f"{count} {name}" if count == 1 else f"{count} {name}s"
    return f"{words} ago" if moment <= now else f"in {words}"
