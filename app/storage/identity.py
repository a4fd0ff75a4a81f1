"""Ids, made by the application: UUIDv7, so that they sort by time."""

from uuid import UUID

from uuid_utils import compat


def new_id() -> UUID:
    """A new UUIDv7."""
    return compat.uuid7()
