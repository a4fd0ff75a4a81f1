"""Days of limits: they begin at midnight UTC."""

from datetime import datetime, timedelta


def start_of_day(now: datetime) -> datetime:
    """Return the midnight at which the day of `now`, a time in UTC, began."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def start_of_next_day(now: datetime) -> datetime:
    """Return the midnight at which the day of `now`, a time in UTC, ends."""
    return start_of_day(now) + timedelta(days=1)
