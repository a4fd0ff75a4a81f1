"""The hint of an error about an unknown name: the known name that was probably meant."""

from collections.abc import Iterable
from difflib import get_close_matches

MAX_NAME_CHARS = 60
"""Characters of an unknown name that are compared and repeated in the answer."""


def nearest_hint(name: str, known: Iterable[str]) -> str | None:
    """Return a question that has the known name nearest to `name`, None if no name is near."""
    near = get_close_matches(name[:MAX_NAME_CHARS], sorted(known), 1)
    return f"did you mean {near[0]!r}?" if near else None
