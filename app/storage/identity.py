"""Ids made by the application: UUIDv7, which sort by time."""

from uuid import UUID

from uuid_utils import compat


def new_id() -> UUID:
    """Return a new UUIDv7."""
    return compat.uuid7()
