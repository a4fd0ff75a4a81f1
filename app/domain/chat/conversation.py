"""Conversations: the user whose memory a chat has."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

from app.domain.errors import InvalidInput, RepeatedHeader
from app.domain.ids import check_identifier
from app.domain.principal import Principal

_ENCODED_NAME: Final = "X-OpenWebUI-User-Name"
USER_HEADERS: Final = ("X-OpenWebUI-User-Id", "X-OpenWebUI-User-Email", _ENCODED_NAME)
"""The headers in which Open WebUI names its user."""
_USER_HEADERS: Final = {name.lower(): name for name in USER_HEADERS}
USER_SOURCES: Final = ("user", "name", "safety_identifier", "metadata.user_id", *USER_HEADERS)
"""The places of a request that may name the remembered user: fields, the `name` of a user's last message, headers."""


def default_user(principal: Principal) -> str:
    """Return the user of a chat that names none: one of the API key's own."""
    return f"key-{principal.key_id}"


def read_user_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str | list[str]]:
    """Return the users that headers name; a list for a header that appears more than once.

    Open WebUI sends a name with percent signs.
    """
    named: dict[str, list[str]] = {}
    for header, value in headers:
        if (name := _USER_HEADERS.get(header.lower())) is not None:
            named.setdefault(name, []).append(unquote(value) if name == _ENCODED_NAME else value)
    return {name: values if len(values) > 1 else values[0] for name, values in named.items()}


def first_identifier(values: Mapping[str, Any], sources: Sequence[str]) -> str | None:
    """Return the first of the values named `sources` that is an identifier, None without one. Empty is none.

    Raise InvalidInput, which names the source, for another value, and RepeatedHeader for several values of a header.
    """
    for source in sources:
        value = values.get(source)
        if value is None or value == "":
            continue
        if isinstance(value, list) and source in USER_HEADERS:
            raise RepeatedHeader(f"the header {source} names the user and appears more than once", param=source)
        if not isinstance(value, str):
            raise InvalidInput(f"{source} must be a string", param=source)
        try:
            return check_identifier(value)
        except InvalidInput as error:
            raise InvalidInput(f"{source}: {error.detail}", param=source) from error
    return None
