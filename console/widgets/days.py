"""Days that a person chooses in a date field."""

from datetime import UTC, date, datetime, time, timedelta

DAY = timedelta(days=1)


def read_end_of_day(value: str | None) -> datetime | None:
    """Return the end of a day such as `2027-01-31` in UTC; None for no day. Raise ValueError for anything else."""
    if not value:
        return None
    try:
        return datetime.combine(date.fromisoformat(value) + DAY, time(), UTC)
    except OverflowError as error:  # the last day of the calendar
        raise ValueError(value) from error
