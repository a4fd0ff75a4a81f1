"""Conversations: the user whose memory a chat has."""

from app.domain.principal import Principal


def default_user(principal: Principal) -> str:
    """Return the user of a chat that names none: one of the API key's own."""
    return f"key-{principal.key_id}"
